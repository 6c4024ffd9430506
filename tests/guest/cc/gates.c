/* Does with calls across instruction sets what cannot be; the argument says what. The kernel ends the process. */
#include <stdint.h>

#include "crossing.h"

/* Where functions return to that another instruction set has called, on this one. */
#if defined(__x86_64__)
#define GATE 0x7fffbffff240ul
#elif defined(__aarch64__)
#define GATE 0x7fffbffff280ul
#else
#define GATE 0x7fffbffff2c0ul
#endif

static volatile uintptr_t garbage = 0x123456789000ul;

/* Returns with a stack pointer that is not the one it was called with. */
MOTET_ON(RISCV) void crooked(void) {
#if defined(__riscv)
    __asm__ volatile("addi sp, sp, -64\n\tret");
#endif
    __asm__ volatile("" : : : "memory"); /* Or there is nothing to call on the other instruction sets. */
}

/* Returns to where nothing is. */
MOTET_ON(RISCV) void lost(void) {
#if defined(__riscv)
    __asm__ volatile("mv ra, %0\n\tret" : : "r"(garbage));
#endif
    __asm__ volatile("" : : : "memory");
}

/* The same on x86-64, where the address of the gate lies on the stack. */
MOTET_ON(X86) void smashed(void) {
#if defined(__x86_64__)
    volatile uintptr_t *frame = __builtin_frame_address(0);
    frame[1] = garbage;
#endif
    __asm__ volatile("" : : : "memory");
}
MOTET_ON(RISCV) void calls_smashed(void) {
    smashed();
    printf("not reached\n");
}

/* Returns twice: the second time, the gate belongs to the call before. */
MOTET_ON(RISCV) void inner(void) {
    void (*gate)(void) = (void (*)(void))GATE;
    gate();
    __asm__ volatile("" : : : "memory"); /* Or it is a jump, which is how a function returns. */
}
MOTET_ON(ARM) void outer(void) {
    inner();
    printf("not reached\n");
}

MOTET_ON(ARM) int whole(int value) { return value + 1; }

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, 0, _IONBF, 0);
    printf("before\n");
    if (strcmp(what, "crooked") == 0)
        crooked();
    else if (strcmp(what, "lost") == 0)
        lost();
    else if (strcmp(what, "smashed") == 0)
        calls_smashed();
    else if (strcmp(what, "twice") == 0)
        outer();
    else if (strcmp(what, "uncalled") == 0)
        ((void (*)(void))GATE)();
    else if (strcmp(what, "middle") == 0)
        ((int (*)(int))((uintptr_t)whole + 4))(1);
    printf("after\n");
    return 0;
}
