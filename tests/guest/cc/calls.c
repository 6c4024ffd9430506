/* Callbacks, recursion and pointers to functions over three instruction sets; calls on islands that the program names. */
#include "crossing.h"

MOTET_ON(RISCV) int compare(const void *a, const void *b) {
    expect_on(RISCV);
    int one = *(const int *)a, two = *(const int *)b;
    return (one > two) - (one < two);
}

MOTET_ON(ARM) void sort(int *numbers, size_t count) {
    expect_on(ARM);
    qsort(numbers, count, sizeof *numbers, compare);
}

long odd_steps(int n, long sum);

MOTET_ON(ARM) long even_steps(int n, long sum) {
    expect_on(ARM);
    char mark[100];
    memset(mark, n, sizeof mark);
    long result = n == 0 ? sum : odd_steps(n - 1, sum + n);
    for (size_t i = 0; i < sizeof mark; i++)
        if (mark[i] != (char)n)
            return -1;
    return result + 1;
}

MOTET_ON(RISCV) long odd_steps(int n, long sum) {
    expect_on(RISCV);
    volatile long kept = sum * 3 + n;
    long result = n == 0 ? sum : even_steps(n - 1, sum + n);
    return kept == sum * 3 + n ? result + 1 : -2;
}

MOTET_ON(X86) double x86_root(double x, int depth);
MOTET_ON(ARM) double arm_root(double x, int depth);
MOTET_ON(RISCV) double riscv_root(double x, int depth);
static double (*const roots[])(double, int) = {x86_root, arm_root, riscv_root};

/* While the inner call runs, values that a call must preserve are in registers. */
static inline double root(double x, int depth) {
    double a = x * 1.5, b = x + depth, c = a / b;
    long d = depth * 7, e = d ^ 0x55;
    double inner = depth == 0 ? x : roots[depth % 3](x * 0.75, depth - 1);
    return inner + a - b * c + (double)(d - e);
}

double x86_root(double x, int depth) { expect_on(X86); return root(x, depth); }
double arm_root(double x, int depth) { expect_on(ARM); return root(x, depth); }
double riscv_root(double x, int depth) { expect_on(RISCV); return root(x, depth); }

static void *on_island(void *wanted) {
    int island = motet_island();
    if (island >= 0 && island != *(int *)wanted)
        printf("on island %d, not %d\n", island, *(int *)wanted);
    return (char *)wanted + 1;
}

/* Writes below its caller's stack pointer, as any function does, and says whether it runs on its caller's island. */
static void *fill(void *wanted) {
    volatile char room[400];
    for (int i = 0; i < 400; i++)
        room[i] = (char)0xaa;
    return (void *)(long)(room[7] != 0 && motet_island() == *(int *)wanted);
}

/* Data on a caller's stack must survive a call on its own island. */
static int kept(void) {
    volatile char room[200];
    int island = motet_island(), same = 0;
    for (int i = 0; i < 200; i++)
        room[i] = (char)i;
    int there = (int)(long)motet_call_on(island, fill, &island);
    for (int i = 0; i < 200; i++)
        same += room[i] == (char)i;
    return there * 1000 + same;
}
MOTET_ON(X86) int kept_on_x86(void) { expect_on(X86); return kept(); }
MOTET_ON(ARM) int kept_on_arm(void) { expect_on(ARM); return kept(); }
MOTET_ON(RISCV) int kept_on_riscv(int depth) { expect_on(RISCV); return depth == 0 ? kept() : kept_on_x86(); }

int main(void) {
    int numbers[40];
    for (int i = 0; i < 40; i++)
        numbers[i] = i * 7919 % 101;
    sort(numbers, 40);
    for (int i = 0; i < 40; i++)
        printf("%d ", numbers[i]);
    printf("\n%ld %ld\n", even_steps(12, 0), odd_steps(7, 100));
    for (int depth = 0; depth < 9; depth++)
        printf("%.15g %.15g %.15g\n", roots[0](depth, depth), roots[1](1, depth), roots[2](0.1, depth));
    for (int island = 0; island < 3; island++) {
        char *result = motet_call_on(island, on_island, &island);
        printf("%d\n", (int)(result - (char *)&island));
    }
    printf("%d %d %d %d\n", kept_on_x86(), kept_on_arm(), kept_on_riscv(0), kept_on_riscv(1));
    return 0;
}
