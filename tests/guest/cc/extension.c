/*
 * A RISC-V program that uses vectors without asking whether its core has any.
 *
 * extension ways          a pattern in all vector registers survives everything that moves or stops the thread
 * extension hints         motet_need, motet_done
 * extension affinity      sched_setaffinity
 * extension crowd N       N threads that all want vectors
 * extension told          what the kernel tells programs about V
 * extension once          one vector instruction
 * extension long          motet_need for a length, and another thread then
 * extension minimum       the least stack of a signal handler
 * extension length        how many bytes a vector register has here
 * extension clears        execve clears the registers
 * extension threads N      N threads, made before or after the first use of vectors, see one length of them
 * extension lengths OWN OTHER  on a machine with registers of two lengths: a thread with values stays on cores with its length. OWN, OTHER: masks of cores
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "motet.h"
#include "../vectors.h"

/* All registers, of at most 1024 bits each. */
typedef struct {
    unsigned char bytes[32 * 128];
} Registers;

static unsigned long register_bytes(void) {
    unsigned long bytes = 0;
    VECTORS("csrr %0, vlenb", : "=r"(bytes));
    return bytes;
}

static void load(const Registers *from) {
    unsigned long step = 8 * register_bytes();
    const unsigned char *at = from->bytes;
    VECTORS("vl8re8.v v0, (%0)\nadd %0, %0, %1\nvl8re8.v v8, (%0)\nadd %0, %0, %1\n"
                            "vl8re8.v v16, (%0)\nadd %0, %0, %1\nvl8re8.v v24, (%0)",
                     : "+r"(at)
                     : "r"(step)
                     : "memory");
}

static void store(Registers *to) {
    unsigned long step = 8 * register_bytes();
    unsigned char *at = to->bytes;
    VECTORS("vs8r.v v0, (%0)\nadd %0, %0, %1\nvs8r.v v8, (%0)\nadd %0, %0, %1\n"
                            "vs8r.v v16, (%0)\nadd %0, %0, %1\nvs8r.v v24, (%0)",
                     : "+r"(at)
                     : "r"(step)
                     : "memory");
}

/* The vector type, the length and the other control registers. */
static unsigned long vl_and_type(void) {
    unsigned long vl = 0, type = 0;
    VECTORS("csrr %0, vl\ncsrr %1, vtype", : "=r"(vl), "=r"(type));
    return type << 16 | vl;
}

static void fill(Registers *registers, unsigned seed) {
    for (unsigned i = 0; i < sizeof registers->bytes; i++) {
        seed = seed * 1103515245 + 12345;
        registers->bytes[i] = (unsigned char)(seed >> 16);
    }
}

static Registers wanted, found;
static unsigned long wanted_type;

static void begin(unsigned seed) {
    fill(&wanted, seed);
    memset(&found, 0, sizeof found);
    unsigned long vl = 1;
    load(&wanted);
    VECTORS("vsetivli %0, 3, e16, m2, ta, mu", : "=r"(vl));
    wanted_type = vl_and_type();
}

static void check(const char *what) {
    unsigned long type = vl_and_type();
    store(&found);
    int same = memcmp(&wanted, &found, 32 * register_bytes()) == 0 && type == wanted_type;
    printf("%s %s\n", what, same ? "kept" : "LOST");
    for (unsigned at = 0; at < 32 * register_bytes() && !same; at++) {
        if (wanted.bytes[at] != found.bytes[at]) {
            printf("byte %u of v%lu was %#x, is %#x; type %#lx, was %#lx\n", at, at / register_bytes(), wanted.bytes[at], found.bytes[at], type,
                   wanted_type);
            break;
        }
    }
    if (type != wanted_type) {
        printf("type and length were %#lx, are %#lx\n", wanted_type, type);
    }
}

static volatile sig_atomic_t handled;

/* Whether the vector registers in a signal's context are those that were wanted (struct __riscv_v_ext_state, behind its header). */
static int has_pattern(const void *context) {
    const char *record = (const char *)context + 176 + 256 + 520;
    uint32_t head[2];
    uint64_t state[6];
    memcpy(head, record, sizeof head);
    memcpy(state, record + 8, sizeof state);
    return head[0] == 0x53465457 && head[1] == 56 + 32 * register_bytes() && state[1] == 3 && state[4] == register_bytes() &&
           memcmp((void *)state[5], wanted.bytes, 32 * register_bytes()) == 0;
}

__attribute__((used)) static void handler(int number, siginfo_t *info, void *context) {
    Registers other;
    (void)info;
    if (!has_pattern(context)) {
        printf("the context has other registers\n");
    }
    fill(&other, 99);
    load(&other);
    handled = number;
}

__attribute__((used)) static void *touch(void *unused) {
    Registers other;
    (void)unused;
    fill(&other, 7);
    load(&other);
    return NULL;
}

