/*
 * Litmus tests between instruction sets: does C11's memory model hold for threads on islands of different instruction sets?
 *
 *     litmus [ROUNDS [FILTER]]
 *
 * Each test is a shape, a way to write its accesses (a memory order), and an island for each of its threads. An outcome that the memory order forbids
 * ends the program with status 1. Outcomes that are allowed although no interleaving gives them (weak ones) are counted. Shapes and names are those of
 * Alglave, Maranget and Tautschnig, "Herding Cats" (TOPLAS 2014), table 3.
 *
 * In each round, the threads access a few slots of two words each. Then they meet and compare what they have loaded. A word gets the round's number,
 * so it is never cleared. On a busy host, a test has fewer rounds in its time.
 *
 * A test sees something only in rounds in which its threads run at the same time. Then their accesses mix: not all slots have the same outcome, as they
 * have if one thread does all of its round before another one begins. Those rounds are counted, and the test goes on until there are enough of them. If
 * they do not come, the program ends with status 3.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "motet.h"

#define THREADS_MAX 4
#define SLOTS_MAX 512
#define ISLANDS 3
#define PATIENCE 20000
/* Rounds whose accesses must have mixed before a test ends; and how long it waits for them. */
#define MIXED_MIN 20
#define MIXED_LIMIT_MS 120000

#if defined(__x86_64__)
#define OWN_ISLAND 0
#elif defined(__aarch64__)
#define OWN_ISLAND 1
#else
#define OWN_ISLAND 2
#endif

/* One word in each cache line. */
typedef struct {
    _Alignas(64) _Atomic uint32_t word;
} line;

static line x[SLOTS_MAX], y[SLOTS_MAX];
/* The values that a thread has loaded. */
static struct got {
    _Alignas(64) uint32_t first[SLOTS_MAX], second[SLOTS_MAX];
} got[THREADS_MAX];

/* How accesses are written: stores, loads, and what is between the two accesses of a thread. */
#define RELAXED_STORE(at, value) atomic_store_explicit(&(at).word, value, memory_order_relaxed)
#define RELAXED_LOAD(at) atomic_load_explicit(&(at).word, memory_order_relaxed)
#define RELEASE_STORE(at, value) atomic_store_explicit(&(at).word, value, memory_order_release)
#define ACQUIRE_LOAD(at) atomic_load_explicit(&(at).word, memory_order_acquire)
#define SEQ_CST_STORE(at, value) atomic_store(&(at).word, value)
#define SEQ_CST_LOAD(at) atomic_load(&(at).word)
#define EXCHANGE_STORE(at, value) (void)atomic_exchange(&(at).word, value)
#define NOTHING
#define FENCE atomic_thread_fence(memory_order_seq_cst);
#define HALF_FENCE atomic_thread_fence(memory_order_acq_rel);

#define WAYS(WAY)                                                                                                      \
    WAY(relaxed, RELAXED_STORE, RELAXED_LOAD, NOTHING)                                                                 \
    WAY(release_acquire, RELEASE_STORE, ACQUIRE_LOAD, NOTHING)                                                         \
    WAY(seq_cst, SEQ_CST_STORE, SEQ_CST_LOAD, NOTHING)                                                                 \
    WAY(exchange, EXCHANGE_STORE, SEQ_CST_LOAD, NOTHING)                                                               \
    WAY(release_acquire_fences, RELAXED_STORE, RELAXED_LOAD, HALF_FENCE)                                               \
    WAY(seq_cst_fences, RELAXED_STORE, RELAXED_LOAD, FENCE)

typedef void body(uint32_t round, int slot);

/* Not every shape is used with every memory order. */
#define BODY static __attribute__((unused)) void

