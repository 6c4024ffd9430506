/* A thread goes over an array in another kernel and at home, page by page in order or in a random order, and reads or writes it: each word is what was written last, however pages come. */
#include <stdio.h>
#include <string.h>

#include "motet.h"

enum { PAGES = 240, WORDS = 512, ROUNDS = 4 };

static volatile long array[PAGES][WORDS];
static int order[PAGES];

/* Adds `more` to some words of each page; -1 if one was not what it should be before. */
static inline __attribute__((always_inline)) long go_over(long was, long more) {
    for (int at = 0; at < PAGES; at++) {
        volatile long *page = array[order[at]];
        for (int word = order[at] % 7; word < WORDS; word += 73) {
            if (page[word] != was)
                return -1;
            if (more != 0)
                page[word] = was + more;
        }
    }
    return was + more;
}

MOTET_ON("aarch64") static long away(long was, long more) { return go_over(was, more); }

static void shuffle(void) {
    unsigned long seed = 12345;
    for (int at = PAGES - 1; at > 0; at--) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        int other = (int)((seed >> 33) % (unsigned long)(at + 1)), kept = order[at];
        order[at] = order[other];
        order[other] = kept;
    }
}

int main(int count, char **words) {
    for (int at = 0; at < PAGES; at++)
        order[at] = at;
    if (count > 1 && strcmp(words[1], "random") == 0)
        shuffle();
    long value = 0;
    for (int round = 0; round < ROUNDS && value >= 0; round++) {
        value = away(value, 0);
        if (value >= 0)
            value = away(value, 3);
        if (value >= 0)
            value = go_over(value, 0);
        if (value >= 0)
            value = go_over(value, 2);
    }
    printf("%ld\n", value);
    return 0;
}
