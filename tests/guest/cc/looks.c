// An island dies while its core polls registers of the FPGA for a thread (docs/protocols/fpga.md, "Looking"). A process that shares the thread's
// interfaces must not wait for ever. Usage: `looks CORE DOOMED`; DOOMED is a core of the island that dies.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 60 };

struct registers {
    uint32_t stat, start, over, cmd;
};

static volatile struct registers *interfaces[2];

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static void go_to(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof one, &one))
        fail("sched_setaffinity");
}

// There is one region, and each request needs another accelerator, so it is always reconfigured.
static void allocate(int round) {
    interfaces[round % 2]->cmd = 0;
}

static int is_online(int core) {
    char text[64] = "";
    int fd = open("/sys/devices/system/cpu/online", O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        fail("online");
    close(fd);
    for (char *at = text; *at;) {
        long first = strtol(at, &at, 10), last = first;
        if (*at == '-')
            last = strtol(at + 1, &at, 10);
        if (first <= core && core <= last)
            return 1;
        if (*at)
            at++;
    }
    return 0;
}

static void map(int at, int fd) {
    interfaces[at] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (interfaces[at] == MAP_FAILED)
        fail("mmap");
}

// A program that begins on the doomed island, which then is its address space's home. Only then its core polls.
static void doomed(char **files) {
    for (int at = 0; at < 2; at++)
        map(at, atoi(files[at]));
    for (int round = 0;; round++)
        allocate(round);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"/dev/accel/qam16", "/dev/accel/fft1024"};
    char numbers[2][16];
    if (argc == 4)
        doomed(argv + 2);
    if (argc != 3)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    go_to(atoi(argv[1]));
    for (int at = 0; at < 2; at++) {
        int fd = open(names[at], O_RDWR);
        if (fd < 0)
            fail(names[at]);
        map(at, fd);
        snprintf(numbers[at], sizeof numbers[at], "%d", fd);
    }
    pid_t other = fork();
    if (other == 0) {
        go_to(atoi(argv[2]));
        execl(argv[0], argv[0], "doomed", numbers[0], numbers[1], NULL);
        fail(argv[0]);
    }
    // Another process is ready on this core, so this core does not poll.
    pid_t busy = fork();
    if (busy == 0)
        for (;;)
            ;
    usleep(200000);
    printf("started\n");
    // The thread may have slept at that moment. Then it is not killed, and comes here.
    while (is_online(atoi(argv[2])))
        usleep(5000);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    for (int round = 0; round < ROUNDS; round++)
        allocate(round);
    kill(busy, SIGKILL);
    printf("right\n");
    return 0;
}
