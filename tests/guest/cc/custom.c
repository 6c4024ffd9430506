// Executes an instruction of a space that RISC-V reserves for vendors. With "handled", the signal's handler reports where the thread is and how often
// it has moved.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_illegal(int signal) {
    (void)signal;
    int core = sched_getcpu(); /* first: a thread that waits for its slice goes home later */
    char line[64];
    unsigned long moves = 0;
    FILE *file = fopen("/proc/self/migrations", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "to_extension", 12) == 0) moves = strtoul(line + 12, NULL, 10);
    }
    printf("core %d, moves %lu\n", core, moves);
    fflush(stdout);
    _exit(0);
}

int main(int count, char **arguments) {
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0) return 1;
    CPU_SET(1, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0) return 1;
    if (count > 2 && strcmp(arguments[2], "handled") == 0) signal(SIGILL, on_illegal);
#if defined(__riscv)
    if (strcmp(arguments[1], "0") == 0) {
        __asm__ volatile(".word 0x0000000b");
    } else {
        __asm__ volatile(".word 0x0000002b");
    }
#else
    (void)arguments;
#endif
    return 2;
}
