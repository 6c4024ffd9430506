/*
 * Nested calls in both directions. The results show which arguments arrived: on the stack, floats, narrow words. Also system calls and threads.
 * Prints `migrated: ok`, or what was wrong.
 */
#include <motet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"

#define HOST MOTET_ON("x86_64")
#define BOARD MOTET_ON("riscv64")

HOST int negate(int value) { return -value; }

BOARD int board_negates(int value) { return negate(value) - 1; }

HOST long down_host(long depth);
BOARD long down_board(long depth) { return depth == 0 ? 0 : 1 + down_host(depth - 1); }
HOST long down_host(long depth) { return depth == 0 ? 0 : 1 + down_board(depth - 1); }

BOARD long twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l;
}
HOST long twelve_host(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l;
}
BOARD long board_calls_twelve(void) { return twelve_host(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12); }

HOST double half(double value) { return value / 2; }
BOARD double scaled(double value, float factor, long times) {
    double sum = 0;
    for (long index = 0; index < times; index++)
        sum += half(value) * (double)factor;
    return sum;
}

BOARD long process_id(void) { return getpid(); }

BOARD long add(long a, long b) { return a + b; }

static void *many(void *start) {
    long sum = (long)start;
    for (int index = 0; index < 100; index++)
        sum = add(sum, index);
    return (void *)sum;
}

int main(void) {
    EXPECT(board_negates(5), -6);
    EXPECT(board_negates(-5), 4);
    EXPECT(down_host(9), 9);
    EXPECT(down_board(8), 8);
    EXPECT(twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 650);
    EXPECT(board_calls_twelve(), 650);
    EXPECT(scaled(3.0, 0.5f, 4), 3);
    EXPECT(process_id(), getpid());
    pthread_t threads[3];
    for (long index = 0; index < 3; index++)
        pthread_create(&threads[index], NULL, many, (void *)(1000 * index));
    for (long index = 0; index < 3; index++) {
        void *sum;
        pthread_join(threads[index], &sum);
        EXPECT(sum, 1000 * index + 4950);
    }
    if (!wrong)
        puts("migrated: ok");
    return wrong;
}
