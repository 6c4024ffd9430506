/* The back end `fused`: all objects are in the process's memory, and each thread executes its own requests. A mutex without waiting threads takes
 * one atomic instruction to lock and one to unlock. For everything else, the thread acts as the service for a moment. */
#include "tables.h"

enum { SPINS = 100, POLLS = 2000 };

static const struct service everything = {.first = 0, .step = 1, .is_shared = 1};

/* Whether a thread acts as the service: 0 none does, 1 one does, 2 one does and others wait. */
static uint32_t turn __attribute__((aligned(64)));

static void take_turn(void) {
    for (unsigned spins = 0; spins < SPINS; spins++) {
        uint32_t nobody = 0;
        if (__atomic_load_n(&turn, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&turn, &nobody, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
    }
    while (__atomic_exchange_n(&turn, 2, __ATOMIC_ACQUIRE) != 0)
        ht_sleep(&turn, 2, NULL);
}

static void end_turn(void) {
    if (__atomic_exchange_n(&turn, 0, __ATOMIC_RELEASE) == 2)
        ht_wake(&turn, 1);
}

static void deliver(struct thread *self, unsigned where) {
    (void)where;
    take_turn();
    ht_serve(&everything, ht_number(self));
    end_turn();
}

static const struct way itself = {deliver, POLLS};

static int ask(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value) {
    struct thread *self = ht_me();
    return self ? ht_request(self, ht_word(operation, object, argument), &itself, 0, deadline, value) : EAGAIN;
}

/* Tries to lock a free mutex by the atomic instruction. */
static inline int take(struct mutex *mutex, struct thread *self) {
    uint32_t holder = FREE;
    return __atomic_compare_exchange_n(&mutex->holder, &holder, ht_holder(ht_number(self)), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* The slow path, a function of its own so that the fast path stays short. */
static int __attribute__((noinline)) lock_slowly(uint32_t number, struct thread *self) {
    if (!self)
        return EAGAIN;
    /* Its owner may soon unlock it, so it pays to spin. Threads that wait already come first. */
    for (unsigned spins = 0; number < MUTEXES && spins < SPINS; spins++) {
        struct mutex *mutex = ht_mutexes + number;
        uint32_t holder = __atomic_load_n(&mutex->holder, __ATOMIC_RELAXED);
        if (holder & FROZEN || holder == ht_holder(ht_number(self)))
            break;
        if (holder == FREE && take(mutex, self))
            return 0;
    }
    return ask(LOCK, number, 0, NULL, NULL);
}

static int __attribute__((noinline)) unlock_slowly(uint32_t number) { return ask(UNLOCK, number, 0, NULL, NULL); }

static int lock(uint32_t number) {
    struct thread *self = ht_me();
    if (__builtin_expect(self && number < MUTEXES && take(ht_mutexes + number, self), 1))
        return 0;
    return lock_slowly(number, self);
}

static int try_lock(uint32_t number) {
    struct thread *self = ht_me();
    if (self && number < MUTEXES && take(ht_mutexes + number, self))
        return 0;
    return ask(TRY_LOCK, number, 0, NULL, NULL);
}

static int unlock(uint32_t number) {
    struct thread *self = ht_me();
    if (__builtin_expect(self && number < MUTEXES, 1)) {
        struct mutex *mutex = ht_mutexes + number;
        uint32_t holder = ht_holder(ht_number(self));
        if (__atomic_load_n(&mutex->depth, __ATOMIC_RELAXED) == 0 &&
            __atomic_compare_exchange_n(&mutex->holder, &holder, FREE, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return 0;
    }
    return unlock_slowly(number);
}

static int open(const char *words) { return *words ? EINVAL : 0; }

const struct back_end ht_fused = {
    .name = "fused",
    .lock = lock,
    .try_lock = try_lock,
    .unlock = unlock,
    .ask = ask,
    .make = ht_make_thread,
    .enter = ht_enter_thread,
    .drop = ht_drop_thread,
    .gone = ht_thread_gone,
    .unwanted = ht_thread_unwanted,
    .open = open,
};
