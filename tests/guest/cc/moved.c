/* Pages move from island to island, while threads of all instruction sets store to them. */
#define _GNU_SOURCE
#include "crossing.h"
#include "expect.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 6
#define PAGE 4096L
#define ROUNDS 100
enum { BIND = 2, STRICT = 1, MOVE = 2 };

/* Of each page: a word of each thread's, far apart, and what nobody changes. */
typedef struct {
    volatile long counts[3][64];
    long constant[320];
} page_t;

static page_t *pages;
static volatile int is_over, running;
static long stores[3];

static long count(int who) {
    long done = 0;
    __atomic_fetch_add(&running, 1, __ATOMIC_SEQ_CST);
    for (; !is_over; done++)
        for (int i = 0; i < PAGES; i++)
            pages[i].counts[who][done % 64]++;
    return done;
}

MOTET_ON(X86) static long on_x86(void) { expect_on(X86); return count(0); }
MOTET_ON(ARM) static long on_arm(void) { expect_on(ARM); return count(1); }
MOTET_ON(RISCV) static long on_riscv(void) { expect_on(RISCV); return count(2); }

static void *run(void *who) {
    static long (*const on[3])(void) = {on_x86, on_arm, on_riscv};
    stores[(long)who] = on[(long)who]();
    return 0;
}

/* Moves all pages, each to the next island, and looks that they are there. */
static void move(int round) {
    void *at[PAGES];
    int nodes[PAGES], status[PAGES];
    for (int i = 0; i < PAGES; i++) {
        at[i] = &pages[i];
        nodes[i] = (round + i) % 3;
    }
    EXPECT(syscall(SYS_move_pages, 0, (long)PAGES, at, nodes, status, MOVE), 0);
    for (int i = 0; i < PAGES; i++)
        EXPECT(status[i], nodes[i]);
    EXPECT(syscall(SYS_move_pages, 0, (long)PAGES, at, 0, status, 0), 0);
    for (int i = 0; i < PAGES; i++)
        EXPECT(status[i], nodes[i]);
}

static int node_of(void *at) {
    int status = -99;
    syscall(SYS_move_pages, 0, 1L, &at, 0, &status, 0);
    return status;
}

static void move_while_all_store(void) {
    pthread_t threads[3];
    for (int i = 0; i < PAGES; i++)
        for (int j = 0; j < 320; j++)
            pages[i].constant[j] = i * 1000 + j;
    for (long who = 0; who < 3; who++)
        pthread_create(&threads[who], 0, run, (void *)who);
    while (running < 3)
        usleep(1000);
    for (int round = 0; round < ROUNDS; round++)
        move(round);
    is_over = 1;
    for (int who = 0; who < 3; who++)
        pthread_join(threads[who], 0);
    for (int i = 0; i < PAGES; i++) {
        for (int who = 0; who < 3; who++) {
            long sum = 0;
            for (int j = 0; j < 64; j++)
                sum += pages[i].counts[who][j];
            EXPECT(sum, stores[who]);
        }
        for (int j = 0; j < 320; j++)
            EXPECT(pages[i].constant[j], i * 1000 + j);
    }
}

/* What a child has, too, stays until it has gone. */
static void move_what_others_have(void) {
    int go[2], status;
    char byte;
    void *at = pages;
    unsigned long mask;
    pipe(go);
    int there = (node_of(pages) + 1) % 3;
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        read(go[0], &byte, 1);
        _exit(pages[0].constant[7] != 7);
    }
    EXPECT(syscall(SYS_move_pages, 0, 1L, &at, &there, &status, MOVE), 0);
    EXPECT(status, -EACCES);
    mask = 1UL << there;
    EXPECT(syscall(SYS_mbind, pages, PAGE, BIND, &mask, 64L, (long)(MOVE | STRICT)), -1);
    EXPECT(errno, EIO);
    close(go[1]);
    wait(&status);
    EXPECT(status, 0);
    EXPECT(syscall(SYS_mbind, pages, PAGE, BIND, &mask, 64L, (long)(MOVE | STRICT)), 0);
    EXPECT(node_of(pages), there);
    EXPECT(pages[0].constant[7], 7);
}

