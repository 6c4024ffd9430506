/* Threads are cancelled while they wait, on any instruction set, by a thread on any other one; and threads end, by themselves or cancelled, in the innermost of
 * calls over all instruction sets, each of which has a handler to clean up. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "crossing.h"

static int ends[2];
static atomic_int waits;
static int cleaned;
static const char *const names[] = {X86, ARM, RISCV};

static void wait_for_ever(void) {
    char letter;
    waits = 1;
    if (read(ends[0], &letter, 1) >= 0)
        printf("read\n");
}
MOTET_ON(X86) void wait_on_x86(void) { expect_on(X86); wait_for_ever(); }
MOTET_ON(ARM) void wait_on_arm(void) { expect_on(ARM); wait_for_ever(); }
MOTET_ON(RISCV) void wait_on_riscv(void) { expect_on(RISCV); wait_for_ever(); }

MOTET_ON(ARM) void clean(void *by) { expect_on(ARM); cleaned += *(int *)by; }
MOTET_ON(RISCV) void clean_more(void *by) { expect_on(RISCV); cleaned += *(int *)by; }

static void *work(void *wait_there) {
    int one = 1, ten = 10;
    pthread_cleanup_push(clean, &one);
    pthread_cleanup_push(clean_more, &ten);
    (*(void (*const *)(void))wait_there)();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return 0;
}

MOTET_ON(X86) int cancel_on_x86(pthread_t thread) { expect_on(X86); return pthread_cancel(thread); }
MOTET_ON(ARM) int cancel_on_arm(pthread_t thread) { expect_on(ARM); return pthread_cancel(thread); }
MOTET_ON(RISCV) int cancel_on_riscv(pthread_t thread) { expect_on(RISCV); return pthread_cancel(thread); }

/* Calls further ones until the depth is reached. */
struct end {
    int depth, is_cancelled;
};
static void deeper(struct end *end, const char *isa);
MOTET_ON(X86) void deeper_on_x86(struct end *end) { expect_on(X86); deeper(end, "x86"); }
MOTET_ON(ARM) void deeper_on_arm(struct end *end) { expect_on(ARM); deeper(end, "arm"); }
MOTET_ON(RISCV) void deeper_on_riscv(struct end *end) { expect_on(RISCV); deeper(end, "riscv"); }
static void (*const further[])(struct end *) = {deeper_on_x86, deeper_on_arm, deeper_on_riscv};
static char order[200];
static atomic_int noted;
static void note(void *isa) { strcat(strcat(order, " "), isa), noted++; }
static void deeper(struct end *end, const char *isa) {
    pthread_cleanup_push(note, (void *)isa);
    if (end->depth-- > 0)
        further[end->depth % 3](end);
    else if (end->is_cancelled)
        wait_for_ever();
    else
        pthread_exit(end);
    pthread_cleanup_pop(0);
}
static void *begin(void *end) {
    deeper(end, "begin");
    return 0;
}
static void *begin_detached(void *end) {
    pthread_detach(pthread_self());
    return begin(end);
}

static void ends_deep(int depth, int is_cancelled) {
    pthread_t thread;
    void *result = 0;
    struct end end = {depth, is_cancelled};
    order[0] = waits = 0;
    pthread_create(&thread, 0, begin, &end);
    while (is_cancelled && !waits)
        usleep(1000);
    if (is_cancelled)
        pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%d %s:%s, %d\n", depth, is_cancelled ? "cancelled" : "exits", order, result == (is_cancelled ? PTHREAD_CANCELED : &end));
}

int main(void) {
    static void (*const wait_on[])(void) = {wait_on_x86, wait_on_arm, wait_on_riscv};
    static int (*const cancel_on[])(pthread_t) = {cancel_on_x86, cancel_on_arm, cancel_on_riscv};
    if (pipe(ends) != 0)
        return 1;
    for (int index = 0; index < 9; index++) {
        pthread_t thread;
        void *result = 0;
        struct timespec until;
        waits = cleaned = 0;
        pthread_create(&thread, 0, work, (void *)&wait_on[index / 3]);
        while (!waits)
            usleep(1000);
        usleep(10000); /* it is in the system call by now, most likely */
        int failed = cancel_on[index % 3](thread);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 100;
        failed |= pthread_timedjoin_np(thread, &result, &until);
        printf("%s by %s: %d %d %d\n", names[index / 3], names[index % 3], failed, result == PTHREAD_CANCELED, cleaned);
    }
    for (int depth = 0; depth < 7; depth++) {
        ends_deep(depth, 0);
        ends_deep(depth, 1);
    }
    static struct end ends_itself = {5, 0};
    pthread_t thread;
    order[0] = noted = 0;
    pthread_create(&thread, 0, begin_detached, &ends_itself);
    while (noted != 6) usleep(1000);
    printf("detached:%s\n", order);
    return 0;
}
