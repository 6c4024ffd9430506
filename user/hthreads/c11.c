/* The adaptor's <threads.h>: musl's would lock by its own names what condition variables lock by pthreads'. */
#include "adaptor.h"

#include <threads.h>

static pthread_mutex_t *of_mutex(mtx_t *mutex) { return (pthread_mutex_t *)mutex; }
static pthread_cond_t *of_condition(cnd_t *condition) { return (pthread_cond_t *)condition; }

static int result(int error) {
    switch (error) {
    case 0: return thrd_success;
    case EBUSY: return thrd_busy;
    case ETIMEDOUT: return thrd_timedout;
    default: return thrd_error;
    }
}

int mtx_init(mtx_t *mutex, int type) {
    *mutex = (mtx_t){0};
    of_mutex(mutex)->__u.__i[0] = type & mtx_recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL;
    return thrd_success;
}

void mtx_destroy(mtx_t *mutex) { pthread_mutex_destroy(of_mutex(mutex)); }
int mtx_lock(mtx_t *mutex) { return result(pthread_mutex_lock(of_mutex(mutex))); }
int mtx_trylock(mtx_t *mutex) { return result(pthread_mutex_trylock(of_mutex(mutex))); }
int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict deadline) { return result(pthread_mutex_timedlock(of_mutex(mutex), deadline)); }
int mtx_unlock(mtx_t *mutex) { return result(pthread_mutex_unlock(of_mutex(mutex))); }

int cnd_init(cnd_t *condition) {
    *condition = (cnd_t){0};
    return thrd_success;
}

void cnd_destroy(cnd_t *condition) { pthread_cond_destroy(of_condition(condition)); }
int cnd_wait(cnd_t *condition, mtx_t *mutex) { return result(pthread_cond_wait(of_condition(condition), of_mutex(mutex))); }
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict deadline) {
    return result(pthread_cond_timedwait(of_condition(condition), of_mutex(mutex), deadline));
}
int cnd_signal(cnd_t *condition) { return result(pthread_cond_signal(of_condition(condition))); }
int cnd_broadcast(cnd_t *condition) { return result(pthread_cond_broadcast(of_condition(condition))); }
