/*
 * Devices of the machine that are threads: created, joined and cancelled as others are, with the same mutexes.
 *
 *     devices DEVICES TEST...
 *
 * DEVICES is 1 if threads that sort or filter must be devices, 0 if they must not. Prints a line for each test.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "hthread.h"

enum { LARGE = 15 << 20, MANY = 1 << 20, SOME = 4096, ROUNDS = 300, REPORTS = 9 };

static int are_devices;
static hthread_mutex_t mutex;
static hthread_cond_t condition;
static uint64_t count;
static uint32_t words[MANY];

static uint32_t next_word(void) {
    static uint32_t state = 1;
    return state = state * 1664525u + 1013904223u;
}

static void shuffle(uint32_t *to, unsigned number) {
    while (number-- > 0)
        *to++ = next_word();
}

static int is_sorted(const uint32_t *of, unsigned number) {
    for (unsigned at = 1; at < number; at++)
        if (of[at - 1] > of[at])
            return 0;
    return 1;
}

static hthread_t create(const char *does, hthread_work_t *work) {
    hthread_t thread;
    hthread_attr_t attr;
    hthread_attr_init(&attr);
    IS(hthread_attr_sethardware(&attr, does), 0);
    IS(hthread_create(&thread, &attr, NULL, work), 0);
    return thread;
}

static long join(hthread_t thread) {
    void *value;
    IS(hthread_join(thread, &value), 0);
    return (long)value;
}

static void sorting(void) {
    static int64_t longs[SOME];
    hthread_attr_t attr;
    hthread_attr_init(&attr);
    IS(hthread_attr_sethardware(&attr, "sing"), EINVAL);
    shuffle(words, SOME);
    uint64_t sum = 0, sum_after = 0;
    for (unsigned at = 0; at < SOME; at++)
        sum += words[at];
    hthread_work_t work = {.data = words, .count = SOME / 4, .blocks = 4, .done = &count};
    hthread_t thread = create("sort", &work);
    IS(hthread_ishardware(thread), are_devices);
    IS(join(thread), 4);
    IS(count, 4);
    for (unsigned at = 0; at < SOME; at++)
        sum_after += words[at];
    CHECK(sum == sum_after);
    for (unsigned block = 0; block < 4; block++)
        CHECK(is_sorted(words + block * SOME / 4, SOME / 4));
    for (unsigned at = 0; at < SOME; at++)
        longs[at] = (int64_t)((uint64_t)next_word() << 32);
    hthread_work_t other = {.data = longs, .count = SOME, .kind = HTHREAD_I64};
    IS(join(create("sort", &other)), 1);
    for (unsigned at = 1; at < SOME; at++)
        CHECK(longs[at - 1] <= longs[at]);
}

static void filtering(void) {
    static int32_t in[SOME], out[SOME];
    for (unsigned at = 0; at < SOME; at++)
        in[at] = (int32_t)(next_word() >> 16) - 32768;
    hthread_work_t work = {.data = in, .out = out, .count = SOME / 2, .blocks = 2, .taps = 3, .shift = 2, .coefficients = {3, -2, 5}};
    hthread_t thread = create("filter", &work);
    IS(hthread_ishardware(thread), are_devices);
    IS(join(thread), 2);
    for (int at = 0; at < SOME; at++) {
        int64_t sum = 3 * (int64_t)in[at] - 2 * (int64_t)(at >= 1 ? in[at - 1] : 0) + 5 * (int64_t)(at >= 2 ? in[at - 2] : 0);
        IS(out[at], (int32_t)(sum >> 2));
    }
}

static void *add(void *unused) {
    for (unsigned round = 0; round < ROUNDS; round++) {
        IS(hthread_mutex_lock(&mutex), 0);
        volatile uint64_t *shared = &count;
        uint64_t before = *shared;
        if (round % 8 == 0)
            hthread_yield();
        *shared = before + 1;
        IS(hthread_mutex_unlock(&mutex), 0);
    }
    return unused;
}

/* Two devices and two software threads count under the same mutex. */
static void counting(void) {
    static int32_t in[ROUNDS * 4], out[ROUNDS * 4];
    hthread_t threads[4];
    count = 0;
    shuffle(words, ROUNDS * 8);
    hthread_work_t sort = {.data = words, .count = 8, .blocks = ROUNDS, .done = &count, .mutex = mutex};
    hthread_work_t filter = {.data = in, .out = out, .count = 4, .blocks = ROUNDS, .done = &count, .mutex = mutex, .taps = 1, .coefficients = {1}};
    threads[0] = create("sort", &sort);
    threads[1] = create("filter", &filter);
    IS(hthread_ishardware(threads[0]) + hthread_ishardware(threads[1]), 2 * are_devices);
    for (int number = 2; number < 4; number++)
        IS(hthread_create(threads + number, NULL, add, NULL), 0);
    IS(join(threads[0]), ROUNDS);
    IS(join(threads[1]), ROUNDS);
    join(threads[2]);
    join(threads[3]);
    IS(count, 4 * ROUNDS);
}

