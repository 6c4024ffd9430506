/* Signals of a thread while its other half, in another kernel, runs a function: handlers wait until the thread is home. */
#define _GNU_SOURCE
#include "crossing.h"
#include "expect.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
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

int main(void) {
    installed_while_away();
    stopped_while_away();
    if (!wrong)
        puts("held");
    return wrong;
}
