/* Real-time policies on one core. Run as root: `realtime CORE OTHER_CORE CASE...` prints the name of each case that holds. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RESET_ON_FORK 0x40000000
#define NS_PER_MS 1000000ull

static int core, other_core;

#define REQUIRE(condition) require(condition, #condition, __LINE__)

static void require(int holds, const char *condition, int line) {
    if (!holds) {
        printf("line %d: not %s (errno %d)\n", line, condition, errno);
        exit(1);
    }
}

/* libc has functions of its own that may refuse. */
static long schedule(int tid, int policy, int priority) {
    return syscall(SYS_sched_setscheduler, tid, policy, &priority);
}

static void run_on(int where) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(where, &set);
    REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
}

static uint64_t now_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* Computes for so long, as the thread's own time says. */
static void compute(uint64_t ns) {
    uint64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}

/* A thread that counts until it is told to stop. */
struct counter {
    int policy, priority, where;
    atomic_ulong count;
    atomic_int tid, stop;
    pthread_t thread;
};

static void *count(void *argument) {
    struct counter *counter = argument;
    run_on(counter->where);
    REQUIRE(schedule(0, counter->policy, counter->priority) == 0);
    atomic_store(&counter->tid, syscall(SYS_gettid));
    while (!atomic_load_explicit(&counter->stop, memory_order_relaxed))
        atomic_fetch_add_explicit(&counter->count, 1, memory_order_relaxed);
    return NULL;
}

static void start(struct counter *counter) {
    REQUIRE(pthread_create(&counter->thread, NULL, count, counter) == 0);
}

static void stop(struct counter *counter) {
    atomic_store(&counter->stop, 1);
    pthread_join(counter->thread, NULL);
}

static void until_begun(struct counter *counter) {
    while (atomic_load(&counter->count) == 0)
        usleep(1000);
}

