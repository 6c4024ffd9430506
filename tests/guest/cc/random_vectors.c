/*
 * The common part of random programs of vector instructions (host/cli/tests/machine/random_vectors.rs). Each program begins with the same registers and
 * memory, and prints a hash of their contents at its end.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

#include "migrations.h"
#include "../vectors.h"

enum { MEMORY_LEN = 64 << 12, REGISTERS_LEN = 32 * 128, PERIOD_US = 3000 };

static struct {
    unsigned char bytes[REGISTERS_LEN];
    unsigned long len, type, csr, start;
} registers;
static const struct timespec nap = {0, 300000};

#define CLOBBERED "t0", "t1", "a0", "a1", "a7", "memory"

/* All registers hold the same pattern, then the program's text runs, then they are stored. */
#define PROGRAM(seed, text)                                                                                                                     \
    static void program_##seed(unsigned char *memory) {                                                                                         \
        (void)memory;                                                                                                                           \
        VECTORS("vsetvli t0, zero, e64, m8, tu, mu\nvid.v v0\nvid.v v8\nvid.v v16\nvid.v v24\n" text                                               \
                "\ncsrr t0, vl\nsd t0, %[len]\ncsrr t0, vtype\nsd t0, %[type]\ncsrr t0, vcsr\nsd t0, %[csr]\ncsrr t0, vstart\nsd t0, %[start]\n"  \
                "csrr t1, vlenb\nslli t1, t1, 3\nmv t0, %[to]\nvs8r.v v0, (t0)\nadd t0, t0, t1\nvs8r.v v8, (t0)\nadd t0, t0, t1\n"               \
                "vs8r.v v16, (t0)\nadd t0, t0, t1\nvs8r.v v24, (t0)",                                                                           \
                : [len] "=m"(registers.len), [type] "=m"(registers.type), [csr] "=m"(registers.csr), [start] "=m"(registers.start)              \
                : [memory] "r"(memory), [nap] "r"(&nap), [to] "r"(registers.bytes)                                                              \
                : CLOBBERED);                                                                                                                   \
    }
#define RUN(seed) run(seed##u, program_##seed)

/* Overwrites all of them. */
__attribute__((used)) static void handler(int number) {
    (void)number;
    VECTORS("vsetvli t0, zero, e8, m8, ta, ma\nvmv.v.i v0, -1\nvmv.v.i v8, -1\nvmv.v.i v16, -1\nvmv.v.i v24, -1", ::: "t0", "memory");
}

static void begin(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval period = {{0, PERIOD_US}, {0, PERIOD_US}};
    setvbuf(stdout, NULL, _IONBF, 0);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &period, NULL);
}

static uint64_t hash(uint64_t hash, const void *from, size_t len) {
    for (size_t at = 0; at < len; at++) {
        hash = (hash ^ ((const unsigned char *)from)[at]) * 0x100000001b3;
    }
    return hash;
}

__attribute__((used)) static void run(unsigned long seed, void (*program)(unsigned char *)) {
    /* This memory has not been touched yet: vector instructions touch it first. */
    unsigned char *memory = mmap(NULL, MEMORY_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(&registers, 0, sizeof registers);
    program(memory);
    printf("%lu %016lx %016lx\n", seed, (unsigned long)hash(0xcbf29ce484222325, &registers, sizeof registers),
           (unsigned long)hash(0xcbf29ce484222325, memory, MEMORY_LEN));
    munmap(memory, MEMORY_LEN);
}
