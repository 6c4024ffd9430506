/* A user who is not the superuser takes all memory that he can get, in one way after the other; meanwhile the superuser starts a program, makes a folder and
   removes it. The ways are what a kernel keeps in memory for its users. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char block[65536];

static int files(long i) {
    char name[64];
    sprintf(name, "/tmp/hog/%d.%ld", (int)getpid(), i);
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    return fd < 0 ? -1 : close(fd);
}

static int folders(long i) {
    char name[64];
    sprintf(name, "/tmp/hog/%d.%ld", (int)getpid(), i);
    return mkdir(name, 0700);
}

static int names(long i) {
    char name[300];
    if (i == 0 && files(0) != 0) return -1;
    char first[64];
    sprintf(first, "/tmp/hog/%d.0", (int)getpid());
    sprintf(name, "/tmp/hog/%d.x%0240ld", (int)getpid(), i);
    return link(first, name);
}

static int sockets(long i) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) return -1;
    while (write(pair[0], block, sizeof block) > 0);
    while (write(pair[1], block, sizeof block) > 0);
    return i < 0;
}

static int pages(long i) {
    static char *at;
    if (i == 0) at = mmap(0, 1ul << 33, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return -1;
    at[i << 12] = 1;
    return 0;
}

static int tables(long i) {
    static char *at;
    if (i == 0) at = mmap(0, 1ul << 44, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return -1;
    at[i << 21] = 1;
    return 0;
}

static int areas(long i) {
    return mmap(0, 4096, i & 1 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

static const struct way {
    const char *name;
    int (*take)(long);
    int processes;
} ways[] = {{"files", files, 1}, {"folders", folders, 1}, {"names", names, 1}, {"sockets", sockets, 8},
            {"pages", pages, 2}, {"tables", tables, 1}, {"areas", areas, 16}};

static void hog(const struct way *way, int told) {
    setgroups(0, 0);
    if (setresgid(1000, 1000, 1000) != 0 || setresuid(1000, 1000, 1000) != 0) _exit(9);
    long i = 0;
    while (way->take(i) == 0) i++;
    /* Writing there would take memory. */
    close(told);
    pause();
}

static int runs(void) {
    pid_t child = fork();
    if (child < 0) return -1;
    if (child == 0) {
        execl("/bin/busybox", "true", (char *)0);
        _exit(99);
    }
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : -1;
}

int main(void) {
    int wrong = 0;
    for (unsigned w = 0; w < sizeof ways / sizeof *ways; w++) {
        const struct way *way = ways + w;
        mkdir("/tmp/hog", 0777);
        chmod("/tmp/hog", 0777);
        int told[2];
        if (pipe(told) != 0) return 2;
        pid_t hogs[16];
        for (int p = 0; p < way->processes; p++) {
            hogs[p] = fork();
            if (hogs[p] == 0) {
                close(told[0]);
                hog(way, told[1]);
            }
        }
        close(told[1]);
        /* Each has closed it because there is no more, or has been ended. */
        char byte;
        while (read(told[0], &byte, 1) > 0);
        int is_well = 1;
        for (int k = 0; k < 3; k++) {
            if (runs() != 0) is_well = 0, printf("%s: root starts no program: %s\n", way->name, strerror(errno));
            if (mkdir("/tmp/of-root", 0700) != 0 || rmdir("/tmp/of-root") != 0)
                is_well = 0, printf("%s: root makes no folder: %s\n", way->name, strerror(errno));
        }
        for (int p = 0; p < way->processes; p++) {
            kill(hogs[p], SIGKILL);
            waitpid(hogs[p], 0, 0);
        }
        close(told[0]);
        if (system("rm -rf /tmp/hog") != 0) is_well = 0;
        wrong |= !is_well;
        printf("%s: %s\n", way->name, is_well ? "root goes on" : "root cannot go on");
        fflush(stdout);
    }
    return wrong;
}
