/* Threads: attributes, creation, end. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

int hthread_attr_init(hthread_attr_t *attr) {
    *attr = (hthread_attr_t){.priority = HTHREAD_PRIORITY_DEFAULT};
    return 0;
}

int hthread_attr_destroy(hthread_attr_t *attr) { return hthread_attr_init(attr); }

int hthread_attr_setpriority(hthread_attr_t *attr, int priority) {
    if (priority < 0 || priority > 255)
        return EINVAL;
    attr->priority = (uint8_t)priority;
    return 0;
}

int hthread_attr_getpriority(const hthread_attr_t *attr, int *priority) {
    *priority = attr->priority;
    return 0;
}

int hthread_attr_setislands(hthread_attr_t *attr, unsigned islands) {
    if (islands >> ISLANDS)
        return EINVAL;
    attr->islands = (uint8_t)islands;
    return 0;
}

int hthread_attr_getislands(const hthread_attr_t *attr, unsigned *islands) {
    *islands = attr->islands;
    return 0;
}

int hthread_attr_setdetached(hthread_attr_t *attr, int detached) {
    attr->detached = detached != 0;
    return 0;
}

int hthread_attr_getdetached(const hthread_attr_t *attr, int *detached) {
    *detached = attr->detached;
    return 0;
}

int hthread_attr_setstacksize(hthread_attr_t *attr, uint32_t bytes) {
    attr->stack_size = bytes;
    return 0;
}

int hthread_attr_sethardware(hthread_attr_t *attr, const char *does) {
    unsigned known = does ? ht_does(does) : 0;
    if (does && !known)
        return EINVAL;
    attr->hardware = (uint8_t)known;
    return 0;
}

/* Runs the thread's function, on the island that was chosen. */
static void *run(void *thread) {
    struct thread *self = thread;
    ht_end(self, self->function(self->argument));
    return NULL;
}

static void *begin(void *thread) {
    struct thread *self = thread;
    uint32_t island = 0;
    if (ht_back_end->enter(self) != 0)
        abort(); /* the window is this thread's alone */
    ht_set_known(self);
    ht_back_end->ask(START, 0, 0, NULL, &island);
    void *error = ht_run_on((int)island, -1, run, self);
    if (error) {
        fprintf(stderr, "hthreads: a thread cannot go to island %u: %s\n", island, strerror((int)-(intptr_t)error));
        abort();
    }
    return NULL;
}

void ht_end(struct thread *self, void *value) {
    int is_killed = value == HTHREAD_KILLED;
    self->result = value;
    ht_back_end->ask(EXIT, 0, is_killed ? KILLED : 0, NULL, NULL);
    ht_set_known(NULL);
    ht_back_end->gone(self);
}

/* By thread number: how many threads are about to read the value that this thread ended with. */
static uint32_t joining[THREADS];

static int create_kernel_thread(struct thread *thread, uint32_t stack_size) {
    pthread_attr_t attr;
    pthread_t kernel_thread;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (stack_size)
        error = pthread_attr_setstacksize(&attr, stack_size);
    if (!error)
        error = pthread_create(&kernel_thread, &attr, begin, thread);
    pthread_attr_destroy(&attr);
    return error;
}

/* A thread that joins the last thread of this number may not have read its value yet. */
static void wait_for_joiner(struct thread *thread) {
    while (__atomic_load_n(joining + ht_number(thread), __ATOMIC_ACQUIRE) != 0)
        sched_yield();
}

/* Makes a device a thread. ENODEV, EBUSY, E2BIG: no device can be used. */
static int create_device(hthread_t *number, const hthread_attr_t *attr, const hthread_work_t *work) {
    if (!ht_back_end->become)
        return ENODEV;
    struct thread *thread = ht_back_end->make();
    if (!thread)
        return EAGAIN;
    wait_for_joiner(thread);
    (thread->is_created = 1, thread->is_hardware = 1);
    /* The device may have ended before the caller knows its number. */
    *number = ht_number(thread);
    int error = ht_back_end->ask(CREATE, ht_number(thread), attr->priority | HARDWARE | (attr->detached ? DETACHED : 0), NULL, NULL);
    if (!error && (error = ht_back_end->become(thread, attr->hardware, work)) != 0)
        ht_back_end->ask(DELETE, ht_number(thread), 0, NULL, NULL);
    if (error)
        ht_back_end->drop(thread);
    return error;
}

