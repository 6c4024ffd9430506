/*
 * The back end `hybrid`. A mutex without waiting threads takes one atomic instruction to lock and one to unlock, as in `fused`. A mutex with
 * waiting threads is kept by the service core, which has the queue and hands the mutex on; locking and unlocking are a request each.
 *
 * Each mutex has two parts: a word in memory, and a mutex of the service core. The word says who has the mutex: no thread (FREE), a thread that
 * has locked it by the word, or the thread that has the core's mutex (IN_CORE).
 *
 * - A thread that finds the mutex taken locks the core's mutex.
 * - If the owner has it by the word, the waiting thread sets WANTED in the word and waits for a condition variable of the core. The owner then does
 *   not free the word, but leaves the mutex to the core, which gives it to the most urgent waiting thread.
 * - The mutex moves back to the word after it was locked many times without waiting.
 */
#include "hardware.h"

enum {
    MUTEXES = 1024, /* of the core */
    NO_MUTEX = 0,
    WANTED = 1, /* a bit beside the owner: other threads wait for it */
    AGAIN = 2,  /* a bit beside the owner: it has locked it more than once */
    FREE = 4,
    IN_CORE = 8, /* the thread that has the core's mutex has it */
    SPINS = 30,
    TAKEN = 4, /* a mutex that was found taken so often goes to the core */
    POLLS = 200,
    STAY = 255, /* a thread that locks a BUSY mutex so often in succession without waiting begins to count (CALM) */
    CALM = 4,   /* a mutex that was locked so often without waiting leaves the core */
};
/* As IN_CORE, for a fast mutex that threads wait for all the time, and whose owners have not died. It is the only negative word, so the test is cheap. */
#define BUSY 0x80000000u

enum { OWNER_DIED = 1, NOT_REPAIRED = 2 };

static struct mutex {
    uint32_t word;
    /* The owner by the core's mutex, encoded as in the word. It is set and cleared by the owner itself. For fast mutexes it is set only if
     * needed, so that no thread stores here while many threads lock. */
    uint32_t owner;
    /* The rest is accessed by the mutex's owner, or by the thread that has the core's mutex. */
    uint32_t depth; /* locks of the owner beyond the first */
    uint32_t kind;
    uint32_t dead;         /* an owner by the word has died */
    uint32_t is_abandoned; /* the core has said that its owner died */
    uint32_t calm;
    uint32_t taken;        /* how often it was found taken. Threads count without a lock, so a count may be lost */
    uint32_t wanted_by;    /* 1 + the condition variable of threads that wait for the word; 0: there is none yet */
} __attribute__((aligned(64))) mutexes[MUTEXES];

static uint32_t mutexes_used; /* higher numbers have not been used yet */

