/*
 * What the NAS Parallel Benchmarks share: classes, schedules, random numbers, the clock, and what a program prints.
 *
 *     PROGRAM [home | alternating | round-trips | threads] [ISA | ISLAND]
 *
 * home         the thread stays where it starts
 * alternating  odd timed iterations are away, even ones at home
 * round-trips  the procedure of each timed iteration (IS, CG), or the whole timed part, is away
 * threads      a thread on each island, at once (IS, CG, EP); where there are no islands, as many as the second argument says, or two
 *
 * The status is 1 if the result is not the published one. -DCLASS_S (or W, A, B) chooses the problem. docs/npb.md has more.
 */
#ifndef NPB_H
#define NPB_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "migrate.h"

/* CLASS_IS(s, w, a, b) is one of its arguments. */
#if defined(CLASS_B)
#define CLASS_NAME 'B'
#define CLASS_IS(s, w, a, b) (b)
#elif defined(CLASS_A)
#define CLASS_NAME 'A'
#define CLASS_IS(s, w, a, b) (a)
#elif defined(CLASS_W)
#define CLASS_NAME 'W'
#define CLASS_IS(s, w, a, b) (w)
#else
#define CLASS_NAME 'S'
#define CLASS_IS(s, w, a, b) (s)
#endif

enum schedule { HOME, ALTERNATING, ROUND_TRIPS, THREADS };

static const char *const schedule_names[] = {"home", "alternating", "round-trips", "threads"};

/* How a program is run. */
struct run {
    enum schedule schedule;
    struct migrate migrate;
    double start, elapsed; /* of the timed part */
};

/* Counts of pages depend on what shares a page. So all variables of a program are in one structure, which begins on a page, in the order and with the
 * names of the published program. Room that is `before` the arrays
 * has the published program's other variables. */
#define ON_A_PAGE __attribute__((aligned(4096)))
#define ARRAY _Alignas(32)

/* Reads the arguments. `threads`: whether the program can be run with threads. */
static void begin(struct run *run, int argc, char **argv, bool threads) {
    int kinds = threads ? 4 : 3, kind = 0;
    while (argc > 1 && kind < kinds && strcmp(argv[1], schedule_names[kind]))
        kind++;
    if (kind == kinds || argc > 3) {
        fprintf(stderr, "usage: %s [home | alternating | round-trips%s] [ISA | ISLAND]\n", argv[0],
                threads ? " | threads" : "");
        exit(2);
    }
    *run = (struct run){(enum schedule)kind, {-1, "nowhere"}, 0.0, 0.0};
    if (kind == THREADS)
        strcpy(run->migrate.isa, "all");
    if (kind == ALTERNATING || kind == ROUND_TRIPS)
        migrate_choose(&run->migrate, argc > 2 ? argv[2] : NULL);
}

static inline void call(const struct run *run, bool away, void *(*function)(void *), void *argument) {
    if (away)
        migrate_call(&run->migrate, function, argument);
    else
        function(argument);
}

/* Whether a timed iteration (from 1 on) is away as a whole. */
static inline bool iteration_is_away(const struct run *run, int iteration) {
    return run->schedule == ALTERNATING && iteration % 2 == 1;
}

static inline bool procedure_is_away(const struct run *run) { return run->schedule == ROUND_TRIPS; }

/* x[k+1] = a x[k] mod 2^46, and numbers x / 2^46 in (0, 1). The specification has floating-point numbers compute this, exactly. */
#define RANDOM_MASK ((UINT64_C(1) << 46) - 1)
#define RANDOM_SEED UINT64_C(314159265)
#define RANDOM_FACTOR UINT64_C(1220703125)

static inline uint64_t random_bits(uint64_t *x) { return *x = *x * RANDOM_FACTOR & RANDOM_MASK; }

static inline double random_number(uint64_t *x) { return (double)random_bits(x) * 0x1p-46; }

/* The state after `steps` numbers. */
static inline uint64_t random_after(uint64_t seed, uint64_t steps) {
    uint64_t power = RANDOM_FACTOR;
    for (; steps; steps >>= 1) {
        if (steps & 1)
            seed = seed * power & RANDOM_MASK;
        power = power * power & RANDOM_MASK;
    }
    return seed;
}

static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The timed part begins, and ends. It is a region of interest, too. */
static inline void start(struct run *run, const char *name) {
    motet_roi_begin(name);
    run->start = seconds();
}

static inline void stop(struct run *run, const char *name) {
    run->elapsed = seconds() - run->start;
    motet_roi_end(name);
}

/* One of the results: prints it, and says whether it is the published one. */
static inline bool check(const char *what, double value, double published, double tolerance) {
    bool right = fabs(value - published) <= tolerance * fabs(published);
    printf("checksum %s %.13e published %.13e%s\n", what, value, published, right ? "" : " WRONG");
    return right;
}

/* How often the thread crossed, the last line, and the program's status. */
static inline int end(const struct run *run, const char *name, int iterations, bool verified) {
    migrate_show();
    printf("%s class %c schedule %s to %s iterations %d seconds %.3f %s\n", name, CLASS_NAME, schedule_names[run->schedule],
           run->migrate.isa, iterations, run->elapsed, verified ? "verified" : "NOT VERIFIED");
    return verified ? 0 : 1;
}

#endif
