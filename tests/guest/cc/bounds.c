/* How far stacks grow, by RLIMIT_STACK, and arguments, by the same limit. The output is the same on the host. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

enum { PAGE = 4096, KIB = 1024, MIB = 1024 * KIB };

/* --- Stacks --- */

static volatile long deepest;
static char *top, alternate[64 * KIB];
static long limit_len;

static void full(int signal) {
    (void)signal;
    int is_right = deepest <= limit_len && deepest > limit_len - limit_len / 8 - 32 * KIB;
    if (is_right) printf("as far as the limit\n"); else printf("only %ld KiB\n", deepest / KIB);
    _exit(0);
}

static long recurse(long len) {
    volatile char frame[PAGE / 2];
    frame[0] = len;
    deepest = top - (char *)frame;
    if (deepest >= len) return deepest;
    return recurse(len) + frame[0] * 0;
}

/* Uses the stack until it is full, or long enough. */
static void deepen(long most) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    struct sigaction action = {.sa_handler = full, .sa_flags = SA_ONSTACK};
    struct rlimit limit;
    char here;
    top = &here;
    getrlimit(RLIMIT_STACK, &limit);
    limit_len = limit.rlim_cur == RLIM_INFINITY ? LONG_MAX : (long)limit.rlim_cur;
    sigaltstack(&stack, 0);
    sigaction(SIGSEGV, &action, 0);
    recurse(most);
    printf("%ld MiB and more\n", most / MIB);
    _exit(0);
}

static void limit_stack(long kib) {
    struct rlimit limit = {kib < 0 ? RLIM_INFINITY : (rlim_t)kib * KIB, RLIM_INFINITY};
    if (setrlimit(RLIMIT_STACK, &limit) != 0) printf("setrlimit: %s\n", strerror(errno));
}

static void wait_for(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) printf("status %x\n", status);
}

static void stacks(void) {
    static const long limits[] = {512, 3 * KIB, 16 * KIB, 100 * KIB, -1};
    char *const arguments[] = {"bounds", "deep", 0};
    for (int i = 0; i < 5; i++) {
        printf("%ld KiB, executed: ", limits[i]);
        pid_t child = fork();
        if (child == 0) {
            limit_stack(limits[i]);
            execv("/proc/self/exe", arguments);
        }
        wait_for(child);
    }
    printf("lowered: ");
    pid_t child = fork();
    if (child == 0) { limit_stack(2 * KIB); deepen(40L * MIB); }
    wait_for(child);
    printf("raised: ");
    if ((child = fork()) == 0) { limit_stack(16 * KIB); deepen(40L * MIB); }
    wait_for(child);
}

/* --- Arguments: a quarter of it, from 128 KiB to 6 MiB --- */

static void arguments(long stack_kib, long len_kib) {
    enum { ONE = 64 * KIB };
    static char text[ONE];
    char *strings[130] = {"bounds", "nothing"}, *none[] = {0};
    memset(text, 'a', ONE - 1);
    for (int i = 0; i < len_kib / 64 && i < 120; i++)
        strings[2 + i] = text;
    printf("%ld KiB of arguments with %ld KiB: ", len_kib, stack_kib);
    pid_t child = fork();
    if (child == 0) {
        limit_stack(stack_kib);
        execve("/proc/self/exe", strings, none);
        printf("%s\n", strerror(errno));
        _exit(0);
    }
    wait_for(child);
}

int main(int count, char **strings) {
    setvbuf(stdout, 0, _IONBF, 0);
    if (count > 1 && strcmp(strings[1], "deep") == 0) deepen(40L * MIB);
    if (count > 1) {
        printf("%d strings\n", count);
        return 0;
    }
    stacks();
    arguments(1 * KIB, 192);
    arguments(1 * KIB, 320);
    arguments(256, 64);
    arguments(256, 192);
    arguments(8 * KIB, 1920);
    arguments(8 * KIB, 2112);
    arguments(-1, 5952);
    arguments(-1, 6208);
    return 0;
}
