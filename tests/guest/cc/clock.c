/* Clocks never go back, across all islands: a thread that knows of another thread's reading never reads an earlier time. Usage: `clock READINGS`.
 * Prints which clock went back, and by how much. */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crossing.h"

#define NS 1000000000ull
#define ISLANDS 3
#define NAP_NS 300000ull

struct tally {
    const char *what;
    uint64_t count, back, worst_ns;
};

static struct tally crossing = {"crossing"}, sleeps = {"sleeps"}, polls = {"polls"}, files = {"files"}, cpu = {"cpu"};

static uint64_t read_clock(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        exit(98);
    return (uint64_t)time.tv_sec * NS + (uint64_t)time.tv_nsec;
}

static void check(struct tally *tally, uint64_t earlier, uint64_t later) {
    tally->count++;
    if (later < earlier) {
        tally->back++;
        if (earlier - later > tally->worst_ns)
            tally->worst_ns = earlier - later;
    }
}

static int report(const struct tally *tally) {
    printf("%s: %llu readings, %llu back, by up to %llu ns\n", tally->what, (unsigned long long)tally->count,
           (unsigned long long)tally->back, (unsigned long long)tally->worst_ns);
    return tally->back != 0;
}

static void nap(void) {
    struct timespec time = {0, NAP_NS};
    while (nanosleep(&time, &time) != 0)
        ;
}

static void wait_in_poll(void) { poll(0, 0, 1); }

static void touch(int file) {
    if (pwrite(file, "x", 1, 0) != 1)
        exit(97);
}

static uint64_t modified(int file) {
    struct stat status;
    if (fstat(file, &status) != 0)
        exit(96);
    return (uint64_t)status.st_mtim.tv_sec * NS + (uint64_t)status.st_mtim.tv_nsec;
}

struct shared {
    /* The latest reading that any thread has published. */
    _Atomic uint64_t told;
    _Atomic int ready;
    struct tally of[ISLANDS];
};

/* Publishes each reading, and reads the clock after each reading of another thread. */
static void exchange(struct shared *shared, int island, uint64_t readings) {
    struct tally *tally = &shared->of[island];
    shared->ready++;
    while (shared->ready < ISLANDS)
        ;
    while (tally->count < readings) {
        uint64_t told = shared->told, now = read_clock(CLOCK_MONOTONIC);
        check(tally, told, now);
        while (told < now && !__c11_atomic_compare_exchange_weak(&shared->told, &told, now, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            ;
    }
}

#define ON_ISLAND(number, isa)                                                                                         \
    MOTET_ON(isa) uint64_t read_clock_##number(clockid_t clock) { return read_clock(clock); }                          \
    MOTET_ON(isa) void nap_##number(void) { nap(); }                                                                   \
    MOTET_ON(isa) void wait_in_poll_##number(void) { wait_in_poll(); }                                                 \
    MOTET_ON(isa) void touch_##number(int file) { touch(file); }                                                       \
    MOTET_ON(isa) void exchange_##number(struct shared *shared, int island, uint64_t readings) {                       \
        expect_on(isa);                                                                                                \
        exchange(shared, island, readings);                                                                            \
    }

ON_ISLAND(0, X86)
ON_ISLAND(1, ARM)
ON_ISLAND(2, RISCV)

static const struct {
    uint64_t (*read_clock)(clockid_t);
    void (*nap)(void), (*wait_in_poll)(void), (*touch)(int);
    void (*exchange)(struct shared *, int, uint64_t);
} islands[ISLANDS] = {
    {read_clock_0, nap_0, wait_in_poll_0, touch_0, exchange_0},
    {read_clock_1, nap_1, wait_in_poll_1, touch_1, exchange_1},
    {read_clock_2, nap_2, wait_in_poll_2, touch_2, exchange_2},
};

/* One thread goes round the islands. */
static void cross(uint64_t readings) {
    /* The clocks of each pair have the same origin. */
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE};
    uint64_t last[2] = {0};
    for (uint64_t reading = 0; reading < readings; reading++) {
        unsigned which = reading % (sizeof clocks / sizeof *clocks), of = which % 2;
        if (which == 4)
            of = 0;
        uint64_t now = islands[reading % ISLANDS].read_clock(clocks[which]);
        check(&crossing, last[of], now);
        last[of] = now;
    }
}

/* A sleep, a wait, a file's time and processor time on one island are checked by the clocks of two others. */
static void last(int file, unsigned round) {
    unsigned first = round % ISLANDS, second = (round + 1 + round / ISLANDS % 2) % ISLANDS, third = 3 - first - second;
    uint64_t before = islands[first].read_clock(CLOCK_MONOTONIC);
    islands[second].nap();
    check(&sleeps, before + NAP_NS, islands[third].read_clock(CLOCK_MONOTONIC));
    before = islands[first].read_clock(CLOCK_MONOTONIC);
    islands[second].wait_in_poll();
    check(&polls, before + 1000000, islands[third].read_clock(CLOCK_MONOTONIC));
    before = islands[first].read_clock(CLOCK_REALTIME);
    islands[second].touch(file);
    check(&files, before, modified(file));
    check(&files, modified(file), islands[third].read_clock(CLOCK_REALTIME));
    for (int clock = CLOCK_PROCESS_CPUTIME_ID; clock <= CLOCK_THREAD_CPUTIME_ID; clock++) {
        before = islands[first].read_clock(clock);
        uint64_t between = islands[second].read_clock(clock);
        check(&cpu, before, between);
        check(&cpu, between, islands[third].read_clock(clock));
    }
}

int main(int count, char **arguments) {
    uint64_t readings = count > 1 ? strtoull(arguments[1], 0, 10) : 1000;
    int file = open("clock-file", O_CREAT | O_RDWR, 0600), bad = 0;
    struct shared *shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (file < 0 || shared == MAP_FAILED)
        return 95;
    for (int island = 0; island < ISLANDS; island++)
        if (fork() == 0) {
            shared->of[island].what = "shared memory";
            islands[island].exchange(shared, island, readings / 4);
            _exit(0);
        }
    for (int island = 0, status; island < ISLANDS; island++)
        if (wait(&status) < 0 || status != 0)
            return 94;
    /* First one thread crosses, then the other times are checked. */
    cross(readings / 4);
    for (unsigned round = 0; round < 12; round++)
        last(file, round);
    for (int island = 0; island < ISLANDS; island++)
        bad |= report(&shared->of[island]);
    bad |= report(&crossing) | report(&sleeps) | report(&polls) | report(&files) | report(&cpu);
    unlink("clock-file");
    return bad;
}
