/* As Sv48 has it: a leaf at any level, with the offset of its size. */
static uint64_t walk(uint64_t root, uint64_t address) {
    if ((uint64_t)((int64_t)(address << 16) >> 16) != address)
        return FAULT;
    uint64_t table = root;
    for (int level = 3; level >= 0; level--) {
        uint64_t index = address >> (12 + 9 * level) & 511;
        uint64_t entry = read_entry(table + 8 * index);
        if (!(entry & 1) || (entry & 6) == 4)
            return FAULT;
        uint64_t page = (entry >> 10 & 0xfffffffffff) << 12;
        if (entry & 0xe) {
            uint64_t offset = (1ull << (12 + 9 * level)) - 1;
            return page & offset ? FAULT : page | (address & offset);
        }
        table = page;
    }
    return FAULT;
}
