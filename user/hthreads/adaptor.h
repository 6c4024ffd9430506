/* The adaptor makes pthreads' mutexes, condition variables and barriers, and those of <threads.h>, objects of a back end. The environment variable
 * MOTET_MUTEX chooses the back end. Without the variable they are musl's. The adaptor is linked before the C library, so its functions are used. */
#ifndef HTHREAD_ADAPTOR_H
#define HTHREAD_ADAPTOR_H

#include "internal.h"

enum { ROBUST = 4, INHERITS = 8, SHARED = 128, KIND = 3 }; /* bits of a mutex's type, as musl has them */

/* Who implements the objects. */
enum choice { UNKNOWN, MUSLS, OURS };
extern enum choice ht_choice;
int ht_choose_objects(void);

/* Whether objects are known to be musl's. A program without the variable executes only this test here. */
static inline int ht_are_musls(void) { return __builtin_expect(__atomic_load_n(&ht_choice, __ATOMIC_RELAXED) == MUSLS, 1); }
static inline int ht_is_ours(void) {
    return !ht_are_musls() && (__atomic_load_n(&ht_choice, __ATOMIC_ACQUIRE) == OURS || ht_choose_objects());
}

/* Words of objects that musl does not use. 0: the object has no number yet. Otherwise 1 + its number, or IS_MUSLS. */
enum { IS_MUSLS = -1 };
static inline int *ht_word_of_mutex(pthread_mutex_t *mutex) { return &mutex->__u.__i[3]; }
static inline int *ht_word_of_condition(pthread_cond_t *condition) { return &condition->__u.__i[6]; }
static inline int *ht_word_of_barrier(pthread_barrier_t *barrier) { return &barrier->__u.__i[5]; }
static inline int ht_type(const pthread_mutex_t *mutex) { return mutex->__u.__i[0]; }
static inline int ht_load(const int *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

/* Gives an object its number, once for all threads. Returns its word. */
int ht_name(int *word, enum operation create, uint32_t argument);
/* A mutex's word. IS_MUSLS if all mutexes are musl's. */
int ht_name_mutex(pthread_mutex_t *mutex);

/* After EAGAIN of a back end: whether the thread was not known to it, and now is. Then the caller tries again. */
int ht_has_become_known(void);
/* As the back end's `ask`. A thread that the back end does not know is made known first. */
int ht_ask_known(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value);
/* Ends the program with a message. */
void ht_give_up(const char *what) __attribute__((noreturn, cold));

/* musl's own, by the names that its other files use. */
int __pthread_mutex_lock(pthread_mutex_t *);
int __pthread_mutex_trylock(pthread_mutex_t *);
int __pthread_mutex_timedlock(pthread_mutex_t *, const struct timespec *);
int __pthread_mutex_unlock(pthread_mutex_t *);
int __pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
long __syscall_cp(long, long, long, long, long, long, long);
/* Functions of musl without such a name: musl's files, compiled for this library. */
int ht_musl_mutex_init(pthread_mutex_t *, const pthread_mutexattr_t *);
int ht_musl_mutex_destroy(pthread_mutex_t *);
int ht_musl_mutex_consistent(pthread_mutex_t *);
int ht_musl_cond_init(pthread_cond_t *, const pthread_condattr_t *);
int ht_musl_cond_destroy(pthread_cond_t *);
int ht_musl_cond_signal(pthread_cond_t *);
int ht_musl_cond_broadcast(pthread_cond_t *);
int ht_musl_barrier_init(pthread_barrier_t *, const pthread_barrierattr_t *, unsigned);
int ht_musl_barrier_destroy(pthread_barrier_t *);
int ht_musl_barrier_wait(pthread_barrier_t *);

#endif
