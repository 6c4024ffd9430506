/*
 * hthreads: threads, mutexes, condition variables, barriers and interrupts, on whatever instruction set a thread runs.
 *
 * After the interface of that name (Agron and others, University of Arkansas), with POSIX's meanings. Functions return 0 or a number of
 * an error (errno.h), as those of pthreads do, and the errors are POSIX's unless they are mentioned here. docs/hthreads.md says how to link it,
 * and what the environment variable MOTET_HTHREADS chooses: who keeps the mutexes and all else.
 *
 * What an object is lies where the library or the service core keeps it: a hthread_mutex_t is its number, so it may be copied.
 * C99, C++11 and later.
 */
#ifndef HTHREAD_H
#define HTHREAD_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A thread: its number in the process. A number is used again when its thread has ended and was joined or detached. */
typedef uint32_t hthread_t;

/* Objects: 0 is none. */
typedef struct { uint32_t handle; } hthread_mutex_t;
typedef struct { uint32_t handle; } hthread_cond_t;
typedef struct { uint32_t handle; } hthread_barrier_t;

/* Of a thread to be. */
typedef struct {
    uint8_t priority;    /* 0 is the most urgent, 255 the least */
    uint8_t islands;     /* on which it may run, a bit each; 0: on all that the program has code for */
    uint8_t detached;    /* nobody joins it */
    uint8_t hardware;    /* what a device does that is the thread; 0: it is software */
    uint32_t stack_size; /* in bytes; 0: as pthreads chooses */
} hthread_attr_t;

/* Of a mutex to be. */
typedef struct { uint32_t kind; } hthread_mutexattr_t;

enum {
    HTHREAD_MUTEX_FAST = 0,         /* who locks it twice waits for ever */
    HTHREAD_MUTEX_RECURSIVE = 1,    /* its owner may lock it again */
    HTHREAD_MUTEX_ERRORCHECKING = 2 /* its owner is told EDEADLK */
};

/* The argument of a thread that sorts or filters. The work is done in blocks; for each of them the mutex is locked, *done counts one more, all
 * that wait for the condition variable go on, and the mutex is unlocked. The thread ends with the number of blocks, or with a negated number of
 * an error: EINVAL (it does not know what this says), EFAULT, or what locking or unlocking has returned. This stays as it is until it has ended. */
typedef struct {
    void *data;               /* what is sorted, or filtered: blocks * count elements */
    void *out;                /* a filter: as many elements */
    uint64_t *done;           /* NULL: blocks are not counted */
    uint32_t count;           /* elements of a block, at most 2^24 */
    uint32_t blocks;          /* at most 2^24; 0: one */
    uint32_t kind;            /* HTHREAD_U32 or HTHREAD_I64 to sort, HTHREAD_FIR to filter */
    hthread_mutex_t mutex;    /* handle 0: none */
    hthread_cond_t condition; /* handle 0: none */
    uint32_t taps;            /* a filter: coefficients that there are, 1 to HTHREAD_TAPS */
    uint32_t shift;           /* a filter: how far sums are shifted to the right, 0 to 63 */
    uint32_t unused;
    int32_t coefficients[8];
} hthread_work_t;

enum {
    HTHREAD_U32 = 0, /* sort: uint32_t, ascending, each block by itself */
    HTHREAD_I64 = 1, /* sort: int64_t */
    HTHREAD_FIR = 0, /* filter: int32_t; out[i] = (coefficients[0] * data[i] + coefficients[1] * data[i - 1] + ...) >> shift, over all blocks */
    HTHREAD_TAPS = 8
};

#define HTHREAD_PRIORITY_DEFAULT 128

/* What hthread_barrier_wait returns to one of the threads. */
#define HTHREAD_BARRIER_SERIAL_THREAD (-1)

/* What one joins that ended without a value: it was killed, or cancelled. */
#define HTHREAD_KILLED ((void *)-1)

/* Attributes of threads: priority HTHREAD_PRIORITY_DEFAULT, all islands, to be joined. */
int hthread_attr_init(hthread_attr_t *attr);
int hthread_attr_destroy(hthread_attr_t *attr);
/* EINVAL: not 0 to 255. */
int hthread_attr_setpriority(hthread_attr_t *attr, int priority);
int hthread_attr_getpriority(const hthread_attr_t *attr, int *priority);
/* A bit for each island; EINVAL: not 0 to 255. */
int hthread_attr_setislands(hthread_attr_t *attr, unsigned islands);
int hthread_attr_getislands(const hthread_attr_t *attr, unsigned *islands);
int hthread_attr_setdetached(hthread_attr_t *attr, int detached);
int hthread_attr_getdetached(const hthread_attr_t *attr, int *detached);
int hthread_attr_setstacksize(hthread_attr_t *attr, uint32_t bytes);
/* "sort" or "filter": the thread is a device of the machine that does this, if the back end is `hardware` (or `hybrid`, and the work has no mutex
 * and no condition variable) and one is free; otherwise a software thread does the same. Its argument is a hthread_work_t; its function is not
 * used. NULL: it is software. EINVAL: an unknown name. */
