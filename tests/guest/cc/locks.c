/* Byte-range locks, taken and waited for on different instruction sets. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

static const char path[] = "locked";

static const char *apply(int fd, int command, int type, int whence, long start, long len) {
    struct flock lock = {.l_type = type, .l_whence = whence, .l_start = start, .l_len = len};
    return fcntl(fd, command, &lock) == 0 ? "ok" : errno == EACCES ? strerror(EAGAIN) : strerror(errno);
}

MOTET_ON(ARM) const char *lock_on_arm(int fd, int type, long start, long len) {
    expect_on(ARM);
    return apply(fd, F_SETLK, type, SEEK_SET, start, len);
}

MOTET_ON(RISCV) const char *lock_on_riscv(int fd, int type, long start, long len) {
    expect_on(RISCV);
    return apply(fd, F_SETLK, type, SEEK_SET, start, len);
}

MOTET_ON(RISCV) const char *wait_on_riscv(int fd, int type, long start, long len) {
    expect_on(RISCV);
    return apply(fd, F_SETLKW, type, SEEK_SET, start, len);
}

/* Prints the result that another process gets for a lock, and the lock that it finds in the way. */
static void other(const char *when, int type, long start, long len) {
    fflush(stdout);
    pid_t parent = getpid();
    if (fork() == 0) {
        int fd = open(path, O_RDWR);
        struct flock found = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
        fcntl(fd, F_GETLK, &found);
        printf("%s: %s", when, lock_on_arm(fd, type, start, len));
        if (found.l_type == F_UNLCK) printf("\n");
        else
            printf(" (%s %ld %ld of %s)\n", found.l_type == F_WRLCK ? "writer" : "reader", (long)found.l_start,
                   (long)found.l_len, found.l_pid == parent ? "the parent" : "another");
        fflush(stdout);
        _exit(0);
    }
    wait(0);
}

static void processes(int fd) {
    printf("reader %s\n", lock_on_riscv(fd, F_RDLCK, 0, 100));
    other("a second reader", F_RDLCK, 50, 100);
    other("a writer", F_WRLCK, 99, 1);
    other("a writer beside it", F_WRLCK, 100, 1);
    printf("writer %s\n", lock_on_riscv(fd, F_WRLCK, 0, 100));
    other("a reader", F_RDLCK, 0, 0);
    printf("hole %s\n", lock_on_riscv(fd, F_UNLCK, 40, 20));
    other("in the hole", F_WRLCK, 40, 20);
    other("before the hole", F_WRLCK, 39, 1);
    other("behind the hole", F_WRLCK, 60, 1);
    other("over the hole", F_RDLCK, 30, 50);
    printf("reader in the middle %s\n", lock_on_arm(fd, F_RDLCK, 20, 60));
    other("reader in the middle", F_RDLCK, 20, 60);
    other("writer in the middle", F_WRLCK, 45, 1);
    other("at the end", F_RDLCK, 99, 1);
    printf("all %s\n", lock_on_arm(fd, F_UNLCK, 0, 0));
    other("nothing left", F_WRLCK, 0, 0);
}

static void ranges(int fd) {
    ftruncate(fd, 1000);
    printf("from the end %s\n", apply(fd, F_SETLK, F_WRLCK, SEEK_END, -10, 0));
    other("before", F_WRLCK, 989, 1);
    other("there", F_WRLCK, 5000, 1);
    printf("backwards %s\n", apply(fd, F_SETLK, F_WRLCK, SEEK_SET, 10, -5));
    other("five", F_WRLCK, 5, 1);
    other("ten", F_WRLCK, 10, 1);
    printf("before the file %s\n", apply(fd, F_SETLK, F_WRLCK, SEEK_SET, 3, -5));
    printf("no such type %s\n", apply(fd, F_SETLK, 7, SEEK_SET, 0, 0));
    int reading = open(path, O_RDONLY);
    printf("writer without writing %s\n", apply(reading, F_SETLK, F_WRLCK, SEEK_SET, 0, 1));
    close(reading); /* this releases the process's locks */
    other("after a close", F_WRLCK, 0, 0);
}

static void waiting(int fd) {
    int ends[2];
    char byte;
    pipe(ends);
    lock_on_riscv(fd, F_WRLCK, 0, 10);
    fflush(stdout);
    if (fork() == 0) {
        int own = open(path, O_RDWR);
        write(ends[1], "x", 1);
        const char *got = wait_on_riscv(own, F_WRLCK, 5, 1);
        write(ends[1], "y", 1);
        printf("waited: %s\n", got);
        fflush(stdout);
        _exit(0); /* this releases its lock */
    }
    read(ends[0], &byte, 1);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    usleep(20000);
    printf("still waits: %s\n", read(ends[0], &byte, 1) < 0 ? "yes" : "no");
    fflush(stdout);
    lock_on_riscv(fd, F_UNLCK, 0, 10);
    wait(0);
    printf("afterwards %s\n", lock_on_riscv(fd, F_WRLCK, 5, 1));
    lock_on_riscv(fd, F_UNLCK, 0, 0);
}

static void open_files(void) {
    int one = open(path, O_RDWR), two = open(path, O_RDWR), same = dup(one);
    printf("one %s\n", apply(one, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 10));
    printf("two %s\n", apply(two, F_OFD_SETLK, F_WRLCK, SEEK_SET, 9, 10));
    printf("the same %s\n", apply(same, F_OFD_SETLK, F_WRLCK, SEEK_SET, 9, 10));
    printf("the process %s\n", lock_on_arm(two, F_RDLCK, 0, 1));
    struct flock found = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    fcntl(two, F_OFD_GETLK, &found);
    printf("found %ld of %d\n", (long)found.l_start, found.l_pid);
    close(one);
    printf("two %s\n", apply(two, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 10));
    close(same);
    printf("two %s\n", apply(two, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 10));
    close(two);
}

int main(void) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    processes(fd);
    ranges(fd);
    waiting(fd);
    open_files();
    other("at last", F_WRLCK, 0, 0);
    unlink(path);
    return 0;
}