static void ways(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    begin(1);
    getpid();
    check("system call");

    size_t size = 4 << 20;
    volatile char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin(2);
    for (size_t at = 0; at < size; at += 4096) {
        memory[at] = 1;
    }
    check("page faults");

    begin(3);
    munmap((void *)memory, size);
    check("shoot-down");

    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    begin(4);
    raise(SIGUSR1);
    check(handled ? "signal handler" : "no signal handler");

    begin(5);
    sched_yield();
    check("yield");

    begin(6);
    usleep(60000);
    check("sleep");

    pthread_t thread;
    begin(7);
    pthread_create(&thread, NULL, touch, NULL);
    pthread_join(thread, NULL);
    check("another thread");

    begin(8);
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < 120);
    check("slices without use");

    begin(9);
    pid_t child = fork();
    check(child == 0 ? "child" : "parent");
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void show(const char *what) {
    char line[64];
    FILE *file = fopen("/proc/self/migrations", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "needs", 5) == 0 || strncmp(line, "hint", 4) == 0) {
            printf("%s: %s", what, line);
        }
    }
    if (file) {
        fclose(file);
    }
}

static void hints(void) {
    int home = motet_island();
    show("at first");
    printf("need %d\n", motet_need("v"));
    printf("moved %d\n", motet_island() != home);
    show("needs v");
    printf("done %d\n", motet_done("v"));
    printf("moved %d\n", motet_island() != home);
    show("done");
    printf("unknown %d\n", motet_need("quantum") == -EINVAL);
    printf("bad address %d\n", motet_need((const char *)8) == -EFAULT);
}

static void bind_to(unsigned long cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    memcpy(&set, &cores, sizeof cores);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        printf("cannot run on %#lx: %s\n", cores, strerror(errno));
    }
}

