/* Threads of two processes call functions of one busy core, the least urgent one first. Prints the order in which their
 * functions run. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

#define CALLERS 6

static const int nice_of[CALLERS] = {10, 10, 0, -5, 0, -5};

static struct shared {
    volatile int spins, stop, count;
    volatile int order[CALLERS];
    sem_t turn[CALLERS + 1];
    sem_t ready;
} *shared;

MOTET_ON(RISCV) void spin(void) {
    shared->spins = 1;
    while (!shared->stop)
        ;
}
MOTET_ON(RISCV) void come(int caller) { shared->order[shared->count++] = caller; }

static void *spinner(void *unused) {
    spin();
    return unused;
}

static void *call(void *number) {
    int caller = (int)(long)number;
    if (setpriority(PRIO_PROCESS, 0, nice_of[caller]) != 0)
        exit(98);
    sem_post(&shared->ready);
    sem_wait(&shared->turn[caller]);
    sem_post(&shared->turn[caller + 1]);
    come(caller);
    return 0;
}

/* Every other caller is a thread of this process. */
static void call_all(int first) {
    pthread_t threads[CALLERS];
    for (long caller = first; caller < CALLERS; caller += 2)
        pthread_create(&threads[caller], 0, call, (void *)caller);
    for (int caller = first; caller < CALLERS; caller += 2)
        pthread_join(threads[caller], 0);
}

int main(void) {
    pthread_t thread;
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&shared->ready, 1, 0);
    for (int turn = 0; turn <= CALLERS; turn++)
        sem_init(&shared->turn[turn], 1, 0);
    for (int process = 0; process < 2; process++)
        if (fork() == 0) {
            call_all(process);
            _exit(0);
        }
    for (int caller = 0; caller < CALLERS; caller++)
        sem_wait(&shared->ready);
    pthread_create(&thread, 0, spinner, 0);
    while (!shared->spins)
        usleep(100);
    sem_post(&shared->turn[0]);
    sem_wait(&shared->turn[CALLERS]);
    shared->stop = 1;
    pthread_join(thread, 0);
    for (int process = 0; process < 2; process++)
        wait(0);
    for (int at = 0; at < CALLERS; at++)
        printf("%d%c", shared->order[at], at + 1 < CALLERS ? ' ' : '\n');
    return 0;
}
