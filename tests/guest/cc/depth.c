/* A program that looks at its stack, as interpreters and garbage collectors do: deeper frames have lower addresses, on all instruction sets, and
 * all lie between the newest and the oldest, and so do words that callers keep in registers. Linked with -z one-stack. */
#include "crossing.h"

static const char *oldest;
static long depth_max;

/* A word of a frame between here and the oldest. */
static int is_found(const char *newest, unsigned long word) {
    for (const char *at = newest; at < oldest; at += sizeof word) {
        if (*(const volatile unsigned long *)at == word)
            return 1;
    }
    return 0;
}

static long descend(int left, unsigned long hidden);

#define STEP(isa, name)                                                                                                \
    MOTET_ON(isa) static long name(int left, const char *caller, unsigned long hidden) {                               \
        volatile unsigned long kept[4] = {hidden ^ 0x5555, left, 0, hidden + left};                                    \
        const char *here = (const char *)((unsigned long)&kept & ~7ul);                                                \
        if (here >= caller || oldest - here > 1 << 20)                                                                 \
            return -1;                                                                                                 \
        if (oldest - here > depth_max)                                                                                 \
            depth_max = oldest - here;                                                                                 \
        long below = left == 0 ? is_found(here, hidden) : descend(left - 1, hidden);                                   \
        return kept[1] == (unsigned long)left && kept[3] == hidden + left ? below : -2;                                \
    }

STEP(X86, on_x86)
STEP(ARM, on_arm)
STEP(RISCV, on_riscv)

static __attribute__((noinline)) long descend(int left, unsigned long hidden) {
    volatile char here = 0;
    switch (left % 3) {
    case 0:
        return on_x86(left, (const char *)&here + 1, hidden);
    case 1:
        return on_arm(left, (const char *)&here + 1, hidden);
    default:
        return on_riscv(left, (const char *)&here + 1, hidden);
    }
}

/* Finds a word of which only the complement is here. */
#define FIND(isa, name)                                                                                                \
    MOTET_ON(isa) static long name(unsigned long complement) {                                                         \
        volatile unsigned long here = 0;                                                                               \
        if (oldest - (const char *)&here > 1 << 20)                                                                    \
            return -1;                                                                                                 \
        for (const volatile unsigned long *at = &here; (const char *)at < oldest; at++) {                              \
            if (~*at == complement)                                                                                    \
                return 1;                                                                                              \
        }                                                                                                              \
        return 0;                                                                                                      \
    }

/* Keeps the word over the call, in a register if it can. */
#define KEEP(isa, name, find)                                                                                          \
    MOTET_ON(isa) static long name(unsigned long complement) {                                                         \
        unsigned long word = ~complement;                                                                              \
        __asm__ volatile("" : "+r"(word));                                                                             \
        long found = find(complement);                                                                                 \
        __asm__ volatile("" : : "r"(word));                                                                            \
        return found;                                                                                                  \
    }

FIND(X86, find_on_x86)
FIND(ARM, find_on_arm)
FIND(RISCV, find_on_riscv)
KEEP(X86, keep_on_x86, find_on_riscv)
KEEP(ARM, keep_on_arm, find_on_x86)
KEEP(RISCV, keep_on_riscv, find_on_arm)

int main(void) {
    volatile unsigned long hidden = 0x1234567890abcdef;
    oldest = (const char *)(((unsigned long)&hidden & ~7ul) + 64);
    for (int depth = 0; depth < 60; depth += 7)
        printf("%ld\n", descend(depth, hidden));
    printf("%ld\n%ld\n%ld\n", keep_on_x86(0x1111), keep_on_arm(0x2222), keep_on_riscv(0x3333));
    printf("%s\n", depth_max > 1000 && depth_max < 1 << 20 ? "deep" : "not deep");
    return 0;
}