/* A field of this thread's /proc file about moves: a number, or whether it has a need. */
static unsigned long moves(const char *name) {
    char line[64];
    unsigned long value = 0;
    FILE *file = fopen("/proc/self/migrations", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strstr(line, "nothing") ? 0 : strcmp(name, "needs") == 0 ? 1 : strtoul(line + strlen(name), NULL, 10);
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

static void forget_need(void) {
    while (moves("needs")) {
    }
}

static void affinity(void) {
    cpu_set_t set;
    int home = sched_getcpu();
    printf("need %d\n", motet_need("v"));
    printf("moved %d\n", sched_getcpu() != home);
    CPU_ZERO(&set);
    CPU_SET(home, &set);
    /* It needs vectors, which this core has not got: until it needs them no more, it stays elsewhere. */
    int result = sched_setaffinity(0, sizeof set, &set);
    printf("bound %d, elsewhere %d\n", result, sched_getcpu() != home);
    printf("done %d, at home %d\n", motet_done("v"), sched_getcpu() == home);
    begin(1);
    check("elsewhere");
    begin(1); /* once more: who has waited for its slices since may be at home */
    printf("elsewhere %d\n", sched_getcpu() != home);
    forget_need();
    printf("at home %d\n", sched_getcpu() == home);
    sched_getaffinity(0, sizeof set, &set);
    printf("still bound %d\n", CPU_COUNT(&set) == 1 && CPU_ISSET(home, &set));
    /* Nor does an affinity of none of its cores count. */
    CPU_ZERO(&set);
    CPU_SET(127, &set);
    result = sched_setaffinity(0, sizeof set, &set);
    printf("no core: refused %d\n", result == -1 && errno == EINVAL);
    /* What it executes needs nothing, and is where the affinity says. */
    begin(2);
    char text[16];
    snprintf(text, sizeof text, "%d", home);
    execl("/proc/self/exe", "extension", "at", text, NULL);
}

__attribute__((used)) static void *sum(void *result) {
    uint64_t numbers[64], sums[64], all = 0;
    unsigned long vl = 1;
    for (int i = 0; i < 64; i++) {
        numbers[i] = (uint64_t)i;
    }
    for (int round = 0; round < 50; round++) {
        VECTORS("vsetvli %0, zero, e64, m1, ta, ma\nvmv.v.i v8, 0", : "=r"(vl));
        for (unsigned long i = 0; i < 64; i += vl) {
            VECTORS("vsetvli zero, %1, e64, m1, ta, ma\nvle64.v v4, (%0)\nvadd.vv v8, v8, v4",
                             :
                             : "r"(numbers + i), "r"(vl)
                             : "memory");
        }
        VECTORS("vse64.v v8, (%0)", : : "r"(sums) : "memory");
        for (unsigned long i = 0; i < vl; i++) {
            all += sums[i];
        }
        if (round % 10 == 0) {
            sched_yield();
        }
    }
    *(uint64_t *)result = all;
    return NULL;
}

static void crowd(int count) {
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    uint64_t *sums = calloc((size_t)count, sizeof *sums);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    int right = 0;
    for (int i = 0; i < count; i++) {
        if (pthread_create(threads + i, &attributes, sum, sums + i) != 0) {
            printf("no thread %d\n", i);
            exit(1);
        }
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        right += sums[i] == 50 * 2016;
    }
    printf("right %d of %d\n", right, count);
}

static void told(void) {
    struct {
        int64_t key;
        uint64_t value;
    } probe = {4, 0};
    long result = syscall(258, &probe, 1L, 0L, 0L, 0L);
    printf("hwcap %d hwprobe %ld %d\n", (int)(getauxval(AT_HWCAP) >> ('v' - 'a') & 1), result, (int)(probe.value >> 2 & 1));
}

static void lengths(unsigned long own, unsigned long other) {
    setvbuf(stdout, NULL, _IONBF, 0);
    unsigned long everywhere = ~0ul;
    bind_to(own | 1);
    begin(21);
    printf("length %lu\n", register_bytes());
    bind_to(everywhere);
    cpu_set_t set;
    CPU_ZERO(&set);
    memcpy(&set, &other, sizeof other);
    int result = sched_setaffinity(0, sizeof set, &set);
    printf("while it needs them: bound %d, elsewhere %d\n", result, 1ul << sched_getcpu() != other);
    check("there");

    /* While the thread does not use vectors, it may run anywhere; its values are kept. */
    forget_need();
    bind_to(other);
    unsigned long there = moves("to_extension");
    printf("elsewhere %d\n", (int)(1ul << sched_getcpu() == other));
    bind_to(other | own);
    check("values of another length");
    printf("length %lu, moves %lu\n", register_bytes(), moves("to_extension") - there);

    /* A child has a copy of the values, and their length. It does not stay where its affinity wants it. */
    pid_t child = fork();
    if (child == 0) {
        forget_need();
        bind_to(other | 1);
        check("child");
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    check("parent");
}

static unsigned long first_length;
static int other_lengths, has_begun;

__attribute__((used)) static void *measure(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&has_begun, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }
    for (int round = 0; round < 50; round++) {
        if (register_bytes() != first_length) {
            __atomic_fetch_add(&other_lengths, 1, __ATOMIC_RELAXED);
        }
        if (round % 10 == 0) {
            usleep(1000);
        }
    }
    return NULL;
}

/* A program may keep the length that it has seen first. */
static void threads_of_one_length(int count) {
    pthread_t threads[64];
    for (int i = 0; i < count; i++) {
        if (i == count / 2) {
            first_length = register_bytes();
            __atomic_store_n(&has_begun, 1, __ATOMIC_RELEASE);
        }
        pthread_create(threads + i, NULL, measure, NULL);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("other lengths %d\n", other_lengths);
}

__attribute__((used)) static void *its_length(void *bytes) {
    *(unsigned long *)bytes = register_bytes();
    return NULL;
}

/* What one thread needs, all have: also one that says nothing. */
static void need_long(void) {
    unsigned long bytes = 0;
    pthread_t thread;
    int result = motet_need("zvl512b");
    motet_done("zvl512b");
    pthread_create(&thread, NULL, its_length, &bytes);
    pthread_join(thread, NULL);
    printf("need %d: %lu %lu\n", result, bytes, register_bytes());
}

/* The executed program checks the registers. */
static void cleared(void) {
    unsigned long type = vl_and_type(), used = 0;
    store(&found);
    for (unsigned at = 0; at < 32 * register_bytes(); at++) {
        used += found.bytes[at] != 0;
    }
    printf("cleared: %lu bytes left, type and length %#lx\n", used, type);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "ways") == 0) {
        ways();
    } else if (strcmp(what, "hints") == 0) {
        hints();
    } else if (strcmp(what, "affinity") == 0) {
        setvbuf(stdout, NULL, _IONBF, 0);
        affinity();
    } else if (strcmp(what, "crowd") == 0) {
        crowd(count > 2 ? atoi(words[2]) : 8);
    } else if (strcmp(what, "threads") == 0 && count == 3) {
        threads_of_one_length(atoi(words[2]));
    } else if (strcmp(what, "at") == 0 && count == 3) {
        printf("executed at home %d\n", sched_getcpu() == atoi(words[2]));
    } else if (strcmp(what, "long") == 0) {
        need_long();
    } else if (strcmp(what, "told") == 0) {
        told();
    } else if (strcmp(what, "length") == 0) {
        printf("%lu\n", register_bytes());
    } else if (strcmp(what, "minimum") == 0) {
        printf("%lu\n", getauxval(AT_MINSIGSTKSZ));
    } else if (strcmp(what, "clears") == 0) {
        begin(31);
        execl(words[0], words[0], "cleared", NULL);
        perror(words[0]);
    } else if (strcmp(what, "cleared") == 0) {
        cleared();
    } else if (strcmp(what, "lengths") == 0 && count == 4) {
        lengths(strtoul(words[2], NULL, 16), strtoul(words[3], NULL, 16));
    } else {
        Registers registers;
        load(&registers);
        printf("done\n");
    }
    return 0;
}

