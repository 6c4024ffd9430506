/* Signals of a thread while its other half, in another kernel, runs a function: handlers wait until the thread is home. */
#define _GNU_SOURCE
#include "crossing.h"
#include "expect.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void count(int signal) {
    (void)signal;
    handled++;
}

static sigset_t only(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    return set;
}

/* The other half installs handlers and blocks signals for the thread. The handler runs when the thread is home. */
MOTET_ON(ARM) static long install_away(void) {
    int before = wrong;
    struct sigaction action = {.sa_handler = count};
    handled = 0;
    EXPECT(sigaction(SIGUSR2, &action, NULL), 0);
    for (int turn = 0; turn < 3; turn++) {
        EXPECT(kill(getpid(), SIGUSR2), 0);
        EXPECT(usleep(2000), 0);
    }
    EXPECT(handled, 0);
    sigset_t set = only(SIGALRM), old;
    EXPECT(sigprocmask(SIG_BLOCK, &set, &old), 0);
    EXPECT(sigismember(&old, SIGUSR2), 0);
    return wrong == before;
}

static volatile int is_away, is_installed;
MOTET_ON(ARM) static long wait_away(void) {
    is_away = 1;
    while (!is_installed)
        usleep(1000);
    return handled;
}

static void *install_for(void *thread) {
    while (!is_away)
        usleep(1000);
    struct sigaction action = {.sa_handler = count};
    EXPECT(sigaction(SIGURG, &action, NULL), 0);
    EXPECT(pthread_kill(*(pthread_t *)thread, SIGURG), 0);
    EXPECT(handled, 0);
    /* A signal of the process is for whoever can take it. */
    EXPECT(kill(getpid(), SIGURG), 0);
    for (int turn = 0; turn < 2000 && handled == 0; turn++)
        usleep(1000);
    EXPECT(handled, 1);
    is_installed = 1;
    return NULL;
}

static void installed_while_away(void) {
    EXPECT(install_away(), 1);
    EXPECT(handled, 1);
    sigset_t now;
    EXPECT(sigprocmask(SIG_BLOCK, NULL, &now), 0);
    EXPECT(sigismember(&now, SIGALRM), 1);
    EXPECT(sigismember(&now, SIGUSR2), 0);
    handled = 0;
    pthread_t self = pthread_self(), thread;
    EXPECT(pthread_create(&thread, NULL, install_for, &self), 0);
    EXPECT(wait_away(), 1);
    EXPECT(handled, 2);
    EXPECT(pthread_join(thread, NULL), 0);
}

/* A process is stopped although its thread is away, and goes on. */
MOTET_ON(ARM) static long sleep_away(void) {
    for (int turn = 0; turn < 50; turn++)
        usleep(1000);
    return 7;
}

static void stopped_while_away(void) {
    int status = 0, child = fork();
    if (child == 0)
        _exit((int)sleep_away());
    usleep(20000);
    EXPECT(kill(child, SIGSTOP), 0);
    EXPECT(waitpid(child, &status, WUNTRACED), child);
    EXPECT(WIFSTOPPED(status), 1);
    EXPECT(kill(child, SIGCONT), 0);
    EXPECT(waitpid(child, &status, 0), child);
    EXPECT(status, 7 << 8);
}

/* A signal waits for its handler, which is taken away meanwhile: it does what it does without one, although the thread is not home. */
static volatile int never;
MOTET_ON(ARM) static long stay_away(void) {
    is_away = 1;
    while (!never)
        ;
    return 1;
}

static void *take_handler(void *thread) {
    while (!is_away)
        usleep(1000);
    EXPECT(pthread_kill(*(pthread_t *)thread, SIGUSR1), 0);
    usleep(20000);
    EXPECT(handled, 0);
    struct sigaction action = {.sa_handler = SIG_IGN};
    EXPECT(sigaction(SIGUSR1, &action, NULL), 0);
    action.sa_handler = count;
    EXPECT(sigaction(SIGUSR1, &action, NULL), 0);
    EXPECT(pthread_kill(*(pthread_t *)thread, SIGUSR1), 0);
    usleep(20000);
    action.sa_handler = SIG_DFL;
    EXPECT(sigaction(SIGUSR1, &action, NULL), 0);
    sleep(5);
    _exit(wrong);
}

static void handler_taken_while_away(void) {
    int status = 0, child = fork();
    if (child == 0) {
        struct sigaction action = {.sa_handler = count};
        EXPECT(sigaction(SIGUSR1, &action, NULL), 0);
        handled = is_away = 0;
        pthread_t self = pthread_self(), thread;
        EXPECT(pthread_create(&thread, NULL, take_handler, &self), 0);
        _exit((int)stay_away());
    }
    EXPECT(waitpid(child, &status, 0), child);
    EXPECT(status, SIGUSR1);
}

