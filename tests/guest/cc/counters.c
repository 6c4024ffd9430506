/* Counters that programs read themselves show the machine's time. Usage: `counters CYCLES_PER_US`; 0 if they are the hardware's counters. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t time_per_ms = 1;

#if defined(__x86_64__)
static uint64_t cycles(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}
static uint64_t system_time(void) { return cycles(); }
static void refused(void) { __asm__ volatile("rdpmc" : : "c"(0) : "eax", "edx"); }
#elif defined(__aarch64__)
static uint64_t system_time(void) {
    uint64_t ticks, per_second;
    __asm__ volatile("mrs %0, cntvct_el0\n mrs %1, cntfrq_el0" : "=r"(ticks), "=r"(per_second));
    time_per_ms = per_second / 1000;
    return ticks;
}
static uint64_t cycles(void) { return 0; }
static void refused(void) { __asm__ volatile("mrs x0, cntpct_el0" : : : "x0"); }
#else
static uint64_t cycles(void) {
    uint64_t value;
    __asm__ volatile("rdcycle %0\n rdcycle zero" : "=r"(value));
    return value;
}
static uint64_t system_time(void) { return cycles(); }
static void refused(void) { __asm__ volatile("csrr x0, instret\n rdinstret a0" : : : "a0"); }
#endif

/* A counter's reading must lie between two readings of the clock, to the tick. */
static void between(const char *what, uint64_t (*counter)(void), const uint64_t *per_ms) {
    uint64_t before = clock_ns(), value = counter(), after = clock_ns();
    if (value < before * *per_ms / 1000000 || value > after * *per_ms / 1000000) {
        printf("%s: %llu ticks between %llu and %llu ns\n", what, (unsigned long long)value, (unsigned long long)before,
               (unsigned long long)after);
        exit(1);
    }
}

static int is_refused(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        refused();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGSEGV);
}

int main(int count, char **arguments) {
    uint64_t cycles_per_ms = count > 1 ? strtoull(arguments[1], 0, 10) * 1000 : 0;
    system_time();
#if !defined(__aarch64__)
    time_per_ms = cycles_per_ms;
#endif
    for (int round = 0; cycles_per_ms && round < 20; round++) {
        if (cycles() != 0)
            between("cycles", cycles, &cycles_per_ms);
        between("time", system_time, &time_per_ms);
        usleep(1000);
    }
    uint64_t earlier = system_time();
    usleep(1000);
    printf("%s, %s\n", system_time() > earlier ? "counters count" : "counters stand still",
           is_refused() ? "others are refused" : "others are there");
    return 0;
}
