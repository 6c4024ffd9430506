/*
 * What hthreads promise, over the back end that MOTET_HTHREADS chooses, which must be the one called BACKEND:
 *
 *     semantics BACKEND [TEST...]
 *
 * Prints a line for each test. Islands that the program has code for: bits in the variable ISLANDS, if that is set.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../asleep.h"
#include "check.h"
#include "hthread.h"
#include "motet.h"

enum { LONG_NS = 150000000, SHORT_NS = 30000000 };

static hthread_mutex_t mutex, other_mutex;
static hthread_cond_t condition;
static hthread_barrier_t barrier;

static struct timespec after(long ns) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += ns;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static int has_passed(const struct timespec *time) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > time->tv_sec || (now.tv_sec == time->tv_sec && now.tv_nsec >= time->tv_nsec);
}

static void pause_ns(long ns) {
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

/* Takes the least time for much of the same. */
static int is_fused(void) { return strcmp(hthread_backend(), "fused") == 0; }

static hthread_t start_as(int priority, void *(*function)(void *), void *argument) {
    hthread_t thread;
    hthread_attr_t attr;
    hthread_attr_init(&attr);
    IS(hthread_attr_setpriority(&attr, priority), 0);
    IS(hthread_create(&thread, &attr, function, argument), 0);
    return thread;
}

static hthread_t start(void *(*function)(void *), void *argument) { return start_as(HTHREAD_PRIORITY_DEFAULT, function, argument); }

static void *join(hthread_t thread) {
    void *value;
    IS(hthread_join(thread, &value), 0);
    return value;
}

static hthread_mutex_t mutex_of(uint32_t kind) {
    hthread_mutex_t made;
    hthread_mutexattr_t attr;
    hthread_mutexattr_init(&attr);
    IS(hthread_mutexattr_setkind(&attr, kind), 0);
    IS(hthread_mutex_init(&made, &attr), 0);
    return made;
}

/* Results of calls by another thread. */
static void *try_it(void *locked) { return (void *)(long)hthread_mutex_trylock(locked); }
static void *unlock_it(void *locked) { return (void *)(long)hthread_mutex_unlock(locked); }
static void *lock_it(void *locked) { return (void *)(long)hthread_mutex_lock(locked); }

static void kinds(void) {
    hthread_mutex_t fast = mutex_of(HTHREAD_MUTEX_FAST), recursive = mutex_of(HTHREAD_MUTEX_RECURSIVE);
    hthread_mutex_t checking = mutex_of(HTHREAD_MUTEX_ERRORCHECKING), none = {0};
    hthread_mutexattr_t attr;
    struct timespec soon = after(SHORT_NS);
    IS(hthread_mutexattr_setkind(&attr, 3), EINVAL);

    IS(hthread_mutex_lock(&fast), 0);
    IS(hthread_mutex_trylock(&fast), EBUSY);
    IS(hthread_mutex_timedlock(&fast, &soon), ETIMEDOUT);
    IS((long)join(start(try_it, &fast)), EBUSY);
    IS((long)join(start(unlock_it, &fast)), EPERM);
    IS(hthread_mutex_destroy(&fast), EBUSY);
    IS(hthread_mutex_unlock(&fast), 0);
    IS(hthread_mutex_unlock(&fast), EPERM);

    for (int depth = 0; depth < 3; depth++)
        IS(depth == 1 ? hthread_mutex_trylock(&recursive) : hthread_mutex_lock(&recursive), 0);
    for (int depth = 0; depth < 3; depth++) {
        IS((long)join(start(try_it, &recursive)), EBUSY);
        IS(hthread_mutex_unlock(&recursive), 0);
    }
    IS(hthread_mutex_unlock(&recursive), EPERM);
    IS(hthread_mutex_lock(&recursive), 0);
    IS(hthread_mutex_unlock(&recursive), 0);

    IS(hthread_mutex_lock(&checking), 0);
    IS(hthread_mutex_lock(&checking), EDEADLK);
    IS(hthread_mutex_trylock(&checking), EBUSY);
    IS((long)join(start(unlock_it, &checking)), EPERM);
    IS(hthread_mutex_unlock(&checking), 0);
    IS(hthread_mutex_unlock(&checking), EPERM);
    IS(hthread_mutex_consistent(&checking), EINVAL);

    IS(hthread_mutex_destroy(&fast), 0);
    IS(hthread_mutex_destroy(&recursive), 0);
    IS(hthread_mutex_destroy(&checking), 0);
    IS(hthread_mutex_lock(&fast), EINVAL);
    IS(hthread_mutex_trylock(&none), EINVAL);
    IS(hthread_mutex_unlock(&none), EINVAL);
    IS(hthread_mutex_destroy(&none), EINVAL);
}

