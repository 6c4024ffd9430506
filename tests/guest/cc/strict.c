/* A function that must run on RISC-V, and one that may run elsewhere where there is none. */
#include <unistd.h>

#include "crossing.h"

static volatile int three = 3; /* A variable, or the compiler would know the result. */

MOTET_ON(RISCV) int rather_riscv(void) { return three - 1; }
MOTET_ONLY(RISCV) int only_riscv(void) { return three; }

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    printf("calls\n");
    printf("%d\n", rather_riscv());
    printf("%d\n", only_riscv());
    return 0;
}
