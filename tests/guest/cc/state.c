// x86-64's extended state, used without asking CPUID first. XGETBV reports AVX; XSAVE and XRSTOR save and restore whole registers.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "migrations.h"

int main(void) {
#if defined __x86_64__
    static uint8_t area[4096] __attribute__((aligned(64)));
    uint8_t ones[32], found[32];
    uint32_t low, high;
    memset(ones, 0xff, sizeof ones);
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    printf("x87, SSE, AVX: %d, moved %d\n", (low & 7) == 7, moves("to_extension") > 0);
    __asm__ volatile("vmovdqu (%[from]), %%ymm5\n"
                     "xsave64 (%[area])\n"
                     "vpxor %%xmm5, %%xmm5, %%xmm5\n"
                     "xrstor64 (%[area])\n"
                     "vmovdqu %%ymm5, (%[to])"
                     :
                     : [from] "r"(ones), [to] "r"(found), [area] "r"(area), "a"(7), "d"(0)
                     : "memory", "xmm5");
    printf("kept %d\n", memcmp(ones, found, sizeof ones) == 0);
#endif
    return 0;
}
