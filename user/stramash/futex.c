/*
 * futex [ROUNDS]: two threads that wake each other, as Stramash's Figure 13 asks: one at home, one that has gone to the first island of another instruction set.
 * Each unlocks what the other waits for, adds, and waits for its own turn. The region of interest `rounds` has ROUNDS rounds (200, if it is not said), each of two
 * wake-ups; `alone` has the same of two threads at home. user/npb has the header.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "migrate.h"

enum { PAGE = 4096, ROUNDS_MAX = 1000000, BEFORE = 4 };

/* A lock in a page of its own: 1, whoever waits may go on. */
union lock {
    atomic_int open;
    unsigned char page[PAGE];
};

static _Alignas(PAGE) union lock locks[2];
/* In pages of their own, too: nobody else writes there. */
static _Alignas(PAGE) union {
    long sum;
    unsigned char page[PAGE];
} sums[2];
static long rounds = 200;
static struct migrate there = {-1, "nowhere"};

static void unlock(union lock *lock) {
    atomic_store(&lock->open, 1);
    syscall(SYS_futex, &lock->open, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void take(union lock *lock) {
    while (!atomic_exchange(&lock->open, 0))
        syscall(SYS_futex, &lock->open, FUTEX_WAIT, 0, NULL, NULL, 0);
}

/* The other thread's part. */
static void *answer(void *unused) {
    (void)unused;
    for (long round = 0; round < BEFORE + rounds; round++) {
        take(&locks[1]);
        sums[1].sum += round;
        unlock(&locks[0]);
    }
    return NULL;
}

static void *go_and_answer(void *is_away) {
    if (is_away)
        migrate_call(&there, answer, NULL);
    else
        answer(NULL);
    return NULL;
}

static void play(const char *region, int is_away) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, go_and_answer, is_away ? &there : NULL);
    if (error) {
        fprintf(stderr, "futex: a thread cannot be made: %s\n", strerror(error));
        exit(2);
    }
    /* In the first rounds the thread arrives, and pages are used for the first time. */
    for (long round = 0; round < BEFORE + rounds; round++) {
        if (round == BEFORE)
            motet_roi_begin(region);
        sums[0].sum += round;
        unlock(&locks[1]);
        take(&locks[0]);
    }
    motet_roi_end(region);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    if (argc > 1)
        rounds = atol(argv[1]);
    if (argc > 2 || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: %s [ROUNDS (1 to %d)]\n", argv[0], ROUNDS_MAX);
        return 2;
    }
    migrate_choose(&there, NULL);
    play("alone", 0);
    play("rounds", 1);
    int is_right = sums[0].sum == (BEFORE + rounds) * (BEFORE + rounds - 1) && sums[1].sum == sums[0].sum;
    printf("futex %ld to %s%s\n", rounds, there.isa, is_right ? " verified" : " WRONG SUM");
    return !is_right;
}
