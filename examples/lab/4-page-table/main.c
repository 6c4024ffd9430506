/* Makes a page table, and asks for translations of which it knows the answers. Nothing is to be changed here. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FAULT UINT64_MAX
#define BASE 0x80000000u
#define TABLES 32
#define VALID 1u
#define READ 2u
#define WRITE 4u

static uint64_t memory[TABLES][512];
static int used = 1;

static uint64_t read_entry(uint64_t address) {
    uint64_t at = address - BASE;
    return at < sizeof memory && at % 8 == 0 ? memory[at / 4096][at / 8 % 512] : 0;
}

#include LAB_FILE

/* Puts an entry into the table of a level, and makes the tables above it. */
static void put(uint64_t address, int level, uint64_t entry) {
    int table = 0;
    for (int above = 3; above > level; above--) {
        uint64_t *slot = &memory[table][address >> (12 + 9 * above) & 511];
        if (!*slot)
            *slot = ((uint64_t)BASE + 4096ull * used++) >> 12 << 10 | VALID;
        table = (int)(((*slot >> 10 << 12) - BASE) / 4096);
    }
    memory[table][address >> (12 + 9 * level) & 511] = entry;
}

static uint64_t leaf(uint64_t physical, uint64_t rights) {
    return physical >> 12 << 10 | rights | VALID;
}

static const struct {
    const char *what;
    uint64_t address, physical;
} cases[] = {
    {"a page", 0x0000000012345678, 0x90001678},
    {"its first byte", 0x0000000012345000, 0x90001000},
    {"no entry", 0x0000000012346000, FAULT},
    {"no table", 0x0000123400000000, FAULT},
    {"a page of the upper half", 0xffffffff80001abc, 0xa0000abc},
    {"a large page, 2 MiB", 0x0000000040012345, 0xc0012345},
    {"a large page, 1 GiB", 0x0000008012345678, 0x112345678},
    {"a large page that is not aligned", 0x0000000040200000, FAULT},
    {"writable, not readable", 0x0000000012347000, FAULT},
    {"not canonical", 0x0001000012345678, FAULT},
    {"not canonical, upper half", 0x7fffffff80001abc, FAULT},
    {"a table at the last level", 0x0000000012348000, FAULT},
};

int main(void) {
    int wrong = 0;
    put(0x12345000, 0, leaf(0x90001000, READ));
    put(0x12347000, 0, leaf(0x90002000, WRITE));
    put(0x12348000, 0, (uint64_t)BASE >> 12 << 10 | VALID);
    put(0xffffffff80001000, 0, leaf(0xa0000000, READ | WRITE));
    put(0x40000000, 1, leaf(0xc0000000, READ));
    put(0x40200000, 1, leaf(0xc0001000, READ));
    put(0x8000000000, 2, leaf(0x100000000, READ));
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        uint64_t got = walk(BASE, cases[at].address);
        if (got != cases[at].physical) {
            printf("%s: %#" PRIx64 " is %#" PRIx64 ", not %#" PRIx64 "\n", cases[at].what, cases[at].address, cases[at].physical, got);
            wrong = 1;
        }
    }
    if (!wrong)
        printf("all addresses are translated\n");
    return wrong;
}
