// Requests of /dev/vm that are refused (docs/vms.md), and events that interrupt a running virtual machine. Prints "right".

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// fused/abi/src/vm.rs
enum { MEMORY = 0x4d70, VCPU, START, RUN, LINE };

#define BASE 0x80000000ull
#define SIZE 0x10000ull
#ifdef __aarch64__
#define CORES 8
#define SHARED(id) ((id) << 8)
static const uint32_t loop = 0x14000000; // b .
#else
#define CORES 16
static const uint32_t loop = 0x0000006f; // j .
#endif

static int wrong;

static void expect(const char *what, int result, int error) {
    int got = result < 0 ? errno : 0;
    if (got != error) {
        printf("%s: %s, not %s\n", what, strerror(got), strerror(error));
        wrong = 1;
    }
}

static int give(int vm, uint64_t start, uint64_t bytes, int fd, uint64_t offset) {
    uint64_t words[] = {start, bytes, (uint64_t)fd, offset};
    return ioctl(vm, MEMORY, words);
}

static int file(int seals) {
    int fd = memfd_create("memory", MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, SIZE) || fcntl(fd, F_ADD_SEALS, seals)) exit(2);
    return fd;
}

static void alarmed(int signal) { (void)signal; }

int main(void) {
    int vm = open("/dev/vm", O_RDWR);
    if (vm < 0) {
        perror("/dev/vm");
        return 1;
    }
    int memory = file(0), null = open("/dev/null", O_RDWR);
    expect("no file", give(vm, BASE, SIZE, 99, 0), EBADF);
    expect("a device", give(vm, BASE, SIZE, null, 0), EINVAL);
    expect("memory that is sealed", give(vm, BASE, SIZE, file(F_SEAL_WRITE), 0), EPERM);
    expect("more than there is", give(vm, BASE, SIZE + 4096, memory, 0), EINVAL);
    expect("more than there is, from an offset", give(vm, BASE, SIZE, memory, 4096), EINVAL);
    expect("an offset beyond all", give(vm, BASE, SIZE, memory, -4096ull), EINVAL);
    expect("nothing", give(vm, BASE, 0, memory, 0), EINVAL);
    expect("part of a page", give(vm, BASE + 8, SIZE, memory, 0), EINVAL);
    expect("an address beyond all", give(vm, -4096ull, SIZE, memory, 0), EINVAL);
    expect("memory", give(vm, BASE, SIZE, memory, 0), 0);
    expect("the same again", give(vm, BASE + 4096, 4096, memory, 0), EINVAL);
    expect("it gets shorter", ftruncate(memory, SIZE - 1), EPERM);
    expect("it stays as long as it is", ftruncate(memory, SIZE), 0);
    expect("a seal against writing", fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), EBUSY);
    expect("memory below", give(vm, 0, 4096, memory, 0), 0);

    for (int core = 0; core < CORES; core++) expect("a core", ioctl(vm, VCPU, 0) == core ? 0 : -1, 0);
    expect("one too many", ioctl(vm, VCPU, 0), ENOSPC);
    uint64_t nobody[] = {CORES, BASE, 0, 0}, first[] = {0, BASE, 0, 0}, exit[8] = {0}, none[8] = {CORES};
    expect("a core that is not there starts", ioctl(vm, START, nobody), EINVAL);
    expect("it runs", ioctl(vm, RUN, none), EINVAL);
#ifdef __aarch64__
    expect("a core's own interrupt", ioctl(vm, LINE, SHARED(27)), EINVAL);
    expect("an interrupt beyond all", ioctl(vm, LINE, SHARED(96)), EINVAL);
    expect("a shared interrupt", ioctl(vm, LINE, SHARED(95) | 1ull << 32), 0);
#else
    expect("it is interrupted", ioctl(vm, LINE, CORES), EINVAL);
#endif
    expect("no exit", ioctl(vm, RUN, 8), EFAULT);
    expect("an unknown call", ioctl(vm, 0x4d7f, 0), ENOTTY);

    struct sigaction action = {.sa_handler = alarmed};
    struct itimerval often = {{0, 20000}, {0, 20000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    exit[0] = 1;
    expect("a core that is stopped, and a signal", ioctl(vm, RUN, exit), EINTR);
    if (pwrite(memory, &loop, sizeof loop, 0) != sizeof loop) return 2;
    expect("a core starts", ioctl(vm, START, first), 0);
    expect("it starts again", ioctl(vm, START, first), EINVAL);
    exit[0] = 0;
    for (int n = 0; n < 3; n++) expect("a loop, and a signal", ioctl(vm, RUN, exit), EINTR);

    // Another process that has the file runs the core, and both take turns on one real core.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pid_t child = fork();
    if (child == 0) {
        while (ioctl(vm, RUN, exit) && errno == EBUSY) continue;
        _exit(1);
    }
    // As long as the other one has not begun, it is this one that runs the core, until the alarm.
    int result, tries = 0;
    do {
        usleep(30000);
        result = ioctl(vm, RUN, exit);
    } while (!(result < 0 && errno == EBUSY) && ++tries < 2000);
    expect("a core that another thread is", result, EBUSY);
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue; // the alarm goes on
    expect("a core that nobody is any more", ioctl(vm, RUN, exit), EINTR);

    close(vm);
    expect("it gets shorter, afterwards", ftruncate(memory, SIZE - 1), 0);
    expect("a seal against writing, afterwards", fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), 0);
    puts(wrong ? "wrong" : "right");
    return wrong;
}
