/*
 * How far stacks grow, by RLIMIT_STACK; arguments, by the same limit; and mappings that are obviously larger than all memory. The output is the
 * same on the host.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

enum { PAGE = 4096, KIB = 1024, MIB = 1024 * KIB };
static const size_t TOO_LONG = (size_t)20 << 40, LONG = (size_t)1 << 20;

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

/* --- Mappings --- */

static char *map(size_t len, int protection, int flags) { return mmap(0, len, protection, flags | MAP_ANONYMOUS, -1, 0); }

static void tell(const char *what, void *mapping) {
    printf("%s: %s\n", what, mapping == MAP_FAILED ? strerror(errno) : "done");
}

static void forget(const char *what, char *mapping, size_t len) {
    tell(what, mapping);
    if (mapping != MAP_FAILED) munmap(mapping, len);
}

static void mappings(void) {
    enum { BOTH = PROT_READ | PROT_WRITE };
    forget("private", map(TOO_LONG, BOTH, MAP_PRIVATE), TOO_LONG);
    forget("only writable", map(TOO_LONG, PROT_WRITE, MAP_PRIVATE), TOO_LONG);
    forget("shared", map(TOO_LONG, BOTH, MAP_SHARED), TOO_LONG);
    forget("not reserved", map(TOO_LONG, BOTH, MAP_PRIVATE | MAP_NORESERVE), TOO_LONG);
    forget("read-only", map(TOO_LONG, PROT_READ, MAP_PRIVATE), TOO_LONG);
    char *mapping = map(TOO_LONG, PROT_NONE, MAP_PRIVATE);
    tell("without access", mapping);
    tell("made writable", mprotect(mapping, TOO_LONG, BOTH) ? MAP_FAILED : mapping);
    tell("a part made writable", mprotect(mapping, LONG, BOTH) ? MAP_FAILED : mapping);
    munmap(mapping, TOO_LONG);
    mapping = map(TOO_LONG, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
    tell("not reserved, made writable", mprotect(mapping, TOO_LONG, BOTH) ? MAP_FAILED : mapping);
    munmap(mapping, TOO_LONG);
    mapping = map(LONG, BOTH, MAP_PRIVATE);
    tell("longer", mremap(mapping, LONG, TOO_LONG, MREMAP_MAYMOVE));
    tell("sbrk", sbrk(TOO_LONG) == (void *)-1 ? MAP_FAILED : 0);
    void *volatile allocated = malloc(TOO_LONG);
    printf("malloc: %s\n", allocated ? "done" : strerror(errno));
}

MOTET_ON(ARM) void mappings_on_arm(void) { expect_on(ARM); mappings(); }
MOTET_ON(RISCV) void mappings_on_riscv(void) { expect_on(RISCV); mappings(); }

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
    mappings();
    mappings_on_arm();
    mappings_on_riscv();
    return 0;
}
