/*
 * A program of the board. The host frees pages of the board's memory that the board has used. It then fills new pages, and the board reads them: it
 * must not see old copies in its cache. Prints `filled: ok`, or what was wrong.
 */
#include <motet.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HOST MOTET_ONLY("x86_64")
enum { PAGES = 16, PAGE = 4096, ROUNDS = 20 };

static long *new_pages(void) {
    void *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long board = 1 << 1;
    int is_there = pages != MAP_FAILED && syscall(SYS_mbind, pages, PAGES * PAGE, 2 /* MPOL_BIND */, &board, 64, 0) == 0;
    return is_there ? pages : NULL;
}

static long sum(volatile long *words) {
    long sum = 0;
    for (int word = 0; word < PAGES * PAGE / 8; word++)
        sum += words[word];
    return sum;
}

HOST long *refilled(long *old, long value) {
    if (munmap(old, PAGES * PAGE) != 0)
        return NULL;
    long *words = new_pages();
    for (int word = 0; words && word < PAGES * PAGE / 8; word++)
        words[word] = value;
    return words;
}

int main(void) {
    long *words = new_pages();
    for (long round = 1; words && round <= ROUNDS; round++) {
        /* Now the pages are in the board's cache. */
        sum(words);
        words = refilled(words, round);
        if (!words || sum(words) != round * PAGES * PAGE / 8) {
            printf("filled: wrong in round %ld\n", round);
            return 1;
        }
    }
    puts(words ? "filled: ok" : "filled: no memory");
    return !words;
}
