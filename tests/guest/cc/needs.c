/* A thread that needs an extension of one instruction set, and runs functions of another that need one, too. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crossing.h"

static void show(const char *where) {
    char line[64];
    FILE *file = fopen("/proc/thread-self/migrations", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "needs", 5) == 0) {
            printf("%s %d: %s", where, motet_island(), line);
        }
    }
    if (file) {
        fclose(file);
    }
}

/* Computes for longer than a thread keeps an extension that it does not use. */
static void compute(void) {
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < 120);
}

MOTET_ON(X86) long without_avx(long value) {
    /* After a sleep, the thread is an ordinary thread of this core. */
    usleep(1000);
    compute();
    show("x86-64 without AVX");
    return value + 1;
}

MOTET_ON(X86) long with_avx(long value) {
#if defined(__x86_64__)
    uint64_t lanes[4];
    __asm__ volatile("vmovq %1, %%xmm1\nvinsertf128 $1, %%xmm1, %%ymm1, %%ymm1\nvmovdqu %%ymm1, (%0)"
                     :
                     : "r"(lanes), "r"(value)
                     : "xmm1", "memory");
    value = (long)(lanes[0] + lanes[2]);
#endif
    show("x86-64 with AVX");
    return value;
}

MOTET_ON(RISCV) long with_vectors(long value) {
#if defined(__riscv)
    __asm__ volatile(".option push\n.option arch, +v\nvsetivli zero, 1, e64, m1, ta, ma\nvmv.s.x v8, %0\n.option pop" : : "r"(value));
#endif
    show("RISC-V");
    value = without_avx(value);
#if defined(__riscv)
    __asm__ volatile(".option push\n.option arch, +v\nvsetivli zero, 1, e64, m1, ta, ma\nvmv.s.x v8, %0\nvadd.vi v8, v8, 1\n"
                     "vmv.x.s %0, v8\n.option pop"
                     : "+r"(value));
#endif
    value = with_avx(value);
    show("RISC-V again");
    return value;
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("%ld\n", with_vectors(40));
    return 0;
}
