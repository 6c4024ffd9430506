/*
 * Measures the time of hthreads' mutexes, with the back end that MOTET_HTHREADS chooses:
 *
 *     latency [-s SECONDS] [-c CPU,CPU,...] lock THREADS ITERATIONS                       each thread has a mutex of its own
 *     latency [-c CPU,CPU,...] same THREADS ITERATIONS                       all have one
 *     latency [-c CPU,CPU,...] speedup THREADS TOTAL OUTSIDE INSIDE [BEGINNINGS SPAN]
 *         TOTAL iterations, divided over the threads: each is OUTSIDE cycles of delay, then INSIDE cycles with the thread's own mutex locked (see
 *         `delay`). With BEGINNINGS, all of that is done so many times, and each thread first waits for a random part of SPAN cycles
 *
 * Each thread has a core of its own: the cores of -c in turn, or the first ones of the program. -s: waits first, because Linux is still starting
 * when its first program runs.
 *
 * lock and same have two passes. In each, threads lock and unlock without measuring until all are there, and SETTLE times more. After they have
 * measured, they go on until all others have.
 * - The first pass has SINGLES pairs at most, and reads the clock after each pair of lock and unlock. It prints `mean`, `sd` and `max` in
 *   nanoseconds, less the least cost of a reading, which was measured before. A second line has each time, and how often it occurred.
 * - The second pass does not read the clock. It is the region of interest `pairs`; `loop` is the mean of all threads.
 *
 * speedup is the region `speedup`. `time` is from the first thread's begin to the last one's end, the mean of all beginnings.
 */
#define _GNU_SOURCE
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "hthread.h"
#include "motet.h"

enum { THREADS_MAX = 128, CORES_OF_ISLAND = 16, READINGS = 200, SETTLE = 100, SINGLES = 300, BEGINNINGS_MAX = 64, ROUND = 25 };

static enum { LOCK, SAME, SPEEDUP } experiment;
static long threads, iterations, outside, inside, beginnings = 1, span;
static int cpus[THREADS_MAX], cpu_count;

static struct worker {
    hthread_mutex_t mutex;
    int cpu;
    uint32_t singles_ns[SINGLES]; /* times of the first pass */
    uint64_t begin_ns[BEGINNINGS_MAX], end_ns[BEGINNINGS_MAX];
    long done;
    int passed; /* how many beginnings and ends of passes */
} __attribute__((aligned(128))) workers[THREADS_MAX]; /* no two in a cache line */

static hthread_mutex_t shared;
static hthread_barrier_t barrier;

static void fail(const char *what, int error) {
    fprintf(stderr, "latency: %s: %s\n", what, strerror(error));
    exit(1);
}

