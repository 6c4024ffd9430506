/* Thread numbers, for back ends that keep their objects in the process's memory. A number is free again when its kernel thread makes no more requests
 * and the thread will not be joined. */
#include "tables.h"

enum { GONE = 1, UNWANTED = 2 };

static uint64_t used[THREADS / 64];

static int take_number(void) {
    for (unsigned word = 0; word < THREADS / 64; word++) {
        uint64_t bits = __atomic_load_n(used + word, __ATOMIC_RELAXED);
        while (~bits != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(~bits);
            if (__atomic_compare_exchange_n(used + word, &bits, bits | (uint64_t)1 << bit, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
                return (int)(word * 64 + bit);
        }
    }
    return -1;
}

struct thread *ht_make_thread(void) {
    int number = take_number();
    if (number < 0)
        return NULL;
    /* The count of rings goes on with the next thread of this number: servers must see each ring as a new one. */
    uint32_t doorbell = ht_threads[number].doorbell;
    ht_threads[number] = (struct thread){.window = &ht_threads[number].own, .sequence = SEQUENCE_FIRST, .doorbell = doorbell};
    ht_clients[number] = (struct client){.priority = HTHREAD_PRIORITY_DEFAULT};
    return ht_threads + number;
}

/* A thread that was not created cannot be joined. */
int ht_enter_thread(struct thread *thread) {
    struct client *client = ht_clients + ht_number(thread);
    if (!thread->is_created)
        (thread->life = UNWANTED, client->is_detached = 1, client->state = NOT_CREATED);
    return 0;
}

void ht_drop_thread(struct thread *thread) {
    uint32_t number = ht_number(thread);
    __atomic_store_n(&ht_clients[number].state, 0, __ATOMIC_RELAXED);
    __atomic_fetch_and(used + number / 64, ~((uint64_t)1 << number % 64), __ATOMIC_RELEASE);
}

static void end(struct thread *thread, uint32_t why) {
    uint32_t before = __atomic_fetch_or(&thread->life, why, __ATOMIC_ACQ_REL);
    if (before != (GONE | UNWANTED) && (before | why) == (GONE | UNWANTED))
        ht_drop_thread(thread);
}

void ht_thread_gone(struct thread *thread) { end(thread, GONE); }
void ht_thread_unwanted(struct thread *thread) { end(thread, UNWANTED); }
