/* For the programs of the exercises: threads on islands, time, and what a check reads. */
#ifndef LAB_H
#define LAB_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "motet.h"

#define LAB_THREADS 8

struct lab_thread {
    pthread_t thread;
    int number, island;
    void (*work)(int number);
    double began_us, ended_us;
};

static atomic_int lab_arrived;
static int lab_count;

__attribute__((unused)) static double lab_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void *lab_on_island(void *argument) {
    struct lab_thread *thread = argument;
    /* All begin together, also those that have still to leave this core. */
    atomic_fetch_add(&lab_arrived, 1);
    while (atomic_load(&lab_arrived) < lab_count)
        sched_yield();
    thread->began_us = lab_now_us();
    thread->work(thread->number);
    thread->ended_us = lab_now_us();
    return 0;
}

static void *lab_thread(void *argument) {
    struct lab_thread *thread = argument;
    return motet_call_on(thread->island, lab_on_island, thread);
}

/* Runs work(0), work(1), … in a thread each, on the islands with these numbers, and waits for all. From the first beginning of work to the last end, in
 * microseconds. */
__attribute__((unused)) static double lab_run(int count, const int *islands, void (*work)(int)) {
    static struct lab_thread threads[LAB_THREADS];
    double began_us = 0, ended_us = 0;
    atomic_store(&lab_arrived, 0);
    lab_count = count;
    for (int number = 0; number < count; number++) {
        threads[number] = (struct lab_thread){0, number, islands[number], work, 0, 0};
        if (pthread_create(&threads[number].thread, 0, lab_thread, &threads[number]))
            exit(2);
    }
    for (int number = 0; number < count; number++) {
        pthread_join(threads[number].thread, 0);
        if (number == 0 || threads[number].began_us < began_us)
            began_us = threads[number].began_us;
        if (threads[number].ended_us > ended_us)
            ended_us = threads[number].ended_us;
    }
    return ended_us - began_us;
}

#endif
