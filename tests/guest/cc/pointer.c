/* Calls a function of another instruction set while the thread pointer is no valid address: the kernel must end the process. With an argument, the
 * called function does so itself, and calls back. */
#include "crossing.h"

#define NO_ADDRESS 0x1234567800000000ul

/* Swaps the register itself. Nothing in between may need a thread pointer. */
static inline unsigned long exchange(unsigned long pointer) {
    unsigned long old;
#if defined(__x86_64__)
    __asm__ volatile("rdfsbase %0; wrfsbase %1" : "=&r"(old) : "r"(pointer));
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, tpidr_el0; msr tpidr_el0, %1" : "=&r"(old) : "r"(pointer));
#else
    __asm__ volatile("mv %0, tp; mv tp, %1" : "=&r"(old) : "r"(pointer));
#endif
    return old;
}

MOTET_ON(X86) long plain_x86(long value) { return value + 1; }
MOTET_ON(ARM) long plain_arm(long value) { return value + 1; }
MOTET_ON(RISCV) long plain_riscv(long value) { return value + 1; }

/* A function that calls another one so. */
#define SPOILT(where, name, next) \
    where long name(void) { \
        unsigned long old = exchange(NO_ADDRESS); \
        long value = plain_##next(1); \
        exchange(old); \
        return value; \
    }

SPOILT(static __attribute__((noinline, used)), spoilt_x86, arm)
SPOILT(static __attribute__((noinline, used)), spoilt_arm, riscv)
SPOILT(static __attribute__((noinline, used)), spoilt_riscv, x86)

/* Called from the instruction set before theirs, which they call back. */
SPOILT(MOTET_ON(ARM), back_from_arm, x86)
SPOILT(MOTET_ON(RISCV), back_from_riscv, arm)
SPOILT(MOTET_ON(X86), back_from_x86, riscv)

int main(int argc, char **argv) {
    (void)argv;
    setvbuf(stdout, 0, _IONBF, 0);
    printf("before\n");
#if defined(__x86_64__)
    printf("after %ld\n", argc > 1 ? back_from_arm() : spoilt_x86());
#elif defined(__aarch64__)
    printf("after %ld\n", argc > 1 ? back_from_riscv() : spoilt_arm());
#else
    printf("after %ld\n", argc > 1 ? back_from_x86() : spoilt_riscv());
#endif
    return 0;
}

