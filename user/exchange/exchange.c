/*
 * exchange lock COUNT: three threads, each on a core of another instruction set, take a lock COUNT times each, and do work of their own in between.
 * The region `lock` lasts from the first lock to the last one.
 *
 * exchange ping_pong COUNT: a word goes from x86-64 to RISC-V and back, COUNT times. Both sides wait for it in a loop. The region is `ping_pong`.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "motet.h"

#define THREADS 3
/* Iterations of own work: about a microsecond at 1 GHz. */
#define WORK 250

static long rounds;
static _Alignas(64) atomic_int arrived;
static _Alignas(64) atomic_int lock;
static _Alignas(64) volatile long taken;
static _Alignas(64) atomic_long word;

static inline __attribute__((always_inline)) void take_turns(void) {
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < THREADS)
        ;
    motet_roi_begin("lock");
    for (long round = 0; round < rounds; round++) {
        while (atomic_exchange_explicit(&lock, 1, memory_order_acquire))
            while (atomic_load_explicit(&lock, memory_order_relaxed))
                ;
        taken = taken + 1;
        atomic_store_explicit(&lock, 0, memory_order_release);
        for (int step = 0; step < WORK; step++)
            __asm__ volatile("");
    }
    motet_roi_end("lock");
}

MOTET_ON("x86_64") static void lock_x86_64(void) { take_turns(); }
MOTET_ON("aarch64") static void lock_aarch64(void) { take_turns(); }
MOTET_ON("riscv64") static void lock_riscv64(void) { take_turns(); }

/* The word is even when it is for x86-64. */
static inline __attribute__((always_inline)) void exchange(long odd) {
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < 2)
        ;
    if (!odd)
        motet_roi_begin("ping_pong");
    for (long value = odd; value < 2 * rounds; value += 2) {
        while (atomic_load_explicit(&word, memory_order_acquire) != value)
            ;
        atomic_store_explicit(&word, value + 1, memory_order_release);
    }
    if (!odd) {
        while (atomic_load_explicit(&word, memory_order_acquire) != 2 * rounds)
            ;
        motet_roi_end("ping_pong");
    }
}

MOTET_ON("x86_64") static void ping(void) { exchange(0); }
MOTET_ON("riscv64") static void pong(void) { exchange(1); }

typedef void (*Function)(void);

static void *start(void *function) {
    ((Function)function)();
    return NULL;
}

int main(int count, char **words) {
    static const Function locking[] = {lock_x86_64, lock_aarch64, lock_riscv64}, sending[] = {ping, pong};
    const Function *functions;
    int threads, index;
    pthread_t ids[THREADS];
    char *end = NULL;

    if (count == 3)
        rounds = strtol(words[2], &end, 10);
    if (count != 3 || *end || rounds < 1 || (strcmp(words[1], "lock") && strcmp(words[1], "ping_pong"))) {
        fputs("usage: exchange lock|ping_pong COUNT\n", stderr);
        return 64;
    }
    functions = strcmp(words[1], "lock") ? sending : locking;
    threads = functions == locking ? THREADS : 2;
    for (index = 1; index < threads; index++)
        if (pthread_create(&ids[index], NULL, start, (void *)functions[index]) != 0) {
            fputs("exchange: no thread\n", stderr);
            return 71;
        }
    functions[0]();
    for (index = 1; index < threads; index++)
        pthread_join(ids[index], NULL);
    printf("taken %ld, word %ld\n", taken, atomic_load(&word));
    return 0;
}