static void limit(const char *text) {
    int file = open("/proc/sys/kernel/sched_rt_runtime_us", O_WRONLY);
    REQUIRE(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
}

/* Who waits for the core of a more urgent thread does not run while that computes, and does when it sleeps. */
static void first(void) {
    struct counter ordinary = {.policy = SCHED_OTHER, .where = core};
    limit("-1"); /* a host that is late would use up what the urgent have of a second */
    REQUIRE(schedule(0, SCHED_FIFO, 10) == 0);
    start(&ordinary);
    until_begun(&ordinary);
    for (int round = 0; round < 5; round++) {
        unsigned long before = atomic_load(&ordinary.count);
        compute(30 * NS_PER_MS);
        REQUIRE(atomic_load(&ordinary.count) == before);
        /* The host may have no time for this core until the sleep is over. */
        for (int sleeps = 0; atomic_load(&ordinary.count) == before; sleeps++) {
            REQUIRE(sleeps < 1000);
            usleep(20000);
        }
    }
    stop(&ordinary);
    REQUIRE(schedule(0, SCHED_OTHER, 0) == 0);
    limit("950000");
}

/* Who wakes is more urgent than a real-time thread that never waits, and takes its core. */
static void wakes(void) {
    struct counter busy = {.policy = SCHED_FIFO, .priority = 5, .where = core};
    REQUIRE(schedule(0, SCHED_FIFO, 6) == 0);
    start(&busy);
    until_begun(&busy);
    for (int round = 0; round < 20; round++)
        usleep(2000);
    stop(&busy);
    REQUIRE(schedule(0, SCHED_OTHER, 0) == 0);
}

static int mail[2];
static atomic_int has_read, is_urgent;

static void *read_mail(void *argument) {
    char byte;
    run_on(core);
    REQUIRE(schedule(0, SCHED_RR, 8) == 0);
    /* From here on it keeps the core until it waits. */
    atomic_store(&is_urgent, 1);
    while (read(mail[0], &byte, 1) == 1)
        atomic_fetch_add(&has_read, 1);
    return argument;
}

/* Who wakes a more urgent one of its core goes on when that one waits again. */
static void posts(void) {
    pthread_t reader;
    REQUIRE(pipe(mail) == 0 && pthread_create(&reader, NULL, read_mail, NULL) == 0);
    while (!atomic_load(&is_urgent))
        usleep(1000);
    REQUIRE(schedule(0, SCHED_FIFO, 7) == 0);
    for (int round = 1; round <= 50; round++) {
        REQUIRE(write(mail[1], "", 1) == 1);
        REQUIRE(atomic_load(&has_read) == round);
    }
    REQUIRE(schedule(0, SCHED_OTHER, 0) == 0);
    close(mail[1]);
    pthread_join(reader, NULL);
}

/* Of equals, those of SCHED_RR take turns, and those of SCHED_FIFO do not. */
static void rounds(void) {
    struct counter equal = {.policy = SCHED_RR, .priority = 3, .where = core};
    limit("-1");
    REQUIRE(schedule(0, SCHED_RR, 3) == 0);
    start(&equal);
    while (atomic_load(&equal.count) == 0) {
    }
    unsigned long seen = atomic_load(&equal.count);
    while (atomic_load(&equal.count) == seen) {
    }
    REQUIRE(schedule(0, SCHED_FIFO, 3) == 0);
    seen = atomic_load(&equal.count);
    compute(100 * NS_PER_MS);
    REQUIRE(atomic_load(&equal.count) == seen);
    stop(&equal);
    REQUIRE(schedule(0, SCHED_OTHER, 0) == 0);
    limit("950000");
}

/* Waits until a thread counts, and says how long that took at most. */
static void until_goes_on(struct counter *counter, uint64_t *most_ns) {
    unsigned long before = atomic_load(&counter->count);
    uint64_t start_ns = now_ns(CLOCK_MONOTONIC);
    while (atomic_load(&counter->count) == before) {
    }
    uint64_t took_ns = now_ns(CLOCK_MONOTONIC) - start_ns;
    *most_ns = took_ns > *most_ns ? took_ns : *most_ns;
}

/* A thread that is ready already, and becomes more urgent than the running one, runs; so does who waits for one that becomes less urgent. */
static uint64_t change(void) {
    uint64_t most_ns = 0;
    struct counter busy = {.policy = SCHED_FIFO, .priority = 5, .where = core};
    struct counter waits = {.policy = SCHED_OTHER, .where = core};
    run_on(other_core);
    limit("-1");
    start(&waits);
    until_begun(&waits);
    start(&busy);
    until_begun(&busy);
    REQUIRE(schedule(atomic_load(&waits.tid), SCHED_FIFO, 6) == 0);
    until_goes_on(&waits, &most_ns);
    REQUIRE(schedule(atomic_load(&waits.tid), SCHED_FIFO, 4) == 0);
    until_goes_on(&busy, &most_ns);
    REQUIRE(schedule(atomic_load(&busy.tid), SCHED_OTHER, 0) == 0);
    until_goes_on(&waits, &most_ns);
    stop(&waits);
    stop(&busy);
    limit("950000");
    run_on(core);
    return most_ns;
}

static void changes(void) {
    change();
}

/* In simulated time. */
static void changes_at_once(void) {
    REQUIRE(change() < NS_PER_MS);
}

/* However urgent a thread is that never waits, others of its core go on. */
static void limited(void) {
    struct counter ordinary = {.policy = SCHED_OTHER, .where = core};
    limit("100000");
    start(&ordinary);
    until_begun(&ordinary);
    REQUIRE(schedule(0, SCHED_FIFO, 99) == 0);
    for (int round = 0; round < 3; round++) {
        unsigned long before = atomic_load(&ordinary.count);
        while (atomic_load(&ordinary.count) == before) {
        }
    }
    REQUIRE(schedule(0, SCHED_OTHER, 0) == 0);
    stop(&ordinary);
    limit("950000");
}

/* Fields 18 (priority), 19 (nice), 40 (real-time priority) and 41 (policy) of /proc/self/stat. */
static void stat_fields(long fields[4]) {
    char text[1024] = "";
    int file = open("/proc/self/stat", O_RDONLY);
    REQUIRE(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    char *at = strrchr(text, ')');
    for (int field = 3; field <= 41; field++) {
        at = strchr(at, ' ') + 1;
        int index = field == 18 ? 0 : field == 19 ? 1 : field == 40 ? 2 : field == 41 ? 3 : -1;
        if (index >= 0)
            fields[index] = strtol(at, NULL, 10);
    }
}

static int in_child(int (*act)(void)) {
    int child = fork();
    if (child == 0)
        _exit(act());
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int own_policy(void) {
    int priority = -1;
    REQUIRE(syscall(SYS_sched_getparam, 0, &priority) == 0);
    return syscall(SYS_sched_getscheduler, 0) << 4 | priority;
}

static int as_user(void) {
    REQUIRE(schedule(0, SCHED_FIFO, 5) == 0);
    struct rlimit three = {3, 3};
    REQUIRE(setrlimit(RLIMIT_RTPRIO, &three) == 0);
    REQUIRE(setuid(1000) == 0);
    /* Lower is always allowed, higher only up to the limit. */
    REQUIRE(schedule(0, SCHED_FIFO, 6) == -1 && errno == EPERM);
    REQUIRE(schedule(0, SCHED_FIFO, 4) == 0 && schedule(0, SCHED_RR, 3) == 0);
    REQUIRE(schedule(0, SCHED_RR, 4) == -1 && errno == EPERM);
    REQUIRE(schedule(0, SCHED_OTHER | RESET_ON_FORK, 0) == 0);
    REQUIRE(schedule(0, SCHED_OTHER, 0) == -1 && errno == EPERM);
    struct rlimit none = {0, 0};
    REQUIRE(setrlimit(RLIMIT_RTPRIO, &none) == 0);
    REQUIRE(schedule(0, SCHED_FIFO | RESET_ON_FORK, 1) == -1 && errno == EPERM);
    REQUIRE(schedule(1, SCHED_OTHER, 0) == -1 && errno == EPERM);
    return 7;
}

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t clamps[2];
};

static void told(void) {
    long fields[4];
    struct timespec interval;
    REQUIRE(own_policy() == 0);
    REQUIRE(schedule(0, SCHED_RR, 9) == 0 && own_policy() == (SCHED_RR << 4 | 9));
    stat_fields(fields);
    REQUIRE(fields[0] == -10 && fields[1] == 0 && fields[2] == 9 && fields[3] == SCHED_RR);
    REQUIRE(syscall(SYS_sched_rr_get_interval, 0, &interval) == 0 && interval.tv_nsec == 33000000);
    REQUIRE(in_child(own_policy) == (SCHED_RR << 4 | 9));
    int priority = 8;
    REQUIRE(syscall(SYS_sched_setparam, 0, &priority) == 0 && own_policy() == (SCHED_RR << 4 | 8));
    REQUIRE(schedule(0, SCHED_FIFO | RESET_ON_FORK, 2) == 0 && in_child(own_policy) == 0);
    REQUIRE(syscall(SYS_sched_getscheduler, 0) == (SCHED_FIFO | RESET_ON_FORK));
    REQUIRE(syscall(SYS_sched_rr_get_interval, 0, &interval) == 0 && interval.tv_nsec == 0);
    REQUIRE(schedule(0, SCHED_FIFO, 100) == -1 && errno == EINVAL);
    struct attributes wanted = {.size = sizeof wanted, .policy = SCHED_OTHER, .nice = 3, .runtime = 33000000}, got;
    REQUIRE(syscall(SYS_sched_setattr, 0, &wanted, 0) == 0 && syscall(SYS_sched_getattr, 0, &got, sizeof got, 0) == 0);
    REQUIRE(got.size == sizeof got && got.policy == SCHED_OTHER && got.nice == 3 && got.runtime == 33000000);
    REQUIRE(syscall(SYS_sched_rr_get_interval, 0, &interval) == 0 && interval.tv_nsec == 33000000);
    wanted = (struct attributes){.size = 48, .policy = SCHED_OTHER};
    REQUIRE(syscall(SYS_sched_setattr, 0, &wanted, 0) == 0 && own_policy() == 0);
    stat_fields(fields);
    REQUIRE(fields[0] == 20 && fields[1] == 0 && fields[2] == 0 && fields[3] == SCHED_OTHER);
    REQUIRE(in_child(as_user) == 7);
}

/* Standard input has times at which they were written: how long it takes to read one, at most. */
static void read_times(void) {
    uint64_t sent_ns, most_ns = 0;
    while (read(0, &sent_ns, sizeof sent_ns) == sizeof sent_ns) {
        uint64_t took_ns = now_ns(CLOCK_MONOTONIC) - sent_ns;
        most_ns = took_ns > most_ns ? took_ns : most_ns;
    }
    if (most_ns >= NS_PER_MS)
        printf("it took %llu ns\n", (unsigned long long)most_ns);
    REQUIRE(most_ns < NS_PER_MS);
}

/* A real-time thread computes on this core meanwhile. */
static void reads(void) {
    struct counter busy = {.policy = SCHED_FIFO, .priority = 5, .where = core};
    REQUIRE(schedule(0, SCHED_FIFO, 6) == 0);
    start(&busy);
    read_times();
    stop(&busy);
    REQUIRE(schedule(0, SCHED_OTHER, 0) == 0);
}

/* Something else does. */
static void reads_alone(void) {
    REQUIRE(schedule(0, SCHED_FIFO, 6) == 0);
    read_times();
    REQUIRE(schedule(0, SCHED_OTHER, 0) == 0);
}

/* Writes such times. */
static void writes(void) {
    for (int round = 0; round < 10; round++) {
        usleep(3000);
        uint64_t sent_ns = now_ns(CLOCK_MONOTONIC);
        REQUIRE(write(1, &sent_ns, sizeof sent_ns) == sizeof sent_ns);
    }
    exit(0);
}

int main(int count, char **arguments) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"first", first},     {"wakes", wakes}, {"posts", posts}, {"rounds", rounds}, {"changes", changes}, {"changes_at_once", changes_at_once},
                 {"limited", limited}, {"told", told},   {"reads", reads},   {"writes", writes},
                 {"reads_alone", reads_alone}};
    setvbuf(stdout, NULL, _IONBF, 0);
    core = atoi(arguments[1]);
    other_core = atoi(arguments[2]);
    run_on(core);
    for (int at = 3; at < count; at++) {
        for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
            if (strcmp(arguments[at], cases[index].name) == 0) {
                cases[index].run();
                printf("%s\n", arguments[at]);
            }
        }
    }
    return 0;
}