int hthread_attr_sethardware(hthread_attr_t *attr, const char *does);

/* Creates a thread that calls function(argument). It begins when it is its turn, on an island that whoever keeps the threads chooses, and
 * stays on that island. EINVAL: the machine has none of the islands, or the program no code for them; EAGAIN: there are too many threads. Of a device:
 * EINVAL: it has no argument; EFAULT: that names memory which the program has not got. */
int hthread_create(hthread_t *thread, const hthread_attr_t *attr, void *(*function)(void *), void *argument);
/* Waits until a thread ends; *value (unless NULL) is what it ended with. */
int hthread_join(hthread_t thread, void **value);
int hthread_detach(hthread_t thread);
/* Ends a thread that hthread_create has made: who joins it gets HTHREAD_KILLED, and mutexes that it has are others' (EOWNERDEAD). A device stops
 * at once, wherever it is. A software thread ends when it next comes to hthread_testcancel, yield, join, cond_wait, cond_timedwait, barrier_wait
 * or intrwait, or back from one of them: what it waits for must come first. ESRCH: there is no such thread. */
int hthread_cancel(hthread_t thread);
/* Ends the calling thread if somebody has cancelled it. */
void hthread_testcancel(void);
/* Whether a thread that was created, and not joined, is a device. */
int hthread_ishardware(hthread_t thread);
/* The calling thread, whoever created it. */
hthread_t hthread_self(void);
int hthread_equal(hthread_t one, hthread_t other);
/* Lets other threads run that are as urgent. */
int hthread_yield(void);
/* Ends the calling thread. Mutexes that it has are others', who are told so (EOWNERDEAD). */
void hthread_exit(void *value) __attribute__((noreturn));
/* EINVAL: not 0 to 255. */
int hthread_setpriority(hthread_t thread, int priority);

int hthread_mutexattr_init(hthread_mutexattr_t *attr);
int hthread_mutexattr_destroy(hthread_mutexattr_t *attr);
int hthread_mutexattr_setkind(hthread_mutexattr_t *attr, uint32_t kind);
int hthread_mutexattr_getkind(const hthread_mutexattr_t *attr, uint32_t *kind);

/* attr NULL: fast. EAGAIN: there are too many. */
int hthread_mutex_init(hthread_mutex_t *mutex, const hthread_mutexattr_t *attr);
/* EBUSY: somebody has it or waits for it. */
int hthread_mutex_destroy(hthread_mutex_t *mutex);
/* EINVAL: it is none; EDEADLK; EAGAIN: locked too often. EOWNERDEAD: it is locked, but its last owner has ended with it; repair what
 * it guards, call hthread_mutex_consistent, and go on. ENOTRECOVERABLE: somebody has not. Of those who wait, the most urgent one gets
 * it, and among equals who came first. */
int hthread_mutex_lock(hthread_mutex_t *mutex);
/* EBUSY: somebody has it. */
int hthread_mutex_trylock(hthread_mutex_t *mutex);
/* ETIMEDOUT: somebody has it still at this time (CLOCK_REALTIME). EINVAL: that is no time. */
int hthread_mutex_timedlock(hthread_mutex_t *mutex, const struct timespec *deadline);
/* EPERM: it is not the caller's (of every kind). */
int hthread_mutex_unlock(hthread_mutex_t *mutex);
int hthread_mutex_consistent(hthread_mutex_t *mutex);

int hthread_cond_init(hthread_cond_t *condition, const void *unused);
int hthread_cond_destroy(hthread_cond_t *condition);
/* The mutex must be the caller's (EPERM), locked once, and that of all who wait (EINVAL). */
int hthread_cond_wait(hthread_cond_t *condition, hthread_mutex_t *mutex);
int hthread_cond_timedwait(hthread_cond_t *condition, hthread_mutex_t *mutex, const struct timespec *deadline);
/* The most urgent thread that waits goes on. */
int hthread_cond_signal(hthread_cond_t *condition);
int hthread_cond_broadcast(hthread_cond_t *condition);

/* EINVAL: no threads, or more than 4096. */
int hthread_barrier_init(hthread_barrier_t *barrier, const void *unused, unsigned threads);
int hthread_barrier_destroy(hthread_barrier_t *barrier);
int hthread_barrier_wait(hthread_barrier_t *barrier);

/* Binds a source of interrupts (0 to 63) to the calling thread, until that ends. EBUSY: it is another thread's. */
int hthread_intrassoc(unsigned source);
/* Waits for an interrupt of a source that is bound to the calling thread (EPERM); *count (unless NULL) is how many there were. */
int hthread_intrwait(unsigned source, unsigned *count);
/* An interrupt of a source that is bound to a thread of this process (EPERM). */
int hthread_intrraise(unsigned source);

/* Who keeps the objects: "hardware", "rpc", "software", "fused" or "hybrid". */
const char *hthread_backend(void);

#ifdef __cplusplus
}
#endif

#endif
