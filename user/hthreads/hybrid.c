/*
 * The back end `hybrid`: a mutex for which nobody waits takes an atomic instruction to lock and one to unlock, as in `fused`; one that threads wait
 * for is the service core's, which has the queue and hands it on, a request each.
 *
 * Each mutex is a word here and a mutex there (the core's). The word says whose it is: nobody's, a thread's that took it by the word, or of
 * whoever has the core's (IN_CORE). A thread that finds a mutex taken locks the core's. If it is by the word that somebody has the mutex,
 * it says so in the word (WANTED) and waits, by a condition variable of the core's; the owner then does not free the word, but leaves
 * the mutex to the core, where the most urgent one gets it. It comes back when it was locked a few times without anybody waiting.
 */
#include "hardware.h"

enum {
    MUTEXES = 1024, /* of the core */
    NO_MUTEX = 0,
    WANTED = 1, /* a bit beside a thread */
    FREE = 2,
    SPINS = 30,
    CALM = 4, /* so often locked without waiting, and it leaves the core */
};
/* Whoever has the core's mutex has it. BUSY: and it is fast, threads wait for it all the time, and there is nothing to be told of it. */
#define BUSY 0xfffffff0u
#define IN_CORE 0xfffffff8u

enum { OWNER_DIED = 1, NOT_REPAIRED = 2 };

static struct mutex {
    uint32_t word;
    /* By the core, as in the word: of mutexes that are fast only if there is a reason, so that nobody stores here while many threads lock. Set and
     * cleared by itself. */
    uint32_t owner;
    /* The rest is its owner's, or of who has the core's mutex. */
    uint32_t depth; /* beyond once */
    uint32_t kind;
    uint32_t dead;         /* an owner by the word */
    uint32_t is_abandoned; /* the core has said that its owner died */
    uint32_t calm;
    uint32_t wanted_by; /* 1 + the condition variable of those that wait for the word; 0: there is none yet */
} __attribute__((aligned(64))) mutexes[MUTEXES];

static uint32_t mutexes_used; /* numbers beyond have not been */

