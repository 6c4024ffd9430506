/*
 * dma NXP_ISLAND REPEATS: the host copies over the link, from its own memory to the NxP's and back. It copies by a loop of loads and stores of
 * 8 bytes, and by the transfer engine (/dev/dma).
 *
 * Prints, for 64 bytes, 128 bytes, ... 1 MiB: bytes, then nanoseconds of a copy there by loads and stores, there by the engine, back by loads and
 * stores, and back by the engine. The engine's times include system calls. The last line has `engine`, and the time of the engine itself for 1 MiB.
 */
#include "flick.h"
#include "motet_dma.h"

#define LEAST 64ul
#define MOST (1ul << 20)

static int engine;

MOTET_ON(HOST) static void by_stores(uint64_t *to, const uint64_t *from, unsigned long bytes) {
    for (unsigned long word = 0; word < bytes / 8; word++)
        ((volatile uint64_t *)to)[word] = ((const volatile uint64_t *)from)[word];
}

MOTET_ON(HOST) static void by_engine(uint64_t *to, const uint64_t *from, unsigned long bytes) {
    struct motet_dma_completion completion;
    if (motet_dma_start(engine, to, from, bytes, 0) != 0 || motet_dma_wait(engine, &completion) != 0 ||
        completion.status != 0) {
        perror("transfer");
        exit(1);
    }
}

typedef void (*Copy)(uint64_t *, const uint64_t *, unsigned long);

/* Nanoseconds for each copy. */
static uint64_t time_copies(Copy copy, uint64_t *to, const uint64_t *from, unsigned long bytes, long repeats) {
    copy(to, from, bytes); /* pages and instructions are known afterwards */
    uint64_t start = now_ns();
    for (long repeat = 0; repeat < repeats; repeat++)
        copy(to, from, bytes);
    return (now_ns() - start) / (uint64_t)repeats;
}

/* The second of two transfers begins when the first has ended. */
static uint64_t time_engine(uint64_t *to, const uint64_t *from) {
    struct motet_dma_completion first, second;
    struct motet_dma_descriptor both[2] = {{(uintptr_t)from, (uintptr_t)to, MOST, 1}, {(uintptr_t)from, (uintptr_t)to, MOST, 2}};
    if (write(engine, both, sizeof both) != sizeof both || motet_dma_wait(engine, &first) != 0 ||
        motet_dma_wait(engine, &second) != 0) {
        perror("transfers");
        exit(1);
    }
    return second.ended_ns - first.ended_ns;
}

int main(int count, char **words) {
    if (count != 3) {
        fputs("usage: dma NXP_ISLAND REPEATS\n", stderr);
        return 64;
    }
    long repeats = number(words[2]);
    uint64_t *there = memory_on((int)number(words[1]), MOST), *here = memory_on(0, MOST);
    engine = motet_dma_open();
    if (engine < 0) {
        perror("/dev/dma");
        return 1;
    }
    memset(here, 1, MOST);
    memset(there, 2, MOST);
    for (unsigned long bytes = LEAST; bytes <= MOST; bytes *= 2) {
        uint64_t stores = time_copies(by_stores, there, here, bytes, repeats);
        uint64_t transfers = time_copies(by_engine, there, here, bytes, repeats);
        uint64_t loads = time_copies(by_stores, here, there, bytes, bytes > 65536 ? 1 : repeats);
        uint64_t fetches = time_copies(by_engine, here, there, bytes, repeats);
        printf("%lu %llu %llu %llu %llu\n", bytes, (unsigned long long)stores, (unsigned long long)transfers,
               (unsigned long long)loads, (unsigned long long)fetches);
    }
    printf("engine %llu\n", (unsigned long long)time_engine(there, here));
    return memcmp(here, there, MOST) != 0;
}
