/*
 * polled ROUNDS STEP: calls a function on the board again and again, after 0, STEP, 2 STEP ... below ROUNDS rounds of computing. So the time between
 * a return and the next call varies. Some calls come just when the board stops polling. Prints `polled: ok`, or what was wrong.
 */
#include <motet.h>
#include <stdio.h>
#include <stdlib.h>

MOTET_ON("riscv64") static long twice(long number) { return 2 * number; }

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: polled ROUNDS STEP\n", stderr);
        return 2;
    }
    long rounds = atol(argv[1]), step = atol(argv[2]);
    for (long before = 0; before < rounds; before += step) {
        for (long round = 0; round < before; round++)
            __asm__ volatile("");
        if (twice(before) != 2 * before) {
            printf("polled: wrong after %ld rounds\n", before);
            return 1;
        }
    }
    puts("polled: ok");
}
