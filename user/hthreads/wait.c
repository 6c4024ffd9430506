/* Makes requests, and waits for answers. */
#include "internal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The time left until `deadline` of CLOCK_REALTIME. Is there any? */
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

static int futex_wait(uint32_t *word, uint32_t while_it_is, const struct timespec *time) {
    syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, time, NULL, 0);
    return 0;
}

typedef int sleeper(uint32_t *word, uint32_t while_it_is, const struct timespec *time);

static int sleep_by(sleeper *sleep, uint32_t *word, uint32_t while_it_is, const struct timespec *deadline) {
    struct timespec time;
    if (!deadline)
        return sleep(word, while_it_is, NULL);
    if (left(deadline, &time))
        return sleep(word, while_it_is, &time);
    sched_yield();
    return 0;
}

void ht_sleep(uint32_t *word, uint32_t while_it_is, const struct timespec *deadline) { sleep_by(futex_wait, word, while_it_is, deadline); }

void ht_wake(uint32_t *word, int threads) { syscall(SYS_futex, word, FUTEX_WAKE, threads, NULL, NULL, 0); }

/* Sleeps until the answer changes. A change of the answer always changes its upper half. */
static uint64_t __attribute__((noinline)) park(struct thread *self, sleeper *sleep, const struct timespec *deadline) {
    struct window *window = self->window;
    struct timespec time;
    uint64_t answer, sequence = self->sequence;
    int is_over = 0;
    __atomic_store_n(&window->parked, 1, __ATOMIC_RELAXED);
    /* The other side stores the answer and then loads `parked`. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    while (answer = __atomic_load_n(&window->answer, __ATOMIC_ACQUIRE), !ht_is_done(answer, sequence)) {
        /* A request can be withdrawn only after it has been seen. */
        if ((is_over || (deadline && !left(deadline, &time))) && ht_is_seen(answer, sequence)) {
            answer = 0;
            break;
        }
        if (sleep_by(is_over ? futex_wait : sleep, (uint32_t *)&window->answer + 1, (uint32_t)(answer >> 32), deadline))
            is_over = self->gave_up = 1;
    }
    __atomic_store_n(&window->parked, 0, __ATOMIC_RELAXED);
    return answer;
}

static uint64_t await(struct thread *self, unsigned polls, sleeper *sleep, const struct timespec *deadline) {
    struct window *window = self->window;
    uint64_t sequence = self->sequence;
    for (; polls; polls--) {
        uint64_t answer = __atomic_load_n(&window->answer, __ATOMIC_ACQUIRE);
        if (ht_is_done(answer, sequence))
            return answer;
    }
    return park(self, sleep, deadline);
}

uint64_t ht_await(struct thread *self, unsigned polls, const struct timespec *deadline) {
    return await(self, polls, futex_wait, deadline);
}

int ht_request(struct thread *self, uint64_t word, const struct way *way, unsigned where, const struct timespec *deadline,
               uint32_t *value) {
    __atomic_store_n(&self->window->request, ht_next(self) | word, __ATOMIC_RELEASE);
    way->deliver(self, where);
    int may_give_up = self->sleep && (word >> 48 & 0xff) == CONDITION_WAIT;
    uint64_t answer = await(self, way->polls, may_give_up ? self->sleep : futex_wait, deadline);
    if (!answer) {
        /* The wait may have ended in the meantime. The answer says so. */
        __atomic_store_n(&self->window->request, ht_next(self) | ht_word(WITHDRAW, 0, 0), __ATOMIC_RELEASE);
        way->deliver(self, where);
        answer = ht_await(self, way->polls, NULL);
    }
    if (value)
        *value = (uint32_t)answer;
    return ht_code(answer);
}
