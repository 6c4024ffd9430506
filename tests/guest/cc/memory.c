/* On every instruction set: read-only memory is not written, refused calls change nothing, and madvise works. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

enum { PAGE = 4096, FUTEX_WAKE_OP_CALL = 5, BAD = 16 };
enum { WIPE = 18, KEEP = 19, FREE = 8 }; /* Not all libraries name these pieces of advice. */

struct head { void *first; long offset; void *pending; };

static char path[64];
/* Used in three places, one page at a time. */
static char zeroes[12 * PAGE] __attribute__((aligned(PAGE)));
static int next_zeroes;

static void tell(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : result == 0 ? "done" : "something");
}

static char *map(int pages, int protection, int kind, int fd) {
    return mmap(0, pages * PAGE, protection, kind | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
}

/* Runs `body` in a child; prints how that ended. */
static void in_child(const char *what, void (*body)(void *), void *argument) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        body(argument);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("%s: ended by signal %d\n", what, WTERMSIG(status));
}

static void protect_again(void *mapping) {
    tell("writable in a child", mprotect(mapping, PAGE, PROT_READ | PROT_WRITE));
}

/* A shared mapping of a file that was opened for reading stays read-only. */
static void read_only_files(void) {
    int reads = open(path, O_RDONLY), writes = open(path, O_WRONLY), both = open(path, O_RDWR);
    char *mapping = map(2, PROT_READ, MAP_SHARED, reads);
    tell("writable", mprotect(mapping, PAGE, PROT_READ | PROT_WRITE));
    tell("only writable", mprotect(mapping + PAGE, PAGE, PROT_WRITE));
    tell("executable", mprotect(mapping, PAGE, PROT_READ | PROT_EXEC));
    in_child("a child", protect_again, mapping);
    mapping = mremap(mapping, PAGE, 4 * PAGE, MREMAP_MAYMOVE);
    tell("writable after it has moved", mprotect(mapping, PAGE, PROT_READ | PROT_WRITE));
    tell("shared and writable", -(map(1, PROT_READ | PROT_WRITE, MAP_SHARED, reads) == MAP_FAILED));
    tell("of a file to write", -(map(1, PROT_READ, MAP_SHARED, writes) == MAP_FAILED));
    tell("private, of a file to write", -(map(1, PROT_READ, MAP_PRIVATE, writes) == MAP_FAILED));
    char *own = map(1, PROT_READ, MAP_PRIVATE, reads);
    tell("private and writable", mprotect(own, PAGE, PROT_READ | PROT_WRITE));
    own[0] = 'z';
    char *common = map(1, PROT_READ, MAP_SHARED, both);
    tell("shared, of a file to read and write", mprotect(common, PAGE, PROT_READ | PROT_WRITE));
    printf("the file begins with %c\n", common[0]);
    close(reads), close(writes), close(both);
}

static void end_with_robust_list(void *mappings) {
    static struct head head;
    int **words = mappings;
    *words[0] = getpid();
    /* The word that the list names is at the beginning of the mapping that cannot be written. */
    static void *entry;
    entry = &head;
    head = (struct head){&entry, (char *)words[1] - (char *)&entry, 0};
    syscall(SYS_set_robust_list, &head, sizeof head);
    _exit(0);
}

/* The kernel must not write for a process where the process itself may not. */
static void writes_of_the_kernel(void) {
    int fd = open(path, O_RDWR);
    int *words[] = {(int *)map(1, PROT_READ | PROT_WRITE, MAP_SHARED, fd), (int *)map(1, PROT_READ, MAP_SHARED, fd)};
    int before = words[0][0];
    static int other;
    int add_one = 1 << 28 | 1 << 12; /* *word += 1, and compares the old value with 0 */
    tell("futex", syscall(SYS_futex, &other, FUTEX_WAKE_OP_CALL, 1, 1, words[1], add_one));
    int *anonymous = (int *)map(1, PROT_READ, MAP_PRIVATE, -1);
    tell("futex of its own", syscall(SYS_futex, &other, FUTEX_WAKE_OP_CALL, 1, 1, anonymous, add_one));
    tell("futex to write", syscall(SYS_futex, &other, FUTEX_WAKE_OP_CALL, 1, 1, &words[0][1], add_one));
    printf("the words are %d %d %d\n", words[0][0] - before, anonymous[0], words[0][1]);
    in_child("robust", end_with_robust_list, words);
    printf("its owner %s\n", words[0][0] & 0x40000000 ? "is marked dead" : "is as before");
    tell("read", read(open("/dev/zero", O_RDONLY), words[1], 8));
    words[0][0] = before, words[0][1] = 0;
    close(fd);
}

static void handle(int number) { (void)number; }

static void raise_on_read_only_stack(void *unused) {
    (void)unused;
    stack_t stack = {.ss_sp = map(16, PROT_READ, MAP_PRIVATE, -1), .ss_size = 16 * PAGE};
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
    sigaltstack(&stack, 0);
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    puts("the handler ran");
}

static long size_of(int fd) {
    struct stat found;
    fstat(fd, &found);
    return found.st_size;
}

