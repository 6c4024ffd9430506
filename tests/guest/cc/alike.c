/*
 * Threads that meet on all instruction sets in ways that a seed chooses: they lock, wait for each other in turns, hand bytes through a pipe, sleep for
 * short times, share words, begin and end. `alike SEED` prints `alike: ok`.
 */
#include <motet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 8
#define ROUNDS 12
#define KINDS 6

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long counted, turn;
static atomic_long shared;
static int ends[2];

struct told {
    uint64_t seed, rounds;
    long index, threads;
};

/* Marsaglia's xorshift64*. */
static uint64_t random_next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du >> 16;
}

static void count(void) {
    pthread_mutex_lock(&lock);
    counted++;
    pthread_mutex_unlock(&lock);
}

static void take_turn(long index, long threads) {
    pthread_mutex_lock(&lock);
    while (turn % threads != index)
        pthread_cond_wait(&changed, &lock);
    turn++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void nap(long ns) {
    struct timespec time = {.tv_nsec = ns};
    nanosleep(&time, NULL);
}

static void hand_over(void) {
    char byte = 1;
    if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
        abort();
}

static void share(long times) {
    for (long n = 0; n < times; n++)
        atomic_fetch_add(&shared, 1);
}

static void do_one(long kind, long index, long threads, long amount) {
    switch (kind) {
    case 0: count(); break;
    case 1: nap(amount * 1000); break;
    case 2: hand_over(); break;
    case 3: share(amount); break;
    case 4: sched_yield(); break;
    default: take_turn(index, threads); break;
    }
}

MOTET_ON("x86_64") void on_x86(long kind, long index, long threads, long amount) { do_one(kind, index, threads, amount); }
MOTET_ON("aarch64") void on_arm(long kind, long index, long threads, long amount) { do_one(kind, index, threads, amount); }
MOTET_ON("riscv64") void on_riscv(long kind, long index, long threads, long amount) { do_one(kind, index, threads, amount); }

static void *run(void *argument) {
    struct told *told = argument;
    uint64_t state = told->seed;
    for (int round = 0; round < ROUNDS; round++) {
        /* All take their turns in the same rounds, so that nobody waits for ever. */
        long kind = told->rounds >> round & 1 ? KINDS - 1 : (long)(random_next(&state) % (KINDS - 1));
        long amount = (long)(random_next(&state) % 100);
        switch (random_next(&state) % 4) {
        case 0: on_x86(kind, told->index, told->threads, amount); break;
        case 1: on_arm(kind, told->index, told->threads, amount); break;
        case 2: on_riscv(kind, told->index, told->threads, amount); break;
        default: do_one(kind, told->index, told->threads, amount); break;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    uint64_t state = (argc > 1 ? strtoull(argv[1], NULL, 0) : 0) + 0x9e3779b97f4a7c15u;
    long threads = 2 + (long)(random_next(&state) % (THREADS_MAX - 1));
    uint64_t rounds = random_next(&state);
    pthread_t made[THREADS_MAX];
    struct told told[THREADS_MAX];
    if (pipe(ends))
        return 1;
    for (long index = 0; index < threads; index++) {
        told[index] = (struct told){.seed = random_next(&state) + 1, .rounds = rounds, .index = index, .threads = threads};
        if (pthread_create(&made[index], NULL, run, &told[index]))
            return 2;
    }
    for (long index = 0; index < threads; index++)
        pthread_join(made[index], NULL);
    puts("alike: ok");
    return 0;
}
