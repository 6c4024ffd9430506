/* Requests and answers, and waiting for them. */
#include "internal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Until `deadline` of CLOCK_REALTIME. */
static int left(const struct timespec *deadline, struct timespec *left) {
    clock_gettime(CLOCK_REALTIME, left);
    left->tv_sec = deadline->tv_sec - left->tv_sec;
    left->tv_nsec = deadline->tv_nsec - left->tv_nsec;
    if (left->tv_nsec < 0) {
        left->tv_nsec += 1000000000;
        left->tv_sec--;
    }
    return left->tv_sec >= 0;
}

void ht_sleep(uint32_t *word, uint32_t while_it_is, const struct timespec *deadline) {
    struct timespec time;
    if (!deadline)
        syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, NULL, NULL, 0);
    else if (!left(deadline, &time))
        sched_yield();
    else
        syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, &time, NULL, 0);
}

void ht_wake(uint32_t *word, int threads) { syscall(SYS_futex, word, FUTEX_WAKE, threads, NULL, NULL, 0); }

/* Sleeps until the answer changes, which the upper half does. */
static uint64_t __attribute__((noinline)) park(struct window *window, uint64_t sequence, const struct timespec *deadline) {
    struct timespec time;
    uint64_t answer;
    __atomic_store_n(&window->parked, 1, __ATOMIC_RELAXED);
    /* Who answers stores the answer and then looks at `parked`. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (answer = __atomic_load_n(&window->answer, __ATOMIC_ACQUIRE), !ht_is_done(answer, sequence)) {
        /* A request can be withdrawn when it has been seen. */
        if (deadline && !left(deadline, &time) && ht_is_seen(answer, sequence)) {
            answer = 0;
            break;
        }
        ht_sleep((uint32_t *)&window->answer + 1, (uint32_t)(answer >> 32), deadline);
    }
    __atomic_store_n(&window->parked, 0, __ATOMIC_RELAXED);
    return answer;
}

uint64_t ht_await(struct thread *self, unsigned polls, const struct timespec *deadline) {
    struct window *window = self->window;
    uint64_t sequence = self->sequence;
    for (; polls; polls--) {
        uint64_t answer = __atomic_load_n(&window->answer, __ATOMIC_ACQUIRE);
        if (ht_is_done(answer, sequence))
            return answer;
    }
    return park(window, sequence, deadline);
}

int ht_request(struct thread *self, uint64_t word, const struct way *way, unsigned where, const struct timespec *deadline,
               uint32_t *value) {
    __atomic_store_n(&self->window->request, ht_next(self) | word, __ATOMIC_RELEASE);
    way->deliver(self, where);
    uint64_t answer = ht_await(self, way->polls, deadline);
    if (!answer) {
        /* It may have come in the meantime: the answer says. */
        __atomic_store_n(&self->window->request, ht_next(self) | ht_word(WITHDRAW, 0, 0), __ATOMIC_RELEASE);
        way->deliver(self, where);
        answer = ht_await(self, way->polls, NULL);
    }
    if (value)
        *value = (uint32_t)answer;
    return ht_code(answer);
}
