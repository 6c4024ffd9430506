/* Each instruction set has a function that the others' source is without, and gives its address away; all call all of them. */
#include "crossing.h"

typedef double (*Own)(const int *number, double more);

#if defined __x86_64__
static double of_x86(const int *number, double more) { return *number + more + 100; }
#define OWN of_x86
#elif defined __aarch64__
static double of_arm(const int *number, double more) { return *number + more + 200; }
#define OWN of_arm
#else
static double of_riscv(const int *number, double more) { return *number + more + 300; }
#define OWN of_riscv
#endif

/* The compiler must not know the result: it would take that of the caller's instruction set. */
static inline Own given(void) {
    Own own = OWN;
    __asm__("" : "+r"(own));
    return own;
}

MOTET_ON(X86) Own given_by_x86(void) { return given(); }
MOTET_ON(ARM) Own given_by_arm(void) { return given(); }
MOTET_ON(RISCV) Own given_by_riscv(void) { return given(); }

MOTET_ON(X86) double called_by_x86(Own own, const int *number) { return own(number, 0.25); }
MOTET_ON(ARM) double called_by_arm(Own own, const int *number) { return own(number, 0.5); }
MOTET_ON(RISCV) double called_by_riscv(Own own, const int *number) { return own(number, 0.75); }

int main(void) {
    const Own owns[] = {given_by_x86(), given_by_arm(), given_by_riscv()};
    for (int own = 0; own < 3; own++) {
        int number = own;
        printf("%g %g %g\n", called_by_x86(owns[own], &number), called_by_arm(owns[own], &number),
               called_by_riscv(owns[own], &number));
    }
    return 0;
}
