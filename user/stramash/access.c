/*
 * access [MIB]: what memory costs that the other island has written (10 MiB, if it is not said), as Stramash's Figure 11 asks. The thread calls functions of the
 * first island of another instruction set. Each region of interest is one pass over all words, in order:
 *
 * home             home reads what home has written
 * away_cold        the other island reads what home has written, and what it has never used
 * away_warm        it reads that again
 * away_later       and again, when it has read it MORE times meanwhile
 * away_own         it reads what it has written itself
 * home_cold        home reads what the other island has written, and what it has never used
 * home_warm        it reads that again
 * home_later       and again, when it has read it MORE times meanwhile
 * away_cold_write, away_warm_write, home_cold_write, home_warm_write: the same of words that are written
 *
 * The memory is larger than a last-level cache of 4 MiB, so a pass finds little of the pass before it. user/npb has the header.
 */
#include "migrate.h"

enum { PAGE = 4096, MIB = 1 << 20, MIB_MAX = 64, MORE = 5 };

/* What is used, and how. */
struct pass {
    const char *region; /* NULL: it is not measured */
    unsigned long *from;
    long words;
    int writes;
};

static unsigned long sum;

static void *pass(void *argument) {
    struct pass pass = *(const struct pass *)argument;
    unsigned long found = 0;
    if (pass.region)
        motet_roi_begin(pass.region);
    if (pass.writes)
        for (long word = 0; word < pass.words; word++)
            pass.from[word] = (unsigned long)word;
    else
        for (long word = 0; word < pass.words; word++)
            found += ((volatile unsigned long *)pass.from)[word];
    if (pass.region)
        motet_roi_end(pass.region);
    sum += found;
    return NULL;
}

static struct migrate there = {-1, "nowhere"};

static void at(int away, const char *region, unsigned long *from, long words, int writes) {
    /* In a page of its own: the stack's is not to be exchanged beside what is measured. */
    static _Alignas(PAGE) union {
        struct pass pass;
        unsigned char page[PAGE];
    } job;
    job.pass = (struct pass){region, from, words, writes};
    if (away)
        migrate_call(&there, pass, &job.pass);
    else
        pass(&job.pass);
}

static unsigned long *memory(long words) {
    unsigned long *at = aligned_alloc(PAGE, (size_t)words * sizeof *at);
    if (!at) {
        fprintf(stderr, "access: out of memory\n");
        exit(2);
    }
    return at;
}

int main(int argc, char **argv) {
    long mib = argc > 1 ? atol(argv[1]) : 10;
    if (argc > 2 || mib < 1 || mib > MIB_MAX) {
        fprintf(stderr, "usage: %s [MIB (1 to %d)]\n", argv[0], MIB_MAX);
        return 2;
    }
    migrate_choose(&there, NULL);
    long words = mib * MIB / (long)sizeof(unsigned long);
    unsigned long *of_home = memory(words), *of_away = memory(words);

    at(0, NULL, of_home, words, 1);
    at(0, "home", of_home, words, 0);
    at(1, "away_cold", of_home, words, 0);
    at(1, "away_warm", of_home, words, 0);
    for (int more = 0; more < MORE; more++)
        at(1, NULL, of_home, words, 0);
    at(1, "away_later", of_home, words, 0);
    at(0, NULL, of_home, words, 1);
    at(1, "away_cold_write", of_home, words, 1);
    at(1, "away_warm_write", of_home, words, 1);

    at(1, NULL, of_away, words, 1);
    at(1, "away_own", of_away, words, 0);
    at(0, "home_cold", of_away, words, 0);
    at(0, "home_warm", of_away, words, 0);
    for (int more = 0; more < MORE; more++)
        at(0, NULL, of_away, words, 0);
    at(0, "home_later", of_away, words, 0);
    at(1, NULL, of_away, words, 1);
    at(0, "home_cold_write", of_away, words, 1);
    at(0, "home_warm_write", of_away, words, 1);

    unsigned long expected = (8ul + 2 * MORE) * ((unsigned long)words * (unsigned long)(words - 1) / 2);
    printf("access %ld MiB to %s%s\n", mib, there.isa, sum == expected ? " verified" : " WRONG SUM");
    return sum != expected;
}
