/* Executes the requests of docs/protocols/service.md on objects in the process's memory. Threads have no turns here: kernels alone decide how many
 * run. */
#include "tables.h"

struct client ht_clients[THREADS];
struct mutex ht_mutexes[MUTEXES];
struct condition ht_conditions[CONDITIONS];

static struct barrier { uint32_t count, arrived, waiters; } barriers[BARRIERS];
static struct { uint32_t thread, pending; } sources[SOURCES]; /* thread: 1 + number; 0: bound to none */
static uint32_t running[ISLANDS];                             /* created threads that run, by island */
/* How many numbers of mutexes, condition variables and barriers have been used. Higher numbers are not searched. */
static uint32_t mutexes_used;

enum { OWNER_DIED = 1, NOT_REPAIRED = 2 }; /* struct mutex, dead */
enum { DEPTH_MAX = 0xffff };
/* What a thread waits for: a kind << 16 | a number. */
enum waits { NOTHING = 0, FOR_MUTEX, FOR_CONDITION, FOR_BARRIER, FOR_THREAD, FOR_SOURCE };
/* Returned in place of a code: the thread waits. */
enum { IT_WAITS = -1 };

/* A request that is being served. */
struct work {
    const struct service *service;
    struct client *thread;
    struct mutex *frozen[2]; /* to be thawed at its end */
    uint32_t value;
};

/* Queues are sorted by priority; among equals, the thread that came first is first. Links are 1 + numbers. */

static uint32_t number_of(const struct client *thread) { return (uint32_t)(thread - ht_clients); }

static struct client *linked(uint32_t link) { return ht_clients + (link - 1); }

static void enqueue(uint32_t *link, struct client *thread) {
    while (*link && linked(*link)->priority <= thread->priority)
        link = &linked(*link)->next;
    thread->next = *link;
    *link = number_of(thread) + 1;
}

static void dequeue(uint32_t *link, struct client *thread) {
    while (*link && linked(*link) != thread)
        link = &linked(*link)->next;
    if (*link)
        *link = thread->next;
}

static struct client *take(uint32_t *head) {
    struct client *first = *head ? linked(*head) : NULL;
    if (first)
        *head = first->next;
    return first;
}

/* Answers. */

static void answer(struct client *thread, int code, uint32_t value) {
    struct window *window = &ht_threads[number_of(thread)].own;
    thread->waits = NOTHING;
    (thread->code = (uint32_t)code, thread->value = value);
    /* Plain stores and loads, because cores may have no atomic instruction in common. */
    __atomic_store_n(&window->answer, thread->served | DONE | (uint64_t)(uint16_t)code << 32 | value, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&window->parked, __ATOMIC_RELAXED))
        ht_wake((uint32_t *)&window->answer + 1, 1);
}

static int wait_for(struct client *thread, enum waits kind, uint32_t number) {
    thread->waits = (uint32_t)kind << 16 | number;
    return IT_WAITS;
}

/* Mutexes. */

static uint32_t holder_of(const struct mutex *mutex) { return __atomic_load_n(&mutex->holder, __ATOMIC_RELAXED) & ~(uint32_t)FROZEN; }

static void set_holder(struct mutex *mutex, uint32_t holder) { __atomic_store_n(&mutex->holder, holder | FROZEN, __ATOMIC_RELAXED); }

static struct mutex *mutex_of(struct work *work, uint32_t number) {
    struct mutex *mutex = number < MUTEXES && ht_mutexes[number].kind ? ht_mutexes + number : NULL;
    if (mutex && work->service->is_shared) {
        __atomic_fetch_or(&mutex->holder, FROZEN, __ATOMIC_ACQUIRE);
        work->frozen[work->frozen[0] && work->frozen[0] != mutex] = mutex;
    }
    return mutex;
}

/* If no thread waits for a mutex, threads may lock it by themselves again, unless the next owner must get an error. */
static void thaw(struct mutex *mutex) {
    if (mutex->kind && !mutex->waiters && !mutex->dead)
        __atomic_fetch_and(&mutex->holder, ~(uint32_t)FROZEN, __ATOMIC_RELEASE);
}

/* Gives a thread a free mutex. Returns the code for the thread. */
static int give(struct mutex *mutex, struct client *thread) {
    set_holder(mutex, ht_holder(number_of(thread)));
    mutex->depth = 0;
    return mutex->dead == OWNER_DIED ? EOWNERDEAD : 0;
}