static void check(const char *what, int error) {
    if (error)
        fail(what, error);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Delays for a number of cycles of a slave of machines/hthreads.toml, rounded down to whole rounds. A round is ROUND cycles: ROUND - 1 instructions
 * on every instruction set, of which the taken branch takes two cycles.
 */
static inline void delay(long cycles) {
    for (; cycles >= ROUND; cycles -= ROUND)
        __asm__ volatile(".rept 22\n\tnop\n\t.endr" : "+r"(cycles));
    for (; cycles > 0; cycles -= 3)
        __asm__ volatile("" : "+r"(cycles));
}

static void meet(void) {
    int result = hthread_barrier_wait(&barrier);
    if (result > 0)
        fail("barrier", result);
}

static uint64_t cost_of_reading(void) {
    uint64_t least = UINT64_MAX, before = now_ns();
    for (int i = 0; i < READINGS; i++) {
        uint64_t now = now_ns();
        if (now - before < least)
            least = now - before;
        before = now;
    }
    return least;
}

static inline void pair(hthread_mutex_t *mutex) {
    hthread_mutex_lock(mutex);
    hthread_mutex_unlock(mutex);
}

/* Pairs of the first pass. They are few, so that hardly any has a timer tick in it. */
static long singles(void) { return iterations < SINGLES ? iterations : SINGLES; }

/* Continues to lock and unlock, so that the others have the same competition, until all are here. */
static void keep_up(struct worker *self, hthread_mutex_t *mutex) {
    int passed = self->passed + 1;
    __atomic_store_n(&self->passed, passed, __ATOMIC_RELAXED);
    for (long i = 0; i < threads; i++)
        while (__atomic_load_n(&workers[i].passed, __ATOMIC_RELAXED) < passed)
            pair(mutex);
}

/* Has all begin at once. A barrier is not enough: a thread that slept there arrives thousands of cycles after the first one. */
static void begin_together(struct worker *self) {
    __atomic_store_n(&self->passed, self->passed + 1, __ATOMIC_RELEASE);
    for (long i = 0; i < threads; i++)
        while (__atomic_load_n(&workers[i].passed, __ATOMIC_ACQUIRE) < self->passed)
            ;
}

/* Before a pass: gives the back end time to adapt to how the mutex is used. */
static void settle(struct worker *self, hthread_mutex_t *mutex) {
    keep_up(self, mutex);
    for (int i = 0; i < SETTLE; i++)
        pair(mutex);
}

static void measure_each(struct worker *self, hthread_mutex_t *mutex) {
    uint64_t reading = cost_of_reading();
    settle(self, mutex);
    uint64_t before = now_ns();
    for (long i = 0; i < singles(); i++) {
        pair(mutex);
        uint64_t now = now_ns();
        self->singles_ns[i] = now - before > reading ? (uint32_t)(now - before - reading) : 0;
        before = now;
    }
    keep_up(self, mutex);
}

static void measure_all(struct worker *self, hthread_mutex_t *mutex) {
    settle(self, mutex);
    motet_roi_begin("pairs");
    self->begin_ns[0] = now_ns();
    for (long i = 0; i < iterations; i++)
        pair(mutex);
    self->end_ns[0] = now_ns();
    motet_roi_end("pairs");
    keep_up(self, mutex);
}

/* A random number below `end` for a thread's beginning, the same in each run (the last step of SplitMix64). */
static long offset(const struct worker *self, long beginning, long end) {
    uint64_t word = (uint64_t)(beginning * THREADS_MAX + (self - workers) + 1) * 0x9e3779b97f4a7c15;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    word = (word ^ word >> 27) * 0x94d049bb133111eb;
    return end > 0 ? (long)((word ^ word >> 31) % (uint64_t)end) : 0;
}

/* The paper's loop, once. All times are constant, so how the threads began decides which of them meet. */
static void work(struct worker *self, hthread_mutex_t *mutex, long beginning) {
    long share = iterations / threads + (self - workers < iterations % threads), wait = offset(self, beginning, span);
    begin_together(self);
    delay(wait);
    motet_roi_begin("speedup");
    self->begin_ns[beginning] = now_ns();
    for (long i = 0; i < share; i++) {
        delay(outside);
        hthread_mutex_lock(mutex);
        delay(inside);
        self->done++;
        hthread_mutex_unlock(mutex);
    }
    self->end_ns[beginning] = now_ns();
    motet_roi_end("speedup");
}

static void *run(void *worker) {
    struct worker *self = worker;
    hthread_mutex_t mutex = experiment == SAME ? shared : self->mutex;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(self->cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fail("sched_setaffinity", 22);
    for (int i = 0; i < 10; i++)
        pair(&mutex); /* code and tables are in memory */
    meet();
    if (experiment == SPEEDUP) {
        for (long i = 0; i < beginnings; i++)
            work(self, &mutex, i);
        return NULL;
    }
    measure_each(self, &mutex);
    meet();
    measure_all(self, &mutex);
    return NULL;
}

static void choose_cpus(const char *list) {
    char *end = (char *)list;
    while (list && cpu_count < THREADS_MAX) {
        cpus[cpu_count++] = (int)strtol(list, &end, 10);
        if (end == list || (*end && *end != ','))
            fail(list, 22);
        list = *end ? end + 1 : NULL;
    }
    cpu_set_t all;
    if (cpu_count == 0 && sched_getaffinity(0, sizeof all, &all) == 0)
        for (int cpu = 0; cpu < THREADS_MAX; cpu++)
            if (CPU_ISSET(cpu, &all))
                cpus[cpu_count++] = cpu;
}

static void start(struct worker *self, hthread_t *thread) {
    hthread_attr_t attr;
    hthread_attr_init(&attr);
    if (motet_island() >= 0)
        hthread_attr_setislands(&attr, 1u << self->cpu / CORES_OF_ISLAND);
    check("hthread_mutex_init", hthread_mutex_init(&self->mutex, NULL));
    check("hthread_create", hthread_create(thread, &attr, run, self));
}

static uint32_t all_ns[THREADS_MAX * SINGLES];

static int by_size(const void *one, const void *other) {
    uint32_t first = *(const uint32_t *)one, second = *(const uint32_t *)other;
    return (first > second) - (first < second);
}

/* Collects the times of all threads, sorted. Returns how many there are. */
static long collect(void) {
    long count = 0;
    for (const struct worker *self = workers; self < workers + threads; self++)
        for (long i = 0; i < singles(); i++)
            all_ns[count++] = self->singles_ns[i];
    qsort(all_ns, (size_t)count, sizeof *all_ns, by_size);
    return count;
}

static void report_singles(void) {
    long count = collect();
    double sum = 0, squares = 0;
    for (long i = 0; i < count; i++)
        (sum += all_ns[i], squares += (double)all_ns[i] * all_ns[i]);
    double mean = sum / (double)count, variance = squares / (double)count - mean * mean;
    printf("mean_ns %.1f sd_ns %.1f max_ns %u\ntimes_ns ", mean, variance > 0 ? sqrt(variance) : 0, (unsigned)all_ns[count - 1]);
    for (long i = 0, first = 0; i < count; i++)
        if (i + 1 == count || all_ns[i + 1] != all_ns[i])
            (printf("%s%u*%ld", first ? "," : "", (unsigned)all_ns[i], i + 1 - first), first = i + 1);
    printf("\n");
}

static void report_speedup(void) {
    uint64_t sum_ns = 0;
    long done = 0;
    for (long i = 0; i < beginnings; i++) {
        uint64_t begin = UINT64_MAX, end = 0;
        for (const struct worker *self = workers; self < workers + threads; self++) {
            begin = self->begin_ns[i] < begin ? self->begin_ns[i] : begin;
            end = self->end_ns[i] > end ? self->end_ns[i] : end;
        }
        sum_ns += end - begin;
    }
    for (const struct worker *self = workers; self < workers + threads; self++)
        done += self->done;
    printf("iterations %ld time_ns %.1f\n", done / beginnings, (double)sum_ns / (double)beginnings);
}

static void report(const char *name) {
    printf("%s %s threads %ld ", name, hthread_backend(), threads);
    if (experiment == SPEEDUP) {
        report_speedup();
        return;
    }
    double loops = 0;
    for (const struct worker *self = workers; self < workers + threads; self++)
        loops += (double)(self->end_ns[0] - self->begin_ns[0]);
    printf("iterations %ld loop_ns %.1f ", iterations, loops / ((double)threads * (double)iterations));
    report_singles();
}

static long number(const char *text) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || end == text || value < 0) {
        fprintf(stderr, "latency: %s is not a number\n", text);
        exit(64);
    }
    return value;
}

