/* Three threads on islands of three instruction sets take the lock again and again. Nothing is to be changed here. */
#include "../lab.h"

#define THREADS 3
#define PASSES 9000
/* Who waits is overtaken if the others have it more often than this meanwhile. */
#define FAIR (2 * THREADS)
/* An interrupt between a look at the passes and the lock lets others go first, whatever the lock. These are few. */
#define OVERTAKEN_MAX 18

#include LAB_FILE

static long passes;             /* under the lock */
static long of[THREADS];        /* how often each has had it */
static long overtaken[THREADS]; /* how often others have overtaken it */
static volatile long data[64];  /* what the lock guards */

static atomic_int ready;

static void work(int number) {
    /* Each has had the lock, and so its pages, before it is counted who waits. */
    lock();
    unlock();
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < THREADS)
        ;
    for (;;) {
        long before = *(volatile long *)&passes;
        lock();
        long others = passes - before;
        int ended = passes >= PASSES;
        overtaken[number] += others > FAIR;
        if (!ended) {
            passes++;
            of[number]++;
            for (int word = 0; word < 64; word += 8)
                data[word]++;
        }
        unlock();
        if (ended)
            return;
    }
}

int main(void) {
    lab_run(THREADS, (int[]){0, 1, 2}, work);
    long worst = 0, sum = 0;
    for (int number = 0; number < THREADS; number++) {
        printf("thread %d: %ld passes, overtaken %ld times\n", number, of[number], overtaken[number]);
        worst = overtaken[number] > worst ? overtaken[number] : worst;
        sum += of[number];
    }
    if (sum != PASSES || data[0] != PASSES)
        return printf("the lock does not keep others out\n"), 1;
    if (worst > OVERTAKEN_MAX)
        return printf("somebody was overtaken\n"), 1;
    printf("nobody was overtaken\n");
    return 0;
}