enum { COUNTERS = 6, ROUNDS = 200, MORE_ROUNDS = 10 };
static long counter, rounds = ROUNDS;

static void *count(void *unused) {
    for (long round = 0; round < rounds; round++) {
        IS(hthread_mutex_lock(&mutex), 0);
        long before = counter;
        if (round % 64 == 0)
            hthread_yield();
        counter = before + 1;
        IS(hthread_mutex_unlock(&mutex), 0);
    }
    return unused;
}

/* Half of them are not the library's. */
static void counting(void) {
    hthread_t threads[COUNTERS];
    pthread_t others[COUNTERS];
    counter = 0;
    rounds = is_fused() ? MORE_ROUNDS * ROUNDS : ROUNDS;
    for (int i = 0; i < COUNTERS; i++) {
        threads[i] = start(count, NULL);
        IS(pthread_create(others + i, NULL, count, NULL), 0);
    }
    for (int i = 0; i < COUNTERS; i++) {
        join(threads[i]);
        IS(pthread_join(others[i], NULL), 0);
    }
    CHECK(counter == 2 * COUNTERS * rounds);
    rounds = ROUNDS;
}

static int has_tried;

/* Holds the mutex until somebody has tried to get it, and a while longer. */
static void *hold_for_a_while(void *unused) {
    IS(hthread_mutex_lock(&mutex), 0);
    IS(hthread_barrier_wait(&barrier) > 0, 0);
    while (!__atomic_load_n(&has_tried, __ATOMIC_SEQ_CST))
        pause_ns(1000000);
    pause_ns(SHORT_NS);
    IS(hthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void time_limits(void) {
    struct timespec soon, late, bad = {0, 1000000000};
    IS(hthread_barrier_init(&barrier, NULL, 2), 0);
    __atomic_store_n(&has_tried, 0, __ATOMIC_SEQ_CST);
    hthread_t holder = start(hold_for_a_while, NULL);
    IS(hthread_barrier_wait(&barrier) > 0, 0);
    soon = after(SHORT_NS);
    IS(hthread_mutex_timedlock(&mutex, &bad), EINVAL);
    IS(hthread_mutex_timedlock(&mutex, &soon), ETIMEDOUT);
    CHECK(has_passed(&soon));
    __atomic_store_n(&has_tried, 1, __ATOMIC_SEQ_CST);
    late = after(999999999);
    late.tv_sec += 60;
    IS(hthread_mutex_timedlock(&mutex, &late), 0);
    IS(hthread_mutex_unlock(&mutex), 0);
    join(holder);
    /* Free: no matter when. */
    IS(hthread_mutex_timedlock(&mutex, &soon), 0);
    IS(hthread_mutex_unlock(&mutex), 0);
    IS(hthread_barrier_destroy(&barrier), 0);
}

static int tokens, waiting, woken;

static void *wait_for_token(void *unused) {
    IS(hthread_mutex_lock(&mutex), 0);
    waiting++;
    while (tokens == 0)
        IS(hthread_cond_wait(&condition, &mutex), 0);
    tokens--;
    woken++;
    IS(hthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void locked_until_waiting(int threads) {
    for (;;) {
        IS(hthread_mutex_lock(&mutex), 0);
        if (waiting == threads)
            return;
        IS(hthread_mutex_unlock(&mutex), 0);
        pause_ns(1000000);
    }
}

static void conditions(void) {
    enum { WAITERS = 5 };
    hthread_t threads[WAITERS];
    hthread_cond_t none = {0};
    IS(hthread_cond_init(&condition, NULL), 0);
    IS(hthread_cond_wait(&condition, &mutex), EPERM);
    IS(hthread_cond_signal(&condition), 0);
    IS(hthread_cond_signal(&none), EINVAL);
    tokens = waiting = woken = 0;
    for (int i = 0; i < WAITERS; i++)
        threads[i] = start(wait_for_token, NULL);
    locked_until_waiting(WAITERS);
    IS(hthread_cond_destroy(&condition), EBUSY);
    IS(hthread_mutex_lock(&other_mutex), 0);
    IS(hthread_cond_wait(&condition, &other_mutex), EINVAL);
    IS(hthread_mutex_unlock(&other_mutex), 0);
    /* One signal, one thread, though there is enough for two. */
    tokens = 2;
    IS(hthread_cond_signal(&condition), 0);
    for (int is_woken = 0; !is_woken;) {
        is_woken = woken != 0;
        IS(hthread_mutex_unlock(&mutex), 0);
        pause_ns(SHORT_NS); /* time for a second one, too */
        IS(hthread_mutex_lock(&mutex), 0);
    }
    CHECK(woken == 1 && tokens == 1);
    tokens = WAITERS - 1;
    IS(hthread_cond_broadcast(&condition), 0);
    IS(hthread_mutex_unlock(&mutex), 0);
    for (int i = 0; i < WAITERS; i++)
        join(threads[i]);
    CHECK(woken == WAITERS && tokens == 0);
    IS(hthread_cond_destroy(&condition), 0);
    IS(hthread_cond_signal(&condition), EINVAL);
}

/* Signals at once, and lets go of the mutex when the other one's time has passed. */
static void *signal_and_hold(void *unused) {
    IS(hthread_mutex_lock(&mutex), 0);
    IS(hthread_cond_signal(&condition), 0);
    pause_ns(2 * LONG_NS);
    woken = 1;
    IS(hthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void limited_waits(void) {
    struct timespec soon, bad = {0, -1};
    IS(hthread_cond_init(&condition, NULL), 0);
    IS(hthread_mutex_lock(&mutex), 0);
    IS(hthread_cond_timedwait(&condition, &mutex, &bad), EINVAL);
    soon = after(SHORT_NS);
    IS(hthread_cond_timedwait(&condition, &mutex, &soon), ETIMEDOUT);
    CHECK(has_passed(&soon));
    IS((long)join(start(try_it, &mutex)), EBUSY);
    soon = after(0);
    soon.tv_sec--;
    IS(hthread_cond_timedwait(&condition, &mutex, &soon), ETIMEDOUT);
    IS((long)join(start(try_it, &mutex)), EBUSY);
    /* Whatever it returns, it has the mutex then. */
    woken = 0;
    hthread_t signaller = start(signal_and_hold, NULL);
    soon = after(LONG_NS);
    int got = hthread_cond_timedwait(&condition, &mutex, &soon);
    CHECK(got == 0 || got == ETIMEDOUT);
    CHECK(woken == 1);
    IS((long)join(start(try_it, &mutex)), EBUSY);
    IS(hthread_mutex_unlock(&mutex), 0);
    join(signaller);
    IS(hthread_cond_destroy(&condition), 0);
}

enum { PARTIES = 4, PHASES = 50 };
static int phase_of[PARTIES], serials;

static void *go_through_phases(void *number) {
    for (int phase = 1; phase <= PHASES; phase++) {
        __atomic_store_n(phase_of + (long)number, phase, __ATOMIC_RELAXED);
        int result = hthread_barrier_wait(&barrier);
        CHECK(result == 0 || result == HTHREAD_BARRIER_SERIAL_THREAD);
        if (result)
            __atomic_fetch_add(&serials, 1, __ATOMIC_RELAXED);
        for (int i = 0; i < PARTIES; i++) {
            int other = __atomic_load_n(phase_of + i, __ATOMIC_RELAXED);
            CHECK(other == phase || other == phase + 1);
        }
    }
    return NULL;
}

static void barriers(void) {
    hthread_t threads[PARTIES];
    IS(hthread_barrier_init(&barrier, NULL, 0), EINVAL);
    IS(hthread_barrier_init(&barrier, NULL, PARTIES), 0);
    serials = 0;
    for (long i = 0; i < PARTIES; i++)
        threads[i] = start(go_through_phases, (void *)i);
    for (int i = 0; i < PARTIES; i++)
        join(threads[i]);
    CHECK(serials == PHASES);
    IS(hthread_barrier_destroy(&barrier), 0);
    IS(hthread_barrier_wait(&barrier), EINVAL);
}

static int order[8], ordered;
static int queueing; /* the last thread that queues for the mutex, as the kernel knows it */

static void *queue_for_mutex(void *priority) {
    __atomic_store_n(&queueing, gettid(), __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
    IS(hthread_mutex_lock(&mutex), 0);
    order[ordered++] = (int)(long)priority;
    IS(hthread_mutex_unlock(&mutex), 0);
    return NULL;
}

static void *queue_for_signal(void *priority) {
    IS(hthread_mutex_lock(&mutex), 0);
    waiting++;
    IS(hthread_cond_wait(&condition, &mutex), 0);
    order[ordered++] = (int)(long)priority;
    IS(hthread_mutex_unlock(&mutex), 0);
    return NULL;
}

/* Waits until the last thread is in the queue of the mutex, which the caller has. A thread sleeps when whoever keeps the mutex has its request; it may be
 * too early that it does. Who keeps the mutex answers all threads in turn, so it has seen the request when it has answered another one twice. */
static void until_queued(void) {
    for (int looks = 0; looks < 2; looks++) {
        until_asleep(__atomic_load_n(&queueing, __ATOMIC_SEQ_CST));
        for (int requests = 0; requests < 2; requests++)
            IS(hthread_mutex_consistent(&mutex), EINVAL);
        pause_ns(SHORT_NS);
    }
}

/* Two of them are as urgent: 100 and 101 stand for the first and the second. */
static const int GIVEN[] = {100, 200, 50, 101, 150}, WANTED[] = {50, 100, 101, 150, 200};
enum { QUEUED = sizeof GIVEN / sizeof GIVEN[0] };

static void check_order(const hthread_t *threads) {
    for (int i = 0; i < QUEUED; i++)
        join(threads[i]);
    for (int i = 0; i < QUEUED; i++)
        if (order[i] != WANTED[i]) {
            printf("the %d. thread is the one with priority %d, not %d\n", i + 1, order[i], WANTED[i]);
            exit(1);
        }
}

static void priorities(void) {
    hthread_t threads[QUEUED];
    hthread_attr_t attr;
    hthread_attr_init(&attr);
    IS(hthread_attr_setpriority(&attr, 256), EINVAL);
    IS(hthread_attr_setpriority(&attr, -1), EINVAL);
    IS(hthread_mutex_lock(&mutex), 0);
    waiting = ordered = 0;
    for (int i = 0; i < QUEUED; i++) {
        threads[i] = start_as(GIVEN[i] == 101 ? 100 : GIVEN[i], queue_for_mutex, (void *)(long)GIVEN[i]);
        while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) != i + 1)
            pause_ns(1000000);
        until_queued();
    }
    IS(hthread_mutex_unlock(&mutex), 0);
    check_order(threads);

    IS(hthread_cond_init(&condition, NULL), 0);
    waiting = ordered = 0;
    for (int i = 0; i < QUEUED; i++) {
        /* One becomes as urgent as it is while it waits. */
        threads[i] = start_as(GIVEN[i] == 50 ? 250 : GIVEN[i] == 101 ? 100 : GIVEN[i], queue_for_signal, (void *)(long)GIVEN[i]);
        locked_until_waiting(i + 1);
        IS(hthread_mutex_unlock(&mutex), 0);
    }
    for (int i = 0; i < QUEUED; i++)
        if (GIVEN[i] == 50)
            IS(hthread_setpriority(threads[i], 50), 0);
    IS(hthread_mutex_lock(&mutex), 0);
    for (int i = 0; i < QUEUED; i++)
        IS(hthread_cond_signal(&condition), 0);
    IS(hthread_mutex_unlock(&mutex), 0);
    check_order(threads);
    IS(hthread_cond_destroy(&condition), 0);
    IS(hthread_setpriority(hthread_self(), 256), EINVAL);
}

static void *return_it(void *value) { return value; }
static void *exit_with(void *value) { hthread_exit(value); }
static void *join_itself(void *unused) {
    (void)unused;
    return (void *)(long)hthread_join(hthread_self(), NULL);
}
static void *leave_without_a_value(void *unused) { pthread_exit(unused); }
static void *wait_at_barrier(void *unused) {
    IS(hthread_barrier_wait(&barrier) > 0, 0);
    return unused;
}
static void *self_of(void *self) {
    *(hthread_t *)self = hthread_self();
    return NULL;
}

static void joins(void) {
    hthread_t self, thread, detached;
    hthread_attr_t attr;
    CHECK(join(start(return_it, (void *)0x123456789abcdef0)) == (void *)0x123456789abcdef0);
    CHECK(join(start(exit_with, (void *)0xfedcba9876543210)) == (void *)0xfedcba9876543210);
    CHECK(join(start(leave_without_a_value, NULL)) == HTHREAD_KILLED);
    IS((long)join(start(join_itself, NULL)), EDEADLK);
    thread = start(self_of, &self);
    join(thread);
    CHECK(hthread_equal(thread, self) && !hthread_equal(thread, hthread_self()));
    CHECK(hthread_join(thread, NULL) != 0 && hthread_detach(thread) != 0);
    IS(hthread_join(4096, NULL), ESRCH);
    /* It has ended before it is joined. */
    thread = start(return_it, &self);
    pause_ns(SHORT_NS);
    CHECK(join(thread) == &self);

    IS(hthread_barrier_init(&barrier, NULL, 3), 0);
    hthread_attr_init(&attr);
    hthread_attr_setdetached(&attr, 1);
    IS(hthread_create(&detached, &attr, wait_at_barrier, NULL), 0);
    thread = start(wait_at_barrier, NULL);
    IS(hthread_join(detached, NULL), EINVAL);
    IS(hthread_detach(thread), 0);
    IS(hthread_join(thread, NULL), EINVAL);
    IS(hthread_barrier_wait(&barrier) > 0, 0);
    while (hthread_barrier_destroy(&barrier) == EBUSY)
        pause_ns(1000000);
}

/* Numbers of threads are used again: there are 4096. */
static void many(void) {
    enum { ALIVE = 24, TIMES = 25, MORE_TIMES = 180 };
    hthread_t threads[ALIVE];
    for (long time = 0; time < (is_fused() ? MORE_TIMES : TIMES); time++) {
        for (long i = 0; i < ALIVE; i++)
            threads[i] = start(i % 2 ? return_it : exit_with, (void *)(time * ALIVE + i));
        for (long i = 0; i < ALIVE; i++)
            CHECK(join(threads[i]) == (void *)(time * ALIVE + i));
    }
}

static void *lock_twice(void *word) {
    IS(hthread_mutex_lock(word), 0);
    return (void *)(long)hthread_mutex_lock(word);
}

/* Who comes next has it once. */
static void an_owner_that_dies_twice(void) {
    hthread_mutex_t deep = mutex_of(HTHREAD_MUTEX_RECURSIVE);
    IS((long)join(start(lock_twice, &deep)), 0);
    IS(hthread_mutex_lock(&deep), EOWNERDEAD);
    IS(hthread_mutex_consistent(&deep), 0);
    IS(hthread_mutex_unlock(&deep), 0);
    IS((long)join(start(try_it, &deep)), 0);
    IS(hthread_mutex_destroy(&deep), 0);
}

static void owners_that_die(void) {
    hthread_mutex_t fast = mutex_of(HTHREAD_MUTEX_FAST), lost = mutex_of(HTHREAD_MUTEX_ERRORCHECKING);
    struct timespec late = after(0);
    pthread_t thread;
    void *result;
    late.tv_sec += 60;
    IS((long)join(start(lock_it, &fast)), 0);
    IS(hthread_mutex_lock(&fast), EOWNERDEAD);
    IS((long)join(start(try_it, &fast)), EBUSY);
    IS(hthread_mutex_consistent(&fast), 0);
    IS(hthread_mutex_consistent(&fast), EINVAL);
    IS(hthread_mutex_unlock(&fast), 0);
    IS(hthread_mutex_lock(&fast), 0);
    IS(hthread_mutex_unlock(&fast), 0);
    /* Of a thread that was not created by the library. */
    IS(pthread_create(&thread, NULL, lock_it, &lost), 0);
    IS(pthread_join(thread, &result), 0);
    IS((long)result, 0);
    IS(hthread_mutex_timedlock(&lost, &late), EOWNERDEAD);
    IS(hthread_mutex_unlock(&lost), 0);
    IS(hthread_mutex_lock(&lost), ENOTRECOVERABLE);
    IS(hthread_mutex_trylock(&lost), ENOTRECOVERABLE);
    IS(hthread_mutex_destroy(&fast), 0);
    IS(hthread_mutex_destroy(&lost), 0);
    an_owner_that_dies_twice();
}

static void *raise_twice(void *unused) {
    IS(hthread_intrassoc(5), EBUSY);
    IS(hthread_intrwait(5, NULL), EPERM);
    IS(hthread_intrraise(5), 0);
    IS(hthread_intrraise(5), 0);
    return unused;
}

static void *wait_for_interrupt(void *unused) {
    unsigned interrupts = 0;
    (void)unused;
    IS(hthread_intrassoc(6), 0);
    IS(hthread_barrier_wait(&barrier) > 0, 0);
    IS(hthread_intrwait(6, &interrupts), 0);
    return (void *)(long)interrupts;
}

static void interrupts(void) {
    unsigned interrupts = 0;
    IS(hthread_intrassoc(64), EINVAL);
    IS(hthread_intrraise(5), EPERM);
    IS(hthread_intrassoc(5), 0);
    IS(hthread_intrassoc(5), 0);
    join(start(raise_twice, NULL));
    IS(hthread_intrwait(5, &interrupts), 0);
    CHECK(interrupts == 2);
    IS(hthread_barrier_init(&barrier, NULL, 2), 0);
    hthread_t thread = start(wait_for_interrupt, NULL);
    IS(hthread_barrier_wait(&barrier) > 0, 0);
    pause_ns(SHORT_NS);
    IS(hthread_intrraise(6), 0);
    CHECK((long)join(thread) == 1);
    IS(hthread_intrraise(6), EPERM);
    while (hthread_barrier_destroy(&barrier) == EBUSY)
        pause_ns(1000000);
}

static void *island_of(void *unused) {
    (void)unused;
    count(NULL);
    return (void *)(long)motet_island();
}

/* Threads run where they are told; all of them count. */
static void islands(void) {
    const char *given = getenv("ISLANDS");
    unsigned usable = given ? (unsigned)atoi(given) : 1;
    hthread_t threads[8];
    hthread_attr_t attr;
    counter = 0;
    for (unsigned island = 0; island < 8; island++) {
        hthread_attr_init(&attr);
        IS(hthread_attr_setislands(&attr, 1u << island), 0);
        IS(hthread_create(threads + island, &attr, island_of, NULL), usable >> island & 1 ? 0 : EINVAL);
    }
    IS(hthread_attr_setislands(&attr, 256), EINVAL);
    for (unsigned island = 0; island < 8; island++)
        if (usable >> island & 1) {
            long was_on = (long)join(threads[island]);
            CHECK(was_on == (motet_island() < 0 ? -1 : (long)island));
        }
    CHECK(counter == ROUNDS * (long)__builtin_popcount(usable));
}

static const struct test {
    const char *name;
    void (*run)(void);
} TESTS[] = {
    {"kinds", kinds},           {"counting", counting}, {"time_limits", time_limits}, {"conditions", conditions},
    {"limited_waits", limited_waits}, {"barriers", barriers}, {"priorities", priorities},   {"joins", joins},
    {"many", many},             {"owners_that_die", owners_that_die}, {"interrupts", interrupts}, {"islands", islands},
};

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 || strcmp(hthread_backend(), argv[1]) != 0) {
        printf("the back end is %s\n", hthread_backend());
        return 64;
    }
    IS(hthread_mutex_init(&mutex, NULL), 0);
    IS(hthread_mutex_init(&other_mutex, NULL), 0);
    for (unsigned i = 0; i < sizeof TESTS / sizeof TESTS[0]; i++) {
        int is_wanted = argc == 2;
        for (int word = 2; word < argc; word++)
            is_wanted |= strcmp(argv[word], TESTS[i].name) == 0;
        if (is_wanted) {
            TESTS[i].run();
            printf("%s\n", TESTS[i].name);
        }
    }
    return 0;
}
