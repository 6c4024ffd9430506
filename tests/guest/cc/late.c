/*
 * Pages that arrive late (/dev/late): a thread that touches such a page waits until another thread has brought it. A thread touches pages on each
 * instruction set in turn. The main thread reads which page is wanted, and brings it. Prints the parts that it has done, and what was wrong.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../asleep.h"
#include "crossing.h"
#include "expect.h"

enum { PAGE = 4096, PAGES = 64 };

struct message {
    uint64_t number;
    unsigned char bytes[PAGE];
};

static int device;
static unsigned char *pages;
static _Atomic(long) result;

static unsigned char byte_at(long at) { return at / PAGE * 31 + at * 7 + 1; }

static void open_pages(int protection, int flags) {
    device = open("/dev/late", O_RDWR);
    pages = mmap(NULL, PAGES * PAGE, protection, flags, device, 0);
    EXPECT(device < 0 || pages == MAP_FAILED, 0);
}

static void close_pages(void) {
    munmap(pages, PAGES * PAGE);
    close(device);
}

static long wanted(void) {
    uint64_t page = PAGES;
    EXPECT(read(device, &page, sizeof page), sizeof page);
    return page;
}

static void bring_bytes(long page, const void *bytes, size_t len) {
    struct message message = {.number = page};
    for (long at = 0; at < PAGE; at++)
        message.bytes[at] = byte_at(page * PAGE + at);
    if (len)
        memcpy(message.bytes, bytes, len);
    EXPECT(write(device, &message, sizeof message), sizeof message);
}

static void bring(long page) { bring_bytes(page, 0, 0); }

static void bring_wanted(long page) {
    EXPECT(wanted(), page);
    bring(page);
}

static long wrong_bytes(const unsigned char *found, long from, long len) {
    long count = 0;
    for (long at = 0; at < len; at++)
        count += found[at] != byte_at(from + at);
    return count;
}

/* A function that runs on each instruction set. */
typedef void (*Part)(void);
#define EVERYWHERE(name)                                                                                               \
    MOTET_ON(X86) void name##_on_x86(void) { expect_on(X86); name(); }                                                 \
    MOTET_ON(ARM) void name##_on_arm(void) { expect_on(ARM); name(); }                                                 \
    MOTET_ON(RISCV) void name##_on_riscv(void) { expect_on(RISCV); name(); }                                           \
    static const Part name##_on[] = {name##_on_x86, name##_on_arm, name##_on_riscv};

static void *work(void *part) {
    (**(const Part *)part)();
    return 0;
}

static pthread_t started(const Part *part) {
    pthread_t thread;
    result = -1;
    EXPECT(pthread_create(&thread, 0, work, (void *)part), 0);
    return thread;
}

static void load(void) { result = ((volatile unsigned char *)pages)[5]; }
EVERYWHERE(load)

static void store(void) { ((volatile unsigned char *)pages)[3] = 9; }
EVERYWHERE(store)

static void touches(int flags) {
    for (int isa = 0; isa < 3; isa++) {
        open_pages(PROT_READ | PROT_WRITE, flags);
        pthread_t thread = started(&load_on[isa]);
        bring_wanted(0);
        pthread_join(thread, 0);
        EXPECT(result, byte_at(5));
        EXPECT(write(device, &(struct message){0}, sizeof(struct message)), -1);
        EXPECT(errno, EEXIST);
        close_pages();

        open_pages(PROT_READ | PROT_WRITE, flags);
        thread = started(&store_on[isa]);
        bring_wanted(0);
        pthread_join(thread, 0);
        EXPECT(pages[3], 9);
        EXPECT(pages[4], byte_at(4));
        close_pages();
    }
}

/* A function that returns at once. */
static const uint32_t codes[][2] = {{0xc3}, {0xd65f03c0}, {0x00008067}};
static int code_page;
static void execute(void) {
    ((void (*)(void))(pages + code_page * PAGE))();
    result = 1;
}
EVERYWHERE(execute)

static void executes(void) {
    open_pages(PROT_READ | PROT_EXEC, MAP_SHARED);
    for (int isa = 0; isa < 3; isa++) {
        code_page = isa + 1;
        pthread_t thread = started(&execute_on[isa]);
        EXPECT(wanted(), code_page);
        bring_bytes(code_page, codes[isa], sizeof codes[isa]);
        pthread_join(thread, 0);
        EXPECT(result, 1);
    }
    close_pages();
}

static int file, ends[2];