static uint32_t holder(const struct thread *thread) { return (ht_number(thread) + 3) << 2; }
static uint32_t load(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static int is_busy(uint32_t word) { return (int32_t)word < 0; }
static int is_in_core(uint32_t word) { return word == IN_CORE || is_busy(word); }
static int swap(uint32_t *word, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Whether a thread is recorded as the owner. */
static int has(const struct mutex *mutex, const struct thread *self) {
    uint32_t word = load(&mutex->word);
    return (word & ~(uint32_t)(WANTED | AGAIN)) == holder(self) || (is_in_core(word) && load(&mutex->owner) == holder(self));
}

/* The caller has the core's mutex, and waits until no thread has the mutex by the word. 0, ETIMEDOUT, or another error: it does not have the core's
 * mutex then. */
static int wait_for_word(struct mutex *mutex, uint32_t number, const struct timespec *deadline) {
    if (!mutex->wanted_by) {
        uint32_t made;
        int error = ht_hardware_ask(CONDITION_CREATE, 0, 0, NULL, &made);
        if (error) { /* there are too many: yield, and look again */
            ht_hardware_unlock(number);
            sched_yield();
            return ht_hardware_lock(number);
        }
        mutex->wanted_by = made + 1;
    }
    return ht_hardware_ask(CONDITION_WAIT, mutex->wanted_by - 1, number, deadline, NULL);
}

/* The caller has the core's mutex; `code` is the core's answer. Takes the mutex as soon as no thread has it by the word. */
static int claim(struct mutex *mutex, uint32_t number, struct thread *self, const struct timespec *deadline, int code) {
    for (;;) {
        uint32_t word = load(&mutex->word);
        if (is_in_core(word) || (word == FREE && swap(&mutex->word, FREE, IN_CORE)))
            break;
        if (word == FREE || (!(word & WANTED) && !swap(&mutex->word, word, word | WANTED)))
            continue;
        int waited = wait_for_word(mutex, number, deadline);
        if (waited == ETIMEDOUT && load(&mutex->word) == (word | WANTED)) {
            ht_hardware_unlock(number);
            return ETIMEDOUT;
        }
        if (waited == EOWNERDEAD)
            code = waited;
        else if (waited && waited != ETIMEDOUT)
            return waited;
    }
    if (mutex->dead == NOT_REPAIRED) {
        ht_hardware_unlock(number);
        return ENOTRECOVERABLE;
    }
    if (mutex->is_abandoned != (code == EOWNERDEAD))
        mutex->is_abandoned = code == EOWNERDEAD;
    int is_plain = mutex->kind == HTHREAD_MUTEX_FAST && !mutex->dead && code != EOWNERDEAD;
    uint32_t word = is_plain && mutex->calm == 0 ? BUSY : IN_CORE;
    if (load(&mutex->word) != word)
        __atomic_store_n(&mutex->word, word, __ATOMIC_RELEASE);
    if (!is_plain || mutex->calm >= CALM)
        __atomic_store_n(&mutex->owner, holder(self), __ATOMIC_RELAXED);
    return mutex->dead ? EOWNERDEAD : code;
}

/* Finishes a lock in the core. `code` is the core's answer; `has_waited`: another thread had the core's mutex. */
static int __attribute__((noinline)) locked_in_core(struct mutex *mutex, uint32_t number, struct thread *self, const struct timespec *deadline,
                                                    int code, int has_waited) {
    if (code && code != EOWNERDEAD)
        return code;
    if (!has_waited)
        mutex->calm++;
    else if (mutex->calm)
        mutex->calm = 0;
    return claim(mutex, number, self, deadline, code);
}

static int __attribute__((noinline)) lock_in_core(struct mutex *mutex, uint32_t number, struct thread *self, const struct timespec *deadline) {
    if (deadline)
        return locked_in_core(mutex, number, self, deadline, ht_hardware_ask(LOCK, number, 0, deadline, NULL), 1);
    uint64_t sequence = ht_next(self), answer = 0;
    __atomic_store_n(&self->window->request, sequence | ht_word(LOCK, number, 0), __ATOMIC_RELAXED);
    for (unsigned polls = 0; polls < POLLS && !ht_is_seen(answer, sequence); polls++)
        answer = __atomic_load_n(&self->window->answer, __ATOMIC_ACQUIRE);
    int has_waited = !ht_is_done(answer, sequence);
    return locked_in_core(mutex, number, self, NULL, has_waited ? ht_hardware_finish(self) : ht_code(answer), has_waited);
}

/* Finishes a lock of a mutex that was BUSY. */
static int __attribute__((noinline)) end_lock_busy(struct mutex *mutex, uint32_t number, struct thread *self, int has_waited) {
    return locked_in_core(mutex, number, self, NULL, has_waited ? ht_hardware_finish(self) : 0, has_waited);
}

/* Locks a mutex that was BUSY. A thread that waited and gets the mutex from the core need not look at the word: the mutex cannot have left the core
 * meanwhile. A thread takes a mutex out of the core only if it has found it IN_CORE and has not waited for it. */
static int __attribute__((noinline)) lock_busy(struct mutex *mutex, uint32_t number, struct thread *self) {
    struct window *window = self->window;
    uint64_t sequence = ht_next(self);
    __atomic_store_n(&window->request, sequence | ht_word(LOCK, number, 0), __ATOMIC_RELAXED);
    uint64_t answer = __atomic_load_n(&window->answer, __ATOMIC_ACQUIRE);
    int has_waited = answer != (sequence | DONE), is_still_busy = is_busy(__atomic_load_n(&mutex->word, __ATOMIC_RELAXED));
    if (has_waited) {
        self->stay = STAY;
        for (unsigned polls = answer == (sequence | WAITS) && is_still_busy ? POLLS : 0; polls; polls--)
            if (__atomic_load_n(&window->answer, __ATOMIC_ACQUIRE) == (sequence | DONE))
                return 0;
    } else if (is_still_busy && self->stay) {
        self->stay--;
        return 0;
    }
    return end_lock_busy(mutex, number, self, has_waited);
}

/* The owner locks the mutex again. -1: it would wait for itself. */
static int lock_again(struct mutex *mutex, int may_wait) {
    if (mutex->kind == HTHREAD_MUTEX_RECURSIVE) {
        if (mutex->depth == 0xffff)
            return EAGAIN;
        if (mutex->depth++ == 0 && !is_in_core(load(&mutex->word)))
            __atomic_fetch_or(&mutex->word, AGAIN, __ATOMIC_RELAXED);
        return 0;
    }
    return !may_wait ? EBUSY : mutex->kind == HTHREAD_MUTEX_ERRORCHECKING ? EDEADLK : -1;
}

/* Its owner may soon unlock it, so it pays to spin. A mutex that is found taken again and again is better off in the core. */
static unsigned spins_for(struct mutex *mutex) {
    uint32_t taken = __atomic_load_n(&mutex->taken, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&mutex->taken, taken, __ATOMIC_RELAXED);
    return taken % TAKEN ? SPINS : 0;
}

static int __attribute__((noinline)) lock_slowly(uint32_t number, const struct timespec *deadline) {
    struct thread *self = ht_me();
    struct mutex *mutex = mutexes + number;
    if (!self || number >= MUTEXES)
        return self ? EINVAL : EAGAIN;
    uint32_t word = load(&mutex->word);
    if (word == NO_MUTEX)
        return EINVAL;
    if (has(mutex, self)) {
        int code = lock_again(mutex, 1);
        if (code >= 0)
            return code;
    }
    unsigned spins = is_in_core(word) ? 0 : spins_for(mutex);
    /* Threads that wait already come first. */
    for (; spins && !(word & WANTED) && !is_in_core(word); spins--) {
        if (word == FREE && swap(&mutex->word, FREE, holder(self)))
            return 0;
        word = load(&mutex->word);
    }
    return lock_in_core(mutex, number, self, deadline);
}

/* Whether the thread has locked it by its word. */
static inline int take(struct mutex *mutex, const struct thread *self) {
    uint32_t word = FREE;
    return __atomic_load_n(&mutex->word, __ATOMIC_RELAXED) == FREE &&
           __atomic_compare_exchange_n(&mutex->word, &word, holder(self), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* A thread that the library does not know yet takes the slow path. */
static int lock(uint32_t number) {
    struct thread *self = ht_known();
    if (__builtin_expect(self && number < MUTEXES, 1)) {
        struct mutex *mutex = mutexes + number;
        uint32_t word = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED), seen = FREE;
        if (__builtin_expect(word == FREE, 1)) {
            if (__builtin_expect(__atomic_compare_exchange_n(&mutex->word, &seen, holder(self), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED), 1))
                return 0;
        } else if (is_busy(word)) {
            return lock_busy(mutex, number, self);
        }
    }
    return lock_slowly(number, NULL);
}

static int try_lock(uint32_t number) {
    struct thread *self = ht_me();
    struct mutex *mutex = mutexes + number;
    if (!self || number >= MUTEXES)
        return self ? EINVAL : EAGAIN;
    if (take(mutex, self))
        return 0;
    uint32_t word = load(&mutex->word);
    if (word == NO_MUTEX)
        return EINVAL;
    if (has(mutex, self))
        return lock_again(mutex, 0);
    if (!is_in_core(word))
        return EBUSY;
    int code = ht_hardware_try_lock(number);
    if (code && code != EOWNERDEAD)
        return code;
    word = load(&mutex->word);
    if (!is_in_core(word) && word != FREE) {
        ht_hardware_unlock(number);
        return EBUSY;
    }
    return claim(mutex, number, self, NULL, code);
}

/* Moves a mutex from the word to the core. The caller has it by the word, and has the core's mutex afterwards. */
static void bring_to_core(struct mutex *mutex, uint32_t number) {
    ht_hardware_lock(number);
    uint32_t word = __atomic_exchange_n(&mutex->word, IN_CORE, __ATOMIC_ACQ_REL);
    mutex->calm = 0;
    if (word & WANTED && mutex->wanted_by)
        ht_hardware_ask(BROADCAST, mutex->wanted_by - 1, 0, NULL, NULL);
}

/* The owner is about to give the core's mutex back. */
static void let_go(struct mutex *mutex, const struct thread *self) {
    if (load(&mutex->owner) != holder(self))
        return;
    __atomic_store_n(&mutex->owner, 0, __ATOMIC_RELAXED);
    if (mutex->dead == OWNER_DIED)
        mutex->dead = NOT_REPAIRED;
    if (mutex->calm >= CALM && !mutex->dead && !mutex->is_abandoned) {
        mutex->calm = 0;
        __atomic_store_n(&mutex->word, FREE, __ATOMIC_RELEASE);
    }
}

static int __attribute__((noinline)) unlock_slowly(uint32_t number) {
    struct thread *self = ht_me();
    struct mutex *mutex = mutexes + number;
    if (!self || number >= MUTEXES)
        return self ? EINVAL : EAGAIN;
    uint32_t word = load(&mutex->word);
    if (word == NO_MUTEX)
        return EINVAL;
    if (has(mutex, self)) {
        if (mutex->depth) {
            if (--mutex->depth == 0 && !is_in_core(word))
                __atomic_fetch_and(&mutex->word, ~(uint32_t)AGAIN, __ATOMIC_RELAXED);
            return 0;
        }
        if (!is_in_core(word))
            bring_to_core(mutex, number);
        else
            let_go(mutex, self);
    } else if (!is_in_core(word) || mutex->kind != HTHREAD_MUTEX_FAST) {
        return EPERM;
    }
    /* The core checks the owner. */
    return ht_hardware_unlock(number);
}

static int unlock(uint32_t number) {
    struct thread *self = ht_known();
    if (__builtin_expect(self && number < MUTEXES, 1)) {
        struct mutex *mutex = mutexes + number;
        uint32_t word = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED), mine = holder(self);
        if (is_busy(word))
            return ht_hardware_exchange(self, UNLOCK, number);
        if (__builtin_expect(word == mine, 1) &&
            __builtin_expect(__atomic_compare_exchange_n(&mutex->word, &mine, FREE, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED), 1))
            return 0;
    }
    return unlock_slowly(number);
}

static int create(uint32_t kind, uint32_t *number) {
    if (kind > HTHREAD_MUTEX_ERRORCHECKING)
        return EINVAL;
    /* Mutexes of the core are fast ones: this file finds owners that lock again. */
    int error = ht_hardware_ask(MUTEX_CREATE, 0, HTHREAD_MUTEX_FAST, NULL, number);
    if (error)
        return error;
    mutexes[*number] = (struct mutex){.word = FREE, .kind = kind};
    uint32_t used = load(&mutexes_used);
    while (used <= *number && !swap(&mutexes_used, used, *number + 1))
        used = load(&mutexes_used);
    return 0;
}

static int destroy(struct mutex *mutex, uint32_t number) {
    uint32_t word = load(&mutex->word);
    if (word != FREE && !is_in_core(word))
        return word == NO_MUTEX ? EINVAL : EBUSY;
    int error = ht_hardware_ask(MUTEX_DESTROY, number, 0, NULL, NULL);
    if (error)
        return error;
    if (mutex->wanted_by)
        ht_hardware_ask(CONDITION_DESTROY, mutex->wanted_by - 1, 0, NULL, NULL);
    *mutex = (struct mutex){.word = NO_MUTEX};
    return 0;
}

static int make_consistent(struct mutex *mutex, uint32_t number, struct thread *self) {
    if (is_in_core(load(&mutex->word)) && has(mutex, self) && mutex->dead == OWNER_DIED) {
        mutex->dead = 0;
        return 0;
    }
    int error = ht_hardware_ask(CONSISTENT, number, 0, NULL, NULL);
    if (!error)
        mutex->is_abandoned = 0;
    return error;
}

/* Condition variables are in the core, so the mutex must be there, too. */
static int wait_for_condition(unsigned condition, uint32_t number, struct thread *self, const struct timespec *deadline) {
    struct mutex *mutex = mutexes + number;
    uint32_t word = load(&mutex->word), dead = mutex->dead;
    int is_known = has(mutex, self);
    if (!is_known && (!is_in_core(word) || mutex->kind != HTHREAD_MUTEX_FAST))
        return word == NO_MUTEX ? EINVAL : EPERM;
    if (is_known && mutex->depth)
        return EINVAL;
    if (!is_in_core(word))
        bring_to_core(mutex, number);
    else if (is_known)
        __atomic_store_n(&mutex->owner, 0, __ATOMIC_RELAXED);
    if (is_known && dead == OWNER_DIED)
        mutex->dead = NOT_REPAIRED;
    int code = ht_hardware_ask(CONDITION_WAIT, condition, number, deadline, NULL);
    if (code == EINVAL || code == EPERM) { /* it has not waited */
        if (is_known) {
            mutex->dead = dead;
            __atomic_store_n(&mutex->owner, holder(self), __ATOMIC_RELAXED);
        }
        return code;
    }
    if (code && code != ETIMEDOUT && code != EOWNERDEAD)
        return code;
    return claim(mutex, number, self, NULL, code);
}

/* A thread ends. Mutexes that it has by the word go to the core, where the next owner learns of the death. The core itself does this for its own. */
static void abandon(struct thread *self) {
    uint32_t used = load(&mutexes_used);
    for (uint32_t number = 0; number < used; number++) {
        struct mutex *mutex = mutexes + number;
        if (has(mutex, self))
            mutex->depth = 0;
        if ((load(&mutex->word) & ~(uint32_t)(WANTED | AGAIN)) == holder(self)) {
            mutex->dead = OWNER_DIED;
            bring_to_core(mutex, number);
            ht_hardware_unlock(number);
        } else if (has(mutex, self)) {
            __atomic_store_n(&mutex->owner, 0, __ATOMIC_RELAXED);
        }
    }
}

static int ask(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value) {
    struct thread *self = ht_me();
    int is_mutex = object < MUTEXES;
    if (!self)
        return EAGAIN;
    switch (operation) {
    case LOCK: return lock_slowly(object, deadline);
    case MUTEX_CREATE: return create(argument, value);
    case MUTEX_DESTROY: return is_mutex ? destroy(mutexes + object, object) : EINVAL;
    case CONSISTENT: return is_mutex ? make_consistent(mutexes + object, object, self) : EINVAL;
    case CONDITION_WAIT: return argument < MUTEXES ? wait_for_condition(object, argument, self, deadline) : EINVAL;
    case EXIT: abandon(self); break;
    default: break;
    }
    return ht_hardware_ask(operation, object, argument, deadline, value);
}

/* A device can lock only mutexes of the core. */
static int become(struct thread *thread, unsigned does, const hthread_work_t *work) {
    return work->mutex.handle || work->condition.handle ? ENODEV : ht_hardware_become(thread, does, work);
}

const struct back_end ht_hybrid = OF_CORE("hybrid", lock, try_lock, unlock, ask, become);
