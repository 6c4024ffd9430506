/* Misuses calls across instruction sets; the argument says how. The kernel must end the process. */
#include <stdint.h>

#include "crossing.h"

/* This instruction set's gate: the address to which a function returns that another instruction set has called. */
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
    __asm__ volatile("" : : : "memory"); /* Used, so that the other instruction sets have a function to call. */
}

/* Returns to an address where nothing is mapped. */
MOTET_ON(RISCV) void lost(void) {
#if defined(__riscv)
    __asm__ volatile("mv ra, %0\n\tret" : : "r"(garbage));
#endif
    __asm__ volatile("" : : : "memory");
}

/* The same on x86-64, where the gate's address is on the stack. */
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

/* Returns twice. The second time, the gate belongs to the outer call. */
MOTET_ON(RISCV) void inner(void) {
    void (*gate)(void) = (void (*)(void))GATE;
    gate();
    __asm__ volatile("" : : : "memory"); /* Without this, the call would be a jump (a tail call), as a return is. */
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
