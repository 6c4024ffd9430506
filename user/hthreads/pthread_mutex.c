/* The adaptor's mutexes. */
#include "adaptor.h"

#include <unistd.h>

int __attribute__((cold)) ht_name_mutex(pthread_mutex_t *mutex) {
    int type = ht_type(mutex), *word = ht_word_of_mutex(mutex);
    if (!ht_is_ours())
        return IS_MUSLS;
    if (!(type & (SHARED | INHERITS)))
        return ht_name(word, MUTEX_CREATE, type & KIND);
    __atomic_store_n(word, IS_MUSLS, __ATOMIC_RELEASE);
    return IS_MUSLS;
}

/* The word of a mutex, if mutexes are not known to be musl's. A mutex with a number shows that the choice has been made. */
static inline int word_of(pthread_mutex_t *mutex) {
    int word = ht_load(ht_word_of_mutex(mutex));
    return __builtin_expect(word != 0, 1) ? word : ht_name_mutex(mutex);
}

/* The owner of a mutex that is not robust has ended while it had it: no thread gets it any more. */
static int wait_in_vain(const struct timespec *deadline) {
    uint32_t nobody = 0;
    while (!deadline)
        ht_sleep(&nobody, 0, NULL);
    for (struct timespec now;;) {
        clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec > deadline->tv_sec || (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec))
            return ETIMEDOUT;
        ht_sleep(&nobody, 0, deadline);
    }
}

/* Translates an error of a lock into that of pthreads. */
static int __attribute__((noinline, cold)) has_failed(pthread_mutex_t *mutex, uint32_t number, int error, const struct timespec *deadline, int may_wait) {
    if ((error != EOWNERDEAD && error != ENOTRECOVERABLE) || ht_type(mutex) & ROBUST)
        return error;
    if (error == EOWNERDEAD)
        ht_back_end->unlock(number); /* without making it consistent: the other threads get the error, too */
    return may_wait ? wait_in_vain(deadline) : EBUSY;
}

static int __attribute__((noinline, cold)) lock_slowly(pthread_mutex_t *mutex, uint32_t number, int error) {
    if (error == EAGAIN && ht_has_become_known())
        error = ht_back_end->lock(number);
    return error ? has_failed(mutex, number, error, NULL, 1) : 0;
}

static int __attribute__((noinline)) lock(pthread_mutex_t *mutex) {
    int word = word_of(mutex);
    if (word == IS_MUSLS)
        return __pthread_mutex_lock(mutex);
    int error = ht_back_end->lock((uint32_t)word - 1);
    return __builtin_expect(error == 0, 1) ? 0 : lock_slowly(mutex, (uint32_t)word - 1, error);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) { return ht_are_musls() ? __pthread_mutex_lock(mutex) : lock(mutex); }

static int take(uint32_t number) {
    int error = ht_back_end->try_lock(number);
    return error == EAGAIN && ht_has_become_known() ? ht_back_end->try_lock(number) : error;
}

static int __attribute__((noinline)) try_lock(pthread_mutex_t *mutex) {
    int word = word_of(mutex);
    if (word == IS_MUSLS)
        return __pthread_mutex_trylock(mutex);
    int error = take((uint32_t)word - 1);
    return error ? has_failed(mutex, (uint32_t)word - 1, error, NULL, 0) : 0;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex) { return ht_are_musls() ? __pthread_mutex_trylock(mutex) : try_lock(mutex); }

static int __attribute__((noinline)) lock_until(pthread_mutex_t *mutex, const struct timespec *deadline) {
    int word = word_of(mutex);
    if (word == IS_MUSLS)
        return __pthread_mutex_timedlock(mutex, deadline);
    if (!deadline)
        return lock(mutex);
    uint32_t number = (uint32_t)word - 1;
    int error = take(number);
    if (error == EBUSY)
        error = ht_is_time(deadline) ? ht_back_end->ask(LOCK, number, 0, deadline, NULL) : EINVAL;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return error ? has_failed(mutex, number, error, deadline, 1) : 0;
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline) {
    return ht_are_musls() ? __pthread_mutex_timedlock(mutex, deadline) : lock_until(mutex, deadline);
}

static int __attribute__((noinline)) unlock(pthread_mutex_t *mutex) {
    int word = ht_load(ht_word_of_mutex(mutex));
    if (__builtin_expect(word > 0, 1))
        return ht_back_end->unlock((uint32_t)word - 1);
    return word == IS_MUSLS || !ht_is_ours() ? __pthread_mutex_unlock(mutex) : EPERM;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) { return ht_are_musls() ? __pthread_mutex_unlock(mutex) : unlock(mutex); }

int pthread_mutex_init(pthread_mutex_t *restrict mutex, const pthread_mutexattr_t *restrict attr) {
    return ht_musl_mutex_init(mutex, attr); /* it gets its number when it is locked */
}

int pthread_mutex_destroy(pthread_mutex_t *mutex) {
    int word = ht_is_ours() ? ht_load(ht_word_of_mutex(mutex)) : IS_MUSLS;
    if (word <= 0)
        return ht_musl_mutex_destroy(mutex);
    int error = ht_ask_known(MUTEX_DESTROY, (uint32_t)word - 1, 0, NULL, NULL);
    if (!error)
        *ht_word_of_mutex(mutex) = 0;
    return error;
}

int pthread_mutex_consistent(pthread_mutex_t *mutex) {
    int word = ht_is_ours() ? ht_load(ht_word_of_mutex(mutex)) : IS_MUSLS;
    if (word == IS_MUSLS)
        return ht_musl_mutex_consistent(mutex);
    return word > 0 && ht_type(mutex) & ROBUST ? ht_ask_known(CONSISTENT, (uint32_t)word - 1, 0, NULL, NULL) : EINVAL;
}
