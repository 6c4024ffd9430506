// Where the parts of programs are: at random, unless `personality` says otherwise. The argument of a child is what it is to say.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 8, KINDS = 3 };
static const char *const kinds[KINDS] = {"stack", "heap", "mappings"};

static void say(void) {
    int local;
    unsigned long at[KINDS] = {(unsigned long)&local, (unsigned long)sbrk(0),
                               (unsigned long)mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
    if (write(1, at, sizeof at) != sizeof at)
        _exit(1);
    _exit(0);
}

// What a child says.
static void ask(unsigned long at[KINDS]) {
    int ends[2], status;
    if (pipe(ends))
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        execl("/proc/self/exe", "placed", "say", (char *)0);
        _exit(3);
    }
    close(ends[1]);
    if (read(ends[0], at, KINDS * sizeof *at) != KINDS * sizeof *at)
        exit(4);
    close(ends[0]);
    waitpid(child, &status, 0);
}

static void compare(const char *when) {
    unsigned long at[CHILDREN][KINDS];
    for (int child = 0; child < CHILDREN; child++)
        ask(at[child]);
    printf("%s:", when);
    for (int kind = 0; kind < KINDS; kind++) {
        int different = 0;
        for (int child = 0; child < CHILDREN; child++) {
            int before = 0;
            while (before < child && at[before][kind] != at[child][kind])
                before++;
            different += before == child;
        }
        // Of 8,192 places of a heap, two of eight are the same now and then.
        printf(" %s %s", kinds[kind], different == 1 ? "as ever" : different >= CHILDREN / 2 ? "at random" : "at few places");
    }
    printf("\n");
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1)
        say();
    compare("unasked");
    if (personality(ADDR_NO_RANDOMIZE) || personality(0xffffffff) != ADDR_NO_RANDOMIZE)
        return 1;
    compare("personality");
    return 0;
}
