/* The adaptor's condition variables and barriers. */
#include "adaptor.h"

#include <linux/futex.h>
#include <sys/syscall.h>

enum { CANCEL_MASKED = 2 }; /* musl: a cancelled thread gets this error from the system call */

static int is_shared(const pthread_cond_t *condition) { return condition->__u.__p[0] != NULL; }
static clockid_t clock_of(const pthread_cond_t *condition) { return condition->__u.__i[4]; }

/* A deadline of another clock as one of CLOCK_REALTIME. */
static struct timespec realtime(const struct timespec *deadline, clockid_t clock) {
    struct timespec now, real;
    clock_gettime(clock, &now);
    clock_gettime(CLOCK_REALTIME, &real);
    real.tv_sec += deadline->tv_sec - now.tv_sec;
    real.tv_nsec += deadline->tv_nsec - now.tv_nsec;
    if (real.tv_nsec < 0)
        (real.tv_nsec += 1000000000, real.tv_sec--);
    if (real.tv_nsec >= 1000000000)
        (real.tv_nsec -= 1000000000, real.tv_sec++);
    return real;
}

/* Sleeps as ht_sleep does. 1: the thread was cancelled. */
static int sleep_until_cancelled(uint32_t *word, uint32_t while_it_is, const struct timespec *time) {
    return __syscall_cp(SYS_futex, (long)word, FUTEX_WAIT, (long)while_it_is, (long)time, 0, 0) == -ECANCELED;
}

/* Waits. A thread that is cancelled meanwhile gets the mutex back before it ends. */
static int wait_cancellably(uint32_t condition, uint32_t mutex, const struct timespec *deadline) {
    struct thread *self = ht_me();
    int state;
    if (!self)
        return EPERM; /* the thread has locked nothing */
    pthread_testcancel();
    pthread_setcancelstate(CANCEL_MASKED, &state);
    if (state == PTHREAD_CANCEL_DISABLE)
        pthread_setcancelstate(state, NULL);
    self->sleep = state == PTHREAD_CANCEL_DISABLE ? NULL : sleep_until_cancelled;
    self->gave_up = 0;
    int error = ht_back_end->ask(CONDITION_WAIT, condition, mutex, deadline, NULL);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    self->sleep = NULL;
    pthread_setcancelstate(state, NULL);
    if (self->gave_up && error == ETIMEDOUT)
        pthread_testcancel();
    return error;
}

static int wait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *deadline) {
    int word = ht_load(ht_word_of_condition(condition)), mutex_word = ht_load(ht_word_of_mutex(mutex));
    struct timespec real;
    if (mutex_word == 0)
        mutex_word = ht_name_mutex(mutex);
    if (deadline && !ht_is_time(deadline))
        return EINVAL;
    if (mutex_word == IS_MUSLS) {
        if (word > 0)
            return EINVAL;
        __atomic_store_n(ht_word_of_condition(condition), IS_MUSLS, __ATOMIC_RELEASE);
        return __pthread_cond_timedwait(condition, mutex, deadline);
    }
    if (is_shared(condition))
        return EINVAL;
    if (word == 0)
        word = ht_name(ht_word_of_condition(condition), CONDITION_CREATE, 0);
    if (word == IS_MUSLS)
        ht_give_up("there are too many condition variables");
    if (deadline && clock_of(condition) != CLOCK_REALTIME)
        (real = realtime(deadline, clock_of(condition)), deadline = &real);
    int error = wait_cancellably((uint32_t)word - 1, (uint32_t)mutex_word - 1, deadline);
    /* No thread has the mutex, and no thread gets it any more. */
    if ((error == EOWNERDEAD || error == ENOTRECOVERABLE) && !(ht_type(mutex) & ROBUST)) {
        if (error == EOWNERDEAD)
            ht_back_end->unlock((uint32_t)mutex_word - 1);
        return pthread_mutex_lock(mutex);
    }
    return error;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline) {
    return ht_is_ours() ? wait(condition, mutex, deadline) : __pthread_cond_timedwait(condition, mutex, deadline);
}

int pthread_cond_wait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex) {
    return ht_is_ours() ? wait(condition, mutex, NULL) : __pthread_cond_timedwait(condition, mutex, NULL);
}

/* The word of a condition variable. It is 0 if no thread has waited yet: then there is no thread to wake. In musl, 0 means the same. */
static int word_of(pthread_cond_t *condition) { return ht_is_ours() ? ht_load(ht_word_of_condition(condition)) : IS_MUSLS; }

int pthread_cond_signal(pthread_cond_t *condition) {
    int word = word_of(condition);
    return word > 0 ? ht_ask_known(SIGNAL, (uint32_t)word - 1, 0, NULL, NULL) : ht_musl_cond_signal(condition);
}

int pthread_cond_broadcast(pthread_cond_t *condition) {
    int word = word_of(condition);
    return word > 0 ? ht_ask_known(BROADCAST, (uint32_t)word - 1, 0, NULL, NULL) : ht_musl_cond_broadcast(condition);
}

int pthread_cond_init(pthread_cond_t *restrict condition, const pthread_condattr_t *restrict attr) {
    return ht_musl_cond_init(condition, attr);
}

int pthread_cond_destroy(pthread_cond_t *condition) {
    int word = word_of(condition);
    if (word <= 0)
        return ht_musl_cond_destroy(condition);
    int error = ht_ask_known(CONDITION_DESTROY, (uint32_t)word - 1, 0, NULL, NULL);
    if (!error)
        *ht_word_of_condition(condition) = 0;
    return error;
}

int pthread_barrier_init(pthread_barrier_t *restrict barrier, const pthread_barrierattr_t *restrict attr, unsigned count) {
    int is_shared = PTHREAD_PROCESS_PRIVATE, error = ht_musl_barrier_init(barrier, attr, count);
    if (attr)
        pthread_barrierattr_getpshared(attr, &is_shared);
    if (!error && is_shared == PTHREAD_PROCESS_PRIVATE && ht_is_ours())
        ht_name(ht_word_of_barrier(barrier), BARRIER_CREATE, count);
    return error;
}

int pthread_barrier_wait(pthread_barrier_t *barrier) {
    int word = ht_is_ours() ? *ht_word_of_barrier(barrier) : IS_MUSLS;
    uint32_t is_last = 0;
    if (word <= 0)
        return ht_musl_barrier_wait(barrier);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    int error = ht_ask_known(BARRIER_WAIT, (uint32_t)word - 1, 0, NULL, &is_last);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return error ? error : is_last ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

int pthread_barrier_destroy(pthread_barrier_t *barrier) {
    int word = ht_is_ours() ? *ht_word_of_barrier(barrier) : IS_MUSLS;
    return word > 0 ? ht_ask_known(BARRIER_DESTROY, (uint32_t)word - 1, 0, NULL, NULL) : ht_musl_barrier_destroy(barrier);
}