/* The same for a waiting thread. `code` is the code for the thread if the mutex has nothing to report. */
static void give_to_waiter(struct mutex *mutex, struct client *thread, int code) {
    int given = give(mutex, thread);
    answer(thread, given ? given : code, 0);
}

/* A mutex has become free: gives it to the most urgent waiting thread. */
static void hand_on(struct mutex *mutex) {
    set_holder(mutex, FREE);
    mutex->depth = 0;
    if (mutex->dead == NOT_REPAIRED) {
        for (struct client *waiter; (waiter = take(&mutex->waiters)) != NULL;)
            answer(waiter, ENOTRECOVERABLE, 0);
        return;
    }
    struct client *waiter = take(&mutex->waiters);
    if (waiter)
        give_to_waiter(mutex, waiter, (int)waiter->code);
}

static void let_go(struct mutex *mutex) {
    if (mutex->dead == OWNER_DIED)
        mutex->dead = NOT_REPAIRED;
    hand_on(mutex);
}

static int create_mutex(struct work *work, uint32_t kind) {
    if (kind > HTHREAD_MUTEX_ERRORCHECKING)
        return EINVAL;
    for (uint32_t number = work->service->first; number < MUTEXES; number += work->service->step) {
        struct mutex *mutex = ht_mutexes + number;
        if (mutex->kind)
            continue;
        *mutex = (struct mutex){.holder = FREE, .kind = kind + 1};
        work->value = number;
        uint32_t used = __atomic_load_n(&mutexes_used, __ATOMIC_RELAXED);
        while (used <= number && !__atomic_compare_exchange_n(&mutexes_used, &used, number + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        return 0;
    }
    return EAGAIN;
}

static int destroy_mutex(struct mutex *mutex) {
    if (holder_of(mutex) != FREE || mutex->waiters || mutex->conditions)
        return EBUSY;
    mutex->kind = 0;
    __atomic_store_n(&mutex->holder, NO_MUTEX, __ATOMIC_RELAXED);
    return 0;
}

static int lock(struct client *thread, struct mutex *mutex, uint32_t number, int may_wait) {
    uint32_t holder = holder_of(mutex);
    if (mutex->dead == NOT_REPAIRED)
        return ENOTRECOVERABLE;
    if (holder == FREE)
        return give(mutex, thread);
    if (holder == ht_holder(number_of(thread))) {
        if (mutex->kind == HTHREAD_MUTEX_RECURSIVE + 1) {
            if (mutex->depth == DEPTH_MAX)
                return EAGAIN;
            mutex->depth++;
            return 0;
        }
        if (mutex->kind == HTHREAD_MUTEX_ERRORCHECKING + 1 && may_wait)
            return EDEADLK;
    }
    if (!may_wait)
        return EBUSY;
    thread->code = 0;
    enqueue(&mutex->waiters, thread);
    return wait_for(thread, FOR_MUTEX, number);
}

static int unlock(struct client *thread, struct mutex *mutex) {
    if (holder_of(mutex) != ht_holder(number_of(thread)))
        return EPERM;
    if (mutex->depth)
        mutex->depth--;
    else
        let_go(mutex);
    return 0;
}

static int make_consistent(struct client *thread, struct mutex *mutex) {
    if (holder_of(mutex) != ht_holder(number_of(thread)) || mutex->dead != OWNER_DIED)
        return EINVAL;
    mutex->dead = 0;
    return 0;
}

static int on_mutex(struct work *work, enum operation operation, uint32_t number) {
    struct mutex *mutex = mutex_of(work, number);
    if (!mutex)
        return EINVAL;
    switch (operation) {
    case MUTEX_DESTROY: return destroy_mutex(mutex);
    case UNLOCK: return unlock(work->thread, mutex);
    case CONSISTENT: return make_consistent(work->thread, mutex);
    default: return lock(work->thread, mutex, number, operation == LOCK);
    }
}

/* A thread ends: its mutexes go to others. */
static void abandon_mutexes(struct work *work) {
    uint32_t used = __atomic_load_n(&mutexes_used, __ATOMIC_RELAXED);
    for (uint32_t number = work->service->first; number < used; number += work->service->step) {
        if (holder_of(ht_mutexes + number) != ht_holder(number_of(work->thread)))
            continue;
        struct mutex *mutex = mutex_of(work, number);
        if (mutex->dead != NOT_REPAIRED)
            mutex->dead = OWNER_DIED;
        hand_on(mutex);
    }
}

/* Condition variables. The queue of one is with the service that has the mutex of its waiting threads. */

static struct condition *condition_of(uint32_t number) {
    return number < CONDITIONS && ht_conditions[number].is_used ? ht_conditions + number : NULL;
}

static int create_condition(struct work *work) {
    for (uint32_t number = work->service->first; number < CONDITIONS; number += work->service->step)
        if (!ht_conditions[number].is_used) {
            ht_conditions[number] = (struct condition){.is_used = 1};
            work->value = number;
            return 0;
        }
    return EAGAIN;
}

static int wait_for_condition(struct work *work, uint32_t number, uint32_t mutex_number) {
    struct condition *condition = condition_of(number);
    struct mutex *mutex = mutex_of(work, mutex_number);
    if (!condition || !mutex)
        return EINVAL;
    if (holder_of(mutex) != ht_holder(number_of(work->thread)))
        return EPERM;
    if (mutex->depth)
        return EINVAL;
    uint32_t other = __atomic_load_n(&condition->mutex, __ATOMIC_ACQUIRE);
    if (other && other != mutex_number + 1)
        return EINVAL;
    __atomic_store_n(&condition->mutex, mutex_number + 1, __ATOMIC_RELEASE);
    work->thread->mutex = mutex_number + 1;
    work->thread->code = 0;
    mutex->conditions++;
    enqueue(&condition->waiters, work->thread);
    wait_for(work->thread, FOR_CONDITION, number);
    let_go(mutex);
    return IT_WAITS;
}

/* A thread has waited for a condition variable: gives it its mutex, or has it wait for that. `code` is the code for the thread afterwards. */
static void take_back(struct work *work, struct condition *condition, struct client *thread, int code) {
    uint32_t number = thread->mutex - 1;
    struct mutex *mutex = mutex_of(work, number);
    mutex->conditions--;
    if (!condition->waiters)
        __atomic_store_n(&condition->mutex, 0, __ATOMIC_RELEASE);
    if (mutex->dead == NOT_REPAIRED) {
        answer(thread, ENOTRECOVERABLE, 0);
    } else if (holder_of(mutex) == FREE) {
        give_to_waiter(mutex, thread, code);
    } else {
        thread->code = (uint32_t)code;
        enqueue(&mutex->waiters, thread);
        wait_for(thread, FOR_MUTEX, number);
    }
}

static int signal(struct work *work, enum operation operation, uint32_t number) {
    struct condition *condition = condition_of(number);
    if (!condition)
        return EINVAL;
    if (operation == CONDITION_DESTROY) {
        if (condition->waiters)
            return EBUSY;
        condition->is_used = 0;
        return 0;
    }
    for (struct client *waiter; (waiter = take(&condition->waiters)) != NULL;) {
        work->value++;
        take_back(work, condition, waiter, 0);
        if (operation == SIGNAL)
            break;
    }
    return 0;
}

/* Barriers. */

static int create_barrier(struct work *work, uint32_t threads) {
    if (threads == 0 || threads > THREADS)
        return EINVAL;
    for (uint32_t number = work->service->first; number < BARRIERS; number += work->service->step)
        if (!barriers[number].count) {
            barriers[number] = (struct barrier){.count = threads};
            work->value = number;
            return 0;
        }
    return EAGAIN;
}

static int on_barrier(struct work *work, enum operation operation, uint32_t number) {
    struct barrier *barrier = number < BARRIERS && barriers[number].count ? barriers + number : NULL;
    if (!barrier)
        return EINVAL;
    if (operation == BARRIER_DESTROY) {
        if (barrier->arrived)
            return EBUSY;
        barrier->count = 0;
        return 0;
    }
    if (++barrier->arrived < barrier->count) {
        enqueue(&barrier->waiters, work->thread);
        return wait_for(work->thread, FOR_BARRIER, number);
    }
    barrier->arrived = 0;
    for (struct client *waiter; (waiter = take(&barrier->waiters)) != NULL;)
        answer(waiter, 0, 0);
    work->value = 1;
    return 0;
}

/* Sources of interrupts. */

static int on_source(struct work *work, enum operation operation, uint32_t number) {
    uint32_t self = number_of(work->thread) + 1;
    if (number >= SOURCES)
        return EINVAL;
    uint32_t bound = sources[number].thread;
    if (operation == SOURCE_BIND) {
        if (bound && bound != self)
            return EBUSY;
        sources[number].thread = self;
        return 0;
    }
    if (operation == SOURCE_RAISE) {
        if (!bound)
            return EPERM;
        if (linked(bound)->waits == ((uint32_t)FOR_SOURCE << 16 | number))
            answer(linked(bound), 0, 1);
        else
            sources[number].pending += sources[number].pending != UINT32_MAX;
        return 0;
    }
    if (bound != self)
        return EPERM;
    if (!sources[number].pending)
        return wait_for(work->thread, FOR_SOURCE, number);
    work->value = sources[number].pending;
    sources[number].pending = 0;
    return 0;
}

static void abandon_sources(const struct work *work) {
    for (uint32_t number = work->service->first; number < SOURCES; number += work->service->step)
        if (sources[number].thread == number_of(work->thread) + 1)
            (sources[number].thread = 0, sources[number].pending = 0);
}

/* Threads. */

/* Of the islands on which a thread may run, the one with the fewest running threads for each core. */
static uint32_t choose_island(uint32_t islands) {
    int best = -1;
    for (int island = 0; island < ISLANDS; island++) {
        if (!(islands >> island & 1) || !ht_islands[island].count)
            continue;
        uint32_t here = __atomic_load_n(running + island, __ATOMIC_RELAXED);
        if (best < 0 || here * ht_islands[best].count < __atomic_load_n(running + best, __ATOMIC_RELAXED) * ht_islands[island].count)
            best = island;
    }
    return best < 0 ? 0 : (uint32_t)best;
}

static int start(struct work *work) {
    if (work->thread->state != NEW)
        return EINVAL;
    work->thread->state = STARTED;
    work->value = work->thread->runs_on = choose_island(work->thread->islands);
    __atomic_fetch_add(running + work->value, 1, __ATOMIC_RELAXED);
    return 0;
}

static int end(struct work *work, uint32_t value) {
    struct client *thread = work->thread;
    abandon_mutexes(work);
    abandon_sources(work);
    if (number_of(thread) % work->service->step != work->service->first)
        return 0; /* another server reports its end */
    if (thread->state == STARTED)
        __atomic_fetch_sub(running + thread->runs_on, 1, __ATOMIC_RELAXED);
    struct client *joiner = thread->joiner ? linked(thread->joiner) : NULL;
    thread->state = ENDED;
    thread->ended_with = value;
    if (joiner) {
        thread->is_detached = 1;
        answer(joiner, 0, value);
    }
    return 0;
}

static int join(struct work *work, struct client *target, uint32_t number) {
    if (target == work->thread)
        return EDEADLK;
    if (target->is_detached || target->joiner)
        return EINVAL;
    if (target->state != ENDED) {
        target->joiner = number_of(work->thread) + 1;
        return wait_for(work->thread, FOR_THREAD, number);
    }
    target->is_detached = 1;
    work->value = target->ended_with;
    return 0;
}

/* The queue in which a thread waits, if it is one of this service's. */
static uint32_t *queue_of(const struct work *work, const struct client *thread) {
    uint32_t number = thread->waits & 0xffff;
    switch (thread->waits >> 16) {
    case FOR_MUTEX: return number % work->service->step == work->service->first ? &ht_mutexes[number].waiters : NULL;
    case FOR_CONDITION: return (thread->mutex - 1) % work->service->step == work->service->first ? &ht_conditions[number].waiters : NULL;
    case FOR_BARRIER: return number % work->service->step == work->service->first ? &barriers[number].waiters : NULL;
    default: return NULL;
    }
}

static int set_priority(const struct work *work, struct client *target, uint32_t priority) {
    if (priority > 255)
        return EINVAL;
    uint32_t *queue = queue_of(work, target);
    if (queue)
        dequeue(queue, target);
    target->priority = priority;
    if (queue)
        enqueue(queue, target);
    return 0;
}

static int create(struct work *work, struct client *thread, uint32_t number, uint32_t argument) {
    thread->priority = argument & 0xff;
    thread->islands = argument >> 8 & 0xff;
    thread->is_detached = (argument & DETACHED) != 0;
    thread->state = NEW;
    work->value = number;
    return 0;
}

static int on_thread(struct work *work, enum operation operation, uint32_t number, uint32_t argument) {
    struct client *target = number < THREADS ? ht_clients + number : NULL;
    if (operation == CREATE && target && target->state == 0)
        return create(work, target, number, argument);
    if (!target || __atomic_load_n(&target->state, __ATOMIC_RELAXED) == 0)
        return ESRCH;
    switch (operation) {
    case JOIN: return join(work, target, number);
    case SET_PRIORITY: return set_priority(work, target, argument);
    case DETACH:
        if (target->is_detached || target->joiner)
            return EINVAL;
        target->is_detached = 1;
        return 0;
    case DELETE:
        target->state = 0;
        return 0;
    default: return EINVAL;
    }
}

static int withdraw(struct work *work) {
    struct client *thread = work->thread;
    uint32_t *queue = queue_of(work, thread), number = thread->waits & 0xffff;
    switch (thread->waits >> 16) {
    case NOTHING:
        work->value = thread->value;
        return (int)thread->code;
    case FOR_CONDITION:
        dequeue(queue, thread);
        take_back(work, ht_conditions + number, thread, ETIMEDOUT);
        return IT_WAITS;
    case FOR_MUTEX:
        mutex_of(work, number);
        if (thread->mutex) { /* it had the mutex before it waited for a condition variable, and must get it back */
            thread->code = ETIMEDOUT;
            return IT_WAITS;
        }
        dequeue(queue, thread);
        thread->waits = NOTHING;
        return ETIMEDOUT;
    default: /* other waits have no time limits */
        return IT_WAITS;
    }
}

static int execute(struct work *work, enum operation operation, uint32_t object, uint32_t argument) {
    switch (operation) {
    case START: return start(work);
    case EXIT: return end(work, argument);
    case YIELD: case SLOTS: return 0;
    case CREATE: case JOIN: case SET_PRIORITY: case DETACH: case DELETE: return on_thread(work, operation, object, argument);
    case MUTEX_CREATE: return create_mutex(work, argument);
    case MUTEX_DESTROY: case LOCK: case TRY_LOCK: case UNLOCK: case CONSISTENT: return on_mutex(work, operation, object);
    case CONDITION_CREATE: return create_condition(work);
    case CONDITION_WAIT: return wait_for_condition(work, object, argument);
    case CONDITION_DESTROY: case SIGNAL: case BROADCAST: return signal(work, operation, object);
    case BARRIER_CREATE: return create_barrier(work, argument);
    case BARRIER_DESTROY: case BARRIER_WAIT: return on_barrier(work, operation, object);
    case SOURCE_BIND: case SOURCE_WAIT: case SOURCE_RAISE: return on_source(work, operation, object);
    case WITHDRAW: return withdraw(work);
    }
    return ENOSYS;
}

void ht_touch_tables(const struct service *service) {
    /* The first server touches the threads' records: they are divided among servers more finely than pages are. */
    for (uint32_t number = 0; service->first == 0 && number < THREADS; number++)
        ht_clients[number].priority = HTHREAD_PRIORITY_DEFAULT;
}

void ht_serve(const struct service *service, uint32_t number) {
    struct window *window = &ht_threads[number].own;
    struct client *thread = ht_clients + number;
    uint64_t request = __atomic_load_n(&window->request, __ATOMIC_ACQUIRE);
    struct work work = {.service = service, .thread = thread};
    enum operation operation = (enum operation)(request >> 48 & 0xff);
    thread->served = request & ~(uint64_t)0xffffffffffffff;
    if (operation != WITHDRAW)
        thread->mutex = 0;
    int code = execute(&work, operation, request >> 32 & 0xffff, (uint32_t)request);
    for (int i = 0; i < 2; i++)
        if (work.frozen[i])
            thaw(work.frozen[i]);
    if (code != IT_WAITS)
        answer(thread, code, work.value);
    else if (thread->waits != NOTHING)
        __atomic_store_n(&window->answer, thread->served | WAITS, __ATOMIC_RELEASE);
}