static void write_file(void) { result = pwrite(file, pages + 100, 3 * PAGE, 50); }
EVERYWHERE(write_file)
static void append_file(void) { result = write(file, pages + 100, 2 * PAGE); }
EVERYWHERE(append_file)
static void read_file(void) { result = read(file, pages + 20 * PAGE + 100, 2 * PAGE); }
EVERYWHERE(read_file)
static void write_pipe(void) { result = write(ends[1], pages + 31 * PAGE - 10, 20); }
EVERYWHERE(write_pipe)
static void write_much(void) { result = write(ends[1], pages + 40 * PAGE + 100, 2 * PAGE); }
EVERYWHERE(write_much)
static void read_pipe(void) {
    long first = read(ends[0], pages + 51 * PAGE - 10, 20);
    result = 100 * first + read(ends[0], pages + 51 * PAGE - 10 + first, 20 - first);
}
EVERYWHERE(read_pipe)

static void transfers(void) {
    static unsigned char bytes[4 * PAGE];
    for (int isa = 0; isa < 3; isa++) {
        open_pages(PROT_READ | PROT_WRITE, MAP_SHARED);
        file = memfd_create("file", 0);
        EXPECT(pipe(ends), 0);

        pthread_t thread = started(&write_file_on[isa]);
        for (int page = 0; page < 4; page++)
            bring_wanted(page);
        pthread_join(thread, 0);
        EXPECT(result, 3 * PAGE);
        EXPECT(pread(file, bytes, sizeof bytes, 50), 3 * PAGE);
        EXPECT(wrong_bytes(bytes, 100, 3 * PAGE), 0);
        EXPECT(lseek(file, 0, SEEK_CUR), 0);

        thread = started(&read_file_on[isa]);
        for (int page = 20; page < 23; page++)
            bring_wanted(page);
        pthread_join(thread, 0);
        EXPECT(result, 2 * PAGE);
        EXPECT(pages[20 * PAGE + 99], byte_at(20 * PAGE + 99));
        EXPECT(wrong_bytes(pages + 20 * PAGE + 150, 100, 2 * PAGE - 50), 0);
        EXPECT(lseek(file, 0, SEEK_CUR), 2 * PAGE);

        thread = started(&write_pipe_on[isa]);
        bring_wanted(30);
        bring_wanted(31);
        pthread_join(thread, 0);
        EXPECT(result, 20);
        EXPECT(read(ends[0], bytes, sizeof bytes), 20);
        EXPECT(wrong_bytes(bytes, 31 * PAGE - 10, 20), 0);

        thread = started(&write_much_on[isa]);
        for (int page = 40; page < 43; page++)
            bring_wanted(page);
        pthread_join(thread, 0);
        EXPECT(result, 2 * PAGE);
        EXPECT(read(ends[0], bytes, sizeof bytes), 2 * PAGE);
        EXPECT(wrong_bytes(bytes, 40 * PAGE + 100, 2 * PAGE), 0);

        EXPECT(write(ends[1], "abcdefghijklmnopqrst", 20), 20);
        thread = started(&read_pipe_on[isa]);
        bring_wanted(50);
        bring_wanted(51);
        pthread_join(thread, 0);
        EXPECT(result, 1010);
        EXPECT(memcmp(pages + 51 * PAGE - 10, "abcdefghijklmnopqrst", 20), 0);
        for (int end = 0; end < 2; end++)
            close(ends[end]);
        close(file);
        close_pages();
    }
    /* The position is not known before, and the second page comes only after the first one has been copied. */
    open_pages(PROT_READ | PROT_WRITE, MAP_SHARED);
    file = memfd_create("file", 0);
    fcntl(file, F_SETFL, O_APPEND);
    EXPECT(write(file, bytes, 7), 7);
    pthread_t thread = started(&append_file_on[1]);
    for (int page = 0; page < 3; page++)
        bring_wanted(page);
    pthread_join(thread, 0);
    EXPECT(result, 2 * PAGE);
    EXPECT(lseek(file, 0, SEEK_END), 7 + 2 * PAGE);
    EXPECT(pread(file, bytes, sizeof bytes, 7), 2 * PAGE);
    EXPECT(wrong_bytes(bytes, 100, 2 * PAGE), 0);
    close(file);
    close_pages();
}

static pid_t child;

