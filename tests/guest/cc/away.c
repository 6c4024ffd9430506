/* A program whose functions are run by other kernels, which share no memory with the one where it began: what they read and write is one memory all the same, and their
 * system calls are its own. */
#define _GNU_SOURCE
#include "crossing.h"
#include "expect.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef PROT_GROWSDOWN
#define PROT_GROWSDOWN 0x01000000
#endif

enum { WORDS = 6000 };

static long words[WORDS];
static long initialised = 42;
static const char told[] = "read-only";

MOTET_ON(ARM) static long on_arm_sum(void) {
    long sum = 0;
    for (int i = 0; i < WORDS; i++) {
        sum += words[i];
        words[i] = -words[i];
    }
    return sum;
}

MOTET_ON(RISCV) static long on_riscv_sum(void) {
    long sum = 0;
    for (int i = 0; i < WORDS; i++)
        sum += words[i]++;
    return sum;
}

static long here_sum(void) {
    long sum = 0;
    for (int i = 0; i < WORDS; i++)
        sum += words[i];
    return sum;
}

MOTET_ON(ARM) static double mixed(int a, double b, long c, float d, long e, long f, long g, long h, long i, double j, long k) {
    initialised += told[0] == 'r' ? a : 1000;
    return a + b * c + d * e + f - g + h * i + j - k;
}

MOTET_ON(X86) static long back_home(long depth);

MOTET_ON(ARM) static long nest(long depth) {
    volatile long kept[64];
    for (int i = 0; i < 64; i++)
        kept[i] = depth * 64 + i;
    long below = depth == 0 ? 0 : back_home(depth - 1);
    for (int i = 0; i < 64; i++)
        if (kept[i] != depth * 64 + i)
            return -1000000;
    return below + 1;
}

MOTET_ON(X86) static long back_home(long depth) {
    volatile long kept[64];
    for (int i = 0; i < 64; i++)
        kept[i] = ~depth * 64 + i;
    long below = nest(depth);
    for (int i = 0; i < 64; i++)
        if (kept[i] != ~depth * 64 + i)
            return -1000000;
    return below + 100;
}

/* From one remote kernel to the other one, by way of home. */
MOTET_ON(RISCV) static long third(long value) { return value * 3 + initialised; }
MOTET_ON(ARM) static long second(long value) { return third(value + 1) + 7; }

static int depth_of(int left) {
    volatile char room[4000];
    room[0] = (char)left;
    return left == 0 ? 0 : depth_of(left - 1) + 1 + room[0] - (char)left;
}

MOTET_ON(ARM) static int calls_away(void) {
    int before = wrong;
    EXPECT(getpid() > 0, 1);
    EXPECT(write(1, "from afar\n", 10), 10);
    EXPECT(usleep(2000), 0);
    char *block = malloc(300000);
    EXPECT(block != NULL, 1);
    memset(block, 5, 300000);
    char *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(mapped != MAP_FAILED, 1);
    mapped[0] = block[299999];
    mapped[(1 << 20) - 1] = 6;
    EXPECT(mapped[0] + mapped[(1 << 20) - 1] + mapped[4096], 11);
    EXPECT(mprotect(mapped, 4096, PROT_READ), 0);
    EXPECT(mapped[0], 5);
    EXPECT(munmap(mapped, 1 << 20), 0);
    EXPECT(read(-1, block, 1), -1);
    EXPECT(errno, EBADF);
    EXPECT(fork(), -1);
    EXPECT(errno, EOPNOTSUPP);
    free(block);
    EXPECT(depth_of(200), 200);
    return wrong == before;
}

/* What home writes to a pipe, a remote reads into memory that home has never seen. */
static int ends[2];
MOTET_ON(RISCV) static long read_away(void) {
    char room[9000] = {0};
    long got = 0;
    while (got < 8192) {
        /* It may be cut short where a page has to come first. */
        long more = read(ends[0], room + got, sizeof room - got);
        if (more <= 0)
            return more;
        got += more;
    }
    return got + room[got - 1];
}

/* A mapping that moves leaves an empty one behind, also where another kernel has read it. */
MOTET_ON(ARM) static long peek(volatile char *at) { return *at; }

static void moved(void) {
    char *old = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(old != MAP_FAILED, 1);
    old[0] = 5;
    EXPECT(mprotect(old, 8192, PROT_READ), 0);
    EXPECT(peek(old), 5);
    char *new = mremap(old, 8192, 8192, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    EXPECT(new != MAP_FAILED, 1);
    EXPECT(new[0] + peek(new), 10);
    EXPECT(peek(old), 0);
}

/* Pages come home from another kernel, to move, also if nobody may use them meanwhile. */
MOTET_ON(ARM) static long poke(volatile char *at) { return *at = 7; }

static void moved_unusable(void) {
    char *old = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    EXPECT(old != MAP_FAILED, 1);
    EXPECT(poke(old), 7);
    /* This is about the lower pages, too. */
    EXPECT(mprotect(old + 12288, 4096, PROT_NONE | PROT_GROWSDOWN), 0);
    char *new = mremap(old, 16384, 16384, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
    EXPECT(new != MAP_FAILED, 1);
    EXPECT(mprotect(new, 16384, PROT_READ), 0);
    EXPECT(new[0] + peek(new), 14);
}

static void *race(void *argument) {
    long *slot = argument;
    for (int i = 0; i < 200; i++)
        *slot += on_arm_sum() == 0 ? 1 : 1000000;
    return NULL;
}

static void *beside(void *argument) {
    long *slot = argument;
    for (int i = 0; i < 100; i++)
        *slot += second(i) == (i + 1) * 3 + initialised + 7;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "fault")) {
        extern long fault_away(void);
        return (int)fault_away();
    }
    for (int i = 0; i < WORDS; i++)
        words[i] = i;
    long all = (long)WORDS * (WORDS - 1) / 2;
    EXPECT(on_arm_sum(), all);
    EXPECT(here_sum(), -all);
    EXPECT(on_riscv_sum(), -all);
    EXPECT(on_arm_sum(), -all + WORDS);
    EXPECT(here_sum(), all - WORDS);
    EXPECT(mixed(1, 2.5, 3, 4.25f, 5, 6, 7, 8, 9, 10.5, 11) * 100, 10025);
    EXPECT(initialised, 43);
    EXPECT(nest(5), 506);
    EXPECT(second(10), 33 + 43 + 7);
    EXPECT(calls_away(), 1);
    moved();
    moved_unusable();
    EXPECT(pipe(ends), 0);
    static char sent[8192];
    memset(sent, 9, sizeof sent);
    EXPECT(write(ends[1], sent, sizeof sent), sizeof sent);
    EXPECT(read_away(), 8192 + 9);
    memset(words, 0, sizeof words);
    pthread_t threads[3];
    static long done[3][512];
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, i < 2 ? race : beside, done[i]), 0);
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_join(threads[i], NULL), 0);
    EXPECT(done[0][0] + done[1][0] + done[2][0], 500);
    if (!wrong)
        puts("one memory");
    return wrong;
}

MOTET_ON(ARM) long fault_away(void) {
    volatile long *nowhere = (volatile long *)16;
    return *nowhere;
}
