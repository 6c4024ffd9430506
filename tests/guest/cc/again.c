/* Two threads that other kernels run again and again: one goes to each of them in turn, the other one the other way round. Both write the same pages. Before that, one of them is away and
 * takes turns with the other one at a futex. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* Whose turn it is, and that of the other thread comes next. */
static atomic_int turn;

static void take_turns(int own) {
    for (int next = own; next < 2 * ROUNDS; next += 2) {
        for (int now; (now = turn) != next;)
            syscall(SYS_futex, &turn, FUTEX_WAIT, now, NULL, NULL, 0);
        turn++;
        syscall(SYS_futex, &turn, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

MOTET_ON("aarch64") long take_turns_away(long own) {
    take_turns(own);
    /* And changes of memory by who is away. */
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -1;
    *page = 1;
    return munmap(page, 4096);
}

static void *away(void *argument) {
    return take_turns_away(1) ? argument : NULL;
}

/* Home makes calls that write to each page, while the remote that has asked for the call has it. */
static char pages[300][4096];

MOTET_ON("aarch64") int read_into_pages(void) {
    int zeroes = open("/dev/zero", O_RDONLY);
    for (int at = 0; at < 300; at++) {
        pages[at][0] = 1;
        if (read(zeroes, pages[at], 1) != 1 || pages[at][0])
            return 0;
    }
    return close(zeroes) == 0;
}

int main(void) {
    pthread_t thread;
    if (!read_into_pages())
        return 4;
    void *failed;
    if (pthread_create(&thread, NULL, away, words))
        return 2;
    take_turns(0);
    if (pthread_join(thread, &failed) || failed)
        return 3;
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
