/* Pages follow the island that uses them: what it writes moves there, of what it reads it gets replicas. On x86-64 and AArch64, each with memory near to it. */
#define _GNU_SOURCE
#include "crossing.h"
#include "expect.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGES 256
#define PAGE 4096L
#define REGION (512 * PAGE)
#define SECONDS 60

typedef struct {
    volatile long count, sum, words[510];
} page_t;

static page_t *written, *readonly;
static long rounds;

/* The region is one of its own: nobody else's pages are in it. */
static page_t *region(void) {
    char *at = mmap(0, 2 * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return (page_t *)(((unsigned long)at + REGION - 1) & -REGION);
}

/* How many pages lie near an island. */
static int near(page_t *pages, int island) {
    void *at[PAGES];
    int status[PAGES], count = 0;
    for (int i = 0; i < PAGES; i++)
        at[i] = &pages[i];
    if (syscall(SYS_move_pages, 0, (long)PAGES, at, 0, status, 0) != 0)
        return -1;
    for (int i = 0; i < PAGES; i++)
        count += status[i] == island;
    return count;
}

/* What /proc/motet counts of AArch64. */
static long counted(const char *what) {
    char line[256], name[64];
    long x86, arm, found = -1;
    FILE *file = fopen("/proc/motet", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %ld %ld", name, &x86, &arm) == 3 && strcmp(name, what) == 0)
            found = arm;
    if (file)
        fclose(file);
    return found;
}

static int is_late(time_t begun) { return time(0) - begun > SECONDS; }

/* Uses all pages, until they are where they are to be. */
MOTET_ON(ARM) static void use(void) {
    time_t begun = time(0);
    expect_on(ARM);
    while (!is_late(begun)) {
        for (int i = 0; i < PAGES; i++) {
            written[i].count++;
            EXPECT(readonly[i].words[i], i * 7);
        }
        if (++rounds % 1000 == 0 && near(written, 1) == PAGES && counted("pages_replicated") >= PAGES)
            return;
    }
    puts("nothing has come");
}

MOTET_ON(ARM) static void look(long word) {
    for (int i = 0; i < PAGES; i++) {
        EXPECT(readonly[i].words[i], word);
        readonly[i].sum = written[i].count + i;
    }
}

/* The home stores to what has replicas, and takes what has moved. */
static void store_at_home(void) {
    for (int i = 0; i < PAGES; i++) {
        EXPECT(written[i].count, rounds);
        readonly[i].words[i] = -5;
    }
    look(-5);
    for (int i = 0; i < PAGES; i++) {
        EXPECT(readonly[i].sum, rounds + i);
        written[i].count = 0;
    }
}

/* A child has the pages as they were, whatever becomes of the parent's. */
static void fork_with_replicas(void) {
    int go[2], status;
    char byte = 0;
    pipe(go);
    if (fork() == 0) {
        read(go[0], &byte, 1);
        for (int i = 0; i < PAGES; i++)
            EXPECT(readonly[i].words[i], i * 7);
        _exit(wrong);
    }
    for (int i = 0; i < PAGES; i++)
        readonly[i].words[i] = -1;
    write(go[1], &byte, 1);
    wait(&status);
    EXPECT(status, 0);
    for (int i = 0; i < PAGES; i++)
        readonly[i].words[i] = i * 7;
}

int main(void) {
    written = region();
    readonly = region();
    for (int i = 0; i < PAGES; i++) {
        written[i].count = 0;
        readonly[i].words[i] = i * 7;
    }
    EXPECT(near(written, 0), PAGES);
    use();
    EXPECT(near(written, 1), PAGES);
    EXPECT(near(readonly, 0), PAGES);
    fork_with_replicas();
    store_at_home();
    EXPECT(munmap(readonly, PAGES * PAGE), 0);
    puts(wrong ? "wrong" : "followed");
    return wrong;
}
