/*
 * os [quick]: the operations of operations.h between marks, for `motet bench os`. What each does is lmbench's (McVoy and Staelin, USENIX 1996), as far
 * as that has it.
 *
 * The same program runs on Motet and, as the first program, on Linux, where it waits until that has settled, and switches the machine off at its end.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
#define OPERATION(name, iterations, batches, says) OF_##name,
#include "operations.h"
#undef OPERATION
    OPERATIONS
};

enum {
#define OPERATION(name, iterations, batches, says) ITERATIONS_##name = (iterations), BATCHES_##name = (batches),
#include "operations.h"
#undef OPERATION
};

enum {
    PAGE = 4096,
    FILE_PAGES = 256,
    FAULTS = 64,
    STREAM = 64 << 10,
    DESCRIPTORS = 100,
    RING_MAX = 16,
    FILES = 20,
    SMALL_FILE = 10 << 10,
    MAP_STRIDE = 16 << 10,
    WARM_UP_BATCHES = 3,
    QUICK_BATCHES = 5,
    SETTLE_S = 10
};

#define FOLDER "/tmp/os"
#define CHILD FOLDER "/child"
#define DATA FOLDER "/data"

/* fused/layout/src/marks.rs */
#if defined(__x86_64__)
#define MARK(mark) __asm__ volatile(".byte 0x0f, 0x1f, 0x80\n\t.long 0x4d4f5400 + %c0" : : "i"(mark) : "memory")
#elif defined(__aarch64__)
#define MARK(mark) __asm__ volatile(".inst 0xd289a81f + (%c0 << 5)" : : "i"(mark) : "memory")
#elif defined(__riscv)
#define MARK(mark) __asm__ volatile(".4byte 0x68002013 + (%0 << 20)" : : "i"(mark) : "memory")
#endif

static int is_quick;
static const char *doing = "the beginning";
static char stream[STREAM];

static void fail(void) {
    printf("os: %s: %s\n", doing, strerror(errno));
    exit(1);
}

static void must(int is_right) {
    if (!is_right)
        fail();
}

/* How often batches are executed before they count, and how many count. */
static int batches(int whole) {
    return WARM_UP_BATCHES + (is_quick ? QUICK_BATCHES : whole);
}

