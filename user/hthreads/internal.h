/* Declarations that the library's files share. Names that begin with ht_ are internal to the library. */
#ifndef HTHREAD_INTERNAL_H
#define HTHREAD_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#include "hthread.h"

enum {
    THREADS = 4096, /* of a process: 32 for each of 128 cores, as the service core numbers them */
    ISLANDS = 8,
    SOURCES = 64,
    CPUS = 128,
};

/* Operations of requests (docs/protocols/service.md). Every back end takes the same requests. */
enum operation {
    START = 1, CREATE = 2, EXIT = 3, JOIN = 4, YIELD = 5, SET_PRIORITY = 6, DETACH = 7, DELETE = 8, SLOTS = 9,
    MUTEX_CREATE = 16, MUTEX_DESTROY = 17, LOCK = 18, TRY_LOCK = 19, UNLOCK = 20, CONSISTENT = 21,
    CONDITION_CREATE = 24, CONDITION_DESTROY = 25, CONDITION_WAIT = 26, SIGNAL = 27, BROADCAST = 28,
    BARRIER_CREATE = 32, BARRIER_DESTROY = 33, BARRIER_WAIT = 34,
    SOURCE_BIND = 40, SOURCE_WAIT = 41, SOURCE_RAISE = 42,
    WITHDRAW = 48,
};

#define DETACHED (1u << 16)  /* in the argument of CREATE */
#define HARDWARE (1u << 17)  /* in the argument of CREATE: the thread is a device */
#define KILLED UINT32_MAX    /* the value of a thread that ended without one */

/* A window of registers: of the service core, or memory with the same words, which a server reads and writes. */
struct window {
    uint64_t request; /* sequence << 56 | operation << 48 | object << 32 | argument */
    uint64_t answer;  /* sequence << 56 | state << 48 | code << 32 | value */
    uint32_t parked;
};

#define SEQUENCE_ONE ((uint64_t)1 << 56)
#define SEQUENCE_FIRST ((uint64_t)0x80 << 56) /* never 0: a window has 0 before its first request */
#define WAITS ((uint64_t)1 << 48)
#define DONE ((uint64_t)2 << 48)

static inline uint64_t ht_word(enum operation operation, unsigned object, uint32_t argument) {
    return (uint64_t)operation << 48 | (uint64_t)(uint16_t)object << 32 | argument;
}

/* A thread's own data. What the service knows of a thread is in tables.h, near the service's core. */
struct thread {
    struct window *window;
    uint64_t sequence; /* the sequence number of its last request, in the highest byte */
    void *(*function)(void *);
    void *argument, *result;
    uint32_t life; /* bits of life.c */
    uint32_t is_created;
    uint32_t is_hardware, is_cancelled;
    uint32_t doorbell; /* how often it has rung a server */
    uint32_t stay;     /* hybrid.c: how many locks without waiting are left until it begins to count */
    uint8_t farewells; /* rounds of destructors that have run at its end */
    uint8_t gave_up;   /* `sleep` has ended a wait */
    /* If not NULL, used in waits for condition variables: sleeps as ht_sleep does. A result that is not 0 ends the wait. */
    int (*sleep)(uint32_t *word, uint32_t while_it_is, const struct timespec *time);
    struct window own __attribute__((aligned(64))); /* the window, unless that is the service core's */
} __attribute__((aligned(128)));

extern struct thread ht_threads[THREADS];

static inline uint32_t ht_number(const struct thread *thread) { return (uint32_t)(thread - ht_threads); }

/* A back end. Requests that are rare, or may wait, go through `ask`. */
struct back_end {
    const char *name;
    int (*lock)(uint32_t mutex);
    int (*try_lock)(uint32_t mutex);
    int (*unlock)(uint32_t mutex);
    /* Executes a request. Returns 0 or an error number. deadline NULL: waits for ever. value may be NULL. */
    int (*ask)(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value);
    /* Allocates a thread. NULL: there are too many. The caller becomes that thread by `enter`, or frees it by `drop`. */
    struct thread *(*make)(void);
    int (*enter)(struct thread *thread);
    void (*drop)(struct thread *thread);
    /* The thread has ended, and its kernel thread makes no more requests. */
    void (*gone)(struct thread *thread);
    /* The thread will not be joined any more. */
    void (*unwanted)(struct thread *thread);
    /* Makes a device the thread, which was created for one. Returns 0 or an error number. NULL: the back end has no devices. */
    int (*become)(struct thread *thread, unsigned does, const hthread_work_t *work);
    /* Ends a thread that is a device. */
    int (*stop)(struct thread *thread);
    /* Opens the back end. Returns 0, or an error number: it cannot be used here. `words`: the text after its name in the environment variable. */
    int (*open)(const char *words);
};

