/* The interface: checks what needs no back end, and passes the rest to the back end. */
#include "internal.h"

/* With this back end, the use of a mutex that was never made fails. */
const struct back_end *ht_back_end = &ht_fused;

static int ask(enum operation operation, unsigned object, uint32_t argument) {
    return ht_back_end->ask(operation, object, argument, NULL, NULL);
}

/* Creates an object. Its handle is 1 + its number. */
static int make(enum operation operation, uint32_t argument, uint32_t *handle) {
    uint32_t number;
    ht_start();
    int error = ht_back_end->ask(operation, 0, argument, NULL, &number);
    if (!error)
        *handle = number + 1;
    return error;
}

static int destroy(enum operation operation, uint32_t *handle) {
    int error = ask(operation, *handle - 1, 0);
    if (!error)
        *handle = 0;
    return error;
}

int hthread_mutexattr_init(hthread_mutexattr_t *attr) {
    attr->kind = HTHREAD_MUTEX_FAST;
    return 0;
}

int hthread_mutexattr_destroy(hthread_mutexattr_t *attr) {
    attr->kind = HTHREAD_MUTEX_FAST;
    return 0;
}

int hthread_mutexattr_setkind(hthread_mutexattr_t *attr, uint32_t kind) {
    if (kind > HTHREAD_MUTEX_ERRORCHECKING)
        return EINVAL;
    attr->kind = kind;
    return 0;
}

int hthread_mutexattr_getkind(const hthread_mutexattr_t *attr, uint32_t *kind) {
    *kind = attr->kind;
    return 0;
}

int hthread_mutex_init(hthread_mutex_t *mutex, const hthread_mutexattr_t *attr) {
    return make(MUTEX_CREATE, attr ? attr->kind : HTHREAD_MUTEX_FAST, &mutex->handle);
}

int hthread_mutex_destroy(hthread_mutex_t *mutex) { return destroy(MUTEX_DESTROY, &mutex->handle); }
int hthread_mutex_lock(hthread_mutex_t *mutex) { return ht_back_end->lock(mutex->handle - 1); }
int hthread_mutex_trylock(hthread_mutex_t *mutex) { return ht_back_end->try_lock(mutex->handle - 1); }
int hthread_mutex_unlock(hthread_mutex_t *mutex) { return ht_back_end->unlock(mutex->handle - 1); }
int hthread_mutex_consistent(hthread_mutex_t *mutex) { return ask(CONSISTENT, mutex->handle - 1, 0); }

int hthread_mutex_timedlock(hthread_mutex_t *mutex, const struct timespec *deadline) {
    int error = ht_back_end->try_lock(mutex->handle - 1);
    if (error != EBUSY)
        return error;
    return ht_is_time(deadline) ? ht_back_end->ask(LOCK, mutex->handle - 1, 0, deadline, NULL) : EINVAL;
}

int hthread_cond_init(hthread_cond_t *condition, const void *unused) {
    (void)unused;
    return make(CONDITION_CREATE, 0, &condition->handle);
}

int hthread_cond_destroy(hthread_cond_t *condition) { return destroy(CONDITION_DESTROY, &condition->handle); }
int hthread_cond_signal(hthread_cond_t *condition) { return ask(SIGNAL, condition->handle - 1, 0); }
int hthread_cond_broadcast(hthread_cond_t *condition) { return ask(BROADCAST, condition->handle - 1, 0); }

/* A request that may wait, and is a cancellation point. */
static int ask_and_test(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value) {
    hthread_testcancel();
    int error = ht_back_end->ask(operation, object, argument, deadline, value);
    hthread_testcancel();
    return error;
}

int hthread_cond_wait(hthread_cond_t *condition, hthread_mutex_t *mutex) {
    ht_start();
    return ask_and_test(CONDITION_WAIT, condition->handle - 1, mutex->handle - 1, NULL, NULL);
}

int hthread_cond_timedwait(hthread_cond_t *condition, hthread_mutex_t *mutex, const struct timespec *deadline) {
    if (!ht_is_time(deadline))
        return EINVAL;
    return ask_and_test(CONDITION_WAIT, condition->handle - 1, mutex->handle - 1, deadline, NULL);
}

int hthread_barrier_init(hthread_barrier_t *barrier, const void *unused, unsigned threads) {
    (void)unused;
    return make(BARRIER_CREATE, threads, &barrier->handle);
}

int hthread_barrier_destroy(hthread_barrier_t *barrier) { return destroy(BARRIER_DESTROY, &barrier->handle); }

int hthread_barrier_wait(hthread_barrier_t *barrier) {
    uint32_t is_last = 0;
    int error = ask_and_test(BARRIER_WAIT, barrier->handle - 1, 0, NULL, &is_last);
    return error ? error : is_last ? HTHREAD_BARRIER_SERIAL_THREAD : 0;
}

/* A request has 16 bits for the number of an object. */
static int ask_source(enum operation operation, unsigned source, uint32_t *value) {
    ht_start();
    return source < SOURCES ? ht_back_end->ask(operation, source, 0, NULL, value) : EINVAL;
}

int hthread_intrassoc(unsigned source) { return ask_source(SOURCE_BIND, source, NULL); }
int hthread_intrraise(unsigned source) { return ask_source(SOURCE_RAISE, source, NULL); }

int hthread_intrwait(unsigned source, unsigned *count) {
    uint32_t interrupts = 0;
    hthread_testcancel();
    int error = ask_source(SOURCE_WAIT, source, &interrupts);
    hthread_testcancel();
    if (!error && count)
        *count = interrupts;
    return error;
}

const char *hthread_backend(void) {
    ht_start();
    return ht_back_end->name;
}
