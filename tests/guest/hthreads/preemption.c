/*
 * What the service core does when a thread becomes ready that is more urgent than one that runs, over `hardware` or `hybrid`:
 *
 *     preemption ISLAND CORES [TEST...]
 *
 * All threads with turns run on one island, which has so many cores. Prints a line for each test. With VECTORS in its environment, threads compute by
 * vector instructions, which may be on another hart than the rest.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../vectors.h"
#include "check.h"
#include "hthread.h"
#include "motet.h"

enum { CORES_MAX = 4, URGENT = 10, LOW = 200, LONG_NS = 50000000, SHORT_NS = 2000000 };

static unsigned island;
static int cores;

static hthread_mutex_t mutex;
static hthread_cond_t condition;
static hthread_barrier_t barrier;

/* Threads that compute for ever: how often they have gone round, and whether they are to end. */
static uint64_t rounds[CORES_MAX + 1];
static int is_over, is_open;
static hthread_t low[CORES_MAX + 1];

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void pause_ns(long ns) {
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

/* Without asking the kernel for anything but the time. */
static void spend_ns(uint64_t ns) {
    for (uint64_t until = now_ns() + ns; now_ns() < until;)
        ;
}

static uint64_t has_gone(int number) { return __atomic_load_n(rounds + number, __ATOMIC_ACQUIRE); }
static int get(int *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static void set(int *flag, int value) { __atomic_store_n(flag, value, __ATOMIC_RELEASE); }

static hthread_t start(int priority, void *(*function)(void *), void *argument) {
    hthread_t thread;
    hthread_attr_t attr;
    hthread_attr_init(&attr);
    IS(hthread_attr_setpriority(&attr, priority), 0);
    IS(hthread_attr_setislands(&attr, 1u << island), 0);
    IS(hthread_create(&thread, &attr, function, argument), 0);
    return thread;
}

static void *join(hthread_t thread) {
    void *value;
    IS(hthread_join(thread, &value), 0);
    return value;
}

static void add_by_vectors(uint64_t *word) {
    VECTORS("vsetivli x0, 1, e64, m1, ta, ma\nvle64.v v1, (%0)\nvadd.vi v1, v1, 1\nvse64.v v1, (%0)", : : "r"(word) : "memory");
}

static int has_vectors;
static void *compute(void *number) {
    uint64_t *own = rounds + (long)number;
    while (!get(&is_over)) {
        if (has_vectors)
            add_by_vectors(own);
        else
            __atomic_store_n(own, *own + 1, __ATOMIC_RELEASE);
    }
    return number;
}

static void goes_on(int number) {
    for (uint64_t before = has_gone(number); has_gone(number) == before;)
        pause_ns(SHORT_NS);
}

/* Asks nothing of the service core: who waits so with a turn keeps it. Whoever is ready on this core runs whenever this thread yields. */
static void yield_often(void) {
    for (int i = 0; i < 40; i++) {
        sched_yield();
        spend_ns(SHORT_NS / 2);
    }
}

static void stands_still(int number) {
    for (uint64_t before = has_gone(number) + 1; before != has_gone(number); yield_often())
        before = has_gone(number);
}

/* As many as there are slots, one after the other. */
static void fill(void) {
    set(&is_over, 0);
    for (long i = 0; i < cores; i++) {
        low[i] = start(LOW, compute, (void *)i);
        goes_on((int)i);
    }
}

static void empty(void) {
    set(&is_over, 1);
    for (long i = 0; i < cores; i++)
        CHECK(join(low[i]) == (void *)i);
}

/* More urgent than all: the one that came last stands still, and the others go on. */
static void *sees_one_stopped(void *unused) {
    stands_still(cores - 1);
    for (int i = 0; i < cores - 1; i++)
        for (uint64_t before = has_gone(i); has_gone(i) == before;)
            spend_ns(SHORT_NS);
    return unused;
}

static void created(void) {
    fill();
    for (int i = 0; i < 3; i++) {
        join(start(URGENT, sees_one_stopped, NULL));
        goes_on(cores - 1);
    }
    empty();
}

static void *waits_to_see(void *unused) {
    IS(hthread_mutex_lock(&mutex), 0);
    while (!is_open)
        IS(hthread_cond_wait(&condition, &mutex), 0);
    is_open = 0;
    IS(hthread_mutex_unlock(&mutex), 0);
    return sees_one_stopped(unused);
}

static void *opens(void *unused) {
    IS(hthread_mutex_lock(&mutex), 0);
    is_open = 1;
    IS(hthread_cond_signal(&condition), 0);
    IS(hthread_mutex_unlock(&mutex), 0);
    return unused;
}

/* By a thread that has no turn. */
static void woken(void) {
    pthread_t third;
    hthread_t urgent = start(URGENT, waits_to_see, NULL);
    fill();
    IS(pthread_create(&third, NULL, opens, NULL), 0);
    IS(pthread_join(third, NULL), 0);
    join(urgent);
    goes_on(cores - 1);
    empty();
}

static void *waits_for_time(void *unused) {
    struct timespec soon;
    IS(hthread_mutex_lock(&mutex), 0);
    is_open = 1;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec++;
    IS(hthread_cond_timedwait(&condition, &mutex, &soon), ETIMEDOUT);
    IS(hthread_mutex_unlock(&mutex), 0);
    return sees_one_stopped(unused);
}

static void by_time(void) {
    hthread_t urgent = start(URGENT, waits_for_time, NULL);
    fill();
    join(urgent);
    goes_on(cores - 1);
    empty();
}

/* As urgent as others: it has to wait. */
static void *runs(void *flag) {
    set(flag, 1);
    return flag;
}

static void equal(void) {
    static int has_run;
    set(&has_run, 0);
    fill();
    hthread_t other = start(LOW, runs, &has_run);
    pause_ns(2 * LONG_NS);
    CHECK(!get(&has_run));
    goes_on(cores - 1);
    /* Who is less urgent than one that waits loses its turn, and who becomes more urgent gets one. */
    IS(hthread_setpriority(low[0], LOW + 1), 0);
    join(other);
    set(&has_run, 0);
    other = start(LOW + 2, runs, &has_run);
    pause_ns(2 * LONG_NS);
    CHECK(!get(&has_run));
    IS(hthread_setpriority(other, LOW - 1), 0);
    join(other);
    goes_on(0);
    empty();
}

static void *locks_and_computes(void *number) {
    IS(hthread_mutex_lock(&mutex), 0);
    set(&is_open, 1);
    while (!get(&is_over))
        rounds[(long)number]++;
    IS(hthread_mutex_unlock(&mutex), 0);
    return number;
}

static void *ends_it_and_locks(void *unused) {
    stands_still(cores - 1);
    IS(hthread_mutex_trylock(&mutex), EBUSY);
    set(&is_over, 1);
    /* The owner gets its turn back while others wait for it. */
    IS(hthread_mutex_lock(&mutex), 0);
    IS(hthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void owner(void) {
    cores--;
    fill();
    cores++;
    set(&is_open, 0);
    low[cores - 1] = start(LOW, locks_and_computes, (void *)(long)(cores - 1));
    while (!get(&is_open))
        pause_ns(SHORT_NS);
    goes_on(cores - 1);
    join(start(URGENT, ends_it_and_locks, NULL));
    empty();
}

/* What it reads comes while it has no turn. */
static int ends[2];
static void *reads(void *number) {
    char bytes[4];
    for (int i = 0; i < 3; i++) {
        __atomic_fetch_add(rounds + (long)number, 1, __ATOMIC_ACQ_REL);
        IS(read(ends[0], bytes, sizeof bytes), sizeof bytes);
    }
    IS(read(ends[0], bytes, sizeof bytes), 0);
    return number;
}

static void *writes_twice(void *unused) {
    int last = cores - 1;
    IS(write(ends[1], "abcd", 4), 4);
    uint64_t before = has_gone(last);
    spend_ns(LONG_NS);
    CHECK(has_gone(last) == before);
    IS(write(ends[1], "abcd", 4), 4);
    spend_ns(LONG_NS);
    CHECK(has_gone(last) == before);
    return unused;
}

static void in_a_call(void) {
    int last = cores - 1;
    cores--;
    fill();
    cores++;
    IS(pipe(ends), 0);
    low[last] = start(LOW, reads, (void *)(long)last);
    for (uint64_t before = has_gone(last); has_gone(last) == before;)
        pause_ns(SHORT_NS);
    pause_ns(LONG_NS);
    join(start(URGENT, writes_twice, NULL));
    IS(write(ends[1], "abcd", 4), 4);
    close(ends[1]);
    empty();
    close(ends[0]);
}

/* A lock of which the service core knows nothing: its owner is stopped, and who waits for it lets the owner run. */
static pthread_mutex_t foreign = PTHREAD_MUTEX_INITIALIZER;
static int is_free;
static void *holds_foreign(void *number) {
    IS(pthread_mutex_lock(&foreign), 0);
    set(&is_open, 1);
    while (!get(&is_free))
        rounds[(long)number]++;
    IS(pthread_mutex_unlock(&foreign), 0);
    return number;
}

static void *wants_foreign(void *unused) {
    stands_still(cores - 1);
    set(&is_free, 1);
    IS(pthread_mutex_lock(&foreign), 0);
    IS(pthread_mutex_unlock(&foreign), 0);
    return unused;
}

static void foreign_lock(void) {
    cores--;
    fill();
    cores++;
    set(&is_open, 0);
    set(&is_free, 0);
    low[cores - 1] = start(LOW, holds_foreign, (void *)(long)(cores - 1));
    while (!get(&is_open))
        pause_ns(SHORT_NS);
    goes_on(cores - 1);
    join(start(URGENT, wants_foreign, NULL));
    empty();
}

/* Who sleeps lets a less urgent one run, and takes its turn again. */
static void *sleeps_and_sees(void *unused) {
    for (int i = 0; i < 3; i++) {
        stands_still(cores - 1);
        goes_on(cores - 1);
    }
    return unused;
}

static void asleep(void) {
    fill();
    join(start(URGENT, sleeps_and_sees, NULL));
    goes_on(cores - 1);
    empty();
}

/* How long it takes from a signal by a thread without a turn until a thread runs that takes another one's turn. */
static uint64_t signalled_ns, ran_ns;
static void *waits_and_looks(void *unused) {
    IS(hthread_mutex_lock(&mutex), 0);
    while (!is_open)
        IS(hthread_cond_wait(&condition, &mutex), 0);
    is_open = 0;
    ran_ns = now_ns();
    IS(hthread_mutex_unlock(&mutex), 0);
    return unused;
}

static void measured(void) {
    hthread_t urgent = start(URGENT, waits_and_looks, NULL);
    fill();
    IS(hthread_mutex_lock(&mutex), 0);
    is_open = 1;
    signalled_ns = now_ns();
    IS(hthread_cond_signal(&condition), 0);
    IS(hthread_mutex_unlock(&mutex), 0);
    join(urgent);
    goes_on(cores - 1);
    empty();
    printf("%llu ns\n", (unsigned long long)(ran_ns - signalled_ns));
}

/* A thread that has no turn is found by signals that end its process, by those that stop it, and by those that have handlers. */
static int handled;
static void handle(int signal) {
    (void)signal;
    __atomic_fetch_add(&handled, 1, __ATOMIC_ACQ_REL);
}

static pthread_t pthread_of_low;
static void *tells_and_computes(void *number) {
    pthread_of_low = pthread_self();
    return compute(number);
}

static void *signals_low(void *unused) {
    stands_still(cores - 1);
    IS(pthread_kill(pthread_of_low, SIGUSR1), 0);
    spend_ns(LONG_NS);
    CHECK(get(&handled) == 0);
    return unused;
}

static void signals(void) {
    int last = cores - 1;
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    set(&handled, 0);
    cores--;
    fill();
    cores++;
    low[last] = start(LOW, tells_and_computes, (void *)(long)last);
    goes_on(last);
    join(start(URGENT, signals_low, NULL));
    goes_on(last);
    IS(get(&handled), 1);
    empty();
}

static void *computes_for_ever(void *number) {
    for (;;)
        rounds[(long)number]++;
    return number;
}

/* Ends by a signal, in all states that its threads may have. */
static void doomed(int tells) {
    for (long i = 0; i < cores; i++)
        start(LOW, computes_for_ever, (void *)i);
    for (int i = 0; i < cores; i++)
        start(URGENT, computes_for_ever, (void *)(long)cores);
    if (tells)
        puts("doomed");
    for (;;)
        pause();
}

static void killed(const char *program, char **arguments) {
    static const int SIGNALS[] = {SIGKILL, SIGTERM, SIGKILL, SIGUSR2};
    for (unsigned i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        int status;
        pid_t child = vfork();
        if (child == 0) {
            execl(program, program, arguments[1], arguments[2], "doomed", NULL);
            _exit(1);
        }
        CHECK(child > 0);
        pause_ns(4 * LONG_NS);
        if (i == 1) {
            IS(kill(child, SIGSTOP), 0);
            IS(waitpid(child, &status, WUNTRACED), child);
            CHECK(WIFSTOPPED(status));
            IS(kill(child, SIGCONT), 0);
            pause_ns(LONG_NS);
        }
        IS(kill(child, SIGNALS[i]), 0);
        IS(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGNALS[i]);
    }
}

static const struct {
    const char *name;
    void (*test)(void);
} TESTS[] = {{"created", created}, {"woken", woken}, {"by_time", by_time}, {"equal", equal}, {"owner", owner}, {"in_a_call", in_a_call}, {"foreign", foreign_lock}, {"asleep", asleep},
             {"signals", signals},
             {"measured", measured}};
enum { COUNT = sizeof TESTS / sizeof TESTS[0], ALL = COUNT - 1 };

static int is_wanted(const char *name, int argc, char **argv, int without_words) {
    int found = argc == 3 && without_words;
    for (int word = 3; word < argc; word++)
        found |= strcmp(argv[word], name) == 0;
    return found;
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    island = (unsigned)atoi(argv[1]);
    cores = atoi(argv[2]);
    has_vectors = getenv("VECTORS") != NULL;
    CHECK(cores > 0 && cores <= CORES_MAX);
    IS(hthread_mutex_init(&mutex, NULL), 0);
    IS(hthread_cond_init(&condition, NULL), 0);
    IS(hthread_barrier_init(&barrier, NULL, 2), 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 3 && strcmp(argv[3], "doomed") == 0)
        doomed(argc > 4);
    for (int i = 0; i < COUNT; i++)
        if (is_wanted(TESTS[i].name, argc, argv, i < ALL)) {
            TESTS[i].test();
            puts(TESTS[i].name);
        }
    if (is_wanted("killed", argc, argv, 1)) {
        killed(argv[0], argv);
        puts("killed");
    }
    return 0;
}
