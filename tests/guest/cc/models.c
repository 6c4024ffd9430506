/*
 * What programs read of a core without a trap: the same on all cores of an instruction set, whatever they are.
 *
 * models seen          pins itself to each core of its instruction set in turn, and compares
 * models counters      reads the counter of time on all cores of its instruction set, again and again
 * models zeroes        zeroes a block without asking whether it may: AArch64
 * models sve           asks for lengths of SVE's registers, on a machine that has some of 64 and of 256 bytes: AArch64
 * models avx           what CPUID, XCR0 and the auxiliary vector say of AVX: x86-64
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#if defined(__aarch64__)

static uint64_t counter(void) {
    uint64_t value;
    __asm__ volatile("isb\nmrs %0, cntvct_el0" : "=r"(value));
    return value;
}

#define READ(name) ({ uint64_t value; __asm__ volatile("mrs %0, " name : "=r"(value)); value; })
enum { WORDS = 3 };

static void see(uint64_t *words) {
    words[0] = READ("ctr_el0");
    words[1] = READ("cntfrq_el0");
    /* Of blocks, programs may not zero any where they differ; else they are the same. */
    uint64_t zero = READ("dczid_el0");
    words[2] = zero & 16 ? 16 : zero;
}

static double seconds_at(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Counters go with the frequency that they say: not slower than a clock that is read in between, and not faster than one that is read around. */
static int is_in_time(void) {
    double hertz = (double)READ("cntfrq_el0"), before = seconds_at(), from, to;
    uint64_t first = READ("cntvct_el0");
    from = seconds_at();
    do {
        to = seconds_at();
    } while (to - from < 0.02);
    double counted = (double)(READ("cntvct_el0") - first) / hertz;
    return 1.2 * counted > to - from && counted < 1.2 * (seconds_at() - before);
}

static void zeroes(void) {
    static char block[4096] __attribute__((aligned(4096)));
    __asm__ volatile("dc zva, %0" : : "r"(block) : "memory");
    printf("has zeroed %d\n", READ("dczid_el0") & 16 ? 1 : 0);
}

static int register_bytes(void) {
    long bytes;
    __asm__ volatile(".arch_extension sve\nrdvl %0, #1\n.arch_extension nosve" : "=r"(bytes));
    return (int)bytes;
}

#elif defined(__x86_64__)

#include <cpuid.h>

static uint64_t counter(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return low | (uint64_t)high << 32;
}

enum { WORDS = 4 };

static void see(uint64_t *words) {
    unsigned a, b, c, d;
    __cpuid(0x80000001, a, b, c, d);
    words[0] = c >> 5 & 1;
    __cpuid_count(7, 0, a, b, c, d);
    words[1] = b >> 3 & 1;
    unsigned number = 12, of_number = 0;
    /* bsr of 12 is 3; bsf leaves its result alone. */
    __asm__ volatile("lzcntl %1, %0" : "=r"(of_number) : "r"(number));
    words[2] = of_number;
    number = 0;
    __asm__ volatile("tzcntl %1, %0" : "+r"(of_number) : "r"(number));
    words[3] = of_number;
}

static int is_in_time(void) {
    return 1;
}

static void zeroes(void) {}

static void avx(void) {
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    int is_open = c >> 27 & 1;
    uint32_t enabled = 0, high = 0;
    if (is_open) {
        __asm__ volatile("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
    }
    printf("osxsave %d avx %d xcr0 %d\n", is_open, is_open && (c >> 28 & 1), (enabled & 6) == 6);
}

#else

/* Of cycles: the firmware answers for the one of time. Instructions are counted by the core, and may be read. */
static uint64_t counter(void) {
    uint64_t instructions, cycles;
    __asm__ volatile("rdinstret %0\nrdcycle %1" : "=r"(instructions), "=r"(cycles));
    return cycles;
}

enum { WORDS = 1 };

static void see(uint64_t *words) {
    words[0] = 0;
}

static int is_in_time(void) {
    return 1;
}

static void zeroes(void) {}

#endif

#if !defined(__aarch64__)

static int register_bytes(void) {
    return 0;
}

#endif

enum { SET_LENGTH = 50, GET_LENGTH = 51, INHERIT = 1 << 17, ON_EXEC = 1 << 18 };

/* What prctl says, and what instructions do. */
static void lengths(const char *when) {
    int told = prctl(GET_LENGTH);
    printf("%s: %d%s %d\n", when, told & 0xffff, told & INHERIT ? " inherited" : "", register_bytes());
}

__attribute__((used)) static void *in_thread(void *barrier) {
    pthread_barrier_wait(barrier);
    lengths("another thread");
    return NULL;
}

static void sve(void) {
    pthread_barrier_t barrier;
    pthread_t thread;
    printf("wrong %d %d %d\n", prctl(SET_LENGTH, 16), prctl(SET_LENGTH, 72), prctl(SET_LENGTH, 256 | 1 << 20));
    printf("longest %d\n", prctl(SET_LENGTH, 8192));
    lengths("longest");
    printf("shorter %d\n", prctl(SET_LENGTH, 240));
    lengths("shorter");
    /* Threads have the same length. */
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, in_thread, &barrier);
    printf("with another thread %d\n", prctl(SET_LENGTH, 256));
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    printf("for the next program %d\n", prctl(SET_LENGTH, 256 | ON_EXEC));
    lengths("as before");
    fflush(stdout);
    execl("/proc/self/exe", "models", "next", NULL);
}

static void seen(void) {
    cpu_set_t all, one;
    uint64_t first[WORDS], words[WORDS];
    int cores = 0, unlike = 0, late = 0;
    sched_getaffinity(0, sizeof all, &all);
    for (int core = 0; core < 128; core++) {
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        if (!CPU_ISSET(core, &all) || sched_setaffinity(0, sizeof one, &one) != 0) {
            continue;
        }
        see(cores == 0 ? first : words);
        if (cores > 0 && memcmp(first, words, sizeof first) != 0) {
            unlike++;
            for (int word = 0; word < WORDS; word++) {
                printf("word %d: %#lx, on core %d %#lx\n", word, (unsigned long)first[word], core, (unsigned long)words[word]);
            }
        }
        late += !is_in_time();
        cores++;
    }
    printf("cores %d unlike %d late %d\n", cores, unlike, late);
}

/* Later readings are not less, wherever the thread has gone in between. */
static void counters(void) {
    cpu_set_t all, one;
    int readings = 0, back = 0;
    uint64_t last = 0;
    sched_getaffinity(0, sizeof all, &all);
    for (int step = 0; step < 20 * 128; step++) {
        CPU_ZERO(&one);
        CPU_SET(step % 128, &one);
        if (!CPU_ISSET(step % 128, &all) || sched_setaffinity(0, sizeof one, &one) != 0) {
            continue;
        }
        uint64_t now = counter();
        readings++;
        back += now < last;
        last = now;
    }
    printf("readings %d back %d\n", readings, back);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "seen") == 0) {
        seen();
    } else if (strcmp(what, "counters") == 0) {
        counters();
    } else if (strcmp(what, "zeroes") == 0) {
        zeroes();
    } else if (strcmp(what, "sve") == 0) {
        sve();
    } else if (strcmp(what, "next") == 0) {
        lengths("next");
        printf("inherited %d\n", (prctl(SET_LENGTH, 64 | INHERIT) & 0xffff));
        fflush(stdout);
        execl("/proc/self/exe", "models", "last", NULL);
    } else if (strcmp(what, "last") == 0) {
        lengths("last");
#if defined(__x86_64__)
    } else if (strcmp(what, "avx") == 0) {
        avx();
#endif
    }
    return 0;
}
