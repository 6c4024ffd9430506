/*
 * Programs whose memory accesses `motet bench sim-accuracy --gem5 PATH --record` records. Each has a region with its name, and prints a sum.
 *
 * sharing pipe COUNT: a process writes COUNT blocks into a pipe, another one reads them.
 * sharing queue COUNT: a thread passes COUNT numbers to another thread through a ring buffer with a mutex and condition variables.
 * sharing lock COUNT: four threads take a mutex COUNT times each and change the data that it guards. They also count in shared words and in words of
 * their own.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "motet.h"

#define THREADS 4
#define BLOCK 512
#define RING 16
#define TABLE 1024

static long rounds;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;

/* pipe */

static void fill(unsigned char *block, long round) {
    for (int byte = 0; byte < BLOCK; byte++)
        block[byte] = (unsigned char)(round + byte);
}

static long run_pipe(void) {
    unsigned char block[BLOCK];
    int ends[2];
    if (pipe(ends))
        return -1;
    motet_roi_begin("pipe");
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        close(ends[0]);
        for (long round = 0; round < rounds; round++) {
            fill(block, round);
            if (write(ends[1], block, BLOCK) != BLOCK)
                _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    long sum = 0;
    for (long len; (len = read(ends[0], block, BLOCK)) > 0;)
        for (long byte = 0; byte < len; byte++)
            sum += block[byte];
    int status = 1;
    waitpid(child, &status, 0);
    motet_roi_end("pipe");
    return status ? -1 : sum;
}

/* queue */

static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static long ring[RING];
static long put_count, taken_count;

static void *produce(void *unused) {
    (void)unused;
    for (long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&mutex);
        while (put_count - taken_count == RING)
            pthread_cond_wait(&not_full, &mutex);
        ring[put_count++ % RING] = round;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static long run_queue(void) {
    pthread_t producer;
    long sum = 0;
    motet_roi_begin("queue");
    if (pthread_create(&producer, NULL, produce, NULL))
        return -1;
    for (long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&mutex);
        while (put_count == taken_count)
            pthread_cond_wait(&not_empty, &mutex);
        sum += ring[taken_count++ % RING];
        pthread_cond_signal(&not_full);
        pthread_mutex_unlock(&mutex);
    }
    pthread_join(producer, NULL);
    motet_roi_end("queue");
    return sum;
}

/* lock */

static long table[TABLE];
static atomic_long shared;
/* All in one cache line: false sharing. */
static volatile long own[THREADS];

static void *take_turns(void *argument) {
    long number = (long)argument;
    unsigned state = 1 + (unsigned)number;
    pthread_barrier_wait(&together);
    for (long round = 0; round < rounds; round++) {
        long sum = 0;
        for (int step = 0; step < 16; step++) {
            state = state * 1664525 + 1013904223;
            sum += table[(state >> 16) % TABLE];
        }
        pthread_mutex_lock(&mutex);
        table[(state >> 16) % TABLE] += sum + 1;
        table[0]++;
        pthread_mutex_unlock(&mutex);
        atomic_fetch_add(&shared, 1);
        own[number]++;
    }
    return NULL;
}

static long run_lock(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    motet_roi_begin("lock");
    for (long number = 1; number < THREADS; number++)
        if (pthread_create(&threads[number], NULL, take_turns, (void *)number))
            return -1;
    take_turns(NULL);
    for (int number = 1; number < THREADS; number++)
        pthread_join(threads[number], NULL);
    motet_roi_end("lock");
    long sum = shared;
    for (int number = 0; number < THREADS; number++)
        sum += own[number];
    return sum;
}

int main(int argc, char **argv) {
    long (*run)(void) = NULL;
    if (argc == 3 && strcmp(argv[1], "pipe") == 0)
        run = run_pipe;
    else if (argc == 3 && strcmp(argv[1], "queue") == 0)
        run = run_queue;
    else if (argc == 3 && strcmp(argv[1], "lock") == 0)
        run = run_lock;
    if (!run || (rounds = atol(argv[2])) <= 0) {
        fprintf(stderr, "usage: sharing pipe|queue|lock COUNT\n");
        return 64;
    }
    long sum = run();
    printf("%ld\n", sum);
    return sum < 0;
}
