/*
 * cases CASE COUNT: on the host, COUNT calls of a function on the NxP that are harder than a null call. Prints the time of each call in nanoseconds,
 * and the time of two readings of the clock without a call in between.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "flick.h"

#define CALLS_MAX 100000
/* How long the NxP computes in each call of the other process. */
#define BUSY_US 100

static uint64_t took_ns[2 * CALLS_MAX], clock_ns[CALLS_MAX];
static long count;

MOTET_ON(NXP) static long nothing(void) { __asm__ volatile(""); return 1; }

MOTET_ON(NXP) static long six(long a, long b, long c, long d, long e, long f) { return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f; }

MOTET_ON(NXP) static long twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l;
}

MOTET_ON(NXP) static double doubles(double a, double b, double c) { return a * b + c; }

MOTET_ON(NXP) static long with_syscall(void) { return syscall(SYS_getppid); }

MOTET_ON(HOST) __attribute__((noinline)) static long on_host(long value) { __asm__ volatile(""); return value + 1; }
MOTET_ON(NXP) static long with_callback(long value) { return on_host(value) + 1; }

/* A hundred thousand nanoseconds or more: three instructions of 5 ns each time. */
MOTET_ON(NXP) static long compute(void) {
    long rounds = BUSY_US * 1000 / 15;
    for (long round = 0; round < rounds; round++)
        __asm__ volatile("");
    return rounds;
}

static long null_call(long index) { return nothing() == 1 || index < 0; }
static long six_arguments(long index) { return six(index, 1, 2, 3, 4, 5) == index + 70; }
static long twelve_arguments(long index) { return twelve(index, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) == index + 572; }
static long of_doubles(long index) { return doubles((double)index, 0.5, 0.25) == (double)index * 0.5 + 0.25; }
static long system_call(long index) { return with_syscall() == getppid() || index < 0; }
static long callback(long index) { return with_callback(index) == index + 2; }

static const struct {
    const char *name;
    long (*call)(long index);
} cases[] = {
    {"cold", null_call},
    {"null", null_call},
    {"six-arguments", six_arguments},
    {"twelve-arguments", twelve_arguments},
    {"doubles", of_doubles},
    {"two-threads", null_call},
    {"busy", null_call},
    {"syscall", system_call},
    {"callback", callback},
};

typedef long (*Call)(long index);
static Call call;

/* The time of each of `count` calls, from `took_ns` on. */
static void *measure(void *first) {
    uint64_t *took = first;
    for (long index = 0; index < count; index++) {
        uint64_t before = now_ns();
        long good = call(index);
        took[index] = now_ns() - before;
        if (!good) {
            fprintf(stderr, "call %ld has another result\n", index);
            exit(1);
        }
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* The clock's share of each measurement: the median. */
static uint64_t of_clock(long readings) {
    for (long index = 0; index < readings; index++) {
        uint64_t before = now_ns();
        clock_ns[index] = now_ns() - before;
    }
    qsort(clock_ns, (size_t)readings, sizeof *clock_ns, by_value);
    return clock_ns[readings / 2];
}

/* Another process, whose calls keep the NxP computing until it is killed. */
static pid_t keep_busy(void) {
    pid_t child = fork();
    while (child == 0)
        compute();
    /* By then its first call has reached the NxP. */
    usleep(5000);
    return child;
}

int main(int words, char **word) {
    long (*found)(long) = NULL;
    for (size_t index = 0; words == 3 && index < sizeof cases / sizeof *cases; index++)
        if (strcmp(cases[index].name, word[1]) == 0)
            found = cases[index].call;
    count = found ? number(word[2]) : 0;
    if (count < 1 || count > CALLS_MAX) {
        fputs("usage: cases CASE COUNT\n", stderr);
        return 64;
    }
    call = found;
    int is_cold = strcmp(word[1], "cold") == 0, threads = strcmp(word[1], "two-threads") == 0 ? 2 : 1;
    memset(took_ns, 0, (size_t)(threads * count) * sizeof *took_ns);
    uint64_t overhead = of_clock(count < 100 ? 100 : count);
    if (!is_cold && !call(0))
        return 1;
    pid_t busy = strcmp(word[1], "busy") == 0 ? keep_busy() : 0;
    pthread_t other;
    if (threads == 2 && pthread_create(&other, NULL, measure, took_ns + count) != 0)
        return 1;
    measure(took_ns);
    if (threads == 2)
        pthread_join(other, NULL);
    if (busy) {
        kill(busy, SIGKILL);
        waitpid(busy, NULL, 0);
    }
    printf("clock %llu\n", (unsigned long long)overhead);
    for (long index = 0; index < threads * count; index++)
        printf("call %llu\n", (unsigned long long)took_ns[index]);
    show_crossings();
    return 0;
}
