/* What a lock and an unlock of a mutex take that nobody else wants: pairs COUNT, of pthreads alone. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "motet.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void pairs(long count) {
    for (long i = 0; i < count; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 1000;
    pairs(10); /* it has a number, and code is near */
    motet_roi_begin("pairs");
    double before = now_ns();
    pairs(count);
    double after = now_ns();
    motet_roi_end("pairs");
    printf("pairs %ld ns %.1f\n", count, (after - before) / (double)count);
    return 0;
}
