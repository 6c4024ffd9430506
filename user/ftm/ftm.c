/*
 * The programs of `motet bench ftm`, for RISC-V: threads that need vector instructions, on a machine where some cores have them.
 *
 *     ftm WAY ACCELERATOR EXPERIMENT COUNT [EXPERIMENT COUNT …]
 *     ftm WAY ACCELERATOR queue THREADS ACCELERATORS
 *
 * WAY is how a thread gets to core ACCELERATOR, and from there to core 0, where it begins:
 *
 * trap      it executes a vector instruction, and tells the kernel when it is done with them (motet_done)
 * firmware  the same, but every system call brings it home
 * pin       it pins itself to the core, as programs do on Linux
 *
 * As the first program of Linux it gets its arguments from the kernel's command line, and switches the machine off at its end.
 *
 * settle    does nothing for COUNT seconds, because Linux is still starting when its first program runs
 * migrate   to the accelerator and back, COUNT times
 * getpid    a system call at core 0 and at the accelerator, each COUNT times
 * dgemm     a product of matrices, COUNT times, each begun at core 0
 * calls     the same, with 14 system calls in the middle of each
 * repeat    COUNT products in a row
 * touch     10 MiB of fresh memory, written by vector stores, COUNT times
 * queue     COUNT threads, each of which uses vectors for a while; the kernel chooses the cores
 * mix       8 scalar and 8 vector processes of COUNT phases, on 4 cores and 2 accelerators; pinned processes stay on cores of their kind
 * hinted    the same, and vector processes tell the kernel when they are done with vectors
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "motet.h"

#if !defined(__riscv)
#error "this is about RISC-V's vectors"
#endif

#define VECTORS(text) ".option push\n.option arch, +v\n" text "\n.option pop\n"

enum { N = 43, CALLS = 14, TOUCHED = 10 << 20, PAGE = 4096 };

/* Each measurement is both a region of interest (simulated time) and a pair of marks for the counting plugin. */
#define BEGIN(name, mark)                                                                                              \
    do {                                                                                                               \
        motet_roi_begin(name);                                                                                         \
        __asm__ volatile(".4byte 0x68002013 + (%0 << 20)" : : "i"(2 * (mark)) : "memory");                             \
    } while (0)
#define END(name, mark)                                                                                                \
    do {                                                                                                               \
        __asm__ volatile(".4byte 0x68002013 + (%0 << 20)" : : "i"(2 * (mark) + 1) : "memory");                         \
        motet_roi_end(name);                                                                                           \
    } while (0)

static enum { TRAP, FIRMWARE, PIN } way;
static int accelerator;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fail("sched_setaffinity");
}

static inline void use_vectors(void) {
    __asm__ volatile(VECTORS("vsetivli zero, 2, e64, m1, ta, ma\nvmv.v.i v8, 1") : : : "memory");
}

static inline void go(void) {
    if (way == PIN)
        pin(accelerator);
    else
        use_vectors();
}

static inline void back(void) {
    if (way == PIN)
        pin(0);
    else if (way == TRAP)
        motet_done("v");
    else
        syscall(SYS_getpid);
}

/* A thread that has used vectors must call motet_done before it can pin itself to a core without them. Linux does not know that call. */
static void used_back(void) {
    if (way == PIN)
        motet_done("v");
    back();
}

static void migrate(long count) {
    BEGIN("first", 8);
    go();
    back();
    END("first", 8);
    for (long i = 0; i < count; i++) {
        BEGIN("migrate", 0);
        go();
        back();
        END("migrate", 0);
    }
}

static void getpids(long count) {
    enum { BATCH = 20 };
    for (long i = 0; i < count; i++) {
        BEGIN("home", 1);
        for (int call = 0; call < BATCH; call++)
            syscall(SYS_getpid);
        END("home", 1);
    }
    go();
    for (long i = 0; i < count; i++) {
        BEGIN("away", 2);
        for (int call = 0; call < BATCH; call++) {
            use_vectors();
            syscall(SYS_getpid);
        }
        END("away", 2);
    }
    used_back();
}

static double a[N][N], b[N][N], c[N][N];

