/*
 * Measures trips to a hidden hart, by the machine's clock.
 *
 * trips             medians of ROUNDS, in nanoseconds: two readings with nothing in between; a system call at home; from the first vector
 *                   instruction to the end of the system call that brings the thread home
 * trips compute N   executes N vector instructions there. Do the machine's clock and the board's, which is read there, both say that they took N ns
 *                   or more?
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__riscv)
#define VECTOR() __asm__ volatile(".option push\n.option arch, +v\nvsetivli x0, 1, e64, m1, ta, ma\n.option pop" ::: "memory")
#else
#define VECTOR() (void)0
#endif

enum { ROUNDS = 100 };

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

static void nothing(void) {}

static void call(void) {
    syscall(SYS_getpid);
}

static void trip(void) {
    VECTOR();
    syscall(SYS_getpid);
}

static int compare(const void *one, const void *other) {
    long left = *(const long *)one, right = *(const long *)other;
    return (left > right) - (left < right);
}

static void measure(const char *name, void (*what)(void)) {
    static long took[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        long before = now();
        what();
        took[round] = now() - before;
    }
    qsort(took, ROUNDS, sizeof took[0], compare);
    printf("%s %ld\n", name, took[ROUNDS / 2]);
}

/* The board's clock of 10 MHz. */
static long board_ns(void) {
#if defined(__riscv)
    long ticks;
    __asm__ volatile("rdtime %0" : "=r"(ticks));
    return ticks * 100;
#else
    return now();
#endif
}

static void compute(long count) {
    long before = now();
    for (long round = 0; round < count; round++) {
        VECTOR();
    }
    long between = board_ns(), after = now();
    printf("took time %d\n", after - before >= count && between + 100 > before + count && between <= after);
}

int main(int count, char **words) {
    if (count > 2 && strcmp(words[1], "compute") == 0) {
        compute(atol(words[2]));
        return 0;
    }
    /* The first trip does not count: it has page faults and code that QEMU must translate. */
    trip();
    measure("reading", nothing);
    measure("call", call);
    measure("trip", trip);
    return 0;
}
