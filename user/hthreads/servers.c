/* The back ends `rpc` and `software`: servers that are called by interrupts. The requester stores its request in its slot, interrupts the
 * server, and polls for the answer. The server sleeps while there are no requests. It loads the request, executes it on its tables, and stores the
 * answer. With `rpc`, one master serves all threads, as a monolithic kernel that other cores call. With `software`, there are several servers, as
 * those of a microkernel; each has a part of the objects, by their numbers.
 *
 * rpc[:awake][@CPU]   software[:SERVERS][:awake][@CPU,CPU,...]
 *
 * CPU: the servers' cores; by default the first ones of the program. `awake`: a server serves all requests that have come before it sleeps, and is
 * interrupted only when it sleeps. Otherwise each request is an interrupt. */
#include "tables.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { SERVERS_MAX = 64, POLLS = 4000 };

/* The words that a server polls, in its own pages. They are accessed by plain loads and stores, because cores may have no atomic instruction in
 * common. */
struct desk {
    uint32_t doorbell; /* changes with each request: the number of the ringing thread, and how often it has rung */
    uint32_t sleeps;   /* 1: it must be interrupted */
    uint32_t next;     /* the thread whose turn it is */
    uint32_t zero;     /* always */
    uint8_t has_asked[THREADS] __attribute__((aligned(64))); /* by thread: 1 from its request until the server begins it */
};

static struct server {
    struct desk *desk; /* NULL: it is not ready yet */
    int cpu;
    struct service service;
} servers[SERVERS_MAX];

static unsigned server_count;
static uint32_t are_ready; /* servers */
static uint32_t threads_used; /* higher numbers have not been used yet */
static int may_be_awake;     /* servers serve all that has come before they sleep */
static int are_lost; /* in a child process: the servers are its parent's threads */

enum { NOBODY = THREADS };

/* The first thread from `from` on that has a request. */
static uint32_t find(const struct desk *desk, uint32_t from, uint32_t used) {
    for (uint32_t first = from & ~7u; first < used; first += 8) {
        uint64_t eight = __atomic_load_n((const uint64_t *)(const void *)(desk->has_asked + first), __ATOMIC_ACQUIRE);
        if (first < from)
            eight &= ~(uint64_t)0 << 8 * (from - first);
        if (eight)
            return first + (uint32_t)__builtin_ctzll(eight) / 8;
    }
    return NOBODY;
}

/* Serves the next thread that has a request. Was there one? */
static int serve_one(const struct service *service, struct desk *desk) {
    uint32_t used = __atomic_load_n(&threads_used, __ATOMIC_RELAXED), thread = find(desk, desk->next, used);
    if (thread == NOBODY)
        thread = find(desk, 0, used);
    if (thread == NOBODY)
        return 0;
    desk->next = thread + 1;
    /* An answered thread may make its next request at once. */
    __atomic_store_n(desk->has_asked + thread, 0, __ATOMIC_RELAXED);
    ht_serve(service, thread);
    return 1;
}

/* Serves until there are no requests, and sleeps until the next one. */
static void serve_awake(const struct service *service, struct desk *desk) {
    uint32_t rung = __atomic_load_n(&desk->doorbell, __ATOMIC_ACQUIRE);
    if (serve_one(service, desk))
        return;
    __atomic_store_n(&desk->sleeps, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!serve_one(service, desk))
        ht_sleep(&desk->doorbell, rung, NULL);
    __atomic_store_n(&desk->sleeps, 0, __ATOMIC_RELAXED);
}

/* Serves one request for each interrupt. A request that comes meanwhile is served after the server has left and entered the kernel. */
static void serve_interrupt(const struct service *service, struct desk *desk) {
    uint32_t rung = __atomic_load_n(&desk->doorbell, __ATOMIC_ACQUIRE), used = __atomic_load_n(&threads_used, __ATOMIC_RELAXED);
    if (serve_one(service, desk) && find(desk, 0, used) != NOBODY)
        ht_sleep(&desk->zero, 1, NULL); /* comes back at once */
    else
        ht_sleep(&desk->doorbell, rung, NULL);
}

static void *serve(void *server_word) {
    struct server *server = server_word;
    const struct service service = server->service;
    struct desk *desk = mmap(NULL, sizeof *desk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (desk == MAP_FAILED)
        abort();
    /* Its pages do not exist yet: touching them here allocates them near this core. */
    memset(desk, 0, sizeof *desk);
    desk->sleeps = !may_be_awake;
    ht_touch_tables(&service);
    __atomic_store_n(&server->desk, desk, __ATOMIC_RELEASE);
    __atomic_fetch_add(&are_ready, 1, __ATOMIC_ACQ_REL);
    ht_wake(&are_ready, 1);
    for (;;)
        (may_be_awake ? serve_awake : serve_interrupt)(&service, desk);
    return NULL;
}

static void deliver(struct thread *self, unsigned where) {
    struct desk *desk = servers[where].desk;
    uint32_t number = ht_number(self);
    self->doorbell += THREADS;
    __atomic_store_n(desk->has_asked + number, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&desk->doorbell, self->doorbell | number, __ATOMIC_RELEASE);
    /* A server that may be awake looks again before it sleeps. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&desk->sleeps, __ATOMIC_RELAXED))
        ht_wake(&desk->doorbell, 1);
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
        /* A condition variable's waiting threads are with the server of their mutex. */
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
    /* All servers may have objects of a thread that ends. The server that reports its end is called last. */
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

/* The core number `place` (counted round and round) of those that the program can use. */
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

/* Parses ":SERVERS:awake@CPU,CPU,...". 0, or EINVAL. */
static int parse(const char *words, unsigned count) {
    char *end = (char *)words;
    if (*words == ':' && words[1] != 'a') {
        count = (unsigned)strtoul(words + 1, &end, 10);
        if (end == words + 1)
            return EINVAL;
    }
    may_be_awake = strncmp(end, ":awake", 6) == 0;
    end += may_be_awake ? 6 : 0;
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
            return ENXIO;
        int error = pthread_create(&kernel_thread, NULL, go_and_serve, servers + i);
        if (error)
            return error;
        pthread_detach(kernel_thread);
    }
    for (uint32_t ready; (ready = __atomic_load_n(&are_ready, __ATOMIC_ACQUIRE)) < server_count;)
        ht_sleep(&are_ready, ready, NULL);
    return pthread_atfork(NULL, NULL, forked);
}

static struct thread *make(void) {
    struct thread *thread = ht_make_thread();
    uint32_t used = __atomic_load_n(&threads_used, __ATOMIC_RELAXED);
    while (thread && used <= ht_number(thread) &&
           !__atomic_compare_exchange_n(&threads_used, &used, ht_number(thread) + 1, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return thread;
}

static int open_rpc(const char *words) {
    int error = parse(words, 1);
    return error ? error : server_count != 1 ? EINVAL : start_servers();
}

static int open_software(const char *words) {
    int error = parse(words, 4);
    return error ? error : start_servers();
}

#define BACK_END(back_end_name, opens)                                                                                 \
    {                                                                                                                  \
        .name = back_end_name, .lock = lock, .try_lock = try_lock, .unlock = unlock, .ask = ask,                       \
        .make = make, .enter = ht_enter_thread, .drop = ht_drop_thread, .gone = ht_thread_gone,              \
        .unwanted = ht_thread_unwanted, .open = opens,                                                                 \
    }

const struct back_end ht_rpc = BACK_END("rpc", open_rpc);
const struct back_end ht_software = BACK_END("software", open_software);
