/*
 * What pthreads and <threads.h> promise, with nothing in it of the library that keeps its mutexes:
 *
 *     pthreads musl|library
 *
 * says whose they are expected to be. Prints a line for each test. Threads run on the instruction sets that the program has code for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "motet.h"

enum { THREADS = 6, SHORT_NS = 30000000 };

static int is_musls;

static struct timespec after(clockid_t clock, long ns) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += ns;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static int has_passed(clockid_t clock, const struct timespec *time) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > time->tv_sec || (now.tv_sec == time->tv_sec && now.tv_nsec >= time->tv_nsec);
}

static void pause_ns(long ns) {
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

/* Threads on each instruction set in turn: function(number). */
struct job {
    void *(*function)(void *);
    void *argument;
};
MOTET_ON("x86_64") static __attribute__((noinline)) void *on_x86(struct job *job) { return job->function(job->argument); }
MOTET_ON("aarch64") static __attribute__((noinline)) void *on_arm(struct job *job) { return job->function(job->argument); }
MOTET_ON("riscv64") static __attribute__((noinline)) void *on_riscv(struct job *job) { return job->function(job->argument); }

static void *begin(void *job_word) {
    struct job job = *(struct job *)job_word;
    free(job_word);
    switch ((long)job.argument % 3) {
    case 0: return on_x86(&job);
    case 1: return on_arm(&job);
    default: return on_riscv(&job);
    }
}

static pthread_t start(void *(*function)(void *), long number) {
    pthread_t thread;
    struct job *job = malloc(sizeof *job);
    *job = (struct job){function, (void *)number};
    IS(pthread_create(&thread, NULL, begin, job), 0);
    return thread;
}

static void *join(pthread_t thread) {
    void *value;
    IS(pthread_join(thread, &value), 0);
    return value;
}

static void run(void *(*function)(void *)) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        threads[i] = start(function, i);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
}

/* The first use of static objects, by all threads at once. */
enum { STATICS = 40 };
static struct { pthread_mutex_t mutex; int count; } statics[STATICS];
static pthread_barrier_t meeting;

static void *use_statics(void *unused) {
    for (int i = 0; i < STATICS; i++) {
        int result = pthread_barrier_wait(&meeting);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        IS(pthread_mutex_lock(&statics[i].mutex), 0);
        int before = statics[i].count;
        if (i % 8 == 0)
            sched_yield();
        statics[i].count = before + 1;
        IS(pthread_mutex_unlock(&statics[i].mutex), 0);
    }
    return unused;
}

