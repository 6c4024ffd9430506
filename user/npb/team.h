/* Threads on all islands at once, one on each. On a plain Linux there are as many as one asks for. */
#ifndef TEAM_H
#define TEAM_H

#include "npb.h"

#include <pthread.h>

enum { TEAM_MAX = 16 };

struct member {
    int index, island; /* -1: where it is */
    void *(*work)(void *);
    pthread_t thread;
};

static struct {
    int size;
    pthread_barrier_t barrier;
    struct member members[TEAM_MAX];
} team;

/* All members get here before any goes on. */
static inline void team_wait(void) { pthread_barrier_wait(&team.barrier); }

/* Of `total` pieces, the first that a member does. The next member's first is the end of its part. */
static inline int team_first(int index, int total) { return (int)((long long)total * index / team.size); }

static void *team_member(void *argument) {
    struct member *member = argument;
    return member->island < 0 ? member->work(member) : motet_call_on(member->island, member->work, member);
}

/* Decides how many there will be. */
static void team_gather(const char *size) {
    char isas[ISLANDS_MAX][16] = {{0}};
    int islands = migrate_islands(isas);
    for (int island = 0; island < islands && team.size < TEAM_MAX; island++)
        if (*isas[island])
            team.members[team.size++].island = island;
    if (islands == 0) {
        int wanted = size ? atoi(size) : 2;
        for (; team.size < TEAM_MAX && team.size < wanted; team.size++)
            team.members[team.size].island = -1;
    }
    if (team.size == 0 || pthread_barrier_init(&team.barrier, NULL, (unsigned)team.size) != 0) {
        fprintf(stderr, "npb: there are no threads\n");
        exit(2);
    }
}

/* Runs `work`, which gets its member and returns NULL, in all members. */
static void team_run(void *(*work)(void *)) {
    for (int index = 0; index < team.size; index++) {
        struct member *member = &team.members[index];
        member->index = index;
        member->work = work;
        int error = pthread_create(&member->thread, NULL, team_member, member);
        if (error) {
            fprintf(stderr, "npb: a thread cannot be made: %s\n", strerror(error));
            exit(2);
        }
    }
    for (int index = 0; index < team.size; index++) {
        void *result = NULL;
        pthread_join(team.members[index].thread, &result);
        if (result) {
            fprintf(stderr, "npb: a call to island %d failed: %s\n", team.members[index].island, strerror(-(int)(long)result));
            exit(2);
        }
    }
}

#endif