/* A software thread waits for what a device signals. */
static void signals(void) {
    count = 0;
    hthread_work_t work = {.data = words, .count = 64, .blocks = 50, .done = &count, .mutex = mutex, .condition = condition};
    hthread_t thread = create("sort", &work);
    IS(hthread_mutex_lock(&mutex), 0);
    while (count < 50)
        IS(hthread_cond_wait(&condition, &mutex), 0);
    IS(hthread_mutex_unlock(&mutex), 0);
    IS(join(thread), 50);
}

static void *turn(void *unused) {
    IS(hthread_mutex_lock(&mutex), 0);
    for (;;)
        hthread_yield();
    return unused;
}

static void cancelling(void) {
    /* Software. */
    hthread_t thread;
    IS(hthread_create(&thread, NULL, turn, NULL), 0);
    while (hthread_mutex_trylock(&mutex) == 0) {
        IS(hthread_mutex_unlock(&mutex), 0);
        hthread_yield();
    }
    IS(hthread_cancel(thread), 0);
    IS(join(thread), HTHREAD_KILLED);
    IS(hthread_mutex_lock(&mutex), EOWNERDEAD);
    IS(hthread_mutex_consistent(&mutex), 0);
    /* One that waits for the mutex; software would go on waiting. */
    hthread_work_t work = {.data = words, .count = MANY, .mutex = mutex};
    if (are_devices) {
        thread = create("sort", &work);
        IS(hthread_cancel(thread), 0);
        IS(join(thread), HTHREAD_KILLED);
    }
    IS(hthread_mutex_unlock(&mutex), 0);
    /* One that has it, and computes. */
    shuffle(words, MANY);
    thread = create("sort", &work);
    IS(hthread_ishardware(thread), are_devices);
    int error;
    while ((error = hthread_mutex_trylock(&mutex)) == 0) {
        IS(hthread_mutex_unlock(&mutex), 0);
        CHECK(!is_sorted(words, MANY));
        hthread_yield();
    }
    IS(error, EBUSY);
    IS(hthread_cancel(thread), 0);
    IS(hthread_mutex_lock(&mutex), EOWNERDEAD);
    IS(hthread_mutex_consistent(&mutex), 0);
    IS(hthread_mutex_unlock(&mutex), 0);
    CHECK(!is_sorted(words, MANY));
    IS(join(thread), HTHREAD_KILLED);
    IS(hthread_cancel(HTHREAD_PRIORITY_DEFAULT + 4000), ESRCH);
}

static void mistakes(void) {
    hthread_t thread;
    hthread_attr_t attr;
    hthread_attr_init(&attr);
    hthread_attr_sethardware(&attr, "sort");
    IS(hthread_create(&thread, &attr, NULL, NULL), EINVAL);
    hthread_work_t unknown = {.data = words, .count = 8, .kind = 9}, large = {.data = words, .count = MANY * 32};
    hthread_work_t odd = {.data = (char *)words + 1, .count = 8}, none = {.data = words, .count = 8, .mutex = {900}};
    IS(join(create("sort", &unknown)), -EINVAL);
    IS(join(create("sort", &large)), -EINVAL);
    IS(join(create("sort", &odd)), -EINVAL);
    IS(join(create("sort", &none)), -EINVAL);
    IS(join(create("filter", &odd)), -EINVAL);
    if (are_devices) {
        hthread_work_t nowhere = {.data = (void *)16, .count = 8};
        IS(hthread_create(&thread, &attr, NULL, &nowhere), EFAULT);
    }
}

/* More threads than devices: the others are software. */
static void crowd(void) {
    enum { THREADS = 5 };
    hthread_work_t work[THREADS];
    hthread_t threads[THREADS];
    shuffle(words, THREADS * SOME);
    for (int number = 0; number < THREADS; number++) {
        work[number] = (hthread_work_t){.data = words + number * SOME, .count = SOME};
        threads[number] = create("sort", work + number);
    }
    for (int number = 0; number < THREADS; number++) {
        IS(join(threads[number]), 1);
        CHECK(is_sorted(words + number * SOME, SOME));
    }
}

/* A child must not see what a device writes for its parent. */
static void forking(void) {
    IS(hthread_mutex_lock(&mutex), 0);
    hthread_work_t work = {.data = words, .count = SOME, .mutex = mutex};
    hthread_t thread = create("sort", &work);
    IS(hthread_ishardware(thread), 1);
    IS(fork(), -1);
    IS(errno, EAGAIN);
    IS(hthread_mutex_unlock(&mutex), 0);
    IS(join(thread), 1);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK(child > 0);
    int status;
    IS(waitpid(child, &status, 0), child);
}