static uint32_t holder(const struct thread *thread) { return (ht_number(thread) + 2) << 1; }
static uint32_t load(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static int is_in_core(uint32_t word) { return word >= BUSY; }
static int swap(uint32_t *word, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Whether a thread is known to have it. */
static int has(const struct mutex *mutex, const struct thread *self) {
    uint32_t word = load(&mutex->word);
    return (word & ~(uint32_t)WANTED) == holder(self) || (is_in_core(word) && load(&mutex->owner) == holder(self));
}

/* The core's mutex is the thread's, and it waits until the word is nobody's. 0, ETIMEDOUT, or what ends it without the core's mutex. */
static int wait_for_word(struct mutex *mutex, uint32_t number, const struct timespec *deadline) {
    if (!mutex->wanted_by) {
        uint32_t made;
        int error = ht_hardware_ask(CONDITION_CREATE, 0, 0, NULL, &made);
        if (error) { /* there are too many; it looks again */
            ht_hardware_unlock(number);
            sched_yield();
            return ht_hardware_lock(number);
        }
        mutex->wanted_by = made + 1;
    }
    return ht_hardware_ask(CONDITION_WAIT, mutex->wanted_by - 1, number, deadline, NULL);
}

/* The core's mutex is the thread's; `code` is what it has said. The mutex is the thread's when nobody has it by the word. */
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

/* Asks the core for its mutex. Whether somebody else had that stands in *has_waited. */
static int ask_core(struct thread *self, uint32_t number, int *has_waited) {
    enum { LOOKS = 200 };
    uint64_t sequence = ht_next(self), answer = 0;
    __atomic_store_n(&self->window->request, sequence | ht_word(LOCK, number, 0), __ATOMIC_RELAXED);
    for (unsigned looks = 0; looks < LOOKS && !ht_is_seen(answer, sequence); looks++)
        answer = __atomic_load_n(&self->window->answer, __ATOMIC_ACQUIRE);
    *has_waited = !ht_is_done(answer, sequence);
    return *has_waited ? ht_hardware_finish(self) : ht_code(answer);
}

static int __attribute__((noinline)) lock_in_core(struct mutex *mutex, uint32_t number, struct thread *self, const struct timespec *deadline) {
    int has_waited = 1;
    int code = deadline ? ht_hardware_ask(LOCK, number, 0, deadline, NULL) : ask_core(self, number, &has_waited);
    if (__builtin_expect(code == 0 && has_waited, 1) && load(&mutex->word) == BUSY)
        return 0;
    if (code && code != EOWNERDEAD)
        return code;
    if (!has_waited)
        mutex->calm++;
    else if (mutex->calm)
        mutex->calm = 0;
    return claim(mutex, number, self, deadline, code);
}

/* Another lock by its owner. -1: it waits for itself. */
static int lock_again(struct mutex *mutex, int may_wait) {
    if (mutex->kind == HTHREAD_MUTEX_RECURSIVE) {
        if (mutex->depth == 0xffff)
            return EAGAIN;
        mutex->depth++;
        return 0;
    }
    return !may_wait ? EBUSY : mutex->kind == HTHREAD_MUTEX_ERRORCHECKING ? EDEADLK : -1;
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
    /* Whoever has it may soon be done with it, and others that wait come first. */
    for (unsigned spins = 0; spins < SPINS && !(word & WANTED) && !is_in_core(word); spins++) {
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

static int lock(uint32_t number) {
    struct thread *self = ht_me();
    if (__builtin_expect(self && number < MUTEXES, 1)) {
        struct mutex *mutex = mutexes + number;
        if (__builtin_expect(take(mutex, self), 1))
            return 0;
        if (load(&mutex->word) == BUSY)
            return lock_in_core(mutex, number, self, NULL);
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

/* A mutex that its owner has by the word is the core's from now on; the core's mutex is the caller's then. */
static void bring_to_core(struct mutex *mutex, uint32_t number) {
    ht_hardware_lock(number);
    uint32_t word = __atomic_exchange_n(&mutex->word, IN_CORE, __ATOMIC_ACQ_REL);
    mutex->calm = 0;
    if (word & WANTED && mutex->wanted_by)
        ht_hardware_ask(BROADCAST, mutex->wanted_by - 1, 0, NULL, NULL);
}

/* Before the core has it again. */
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
            mutex->depth--;
            return 0;
        }
        if (!is_in_core(word))
            bring_to_core(mutex, number);
        else
            let_go(mutex, self);
    } else if (!is_in_core(word) || mutex->kind != HTHREAD_MUTEX_FAST) {
        return EPERM;
    }
    /* The core knows whose it is. */
    return ht_hardware_unlock(number);
}

static int unlock(uint32_t number) {
    struct thread *self = ht_me();
    if (__builtin_expect(self && number < MUTEXES, 1)) {
        struct mutex *mutex = mutexes + number;
        uint32_t word = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED);
        if (word == BUSY)
            return ht_hardware_exchange(self, UNLOCK, number);
        if (word == holder(self) && mutex->depth == 0 &&
            __atomic_compare_exchange_n(&mutex->word, &word, FREE, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return 0;
    }
    return unlock_slowly(number);
}

static int create(uint32_t kind, uint32_t *number) {
    if (kind > HTHREAD_MUTEX_ERRORCHECKING)
        return EINVAL;
    /* Who locks one again is found out here. */
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

/* A condition variable is the core's, so the mutex must be. */
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

/* A thread ends. What it has by the word it leaves to the core, where the next owner finds out; for the rest the core does that. */
static void abandon(struct thread *self) {
    uint32_t used = load(&mutexes_used);
    for (uint32_t number = 0; number < used; number++) {
        struct mutex *mutex = mutexes + number;
        if ((load(&mutex->word) & ~(uint32_t)WANTED) == holder(self)) {
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

/* A device locks mutexes of the core alone. */
static int become(struct thread *thread, unsigned does, const hthread_work_t *work) {
    return work->mutex.handle || work->condition.handle ? ENODEV : ht_hardware_become(thread, does, work);
}

const struct back_end ht_hybrid = OF_CORE("hybrid", lock, try_lock, unlock, ask, become);