static void results(void) {
    struct stat *status = (struct stat *)(pages + 2 * PAGE - 64);
    result = fstat(device, status) == 0 && pipe((int *)(pages + 3 * PAGE)) == 0;
    result += 10 * (waitpid(child, (int *)(pages + 4 * PAGE), 0) == child);
    result += 100 * (clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(pages + 5 * PAGE)) == 0);
    result += 1000 * (nanosleep((struct timespec *)(pages + 6 * PAGE), 0) == 0);
    sigset_t none;
    sigemptyset(&none);
    result += 10000 * (syscall(SYS_rt_sigprocmask, SIG_BLOCK, &none, pages + 7 * PAGE, 8) == 0);
    result += 100000 * (syscall(SYS_openat, AT_FDCWD, pages + 8 * PAGE, O_RDONLY) >= 0);
}
EVERYWHERE(results)

static void structures(void) {
    static const struct timespec brief = {0, 1000};
    for (int isa = 0; isa < 3; isa++) {
        open_pages(PROT_READ | PROT_WRITE, MAP_SHARED);
        child = fork();
        if (child == 0)
            _exit(7);
        pthread_t thread = started(&results_on[isa]);
        for (int page = 1; page < 6; page++)
            bring_wanted(page);
        EXPECT(wanted(), 6);
        bring_bytes(6, &brief, sizeof brief);
        bring_wanted(7);
        EXPECT(wanted(), 8);
        bring_bytes(8, "/dev/null", 10);
        pthread_join(thread, 0);
        EXPECT(result, 111111);
        int *fds = (int *)(pages + 3 * PAGE), status = *(int *)(pages + 4 * PAGE);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7, 1);
        EXPECT(fds[1], fds[0] + 1);
        EXPECT(close(fds[0]) | close(fds[1]), 0);
        /* Nothing was opened twice: the file was opened last, at the lowest number. */
        EXPECT(close(fds[0] + 2), 0);
        EXPECT(close(fds[0] + 3), -1);
        close_pages();
    }
}

static void wait_for_word(void) {
    uint32_t *word = (uint32_t *)pages;
    while (__atomic_load_n(&word[1], __ATOMIC_SEQ_CST) != 5)
        result = syscall(SYS_futex, word, FUTEX_WAIT, 1234, 0, 0, 0);
    result = 1;
}
static void wait_at_word(void) {
    result = syscall(SYS_futex, pages + PAGE, FUTEX_WAIT, 1234, 0, 0, 0);
    wait_for_word();
}
EVERYWHERE(wait_at_word)

static void futexes(void) {
    static const uint32_t words[] = {1234, 0}, others[] = {1, 0};
    for (int isa = 0; isa < 3; isa++) {
        open_pages(PROT_READ | PROT_WRITE, MAP_SHARED);
        pthread_t thread = started(&wait_at_word_on[isa]);
        EXPECT(wanted(), 1);
        bring_bytes(1, others, sizeof others); /* another value: it does not wait */
        EXPECT(wanted(), 0);
        bring_bytes(0, words, sizeof words);
        __atomic_store_n((uint32_t *)pages + 1, 5, __ATOMIC_SEQ_CST);
        while (result != 1) {
            syscall(SYS_futex, pages, FUTEX_WAKE, 1, 0, 0, 0);
            usleep(100);
        }
        pthread_join(thread, 0);
        close_pages();
    }
}

static void together(void) {
    enum { THREADS = 6 };
    open_pages(PROT_READ, MAP_SHARED);
    pthread_t threads[THREADS];
    for (int index = 0; index < THREADS; index++)
        threads[index] = started(&load_on[index % 3]);
    bring_wanted(0);
    for (int index = 0; index < THREADS; index++)
        pthread_join(threads[index], 0);
    EXPECT(result, byte_at(5));
    close_pages();
}

static atomic_int handled;
static void handle(int signal) { (void)signal, handled++; }

static void write_one(void) { result = write(file, pages, 10); }
EVERYWHERE(write_one)

static void handlers(void) {
    signal(SIGUSR1, handle);
    for (int isa = 0; isa < 6; isa++) {
        open_pages(PROT_READ, MAP_SHARED);
        file = memfd_create("file", 0);
        handled = 0;
        pthread_t thread = started(isa < 3 ? &load_on[isa] : &write_one_on[isa - 3]);
        long page = wanted();
        for (int count = 1; count <= 3; count++) {
            pthread_kill(thread, SIGUSR1);
            while (handled < count)
                usleep(100);
        }
        EXPECT(result, -1);
        bring(page);
        pthread_join(thread, 0);
        EXPECT(result, isa < 3 ? byte_at(5) : 10);
        close(file);
        close_pages();
    }
}

static struct pollfd *entries;
static _Atomic(int) poller;

