/*
 * A RISC-V program whose thread goes to a core with vectors and back. It tests when the thread goes back, and what makes it stay.
 *
 * going back          the thread uses no vectors any more, and goes back
 * going patience      the thread uses vectors again as soon as it has gone back; then it stays longer each time
 * going turns         threads that all want vectors, for several slices each: the order in which they begin and end
 * going way           an ordinary thread runs on the core with vectors when the thread arrives
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrations.h"

static void use_vectors(void) {
#if defined(__riscv)
    __asm__ volatile(".option push\n.option arch, +v\nvsetivli zero, 2, e64, m1, ta, ma\nvmv.v.i v8, 1\n.option pop" ::: "memory");
#endif
}

/* Computes until it is on this core again. */
static void await(int core) {
    while (sched_getcpu() != core) {
        for (volatile int i = 0; i < 1000; i++) {
        }
    }
}

static void back(int home) {
    use_vectors();
    printf("away %d\n", sched_getcpu() != home);
    await(home);
    printf("there %ld back %ld patience %ld\n", moves("to_extension"), moves("back"), moves("patience_slices"));
}

static volatile int stop;

static void *use_until_stopped(void *unused) {
    (void)unused;
    while (!stop) {
        use_vectors();
        sched_yield();
    }
    return NULL;
}

static void patience(int home) {
    for (int round = 0; round < 4; round++) {
        use_vectors();
        printf("patience %ld\n", moves("patience_slices"));
        await(home);
    }
    use_vectors();
    /* Another thread wants the core. A thread that has come and gone so often stays nevertheless. */
    pthread_t other;
    pthread_create(&other, NULL, use_until_stopped, NULL);
    while (moves("stayed") == 0) {
    }
    printf("stayed\n");
    stop = 1;
    pthread_join(other, NULL);
}

enum { THREADS = 3, ROUNDS = 400 };
static char order[4 * THREADS];

/* One core runs all of this. */
static void note(char what) {
    order[strlen(order)] = what;
}

static void *use_for_long(void *name) {
    use_vectors();
    note(*(char *)name);
    for (int round = 0; round < ROUNDS; round++) {
        use_vectors();
        for (volatile int i = 0; i < 1000; i++) {
        }
    }
    note(*(char *)name);
    return NULL;
}

static void turns(void) {
    pthread_t threads[THREADS];
    static char names[THREADS] = "abc";
    for (int i = 0; i < THREADS; i++) {
        pthread_create(threads + i, NULL, use_for_long, names + i);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%s\n", order);
}

static volatile int running;

static void *compute(void *core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(*(int *)core, &set);
    sched_setaffinity(0, sizeof set, &set);
    for (running = 1; !stop;) {
    }
    return NULL;
}

static void way(int home, int able) {
    pthread_t other;
    pthread_create(&other, NULL, compute, &able);
    while (!running) {
        sched_yield();
    }
    use_vectors();
    printf("away %d\n", sched_getcpu() == able && able != home);
    /* A slice is 10 ms. */
    printf("at once %d\n", moves("moving_ns") < 1000000);
    stop = 1;
    pthread_join(other, NULL);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    int home = sched_getcpu(), able = count > 2 ? atoi(words[2]) : -1;
    if (strcmp(what, "back") == 0) {
        back(home);
    } else if (strcmp(what, "patience") == 0) {
        patience(home);
    } else if (strcmp(what, "turns") == 0) {
        turns();
    } else if (strcmp(what, "way") == 0) {
        way(home, able);
    } else {
        return 64;
    }
    return 0;
}