/* What the threads of each shape do, in each way. */
#define BODIES(way, STORE, LOAD, BETWEEN)                                                                              \
    BODY sb0_##way(uint32_t round, int slot) {                                                                         \
        STORE(x[slot], round);                                                                                         \
        BETWEEN got[0].first[slot] = LOAD(y[slot]);                                                                    \
    }                                                                                                                  \
    BODY sb1_##way(uint32_t round, int slot) {                                                                         \
        STORE(y[slot], round);                                                                                         \
        BETWEEN got[1].first[slot] = LOAD(x[slot]);                                                                    \
    }                                                                                                                  \
    BODY mp0_##way(uint32_t round, int slot) {                                                                         \
        STORE(x[slot], round);                                                                                         \
        BETWEEN STORE(y[slot], round);                                                                                 \
    }                                                                                                                  \
    BODY read_yx_##way(uint32_t round, int slot, int thread) {                                                         \
        uint32_t first = LOAD(y[slot]);                                                                                \
        BETWEEN uint32_t second = LOAD(x[slot]);                                                                       \
        got[thread].first[slot] = first, got[thread].second[slot] = second;                                            \
        (void)round;                                                                                                   \
    }                                                                                                                  \
    BODY mp1_##way(uint32_t round, int slot) { read_yx_##way(round, slot, 1); }                                        \
    BODY lb0_##way(uint32_t round, int slot) {                                                                         \
        uint32_t first = LOAD(y[slot]);                                                                                \
        BETWEEN STORE(x[slot], round);                                                                                 \
        got[0].first[slot] = first;                                                                                    \
    }                                                                                                                  \
    BODY lb1_##way(uint32_t round, int slot) {                                                                         \
        uint32_t first = LOAD(x[slot]);                                                                                \
        BETWEEN STORE(y[slot], round);                                                                                 \
        got[1].first[slot] = first;                                                                                    \
    }                                                                                                                  \
    BODY ww0_##way(uint32_t round, int slot) {                                                                         \
        STORE(x[slot], 2 * round);                                                                                     \
        BETWEEN STORE(y[slot], 2 * round + 1);                                                                         \
    }                                                                                                                  \
    BODY ww1_##way(uint32_t round, int slot) {                                                                         \
        STORE(y[slot], 2 * round);                                                                                     \
        BETWEEN STORE(x[slot], 2 * round + 1);                                                                         \
    }                                                                                                                  \
    BODY iriw0_##way(uint32_t round, int slot) { STORE(x[slot], round); }                                              \
    BODY iriw1_##way(uint32_t round, int slot) { STORE(y[slot], round); }                                              \
    BODY iriw2_##way(uint32_t round, int slot) {                                                                       \
        uint32_t first = LOAD(x[slot]);                                                                                \
        BETWEEN uint32_t second = LOAD(y[slot]);                                                                       \
        got[2].first[slot] = first, got[2].second[slot] = second;                                                      \
        (void)round;                                                                                                   \
    }                                                                                                                  \
    BODY iriw3_##way(uint32_t round, int slot) { read_yx_##way(round, slot, 3); }
WAYS(BODIES)

/* The outcome in a slot: a bit for each word that a thread has loaded, or that is left, whether it is the one that is looked for. */
static int is_new(const uint32_t *loaded, uint32_t round, int slot) { return loaded[slot] == round; }
static int sb_outcome(uint32_t round, int slot) { return is_new(got[0].first, round, slot) | is_new(got[1].first, round, slot) << 1; }
static int mp_outcome(uint32_t round, int slot) { return is_new(got[1].first, round, slot) | is_new(got[1].second, round, slot) << 1; }
static int lb_outcome(uint32_t round, int slot) { return sb_outcome(round, slot); }
static int ww_outcome(uint32_t round, int slot) { return (RELAXED_LOAD(x[slot]) == 2 * round) | (RELAXED_LOAD(y[slot]) == 2 * round) << 1; }
static int iriw_outcome(uint32_t round, int slot) {
    return is_new(got[2].first, round, slot) | is_new(got[2].second, round, slot) << 1 | is_new(got[3].first, round, slot) << 2 |
           is_new(got[3].second, round, slot) << 3;
}

/* Those that no interleaving gives. */
enum { sb_WEAK = 0, mp_WEAK = 1, lb_WEAK = 3, ww_WEAK = 3, iriw_WEAK = 5 };

