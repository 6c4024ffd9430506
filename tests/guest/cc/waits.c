/*
 * On every instruction set: what is waited for comes together with a signal that has a handler without SA_RESTART. A wait ends by the signal only
 * if there is nothing to return. The output is the same on the host.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crossing.h"

enum { TIMES = 40 };

static volatile int handled;
static void handle(int signal) { (void)signal; handled++; }

/* How a child is waited for, and whether it has ended by then. */
struct how { int by_id, ends_later; };

static int wait_for(pid_t child, int by_id) {
    siginfo_t info = {0};
    if (!by_id)
        return waitpid(child, 0, 0) == child;
    return waitid(P_PID, child, &info, WEXITED) == 0 && info.si_pid == child;
}

static void ends(const struct how *how) {
    int interrupted = 0, failed = 0;
    handled = 0;
    for (int i = 0; i < TIMES; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (how->ends_later) usleep(1000);
            _exit(3);
        }
        if (wait_for(child, how->by_id))
            continue;
        if (errno == EINTR) interrupted++; else failed++;
        while (waitpid(child, 0, 0) < 0 && errno == EINTR)
            ;
    }
    printf("%s, the child ends %s: %d interrupted, %d failed, %d of %d signals\n", how->by_id ? "waitid" : "waitpid",
           how->ends_later ? "later" : "at once", interrupted, failed, handled, TIMES);
}

/* The signal comes again and again: the first one may come before the call. */
#define INTERRUPTED(name, call) do { \
    ualarm(20000, 20000); \
    long result = (call); \
    int error = errno; \
    ualarm(0, 0); \
    printf("%s: %s\n", name, result < 0 ? strerror(error) : "?"); \
} while (0)

/* Nothing comes but the signal. */
static sem_t never;
static void alone(const struct how *how) {
    (void)how;
    int ends[2];
    char letter;
    struct sigaction action = {.sa_handler = handle};
    struct timespec left = {0}, long_time = {.tv_sec = 50};
    sigaction(SIGALRM, &action, 0);
    if (pipe(ends) != 0) return;
    INTERRUPTED("read", read(ends[0], &letter, 1));
    INTERRUPTED("sem_wait", sem_wait(&never));
    INTERRUPTED("nanosleep", nanosleep(&long_time, &left));
    printf("left: %ld\n", (long)left.tv_sec);
    pid_t child = fork();
    if (child == 0) for (;;) pause();
    INTERRUPTED("waitpid", waitpid(child, 0, 0));
    kill(child, SIGKILL);
    while (waitpid(child, 0, 0) < 0)
        ;
    close(ends[0]);
    close(ends[1]);
}

typedef void Part(const struct how *);
MOTET_ON(X86) void on_x86(Part *part, const struct how *how) { expect_on(X86); part(how); }
MOTET_ON(ARM) void on_arm(Part *part, const struct how *how) { expect_on(ARM); part(how); }
MOTET_ON(RISCV) void on_riscv(Part *part, const struct how *how) { expect_on(RISCV); part(how); }

int main(void) {
    static void (*const places[])(Part *, const struct how *) = {on_x86, on_arm, on_riscv};
    struct sigaction action = {.sa_handler = handle};
    setvbuf(stdout, 0, _IONBF, 0);
    sem_init(&never, 0, 0);
    sigaction(SIGCHLD, &action, 0);
    for (int place = 0; place < 3; place++) {
        for (int kind = 0; kind < 4; kind++)
            places[place](ends, &(struct how){kind & 1, kind >> 1});
        places[place](alone, 0);
    }
    return 0;
}
