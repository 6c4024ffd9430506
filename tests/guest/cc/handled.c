/* Signals of a thread that has another half in another kernel: their handlers run at home, wherever the pages are that they need. */
#define _GNU_SOURCE
#include "crossing.h"
#include "expect.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };

/* The frame of a signal begins 600 bytes above a page, and ends below it. */
static _Alignas(PAGE) char stack[PAGES * PAGE];
static volatile sig_atomic_t handled;

/* Takes all pages away from home, and leaves them as they are. */
MOTET_ON(ARM) static long take(volatile char *pages) {
    long sum = 0;
    for (int page = 0; page < PAGES; page++) {
        pages[page * PAGE + 8] += 1;
        sum += pages[page * PAGE + 8];
    }
    return sum;
}

static void count(int signal) {
    (void)signal;
    handled++;
}

static void take_in_handler(int signal) {
    count(signal);
    volatile long kept = 77;
    take(stack);
    EXPECT(kept, 77);
}

static void on_stack_that_is_away(void (*handler)(int)) {
    stack_t alternate = {.ss_sp = stack, .ss_size = (PAGES - 1) * PAGE + 600};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    EXPECT(sigaltstack(&alternate, NULL), 0);
    EXPECT(sigaction(SIGUSR1, &action, NULL), 0);
    EXPECT(sigaction(SIGRTMIN, &action, NULL), 0);
    for (int turn = 0; turn < 20; turn++) {
        int before = handled;
        take(stack);
        EXPECT(raise(SIGUSR1), 0);
        EXPECT(handled, before + 1);
        take(stack);
        EXPECT(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = turn}), 0);
        EXPECT(handled, before + 2);
    }
}

/* The word that comes with a signal is not lost when its handler has to wait. */
static int words_came, sum_of_words;
static void take_word(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    EXPECT(info->si_code, SI_QUEUE);
    EXPECT(info->si_value.sival_int, words_came++);
    sum_of_words += info->si_value.sival_int;
    take(stack);
}

static void words_in_order(void) {
    struct sigaction action = {.sa_sigaction = take_word, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    EXPECT(sigaction(SIGRTMIN, &action, NULL), 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    EXPECT(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    for (int word = 0; word < 5; word++)
        EXPECT(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = word}), 0);
    take(stack);
    EXPECT(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
    EXPECT(words_came, 5);
    EXPECT(sum_of_words, 10);
}

MOTET_ON(ARM) static long many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {
    return a + b + c + d + e + f + g + h + i + 10 * j;
}

/* Another thread's other half takes the page again and again that has the arguments. */
static volatile int stops;
MOTET_ON(ARM) static long hammer(volatile long *word) {
    long times = 0;
    while (!stops) {
        *word += 1;
        times++;
    }
    return times;
}

static void *hammer_at(void *word) {
    hammer(word);
    return NULL;
}

static void arguments_that_are_away(void) {
    volatile long word = 0;
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, hammer_at, (void *)&word), 0);
    while (word == 0)
        ;
    for (long turn = 0; turn < 300; turn++)
        EXPECT(many(1, 2, 3, 4, 5, 6, 7, 8, 9, turn), 45 + 10 * turn);
    stops = 1;
    EXPECT(pthread_join(thread, NULL), 0);
}

int main(void) {
    on_stack_that_is_away(count);
    on_stack_that_is_away(take_in_handler);
    words_in_order();
    arguments_that_are_away();
    if (!wrong)
        puts("handled");
    return wrong;
}