/* From memory that cannot be read, nothing is written to a file, a pipe or a stream. */
static void bad_buffers(void) {
    char *bad = map(2, PROT_NONE, MAP_PRIVATE, -1), name[80];
    char *half = map(2, PROT_READ | PROT_WRITE, MAP_PRIVATE, -1);
    munmap(half + PAGE, PAGE);
    snprintf(name, sizeof name, "%s.grows", path);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600), pair[2], ends[2];
    tell("append", write(fd, bad, 100000));
    printf("size %ld at %ld\n", size_of(fd), (long)lseek(fd, 0, SEEK_CUR));
    long written = write(fd, half + PAGE - 100, 100000);
    printf("appended %s\n", size_of(fd) == (written < 0 ? 0 : written) ? "what it says" : "more than it says");
    long before = size_of(fd);
    tell("write", pwrite(fd, bad, 100000, 200000));
    printf("grown by %ld\n", size_of(fd) - before);
    unlink(name), close(fd);
    pipe2(pair, O_NONBLOCK), socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
    tell("pipe", write(pair[1], bad, 100));
    tell("and then", read(pair[0], half, 1));
    tell("socket", write(ends[1], bad, 100));
    tell("and then", read(ends[0], half, 1));
    tell("full pipe", write(pair[1], half, 100) - 100);
    tell("read to nowhere", read(pair[0], bad, 100));
    for (int n = 0; n < 2; n++) close(pair[n]), close(ends[n]);
    munmap(bad, 2 * PAGE), munmap(half, PAGE);
}

/* Anonymous memory that grows is zero. */
static void grown_zeroes(void) {
    char *page = zeroes + next_zeroes++ * 4 * PAGE;
    page[0] = 'x';
    char *moved = mremap(page, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    int sum = 0;
    for (int at = 1; at < 3 * PAGE; at++) sum += moved[at];
    printf("moved %c, grown by %d\n", moved[0], sum);
}

static void look_at_advised(void *mapping) {
    char *pages = mapping;
    unsigned char there;
    printf("kept %d, wiped %d, kept again %d\n", pages[0], pages[PAGE], pages[2 * PAGE]);
    tell("not forked", mincore(pages + 3 * PAGE, PAGE, &there));
    printf("forked again %d\n", pages[4 * PAGE]);
}

static void advice(void) {
    char *pages = map(6, PROT_READ | PROT_WRITE, MAP_PRIVATE, -1);
    memset(pages, 1, 6 * PAGE);
    munmap(pages + 5 * PAGE, PAGE);
    tell("wipe", madvise(pages + PAGE, 2 * PAGE, WIPE));
    tell("keep", madvise(pages + 2 * PAGE, PAGE, KEEP));
    tell("do not fork", madvise(pages + 3 * PAGE, 2 * PAGE, MADV_DONTFORK));
    tell("fork", madvise(pages + 4 * PAGE, PAGE, MADV_DOFORK));
    in_child("advised", look_at_advised, pages);
    printf("here %d %d\n", pages[PAGE], pages[3 * PAGE]);
    tell("with a hole", madvise(pages + 4 * PAGE, 2 * PAGE, MADV_DONTNEED));
    printf("dropped %d\n", pages[4 * PAGE]);
    tell("unknown", madvise(pages, PAGE, 999));
    tell("unaligned", madvise(pages + 1, PAGE, MADV_NORMAL));
    tell("random", madvise(pages, 3 * PAGE, MADV_RANDOM));
    tell("of nothing", madvise(pages, 0, MADV_DONTNEED));
    int fd = open(path, O_RDWR);
    char *shared = map(1, PROT_READ | PROT_WRITE, MAP_SHARED, fd), *own = map(1, PROT_READ, MAP_PRIVATE, fd);
    tell("wipe a shared one", madvise(shared, PAGE, WIPE));
    tell("wipe a file's", madvise(own, PAGE, WIPE));
    tell("free a file's", madvise(own, PAGE, FREE));
    tell("will need", madvise(own, PAGE, MADV_WILLNEED));
    close(fd);
}

static void residence(void) {
    char *pages = map(5, PROT_READ | PROT_WRITE, MAP_PRIVATE, -1);
    unsigned char there[5];
    munmap(pages + 4 * PAGE, PAGE);
    munmap(pages + 2 * PAGE, PAGE);
    pages[0] = 1;
    tell("two pages", mincore(pages, 2 * PAGE, there));
    printf("touched %d, not touched %d\n", there[0] & 1, there[1] & 1);
    tell("with a hole", mincore(pages, 4 * PAGE, there));
    tell("unmapped", mincore(pages + 2 * PAGE, PAGE, there));
    tell("unaligned", mincore(pages + 1, PAGE, there));
    tell("to nowhere", mincore(pages, PAGE, (void *)BAD));
    tell("written", msync(pages, PAGE, MS_SYNC));
    tell("written with a hole", msync(pages, 4 * PAGE, MS_SYNC));
    tell("written in two ways", msync(pages, PAGE, MS_SYNC | MS_ASYNC));
    tell("locked", mlock(pages + 10, 10));
    tell("locked with a hole", mlock(pages, 4 * PAGE));
    tell("unlocked", munlock(pages, PAGE));
    tell("unlocked with a hole", munlock(pages, 4 * PAGE));
    tell("locked strangely", syscall(SYS_mlock2, pages, PAGE, 8));
    tell("nothing locked", mlockall(0));
}

static void all(void) {
    read_only_files();
    writes_of_the_kernel();
    in_child("a read-only stack", raise_on_read_only_stack, 0);
    bad_buffers();
    grown_zeroes();
    advice();
    residence();
}

MOTET_ON(X86) void on_x86(void) { expect_on(X86); all(); }
MOTET_ON(ARM) void on_arm(void) { expect_on(ARM); all(); }
MOTET_ON(RISCV) void on_riscv(void) { expect_on(RISCV); all(); }

int main(void) {
    snprintf(path, sizeof path, "/tmp/memory.%d", (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    ftruncate(fd, 8 * PAGE);
    pwrite(fd, "abcd", 4, 0);
    on_x86(), on_arm(), on_riscv();
    unlink(path);
    return 0;
}
