/* Mapped files that are shorter than their mapping: an access beyond their last page is a SIGBUS, on any instruction set. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

enum { PAGE = 4096, PAGES = 8, BYTES = PAGE + 1000 };

static char *mapping;
static volatile int signal_number, code;
static volatile long page;

/* Maps a page there, so that the repeated access succeeds. */
static void missing(int number, siginfo_t *info, void *context) {
    (void)context;
    signal_number = number, code = info->si_code;
    page = ((char *)info->si_addr - mapping) / PAGE;
    mmap(mapping + page * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static int load(const char *at) { return *(const volatile char *)at; }
static void store(char *at) { *(volatile char *)at = 'x'; }

MOTET_ON(ARM) int load_on_arm(const char *at) {
    expect_on(ARM);
    return load(at);
}
MOTET_ON(RISCV) void store_on_riscv(char *at) {
    expect_on(RISCV);
    store(at);
}

static void tell(const char *what) {
    if (signal_number == 0) printf("%s: there\n", what);
    else printf("%s: %s, code %d, page %ld\n", what, signal_number == SIGBUS ? "SIGBUS" : "SIGSEGV", code, page);
    signal_number = 0;
}

static void look(int fd, int kind) {
    mapping = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, kind, fd, 0);
    printf("%d\n", load(mapping + BYTES - 1));
    printf("%d\n", load_on_arm(mapping + 2 * PAGE - 1));
    tell("the rest of the last page");
    printf("%d\n", load(mapping + 2 * PAGE));
    tell("a load");
    printf("%d\n", load_on_arm(mapping + 3 * PAGE));
    tell("a load on another");
    store(mapping + 4 * PAGE);
    tell("a store");
    store_on_riscv(mapping + 5 * PAGE);
    tell("a store on another");
    long written = write(1, mapping + 6 * PAGE, 1);
    printf("write %ld %s\n", written, written < 0 ? strerror(errno) : "");
    munmap(mapping, PAGES * PAGE);
}

/* A page that is beyond the end now may be inside the file when it is accessed. */
static void grow(int fd) {
    mapping = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ftruncate(fd, PAGES * PAGE) != 0 || pwrite(fd, "y", 1, 4 * PAGE) != 1) printf("it does not grow\n");
    printf("%c %d\n", load_on_arm(mapping + 4 * PAGE), load(mapping + 5 * PAGE));
    store_on_riscv(mapping + 6 * PAGE);
    char byte = 0;
    if (pread(fd, &byte, 1, 6 * PAGE) != 1) printf("it cannot be read\n");
    printf("%c\n", byte);
    tell("what has grown");
}

/* After a truncation, the pages are gone for all processes that share them. When the file grows again, the mapping shows the file's new pages. */
static void shrink(void) {
    int fd = memfd_create("shrinks", 0), go[2], done[2];
    if (ftruncate(fd, PAGES * PAGE) != 0 || pipe(go) != 0 || pipe(done) != 0) return;
    mapping = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *private = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0), byte = 0;
    for (int number = 0; number < PAGES; number++) {
        store_on_riscv(mapping + number * PAGE);
        load_on_arm(mapping + number * PAGE);
    }
    store(private);
    if (fork() == 0) {
        load_on_arm(mapping + 3 * PAGE);
        if (write(done[1], "", 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
        load_on_arm(mapping + 3 * PAGE);
        tell("cut off, for another");
        _exit(0);
    }
    if (read(done[0], &byte, 1) != 1 || ftruncate(fd, 2 * PAGE) != 0 || write(go[1], "", 1) != 1) printf("it is not cut\n");
    wait(0);
    load(mapping + PAGE);
    tell("what is left");
    load(mapping + 4 * PAGE);
    tell("cut off");
    store_on_riscv(mapping + 5 * PAGE);
    tell("cut off, on another");
    if (ftruncate(fd, PAGES * PAGE) != 0 || pwrite(fd, "q", 1, 6 * PAGE) != 1) printf("it does not grow again\n");
    printf("%d %c %d\n", load(mapping + 2 * PAGE), load_on_arm(mapping + 6 * PAGE), load_on_arm(mapping + 7 * PAGE));
    tell("there again");
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2 * PAGE) != 0) printf("no hole\n");
    printf("%d %d %c\n", load(mapping), load_on_arm(mapping + PAGE), load(private));
    store_on_riscv(mapping + PAGE);
    if (pread(fd, &byte, 1, PAGE) == 1) printf("%c\n", byte);
    tell("a hole");
}

/* Shared anonymous memory ends where its mapping ended when it was made. */
static void nameless(void) {
    mapping = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mapping = mremap(mapping, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    store(mapping);
    tell("its own page");
    store_on_riscv(mapping + PAGE);
    tell("a further page");
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    struct sigaction action = {.sa_sigaction = missing, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, 0);
    sigaction(SIGSEGV, &action, 0);
    char name[] = "mapped-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    if (fd < 0 || ftruncate(fd, BYTES - 1) != 0 || pwrite(fd, "z", 1, BYTES - 1) != 1) return 1;
    look(fd, MAP_SHARED);
    look(fd, MAP_PRIVATE);
    grow(fd);
    shrink();
    nameless();
    if (fork() == 0) {
        signal(SIGBUS, SIG_DFL);
        store_on_riscv(mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_create("empty", 0), 0));
        _exit(0);
    }
    int status;
    wait(&status);
    printf("%d\n", status & 127);
    return 0;
}
