/* For the programs of the test crossing::*: they print the same on the host, where all functions run on one processor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "motet.h"

#define X86 "x86_64"
#define ARM "aarch64"
#define RISCV "riscv64"

/* Fails unless this is the default machine's island with an instruction set, or the host. With MOTET_ONE_ISLAND the machine
 * has one island, which runs all functions. */
static inline void expect_on(const char *isa) {
#ifdef MOTET_ONE_ISLAND
    (void)isa;
    return;
#endif
    static const char *const isas[] = {X86, ARM, RISCV};
    int island = motet_island();
    if (island >= 0 && (island > 2 || strcmp(isas[island], isa) != 0)) {
        printf("a function for %s runs on island %d\n", isa, island);
        exit(99);
    }
}
