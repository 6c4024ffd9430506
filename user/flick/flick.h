/* For the programs of `motet bench flick`, which are compiled by `motet cc` with HOST and NXP, two instruction sets. */
#ifndef FLICK_H
#define FLICK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "motet.h"

#ifndef HOST
#define HOST "x86_64"
#endif
#ifndef NXP
#define NXP "riscv64"
#endif

#define PREFERRED 1 /* MPOL_PREFERRED, linux/mempolicy.h */

/* Zeroed memory near an island. A page is allocated when any island touches it first. */
static inline void *memory_on(int island, size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long nodes = 1ul << island;
    if (memory == MAP_FAILED || syscall(SYS_mbind, memory, bytes, PREFERRED, &nodes, 8 * sizeof nodes, 0) != 0) {
        perror("memory near an island");
        exit(1);
    }
    return memory;
}

static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A positive number from the command line. */
static inline long number(const char *text) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < 0) {
        fprintf(stderr, "%s is not a number\n", text);
        exit(64);
    }
    return value;
}

/* Prints the kernel's counts of calls between islands. */
static inline void show_crossings(void) {
    char line[200];
    FILE *file = fopen("/proc/self/crossings", "r");
    while (file && fgets(line, sizeof line, file))
        fputs(line, stdout);
}

#endif
