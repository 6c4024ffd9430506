/* Fills a table here and reads it over there. Nothing is to be changed here. */
#include "../lab.h"

#define ISLAND 1
#define WORDS 65536
#define STEP 8 /* a line of the cache */

#include LAB_FILE

MOTET_ON("riscv64") long add(const long *table) {
    long sum = 0;
    for (long at = 0, word = 0; at < WORDS / STEP; at++, word = (word + 5 * STEP * 11) % WORDS)
        sum += table[word];
    return sum;
}

static double took(const long *table) {
    double began = lab_now_us();
    if (add(table) != WORDS / STEP)
        exit(printf("the table is not the one that was filled\n"));
    return lab_now_us() - began;
}

static void fill(long *table) {
    for (long at = 0; at < WORDS; at++)
        table[at] = 1;
}

int main(void) {
    static long evict[WORDS];
    long *usual = malloc(WORDS * sizeof *usual), *yours = allocate(WORDS * sizeof *yours);
    if (!usual || !yours)
        return printf("there is no memory\n"), 1;
    fill(usual), fill(yours), fill(evict), fill(evict);
    double far = took(usual), near = took(yours);
    printf("usual place %.0f us, yours %.0f us\n", far, near);
    if (near > far * 0.7)
        return printf("the table is far from who reads it\n"), 1;
    printf("the table is near\n");
    return 0;
}
