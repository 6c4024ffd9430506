/* Threads that end, and files that are cut, while another kernel has pages of theirs. */
#define _GNU_SOURCE
#include "crossing.h"
#include "expect.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096 };

MOTET_ON(ARM) static long peek(volatile char *at) { return *at; }
MOTET_ON(ARM) static long poke(volatile char *at) { return *at = 7; }

static sigjmp_buf back;
static void leave(int signal) { siglongjmp(back, signal); }

/* The pages that a file no longer has are gone wherever they were. */
static volatile char *cut_file(void) {
    int file = open("/tmp/cut", O_RDWR | O_CREAT | O_TRUNC, 0600);
    EXPECT(ftruncate(file, 3 * PAGE), 0);
    volatile char *at = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    EXPECT(poke(at), 7);
    EXPECT(poke(at + PAGE), 7);
    EXPECT(peek(at + 2 * PAGE), 0);
    EXPECT(ftruncate(file, PAGE), 0);
    EXPECT(close(file), 0);
    return at;
}

static void cut(void) {
    volatile char *at = cut_file();
    struct sigaction action = {.sa_handler = leave};
    EXPECT(sigaction(SIGBUS, &action, NULL), 0);
    for (volatile int page = 1; page < 3; page++) {
        int came = sigsetjmp(back, 1);
        if (came == 0) {
            EXPECT(at[page * PAGE], -1);
        } else {
            EXPECT(came, SIGBUS);
        }
    }
    EXPECT(at[0], 7);
    int status = 0, child = fork();
    if (child == 0)
        _exit((int)peek(cut_file() + PAGE));
    EXPECT(waitpid(child, &status, 0), child);
    EXPECT(WTERMSIG(status), SIGSEGV);
}

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
    cut();
    if (!wrong)
        puts("ends");
    return wrong;
}
