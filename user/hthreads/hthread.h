/*
 * hthreads: threads, mutexes, condition variables, barriers and interrupts, on whatever instruction set a thread runs.
 *
 * The interface is that of hthreads (Agron and others, University of Arkansas), with POSIX's meanings. Functions return 0 or an error number
 * (errno.h), as those of pthreads do. The errors are POSIX's; others are mentioned here. docs/hthreads.md says how to link the library. The
 * environment variable MOTET_HTHREADS chooses its back end: what keeps the mutexes and all other objects.
 *
 * The state of an object is in the library or in the service core. A hthread_mutex_t is only the object's number, so it may be copied.
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

/* Attributes of a thread that is to be created. */
typedef struct {
    uint8_t priority;    /* 0 is the most urgent, 255 the least */
    uint8_t islands;     /* islands on which it may run, a bit each; 0: all that the program has code for */
    uint8_t detached;    /* it will not be joined */
    uint8_t hardware;    /* the function of the device that is to be the thread; 0: a software thread */
    uint32_t stack_size; /* in bytes; 0: as pthreads chooses */
} hthread_attr_t;

/* Attributes of a mutex that is to be created. */
typedef struct { uint32_t kind; } hthread_mutexattr_t;

enum {
    HTHREAD_MUTEX_FAST = 0,         /* an owner that locks it again waits for ever */
    HTHREAD_MUTEX_RECURSIVE = 1,    /* its owner may lock it again */
    HTHREAD_MUTEX_ERRORCHECKING = 2 /* an owner that locks it again gets EDEADLK */
};

/* The argument of a thread that sorts or filters. The work is done in blocks. For each block, the thread locks the mutex, computes, increments
 * *done, wakes all threads that wait for the condition variable, and unlocks the mutex. It ends with the number of blocks, or with a negated
 * error number: EINVAL (the argument is not valid), EFAULT, or what locking or unlocking has returned. The argument must not change until the
 * thread has ended. */
