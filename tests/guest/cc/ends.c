/* Threads that end while another kernel has pages of theirs. */
#define _GNU_SOURCE
#include "crossing.h"
#include "expect.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

/* A thread has a mutex of several processes, and is killed while another kernel has its list of these. */
static int told[2];
MOTET_ON(ARM) static long stay_away(void) {
    EXPECT(close(-1), -1); /* this writes errno, which is beside the list */
    EXPECT(write(told[1], "", 1), 1);
    for (;;)
        ;
}

static void killed_with_mutex(void) {
    pthread_mutex_t *mutex = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t kind;
    EXPECT(pthread_mutexattr_init(&kind), 0);
    EXPECT(pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED), 0);
    EXPECT(pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST), 0);
    EXPECT(pthread_mutex_init(mutex, &kind), 0);
    EXPECT(pipe(told), 0);
    int status = 0, child = fork();
    if (child == 0) {
        EXPECT(pthread_mutex_lock(mutex), 0);
        _exit((int)stay_away());
    }
    char byte;
    EXPECT(read(told[0], &byte, 1), 1);
    usleep(20000);
    EXPECT(kill(child, SIGKILL), 0);
    EXPECT(waitpid(child, &status, 0), child);
    EXPECT(status, SIGKILL);
    struct timespec end;
    EXPECT(clock_gettime(CLOCK_REALTIME, &end), 0);
    end.tv_sec += 5;
    EXPECT(pthread_mutex_timedlock(mutex, &end), EOWNERDEAD);
}

int main(void) {
    killed_with_mutex();
    if (!wrong)
        puts("ends");
    return wrong;
}
