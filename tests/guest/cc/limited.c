/*
 * limited ISLAND: a function that computes on another island, with all its pages there, is interrupted as any other code: the signal of a timer by
 * processor time comes meanwhile. Prints `limited: ok`.
 */
#include <motet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

enum { INTERVAL_US = 20000, CALLS_BEFORE = 3 };
static const long rounds_max = 400000000;
static volatile int wants;

static void note(int signal) {
    (void)signal;
    wants = 0;
}

/* Computes as long as somebody wants it. */
static void *compute(void *unused) {
    (void)unused;
    volatile long round = 0;
    while (wants && round < rounds_max)
        round++;
    return (void *)round;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: limited ISLAND\n", stderr);
        return 2;
    }
    int island = atoi(argv[1]);
    for (int call = 0; call < CALLS_BEFORE; call++)
        if (motet_call_on(island, compute, NULL)) {
            puts("limited: it cannot be called");
            return 1;
        }
    signal(SIGPROF, note);
    struct itimerval interval = {{0, 0}, {0, INTERVAL_US}};
    wants = 1;
    if (setitimer(ITIMER_PROF, &interval, NULL)) {
        perror("setitimer");
        return 1;
    }
    long rounds = (long)motet_call_on(island, compute, NULL);
    puts(!wants && rounds > 0 && rounds < rounds_max ? "limited: ok" : "limited: nothing came while it computed");
    return 0;
}
