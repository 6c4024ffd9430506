/* A function that must run on RISC-V. */
#include <unistd.h>

#include "crossing.h"

static volatile int three = 3; /* Or the compiler would know the result. */

MOTET_ONLY(RISCV) int only_riscv(void) { return three; }

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    printf("calls\n");
    printf("%d\n", only_riscv());
    return 0;
}
