/*
 * Ker-ONE's experiment with accelerators of the FPGA (/dev/accel, docs/protocols/fpga.md):
 *
 *     accelerators allocate ROUNDS     how long a store to registers that are not connected takes, by each path of Figure 15
 *     accelerators interrupts ROUNDS   how long it takes from the interrupt at the end of a frame until a program runs that waits for it, while another
 *                                      program computes
 *     accelerators hardware            a frame of each accelerator, on a region that is ready
 *     accelerators software ROUNDS     the same by software; the results are compared
 *     accelerators compute NAME FRAMES PAUSE_US
 *                                      makes jobs for as long as the machine runs, and sleeps for each and for a pause after it: the load beside a guest
 *
 * allocate prints a line for each store: path, accelerator, nanoseconds before and after it. The paths are `direct`, `reconfigure`, `preempt` and
 * `both`. Every other round is `cold`: the caches hold other data before. `reading` is the time of reading the clock, `first` a path that depends
 * on the machine. interrupts prints such lines with `interrupt`, from the beginning of a frame until the program runs. The others print
 * accelerator and nanoseconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DATA_BYTES = 1 << 20, RESULTS = 128 << 10, SET_PRIORITY = 0x4d60, SET_SIGNALS = 0x4d63, OVER = 8, READY = 2, RUNNING = 3, DONE = 5 };
enum { URGENT = 0, USUAL = 20, MODEST = 39 };
/* The paper's frame: 18,800 bits, or the 4,700 symbols that 16-QAM makes of them. */
enum { FRAME_BITS = 18800, FRAME_SYMBOLS = 4700, COLD_BYTES = 640 << 10 };

struct registers {
    uint32_t stat, start, over, cmd, data_addr, data_size;
    uint64_t result;
    uint32_t int_ctrl, pad, custom[8];
};

struct client {
    const char *name;
    int fd;
    volatile struct registers *registers;
    unsigned char *data;
};

static void fail(const char *what) {
    fprintf(stderr, "accelerators: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct client come(const char *name, uint32_t priority) {
    char path[64];
    snprintf(path, sizeof path, "/dev/accel/%s", name);
    struct client client = {.name = name, .fd = open(path, O_RDWR)};
    if (client.fd < 0 || ioctl(client.fd, SET_PRIORITY, priority))
        fail(path);
    void *pages = mmap(NULL, 4096 + DATA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, client.fd, 0);
    if (pages == MAP_FAILED)
        fail("mmap");
    client.registers = pages;
    client.data = (unsigned char *)pages + 4096;
    /* The page of registers is mapped now, so a store to it causes no other fault. */
    return client.registers->stat == 0 ? client : (errno = 0, fail("registers"), client);
}

static void go(struct client *client) {
    munmap((void *)client->registers, 4096 + DATA_BYTES);
    close(client->fd);
}

static int is_transform(const char *name) {
    return !strncmp(name, "fft", 3);
}

static uint32_t frame_bytes(const char *name) {
    return is_transform(name) ? FRAME_SYMBOLS * 4 : FRAME_BITS / 8;
}

/* Starts a job. The first store waits until the registers are connected. */
static void begin(struct client *client, uint32_t bytes, uint32_t results, uint32_t interrupts) {
    volatile struct registers *registers = client->registers;
    registers->cmd = 0;
    registers->data_addr = 0;
    registers->data_size = bytes;
    registers->custom[0] = results;
    registers->int_ctrl = interrupts;
    *(volatile unsigned char *)&registers->start = 1;
}

static void await(struct client *client) {
    while (client->registers->start || !client->registers->over)
        ;
    if (client->registers->stat != DONE) {
        fprintf(stderr, "accelerators: %s: status %x\n", client->name, client->registers->stat);
        exit(1);
    }
}

static void rest_us(long microseconds) {
    struct timespec pause = {.tv_nsec = microseconds * 1000};
    nanosleep(&pause, NULL);
}

/* Fills the caches with other data. */
static void forget_caches(void) {
    static volatile unsigned char other[COLD_BYTES];
    for (int at = 0; at < COLD_BYTES; at += 64)
        other[at]++;
}

/* Measures a store that requests a region. The client has a region afterwards. */
static void ask(const char *path, struct client *client, int is_cold) {
    rest_us(100);
    now_ns();
    if (is_cold)
        forget_caches();
    uint64_t before = now_ns();
    client->registers->cmd = 0;
    uint64_t after = now_ns();
    printf("%s%s %s %llu %llu\n", path, is_cold ? "-cold" : "", client->name, (unsigned long long)before,
           (unsigned long long)after);
    begin(client, frame_bytes(client->name), RESULTS, 0);
    await(client);
}

/* Allocates idle regions, one after the other: as the same accelerator, and reconfigured as another one. */
static void assignments(int rounds) {
    struct client clients[] = {come("qam16", USUAL), come("qam16", USUAL), come("qam64", USUAL)};
    ask("first", &clients[0], 0);
    rest_us(2000);
    for (int round = 0; round < rounds; round++) {
        ask("direct", &clients[1], round & 1);
        rest_us(2000);
        ask("direct", &clients[0], round & 1);
        rest_us(2000);
        ask("reconfigure", &clients[2], round & 1);
        rest_us(2000);
        ask("reconfigure", &clients[0], round & 1);
        rest_us(2000);
    }
    for (int at = 0; at < 3; at++)
        go(&clients[at]);
}

/* Starts a job with as many frames as there is room for. Results overwrite the data. */
static void compute_long(struct client *client) {
    uint32_t frames = is_transform(client->name) ? 120 : !strcmp(client->name, "qam16") ? 52 : 80;
    begin(client, frames * (is_transform(client->name) ? 8192 : 2352), 0, 0);
}

/* Has all regions that `urgent` fits into compute for other clients, the smallest one as `first`. Then `urgent` preempts one. */
static void preemption(const char *path, const char *urgent, const char *first, const char *second, int rounds) {
    for (int round = 0; round < rounds; round++) {
        const char *names[] = {first, second};
        struct client modest[2], client = come(urgent, URGENT);
        int count = second ? 2 : 1;
        for (int at = 0; at < count; at++) {
            modest[at] = come(names[at], MODEST);
            compute_long(&modest[at]);
        }
        /* Making them ready has taken so long that some jobs are over. */
        for (int at = 0; at < count; at++)
            await(&modest[at]);
        for (int at = 0; at < count; at++)
            compute_long(&modest[at]);
        /* The request comes at different times of a frame. */
        rest_us(20 + 7 * (round % 13));
        ask(path, &client, round & 1);
        go(&client);
        for (int at = 0; at < count; at++)
            go(&modest[at]);
        rest_us(5000);
    }
}

static void tell_reading(void) {
    uint64_t reading = UINT64_MAX;
    for (int at = 0; at < 100; at++) {
        uint64_t before = now_ns(), took = now_ns() - before;
        reading = took < reading ? took : reading;
    }
    printf("reading - 0 %llu\n", (unsigned long long)reading);
}

/* The end of a frame interrupts a program that computes. This program waits for it, and has a higher priority. */
static void interrupts(int rounds) {
    struct client client = come("qam16", USUAL);
    struct sched_param urgent = {.sched_priority = 50};
    pid_t other = fork();
    while (other == 0)
        ;
    if (other < 0 || ioctl(client.fd, SET_SIGNALS, (uint64_t)OVER) || syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &urgent))
        fail("interrupts");
    tell_reading();
    for (int round = 0; round <= rounds; round++) {
        begin(&client, frame_bytes(client.name), RESULTS, 1);
        uint64_t signals, before = now_ns();
        if (read(client.fd, &signals, sizeof signals) != sizeof signals || signals != OVER)
            fail("signals");
        uint64_t after = now_ns();
        /* The first round does not count: this code was not in the caches. */
        if (round > 0)
            printf("interrupt %s %llu %llu\n", client.name, (unsigned long long)before, (unsigned long long)after);
        if (client.registers->stat != DONE)
            fail("a frame");
        rest_us(500);
    }
    kill(other, SIGKILL);
    go(&client);
}

