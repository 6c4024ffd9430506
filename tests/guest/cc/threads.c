/* Many threads of one core call functions of other instruction sets at the same time. The called cores answer
   while others are about to call them. */
#include <pthread.h>

#include "crossing.h"

enum { THREADS = 24, CALLS = 60, ROUNDS = 12 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static long total;
static int turn;
static _Thread_local long own;

static void add(long value) {
    pthread_mutex_lock(&mutex);
    total += value;
    pthread_mutex_unlock(&mutex);
}

MOTET_ON(RISCV) void add_there(long value) { expect_on(RISCV); add(value); }

MOTET_ON(ARM) void add_a_block(long value) {
    expect_on(ARM);
    char *block = malloc(100 + value % 1000);
    memset(block, (int)value, 100);
    add(block[50] == (char)value ? value : 1000000);
    free(block);
}

static void *work(void *seed) {
    unsigned random = (unsigned)(long)seed;
    for (int call = 0; call < CALLS; call++) {
        switch (rand_r(&random) % 3) {
        case 0: add_there(1); break;
        case 1: add_a_block(1); break;
        default: add(1);
        }
        own++;
    }
    return (void *)own;
}

MOTET_ON(RISCV) void *take_turn(void *value) {
    expect_on(RISCV);
    pthread_mutex_lock(&mutex);
    while (turn != 1) pthread_cond_wait(&moved, &mutex);
    turn = 2;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mutex);
    return (void *)((long)value * 2);
}

int main(void) {
    for (long round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        void *result;
        long calls = 0;
        total = turn = 0;
        for (long index = 0; index < THREADS; index++)
            pthread_create(&threads[index], 0, work, (void *)(index + round * 31));
        for (int index = 0; index < THREADS; index++) {
            pthread_join(threads[index], &result);
            calls += (long)result;
        }
        printf("%ld of %ld\n", total, calls);
        pthread_create(&threads[0], 0, take_turn, (void *)21);
        pthread_mutex_lock(&mutex);
        turn = 1;
        pthread_cond_broadcast(&moved);
        while (turn != 2) pthread_cond_wait(&moved, &mutex);
        pthread_mutex_unlock(&mutex);
        pthread_join(threads[0], &result);
        printf("%ld\n", (long)result);
        fflush(stdout);
    }
    return 0;
}
