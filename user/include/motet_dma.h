/*
 * Transfers by the engine of the island that the program runs on (Motet's /dev/dma; docs/protocols/dma.md).
 *
 *     #include "motet_dma.h"
 *
 *     if (motet_dma_copy(destination, source, bytes) != 0)
 *         perror("motet_dma_copy");
 *
 * copies within the program's own memory and returns when the copy is complete.
 *
 * To have several transfers at once, or to work meanwhile: write descriptors to an open /dev/dma, do something else, and read completions. `poll`
 * reports completions. Before its completion, a transfer may have copied some bytes and not others, and its source must not be changed.
 * C99, C++11 and later.
 */
#ifndef MOTET_DMA_H
#define MOTET_DMA_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

/* Longest transfer, in bytes. */
#define MOTET_DMA_BYTES_MAX (16ul << 20)
/* Transfers of an open file that are under way or whose completions were not read. */
#define MOTET_DMA_TRANSFERS_MAX 16

/* The program writes descriptors. Source and destination are addresses of the program, and must not overlap. */
struct motet_dma_descriptor {
    uint64_t source;
    uint64_t destination;
    uint64_t bytes;
    uint64_t cookie; /* comes back with the completion */
};

/* The program reads completions. */
struct motet_dma_completion {
    uint64_t cookie;
    uint32_t status; /* 0, or an errno */
    uint32_t reserved;
    uint64_t bytes;    /* bytes that were copied */
    uint64_t ended_ns; /* when, by CLOCK_MONOTONIC */
};

/* Opens the engine. -1 and errno: there is none. close() closes it. */
static inline int motet_dma_open(void) {
    return open("/dev/dma", O_RDWR | O_CLOEXEC);
}

/* Starts a transfer: 0, or -1 and errno. Waits while too many are under way. */
static inline int motet_dma_start(int engine, void *destination, const void *source, uint64_t bytes, uint64_t cookie) {
    struct motet_dma_descriptor asked;
    asked.source = (uint64_t)(uintptr_t)source;
    asked.destination = (uint64_t)(uintptr_t)destination;
    asked.bytes = bytes;
    asked.cookie = cookie;
    ssize_t written;
    do
        written = write(engine, &asked, sizeof asked);
    while (written < 0 && errno == EINTR);
    return written == (ssize_t)sizeof asked ? 0 : -1;
}

/* Waits for the next completion: 0, or -1 and errno. */
static inline int motet_dma_wait(int engine, struct motet_dma_completion *completion) {
    ssize_t got;
    do
        got = read(engine, completion, sizeof *completion);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof *completion ? 0 : -1;
}

/* Copies bytes, in pieces if they are many. 0, or -1 and errno. Each call opens the engine, which costs some system calls. */
static inline int motet_dma_copy(void *destination, const void *source, uint64_t bytes) {
    int engine = motet_dma_open(), failed = engine < 0;
    uint64_t done = 0;
    while (!failed && done < bytes) {
        struct motet_dma_completion completion;
        uint64_t piece = bytes - done < MOTET_DMA_BYTES_MAX ? bytes - done : MOTET_DMA_BYTES_MAX;
        failed = motet_dma_start(engine, (char *)destination + done, (const char *)source + done, piece, 0) != 0 ||
                 motet_dma_wait(engine, &completion) != 0;
        if (!failed && completion.status != 0) {
            errno = (int)completion.status;
            failed = 1;
        }
        done += piece;
    }
    if (engine >= 0) {
        int error = errno;
        close(engine);
        errno = error;
    }
    return failed ? -1 : 0;
}

#endif