int hthread_create(hthread_t *number, const hthread_attr_t *given, void *(*function)(void *), void *argument) {
    hthread_attr_t attr;
    ht_start();
    if (given)
        attr = *given;
    else
        hthread_attr_init(&attr);
    if (attr.hardware) {
        if (!argument)
            return EINVAL;
        int error = create_device(number, &attr, argument);
        if (error != ENODEV && error != EBUSY && error != E2BIG)
            return error;
        function = ht_function(attr.hardware);
    }
    unsigned islands = ht_usable_islands() & (attr.islands ? attr.islands : ~0u);
    if (!islands)
        return EINVAL;
    struct thread *thread = ht_back_end->make();
    if (!thread)
        return EAGAIN;
    wait_for_joiner(thread);
    (thread->function = function, thread->argument = argument, thread->is_created = 1);
    int error = ht_back_end->ask(CREATE, ht_number(thread), attr.priority | islands << 8 | (attr.detached ? DETACHED : 0), NULL, NULL);
    if (error) {
        ht_back_end->drop(thread);
        return error;
    }
    if (attr.detached)
        ht_back_end->unwanted(thread);
    *number = ht_number(thread);
    error = create_kernel_thread(thread, attr.stack_size);
    if (error) {
        ht_back_end->ask(DELETE, ht_number(thread), 0, NULL, NULL);
        ht_back_end->drop(thread);
    }
    return error;
}

int hthread_join(hthread_t number, void **value) {
    uint32_t ended_with = 0;
    ht_start();
    if (number >= THREADS)
        return ESRCH;
    hthread_testcancel();
    struct thread *thread = ht_threads + number;
    __atomic_fetch_add(joining + number, 1, __ATOMIC_ACQ_REL);
    int error = ht_back_end->ask(JOIN, number, 0, NULL, &ended_with);
    if (!error && value)
        *value = ended_with == KILLED ? HTHREAD_KILLED : thread->is_hardware ? (void *)(intptr_t)(int32_t)ended_with : thread->result;
    __atomic_fetch_sub(joining + number, 1, __ATOMIC_ACQ_REL);
    if (!error)
        ht_back_end->unwanted(thread);
    return error;
}

int hthread_detach(hthread_t number) {
    ht_start();
    if (number >= THREADS)
        return ESRCH;
    int error = ht_back_end->ask(DETACH, number, 0, NULL, NULL);
    if (!error)
        ht_back_end->unwanted(ht_threads + number);
    return error;
}

int hthread_cancel(hthread_t number) {
    ht_start();
    if (number >= THREADS || !ht_threads[number].is_created)
        return ESRCH;
    struct thread *thread = ht_threads + number;
    if (thread->is_hardware) {
        int error = ht_back_end->stop(thread);
        return error == ESRCH ? 0 : error; /* it has ended by itself */
    }
    __atomic_store_n(&thread->is_cancelled, 1, __ATOMIC_RELEASE);
    return 0;
}

void hthread_testcancel(void) {
    struct thread *self = ht_known();
    if (self && __builtin_expect(__atomic_load_n(&self->is_cancelled, __ATOMIC_ACQUIRE), 0))
        hthread_exit(HTHREAD_KILLED);
}

int hthread_ishardware(hthread_t number) { return number < THREADS && ht_threads[number].is_hardware; }

int hthread_setpriority(hthread_t number, int priority) {
    ht_start();
    if (number >= THREADS)
        return ESRCH;
    return priority < 0 || priority > 255 ? EINVAL : ht_back_end->ask(SET_PRIORITY, number, (uint32_t)priority, NULL, NULL);
}

hthread_t hthread_self(void) {
    ht_start();
    struct thread *self = ht_me();
    return self ? ht_number(self) : UINT32_MAX;
}

int hthread_equal(hthread_t one, hthread_t other) { return one == other; }

int hthread_yield(void) {
    ht_start();
    hthread_testcancel();
    ht_back_end->ask(YIELD, 0, 0, NULL, NULL);
    /* And the kernel runs threads without turns. */
    sched_yield();
    hthread_testcancel();
    return 0;
}

void hthread_exit(void *value) {
    struct thread *self = ht_known();
    if (self)
        ht_end(self, value);
    pthread_exit(NULL);
}
