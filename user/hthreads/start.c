/* The choice of a back end, and who the calling thread is. */
#include "internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct back_end *const ALL[] = {&ht_hardware, &ht_rpc, &ht_software, &ht_fused, &ht_hybrid};
enum { BACK_ENDS = sizeof ALL / sizeof ALL[0] };

struct thread ht_threads[THREADS];

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* So that threads that end otherwise than by returning are noticed. */
#ifdef HTHREAD_SEVERAL_ISAS
pthread_key_t ht_key;
#define key ht_key
#else
static pthread_key_t key;
__thread struct thread *ht_self;
#endif

void ht_set_known(struct thread *thread) {
#ifndef HTHREAD_SEVERAL_ISAS
    ht_self = thread;
#endif
    pthread_setspecific(key, thread);
}

/* A thread ends that has not come to ht_end. */
static void destroyed(void *thread) {
    ht_set_known(thread);
    ht_end(thread, HTHREAD_KILLED);
}

static void __attribute__((constructor)) make_key(void) {
    if (pthread_key_create(&key, destroyed) != 0)
        abort();
}

/* A child's only thread has the window of none. What keeps the objects is its parent's, too, or is not there. */
static void forked(void) { ht_set_known(NULL); }

static void refuse(const char *words, const char *why) {
    fprintf(stderr, "hthreads: MOTET_HTHREADS=%s: %s\n", words, why);
    exit(1);
}

static void choose(void) {
    ht_find_islands();
    pthread_atfork(NULL, NULL, forked);
    const char *words = getenv("MOTET_HTHREADS");
    if (!words || !*words) {
        ht_back_end = ht_hardware.open("") == 0 ? &ht_hardware : &ht_fused;
        return;
    }
    size_t len = strcspn(words, ":@");
    for (unsigned i = 0; i < BACK_ENDS; i++)
        if (strlen(ALL[i]->name) == len && memcmp(ALL[i]->name, words, len) == 0) {
            int error = ALL[i]->open(words + len);
            if (error)
                refuse(words, error == EINVAL ? "that is not how servers and cores are named (docs/hthreads.md)" : strerror(error));
            ht_back_end = ALL[i];
            return;
        }
    refuse(words, "it is hardware, rpc, software, fused or hybrid");
}

static void open_slots(void) {
    choose();
    for (unsigned island = 0; island < ISLANDS; island++)
        if (ht_islands[island].count)
            ht_back_end->ask(SLOTS, island, ht_islands[island].count, NULL, NULL);
}

void ht_start(void) { pthread_once(&once, open_slots); }

struct thread *ht_attach(void) {
    struct thread *thread = ht_back_end->make();
    if (!thread)
        return NULL;
    if (ht_back_end->enter(thread) != 0) {
        ht_back_end->drop(thread);
        return NULL;
    }
    ht_set_known(thread);
    return thread;
}
