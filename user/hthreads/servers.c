/* The back ends `rpc` and `software`: servers that are asked by interrupts. The requester stores its request in its slot, interrupts the
 * server, and polls for the answer; the server, asleep while nothing is asked, loads the request, does it on its tables, and
 * stores the answer. With `rpc`, one master serves everybody, as a monolithic kernel that other cores call; with `software`, several
 * servers have a part of the objects each, by their numbers, as those of a microkernel.
 *
 * rpc[@CPU]   software[:SERVERS][@CPU,CPU,...]   the cores that they are on; otherwise the first ones of the program */
#include "tables.h"

#include <stdio.h>
#include <string.h>

enum { SERVERS_MAX = 64, POLLS = 4000 };

static struct server {
    uint32_t inbox; /* the request that came last, 1 + its thread; 0: none. It goes on with `next_asking` */
    uint32_t sleeps;
    int cpu;
    struct service service;
} __attribute__((aligned(128))) servers[SERVERS_MAX];

static unsigned server_count;
static int are_lost; /* in a child, whose threads they are not */

/* Requests in the order in which they came. */
static struct thread *in_order(uint32_t last) {
    uint32_t first = 0;
    while (last) {
        struct thread *thread = ht_threads + (last - 1);
        uint32_t before = thread->next_asking;
        thread->next_asking = first;
        (first = last, last = before);
    }
    return first ? ht_threads + (first - 1) : NULL;
}

static void *serve(void *server_word) {
    struct server *server = server_word;
    for (;;) {
        uint32_t asked = __atomic_exchange_n(&server->inbox, 0, __ATOMIC_ACQUIRE);
        if (!asked) {
            __atomic_store_n(&server->sleeps, 1, __ATOMIC_SEQ_CST);
            if (__atomic_load_n(&server->inbox, __ATOMIC_SEQ_CST) == 0)
                ht_sleep(&server->inbox, 0, NULL);
            __atomic_store_n(&server->sleeps, 0, __ATOMIC_RELAXED);
            continue;
        }
        for (struct thread *thread = in_order(asked), *next; thread; thread = next) {
            /* Who is answered may ask again at once. */
            next = thread->next_asking ? ht_threads + (thread->next_asking - 1) : NULL;
            ht_serve(&server->service, thread);
        }
    }
    return NULL;
}

