/* Jumps (longjmp) out of functions of other instruction sets, and over calls in between: the frames that they leave are given back. With a
 * number: so many rounds of the last part. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <unistd.h>

#include "crossing.h"

enum { ISAS = 3, DEPTH = 7 };
static const char *const names[] = {X86, ARM, RISCV};

/* A function of each instruction set that does `work`. */
typedef long work_t(void *with);
MOTET_ON(X86) long on_x86(work_t *work, void *with) { expect_on(X86); return work(with) + 1; }
MOTET_ON(ARM) long on_arm(work_t *work, void *with) { expect_on(ARM); return work(with) + 2; }
MOTET_ON(RISCV) long on_riscv(work_t *work, void *with) { expect_on(RISCV); return work(with) + 4; }
static long (*const on[])(work_t *, void *) = {on_x86, on_arm, on_riscv};

/* A jump from each to each. */
struct jump {
    jmp_buf back;
    int from, to, value;
};
static long jumps(void *with) {
    struct jump *jump = with;
    longjmp(jump->back, jump->value);
}
static long waits(void *with) {
    struct jump *jump = with;
    double kept = jump->to + 0.25;
    int value = setjmp(jump->back);
    if (value == 0)
        on[jump->from](jumps, jump);
    expect_on(names[jump->to]);
    return (long)(kept * 4) * 100 + value * 10;
}

/* Through a chain of calls, from its end to the place with a number, and from there on once more. */
struct chain {
    jmp_buf places[DEPTH];
    volatile int reached[DEPTH];
    int depth, target;
};
static int isa_at(int depth) { return depth * depth % ISAS; } /* 0 1 1 0 1 1 0 */
static long links(void *with) {
    struct chain *chain = with;
    int depth = chain->depth++;
    if (depth == DEPTH)
        longjmp(chain->places[chain->target], depth);
    if (setjmp(chain->places[depth]) != 0) {
        expect_on(names[isa_at(depth)]);
        chain->reached[depth] += 10;
        return depth;
    }
    chain->reached[depth]++;
    long result = on[isa_at(depth + 1)](links, chain);
    chain->reached[depth] += 100;
    return result;
}

/* Out of signal handlers, while the thread is on each instruction set. */
static sigjmp_buf escape;
static volatile sig_atomic_t handled;
static void handler(int number) { handled += number; siglongjmp(escape, 3); }
static long raises(void *with) { (void)with; raise(SIGUSR1); return 1; }
static long spins(void *with) {
    struct itimerval soon = {{0, 0}, {0, 3000}};
    (void)with;
    setitimer(ITIMER_REAL, &soon, 0);
    for (volatile long count = 0;; count++)
        ;
}
static long handler_calls(void *with) { (void)with; siglongjmp(escape, 4); }
static void calls_in_handler(int number) { handled += number; on_arm(handler_calls, 0); }
static void escapes(const char *how, int number, void (*act)(int), int flags, work_t *work) {
    struct sigaction action = {.sa_handler = act, .sa_flags = flags};
    sigset_t mask;
    sigaction(number, &action, 0);
    for (int isa = 0; isa < ISAS; isa++) {
        volatile int times = 0;
        handled = 0;
        int value = sigsetjmp(escape, 1);
        expect_on(X86);
        if (times++ < 2)
            on[isa](work, 0);
        sigprocmask(SIG_BLOCK, 0, &mask);
        printf("%s on %s: %d, handled %d, blocked %d\n", how, names[isa], value, handled / number, sigismember(&mask, number));
    }
}

/* A jump within a function's instruction set ends no call. */
static jmp_buf within;
__attribute__((noinline)) static void jump_within(void) { longjmp(within, 5); }
static long stays(void *with) {
    int value = setjmp(within);
    if (value == 0)
        jump_within();
    return value + *(long *)with;
}

/* Threads that all jump. */
static void *in_thread(void *result) {
    long sum = 0;
    for (int round = 0; round < 20; round++) {
        struct jump jump = {.from = 1 + round % 2, .to = 2 - round % 2, .value = 1 + round % 3};
        sum += on[jump.to](waits, &jump);
    }
    *(long *)result = sum;
    return 0;
}

/* Rounds without growth: of stacks, where a function of each instruction set finds itself at the same place each time, and of the machine's memory. */
static uintptr_t places[ISAS];
static long round_at(void *with) {
    struct chain *chain = with;
    char here;
    int isa = chain->depth % ISAS;
    if (places[isa] == 0)
        places[isa] = (uintptr_t)&here;
    if (places[isa] != (uintptr_t)&here) {
        printf("a stack has grown\n");
        exit(1);
    }
    if (++chain->depth < ISAS)
        return on[chain->depth](round_at, chain);
    longjmp(chain->places[0], 1);
}
static long free_memory(void) {
    struct sysinfo info;
    return sysinfo(&info) == 0 && motet_island() >= 0 ? (long)(info.freeram * info.mem_unit) : 0;
}
static void rounds(long count) {
    static struct chain chain;
    for (volatile long round = 0; round < count; round++) {
        chain.depth = 1;
        if (setjmp(chain.places[0]) == 0)
            on[1](round_at, &chain);
    }
}

int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IONBF, 0);
    for (int to = 0; to < ISAS; to++)
        for (int from = 0; from < ISAS; from++) {
            struct jump jump = {.from = from, .to = to, .value = 1 + from};
            printf("from %s to %s: %ld\n", names[from], names[to], on[to](waits, &jump));
        }
    for (int target = 0; target < DEPTH; target++) {
        struct chain chain = {.target = target};
        long result = on[isa_at(0)](links, &chain);
        printf("to place %d: %ld,", target, result);
        for (int depth = 0; depth < DEPTH; depth++)
            printf(" %d", chain.reached[depth]);
        printf("\n");
    }

    static char other_stack[65536];
    stack_t other = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    escapes("raised", SIGUSR1, handler, 0, raises);
    escapes("interrupted", SIGALRM, handler, 0, spins);
    escapes("handler calls", SIGUSR1, calls_in_handler, 0, raises);
    sigaltstack(&other, 0);
    escapes("raised, other stack", SIGUSR1, handler, SA_ONSTACK, raises);
    escapes("interrupted, other stack", SIGALRM, handler, SA_ONSTACK, spins);
    escapes("other stack, handler calls", SIGUSR1, calls_in_handler, SA_ONSTACK, raises);

    long with = 100;
    for (int isa = 0; isa < ISAS; isa++)
        printf("within %s: %ld\n", names[isa], on[isa](stays, &with));

    pthread_t threads[4];
    long results[4];
    for (int index = 0; index < 4; index++)
        pthread_create(&threads[index], 0, in_thread, &results[index]);
    for (int index = 0; index < 4; index++) {
        pthread_join(threads[index], 0);
        printf("thread: %ld\n", results[index]);
    }

    long count = argc > 1 ? atol(argv[1]) : 1500;
    rounds(100);
    /* Others of the machine use memory, too, but not each time. */
    long least = 1L << 40;
    for (int time = 0; time < 4 && least > 100000; time++) {
        long before = free_memory();
        rounds(count);
        long grown = before - free_memory();
        least = grown < least ? grown : least;
    }
    printf("%s\n", least > 100000 ? "memory has grown" : "no growth");
    return 0;
}
