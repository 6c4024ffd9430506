/*
 * Adds two arrays with vector instructions, and says where it has done so. `add FIRST SECOND` asks for cores with the extension FIRST before it
 * begins, and for SECOND when it has used vectors.
 */
#include <stdio.h>
#include <string.h>

#include "motet.h"

#define NUMBERS 1000

static int left[NUMBERS], right[NUMBERS], sum[NUMBERS];

/* The compiler makes vector instructions of this loop: `-O3 -march=rv64gcv`. They take as many elements at a time as the core has room for. */
__attribute__((noinline)) static void add(void) {
    for (int at = 0; at < NUMBERS; at++)
        sum[at] = left[at] + right[at];
}

static int vector_bits(void) {
    unsigned long bytes = 0;
#ifdef __riscv
    __asm__ volatile("csrr %0, vlenb" : "=r"(bytes));
#endif
    return (int)bytes * 8;
}

static void ask(const char *extension) {
    int error = motet_need(extension);
    printf("%s: %s\n", extension, error ? strerror(-error) : "granted");
}

int main(int count, char **words) {
    printf("island %d\n", motet_island());
    if (count > 1)
        ask(words[1]);
    for (int at = 0; at < NUMBERS; at++)
        left[at] = at, right[at] = 2 * at;
    add();
    printf("island %d, registers of %d bits, sum[999] = %d\n", motet_island(), vector_bits(), sum[999]);
    if (count > 2)
        ask(words[2]);
    return 0;
}
