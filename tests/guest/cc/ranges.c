/* Address spaces with many ranges and with huge ranges, changed on every instruction set. The results must be those of Linux. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

#define PAGE 4096ul
#define GIB (1ul << 30)
#define TIB (1ul << 40)

enum { READ_WRITE = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

static const char *error(long result) { return result == -1 ? (errno == ENOMEM ? "ENOMEM" : strerror(errno)) : "done"; }

static char *map(unsigned long len, int protection) { return mmap(0, len, protection, PRIVATE, -1, 0); }

/* How many ranges /proc/self/maps has in a part of the address space. Takes no memory, which could come from there. */
static int count_ranges(const char *start, unsigned long len) {
    static char text[1 << 16];
    unsigned long from, to;
    int count = 0, maps = open("/proc/self/maps", O_RDONLY);
    long end = 0, got;
    while ((got = read(maps, text + end, sizeof text - 1 - end)) > 0) end += got;
    close(maps);
    text[end] = 0;
    for (char *line = text; sscanf(line, "%lx-%lx", &from, &to) == 2; line = strchr(line, '\n') + 1)
        if (from < (unsigned long)start + len && to > (unsigned long)start) count++;
    return count;
}

/* Every other page is unmapped, and mapped again. */
static void holes(int count) {
    char *all = map(2 * count * PAGE, READ_WRITE);
    int done = 0, right = 0;
    for (int hole = 0; hole < count; hole++) {
        all[2 * hole * PAGE] = (char)hole;
        done += munmap(all + (2 * hole + 1) * PAGE, PAGE) == 0;
    }
    for (int hole = 0; hole < count; hole++) right += all[2 * hole * PAGE] == (char)hole;
    printf("%d holes, %d pages as they were\n", done, right);
    done = 0;
    for (int hole = count - 1; hole >= 0; hole--)
        done += mmap(all + (2 * hole + 1) * PAGE, PAGE, READ_WRITE, PRIVATE | MAP_FIXED, -1, 0) == all + (2 * hole + 1) * PAGE;
    printf("%d filled, %d range\n", done, count_ranges(all, 2 * count * PAGE));
    printf("all of them: %s\n", error(munmap(all, 2 * count * PAGE)));
}

/* Neighbouring ranges merge when their attributes become equal, whichever of them changes. */
static void neighbours(void) {
    char *all = map(16 * PAGE, READ_WRITE);
    mprotect(all, PAGE, PROT_NONE);
    mprotect(all + 15 * PAGE, PAGE, PROT_NONE);
    mprotect(all + 4 * PAGE, 4 * PAGE, PROT_READ);
    printf("%d ranges,", count_ranges(all, 16 * PAGE));
    mprotect(all + 4 * PAGE, 2 * PAGE, READ_WRITE);
    printf(" %d,", count_ranges(all, 16 * PAGE));
    mprotect(all + 6 * PAGE, 2 * PAGE, READ_WRITE);
    printf(" %d,", count_ranges(all, 16 * PAGE));
    munmap(all + 6 * PAGE, PAGE);
    printf(" %d,", count_ranges(all, 16 * PAGE));
    mmap(all + 6 * PAGE, PAGE, READ_WRITE, PRIVATE | MAP_FIXED, -1, 0);
    printf(" %d\n", count_ranges(all, 16 * PAGE));
    long over_a_hole = munmap(all + 8 * PAGE, PAGE) | mprotect(all + 6 * PAGE, 4 * PAGE, PROT_READ);
    printf("protecting over a hole: %s,", error(over_a_hole));
    printf(" %d ranges\n", count_ranges(all, 16 * PAGE));
    munmap(all, 16 * PAGE);
}

