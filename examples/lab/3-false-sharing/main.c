/* Counts on two islands, in the layout of the exercise and in one that is as bad as it can be. Nothing is to be changed here. */
#include "../lab.h"

#define ROUNDS 10000

#include LAB_FILE

static _Alignas(64) volatile long packed[2];

static void count(int number) {
    for (int round = 0; round < ROUNDS; round++)
        counters[number].count++;
}

static void count_packed(int number) {
    for (int round = 0; round < ROUNDS; round++)
        packed[number]++;
}

static double took(void (*work)(int)) {
    return lab_run(2, (int[]){0, 1}, work);
}

int main(void) {
    took(count); /* brings pages */
    double worst = took(count_packed), yours = took(count);
    printf("packed %.0f us, yours %.0f us\n", worst, yours);
    if (counters[0].count != 2 * ROUNDS || counters[1].count != 2 * ROUNDS)
        return printf("something was not counted\n"), 1;
    if (yours > worst * 0.6)
        return printf("the counters still share a line\n"), 1;
    printf("each has its own line\n");
    return 0;
}