static void allocate(int rounds) {
    tell_reading();
    assignments(rounds);
    preemption("preempt", "qam16", "qam16", "qam16", rounds);
    preemption("preempt", "qam64", "qam64", "qam64", rounds);
    preemption("preempt", "fft512", "fft512", "fft512", rounds);
    preemption("preempt", "fft1024", "fft1024", NULL, rounds);
    preemption("both", "qam16", "qam64", "qam64", rounds);
    preemption("both", "qam64", "qam16", "qam16", rounds);
    preemption("both", "fft1024", "fft512", "fft512", rounds);
}

static void fill(unsigned char *data, int len) {
    uint32_t seed = 7;
    for (int at = 0; at < len; at++) {
        seed = seed * 1664525 + 1013904223;
        data[at] = seed >> 24;
    }
}

static const char *const NAMES[] = {"qam16", "qam64", "fft512", "fft1024"};

/* Frames of 18,800 bits, which an accelerator takes in one or in three pieces. */
static void hardware(void) {
    for (int at = 0; at < 4; at++) {
        struct client client = come(NAMES[at], USUAL);
        fill(client.data, frame_bytes(NAMES[at]));
        begin(&client, frame_bytes(NAMES[at]), RESULTS, 0);
        await(&client);
        uint64_t before = now_ns();
        begin(&client, frame_bytes(NAMES[at]), RESULTS, 0);
        await(&client);
        printf("%s %llu\n", NAMES[at], (unsigned long long)(now_ns() - before));
        go(&client);
    }
}

/* Maps bits to the Gray-coded levels of a constellation, bit by bit, by the definition. */
static void map_bits(const unsigned char *data, int16_t *points, int bits) {
    static const double POWER[] = {10.0, 42.0};
    int half = bits / 2, levels = 1 << half;
    double scale = 16384.0 / sqrt(POWER[bits == 6]);
    int16_t table[8];
    for (int number = 0; number < levels; number++)
        table[number ^ number >> 1] = (int16_t)round((2 * number - (levels - 1)) * scale);
    int count = (FRAME_BITS + bits - 1) / bits;
    for (int point = 0; point < 2 * count; point++) {
        int word = 0;
        for (int at = point * half; at < (point + 1) * half; at++)
            word = word << 1 | (at < FRAME_BITS ? data[at / 8] >> (7 - at % 8) & 1 : 0);
        points[point] = table[word];
    }
}

