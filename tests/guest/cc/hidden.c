/*
 * A RISC-V program whose vector instructions run on hidden harts. Its thread makes no system call there, so something else must bring it home:
 *
 * hidden kill       the process is killed, from another core if there are several
 * hidden alarm      signals reach the thread there
 * hidden turns N    N processes take turns, each of which would never leave by itself
 * hidden protect    after a page has become read-only, no thread on a hidden hart can write to it
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../vectors.h"

enum { PAGE = 4096, ALARMS = 5, PERIOD_US = 3000, PROCESSES_MAX = 64 };

/* Adds 1 to a word, by vector instructions alone. */
static void add(volatile uint64_t *word) {
    VECTORS("vsetivli x0, 1, e64, m1, ta, ma\nvle64.v v1, (%0)\nvadd.vi v1, v1, 1\nvse64.v v1, (%0)", : : "r"(word) : "memory");
}

static volatile uint64_t *shared;

static void map_shared(void) {
    void *at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    shared = at;
    memset(at, 0, 2 * PAGE);
}

static void wait_until(volatile uint64_t *word, uint64_t value) {
    while (*word < value) {
        usleep(1000);
    }
}

static void show_counts(void) {
    char line[128];
    FILE *file = fopen("/proc/self/migrations", "r");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long count;
        if (sscanf(line, "to_hidden %lu", &count) == 1) {
            printf("sent %d\n", count > 0);
        }
        if (sscanf(line, "called_home %lu", &count) == 1) {
            printf("called home %d\n", count > 0);
        }
    }
}

/* Where there is only one core, the caller stays on that. */
static void bind_to(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void kill_it(void) {
    bind_to(1);
    pid_t child = fork();
    if (child == 0) {
        bind_to(0);
        for (;;) {
            add(shared);
        }
    }
    wait_until(shared, 1000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    printf("killed %d\n", WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    uint64_t last = shared[0];
    usleep(20000);
    printf("stopped %d\n", shared[0] == last);
}

static volatile uint64_t alarms;

static void on_alarm(int number) {
    (void)number;
    alarms++;
    VECTORS("vsetvli x0, x0, e8, m8, ta, ma\nvmv.v.i v0, 7\nvmv.v.i v8, 7", : : : "memory");
}

static void alarm_it(void) {
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval period = {{0, PERIOD_US}, {0, PERIOD_US}};
    setitimer(ITIMER_REAL, &period, NULL);
    uint64_t count = 0, value = 0;
    /* The register keeps its value from one signal to the next. */
    VECTORS("vsetivli x0, 1, e64, m1, ta, ma\nvmv.v.i v9, 0", : : : "memory");
    while (alarms < ALARMS) {
        count++;
        VECTORS("vadd.vi v9, v9, 1", : : : "memory");
    }
    VECTORS("vmv.x.s %0, v9", : "=r"(value));
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
    printf("counted %d\n", value == count);
    show_counts();
}

static void turns(int count) {
    pid_t children[PROCESSES_MAX];
    volatile uint64_t *stop = shared + PAGE / 8;
    for (int i = 0; i < count; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            while (*stop == 0) {
                add(shared + i);
            }
            _exit(0);
        }
    }
    /* Repeatedly: every process makes progress, although none leaves by itself. */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < count; i++) {
            wait_until(shared + i, shared[i] + 10);
        }
    }
    *stop = 1;
    int right = 0;
    for (int i = 0; i < count; i++) {
        int status = 1;
        waitpid(children[i], &status, 0);
        right += status == 0;
    }
    printf("took turns %d of %d\n", right, count);
}

static volatile int faulted;

static void on_fault(int number) {
    (void)number;
    faulted = 1;
    for (;;) {
        pause();
    }
}

static void *write_for_ever(void *unused) {
    for (;;) {
        add(shared);
    }
    return unused;
}

static void protect(void) {
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, write_for_ever, NULL);
    wait_until(shared, 1000);
    mprotect((void *)shared, PAGE, PROT_READ);
    uint64_t last = shared[0];
    usleep(20000);
    printf("frozen %d\n", shared[0] == last);
    while (!faulted) {
        usleep(1000);
    }
    printf("faulted\n");
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    map_shared();
    if (strcmp(what, "kill") == 0) {
        kill_it();
    } else if (strcmp(what, "alarm") == 0) {
        alarm_it();
    } else if (strcmp(what, "turns") == 0) {
        turns(count > 2 ? atoi(words[2]) : 4);
    } else if (strcmp(what, "protect") == 0) {
        protect();
    } else {
        printf("which?\n");
    }
    fflush(stdout);
    _exit(0);
}