/* One row of the product: for each strip of columns the sum over k of a[row][k] × b[k][strip]. */
static void multiply_row(int row) {
    const double *from = a[row];
    for (long column = 0, len; column < N; column += len) {
        const double *left = from, *right = &b[0][column];
        long rest = N;
        __asm__ volatile(VECTORS("vsetvli %0, %4, e64, m4, ta, ma\n"
                                 "vmv.v.i v8, 0\n"
                                 "1: vle64.v v16, (%2)\n"
                                 "fld ft0, 0(%1)\n"
                                 "addi %1, %1, 8\n"
                                 "add %2, %2, %5\n"
                                 "addi %3, %3, -1\n"
                                 "vfmacc.vf v8, ft0, v16\n"
                                 "bnez %3, 1b\n"
                                 "vse64.v v8, (%6)")
                         : "=&r"(len), "+&r"(left), "+&r"(right), "+&r"(rest)
                         : "r"(N - column), "r"(sizeof b[0]), "r"(&c[row][column])
                         : "memory");
    }
}

static void multiply(int calls) {
    for (int row = 0; row < N; row++) {
        multiply_row(row);
        if (calls && row % (N / CALLS) == N / CALLS - 1)
            syscall(SYS_getpid);
    }
}

static void check_product(void) {
    for (int row = 0; row < N; row++)
        for (int column = 0; column < N; column++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[row][k] * b[k][column];
            /* Small whole numbers: exact in any order. */
            if (c[row][column] != sum) {
                printf("c[%d][%d] is %f, not %f\n", row, column, c[row][column], sum);
                exit(1);
            }
        }
}

static void set_matrices(void) {
    for (int row = 0; row < N; row++)
        for (int column = 0; column < N; column++) {
            a[row][column] = (row * 7 + column) % 11;
            b[row][column] = (row + column * 5) % 13;
            c[row][column] = 0;
        }
}

static void products(long count) {
    for (long i = 0; i < count; i++) {
        memset(c, 0, sizeof c);
        BEGIN("dgemm", 3);
        go();
        multiply(0);
        END("dgemm", 3);
        used_back();
    }
    check_product();
}

static void products_with_calls(long count) {
    for (long i = 0; i < count; i++) {
        memset(c, 0, sizeof c);
        BEGIN("calls", 9);
        go();
        multiply(1);
        END("calls", 9);
        used_back();
    }
    check_product();
}

static void repeated(long count) {
    BEGIN("repeat", 4);
    go();
    for (long i = 0; i < count; i++)
        multiply(0);
    END("repeat", 4);
    used_back();
    check_product();
}

