/* Jumps to a function that has returned, out of one of another instruction set: of the same one as main(), or with an argument, of a third one. */
#include <setjmp.h>

#include "crossing.h"

static jmp_buf back;

MOTET_ON(ARM) int prepares_on_arm(void) { expect_on(ARM); return setjmp(back); }
__attribute__((noinline)) static int prepares(void) {
    volatile char below[256];
    below[0] = 0;
    return setjmp(back) + below[0];
}
MOTET_ON(RISCV) void jumps(int value) { expect_on(RISCV); longjmp(back, value); }

int main(int argc, char **argv) {
    (void)argv;
    setvbuf(stdout, 0, _IONBF, 0);
    int jumped = argc > 1 ? prepares_on_arm() : prepares();
    printf("before %d\n", jumped);
    jumps(1);
    printf("after\n");
    return 0;
}
