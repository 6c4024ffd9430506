// A fork bomb of an unprivileged user: every process forks for as long as it may, and computes.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int user = argc > 1 ? atoi(argv[1]) : 1000;
    if (setgid(user) || setuid(user)) {
        perror("bomb");
        return 1;
    }
    for (volatile unsigned long turns = 0;; turns++)
        if (turns % 1000 == 0) fork();
}
