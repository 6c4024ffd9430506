/* Two threads that other kernels run again and again: one goes to each of them in turn, the other one the other way round. Both write the same pages. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "motet.h"

enum { ROUNDS = 200, WORDS = 2048 };

static atomic_long sum;
/* Each thread has every other word: what one writes is beside what the other one does. */
static long words[WORDS];

static long add(long who, long round) {
    for (long at = who + 2 * (round % 2); at < WORDS; at += 4)
        words[at]++;
    return atomic_fetch_add(&sum, 1);
}

MOTET_ON("aarch64") long on_arm(long who, long round) {
    return add(who, round);
}

MOTET_ON("riscv64") long on_riscv(long who, long round) {
    return add(who, round);
}

static void *go(void *argument) {
    long who = argument != NULL;
    for (long round = 0; round < ROUNDS; round++) {
        long on_first = (round / 2 + who) % 2;
        long before = on_first ? on_arm(who, round) : on_riscv(who, round);
        if (before < round) {
            printf("%ld, after %ld rounds\n", before, round);
            exit(1);
        }
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, go, words))
        return 2;
    go(NULL);
    pthread_join(thread, NULL);
    for (int at = 0; at < WORDS; at++)
        if (words[at] != ROUNDS / 2) {
            printf("word %d is %ld\n", at, words[at]);
            return 1;
        }
    printf("%ld\n", (long)sum);
}
