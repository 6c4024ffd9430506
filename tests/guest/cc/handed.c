/*
 * A thread goes to a core with vectors and back, again and again, while another thread of its process takes memory from under it and sends it signals.
 *
 *     handed COUNT
 *
 * It has values in floating-point registers, which it changes here, there, in both places, or not at all.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "motet.h"

#ifdef __riscv
#define VECTORS(text) ".option push\n.option arch, +v\n" text "\n.option pop\n"

static volatile int over, signals;
static pthread_t traveller;
static volatile char *volatile page;

static void count(int signal) {
    (void)signal;
    signals++;
}

static unsigned long vector(unsigned long value) {
    unsigned long seen;
    __asm__ volatile(VECTORS("vsetivli zero, 2, e64, m1, ta, ma\nvmv.v.x v8, %1\nvmv.x.s %0, v8") : "=r"(seen) : "r"(value) : "memory");
    return seen;
}

static void set_float(unsigned long value) {
    __asm__ volatile("fmv.d.x fs2, %0" : : "r"(value) : "fs2");
}

static unsigned long get_float(void) {
    unsigned long value;
    __asm__ volatile("fmv.x.d %0, fs2" : "=r"(value));
    return value;
}

/* Gives the traveller a new page instead of its old one, which no core may reach any more. */
static void *disturb(void *unused) {
    for (unsigned long round = 0; !over; round++) {
        char *fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *old = (char *)page;
        memset(fresh, 1, 4096);
        page = fresh;
        mprotect(old, 4096, PROT_READ);
        mprotect(old, 4096, PROT_READ | PROT_WRITE);
        if (round % 4 == 0)
            pthread_kill(traveller, SIGUSR1);
        usleep(round % 3 * 100);
        munmap(old, 4096);
    }
    return unused;
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1000, lost = 0;
    unsigned long value = 1;
    pthread_t other;
    signal(SIGUSR1, count);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    traveller = pthread_self();
    pthread_create(&other, NULL, disturb, NULL);
    set_float(value);
    for (long round = 0; round < rounds; round++) {
        if (round & 1)
            set_float(++value);
        lost += vector(round) != (unsigned long)round;
        lost += get_float() != value;
        if (round & 2)
            set_float(++value);
        lost += motet_done("v") != 0;
        lost += get_float() != value;
    }
    over = 1;
    pthread_join(other, NULL);
    printf("lost %ld, signals %d\n", lost, signals > 0);
    return 0;
}
#else
/* It is compiled for all instruction sets, and runs on none of the others. */
int main(void) {
    return 1;
}
#endif
