/* What cases of System V IPC have in common. */
#ifndef KEYS_H
#define KEYS_H

#include "conform.h"

/* Nobody else on the machine has this key, whose other islands run the same cases at the same time. A case's children have its key. */
static inline int own_key(void) {
    static int key;
    return key ? key : (key = 0x4d000000 | getpid());
}
#define KEY own_key()
/* A key as it is written down: the own one by a name that is always the same. */
static inline int shown(int key, int name) { return key == KEY ? name : key; }

static struct sigaction action;
static struct itimerval often = {{0, 20000}, {0, 20000}};

static void nothing(int signal) { (void)signal; }

/* A handler runs soon, and again. */
static void interrupt_soon(int flags) {
    action.sa_handler = nothing;
    action.sa_flags = flags;
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
}

#endif
