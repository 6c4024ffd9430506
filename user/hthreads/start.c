/* Chooses the back end, and finds the calling thread's record. */
#include "internal.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct back_end *const ALL[] = {&ht_hardware, &ht_rpc, &ht_software, &ht_fused, &ht_hybrid};
enum { BACK_ENDS = sizeof ALL / sizeof ALL[0] };

struct thread ht_threads[THREADS];

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* A key whose destructor notices threads that end without returning from their function. */
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

/* A thread ends without ht_end. Destructors of other keys may lock mutexes, so they run first. */
static void destroyed(void *thread) {
    struct thread *self = thread;
    ht_set_known(self);
    if (++self->farewells >= PTHREAD_DESTRUCTOR_ITERATIONS)
        ht_end(self, HTHREAD_KILLED);
}

/* The program's own constructors may run first, and make requests. */
static void __attribute__((constructor)) make_key(void) {
    static int is_made;
    if (!is_made && pthread_key_create(&key, destroyed) != 0)
        abort();
    is_made = 1;
}

/* The only thread of a forked child has no window. Its parent's objects are in the service core, or its parent's servers are not in the child. */
static void forked(void) { ht_set_known(NULL); }

/* The variables of the library and of its adaptor for pthreads (adaptor.h). A program has one back end. */
static const char *const VARIABLES[] = {"MOTET_HTHREADS", "MOTET_MUTEX"};

/* Ends without the program's exit handlers, because they may lock mutexes. */
static void leave(void) {
    fflush(NULL);
    _exit(1);
}

/* The value of the first variable that is set, and its name in *name. NULL: none is set. */
static const char *chosen(const char **name) {
    const char *found = NULL;
    for (int i = 0; i < 2; i++) {
        const char *words = getenv(VARIABLES[i]);
        if (!words || !*words)
            continue;
        if (found && strcmp(found, words) != 0) {
            fprintf(stderr, "hthreads: MOTET_HTHREADS=%s and MOTET_MUTEX=%s: there is one back end for both\n", found, words);
            leave();
        }
        (found = words, *name = VARIABLES[i]);
    }
    return found;
}

static void refuse(const char *name, const char *words, const char *why) {
    fprintf(stderr, "hthreads: %s=%s: %s\n", name, words, why);
    leave();
}

static const char *why(int error) {
    switch (error) {
    case EINVAL: return "that is not how servers and cores are named (docs/hthreads.md)";
    case ENXIO: return "there is no such CPU, or the program may not use it";
    case ENODEV:
    case ENOENT: return "the machine has no service core ([[service]] in its file); rpc, software and fused need none";
    default: return strerror(error);
    }
}

static void choose(void) {
    const char *name, *words = chosen(&name);
    make_key();
    ht_find_islands();
    pthread_atfork(NULL, NULL, forked);
    if (!words) {
        ht_back_end = ht_hardware.open("") == 0 ? &ht_hardware : &ht_fused;
        return;
    }
    size_t len = strcspn(words, ":@");
    for (unsigned i = 0; i < BACK_ENDS; i++)
        if (strlen(ALL[i]->name) == len && memcmp(ALL[i]->name, words, len) == 0) {
            int error = ALL[i]->open(words + len);
            if (error)
                refuse(name, words, why(error));
            ht_back_end = ALL[i];
            return;
        }
    refuse(name, words, "it is hardware, rpc, software, fused or hybrid");
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
