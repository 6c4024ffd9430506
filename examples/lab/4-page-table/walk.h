/*
 * Translates a virtual address by a page table of RISC-V's Sv48, as the hardware does. `read_entry(address)` reads 8 bytes of physical memory.
 * The result is the physical address, or FAULT.
 *
 * An entry: bit 0 valid, 1 readable, 2 writable, 3 executable; bits 10 to 53 are the number of the physical page. An entry that is valid and has none of
 * readable, writable, executable points to a table of the next level. Any other valid entry is a leaf, at whatever level it stands. Virtual addresses have
 * 48 bits: four times 9 bits of index, the topmost first, and 12 bits of offset. Bits 48 to 63 must be copies of bit 47.
 *
 * To do: large pages (leaves above the last level) are translated wrongly, and addresses that are not canonical are let through. A leaf above the last
 * level whose physical page is not aligned to its size is a fault. So is one that is writable but not readable.
 */
static uint64_t walk(uint64_t root, uint64_t address) {
    uint64_t table = root;
    for (int level = 3; level >= 0; level--) {
        uint64_t index = address >> (12 + 9 * level) & 511;
        uint64_t entry = read_entry(table + 8 * index);
        if (!(entry & 1))
            return FAULT;
        uint64_t page = (entry >> 10 & 0xfffffffffff) << 12;
        if (entry & 0xe)
            return page | (address & 0xfff);
        table = page;
    }
    return FAULT;
}
