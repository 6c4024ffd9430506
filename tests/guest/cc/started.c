/* A program of both sides of a link that shares no data between them. Prints `started: ok`, or what was wrong. */
#include <motet.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOST MOTET_ONLY("x86_64")
#define CALLS 50

HOST long on_host(long a) { return a + 2; }

static int good(void) {
    long sum = 0;
    for (int call = 0; call < CALLS; call++)
        sum = on_host(sum);
    return sum == 2 * CALLS;
}

/* The child's tables are made where its parent runs. */
int main(void) {
    int child = fork(), status = 1;
    if (child == 0)
        _exit(!good());
    int all = child > 0 && waitpid(child, &status, 0) == child && status == 0 && good();
    puts(all ? "started: ok" : "started: a function has another result");
    return !all;
}