/* Calls with a timeout or a mask of their own, by the other half. */
static long ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

MOTET_ON(ARM) static long timeouts_away(void) {
    int before = wrong;
    struct timespec time = {.tv_nsec = 30000000};
    sigset_t set = only(SIGUSR1), old;
    long began = ms();
    EXPECT(nanosleep(&time, NULL), 0);
    EXPECT(ms() - began >= 29, 1);
    began = ms();
    EXPECT(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL), 0);
    EXPECT(ms() - began >= 29, 1);
    EXPECT(sigprocmask(SIG_BLOCK, &set, &old), 0);
    began = ms();
    EXPECT(sigtimedwait(&set, NULL, &time), -1);
    EXPECT(errno, EAGAIN);
    EXPECT(ms() - began >= 29, 1);
    EXPECT(kill(getpid(), SIGUSR1), 0);
    EXPECT(sigtimedwait(&set, NULL, &time), SIGUSR1);
    return wrong == before;
}

MOTET_ON(ARM) static long masks_away(void) {
    int before = wrong;
    struct timespec time = {.tv_nsec = 30000000}, long_time = {.tv_sec = 100};
    sigset_t set = only(SIGUSR1), none, now;
    sigemptyset(&none);
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    struct sigaction action = {.sa_handler = count};
    EXPECT(sigaction(SIGUSR1, &action, NULL), 0);
    long began = ms();
    EXPECT(ppoll(NULL, 0, &time, &none), 0);
    EXPECT(ms() - began >= 29, 1);
    EXPECT(kill(getpid(), SIGUSR1), 0);
    EXPECT(ppoll(NULL, 0, &time, NULL), 0);
    /* Also without time to wait, but epoll_pwait. */
    struct timespec no_time = {0};
    EXPECT(ppoll(NULL, 0, &no_time, NULL), 0);
    EXPECT(ppoll(NULL, 0, &no_time, &none), -1);
    EXPECT(errno, EINTR);
    EXPECT(pselect(0, NULL, NULL, NULL, &no_time, &none), -1);
    EXPECT(errno, EINTR);
    EXPECT(ppoll(NULL, 0, &long_time, &none), -1);
    EXPECT(errno, EINTR);
    EXPECT(pselect(0, NULL, NULL, NULL, &long_time, &none), -1);
    EXPECT(errno, EINTR);
    EXPECT(sigsuspend(&none), -1);
    EXPECT(errno, EINTR);
    int list = epoll_create1(0);
    struct epoll_event event;
    EXPECT(epoll_pwait(list, &event, 1, 100000, &none), -1);
    EXPECT(errno, EINTR);
    EXPECT(epoll_pwait(list, &event, 1, 0, &none), 0);
    EXPECT(close(list), 0);
    EXPECT(sigprocmask(SIG_BLOCK, NULL, &now), 0);
    EXPECT(sigismember(&now, SIGUSR1), 1);
    return wrong == before;
}

static void own_timeouts_and_masks(void) {
    handled = 0;
    EXPECT(timeouts_away(), 1);
    EXPECT(masks_away(), 1);
    EXPECT(handled, 0);
    sigset_t set = only(SIGUSR1);
    EXPECT(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
    EXPECT(handled, 1);
}

/* A wait at a futex goes on for signals whose handlers wait, until the word has changed. */
static atomic_int word;
MOTET_ON(ARM) static long futex_away(void) {
    is_away = 1;
    if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) && errno != EAGAIN)
        return -errno;
    return word;
}

static void *interrupt_futex(void *thread) {
    while (!is_away)
        usleep(1000);
    for (int turn = 0; turn < 3; turn++) {
        usleep(20000);
        EXPECT(pthread_kill(*(pthread_t *)thread, SIGUSR2), 0);
    }
    usleep(20000);
    word = 1;
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return NULL;
}

static void futex_waits_on(void) {
    struct sigaction action = {.sa_handler = count};
    EXPECT(sigaction(SIGUSR2, &action, NULL), 0);
    handled = is_away = 0;
    pthread_t self = pthread_self(), thread;
    EXPECT(pthread_create(&thread, NULL, interrupt_futex, &self), 0);
    EXPECT(futex_away(), 1);
    EXPECT(handled, 1);
    EXPECT(pthread_join(thread, NULL), 0);
}

int main(void) {
    installed_while_away();
    stopped_while_away();
    handler_taken_while_away();
    own_timeouts_and_masks();
    futex_waits_on();
    if (!wrong)
        puts("held");
    return wrong;
}