typedef struct {
    void *data;               /* the elements: blocks * count of them */
    void *out;                /* a filter's results: as many elements */
    uint64_t *done;           /* NULL: blocks are not counted */
    uint32_t count;           /* elements of a block, at most 2^24 */
    uint32_t blocks;          /* at most 2^24; 0: one */
    uint32_t kind;            /* HTHREAD_U32 or HTHREAD_I64 to sort, HTHREAD_FIR to filter */
    hthread_mutex_t mutex;    /* handle 0: none */
    hthread_cond_t condition; /* handle 0: none */
    uint32_t taps;            /* a filter: number of coefficients, 1 to HTHREAD_TAPS */
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

/* The value of a thread that was killed or cancelled. */
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
/* Chooses a device as the thread: "sort" or "filter". Its argument is a hthread_work_t; its function is not used. The back end must be `hardware`;
 * `hybrid` will do, too, if the work has no mutex and no condition variable. If no such device is free, a software thread does the same.
 * NULL: a software thread. EINVAL: an unknown name. */
int hthread_attr_sethardware(hthread_attr_t *attr, const char *does);

/* Creates a thread that calls function(argument). The thread begins when it is its turn. The back end chooses its island, and the thread stays there.
 * EINVAL: the machine has none of the islands, or the program has no code for them. EAGAIN: there are too many threads. For a device, EINVAL:
 * it has no argument; EFAULT: the argument names memory that the program does not have. */
int hthread_create(hthread_t *thread, const hthread_attr_t *attr, void *(*function)(void *), void *argument);
/* Waits until a thread ends; *value (unless NULL) is what it ended with. */
int hthread_join(hthread_t thread, void **value);
int hthread_detach(hthread_t thread);
/* Ends a thread that hthread_create has made. A thread that joins it gets HTHREAD_KILLED, and its mutexes go to others (EOWNERDEAD). A device
 * stops at once. A software thread ends when it next enters or leaves hthread_testcancel, yield, join, cond_wait, cond_timedwait, barrier_wait or
 * intrwait: a wait that has begun must end first. ESRCH: there is no such thread. */
int hthread_cancel(hthread_t thread);
/* Ends the calling thread if it was cancelled. */
void hthread_testcancel(void);
/* Whether a thread that was created, and not joined, is a device. */
int hthread_ishardware(hthread_t thread);
/* The calling thread, whoever created it. */
hthread_t hthread_self(void);
int hthread_equal(hthread_t one, hthread_t other);
/* Lets other threads of the same priority run. */
int hthread_yield(void);
/* Ends the calling thread. Its mutexes go to others, which get EOWNERDEAD. */
void hthread_exit(void *value) __attribute__((noreturn));
/* EINVAL: not 0 to 255. */
int hthread_setpriority(hthread_t thread, int priority);

int hthread_mutexattr_init(hthread_mutexattr_t *attr);
int hthread_mutexattr_destroy(hthread_mutexattr_t *attr);
int hthread_mutexattr_setkind(hthread_mutexattr_t *attr, uint32_t kind);
int hthread_mutexattr_getkind(const hthread_mutexattr_t *attr, uint32_t *kind);

/* attr NULL: fast. EAGAIN: there are too many. */
int hthread_mutex_init(hthread_mutex_t *mutex, const hthread_mutexattr_t *attr);
/* EBUSY: a thread has it or waits for it. */
int hthread_mutex_destroy(hthread_mutex_t *mutex);
/* The most urgent waiting thread gets the mutex, and among equals the first. EINVAL: there is no such mutex. EDEADLK. EAGAIN: it is locked too often.
 * EOWNERDEAD: the caller has the mutex, but its last owner has ended while it had it. Repair the data, call hthread_mutex_consistent, and go on.
 * ENOTRECOVERABLE: an owner that got EOWNERDEAD has not done so. */
int hthread_mutex_lock(hthread_mutex_t *mutex);
/* EBUSY: a thread has it. */
int hthread_mutex_trylock(hthread_mutex_t *mutex);
/* ETIMEDOUT: the deadline (CLOCK_REALTIME) has passed. EINVAL: it is no valid time. */
int hthread_mutex_timedlock(hthread_mutex_t *mutex, const struct timespec *deadline);
/* EPERM: the caller does not have it. This holds for all kinds of mutexes. */
int hthread_mutex_unlock(hthread_mutex_t *mutex);
int hthread_mutex_consistent(hthread_mutex_t *mutex);

int hthread_cond_init(hthread_cond_t *condition, const void *unused);
int hthread_cond_destroy(hthread_cond_t *condition);
/* The caller must have the mutex (EPERM), locked once. All waiting threads must use the same one (EINVAL). */
int hthread_cond_wait(hthread_cond_t *condition, hthread_mutex_t *mutex);
int hthread_cond_timedwait(hthread_cond_t *condition, hthread_mutex_t *mutex, const struct timespec *deadline);
/* Wakes the most urgent waiting thread. */
int hthread_cond_signal(hthread_cond_t *condition);
int hthread_cond_broadcast(hthread_cond_t *condition);

/* EINVAL: no threads, or more than 4096. */
int hthread_barrier_init(hthread_barrier_t *barrier, const void *unused, unsigned threads);
int hthread_barrier_destroy(hthread_barrier_t *barrier);
int hthread_barrier_wait(hthread_barrier_t *barrier);

/* Binds a source of interrupts (0 to 63) to the calling thread until the thread ends. EBUSY: it is bound to another thread. */
int hthread_intrassoc(unsigned source);
/* Waits for an interrupt of a source. *count (unless NULL) gets how many there were. EPERM: the source is not bound to the calling thread. */
int hthread_intrwait(unsigned source, unsigned *count);
/* Raises an interrupt of a source. EPERM: it is not bound to a thread of this process. */
int hthread_intrraise(unsigned source);

/* The back end, which keeps the objects: "hardware", "rpc", "software", "fused" or "hybrid". */
const char *hthread_backend(void);

#ifdef __cplusplus
}
#endif

#endif
