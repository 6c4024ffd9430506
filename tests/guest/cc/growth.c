/* What four times as much takes: about four times as long, not sixteen times. Time is simulated where this is tested, so it is a count of instructions. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *sleeper(void *seconds) {
    struct timespec t = {(long)seconds, 0};
    nanosleep(&t, 0);
    return 0;
}

static int there[2], back[2];

static void *answer(void *nothing) {
    char byte;
    while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1);
    return nothing;
}

/* Reads all in small pieces; the lines. */
static long lines(const char *name) {
    char piece[512];
    long count = 0, got;
    int fd = open(name, O_RDONLY);
    while ((got = read(fd, piece, sizeof piece)) > 0)
        for (long k = 0; k < got; k++) count += piece[k] == '\n';
    close(fd);
    return count;
}

int main(void) {
    int wrong = 0;
    /* Mappings, read in pieces. */
    double took[2];
    long areas = 0;
    for (int step = 0; step < 2; step++) {
        long wanted = step == 0 ? 150 : 600;
        for (; areas < wanted; areas++)
            mmap(0, 4096, areas & 1 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        double begun = now();
        long count = lines("/proc/self/maps");
        took[step] = now() - begun;
        if (count < wanted || count > wanted + 40) printf("%ld lines of %ld areas\n", count, wanted), wrong = 1;
    }
    printf("maps: %s\n", took[1] < 7 * took[0] ? "linear" : "more");
    if (took[1] >= 7 * took[0]) printf("%.0f and %.0f ns\n", took[0], took[1]), wrong = 1;

    /* Time limits in the middle of those of many sleepers. */
    int made = 0;
    if (pipe(there) != 0 || pipe(back) != 0) return 2;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    pthread_t thread;
    if (pthread_create(&thread, &small, answer, 0) != 0) return 3;
    for (int step = 0; step < 2; step++) {
        for (int wanted = step == 0 ? 50 : 800; made < wanted; made++)
            if (pthread_create(&thread, &small, sleeper, (void *)(1000 + made * 7919L % 1000)) != 0) return 3;
        usleep(1000);
        double begun = now();
        for (int k = 0; k < 100; k++) {
            struct pollfd answered = {back[0], POLLIN, 0};
            char byte;
            if (write(there[1], "x", 1) != 1 || poll(&answered, 1, 1500000) != 1 || read(back[0], &byte, 1) != 1) return 4;
        }
        took[step] = now() - begun;
    }
    printf("sleepers: %s\n", took[1] < 2 * took[0] ? "no matter" : "more");
    if (took[1] >= 2 * took[0]) printf("%.0f and %.0f ns\n", took[0], took[1]), wrong = 1;
    fflush(stdout);
    _exit(wrong);
}
