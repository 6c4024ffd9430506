/* Two threads on islands of different instruction sets count under the lock. Nothing is to be changed here. */
#include "../lab.h"

#define ROUNDS 20000
#define SECONDS 15

#include LAB_FILE

/* On different lines of caches: what is stored to one is seen later than what is loaded from the other. */
static _Alignas(64) atomic_int inside;
static _Alignas(64) atomic_int met;

static void work(int number) {
    for (int round = 0; round < ROUNDS && !atomic_load_explicit(&met, memory_order_relaxed); round++) {
        lock(number);
        if (atomic_fetch_add(&inside, 1) != 0)
            atomic_store(&met, 1);
        atomic_fetch_sub(&inside, 1);
        unlock(number);
        /* Not always the same way of taking turns. */
        for (volatile int moment = round * 7 % 31; moment > 0; moment--)
            ;
    }
}

int main(int count, char **words) {
    int tries = count > 1 ? atoi(words[1]) : 1;
    double began = lab_now_us();
    for (int each = 0; each < tries && !atomic_load(&met) && lab_now_us() - began < SECONDS * 1e6; each++)
        lab_run(2, (int[]){0, 2}, work);
    if (atomic_load(&met))
        return printf("both threads were inside\n"), 1;
    printf("there was never more than one inside\n");
    return 0;
}