/* Pages that are far apart in mostly empty mappings keep their contents when the mapping moves. */
static void huge(void) {
    static const unsigned long places[] = {0, PAGE, 511 * PAGE, 512 * PAGE, GIB - PAGE, 3 * GIB + 7 * PAGE, 64 * GIB - PAGE};
    enum { PLACES = sizeof places / sizeof *places };
    char *none = map(4 * TIB, PROT_NONE);
    none = mremap(none, 4 * TIB, 8 * TIB, MREMAP_MAYMOVE);
    printf("growing what is not there: %s, ", error((long)none));
    printf("mincore %s, ", error(mincore(none + 8 * TIB, PAGE, (void *)&(char){0})));
    printf("madvise %s, mprotect %s, ", error(madvise(none, 8 * TIB, MADV_DONTNEED)), error(mprotect(none, 8 * TIB, PROT_READ)));
    printf("munmap %s\n", error(munmap(none, 8 * TIB)));
    for (int shift = 0; shift < 2; shift++) {
        char *space = map(256 * GIB, PROT_NONE), *at = space + shift * PAGE;
        mmap(at, 64 * GIB, READ_WRITE, PRIVATE | MAP_FIXED, -1, 0);
        for (int n = 0; n < PLACES; n++) at[places[n]] = (char)(n + 1);
        char *moved = mremap(at, 64 * GIB, 80 * GIB, MREMAP_MAYMOVE | MREMAP_FIXED, space + 128 * GIB);
        printf("moved %s:", moved == space + 128 * GIB ? "there" : error((long)moved));
        for (int n = 0; n < PLACES; n++) printf(" %d", moved[places[n]]);
        unsigned char resident[2];
        for (int n = 0; n < PLACES; n += 2) {
            mincore(moved + places[n] / PAGE * PAGE, 2 * PAGE, resident);
            printf(" %d%d", resident[0] & 1, resident[1] & 1);
        }
        printf(", left behind: %s\n", error(mincore(at, PAGE, resident)));
        madvise(moved, 64 * GIB - PAGE, MADV_DONTNEED);
        moved = mremap(moved, 80 * GIB, 64 * GIB, 0);
        for (int n = 0; n < PLACES; n++) printf(" %d", moved[places[n]]);
        printf(", %s\n", error(munmap(space, 256 * GIB)));
    }
}

/* More ranges than a process may have. */
static void limit(void) {
    unsigned long most = 65530, done = 0;
    FILE *setting = fopen("/proc/sys/vm/max_map_count", "r");
    if (setting != 0) {
        if (fscanf(setting, "%lu", &most) != 1) exit(1);
        fclose(setting);
    }
    /* Ranges that cannot merge with their neighbours. */
    char *base = map((most + 4) * PAGE, PROT_READ | PROT_EXEC), *all = base + PAGE;
    mprotect(all, (most + 2) * PAGE, PROT_NONE);
    while (done < most / 2 + 1 && mprotect(all + (2 * done + 1) * PAGE, PAGE, PROT_READ) == 0) done++;
    printf("%s when there are %s\n", error(-1), most / 2 - done < 100 ? "as many as may be" : "too few");
    /* There may be room for one more range, but not for two. */
    mprotect(all + (most + 1) * PAGE, PAGE, PROT_READ);
    printf("a hole: %s, ", error(munmap(all + (most - 2) * PAGE, PAGE)));
    printf("an end: %s, ", error(munmap(all + most * PAGE, 2 * PAGE)));
    printf("one less: %s, ", error(mprotect(all + PAGE, PAGE, PROT_NONE)));
    printf("one more: %s\n", error(mprotect(all + PAGE, PAGE, PROT_READ)));
    printf("all: %s\n", error(munmap(base, (most + 4) * PAGE)));
}

/* Two counters with many pages between them. The one at the higher address always counts first. */
enum { BETWEEN = 600 };
static const unsigned long further = BETWEEN * PAGE / sizeof(uint64_t);
static volatile int stop;

static void *count(void *counters) {
    for (volatile uint64_t *near = counters; !stop;) {
        uint64_t next = near[0] + 1;
        near[further] = next;
        near[0] = next;
    }
    return 0;
}

/* A child sees its parent's memory as it was at one moment, although a thread of the parent writes all the time. */
static void snapshots(void) {
    int wrong = 0;
    uint64_t *counters = (uint64_t *)map((BETWEEN + 1) * PAGE, READ_WRITE);
    memset(counters, 0, (BETWEEN + 1) * PAGE);
    pthread_t writer;
    pthread_create(&writer, 0, count, counters);
    fflush(stdout);
    for (int n = 0; n < 20; n++) {
        pid_t child = fork();
        if (child == 0) _exit(counters[further] - counters[0] > 1);
        int status;
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    stop = 1;
    pthread_join(writer, 0);
    printf("%d of 20 children saw a later write without an earlier one\n", wrong);
}

static void change(int count) {
    holes(count);
    neighbours();
    huge();
}

MOTET_ON(ARM) void change_on_arm(void) {
    expect_on(ARM);
    change(1024);
}
MOTET_ON(RISCV) void change_on_riscv(void) {
    expect_on(RISCV);
    change(1024);
}

int main(void) {
    change(16384);
    change_on_arm();
    change_on_riscv();
    limit();
    snapshots();
    return 0;
}