static void deliver(struct thread *self, unsigned where) {
    struct server *server = servers + where;
    uint32_t last = __atomic_load_n(&server->inbox, __ATOMIC_RELAXED);
    do
        self->next_asking = last;
    while (!__atomic_compare_exchange_n(&server->inbox, &last, ht_number(self) + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    /* A server that is awake looks again before it sleeps. */
    if (last == 0 && __atomic_load_n(&server->sleeps, __ATOMIC_SEQ_CST))
        ht_wake(&server->inbox, 1);
}

static const struct way by_interrupt = {deliver, POLLS};

/* The server that has what a request is about. */
static unsigned server_of(const struct thread *self, enum operation operation, unsigned object, uint32_t argument) {
    static uint32_t created;
    uint32_t number = object;
    switch (operation) {
    case MUTEX_CREATE: case CONDITION_CREATE: case BARRIER_CREATE: number = __atomic_fetch_add(&created, 1, __ATOMIC_RELAXED); break;
    case CONDITION_WAIT: number = argument; break;
    case SIGNAL: case BROADCAST: case CONDITION_DESTROY: {
        /* Where its waiters are. */
        uint32_t mutex = object < CONDITIONS ? __atomic_load_n(&ht_conditions[object].mutex, __ATOMIC_ACQUIRE) : 0;
        number = mutex ? mutex - 1 : object;
        break;
    }
    case START: case EXIT: number = ht_number(self); break;
    default: break;
    }
    return number % server_count;
}

static int ask(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value) {
    struct thread *self = ht_me();
    if (!self)
        return EAGAIN;
    if (are_lost)
        return ENOSYS;
    if (operation == YIELD || operation == SLOTS)
        return 0;
    uint64_t word = ht_word(operation, object, argument);
    unsigned where = server_of(self, operation, object, argument);
    /* What a thread that ends has is with all of them; the one that tells its end is the last to hear of it. */
    for (unsigned other = 0; operation == EXIT && other < server_count; other++)
        if (other != where)
            ht_request(self, word, &by_interrupt, other, NULL, NULL);
    return ht_request(self, word, &by_interrupt, where, deadline, value);
}

static int ask_mutex(enum operation operation, uint32_t mutex) {
    struct thread *self = ht_me();
    if (!self || are_lost)
        return self ? ENOSYS : EAGAIN;
    return ht_request(self, ht_word(operation, mutex, 0), &by_interrupt, mutex % server_count, NULL, NULL);
}

static int lock(uint32_t mutex) { return ask_mutex(LOCK, mutex); }
static int try_lock(uint32_t mutex) { return ask_mutex(TRY_LOCK, mutex); }
static int unlock(uint32_t mutex) { return ask_mutex(UNLOCK, mutex); }

/* The core with a place among those that the program can use, in turn. */
static int nth_cpu(unsigned place) {
    unsigned islands = ht_usable_islands(), all = 0;
    for (int round = 0; round < 2; round++) {
        for (int island = 0; island < ISLANDS; island++)
            for (int cpu = 0; islands >> island & 1 && cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &ht_islands[island].cpus) && all++ == place)
                    return cpu;
        if (!all)
            break;
        (place %= all, all = 0);
    }
    return -1;
}

/* ":SERVERS@CPU,CPU,..." Gives 0, or EINVAL. */
static int parse(const char *words, unsigned count) {
    char *end = (char *)words;
    if (*words == ':') {
        count = (unsigned)strtoul(words + 1, &end, 10);
        if (end == words + 1)
            return EINVAL;
    }
    if (count == 0 || count > SERVERS_MAX)
        return EINVAL;
    server_count = count;
    for (unsigned i = 0; i < count; i++)
        servers[i].cpu = nth_cpu(i);
    for (unsigned i = 0; *end == (i ? ',' : '@') && i < count; i++) {
        const char *number = end + 1;
        servers[i].cpu = (int)strtoul(number, &end, 10);
        if (end == number || servers[i].cpu >= CPU_SETSIZE)
            return EINVAL;
    }
    return *end ? EINVAL : 0;
}

static int island_of(int cpu) {
    for (int island = 0; island < ISLANDS; island++)
        if (cpu >= 0 && CPU_ISSET(cpu, &ht_islands[island].cpus))
            return ht_usable_islands() >> island & 1 ? island : -1;
    return -1;
}

static void *go_and_serve(void *server_word) {
    struct server *server = server_word;
    return ht_run_on(island_of(server->cpu), server->cpu, serve, server);
}

static void forked(void) { are_lost = 1; }

static int start_servers(void) {
    for (unsigned i = 0; i < server_count; i++) {
        pthread_t kernel_thread;
        servers[i].service = (struct service){.first = i, .step = server_count};
        if (island_of(servers[i].cpu) < 0)
            return ENODEV;
        int error = pthread_create(&kernel_thread, NULL, go_and_serve, servers + i);
        if (error)
            return error;
        pthread_detach(kernel_thread);
    }
    return pthread_atfork(NULL, NULL, forked);
}

static int open_rpc(const char *words) {
    int error = *words == ':' ? EINVAL : parse(words, 1);
    return error ? error : start_servers();
}

static int open_software(const char *words) {
    int error = parse(words, 4);
    return error ? error : start_servers();
}

#define BACK_END(back_end_name, opens)                                                                                 \
    {                                                                                                                  \
        .name = back_end_name, .lock = lock, .try_lock = try_lock, .unlock = unlock, .ask = ask,                       \
        .make = ht_make_thread, .enter = ht_enter_thread, .drop = ht_drop_thread, .gone = ht_thread_gone,              \
        .unwanted = ht_thread_unwanted, .open = opens,                                                                 \
    }

const struct back_end ht_rpc = BACK_END("rpc", open_rpc);
const struct back_end ht_software = BACK_END("software", open_software);