extern const struct back_end ht_hardware, ht_rpc, ht_software, ht_fused, ht_hybrid;
extern const struct back_end *ht_back_end;

/* The calling thread's record. Programs for several instruction sets have no thread-local variables, only pthreads' keys. */
#ifdef HTHREAD_SEVERAL_ISAS
extern pthread_key_t ht_key;
static inline struct thread *ht_known(void) { return pthread_getspecific(ht_key); }
#else
extern __thread struct thread *ht_self;
static inline struct thread *ht_known(void) { return ht_self; }
#endif

/* start.c: the calling thread's record, made if the library does not know the thread yet. NULL: there are too many. */
struct thread *ht_attach(void);
/* Chooses the back end, on the first call. */
void ht_start(void);

static inline struct thread *ht_me(void) {
    struct thread *self = ht_known();
    return __builtin_expect(self != NULL, 1) ? self : ht_attach();
}

/* threads.c: the kernel thread `self` ends with a value. */
void ht_end(struct thread *self, void *value);
void ht_set_known(struct thread *thread);

/* functions.c: devices' functions in software. */
unsigned ht_does(const char *name);
void *(*ht_function(unsigned does))(void *);
/* Lists the regions of memory of a hthread_work_t that a device may access. Returns how many there are. */
struct region {
    uint64_t start, bytes, flags;
};
unsigned ht_regions(unsigned does, const hthread_work_t *work, struct region *regions);

/* How requests reach the server: `where` is the server's number, if there are several. */
struct way {
    void (*deliver)(struct thread *self, unsigned where);
    unsigned polls; /* loads of the answer before the thread sleeps */
};

/* wait.c: makes a request and waits for its final answer: 0 or an error number. */
int ht_request(struct thread *self, uint64_t word, const struct way *way, unsigned where, const struct timespec *deadline, uint32_t *value);
/* Waits until the answer to the last request is final. 0: the deadline came first. */
uint64_t ht_await(struct thread *self, unsigned polls, const struct timespec *deadline);
void ht_sleep(uint32_t *word, uint32_t while_it_is, const struct timespec *deadline);
void ht_wake(uint32_t *word, int threads);
static inline int ht_is_time(const struct timespec *time) { return time->tv_nsec >= 0 && time->tv_nsec < 1000000000; }

/* The sequence number of the next request. Two numbers in turn are enough: each request is answered before the next one is made. */
static inline uint64_t ht_next(struct thread *self) { return self->sequence ^= SEQUENCE_ONE; }

static inline int ht_is_done(uint64_t answer, uint64_t sequence) { return (answer & ~(uint64_t)0xffffffffffff) == (sequence | DONE); }
static inline int ht_is_seen(uint64_t answer, uint64_t sequence) { return (answer ^ sequence) >> 56 == 0; }
static inline int ht_code(uint64_t answer) { return (int)(answer >> 32 & 0xffff); }

/* life.c: threads of back ends that keep their objects in the process's memory. */
struct thread *ht_make_thread(void);
int ht_enter_thread(struct thread *thread);
void ht_drop_thread(struct thread *thread);
void ht_thread_gone(struct thread *thread);
void ht_thread_unwanted(struct thread *thread);

/* place.c: the machine as the program sees it. */
struct island {
    char isa[16];
    cpu_set_t cpus; /* that the process may use */
    unsigned count;
};
extern struct island ht_islands[ISLANDS];
void ht_find_islands(void);
/* The islands for which the program has code. */
unsigned ht_usable_islands(void);
/* Calls function(argument) on a core of an island, or on one core. */
void *ht_run_on(int island, int cpu, void *(*function)(void *), void *argument);

#endif
