/* What the back end `hybrid` uses of `hardware`. */
#ifndef HTHREAD_HARDWARE_H
#define HTHREAD_HARDWARE_H

#include "internal.h"

int ht_hardware_ask(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value);
int ht_hardware_lock(uint32_t mutex);
int ht_hardware_try_lock(uint32_t mutex);
int ht_hardware_unlock(uint32_t mutex);
struct thread *ht_hardware_make(void);
int ht_hardware_enter(struct thread *thread);
void ht_hardware_leave(struct thread *thread);
int ht_hardware_become(struct thread *thread, unsigned does, const hthread_work_t *work);
int ht_hardware_stop(struct thread *thread);
int ht_hardware_open(const char *words);

/* A back end whose threads have windows of the core. */
#define OF_CORE(back_end_name, locks, tries, unlocks, asks, becomes)                                                   \
    {                                                                                                                  \
        .name = back_end_name, .lock = locks, .try_lock = tries, .unlock = unlocks, .ask = asks,                       \
        .make = ht_hardware_make, .enter = ht_hardware_enter, .drop = ht_hardware_leave, .gone = ht_hardware_leave,    \
        .unwanted = ht_hardware_leave, .become = becomes, .stop = ht_hardware_stop, .open = ht_hardware_open,          \
    }

/* Finishes a request whose first answer is not success. */
int ht_hardware_finish(struct thread *self);

/* Stores a request and loads the answer. A mutex guards data in ordinary memory, so accesses to those must not move across this. */
static inline int ht_hardware_exchange(struct thread *self, enum operation operation, uint32_t mutex) {
    struct window *window = self->window;
    uint64_t sequence = ht_next(self);
    if (operation == UNLOCK)
        __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&window->request, sequence | ht_word(operation, mutex, 0), __ATOMIC_RELAXED);
    uint64_t answer = __atomic_load_n(&window->answer, __ATOMIC_RELAXED);
    int code = __builtin_expect(answer == (sequence | DONE), 1) ? 0 : ht_hardware_finish(self);
    if (operation != UNLOCK)
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return code;
}

#endif
