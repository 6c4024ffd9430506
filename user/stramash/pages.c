/*
 * pages PAGES [KIB]: what a page costs that another island uses, and what a few lines of one cost. The thread calls functions of the first island of another
 * instruction set. What is measured is a region of interest in which PAGES pages are used, one after the other:
 *
 * read_miss        the other island reads a word of pages that home has written
 * write_upgrade    it writes a word of these
 * home_write_miss  home writes a word of these
 * write_miss       the other island writes a word of pages that home has written
 * home_read_miss   home reads a word of these
 * home_upgrade     home writes a word of these
 * fresh            the other island writes a word of pages that nobody has used
 * first_N          it reads a word of N lines of pages that home has written, and that it has never used
 * mapped_N         the same of pages that it has used before home wrote them
 *
 * Before home's pages are used, both islands write KIB of memory of their own: twice as much as a last-level cache has (8192), if it is not said. So no
 * cache has what is used. user/npb has the header.
 */
#include "migrate.h"

enum { PAGE = 4096, LINE = 64, PAGES_MAX = 1024, LINE_PAGES_MAX = 256, SCRUB = 8 << 20 };

static const int lines[] = {1, 2, 4, 8, 16, 32, 64};
enum { COUNTS = sizeof lines / sizeof lines[0] };
static const char *const first_names[] = {"first_1", "first_2", "first_4", "first_8", "first_16", "first_32", "first_64"};
static const char *const mapped_names[] = {"mapped_1", "mapped_2", "mapped_4", "mapped_8", "mapped_16", "mapped_32", "mapped_64"};

typedef volatile unsigned long word;

static _Alignas(PAGE) unsigned char slices[3][PAGES_MAX][PAGE];
static _Alignas(PAGE) unsigned char line_slices[COUNTS][LINE_PAGES_MAX][PAGE];
static _Alignas(PAGE) unsigned char scrubs[2][SCRUB];

/* What is used, and how. */
struct use {
    const char *region; /* NULL: it is not measured */
    unsigned char *from;
    long pages;
    int lines; /* of each */
    int writes;
};

static void *use(void *argument) {
    struct use use = *(const struct use *)argument;
    if (use.region)
        motet_roi_begin(use.region);
    for (long page = 0; page < use.pages; page++) {
        unsigned char *at = use.from + page * PAGE;
        for (int line = 0; line < use.lines; line++) {
            word *place = (word *)(at + line * LINE);
            if (use.writes)
                *place = (unsigned long)page;
            else
                (void)*place;
        }
    }
    if (use.region)
        motet_roi_end(use.region);
    return NULL;
}

static long scrub_pages = SCRUB / PAGE;
static struct migrate there = {-1, "nowhere"};
/* In a page of its own; written before each call. */
static _Alignas(PAGE) union {
    struct use use;
    unsigned char page[PAGE];
} job;

static void at(int away, const char *region, unsigned char *from, long pages, int line_count, int writes) {
    job.use = (struct use){region, from, pages, line_count, writes};
    if (away)
        migrate_call(&there, use, &job.use);
    else
        use(&job.use);
}

/* Pages are written whole at home, and no cache has them afterwards. */
static void write_at_home(unsigned char *from, long pages) {
    at(0, NULL, from, pages, PAGE / LINE, 1);
    for (int side = 0; side < 2; side++)
        at(side, NULL, scrubs[side], scrub_pages, PAGE / LINE, 1);
}

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 0;
    if (argc == 3)
        scrub_pages = atol(argv[2]) * 1024 / PAGE;
    if (argc < 2 || argc > 3 || pages < 1 || pages > PAGES_MAX || scrub_pages < 0 || scrub_pages > SCRUB / PAGE) {
        fprintf(stderr, "usage: %s PAGES (1 to %d) [KIB (0 to %d)]\n", argv[0], PAGES_MAX, SCRUB / 1024);
        return 2;
    }
    migrate_choose(&there, NULL);

    write_at_home(slices[0][0], pages);
    at(1, "read_miss", slices[0][0], pages, 1, 0);
    at(1, "write_upgrade", slices[0][0], pages, 1, 1);
    at(0, "home_write_miss", slices[0][0], pages, 1, 1);
    write_at_home(slices[1][0], pages);
    at(1, "write_miss", slices[1][0], pages, 1, 1);
    at(0, "home_read_miss", slices[1][0], pages, 1, 0);
    at(0, "home_upgrade", slices[1][0], pages, 1, 1);
    at(1, "fresh", slices[2][0], pages, 1, 1);

    long few = pages < LINE_PAGES_MAX ? pages : LINE_PAGES_MAX;
    for (int count = 0; count < COUNTS; count++) {
        write_at_home(line_slices[count][0], few);
        at(1, first_names[count], line_slices[count][0], few, lines[count], 0);
        write_at_home(line_slices[count][0], few);
        at(1, mapped_names[count], line_slices[count][0], few, lines[count], 0);
    }
    printf("pages %ld line_pages %ld to %s\n", pages, few, there.isa);
    return 0;
}
