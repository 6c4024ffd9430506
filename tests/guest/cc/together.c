/* Two threads call functions of a busy island; the functions run locally. When one call is over, the other thread is still in its function. */
#include <pthread.h>
#include <sched.h>

#include "crossing.h"

static volatile int spins, stop, first_is_in, second_is_in, first_is_out;

MOTET_ON(ARM) void spin(void) {
    spins = 1;
    while (!stop)
        ;
}
MOTET_ON(ARM) int first(void) {
    first_is_in = 1;
    while (!second_is_in) sched_yield();
    return motet_island();
}
MOTET_ON(ARM) int second(void) {
    second_is_in = 1;
    while (!first_is_out) sched_yield();
    return motet_island();
}

static void *spinner(void *unused) {
    spin();
    return unused;
}
static void *other(void *unused) {
    while (!first_is_in) sched_yield();
    printf("second %d\n", second());
    return unused;
}

int main(void) {
    pthread_t threads[2];
    motet_crossings(MOTET_LOCAL, 0);
    pthread_create(&threads[0], 0, spinner, 0);
    while (!spins) sched_yield();
    pthread_create(&threads[1], 0, other, 0);
    printf("first %d\n", first());
    first_is_out = 1;
    pthread_join(threads[1], 0);
    stop = 1;
    pthread_join(threads[0], 0);
    printf("done\n");
    return 0;
}
