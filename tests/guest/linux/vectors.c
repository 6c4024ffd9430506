// Run by machine tests as the first process of an unmodified Linux on harts without vector registers. Processes and threads hold
// patterns of their own in all vector registers, and in those that say how long vectors are, across system calls, signals, timer
// ticks, first touches of pages, and forks; nobody finds what another has left. What is said goes to the console; then the machine ends.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 6, ROUNDS = 40, ALARMS = 2, PERIOD_US = 2000, LEN_MAX = 128, PAGE = 4096, PAGES = 24, LIVES = 40 };

struct registers {
    uint64_t vl, vtype, vcsr;
    uint8_t v[32 * LEN_MAX];
};

struct held {
    struct registers pattern, found;
};

static volatile uint32_t alarms;

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...) {
    char line[160];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    line[len++] = '\n';
    if (write(1, line, (size_t)len) != len)
        abort();
    _exit(1);
}

#define VECTORS ".option push\n.option arch, +v\n"
#define END ".option pop\n"
#define ALL "vs8r.v v0, (t0)\nadd t0, t0, t1\nvs8r.v v8, (t0)\nadd t0, t0, t1\nvs8r.v v16, (t0)\nadd t0, t0, t1\nvs8r.v v24, (t0)\n"

static size_t bytes_of_register(void) {
    size_t len;
    __asm__ volatile(VECTORS "csrr %0, vlenb\n" END : "=r"(len));
    return len;
}

// Fills all registers, waits until there have been as many alarms, makes a system call, and looks at the registers.
static void hold(struct held *held, long call, uint32_t until) {
    __asm__ volatile(VECTORS
                     "csrr t1, vlenb\nslli t1, t1, 3\naddi t0, %[from], 24\n"
                     "vl8re8.v v0, (t0)\nadd t0, t0, t1\nvl8re8.v v8, (t0)\nadd t0, t0, t1\nvl8re8.v v16, (t0)\nadd t0, t0, t1\nvl8re8.v v24, (t0)\n"
                     "ld t0, 0(%[from])\nld t2, 8(%[from])\nvsetvl x0, t0, t2\nld t0, 16(%[from])\ncsrw vcsr, t0\n"
                     "1: lw t0, (%[alarms])\nbltu t0, %[until], 1b\n"
                     "mv a7, %[call]\nli a0, 0\nli a1, 0\necall\n"
                     "csrr t0, vl\nsd t0, 0(%[to])\ncsrr t0, vtype\nsd t0, 8(%[to])\ncsrr t0, vcsr\nsd t0, 16(%[to])\n"
                     "addi t0, %[to], 24\n" ALL END
                     :
                     : [from] "r"(&held->pattern), [to] "r"(&held->found), [alarms] "r"(&alarms), [until] "r"(until), [call] "r"(call)
                     : "t0", "t1", "t2", "a0", "a1", "a7", "memory");
}

static void fill(struct registers *pattern, uint32_t seed, size_t len) {
    for (size_t at = 0; at < 32 * len; at++) {
        seed = seed * 1664525 + 1013904223;
        pattern->v[at] = (uint8_t)(seed >> 24);
    }
    pattern->vtype = seed >> 8 & 3; // e8, m1 to m8
    pattern->vl = 1 + seed % len;
    pattern->vcsr = seed >> 4 & 7;
}

static void compare(const struct held *held, size_t len, const char *what, uint32_t who) {
    const struct registers *wanted = &held->pattern, *found = &held->found;
    if (wanted->vl != found->vl || wanted->vtype != found->vtype || wanted->vcsr != found->vcsr)
        fail("%s, %u: vl %lu vtype %lx vcsr %lx, not %lu %lx %lx", what, who, found->vl, found->vtype, found->vcsr, wanted->vl,
             wanted->vtype, wanted->vcsr);
    for (size_t at = 0; at < 32 * len; at++)
        if (wanted->v[at] != found->v[at])
            fail("%s, %u: v%zu byte %zu is %x, not %x", what, who, at / len, at % len, found->v[at], wanted->v[at]);
}

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

static void start_alarms(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval period = {{0, PERIOD_US}, {0, PERIOD_US}};
    setitimer(ITIMER_REAL, &period, NULL);
}

// Vector loads and stores are the first to touch each page, some between two.
static void touch(uint32_t who) {
    uint8_t *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        fail("mmap");
    size_t done = 0, all = PAGES * PAGE;
    uint8_t *at = pages;
    while (done < all) {
        size_t vl;
        __asm__ volatile(VECTORS "vsetvli %0, %1, e8, m8, ta, ma\nvle8.v v8, (%2)\nvadd.vx v8, v8, %3\nvse8.v v8, (%2)\n" END
                         : "=&r"(vl)
                         : "r"(all - done > 100 ? 100 : all - done), "r"(at), "r"(who)
                         : "memory");
        at += vl;
        done += vl;
    }
    for (size_t index = 0; index < all; index++)
        if (pages[index] != (uint8_t)who)
            fail("touch, %u: byte %zu is %u", who, index, pages[index]);
    munmap(pages, all);
}

