/* For a while, makes calls between instruction sets, page faults and forks, so that something is under way whenever an island dies. */
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

enum { PAGE = 4096, PAGES = 64, CHILDREN = 3 };

MOTET_ON(RISCV) int on_riscv(int depth);
MOTET_ON(ARM) int on_arm(int depth) { return depth <= 0 ? 1 : on_riscv(depth - 1) + 1; }
MOTET_ON(RISCV) int on_riscv(int depth) { return depth <= 0 ? 1 : on_arm(depth - 1) + 1; }
MOTET_ON(RISCV) void touch(char *bytes) {
    for (int page = 0; page < PAGES; page++) bytes[page * PAGE]++;
}

static int work(int rounds) {
    int sum = 0;
    for (int round = 0; round < rounds; round++) {
        sum += on_riscv(round % 5) + on_arm(round % 3);
        if (round % 50 == 0) {
            char *bytes = malloc(PAGES * PAGE);
            touch(bytes);
            free(bytes);
        }
        if (round % 200 == 0) {
            if (fork() == 0) _exit(on_riscv(3));
            wait(0);
        }
    }
    return sum;
}

int main(int count, char **arguments) {
    int rounds = count > 1 ? atoi(arguments[1]) : 100;
    for (int child = 0; child < CHILDREN; child++)
        if (fork() == 0) _exit(work(rounds) == 0);
    while (wait(0) > 0) continue;
    return 0;
}