/* The pages of a whole process. */
static void move_all(void) {
    unsigned long all = 7, first = 1, last = 4;
    syscall(SYS_migrate_pages, 0, 64L, &all, &last);
    for (int i = 0; i < PAGES; i++)
        EXPECT(node_of(&pages[i]), 2);
    syscall(SYS_migrate_pages, 0, 64L, &last, &first);
    for (int i = 0; i < PAGES; i++) {
        EXPECT(node_of(&pages[i]), 0);
        EXPECT(pages[i].constant[9], i * 1000 + 9);
    }
}

static void *where_a_threads_page_lies(void *unused) {
    (void)unused;
    volatile char *page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
    return (void *)(long)node_of((void *)page);
}

/* What a thread wants, its threads and children want, too, unless a range wants something else. */
static void want(void) {
    unsigned long mask = 4, found = 0, second = 2;
    int mode = -1, status;
    pthread_t thread;
    void *node;
    EXPECT(syscall(SYS_get_mempolicy, &mode, &found, 64L, 0L, 0L), 0);
    EXPECT(mode, 0);
    EXPECT(found, 0);
    EXPECT(syscall(SYS_set_mempolicy, BIND, &mask, 64L), 0);
    EXPECT(syscall(SYS_get_mempolicy, &mode, &found, 64L, 0L, 0L), 0);
    EXPECT(mode, BIND);
    EXPECT(found, mask);
    EXPECT((long)where_a_threads_page_lies(0), 2);
    pthread_create(&thread, 0, where_a_threads_page_lies, 0);
    pthread_join(thread, &node);
    EXPECT((long)node, 2);
    if (fork() == 0)
        _exit((int)(long)where_a_threads_page_lies(0));
    wait(&status);
    EXPECT(WEXITSTATUS(status), 2);
    char *range = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(syscall(SYS_mbind, range, PAGE, BIND, &second, 64L, 0L), 0);
    EXPECT(syscall(SYS_get_mempolicy, &mode, &found, 64L, range, 3L /* MPOL_F_NODE | MPOL_F_ADDR */), 0);
    EXPECT(mode, 1);
    EXPECT(found, second);
    EXPECT(syscall(SYS_get_mempolicy, &mode, &found, 64L, 0L, 4L /* MPOL_F_MEMS_ALLOWED */), 0);
    EXPECT(found, 7);
    EXPECT(syscall(SYS_set_mempolicy, 0L, 0L, 0L), 0);
    EXPECT(syscall(SYS_get_mempolicy, &mode, 0L, 0L, 0L, 0L), 0);
    EXPECT(mode, 0);
}

/* Whether a file begins with a text. */
static int begins(const char *path, const char *text) {
    char found[256] = "";
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(found, 1, sizeof found - 1, file) : 0;
    if (file)
        fclose(file);
    int is_so = len >= strlen(text) && strncmp(found, text, strlen(text)) == 0;
    if (!is_so)
        printf("%s: %s\n", path, found);
    return is_so;
}

/* What libnuma reads. */
static void look(void) {
    EXPECT(begins("/sys/devices/system/node/online", "0-2\n"), 1);
    EXPECT(begins("/sys/devices/system/node/has_memory", "0-2\n"), 1);
    EXPECT(begins("/sys/devices/system/node/node1/distance", "20 10 20\n"), 1);
    EXPECT(begins("/sys/devices/system/node/node1/cpulist", "16"), 1);
    EXPECT(begins("/sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: "), 1);
    EXPECT(access("/sys/devices/system/node/node3", F_OK), -1);
    EXPECT(access("/sys/devices/system/node/node0/../node2/cpumap", R_OK), 0);
    char line[256];
    int is_told = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        is_told |= strcmp(line, "Mems_allowed_list:\t0-2\n") == 0;
    EXPECT(is_told, 1);
}

int main(void) {
    pages = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    _Static_assert(sizeof(page_t) == PAGE, "a page is a page");
    move_while_all_store();
    move_what_others_have();
    move_all();
    want();
    look();
    puts(wrong ? "wrong" : "moved");
    return wrong;
}
