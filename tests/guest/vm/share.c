/* Plays ping-pong with a guest (`guest-share`) over an area that both share: share NAME ROUNDS. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* The pipe of a peer, for reading and writing. */
static int bell(const char *name, int peer) {
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/vm.%s/bell.%d", name, peer);
    mkfifo(path, 0600);
    int pipe = open(path, O_RDWR);
    if (pipe < 0)
        fail(path);
    return pipe;
}

int main(int count, char **arguments) {
    if (count != 3)
        return 64;
    const char *name = arguments[1];
    uint32_t end = 2 * atoi(arguments[2]);
    char path[128];
    snprintf(path, sizeof path, "/dev/shm/vm.%s", name);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "/dev/shm/vm.%s/memory", name);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || (lseek(file, 0, SEEK_END) == 0 && ftruncate(file, 4096) != 0))
        fail(path);
    _Atomic uint32_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (words == MAP_FAILED)
        fail("mmap");
    int bells[2] = {bell(name, 0), bell(name, 1)};
    uint32_t own = flock(bells[0], LOCK_EX | LOCK_NB) == 0 ? 0 : 1;
    if (own == 1 && flock(bells[1], LOCK_EX | LOCK_NB) != 0)
        fail("there are two peers already");
    char number = own, rung;
    int rings = 0;
    words[1 + own] = 1;
    write(bells[1 - own], &number, 1);
    while (words[2 - own] == 0 || words[0] < end) {
        if (words[2 - own] == 1 && words[0] % 2 == own) {
            words[0] = words[0] + 1;
            write(bells[1 - own], &number, 1);
        } else {
            if (read(bells[own], &rung, 1) != 1 || (rung & 127) != (char)(1 - own))
                fail("read");
            rings++;
        }
    }
    printf("share %u %u %s\n", own, words[0], rings > 0 ? "rung" : "never rung");
    return 0;
}