// Registers of a thread that has not used them hold zeros, or the supervisor's like.
static void is_clean(const char *what, uint32_t who) {
    struct registers found;
    size_t len = bytes_of_register();
    __asm__ volatile(VECTORS "csrr t1, vlenb\nslli t1, t1, 3\nmv t0, %0\n" ALL END : : "r"(found.v) : "t0", "t1", "memory");
    for (size_t at = 0; at < 32 * len; at++)
        if (found.v[at] != 0)
            fail("%s, %u: v%zu holds %x", what, who, at / len, found.v[at]);
}

static void child(uint32_t who) {
    static struct held held;
    is_clean("a child", who);
    size_t len = bytes_of_register();
    start_alarms();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(&held.pattern, who * 1000 + round, len);
        alarms = 0;
        hold(&held, round % 2 ? SYS_sched_yield : SYS_getppid, round % 4 ? 0 : ALARMS);
        compare(&held, len, "a process", who);
        touch(who + 1);
    }
    _exit(0);
}

static void *thread(void *argument) {
    struct held *held = calloc(1, sizeof *held);
    uint32_t who = (uint32_t)(uintptr_t)argument;
    size_t len = bytes_of_register();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(&held->pattern, who * 777 + round, len);
        hold(held, SYS_sched_yield, 0);
        compare(held, len, "a thread", who);
    }
    free(held);
    return NULL;
}

static void wait_for(int children) {
    while (children-- > 0) {
        int status;
        if (wait(&status) < 0 || status != 0)
            fail("a child ends with %x", status);
    }
}

// What a parent holds, its child does not find, and the other way round. Short lives use the same memory again and again.
static void forks(void) {
    static struct held held;
    size_t len = bytes_of_register();
    for (uint32_t round = 0; round < LIVES; round++) {
        fill(&held.pattern, round + 5, len);
        hold(&held, SYS_getpid, 0);
        pid_t child = fork();
        if (child == 0) {
            is_clean("a fork", round);
            fill(&held.pattern, round + 6, len);
            hold(&held, SYS_getpid, 0);
            compare(&held, len, "a fork", round);
            _exit(0);
        }
        wait_for(1);
        compare(&held, len, "a parent", round);
    }
}

static void kernel_sees_none(void) {
    static char text[1 << 16];
    if (mount("proc", "/proc", "proc", 0, NULL) != 0)
        fail("/proc");
    FILE *file = fopen("/proc/cpuinfo", "r");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[len] = 0;
    int harts = 0;
    for (char *line = text; (line = strstr(line, "isa\t")) != NULL; line++) {
        char *end = strchr(line, '\n');
        char *isa = strstr(line, "rv64");
        if (!isa || !end)
            fail("cpuinfo");
        *end = 0;
        char *base_end = strchrnul(isa, '_');
        if (memchr(isa + 4, 'v', (size_t)(base_end - isa - 4)) || strstr(isa, "_zv"))
            fail("the kernel sees vectors: %s", isa);
        *end = '\n';
        harts += strncmp(line, "isa\t\t", 5) == 0;
    }
    printf("program: %d harts without vectors\n", harts);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    kernel_sees_none();
    for (uint32_t who = 0; who < PROCESSES; who++)
        if (fork() == 0)
            child(who);
    wait_for(PROCESSES);
    printf("program: processes ok\n");
    pthread_t threads[PROCESSES];
    for (uintptr_t who = 0; who < PROCESSES; who++)
        pthread_create(&threads[who], NULL, thread, (void *)who);
    for (int who = 0; who < PROCESSES; who++)
        pthread_join(threads[who], NULL);
    printf("program: threads ok\n");
    forks();
    printf("program: forks ok\n");
    pid_t faulty = fork();
    if (faulty == 0) {
        __asm__ volatile(VECTORS "vsetvli t0, x0, e8, m1, ta, ma\nvle8.v v1, (x0)\n" END ::: "t0");
        _exit(0);
    }
    int status;
    waitpid(faulty, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV)
        fail("a wrong address ends with %x", status);
    if (fork() == 0) {
        // No such width.
        __asm__ volatile(".4byte 0x10000057 | 7 << 12 | 1 << 31 | 0x3f << 25\n.4byte 0x02000057\n");
        _exit(0);
    }
    wait(&status);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGILL)
        fail("an illegal vector instruction ends with %x", status);
    printf("program: faults ok\nprogram: all ok\n");
    fflush(stdout);
    reboot(RB_POWER_OFF);
    return 1;
}
