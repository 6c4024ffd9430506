/*
 * `sharing STRIDE ADDITIONS`: two threads, on AArch64 and RISC-V, add to words of their own, STRIDE words of eight bytes apart, in the region
 * `sharing`.
 */
#include <motet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STRIDE_MAX 16

static _Alignas(4096) volatile long words[STRIDE_MAX + 1];
static long additions;
static pthread_barrier_t barrier;

static inline __attribute__((always_inline)) void add(volatile long *word) {
    for (long index = 0, end = additions; index < end; index++)
        *word += 1;
}

MOTET_ON("aarch64") static void add_aarch64(volatile long *word) { add(word); }
MOTET_ON("riscv64") static void add_riscv64(volatile long *word) { add(word); }

static void *work(void *stride) {
    pthread_barrier_wait(&barrier);
    if (stride)
        add_aarch64(words + (uintptr_t)stride);
    else
        add_riscv64(words);
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(int count, char **arguments) {
    uintptr_t stride = count == 3 ? strtoul(arguments[1], NULL, 10) : 0;
    if (stride == 0 || stride > STRIDE_MAX)
        return 2;
    additions = strtol(arguments[2], NULL, 10);
    pthread_t threads[2];
    pthread_barrier_init(&barrier, NULL, 3);
    pthread_create(&threads[0], NULL, work, NULL);
    pthread_create(&threads[1], NULL, work, (void *)stride);
    pthread_barrier_wait(&barrier);
    motet_roi_begin("sharing");
    pthread_barrier_wait(&barrier);
    motet_roi_end("sharing");
    for (int index = 0; index < 2; index++)
        pthread_join(threads[index], NULL);
    printf("%ld %ld\n", words[0], words[stride]);
    return 0;
}
