/* Jumps (longjmp) out of functions of another instruction set. This is impossible: the kernel must end the process. */
#include <setjmp.h>

#include "crossing.h"

static jmp_buf back;

MOTET_ON(RISCV) void jumps(int value) { expect_on(RISCV); longjmp(back, value); }
MOTET_ON(X86) void between(int value) { expect_on(X86); jumps(value); }

/* The jump is within one instruction set, but skips the call of between() on another one. */
MOTET_ON(RISCV) int skips_a_call(void) {
    int jumped = setjmp(back);
    if (jumped == 0)
        between(1);
    return jumped;
}

int main(int argc, char **argv) {
    (void)argv;
    setvbuf(stdout, 0, _IONBF, 0);
    printf("before\n");
    int jumped = 0;
    if (argc > 1)
        jumped = skips_a_call();
    else if ((jumped = setjmp(back)) == 0)
        jumps(1);
    printf("after %d\n", jumped);
    return 0;
}
