/* Transfers by /dev/dma: sizes, places, errors, limits, and what happens when programs fork, close the file, or are killed. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"
#include "motet.h"
#include "motet_dma.h"

#define PAGE 4096ul
#define MIB (1ul << 20)

static unsigned char *pages(unsigned long bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    return memory;
}

static void fill(unsigned char *bytes, unsigned long count, unsigned long seed) {
    for (unsigned long at = 0; at < count; at++)
        bytes[at] = (unsigned char)((at + seed) * 2654435761ul >> 13);
}

/* Odd sizes, and page borders at different places in source and destination. The bytes around the destination do not change. */
static void sizes(void) {
    static const unsigned long counts[] = {1, 7, 64, 1000, PAGE, PAGE + 1, 3 * PAGE - 5, 40000, MIB + 3};
    unsigned char *from = pages(2 * MIB), *to = pages(2 * MIB), *before = pages(2 * MIB);
    fill(from, 2 * MIB, 1);
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++)
        for (unsigned j = 0; j < 3; j++) {
            unsigned long count = counts[i], source = j * 1365 + i, destination = PAGE + j * 2048 - i;
            fill(to, 2 * MIB, i + j);
            memcpy(before, to, 2 * MIB);
            memcpy(before + destination, from + source, count);
            EXPECT(motet_dma_copy(to + destination, from + source, count), 0);
            EXPECT(memcmp(to, before, 2 * MIB), 0);
        }
    munmap(from, 2 * MIB), munmap(to, 2 * MIB), munmap(before, 2 * MIB);
}

static int start(int engine, const void *destination, const void *source, unsigned long bytes, unsigned long cookie) {
    return motet_dma_start(engine, (void *)destination, source, bytes, cookie) == 0 ? 0 : errno;
}

static struct motet_dma_completion next(int engine) {
    struct motet_dma_completion completion = {0};
    EXPECT(motet_dma_wait(engine, &completion), 0);
    return completion;
}

/* Descriptors with memory that the program may not access are refused, and nothing is written. */
static void errors(void) {
    int engine = motet_dma_open();
    unsigned char *memory = pages(4 * PAGE);
    fill(memory, 2 * PAGE, 3);
    mprotect(memory + 2 * PAGE, PAGE, PROT_READ);
    munmap(memory + 3 * PAGE, PAGE);
    EXPECT(start(engine, memory, memory + 100, 0, 0), EINVAL);
    EXPECT(start(engine, memory, memory + 100, MOTET_DMA_BYTES_MAX + 1, 0), EINVAL);
    EXPECT(start(engine, memory, memory + 100, 101, 0), EINVAL);
    EXPECT(start(engine, memory + 100, memory, 101, 0), EINVAL);
    EXPECT(start(engine, memory + 2 * PAGE, memory, 8, 0), EFAULT);
    EXPECT(start(engine, memory + 2 * PAGE - 8, memory, 16, 0), EFAULT);
    EXPECT(start(engine, memory, memory + 3 * PAGE - 8, 16, 0), EFAULT);
    EXPECT(start(engine, (void *)0xffff900000000000, memory, 8, 0), EFAULT);
    EXPECT(start(engine, memory, (void *)0xffff900000000000, 8, 0), EFAULT);
    EXPECT(start(engine, memory, (void *)(0ul - 8), 16, 0), EFAULT);
    EXPECT(start(engine, memory, (void *)0x7ffffffff000, 4096, 0), EFAULT);
    EXPECT(start(engine, (void *)"text", memory, 4, 0), EFAULT);
    EXPECT(write(engine, memory, 31), -1);
    EXPECT(errno, EINVAL);
    char small[31];
    EXPECT(read(engine, small, sizeof small), -1);
    EXPECT(errno, EINVAL);
    /* Descriptors before a bad one are carried out. */
    struct motet_dma_descriptor two[2] = {{(uintptr_t)memory, (uintptr_t)memory + PAGE, 16, 1}, {0, 0, 1, 2}};
    EXPECT(write(engine, two, sizeof two), sizeof *two);
    EXPECT(next(engine).cookie, 1);
    EXPECT(memcmp(memory, memory + PAGE, 16), 0);
    fcntl(engine, F_SETFL, O_NONBLOCK);
    EXPECT(read(engine, small, sizeof small), -1);
    EXPECT(errno, EINVAL);
    struct motet_dma_completion none;
    EXPECT(read(engine, &none, sizeof none), -1);
    EXPECT(errno, EAGAIN);
    close(engine);
    munmap(memory, 3 * PAGE);
}