/* A batch of the warm-up has no marks. */
#define BATCH(name, before, ...)                                                                                       \
    do {                                                                                                               \
        if (before < WARM_UP_BATCHES) {                                                                                \
            for (int turn = 0; turn < ITERATIONS_##name; turn++)                                                       \
                __VA_ARGS__;                                                                                           \
        } else {                                                                                                       \
            MARK(2 * OF_##name);                                                                                       \
            for (int turn = 0; turn < ITERATIONS_##name; turn++)                                                       \
                __VA_ARGS__;                                                                                           \
            MARK(2 * OF_##name + 1);                                                                                   \
        }                                                                                                              \
    } while (0)

#define MEASURE(name, ...)                                                                                             \
    do {                                                                                                               \
        doing = #name;                                                                                                 \
        for (int batch = 0; batch < batches(BATCHES_##name); batch++)                                                  \
            BATCH(name, batch, __VA_ARGS__);                                                                           \
    } while (0)

static pid_t forked(void) {
    pid_t child = fork();
    must(child >= 0);
    return child;
}

static void ended(pid_t child) {
    int status;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void killed(pid_t child) {
    must(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

static void *mapped(size_t size, int protection, int flags, int file) {
    void *memory = mmap(NULL, size, protection, flags, file, 0);
    must(memory != MAP_FAILED);
    return memory;
}

static void write_all(int file, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t written = write(file, bytes, size);
        must(written > 0);
        bytes += written;
        size -= (size_t)written;
    }
}

/* ---- calls ---- */

static void calls(void) {
    int null = open("/dev/null", O_WRONLY), data = open(DATA, O_RDONLY);
    must(null >= 0 && data >= 0);
    MEASURE(null_call, getppid());
    MEASURE(null_write, must(write(null, "x", 1) == 1));
    MEASURE(open_close, must(close(open(DATA, O_RDONLY)) == 0));
    struct stat status;
    MEASURE(stat, must(stat(DATA, &status) == 0));
    int page = 0;
    MEASURE(read_page, must(pread(data, stream, PAGE, PAGE * (off_t)(page++ % FILE_PAGES)) == PAGE));
    close(null);
    close(data);
}

/* ---- connections ---- */

static struct sockaddr_in local(int socket, int is_bound) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (!is_bound)
        must(bind(socket, (struct sockaddr *)&address, size) == 0);
    must(getsockname(socket, (struct sockaddr *)&address, &size) == 0);
    return address;
}

static void tcp_pair(int ends[2]) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    must(listener >= 0 && ends[0] >= 0);
    struct sockaddr_in address = local(listener, 0);
    must(listen(listener, 1) == 0 && connect(ends[0], (struct sockaddr *)&address, sizeof address) == 0);
    ends[1] = accept(listener, NULL, NULL);
    must(ends[1] >= 0 && close(listener) == 0);
    for (int end = 0; end < 2; end++)
        must(setsockopt(ends[end], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
}

static void udp_pair(int ends[2]) {
    struct sockaddr_in addresses[2];
    for (int end = 0; end < 2; end++) {
        ends[end] = socket(AF_INET, SOCK_DGRAM, 0);
        must(ends[end] >= 0);
        addresses[end] = local(ends[end], 0);
    }
    for (int end = 0; end < 2; end++)
        must(connect(ends[end], (struct sockaddr *)&addresses[1 - end], sizeof addresses[0]) == 0);
}

static void unix_pair(int ends[2]) {
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
}

/* As lmbench does it: all can be written, and nobody waits. */
static void select_100(void) {
    int ends[2], copies[DESCRIPTORS], most = 0;
    fd_set all;
    FD_ZERO(&all);
    tcp_pair(ends);
    for (int copy = 0; copy < DESCRIPTORS; copy++) {
        copies[copy] = dup(ends[0]);
        must(copies[copy] >= 0);
        FD_SET(copies[copy], &all);
        most = copies[copy];
    }
    MEASURE(select_100, {
        fd_set set = all;
        struct timeval none = {0, 0};
        must(select(most + 1, NULL, &set, NULL, &none) == DESCRIPTORS);
    });
    for (int copy = 0; copy < DESCRIPTORS; copy++)
        close(copies[copy]);
    close(ends[0]);
    close(ends[1]);
}

/* A process that sends back what it gets. */
static pid_t echo(int in, int out) {
    pid_t child = forked();
    if (child)
        return child;
    char byte;
    while (read(in, &byte, 1) == 1 && write(out, &byte, 1) == 1)
        ;
    _exit(1);
}

static inline void there_and_back(int out, int in) {
    char byte = 0;
    must(write(out, &byte, 1) == 1 && read(in, &byte, 1) == 1);
}

/* A process that writes as much as it can. */
static pid_t source(int out) {
    pid_t child = forked();
    if (child)
        return child;
    for (;;)
        write_all(out, stream, STREAM);
}

static inline void take_64k(int in) {
    for (ssize_t all = 0, got; all < STREAM; all += got) {
        got = read(in, stream, (size_t)(STREAM - all));
        must(got > 0);
    }
}

#define LATENCY(name, pair)                                                                                            \
    do {                                                                                                               \
        int ends[2];                                                                                                   \
        doing = #name;                                                                                                 \
        pair(ends);                                                                                                    \
        pid_t child = echo(ends[1], ends[1]);                                                                          \
        MEASURE(name, there_and_back(ends[0], ends[0]));                                                               \
        killed(child);                                                                                                 \
        close(ends[0]);                                                                                                \
        close(ends[1]);                                                                                                \
    } while (0)

#define BANDWIDTH(name, pair)                                                                                          \
    do {                                                                                                               \
        int ends[2];                                                                                                   \
        doing = #name;                                                                                                 \
        pair(ends);                                                                                                    \
        pid_t child = source(ends[1]);                                                                                 \
        MEASURE(name, take_64k(ends[0]));                                                                              \
        killed(child);                                                                                                 \
        close(ends[0]);                                                                                                \
        close(ends[1]);                                                                                                \
    } while (0)

static void one_pipe(int ends[2]) {
    must(pipe(ends) == 0);
}

static void pipe_latency(void) {
    int there[2], back[2];
    doing = "pipe_latency";
    one_pipe(there);
    one_pipe(back);
    pid_t child = echo(there[0], back[1]);
    MEASURE(pipe_latency, there_and_back(there[1], back[0]));
    killed(child);
    for (int end = 0; end < 2; end++) {
        close(there[end]);
        close(back[end]);
    }
}

static void connections(void) {
    pipe_latency();
    BANDWIDTH(pipe_64k, one_pipe);
    LATENCY(unix_latency, unix_pair);
    BANDWIDTH(unix_64k, unix_pair);
    LATENCY(tcp_latency, tcp_pair);
    BANDWIDTH(tcp_64k, tcp_pair);
    LATENCY(udp_latency, udp_pair);
}

/* ---- switches ---- */

static void wait_while(atomic_uint *word, unsigned value) {
    while (atomic_load(word) == value)
        syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word) {
    must(syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0);
}

static void futexes(void) {
    doing = "futex_latency";
    atomic_uint *words = mapped(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    pid_t child = forked();
    if (!child) {
        for (unsigned turn = 0;; turn++) {
            wait_while(&words[0], turn);
            atomic_store(&words[1], turn + 1);
            wake(&words[1]);
        }
    }
    unsigned done = 0;
    MEASURE(futex_latency, {
        atomic_store(&words[0], done + 1);
        wake(&words[0]);
        wait_while(&words[1], done);
        done++;
    });
    killed(child);
}

/* A ring of processes, of which this is the first: pipe i leads to process i. */
struct ring {
    int size, pipes[RING_MAX][2];
    pid_t others[RING_MAX];
};

static void ring_begins(struct ring *ring, int size) {
    ring->size = size;
    for (int index = 0; index < size; index++)
        one_pipe(ring->pipes[index]);
    for (int index = 1; index < size; index++) {
        ring->others[index] = echo(ring->pipes[index][0], ring->pipes[(index + 1) % size][1]);
    }
}

static void ring_ends(struct ring *ring) {
    for (int index = 1; index < ring->size; index++)
        killed(ring->others[index]);
    for (int index = 0; index < ring->size; index++) {
        close(ring->pipes[index][0]);
        close(ring->pipes[index][1]);
    }
}

static void switches(void) {
    struct ring ring;
    ring_begins(&ring, 1);
    MEASURE(own_pipe, there_and_back(ring.pipes[0][1], ring.pipes[0][0]));
    ring_ends(&ring);
    ring_begins(&ring, 2);
    MEASURE(ring_2, there_and_back(ring.pipes[1][1], ring.pipes[0][0]));
    ring_ends(&ring);
    ring_begins(&ring, RING_MAX);
    MEASURE(ring_16, there_and_back(ring.pipes[1][1], ring.pipes[0][0]));
    ring_ends(&ring);
}

/* ---- signals ---- */

static volatile sig_atomic_t faults_left;
static sigjmp_buf after_faults;

static void nothing(int signal) {
    (void)signal;
}

/* The store is tried again as long as the handler returns. */
static void on_fault(int signal) {
    (void)signal;
    if (--faults_left <= 0)
        siglongjmp(after_faults, 1);
}

static void faults(volatile char *page) {
    faults_left = ITERATIONS_protection_fault;
    if (!sigsetjmp(after_faults, 1))
        *page = 1;
}

static void signals(void) {
    struct sigaction action = {.sa_handler = nothing};
    MEASURE(signal_install, must(sigaction(SIGUSR1, &action, NULL) == 0));
    pid_t own = getpid();
    MEASURE(signal_catch, must(kill(own, SIGUSR1) == 0));
    doing = "protection_fault";
    struct sigaction of_fault = {.sa_handler = on_fault};
    must(sigaction(SIGSEGV, &of_fault, NULL) == 0);
    char *page = mapped(PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (volatile int batch = 0; batch < batches(BATCHES_protection_fault); batch++) {
        if (batch < WARM_UP_BATCHES) {
            faults(page);
            continue;
        }
        MARK(2 * OF_protection_fault);
        faults(page);
        MARK(2 * OF_protection_fault + 1);
    }
    signal(SIGSEGV, SIG_DFL);
    munmap(page, PAGE);
}

/* ---- memory ---- */

static void map_pages(int flags, int file, int is_touched) {
    int protection = flags & MAP_ANONYMOUS ? PROT_READ | PROT_WRITE : PROT_READ;
    volatile char *memory = mapped(FAULTS * PAGE, protection, flags, file);
    for (int page = 0; is_touched && page < FAULTS; page++) {
        if (flags & MAP_ANONYMOUS)
            memory[page * PAGE] = 1;
        else
            (void)memory[page * 29 % FAULTS * PAGE]; /* 29 and 64 have no common divisor */
    }
    must(munmap((void *)memory, FAULTS * PAGE) == 0);
}

static void map_file(int file) {
    volatile char *memory = mapped(FILE_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    for (int at = 0; at < FILE_PAGES * PAGE / 10; at += MAP_STRIDE)
        memory[at] = 1;
    must(munmap((void *)memory, FILE_PAGES * PAGE) == 0);
}

static void memory(void) {
    int file = open(DATA, O_RDWR), fresh = MAP_PRIVATE | MAP_ANONYMOUS;
    must(file >= 0);
    MEASURE(map_64_pages, map_pages(MAP_SHARED, file, 0));
    MEASURE(fault_64_pages, map_pages(MAP_SHARED, file, 1));
    MEASURE(map_fresh_64_pages, map_pages(fresh, -1, 0));
    MEASURE(fault_fresh_64_pages, map_pages(fresh, -1, 1));
    MEASURE(map_file, map_file(file));
    close(file);
}

/* ---- files ---- */

static char names[FILES][32];

static inline void make(const char *name, size_t size) {
    int file = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
    must(file >= 0);
    write_all(file, stream, size);
    must(close(file) == 0);
}

#define FILES_OF(size, make_name, delete_name)                                                                         \
    do {                                                                                                               \
        doing = #make_name;                                                                                            \
        for (int batch = 0; batch < batches(BATCHES_##make_name); batch++) {                                           \
            BATCH(make_name, batch, make(names[turn], size));                                                          \
            BATCH(delete_name, batch, must(unlink(names[turn]) == 0));                                                 \
        }                                                                                                              \
    } while (0)

static void files(void) {
    _Static_assert(ITERATIONS_create_0k == FILES && ITERATIONS_delete_0k == FILES, "what is made is deleted");
    _Static_assert(ITERATIONS_create_10k == FILES && ITERATIONS_delete_10k == FILES, "what is made is deleted");
    for (int file = 0; file < FILES; file++)
        snprintf(names[file], sizeof names[file], FOLDER "/file-%d", file);
    FILES_OF(0, create_0k, delete_0k);
    FILES_OF(SMALL_FILE, create_10k, delete_10k);
}

/* ---- processes ---- */

static void fork_and(const char *program, char **words) {
    pid_t child = forked();
    if (!child) {
        if (program)
            execv(program, words);
        _exit(program != NULL);
    }
    ended(child);
}

static void processes(void) {
    char *own[] = {CHILD, "exit", NULL}, *shell[] = {"sh", "-c", CHILD " exit", NULL};
    MEASURE(fork_exit, fork_and(NULL, NULL));
    MEASURE(fork_exec, fork_and(CHILD, own));
    MEASURE(fork_sh, fork_and("/bin/sh", shell));
}

/* ---- before and after ---- */

static void start_linux(void) {
    sleep(SETTLE_S);
    mkdir("/tmp", 01777);
    struct ifreq loopback = {.ifr_name = "lo"};
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    must(any >= 0 && ioctl(any, SIOCGIFFLAGS, &loopback) == 0);
    loopback.ifr_flags |= IFF_UP;
    must(ioctl(any, SIOCSIFFLAGS, &loopback) == 0);
    close(any);
}

static void prepare(const char *program) {
    must(mkdir(FOLDER, 0700) == 0 || errno == EEXIST);
    int data = open(DATA, O_CREAT | O_TRUNC | O_RDWR, 0600);
    for (int page = 0; page < FILE_PAGES; page++)
        write_all(data, stream, PAGE);
    close(data);
    int from = open(program, O_RDONLY), to = open(CHILD, O_CREAT | O_TRUNC | O_WRONLY, 0700);
    must(from >= 0 && to >= 0);
    for (ssize_t got; (got = read(from, stream, sizeof stream)) > 0;)
        write_all(to, stream, (size_t)got);
    close(from);
    close(to);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "exit") == 0)
        return 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    int is_init = strcmp(argv[0], "/init") == 0;
    is_quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    if (is_init)
        start_linux();
    prepare(argv[0]);
    calls();
    select_100();
    signals();
    connections();
    futexes();
    switches();
    memory();
    files();
    processes();
    printf("os: ok\n");
    if (is_init)
        reboot(RB_POWER_OFF);
    return 0;
}