static void usage(void) {
    fputs("usage: latency [-s SECONDS] [-c CPU,CPU,...] lock|same THREADS ITERATIONS\n"
          "       latency [-s SECONDS] [-c CPU,CPU,...] speedup THREADS TOTAL OUTSIDE INSIDE [BEGINNINGS SPAN]\n", stderr);
    exit(64);
}

int main(int count, char **words) {
    hthread_t ids[THREADS_MAX];
    const char *list = NULL;
    if (count > 2 && strcmp(words[1], "-s") == 0)
        (sleep((unsigned)number(words[2])), words += 2, count -= 2);
    if (count > 2 && strcmp(words[1], "-c") == 0)
        (list = words[2], words += 2, count -= 2);
    if (count < 4)
        usage();
    experiment = strcmp(words[1], "lock") == 0 ? LOCK : strcmp(words[1], "same") == 0 ? SAME : SPEEDUP;
    if (experiment == SPEEDUP && (strcmp(words[1], "speedup") != 0 || (count != 6 && count != 8)))
        usage();
    threads = number(words[2]);
    iterations = number(words[3]);
    if (experiment == SPEEDUP)
        (outside = number(words[4]), inside = number(words[5]));
    if (count == 8 && experiment == SPEEDUP)
        (beginnings = number(words[6]), span = number(words[7]));
    choose_cpus(list);
    if (threads < 1 || threads > cpu_count || iterations < 1 || beginnings < 1 || beginnings > BEGINNINGS_MAX) {
        fprintf(stderr, "latency: %ld threads on %d cores, %ld iterations, %ld beginnings\n", threads, cpu_count, iterations, beginnings);
        return 64;
    }
    check("hthread_mutex_init", hthread_mutex_init(&shared, NULL));
    check("hthread_barrier_init", hthread_barrier_init(&barrier, NULL, (unsigned)threads));
    for (long i = 0; i < threads; i++) {
        workers[i].cpu = cpus[i];
        start(workers + i, ids + i);
    }
    for (long i = 0; i < threads; i++)
        check("hthread_join", hthread_join(ids[i], NULL));
    report(words[1]);
    fflush(stdout);
    /* As a kernel's first program it ends the machine. The serial port may still have output to send. */
    tcdrain(STDOUT_FILENO);
    return 0;
}