struct complex {
    double re, im;
};

/* FFT: decimation in time, radix 2, in place. */
static void transform(struct complex *x, int points, const struct complex *roots) {
    for (int at = 1, to = 0; at < points; at++) {
        int bit = points >> 1;
        for (; to & bit; bit >>= 1)
            to ^= bit;
        to ^= bit;
        if (at < to) {
            struct complex kept = x[at];
            x[at] = x[to];
            x[to] = kept;
        }
    }
    for (int len = 2; len <= points; len *= 2)
        for (int block = 0; block < points; block += len)
            for (int at = 0; at < len / 2; at++) {
                struct complex root = roots[at * (points / len)];
                struct complex *low = &x[block + at], *high = low + len / 2;
                struct complex turned = {high->re * root.re - high->im * root.im,
                                         high->re * root.im + high->im * root.re};
                *high = (struct complex){low->re - turned.re, low->im - turned.im};
                *low = (struct complex){low->re + turned.re, low->im + turned.im};
            }
}

static struct complex roots[512];

static void transforms(const unsigned char *data, int16_t *results, int points) {
    static struct complex x[1024];
    const int16_t *samples = (const int16_t *)data;
    for (int block = 0; block < FRAME_SYMBOLS; block += points) {
        for (int at = 0; at < points; at++) {
            int is_there = block + at < FRAME_SYMBOLS;
            x[at].re = is_there ? samples[2 * (block + at)] : 0;
            x[at].im = is_there ? samples[2 * (block + at) + 1] : 0;
        }
        transform(x, points, roots);
        for (int at = 0; at < points; at++) {
            results[2 * (block + at)] = (int16_t)round(x[at].re / points);
            results[2 * (block + at) + 1] = (int16_t)round(x[at].im / points);
        }
    }
}

static void compute(const char *name, const unsigned char *data, int16_t *results) {
    if (is_transform(name))
        transforms(data, results, atoi(name + 3));
    else
        map_bits(data, results, name[3] == '1' ? 4 : 6);
}

/* Compares the software's results with the accelerator's. They may differ by a rounding. */
static void compare(const char *name, const unsigned char *data, const int16_t *results) {
    struct client client = come(name, USUAL);
    memcpy(client.data, data, frame_bytes(name));
    begin(&client, frame_bytes(name), RESULTS, 0);
    await(&client);
    const int16_t *found = (const int16_t *)(client.data + RESULTS);
    int count = (int)(client.registers->result / 2), wrong = 0;
    for (int at = 0; at < count; at++)
        wrong += abs(found[at] - results[at]) > (is_transform(name) ? 1 : 0);
    if (wrong || count == 0) {
        fprintf(stderr, "accelerators: %s: %d of %d results differ\n", name, wrong, count);
        exit(1);
    }
    go(&client);
}

static void software(int rounds) {
    static unsigned char data[FRAME_SYMBOLS * 4];
    static int16_t results[2 * (FRAME_SYMBOLS + 1024)];
    for (int at = 0; at < 4; at++) {
        const char *name = NAMES[at];
        int points = is_transform(name) ? atoi(name + 3) : 0;
        for (int root = 0; root < points / 2; root++) {
            double angle = -2.0 * 3.14159265358979323846 * root / points;
            roots[root] = (struct complex){cos(angle), sin(angle)};
        }
        fill(data, frame_bytes(name));
        compute(name, data, results);
        uint64_t before = now_ns();
        for (int round = 0; round < rounds; round++)
            compute(name, data, results);
        printf("%s %llu\n", name, (unsigned long long)(now_ns() - before) / (unsigned)rounds);
        compare(name, data, results);
    }
}

static void compute_for_ever(const char *name, uint32_t frames, long pause_us) {
    struct client client = come(name, MODEST);
    for (;;) {
        uint64_t told;
        client.registers->int_ctrl = 1;
        client.registers->custom[0] = 0;
        client.registers->data_addr = 0;
        client.registers->data_size = frames * (is_transform(name) ? 8192 : 2352);
        *(volatile unsigned char *)&client.registers->start = 1;
        do
            if (read(client.fd, &told, 8) != 8)
                fail("read");
        while (client.registers->start || !client.registers->over);
        rest_us(pause_us);
    }
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 5 && !strcmp(part, "compute"))
        compute_for_ever(argv[2], (uint32_t)atoi(argv[3]), atol(argv[4]));
    int rounds = argc > 2 ? atoi(argv[2]) : 2;
    if (rounds <= 0)
        return 2;
    if (!strcmp(part, "allocate"))
        allocate(rounds);
    else if (!strcmp(part, "hardware"))
        hardware();
    else if (!strcmp(part, "interrupts"))
        interrupts(rounds);
    else if (!strcmp(part, "software"))
        software(rounds);
    else
        return 2;
    return 0;
}
