/* Shows near which islands data and blocks of malloc lie. */
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "crossing.h"

#define PAGES 5
#define PAGE 4096

MOTET_DATA_ON(RISCV) static long written[1000] = {1, 2, 3};
MOTET_DATA_ON(RISCV) long zeros[PAGES * PAGE / sizeof(long)];
MOTET_DATA_ON(ARM) static const char constants[3 * PAGE] = "constants";
MOTET_DATA_ON("2") int on_two = 22;
static long anywhere[3 * PAGE / sizeof(long)];

/* The island that the page at an address is near to. -1: the page has not been touched. */
static int node_of(const void *address) {
    int status = 0;
    void *pages[] = {(void *)((uintptr_t)address & -PAGE)};
    return syscall(SYS_move_pages, 0, 1, pages, 0, &status, 0) == 0 ? status : -99;
}

/* Prints the islands of a block's pages, each once if they are all the same. */
static void show(const char *name, const void *block, size_t size) {
    int first = node_of(block), same = 1;
    for (size_t at = 0; at < size; at += PAGE)
        same &= node_of((const char *)block + at) == first;
    printf("%s %d%s\n", name, first, same ? "" : " and others");
}

static long sum(const volatile char *bytes, size_t size) {
    long total = 0;
    for (size_t at = 0; at < size; at += 64)
        total += bytes[at];
    return total;
}

/* Small blocks of two islands, allocated in turns, never share a page. */
#define BLOCKS 200
static char *small[2][BLOCKS];

static char *filled(size_t size) {
    char *block = malloc(size);
    return block ? memset(block, 7, size) : 0;
}

MOTET_ON(RISCV) char *filled_on_riscv(size_t size) { expect_on(RISCV); return filled(size); }
MOTET_ON(ARM) void free_on_arm(char *block) { expect_on(ARM); free(block); }
MOTET_ON(RISCV) void fill_anywhere(void) { memset(anywhere, 1, sizeof anywhere); }

static void show_data(void) {
    zeros[0] = written[0];
    printf("sums %ld %ld %ld %d\n", sum((char *)written, sizeof written), sum((char *)zeros, sizeof zeros),
           sum(constants, sizeof constants), on_two);
    show("written", written, sizeof written);
    show("zeros", zeros, sizeof zeros);
    show("constants", constants, sizeof constants);
    show("on_two", &on_two, sizeof on_two);
    fill_anywhere();
    show("touched by riscv", (char *)anywhere + PAGE, sizeof anywhere - 2 * PAGE);
}

static void show_small(void) {
    int strays = 0;
    for (int i = 0; i < BLOCKS; i++) {
        small[0][i] = filled(40 + i);
        small[1][i] = filled_on_riscv(40 + i);
    }
    for (int i = 0; i < BLOCKS; i++)
        strays += (node_of(small[0][i]) != 0) + (node_of(small[1][i]) != 2);
    printf("strays %d\n", strays);
    for (int i = 0; i < BLOCKS; i++)
        free_on_arm(small[i % 2][i]);
}

static void show_large(void) {
    char *here = filled(100000), *there = filled_on_riscv(100000);
    show("here", here, 100000);
    show("there", there, 100000);
    free_on_arm(here);
    free(there);
}

/* Memory that was requested near an island is there, whichever island touches it first, also after it has grown. */
static void show_chosen(void) {
    char *little = motet_malloc_on(1, 100), *large = motet_malloc_on(2, 300000);
    memset(little, 1, 100);
    memset(large, 1, 300000);
    show("little", little, 1);
    show("large", large, 300000);
    large = realloc(large, 900000);
    memset(large, 1, 900000);
    show("larger", large, 900000);
    little = realloc(little, 9000);
    memset(little, 1, 9000);
    show("grown", little, 9000);
    free(little);
    free_on_arm(large);
    errno = 0;
    printf("no such island: %d %d\n", motet_malloc_on(7, 100) == 0, errno == EINVAL);
    errno = 0;
    printf("no island: %d %d\n", motet_malloc_on(-1, 100) == 0, errno == EINVAL);
}

int main(void) {
    show_data();
    show_small();
    show_large();
    show_chosen();
    return 0;
}
