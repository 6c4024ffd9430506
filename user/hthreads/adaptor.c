/* The adaptor chooses the back end, and gives objects numbers at their first use. */
#include "adaptor.h"

#include <stdio.h>
#include <string.h>

enum choice ht_choice;

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* A mutex of the back end, under which objects get their numbers: cores may have no atomic instruction in common. */
static uint32_t naming;

void ht_give_up(const char *what) {
    fprintf(stderr, "hthreads: MOTET_MUTEX=%s: %s\n", getenv("MOTET_MUTEX"), what);
    fflush(NULL);
    _Exit(1);
}

/* A forked child has copies of its parent's mutexes. It must not use its parent's objects in the service core, and it has no servers. So it uses
 * musl's mutexes, whose copies are free. */
static void forked(void) { __atomic_store_n(&ht_choice, MUSLS, __ATOMIC_RELAXED); }

static void choose(void) {
    const char *words = getenv("MOTET_MUTEX");
    enum choice choice = MUSLS;
    if (words && *words) {
        ht_start();
        int error = ht_ask_known(MUTEX_CREATE, 0, HTHREAD_MUTEX_FAST, NULL, &naming);
        if (error)
            ht_give_up(strerror(error));
        pthread_atfork(NULL, NULL, forked);
        choice = OURS;
    }
    __atomic_store_n(&ht_choice, choice, __ATOMIC_RELEASE);
}

int __attribute__((cold)) ht_choose_objects(void) {
    pthread_once(&once, choose);
    return __atomic_load_n(&ht_choice, __ATOMIC_RELAXED) == OURS;
}

/* A program with a wrong choice ends at once, even if it would lock nothing. */
static void __attribute__((constructor)) choose_early(void) { ht_choose_objects(); }

int __attribute__((cold)) ht_has_become_known(void) {
    enum { TRIES = 2000, PAUSE_NS = 1000000 };
    if (ht_known())
        return 0;
    /* Windows of ended threads become free after a while. */
    for (unsigned tries = 0; tries < TRIES; tries++) {
        struct timespec pause = {0, PAUSE_NS};
        if (ht_attach())
            return 1;
        nanosleep(&pause, NULL);
    }
    ht_give_up("too many threads use mutexes");
}

int ht_ask_known(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value) {
    int error = ht_back_end->ask(operation, object, argument, deadline, value);
    return error == EAGAIN && ht_has_become_known() ? ht_back_end->ask(operation, object, argument, deadline, value) : error;
}

int __attribute__((cold)) ht_name(int *word, enum operation create, uint32_t argument) {
    uint32_t number;
    int error = ht_ask_known(LOCK, naming, 0, NULL, NULL);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (error == EOWNERDEAD)
        ht_back_end->ask(CONSISTENT, naming, 0, NULL, NULL);
    else if (error)
        ht_give_up(strerror(error));
    if (*word == 0) {
        error = ht_back_end->ask(create, 0, argument, NULL, &number);
        __atomic_store_n(word, error ? IS_MUSLS : (int)number + 1, __ATOMIC_RELEASE);
    }
    int named = *word;
    ht_back_end->unlock(naming);
    return named;
}
