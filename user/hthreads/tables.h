/* Mutexes, condition variables, barriers, sources and threads in the process's memory, as the service core keeps them in its own
 * (docs/protocols/service.md). Servers execute the operations on them (`rpc`, `software`), or the requesting threads do, one at a time (`fused`). */
#ifndef HTHREAD_TABLES_H
#define HTHREAD_TABLES_H

#include "internal.h"

enum { MUTEXES = 4096, CONDITIONS = 4096, BARRIERS = 1024 };

/* The objects of one server: those with the numbers first, first + step, ... */
struct service {
    uint32_t first, step;
    /* Threads lock and unlock mutexes themselves, too, as long as no thread waits for them (fused.c). */
    int is_shared;
};

/* Values of a mutex's word. */
enum {
    NO_MUTEX = 0, /* it was not created */
    FROZEN = 1,   /* a bit: only the service changes the word */
    FREE = 2,
};
static inline uint32_t ht_holder(uint32_t thread) { return (thread + 2) << 1; }

struct mutex {
    uint32_t holder;
    uint32_t depth; /* locks of the owner beyond the first. Only the owner accesses it */
    uint32_t kind;  /* 1 + kind; 0: it was not created */
    uint32_t waiters, dead, conditions;
} __attribute__((aligned(64)));

struct condition {
    uint32_t is_used, waiters;
    uint32_t mutex; /* 1 + the mutex of the waiting threads, whose service has the queue; 0: no thread waits */
};

/* State of a thread; 0: there is none. */
enum { NEW = 1, STARTED, ENDED, NOT_CREATED };

/* A service's record of a thread. */
struct client {
    uint32_t state, priority;
    uint32_t next;  /* in a queue, 1 + number; 0: none */
    uint32_t waits; /* what it waits for: a kind << 16 | a number; 0: nothing */
    uint32_t mutex; /* 1 + the mutex that it must get back after it has waited for a condition variable; 0: none */
    uint32_t islands, is_detached, runs_on;
    uint32_t code, value;        /* the code of its last or next answer */
    uint32_t joiner, ended_with; /* joiner: 1 + its number; 0: none */
    uint64_t served;             /* the sequence of the last request */
} __attribute__((aligned(64)));

extern struct client ht_clients[THREADS];
extern struct mutex ht_mutexes[MUTEXES];
extern struct condition ht_conditions[CONDITIONS];

/* Executes a thread's request, and answers it. */
void ht_serve(const struct service *service, uint32_t thread);

/* Allocates the pages that a service uses often near its core: a page is allocated when it is touched first. */
void ht_touch_tables(const struct service *service);

#endif
