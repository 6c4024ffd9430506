/* Processes begin and end while their thread is on another island. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

static int depth;

MOTET_ON(RISCV) pid_t forks(void) { expect_on(RISCV); return fork(); }
MOTET_ON(ARM) pid_t forks_deeper(void) { expect_on(ARM); depth++; pid_t child = forks(); depth++; return child; }
MOTET_ON(RISCV) void exits(int status) { expect_on(RISCV); exit(status); }
MOTET_ON(ARM) void exits_at_once(int status) { expect_on(ARM); _exit(status); }
MOTET_ON(ARM) void aborts(void) { expect_on(ARM); abort(); }
MOTET_ON(RISCV) void spins(int ready) {
    expect_on(RISCV);
    if (write(ready, "x", 1) == 1)
        for (volatile int forever = 0; !forever;)
            ;
}
MOTET_ON(ARM) void waits(int ready) { expect_on(ARM); if (write(ready, "x", 1) == 1) pause(); }
MOTET_ON(RISCV) void becomes(char *path) {
    expect_on(RISCV);
    char *const arguments[] = {path, "again", 0};
    execv(path, arguments);
}
static void at_exit(void) { printf("at exit\n"); }

static void report(const char *what, pid_t child) {
    int status;
    if (waitpid(child, &status, 0) != child)
        printf("%s: no child\n", what);
    else if (WIFSIGNALED(status))
        printf("%s: signal %d\n", what, WTERMSIG(status));
    else
        printf("%s: status %d\n", what, WEXITSTATUS(status));
}

static void killed(const char *what, void (*function)(int)) {
    int ready[2];
    char letter;
    if (pipe(ready) != 0)
        return;
    pid_t child = fork();
    if (child == 0)
        function(ready[1]);
    if (read(ready[0], &letter, 1) == 1)
        kill(child, SIGTERM);
    report(what, child);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        printf("%s\n", argv[1]);
        return 6;
    }
    setvbuf(stdout, 0, _IONBF, 0);
    pid_t child = forks_deeper();
    if (child == 0) {
        printf("child %d\n", depth);
        exit(3);
    }
    report("fork", child);
    printf("parent %d\n", depth);
    if ((child = fork()) == 0) {
        atexit(at_exit);
        exits(4);
    }
    report("exit", child);
    if ((child = fork()) == 0)
        exits_at_once(5);
    report("_exit", child);
    if ((child = fork()) == 0)
        aborts();
    report("abort", child);
    killed("killed in a loop", spins);
    killed("killed in a sleep", waits);
    if ((child = fork()) == 0)
        becomes(argv[0]);
    report("exec", child);
    exits(7);
}