/* By the kernel's interface: memory that the device was not given is not its own, though it is the program's. */
static void regions(void) {
    struct {
        uint32_t does, number;
        uint64_t argument, count, regions[4][3];
    } asked = {.does = 1};
    int device = open("/dev/service", O_RDWR);
    char *registers = mmap(NULL, 128 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
    CHECK(device >= 0 && registers != MAP_FAILED);
    long own = ioctl(device, 0x4d50, -1L), made = ioctl(device, 0x4d50, -1L);
    CHECK(own >= 0 && made >= 0);
    volatile uint64_t *window = (volatile uint64_t *)(registers + 128 * own);
    uint32_t before[8] = {8, 7, 6, 5, 4, 3, 2, 1}, given[1024] = {3, 2, 1};
    hthread_work_t work = {.data = before, .count = 8};
    asked.number = (uint32_t)made;
    asked.argument = (uintptr_t)&work;
    asked.regions[0][0] = (uintptr_t)&work, asked.regions[0][1] = sizeof work;
    asked.regions[1][0] = (uintptr_t)given, asked.regions[1][1] = sizeof given, asked.regions[1][2] = 1;
    asked.count = 2;
    window[0] = (uint64_t)1 << 56 | (uint64_t)2 << 48 | (uint64_t)made << 32 | 128 | 1 << 17;
    while (window[1] >> 56 != 1)
        ;
    asked.does = 7;
    CHECK(ioctl(device, 0x4d52, &asked) == -1 && errno == ENODEV);
    asked.does = 1;
    asked.regions[1][2] = 2;
    CHECK(ioctl(device, 0x4d52, &asked) == -1 && errno == EINVAL);
    asked.regions[1][2] = 1;
    asked.count = 5;
    CHECK(ioctl(device, 0x4d52, &asked) == -1 && errno == EINVAL);
    asked.count = 2;
    asked.number = (uint32_t)made + 1;
    CHECK(ioctl(device, 0x4d52, &asked) == -1 && errno == EINVAL);
    asked.number = (uint32_t)made;
    CHECK(ioctl(device, 0x4d53, made) == -1 && errno == ESRCH);
    IS(ioctl(device, 0x4d52, &asked), 0);
    window[0] = (uint64_t)2 << 56 | (uint64_t)4 << 48 | (uint64_t)made << 32;
    while (window[1] >> 48 != (2 << 8 | 2))
        ;
    IS((int32_t)window[1], -EFAULT);
    for (unsigned at = 0; at < 8; at++)
        IS(before[at], 8 - at);
    CHECK(given[0] == 3 && given[2] == 1);
    close(device);
}

static const char *program;

/* For who kills this: a device sorts, for a minute or so. */
static void holding(void) {
    uint32_t *many = malloc(LARGE * sizeof *many);
    CHECK(many);
    shuffle(many, LARGE);
    hthread_work_t work = {.data = many, .count = LARGE};
    hthread_t thread = create("sort", &work);
    IS(hthread_ishardware(thread), 1);
    IS(write(REPORTS, "x", 1), 1);
    pause();
}

/* Another process has the device: EBUSY, and software does it. Then that process is killed while the device computes for it. */
static void killed(void) {
    int ends[2];
    char byte;
    IS(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        /* With a service core of its own: what a fork shares goes with the last one who has it. */
        IS(dup2(ends[1], REPORTS), REPORTS);
        execl(program, program, "1", "holding", (char *)NULL);
        _exit(1);
    }
    IS(read(ends[0], &byte, 1), 1);
    hthread_work_t work = {.data = words, .count = SOME};
    shuffle(words, SOME);
    hthread_t thread = create("sort", &work);
    IS(hthread_ishardware(thread), 0);
    IS(join(thread), 1);
    kill(child, 9);
    IS(waitpid(child, NULL, 0), child);
    for (int tries = 0; tries < 3000; tries++) {
        shuffle(words, SOME);
        thread = create("sort", &work);
        int is_device = hthread_ishardware(thread);
        IS(join(thread), 1);
        CHECK(is_sorted(words, SOME));
        if (is_device)
            return;
        usleep(1000);
    }
    CHECK(!"the device is free again");
}

static void timed(void) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    sorting();
    filtering();
    counting();
    signals();
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%lld ns\n", (end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec);
}

static const struct {
    const char *name;
    void (*test)(void);
} tests[] = {
    {"sorting", sorting},   {"filtering", filtering}, {"counting", counting}, {"signals", signals}, {"cancelling", cancelling},
    {"mistakes", mistakes}, {"crowd", crowd},         {"forking", forking},   {"regions", regions}, {"killed", killed},
    {"timed", timed},     {"holding", holding},
};

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    program = argv[0];
    are_devices = atoi(argv[1]);
    for (int argument = 2; argument < argc; argument++)
        for (size_t number = 0; number < sizeof tests / sizeof tests[0]; number++)
            if (strcmp(argv[argument], tests[number].name) == 0) {
                count = 0;
                if (!mutex.handle) {
                    IS(hthread_mutex_init(&mutex, NULL), 0);
                    IS(hthread_cond_init(&condition, NULL), 0);
                }
                tests[number].test();
                printf("%s\n", argv[argument]);
                fflush(stdout);
            }
    return 0;
}
