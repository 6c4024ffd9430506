/* Calls functions of an island whose only core is busy. The first argument is the policy for such calls. Every line of output has the counts of
 * /proc/self/crossings, or the island that a function ran on. With a second argument, the program calls a function that never returns. */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "crossing.h"

static volatile int spins, stop;

MOTET_ON(RISCV) void spin(void) {
    spins = 1;
    while (!stop)
        ;
}
MOTET_ON(RISCV) int where(void) { return motet_island(); }
MOTET_ON(RISCV) int deeper(int depth) { return depth == 0 ? where() : deeper(depth - 1); }
MOTET_ON(ARM) int by_arm(void) { return deeper(2); }
MOTET_ONLY(RISCV) int only(void) { return motet_island(); }

static void *spinner(void *unused) {
    spin();
    return unused;
}

static long counted(const char *name) {
    char line[200];
    long count = -1;
    FILE *file = fopen("/proc/self/crossings", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            count = atol(line + strlen(name));
    if (file)
        fclose(file);
    return count;
}

/* Ends its thread, so that a call that runs locally never returns. */
MOTET_ON(RISCV) void leave_thread(void) { pthread_exit(0); }
static void *leaver(void *unused) {
    leave_thread();
    return unused;
}

int main(int argc, char **argv) {
    setvbuf(stdout, 0, _IONBF, 0);
    pthread_t thread, other;
    int busy = argc > 1 ? atoi(argv[1]) : 0;
    printf("policy %d\n", motet_crossings(busy, 0));
    pthread_create(&thread, 0, spinner, 0);
    while (!spins)
        sched_yield();
    if (argc > 2) {
        printf("started\n");
        pthread_join(thread, 0); /* For ever. */
    }
    printf("where %d\n", where());
    printf("deeper %d\n", deeper(3));
    printf("by arm %d\n", by_arm());
    pthread_create(&other, 0, leaver, 0);
    pthread_join(other, 0);
    printf("only %d\n", only());
    printf("calls %ld\n", counted("calls_run_locally "));
    printf("pages %ld\n", counted("pages_run_locally "));
    stop = 1;
    pthread_join(thread, 0);
    int then = 0;
    for (int tries = 0; tries < 2000 && then != 2; tries++) {
        usleep(50000); /* The core goes to sleep. */
        then = where();
    }
    printf("then %d\n", then);
    return 0;
}
