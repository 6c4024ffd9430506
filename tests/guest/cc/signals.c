/* Signals for a thread that executes a function on another instruction set. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

static volatile sig_atomic_t got, value, ready;

static void note(int number) { got = number; }
static void note_value(int number, siginfo_t *info, void *context) {
    (void)context;
    got = number;
    value = info->si_signo == number ? info->si_pid : -1;
}
MOTET_ON(ARM) void note_there(int number) { expect_on(ARM); got = number + 100; }

MOTET_ON(RISCV) int raises(int number) { expect_on(RISCV); raise(number); return got; }

MOTET_ON(ARM) int sets_and_raises(int number) {
    expect_on(ARM);
    struct sigaction action = {.sa_sigaction = note_value, .sa_flags = SA_SIGINFO};
    sigaction(number, &action, 0);
    kill(getpid(), number);
    return value == getpid();
}

/* Many values are in registers when the signal comes. */
MOTET_ON(RISCV) double works(long rounds) {
    expect_on(RISCV);
    double a = 1, b = 2, c = 3;
    long d = 4, e = 5;
    ready = 1;
    do {
        for (long i = 0; i < rounds; i++) {
            a += b * 0.5 - c;
            c = a - b;
            d = d * 3 + e;
            e ^= d;
        }
    } while (!got);
    return a == a && d != e ? got : -1;
}

static void *sender(void *thread) {
    while (!ready)
        ;
    usleep(20000);
    pthread_kill(*(pthread_t *)thread, SIGUSR2);
    return 0;
}

MOTET_ON(ARM) int sleeps(void) {
    expect_on(ARM);
    /* Again and again: the first one may come before the call. */
    struct itimerval often = {{1, 0}, {1, 0}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, 0);
    int result = pause();
    setitimer(ITIMER_REAL, &none, 0);
    return result == -1 && errno == EINTR;
}

MOTET_ON(RISCV) int blocks(int number) {
    expect_on(RISCV);
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(number);
    sigpending(&pending);
    return got * 10 + sigismember(&pending, number);
}

static const int constant = 1;
static int *volatile bad;

static void tell_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    printf("signal %d, code %d, at the address: %d\n", number, info->si_code, info->si_addr == (void *)bad);
    fflush(stdout);
    _exit(3);
}

MOTET_ON(ARM) void reads(void) { expect_on(ARM); (void)*(volatile int *)bad; }
MOTET_ON(RISCV) void writes(void) { expect_on(RISCV); *(volatile int *)bad = 2; }

/* Prints the information that a handler gets about a fault, in a child process. */
static void fault(void (*in)(void), const int *address) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_sigaction = tell_fault, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, 0);
        bad = (int *)address;
        in();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("exit %d\n", WEXITSTATUS(status));
}

enum { RAISED = 300, FORKS = 20 };
static volatile sig_atomic_t raised, forked, is_child;

static void count_raised(int number) { (void)number; raised++; }
static void fork_here(int number) {
    (void)number;
    if (fork() == 0)
        is_child = 1;
    forked++;
}

/* Raises signals to itself. Meanwhile other signals come, whose handler forks. The children continue here, too, but get no such signals. `forked` is
 * read last, so a child that returns here from its handler knows that it is a child. */
static void *raise_and_fork(void *nothing) {
    for (int index = 0; index < RAISED; index++)
        raise(SIGRTMIN);
    while (!is_child && forked < FORKS)
        ;
    if (is_child)
        _exit(raised == RAISED ? 5 : 6);
    return nothing;
}

static void raise_while_handlers_fork(void) {
    pthread_t thread;
    signal(SIGRTMIN, count_raised);
    signal(SIGRTMIN + 1, fork_here);
    pthread_create(&thread, 0, raise_and_fork, 0);
    for (int index = 0; index < FORKS; index++)
        pthread_kill(thread, SIGRTMIN + 1);
    pthread_join(thread, 0);
    int good = 0, status;
    for (int index = 0; index < FORKS; index++)
        good += wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 5;
    printf("%d %d %d\n", raised, forked, good);
}

int main(void) {
    raise_while_handlers_fork();
    fflush(stdout);
    fault(reads, 0);
    fault(writes, 0);
    fault(reads, (int *)64);
    fault(writes, &constant);
    signal(SIGUSR1, note);
    printf("%d\n", raises(SIGUSR1) == SIGUSR1);
    printf("%d\n", sets_and_raises(SIGHUP));

    got = 0;
    signal(SIGUSR2, note);
    pthread_t self = pthread_self(), thread;
    pthread_create(&thread, 0, sender, &self);
    printf("%d\n", works(1000) == SIGUSR2);
    pthread_join(thread, 0);

    got = 0;
    signal(SIGALRM, note);
    printf("%d %d\n", sleeps(), got == SIGALRM);

    got = 0;
    printf("%d\n", blocks(SIGUSR1));
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, 0);
    printf("%d\n", got == SIGUSR1);

    signal(SIGUSR1, note_there);
    printf("%d %d\n", raise(SIGUSR1), got == SIGUSR1 + 100);
    printf("%d\n", raises(SIGUSR1) == SIGUSR1 + 100);
    return 0;
}
