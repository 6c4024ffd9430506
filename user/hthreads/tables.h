/* Mutexes, condition variables, barriers, sources and threads in the process's memory, as the service core keeps them in its own
 * (docs/protocols/service.md): servers look after them, or whoever asks does, one at a time. */
#ifndef HTHREAD_TABLES_H
#define HTHREAD_TABLES_H

#include "internal.h"

enum { MUTEXES = 4096, CONDITIONS = 4096, BARRIERS = 1024 };

/* The part of all objects that one server has: numbers first, first + step, ... */
struct service {
    uint32_t first, step;
    /* Threads lock and unlock mutexes themselves as well, as long as nobody waits for them (fused.c). */
    int is_shared;
};

/* Whose a mutex is. */
enum {
    NO_MUTEX = 0, /* it was not created */
    FROZEN = 1,   /* a bit: nobody but the service changes the word */
    FREE = 2,
};
static inline uint32_t ht_holder(uint32_t thread) { return (thread + 2) << 1; }

struct mutex {
    uint32_t holder;
    uint32_t depth; /* how often beyond once its owner has locked it. The owner's */
    uint32_t kind;  /* 1 + kind; 0: it was not created */
    uint32_t waiters, dead, conditions;
} __attribute__((aligned(64)));

struct condition {
    uint32_t is_used, waiters;
    uint32_t mutex; /* 1 + that with which threads wait, whose service has the queue; 0: none does */
};

/* State of a thread; 0: there is none. */
enum { NEW = 1, STARTED, ENDED, NOT_CREATED };

/* What a service knows of a thread. */
struct client {
    uint32_t state, priority;
    uint32_t next;  /* in a queue, 1 + number; 0: none */
    uint32_t waits; /* for what: a kind << 16 | a number; 0: for nothing */
    uint32_t mutex; /* that it must have back when it has waited for a condition variable, 1 + number; 0: none */
    uint32_t islands, is_detached, runs_on;
    uint32_t code, value;        /* of its last answer, or of the one that it will get */
    uint32_t joiner, ended_with; /* joiner: 1 + its number; 0: none */
    uint64_t served;             /* the sequence of the last request */
} __attribute__((aligned(64)));

extern struct client ht_clients[THREADS];
extern struct mutex ht_mutexes[MUTEXES];
extern struct condition ht_conditions[CONDITIONS];

/* Does what a thread has asked for, and answers. */
void ht_serve(const struct service *service, uint32_t thread);

/* Brings what a service looks at often near to the core that it is on: pages come when they are touched. */
void ht_touch_tables(const struct service *service);

#endif