static void touch(long count) {
    for (long i = 0; i < count; i++) {
        char *memory = mmap(NULL, TOUCHED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            fail("mmap");
        /* Linux's transparent huge pages would make this another experiment. Motet has none. */
        madvise(memory, TOUCHED, MADV_NOHUGEPAGE);
        BEGIN("touch", 5);
        go();
        for (char *page = memory; page < memory + TOUCHED; page += PAGE)
            __asm__ volatile(VECTORS("vsetivli zero, 2, e64, m1, ta, ma\nvmv.v.i v8, 1\nvse64.v v8, (%0)") : : "r"(page) : "memory");
        END("touch", 5);
        used_back();
        for (long at = 0; at < TOUCHED; at += PAGE)
            if (*(long *)(memory + at) != 1)
                exit(1);
        munmap(memory, TOUCHED);
    }
}

/* About 3 million instructions, a third of them vector instructions: less than a slice. */
enum { JOB = 1000000 };

static void job(long rounds) {
    __asm__ volatile(VECTORS("1: vsetivli zero, 2, e64, m1, ta, ma\naddi %0, %0, -1\nbnez %0, 1b") : "+r"(rounds));
}

static pthread_barrier_t begins, ends;

static void *queued(void *core) {
    pthread_barrier_wait(&begins);
    if (way == PIN)
        pin(*(int *)core);
    job(JOB);
    pthread_barrier_wait(&ends);
    return NULL;
}

/* With several accelerators, pinned threads use them in turn: ACCELERATOR + 0, 1. */
static void queue(long count, int accelerators) {
    pthread_t threads[64];
    int cores[64];
    if (count > 64)
        exit(64);
    pthread_barrier_init(&begins, NULL, (unsigned)count + 1);
    pthread_barrier_init(&ends, NULL, (unsigned)count + 1);
    for (long i = 0; i < count; i++) {
        cores[i] = accelerator + (int)i % accelerators;
        if (pthread_create(threads + i, NULL, queued, cores + i) != 0)
            fail("pthread_create");
    }
    BEGIN("queue", 6);
    pthread_barrier_wait(&begins);
    pthread_barrier_wait(&ends);
    END("queue", 6);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/*
 * Scalar processes compute without vectors. Vector processes use vectors in every other phase. A phase is some 50 million instructions: 50 ms, or
 * 5 slices, if an instruction takes a nanosecond. That is longer than a thread's patience (docs/protocols/extensions.md). Hinted processes tell the
 * kernel when they are done with vectors.
 */
enum { PHASE = 50000000 };

static void compute(long rounds) {
    __asm__ volatile("1: addi %0, %0, -1\nbnez %0, 1b" : "+r"(rounds));
}

static void mixed(int is_vector, int is_hinted, long phases) {
    for (long phase = 0; phase < phases; phase++)
        if (is_vector && phase % 2 == 1) {
            job(PHASE / 3);
            if (is_hinted)
                motet_done("v");
        } else {
            compute(PHASE / 2);
        }
}

static void mix(long phases, int is_hinted) {
    enum { EACH = 8, SCALAR_CORES = 4, VECTOR_CORES = 2 };
    BEGIN("mix", 7);
    for (int i = 0; i < 2 * EACH; i++) {
        int is_vector = i % 2, number = i / 2;
        int core = is_vector ? accelerator + number % VECTOR_CORES : number % SCALAR_CORES;
        pid_t child = fork();
        if (child < 0)
            fail("fork");
        if (child == 0) {
            if (way == PIN)
                pin(core);
            mixed(is_vector, is_hinted, phases);
            _exit(0);
        }
    }
    for (int ended = 0, status; ended < 2 * EACH; ended++)
        if (wait(&status) < 0 || status != 0)
            exit(1);
    END("mix", 7);
}

static void show_moves(void) {
    char line[100];
    FILE *file = fopen("/proc/self/migrations", "r");
    while (file && fgets(line, sizeof line, file))
        fputs(line, stdout);
}

static int run(const char *experiment, long count, int accelerators) {
    if (strcmp(experiment, "settle") == 0)
        sleep((unsigned)count);
    else if (strcmp(experiment, "migrate") == 0)
        migrate(count);
    else if (strcmp(experiment, "getpid") == 0)
        getpids(count);
    else if (strcmp(experiment, "dgemm") == 0)
        products(count);
    else if (strcmp(experiment, "calls") == 0)
        products_with_calls(count);
    else if (strcmp(experiment, "repeat") == 0)
        repeated(count);
    else if (strcmp(experiment, "touch") == 0)
        touch(count);
    else if (strcmp(experiment, "queue") == 0)
        queue(count, accelerators);
    else if (strcmp(experiment, "mix") == 0)
        mix(count, 0);
    else if (strcmp(experiment, "hinted") == 0)
        mix(count, 1);
    else
        return 64;
    return 0;
}

int main(int count, char **words) {
    if (count < 5) {
        fputs("usage: ftm trap|firmware|pin ACCELERATOR EXPERIMENT COUNT [ACCELERATORS]\n", stderr);
        return 64;
    }
    way = strcmp(words[1], "pin") == 0 ? PIN : strcmp(words[1], "firmware") == 0 ? FIRMWARE : TRAP;
    accelerator = atoi(words[2]);
    set_matrices();
    int status = 0;
    /* Several experiments may follow each other: EXPERIMENT COUNT EXPERIMENT COUNT … of one accelerator each. */
    int accelerators = count > 5 && strcmp(words[3], "queue") == 0 ? atoi(words[5]) : 1;
    for (int word = 3; word + 1 < count && status == 0; word += 2)
        status = run(words[word], atol(words[word + 1]), accelerators);
    show_moves();
    puts(status == 0 ? "ftm: ok" : "ftm: failed");
    fflush(stdout);
    /* On Motet that is not permitted, and the shell goes on. */
    if (getpid() == 1)
        reboot(RB_POWER_OFF);
    return status;
}