/* Hosts with x86-64 can show only stores that are delayed past later loads. The other shapes are for other hosts. */
#define sb_MS 700
#define mp_MS 200
#define lb_MS 200
#define ww_MS 200

static const struct test {
    const char *shape, *way;
    int threads, slots, limit_ms, is_forbidden;
    int (*outcome)(uint32_t, int), weak;
    body *bodies[THREADS_MAX];
} tests[] = {
#define TWO(shape, way, name, is_forbidden)                                                                            \
    {name, #way, 2, 16, is_forbidden ? shape##_MS : shape##_MS / 2, is_forbidden, shape##_outcome, shape##_WEAK,           \
     {shape##0_##way, shape##1_##way}},
#define FOUR(shape, way, name, is_forbidden)                                                                           \
    {name,         #way,          4,                                                                                  \
     SLOTS_MAX,    200,           is_forbidden,                                                                       \
     shape##_outcome, shape##_WEAK, {shape##0_##way, shape##1_##way, shape##2_##way, shape##3_##way}},
    TWO(sb, relaxed, "SB", 0)
    TWO(sb, release_acquire, "SB", 0)
    TWO(sb, seq_cst, "SB", 1)
    TWO(sb, exchange, "SB", 1)
    TWO(sb, seq_cst_fences, "SB", 1)
    TWO(mp, relaxed, "MP", 0)
    TWO(mp, release_acquire, "MP", 1)
    TWO(mp, seq_cst, "MP", 1)
    TWO(mp, release_acquire_fences, "MP", 1)
    TWO(lb, relaxed, "LB", 0)
    TWO(lb, release_acquire, "LB", 1)
    TWO(lb, seq_cst, "LB", 1)
    TWO(lb, release_acquire_fences, "LB", 1)
    TWO(ww, relaxed, "2+2W", 0)
    TWO(ww, release_acquire, "2+2W", 0)
    TWO(ww, seq_cst, "2+2W", 1)
    TWO(ww, seq_cst_fences, "2+2W", 1)
    FOUR(iriw, relaxed, "IRIW", 0)
    FOUR(iriw, release_acquire, "IRIW", 0)
    FOUR(iriw, seq_cst, "IRIW", 1)
    FOUR(iriw, seq_cst_fences, "IRIW", 1)
};

/* IRIW's threads, two writers and two readers, on islands of two cores. */
static const int quadruples[][THREADS_MAX] = {{0, 1, 2, 1}, {1, 2, 0, 2}, {2, 0, 1, 0}, {1, 1, 2, 2}, {0, 0, 1, 1}, {2, 2, 0, 0}};
static const char *const names[ISLANDS] = {"x86_64", "aarch64", "riscv64"};

/* The current test. */
static const struct test *test;
static const int *islands;
static uint32_t rounds, first_round;
static _Atomic uint32_t last_round; /* 0: it is not known yet */
static line arrived[THREADS_MAX];
static uint64_t weak, mixed;

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Waits until all threads are here for the `step`th time. */
static void meet(int own, uint32_t step) {
    atomic_store_explicit(&arrived[own].word, step, memory_order_release);
    for (int other = 0; other < test->threads; other++)
        for (int turns = 1; (int32_t)(atomic_load_explicit(&arrived[other].word, memory_order_acquire) - step) < 0; turns++)
            if (turns % PATIENCE == 0)
                usleep(10); /* two threads may share a processor of the host */
}

/* Lets threads that run at different speeds meet in different ways: 0 to 63 turns, a few for each slot. */
static void pause_a_little(uint32_t *random) {
    *random = *random * 1664525 + 1013904223;
    for (uint32_t turns = *random >> 26; turns > 0; turns--)
        __asm__ volatile("" ::: "memory");
}

/* Counts a round's outcomes. */
static void judge(uint32_t round) {
    int first = test->outcome(round, 0), is_mixed = 0;
    for (int slot = 0; slot < test->slots; slot++) {
        int outcome = test->outcome(round, slot);
        weak += outcome == test->weak;
        is_mixed |= outcome != first;
    }
    mixed += (uint64_t)is_mixed;
}

/* Whether a test has done enough rounds, or its time is over. */
static int is_done(uint32_t done, uint64_t start_ms) {
    if (done < rounds && done % 16 != 0)
        return 0;
    uint64_t took_ms = now_ms() - start_ms;
    return (done >= rounds || took_ms > (uint64_t)test->limit_ms) && (mixed >= MIXED_MIN || took_ms > MIXED_LIMIT_MS);
}

static void *take_part(void *argument) {
    int own = (int)(intptr_t)argument;
    uint32_t random = first_round + (uint32_t)own;
    uint64_t start_ms = now_ms();
    if (motet_island() >= 0 && islands[own] != OWN_ISLAND)
        return "is not where it should be";
    for (uint32_t round = first_round;; round++) {
        meet(own, 2 * round);
        if (round == atomic_load_explicit(&last_round, memory_order_relaxed))
            break;
        pause_a_little(&random);
        for (int slot = 0; slot < test->slots; slot++)
            test->bodies[own](round, slot);
        meet(own, 2 * round + 1);
        if (own != 0)
            continue;
        judge(round);
        if (is_done(round - first_round + 1, start_ms))
            atomic_store_explicit(&last_round, round + 1, memory_order_relaxed);
    }
    return 0;
}

static void *go_there(void *argument) { return motet_call_on(islands[(intptr_t)argument], take_part, argument); }

/* Runs a test on these islands. 1: it has a forbidden outcome. */
static int run(void) {
    static uint32_t next_round = 1;
    pthread_t threads[THREADS_MAX];
    uint64_t start_ms = now_ms();
    first_round = next_round;
    atomic_store(&last_round, 0);
    for (int own = 0; own < THREADS_MAX; own++)
        atomic_store(&arrived[own].word, 2 * first_round - 1);
    weak = mixed = 0;
    for (intptr_t own = 0; own < test->threads; own++)
        pthread_create(&threads[own], 0, go_there, (void *)own);
    for (int own = 0; own < test->threads; own++) {
        void *error;
        pthread_join(threads[own], &error);
        if (error) {
            printf("thread %d %s\n", own, (char *)error);
            exit(2);
        }
    }
    uint32_t done = atomic_load(&last_round) - first_round;
    next_round += done + 1;
    printf("%s %s", test->shape, test->way);
    for (int own = 0; own < test->threads; own++)
        printf(" %s", names[islands[own]]);
    int is_bad = test->is_forbidden && weak;
    printf(": %s%llu weak of %llu, %llu of %u rounds mixed, %llu ms\n", is_bad ? "FORBIDDEN " : "", (unsigned long long)weak,
           (unsigned long long)done * test->slots, (unsigned long long)mixed, done, (unsigned long long)(now_ms() - start_ms));
    fflush(stdout);
    if (mixed < MIXED_MIN) {
        printf("its threads have hardly run at the same time\n");
        exit(3);
    }
    return is_bad;
}

int main(int count, char **words) {
    uint32_t iterations = count > 1 ? (uint32_t)atoi(words[1]) : 100000;
    const char *filter = count > 2 ? words[2] : "";
    int failed = 0;
    for (size_t at = 0; at < sizeof tests / sizeof *tests; at++) {
        char name[64];
        test = &tests[at];
        snprintf(name, sizeof name, "%s %s ", test->shape, test->way);
        if (!strstr(name, filter))
            continue;
        rounds = iterations / (uint32_t)test->slots + 1;
        if (test->threads == 4)
            for (size_t which = 0; which < sizeof quadruples / sizeof *quadruples; which++)
                islands = quadruples[which], failed += run();
        else
            for (int pair = 0; pair < ISLANDS * ISLANDS; pair++)
                islands = (int[]){pair / ISLANDS, pair % ISLANDS}, failed += run();
    }
    printf("%d with forbidden outcomes\n", failed);
    return failed != 0;
}