/* An open file takes a limited number of transfers until completions are read. Other open files have limits of their own. */
static void full(void) {
    int engine = motet_dma_open(), other = motet_dma_open();
    unsigned char *memory = pages(2 * MIB);
    fill(memory, MIB, 4);
    fcntl(engine, F_SETFL, O_NONBLOCK);
    struct motet_dma_descriptor asked[MOTET_DMA_TRANSFERS_MAX + 4];
    for (unsigned i = 0; i < MOTET_DMA_TRANSFERS_MAX + 4; i++) {
        asked[i].source = (uintptr_t)memory + i * 32768;
        asked[i].destination = (uintptr_t)memory + MIB + i * 32768;
        asked[i].bytes = 32768;
        asked[i].cookie = i;
    }
    EXPECT(write(engine, asked, sizeof asked), MOTET_DMA_TRANSFERS_MAX * sizeof *asked);
    EXPECT(write(engine, asked, sizeof *asked), -1);
    EXPECT(errno, EAGAIN);
    struct pollfd polled = {engine, POLLIN | POLLOUT, 0};
    EXPECT(poll(&polled, 1, 0) == 1 && polled.revents & POLLOUT, 0);
    EXPECT(start(other, memory + 2 * MIB - 64, memory, 64, 9), 0);
    EXPECT(next(other).cookie, 9);
    polled.events = POLLIN;
    for (unsigned i = 0; i < MOTET_DMA_TRANSFERS_MAX; i++) {
        EXPECT(poll(&polled, 1, 10000), 1);
        struct motet_dma_completion completion = next(engine);
        EXPECT(completion.cookie, i);
        EXPECT(completion.status, 0);
        EXPECT(completion.bytes, 32768);
    }
    EXPECT(memcmp(memory, memory + MIB, MOTET_DMA_TRANSFERS_MAX * 32768ul), 0);
    EXPECT(write(engine, asked, sizeof *asked), sizeof *asked);
    int list = epoll_create1(0);
    struct epoll_event wanted = {EPOLLIN, {0}}, found;
    EXPECT(epoll_ctl(list, EPOLL_CTL_ADD, engine, &wanted), 0);
    EXPECT(epoll_wait(list, &found, 1, 10000), 1);
    EXPECT(next(engine).cookie, 0);
    EXPECT(epoll_wait(list, &found, 1, 0), 0);
    close(list), close(engine), close(other);
    munmap(memory, 2 * MIB);
}