static void first_use(void) {
    IS(pthread_barrier_init(&meeting, NULL, 0), EINVAL);
    IS(pthread_barrier_init(&meeting, NULL, THREADS), 0);
    run(use_statics);
    for (int i = 0; i < STATICS; i++) {
        CHECK(statics[i].count == THREADS);
        IS(pthread_mutex_destroy(&statics[i].mutex), 0);
    }
    IS(pthread_barrier_destroy(&meeting), 0);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

enum { ROUNDS = 300 };
static long counter;

static void *count(void *unused) {
    for (long round = 0; round < ROUNDS; round++) {
        IS(pthread_mutex_lock(&mutex), 0);
        long before = counter;
        if (round % 64 == 0)
            sched_yield();
        counter = before + 1;
        IS(pthread_mutex_unlock(&mutex), 0);
    }
    return unused;
}

static void counting(void) {
    counter = 0;
    run(count);
    CHECK(counter == THREADS * ROUNDS);
}

/* Results of calls by another thread. */
static pthread_mutex_t *asked;
static void *try_it(void *unused) { return (void)unused, (void *)(long)pthread_mutex_trylock(asked); }
static void *unlock_it(void *unused) { return (void)unused, (void *)(long)pthread_mutex_unlock(asked); }
static void *lock_it(void *unused) { return (void)unused, (void *)(long)pthread_mutex_lock(asked); }

static int other(void *(*function)(void *), pthread_mutex_t *of) {
    static long number;
    asked = of;
    return (int)(long)join(start(function, number++));
}

static void make(pthread_mutex_t *made, int type, int robust) {
    pthread_mutexattr_t attr;
    IS(pthread_mutexattr_init(&attr), 0);
    IS(pthread_mutexattr_settype(&attr, type), 0);
    IS(pthread_mutexattr_setrobust(&attr, robust), 0);
    IS(pthread_mutex_init(made, &attr), 0);
}

static void kinds(void) {
    pthread_mutex_t normal, recursive, checking;
    struct timespec soon = after(CLOCK_REALTIME, SHORT_NS), bad = {0, 1000000000};
    make(&normal, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED);
    make(&recursive, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
    make(&checking, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED);

    IS(pthread_mutex_lock(&normal), 0);
    IS(pthread_mutex_trylock(&normal), EBUSY);
    IS(other(try_it, &normal), EBUSY);
    IS(pthread_mutex_timedlock(&normal, &bad), EINVAL);
    IS(pthread_mutex_timedlock(&normal, &soon), ETIMEDOUT);
    CHECK(has_passed(CLOCK_REALTIME, &soon));
    if (!is_musls) {
        /* Where one can tell them apart: musl lets anybody unlock it. */
        IS(other(unlock_it, &normal), EPERM);
        IS(pthread_mutex_destroy(&normal), EBUSY);
    }
    IS(pthread_mutex_unlock(&normal), 0);
    IS(pthread_mutex_timedlock(&normal, &soon), 0);
    IS(pthread_mutex_unlock(&normal), 0);

    for (int depth = 0; depth < 3; depth++)
        IS(depth == 1 ? pthread_mutex_trylock(&recursive) : pthread_mutex_lock(&recursive), 0);
    for (int depth = 0; depth < 3; depth++) {
        IS(other(try_it, &recursive), EBUSY);
        IS(other(unlock_it, &recursive), EPERM);
        IS(pthread_mutex_unlock(&recursive), 0);
    }
    IS(pthread_mutex_unlock(&recursive), EPERM);

    IS(pthread_mutex_unlock(&checking), EPERM);
    IS(pthread_mutex_lock(&checking), 0);
    IS(pthread_mutex_lock(&checking), EDEADLK);
    IS(pthread_mutex_trylock(&checking), EBUSY);
    IS(other(unlock_it, &checking), EPERM);
    IS(pthread_mutex_unlock(&checking), 0);
    IS(pthread_mutex_consistent(&checking), EINVAL);

    IS(pthread_mutex_destroy(&normal), 0);
    IS(pthread_mutex_destroy(&recursive), 0);
    IS(pthread_mutex_destroy(&checking), 0);
}

/* A buffer of few places: what goes in comes out, once. */
enum { PLACES = 3, ITEMS = 120 };
static pthread_cond_t has_item = PTHREAD_COND_INITIALIZER, has_place = PTHREAD_COND_INITIALIZER;
static int items, produced, taken[ITEMS];

static void *produce_or_consume(void *number) {
    for (int i = 0; i < ITEMS * 2 / THREADS; i++) {
        IS(pthread_mutex_lock(&mutex), 0);
        if ((long)number < THREADS / 2) {
            while (items == PLACES)
                IS(pthread_cond_wait(&has_place, &mutex), 0);
            (items++, produced++);
            IS(pthread_cond_signal(&has_item), 0);
        } else {
            while (items == 0)
                IS(pthread_cond_wait(&has_item, &mutex), 0);
            taken[produced - items]++;
            items--;
            IS(pthread_cond_broadcast(&has_place), 0);
        }
        IS(pthread_mutex_unlock(&mutex), 0);
    }
    return NULL;
}

static void conditions(void) {
    run(produce_or_consume);
    CHECK(items == 0 && produced == ITEMS);
    for (int i = 0; i < ITEMS; i++)
        CHECK(taken[i] == 1);
    IS(pthread_cond_destroy(&has_item), 0);
    IS(pthread_cond_destroy(&has_place), 0);
}

static void limited_waits(void) {
    static const clockid_t CLOCKS[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    struct timespec bad = {0, 1000000000};
    IS(pthread_mutex_lock(&mutex), 0);
    IS(pthread_cond_timedwait(&condition, &mutex, &bad), EINVAL);
    for (int i = 0; i < 2; i++) {
        pthread_cond_t timed;
        pthread_condattr_t attr;
        IS(pthread_condattr_init(&attr), 0);
        IS(pthread_condattr_setclock(&attr, CLOCKS[i]), 0);
        IS(pthread_cond_init(&timed, &attr), 0);
        struct timespec soon = after(CLOCKS[i], SHORT_NS);
        IS(pthread_cond_timedwait(&timed, &mutex, &soon), ETIMEDOUT);
        CHECK(has_passed(CLOCKS[i], &soon));
        IS(other(try_it, &mutex), EBUSY);
        IS(pthread_cond_destroy(&timed), 0);
    }
    IS(pthread_mutex_unlock(&mutex), 0);
}

enum { PHASES = 30 };
static int phase_of[THREADS], serials;

static void *go_through_phases(void *number) {
    for (int phase = 1; phase <= PHASES; phase++) {
        __atomic_store_n(phase_of + (long)number, phase, __ATOMIC_RELAXED);
        if (pthread_barrier_wait(&meeting) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_fetch_add(&serials, 1, __ATOMIC_RELAXED);
        for (int i = 0; i < THREADS; i++) {
            int at = __atomic_load_n(phase_of + i, __ATOMIC_RELAXED);
            CHECK(at == phase || at == phase + 1);
        }
    }
    return NULL;
}

static void barriers(void) {
    IS(pthread_barrier_init(&meeting, NULL, THREADS), 0);
    run(go_through_phases);
    CHECK(serials == PHASES);
    IS(pthread_barrier_destroy(&meeting), 0);
}

static void owners_that_die(void) {
    pthread_mutex_t robust, stalled;
    struct timespec soon = after(CLOCK_REALTIME, SHORT_NS);
    make(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
    IS(pthread_mutex_consistent(&robust), EINVAL);
    IS(other(lock_it, &robust), 0);
    IS(pthread_mutex_lock(&robust), EOWNERDEAD);
    IS(pthread_mutex_consistent(&robust), 0);
    IS(pthread_mutex_unlock(&robust), 0);
    IS(other(lock_it, &robust), 0);
    IS(pthread_mutex_trylock(&robust), EOWNERDEAD);
    IS(pthread_mutex_unlock(&robust), 0);
    IS(pthread_mutex_lock(&robust), ENOTRECOVERABLE);
    IS(other(lock_it, &robust), ENOTRECOVERABLE);
    IS(pthread_mutex_destroy(&robust), 0);

    make(&stalled, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
    IS(other(lock_it, &stalled), 0);
    IS(pthread_mutex_timedlock(&stalled, &soon), ETIMEDOUT);
    IS(pthread_mutex_trylock(&stalled), EBUSY);
    IS(other(try_it, &stalled), EBUSY);
}

static int cleaned, waits;

static void clean(void *unused) {
    (void)unused;
    cleaned = pthread_mutex_unlock(&mutex) == 0 ? 1 : -1;
}

static void *wait_for_ever(void *unused) {
    IS(pthread_mutex_lock(&mutex), 0);
    waits = 1;
    pthread_cleanup_push(clean, NULL);
    for (;;)
        IS(pthread_cond_wait(&condition, &mutex), 0);
    pthread_cleanup_pop(0);
    return unused;
}

/* Whoever is cancelled while it waits has the mutex when it cleans up. */
static void cancelling(void) {
    for (long i = 0; i < 3; i++) {
        waits = cleaned = 0;
        pthread_t thread = start(wait_for_ever, i);
        for (int is_waiting = 0; !is_waiting; pause_ns(1000000)) {
            IS(pthread_mutex_lock(&mutex), 0);
            is_waiting = waits;
            IS(pthread_mutex_unlock(&mutex), 0);
        }
        pause_ns(SHORT_NS);
        IS(pthread_mutex_lock(&mutex), 0);
        IS(pthread_cancel(thread), 0);
        pause_ns(SHORT_NS);
        CHECK(cleaned == 0);
        IS(pthread_mutex_unlock(&mutex), 0);
        CHECK(join(thread) == PTHREAD_CANCELED);
        CHECK(cleaned == 1);
    }
    IS(pthread_mutex_lock(&mutex), 0);
    IS(pthread_mutex_unlock(&mutex), 0);
}

/* Attributes that only musl keeps. */
static void shared(void) {
    struct { pthread_mutex_t mutex; pthread_cond_t condition; pthread_barrier_t barrier; int count; } *all;
    pthread_mutexattr_t attr;
    pthread_condattr_t condition_attr;
    pthread_barrierattr_t barrier_attr;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    IS(pthread_mutexattr_init(&attr), 0);
    IS(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_mutex_init(&all->mutex, &attr), 0);
    IS(pthread_condattr_init(&condition_attr), 0);
    IS(pthread_condattr_setpshared(&condition_attr, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_cond_init(&all->condition, &condition_attr), 0);
    IS(pthread_barrierattr_init(&barrier_attr), 0);
    IS(pthread_barrierattr_setpshared(&barrier_attr, PTHREAD_PROCESS_SHARED), 0);
    IS(pthread_barrier_init(&all->barrier, &barrier_attr, 2), 0);
    IS(pthread_mutex_lock(&mutex), 0);
    pid_t child = fork();
    int status;
    if (child == 0) {
        /* As for every child: its copies of mutexes are its own. */
        pthread_mutex_unlock(&mutex);
        counting();
        pthread_barrier_wait(&all->barrier);
    }
    if (child != 0)
        pthread_barrier_wait(&all->barrier);
    for (int i = 0; i < ROUNDS; i++) {
        IS(pthread_mutex_lock(&all->mutex), 0);
        int before = all->count;
        if (i % 64 == 0)
            sched_yield();
        all->count = before + 1;
        IS(pthread_mutex_unlock(&all->mutex), 0);
    }
    if (child == 0)
        _exit(0);
    IS(pthread_mutex_unlock(&mutex), 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(all->count == 2 * ROUNDS);
    IS(pthread_mutex_destroy(&all->mutex), 0);
    IS(pthread_cond_destroy(&all->condition), 0);
}

/* Others' destructors may lock, whenever they run. */
static pthread_key_t keys[2];
static int destroyed;

static void destroy(void *rounds) {
    IS(pthread_mutex_lock(&mutex), 0);
    destroyed++;
    IS(pthread_mutex_unlock(&mutex), 0);
    if ((long)rounds > 1)
        pthread_setspecific(keys[1], (void *)((long)rounds - 1));
}

static void *set_values(void *unused) {
    count(unused);
    pthread_setspecific(keys[0], (void *)1L);
    pthread_setspecific(keys[1], (void *)2L);
    return unused;
}

static void destructors(void) {
    IS(pthread_key_create(keys, destroy), 0);
    IS(pthread_key_create(keys + 1, destroy), 0);
    run(set_values);
    CHECK(destroyed == 3 * THREADS);
}

static mtx_t c11_mutex;
static cnd_t c11_condition;
static once_flag c11_once = ONCE_FLAG_INIT;
static int c11_turn;

static void make_c11(void) {
    CHECK(mtx_init(&c11_mutex, mtx_timed) == thrd_success && cnd_init(&c11_condition) == thrd_success);
}

static int take_turns(void *number) {
    call_once(&c11_once, make_c11);
    for (int round = 0; round < 20; round++) {
        CHECK(mtx_lock(&c11_mutex) == thrd_success);
        while (c11_turn % 3 != (int)(long)number)
            CHECK(cnd_wait(&c11_condition, &c11_mutex) == thrd_success);
        c11_turn++;
        CHECK(cnd_broadcast(&c11_condition) == thrd_success);
        CHECK(mtx_unlock(&c11_mutex) == thrd_success);
    }
    return 7;
}

static void c11(void) {
    thrd_t threads[3];
    struct timespec soon;
    for (long i = 0; i < 3; i++)
        CHECK(thrd_create(threads + i, take_turns, (void *)i) == thrd_success);
    for (int i = 0; i < 3; i++) {
        int result = 0;
        CHECK(thrd_join(threads[i], &result) == thrd_success && result == 7);
    }
    CHECK(c11_turn == 60);
    CHECK(mtx_lock(&c11_mutex) == thrd_success && mtx_trylock(&c11_mutex) == thrd_busy);
    soon = after(CLOCK_REALTIME, SHORT_NS);
    CHECK(cnd_timedwait(&c11_condition, &c11_mutex, &soon) == thrd_timedout);
    CHECK(mtx_unlock(&c11_mutex) == thrd_success);
    mtx_destroy(&c11_mutex);
    cnd_destroy(&c11_condition);
}

/* More mutexes than the service core has, and more threads than windows, one after the other. */
static void many(void) {
    enum { MANY = 1100, CHURN = 150 };
    static pthread_mutex_t mutexes[MANY];
    for (int i = 0; i < MANY; i++)
        IS(pthread_mutex_lock(mutexes + i), 0);
    IS(other(try_it, mutexes), EBUSY);
    IS(other(try_it, mutexes + MANY - 1), EBUSY);
    pthread_cond_t late = PTHREAD_COND_INITIALIZER;
    struct timespec soon = after(CLOCK_REALTIME, SHORT_NS);
    IS(pthread_cond_timedwait(&late, mutexes + MANY - 1, &soon), ETIMEDOUT);
    for (int i = 0; i < MANY; i++) {
        IS(pthread_mutex_unlock(mutexes + i), 0);
        IS(pthread_mutex_destroy(mutexes + i), 0);
    }
    for (int i = 0; i < CHURN; i++)
        IS(other(try_it, mutexes) , i == 0 ? 0 : EBUSY);
}

static const struct test {
    const char *name;
    void (*run)(void);
} TESTS[] = {
    {"first_use", first_use}, {"counting", counting},     {"kinds", kinds},
    {"conditions", conditions}, {"limited_waits", limited_waits}, {"barriers", barriers},
    {"owners_that_die", owners_that_die}, {"cancelling", cancelling}, {"shared", shared},
    {"destructors", destructors}, {"c11", c11}, {"many", many},
};

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    is_musls = argc < 2 || strcmp(argv[1], "library") != 0;
    for (unsigned i = 0; i < sizeof TESTS / sizeof TESTS[0]; i++) {
        int is_wanted = argc <= 2;
        for (int word = 2; word < argc; word++)
            is_wanted |= strcmp(argv[word], TESTS[i].name) == 0;
        if (is_wanted) {
            TESTS[i].run();
            printf("%s\n", TESTS[i].name);
        }
    }
    return 0;
}