/* The thread blocks SIGUSR1, but not while it polls. */
static void poll_unblocked(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, 0);
    sigemptyset(&set);
    poller = syscall(SYS_gettid);
    long polled = ppoll(entries, 1, 0, &set);
    long is_interrupted = polled == -1 && errno == EINTR;
    pthread_sigmask(SIG_BLOCK, 0, &set);
    result = is_interrupted && sigismember(&set, SIGUSR1);
}
EVERYWHERE(poll_unblocked)

/* A call goes on with its own signal mask that has waited and then finds that a page comes later. */
static void masks(void) {
    signal(SIGUSR1, handle);
    for (int isa = 0; isa < 3; isa++) {
        int many = 0;
        EXPECT(pipe(ends), 0);
        entries = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        entries[0] = (struct pollfd){.fd = ends[0], .events = POLLIN};
        handled = poller = 0;
        pthread_t thread = started(&poll_unblocked_on[isa]);
        while (poller == 0) usleep(500);
        until_asleep(poller);
        device = open("/dev/late", O_RDWR);
        EXPECT(mmap(entries, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, device, 0), entries);
        EXPECT(write(ends[1], "x", 1), 1);
        EXPECT(wanted(), 0);
        pthread_kill(thread, SIGUSR1);
        while (handled == 0 && many++ < 600000)
            usleep(100);
        EXPECT(handled, 1);
        bring_bytes(0, &(struct pollfd){.fd = ends[0], .events = POLLIN}, sizeof(struct pollfd));
        pthread_join(thread, 0);
        EXPECT(result, 1);
        munmap(entries, PAGE);
        close(device);
        close(ends[0]);
        close(ends[1]);
    }
}

/* In a child, a thread waits for a page. Returns how the child ends after its main thread has called `act`. */
static int ended(const Part *part, void (*act)(void)) {
    pid_t child = fork();
    if (child == 0) {
        wrong = 0;
        open_pages(PROT_READ, MAP_SHARED);
        file = memfd_create("file", 0);
        pthread_t thread = started(part);
        long page = wanted();
        act();
        if (device >= 0)
            bring(page);
        pthread_join(thread, 0);
        _exit(wrong ? 100 : 0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0), child);
    return status;
}

static void end(void) { kill(getpid(), SIGKILL); }
static void unmap(void) { munmap(pages, PAGES * PAGE); }
static void end_pages(void) { close(device), device = -1; }
static void leave(void) { _exit(3); }
static void fails_with_efault(void) { result = write(file, pages, 10); if (result >= 0 || errno != EFAULT) _exit(9); }
EVERYWHERE(fails_with_efault)

static void ends_of_waits(void) {
    for (int isa = 0; isa < 3; isa++) {
        EXPECT(ended(&load_on[isa], end), SIGKILL);
        EXPECT(ended(&write_one_on[isa], end), SIGKILL);
        EXPECT(ended(&load_on[isa], unmap) & 127, SIGSEGV);
        EXPECT(ended(&load_on[isa], end_pages) & 127, SIGBUS);
        EXPECT(ended(&load_on[isa], leave), 3 << 8);
        EXPECT(ended(&fails_with_efault_on[isa], unmap), 0);
        EXPECT(ended(&fails_with_efault_on[isa], end_pages), 0);
    }
}

static void forks(void) {
    for (int isa = 0; isa < 3; isa++) {
        open_pages(PROT_READ | PROT_WRITE, MAP_SHARED);
        pid_t child = fork();
        if (child == 0) {
            load_on[isa]();
            pages[6] = 77;
            _exit(result == byte_at(5) ? 0 : 1);
        }
        pthread_t thread = started(&load_on[(isa + 1) % 3]);
        bring_wanted(0);
        int status = -1;
        EXPECT(waitpid(child, &status, 0), child);
        EXPECT(status, 0);
        pthread_join(thread, 0);
        EXPECT(result, byte_at(5));
        EXPECT(pages[6], 77);
        close_pages();
    }
}

static void shared(void) { touches(MAP_SHARED); }
static void private(void) { touches(MAP_PRIVATE); }

int main(int count, char **arguments) {
    static const struct { const char *name; void (*part)(void); } parts[] = {
        {"shared", shared}, {"private", private}, {"executes", executes}, {"transfers", transfers},
        {"structures", structures}, {"futexes", futexes}, {"together", together}, {"handlers", handlers},
        {"masks", masks},
        {"ends", ends_of_waits}, {"forks", forks},
    };
    for (size_t index = 0; index < sizeof parts / sizeof *parts; index++)
        if (count < 2 || strcmp(arguments[1], parts[index].name) == 0) {
            parts[index].part();
            printf("%s\n", parts[index].name);
            fflush(stdout);
        }
    return wrong;
}