/* A child has its parent's memory as of the fork, and none of the bytes that are transferred later. */
static void forks(void) {
    int engine = motet_dma_open();
    unsigned char *from = pages(2 * MIB), *to = pages(2 * MIB);
    fill(from, 2 * MIB, 5);
    for (int round = 0; round < 8; round++) {
        memset(to, round, 2 * MIB);
        EXPECT(start(engine, to, from, 2 * MIB, round), 0);
        pid_t child = fork();
        if (child == 0) {
            /* In the child, the transfer is either complete or has not begun, and nothing changes any more. */
            int is_over = memcmp(to, from, 2 * MIB) == 0;
            memset(from, 0, 2 * MIB);
            unsigned char *copy = pages(2 * MIB);
            memcpy(copy, to, 2 * MIB);
            for (int look = 0; look < 20; look++)
                if (memcmp(copy, to, 2 * MIB) != 0)
                    _exit(3);
            /* And its own transfers go to its own memory. */
            if (motet_dma_copy(to, from, 2 * MIB) != 0 || memcmp(to, from, 2 * MIB) != 0)
                _exit(4);
            _exit(is_over ? 0 : 5);
        }
        memset(to + MIB, 0xee, 1); /* this breaks the sharing of the pages, maybe during the transfer */
        int status;
        waitpid(child, &status, 0);
        EXPECT(status, 0);
        EXPECT(next(engine).cookie, round);
        to[MIB] = from[MIB];
        EXPECT(memcmp(to, from, 2 * MIB), 0);
    }
    close(engine);
    munmap(from, 2 * MIB), munmap(to, 2 * MIB);
}

/* Memory is unmapped while a transfer writes to it. Its next owner must find zeros. */
static void unmapped(void) {
    unsigned char *from = pages(4 * MIB);
    memset(from, 0xaa, 4 * MIB);
    for (int round = 0; round < 20; round++) {
        int engine = motet_dma_open();
        unsigned char *to = pages(4 * MIB);
        EXPECT(start(engine, to, from, 4 * MIB, 0), 0);
        munmap(to, 4 * MIB);
        close(engine);
        unsigned char *fresh = pages(4 * MIB);
        unsigned long dirty = 0;
        for (int look = 0; look < 3; look++)
            for (unsigned long at = 0; at < 4 * MIB; at += 512)
                dirty += fresh[at] != 0;
        EXPECT(dirty, 0);
        munmap(fresh, 4 * MIB);
    }
    munmap(from, 4 * MIB);
}

