/*
 * What is left in vector registers when a thread has said that it needs an extension no more, and where it goes for them.
 *
 *     done needed                It is done with their length, and still needs the registers.
 *     done discarded PLAIN A B   It has values on core A, discards them on core B, and comes back. Core PLAIN has no vectors.
 *     done near FROM             It runs on core FROM first, which has none, and then goes where they are.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "motet.h"

#ifdef __riscv
#define VECTORS(text) ".option push\n.option arch, +v\n" text "\n.option pop\n"

static void set_vector(unsigned long value) {
    __asm__ volatile(VECTORS("vsetivli zero, 2, e64, m1, ta, ma\nvmv.v.x v8, %0") : : "r"(value) : "memory");
}

static unsigned long get_vector(void) {
    unsigned long value;
    __asm__ volatile(VECTORS("vsetivli zero, 2, e64, m1, ta, ma\nvmv.x.s %0, v8") : "=r"(value) : : "memory");
    return value;
}

static void run_on(int first, int second) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(first, &cores);
    CPU_SET(second, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores))
        perror("sched_setaffinity");
}

static int core(void) {
    char line[256];
    int core = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "MotetCore: %d", &core);
    if (status)
        fclose(status);
    return core;
}

static void needed(void) {
    int first = motet_need("v"), second = motet_need("zvl512b");
    set_vector(7);
    printf("need %d %d, done %d", first, second, motet_done("zvl512b"));
    printf(", value %lu", get_vector());
    printf(", done %d", motet_done("v"));
    printf(", value %lu\n", get_vector());
}

/* What is stored on A, and loaded on B unchanged, is the same on both. Discarded on B, it is not to be found on A. */
static void discarded(int plain, int a, int b) {
    int on_a, on_b, again;
    unsigned long there, value;
    run_on(plain, a);
    motet_need("v"); /* it stays, however long this takes */
    set_vector(7);
    on_a = core();
    run_on(plain, b);
    there = get_vector();
    on_b = core();
    motet_done("v");
    run_on(plain, a);
    motet_need("v");
    value = get_vector();
    again = core();
    printf("core %d, core %d: %lu, core %d: %lu\n", on_a, on_b, there, again, value);
}

static void near(int from) {
    cpu_set_t all;
    int before;
    memset(&all, 0xff, sizeof all);
    run_on(from, from);
    before = core();
    sched_setaffinity(0, sizeof all, &all);
    motet_need("v");
    printf("core %d, core %d\n", before, core());
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "needed"))
        needed();
    else if (argc == 5 && !strcmp(argv[1], "discarded"))
        discarded(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    else if (argc == 3 && !strcmp(argv[1], "near"))
        near(atoi(argv[2]));
    else
        return 2;
    return 0;
}
#else
/* It is compiled for all instruction sets, and runs on none of the others. */
int main(void) {
    return 1;
}
#endif