/* Processes that are killed with transfers under way. */
static void killed(void) {
    for (int round = 0; round < 20; round++) {
        int ready[2];
        EXPECT(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0) {
            unsigned char *from = pages(8 * MIB), *to = pages(8 * MIB);
            memset(from, 0x55, 8 * MIB);
            int engine = motet_dma_open();
            write(ready[1], "x", 1);
            for (unsigned long i = 0;; i++) {
                struct motet_dma_completion completion;
                if (start(engine, to, from, 8 * MIB, i) != 0 || (i >= 3 && motet_dma_wait(engine, &completion) != 0))
                    _exit(6);
            }
        }
        close(ready[1]);
        char byte;
        EXPECT(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        struct timespec little = {0, round * 700000};
        nanosleep(&little, NULL);
        kill(child, SIGKILL);
        unsigned char *fresh = pages(8 * MIB);
        unsigned long dirty = 0;
        for (unsigned long at = 0; at < 8 * MIB; at += 512)
            dirty += fresh[at] != 0;
        int status;
        waitpid(child, &status, 0);
        EXPECT(status, SIGKILL);
        for (unsigned long at = 0; at < 8 * MIB; at += 512)
            dirty += fresh[at] != 0;
        EXPECT(dirty, 0);
        munmap(fresh, 8 * MIB);
    }
}

/* Eight at once, on all islands. */
static MOTET_ON("riscv64") int on_riscv(void *to, const void *from, unsigned long bytes) {
    return motet_dma_copy(to, from, bytes);
}
static MOTET_ON("aarch64") int on_arm(void *to, const void *from, unsigned long bytes) {
    return motet_dma_copy(to, from, bytes);
}

/* Memory that one island's core has touched first, and another's. */
MOTET_DATA_ON("riscv64") static unsigned char on_board[256 << 10] = {1};
static unsigned char here[256 << 10];

static void islands(void) {
    for (int round = 0; round < 4; round++) {
        fill(on_board, sizeof on_board, round);
        int failed = round % 2 ? on_riscv(here, on_board, sizeof here) : motet_dma_copy(here, on_board, sizeof here);
        EXPECT(failed, 0);
        EXPECT(memcmp(here, on_board, sizeof here), 0);
        fill(here, sizeof here, round + 77);
        failed = round % 2 ? motet_dma_copy(on_board, here, sizeof here) : on_arm(on_board, here, sizeof here);
        EXPECT(failed, 0);
        EXPECT(memcmp(here, on_board, sizeof here), 0);
    }
}

/* The board's own memory, which its caches hold. The board must read what was copied there, and transfers must copy what the board wrote before. */
MOTET_DATA_ON("riscv64") static unsigned char board_from[40000] = {1}, board_to[40000] = {1};

static MOTET_ON("riscv64") int board_copies(unsigned long seed) {
    unsigned char sum = 0;
    for (unsigned long at = 0; at < sizeof board_from; at++) {
        board_from[at] = (unsigned char)(at + seed);
        sum += board_to[at];
    }
    int failed = motet_dma_copy(board_to + 1000, board_from, sizeof board_to - 1000);
    for (unsigned long at = 1000; at < sizeof board_to; at++)
        failed |= board_to[at] != (unsigned char)(at - 1000 + seed);
    return failed || (seed == 1 && sum != 1);
}

static void cached(void) {
    motet_roi_begin("cached");
    for (unsigned long seed = 1; seed < 4; seed++)
        EXPECT(board_copies(seed), 0);
    motet_roi_end("cached");
}

static void processes(void) {
    pid_t children[8];
    for (int i = 0; i < 8; i++)
        if ((children[i] = fork()) == 0) {
            unsigned char *from = pages(MIB), *to = pages(MIB);
            for (int round = 0; round < 12; round++) {
                unsigned long bytes = MIB / 2 + (unsigned long)(i * 4099 + round * 257);
                fill(from, MIB, (unsigned long)(i * 100 + round));
                memset(to, 0, MIB);
                int failed = i % 3 == 0   ? motet_dma_copy(to, from, bytes)
                             : i % 3 == 1 ? on_arm(to, from, bytes)
                                          : on_riscv(to, from, bytes);
                if (failed || memcmp(to, from, bytes) != 0 || to[bytes] != 0)
                    _exit(10 + round);
            }
            _exit(0);
        }
    for (int i = 0; i < 8; i++) {
        int status;
        waitpid(children[i], &status, 0);
        EXPECT(status, 0);
    }
}

/* How long the engine takes: two transfers, of which the second begins when the first has ended. */
static void times(void) {
    int engine = motet_dma_open();
    unsigned char *from = pages(MIB), *to = pages(MIB);
    fill(from, MIB, 6);
    memset(to, 0, MIB);
    struct motet_dma_descriptor both[2] = {{(uintptr_t)from, (uintptr_t)to, MIB, 1}, {(uintptr_t)from, (uintptr_t)to, MIB, 2}};
    EXPECT(write(engine, both, sizeof both), sizeof both);
    struct timespec now;
    struct motet_dma_completion first = next(engine);
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct motet_dma_completion second = next(engine);
    unsigned long now_ns = (unsigned long)now.tv_sec * 1000000000ul + (unsigned long)now.tv_nsec;
    EXPECT(now_ns >= first.ended_ns, 1);
    EXPECT(memcmp(from, to, MIB), 0);
    printf("after %lu ns, told %lu ns later\n", (unsigned long)(second.ended_ns - first.ended_ns), now_ns - (unsigned long)first.ended_ns);
    close(engine);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    if (strcmp(what, "times") == 0) {
        times();
        return wrong;
    }
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"sizes", sizes},   {"errors", errors},       {"full", full},      {"forks", forks},
                 {"killed", killed}, {"unmapped", unmapped}, {"islands", islands}, {"cached", cached}, {"processes", processes}};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(what, "all") == 0 || strcmp(what, parts[i].name) == 0) {
            parts[i].run();
            printf("%s\n", parts[i].name);
            fflush(stdout);
        }
    return wrong;
}
