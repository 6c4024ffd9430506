/*
 * How the one thread of a benchmark goes to another instruction set: it calls a function there. A plain compiler's program calls it here. With
 * MIGRATE_HOOKS somebody else (count/) is told of each crossing.
 */
#ifndef MIGRATE_H
#define MIGRATE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "motet.h"

#ifdef MIGRATE_HOOKS
/* The thread arrives away (1) or at home (0). */
void migrate_arrives(int away);
#endif

enum { ISLANDS_MAX = 64 };

/* Islands of the machine. There are none on a plain Linux. */
static struct {
    int count, away;
    char isas[ISLANDS_MAX][16];
} migrate_islands = {0, -1, {{0}}};

/* /proc/cpuinfo has a paragraph for each core: processor, island, isa. */
static void migrate_look(void) {
    char line[256], isa[16];
    int island = -1;
    FILE *file = motet_island() < 0 ? NULL : fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "island : %d", &island);
        if (sscanf(line, "isa : %15s", isa) == 1 && island >= 0 && island < ISLANDS_MAX) {
            strcpy(migrate_islands.isas[island], isa);
            if (island >= migrate_islands.count)
                migrate_islands.count = island + 1;
        }
    }
    if (file)
        fclose(file);
}

/* Chooses where the thread goes: the first island of an instruction set, an island by its number, or (NULL) any of another instruction set. */
static void migrate_choose(const char *place) {
    int home = motet_island();
    migrate_look();
    if (home < 0)
        return;
    for (int island = 0; island < migrate_islands.count && migrate_islands.away < 0; island++) {
        const char *isa = migrate_islands.isas[island];
        char number[12];
        snprintf(number, sizeof number, "%d", island);
        if (*isa && (place ? !strcmp(place, isa) || !strcmp(place, number) : strcmp(isa, migrate_islands.isas[home])))
            migrate_islands.away = island;
    }
    if (migrate_islands.away < 0) {
        fprintf(stderr, "npb: the machine has no island %s\n", place ? place : "of another instruction set");
        exit(2);
    }
}

/* Where the thread goes, in words. */
static const char *migrate_place(void) {
    return migrate_islands.away < 0 ? "nowhere" : migrate_islands.isas[migrate_islands.away];
}

/* Calls `function`, which returns NULL, away. */
static void migrate_call(void *(*function)(void *), void *argument) {
#ifdef MIGRATE_HOOKS
    migrate_arrives(1);
#endif
    void *result = migrate_islands.away < 0 ? function(argument) : motet_call_on(migrate_islands.away, function, argument);
#ifdef MIGRATE_HOOKS
    migrate_arrives(0);
#endif
    if (result) {
        fprintf(stderr, "npb: a call to island %d failed: %s\n", migrate_islands.away, strerror(-(int)(long)result));
        exit(2);
    }
}

#endif
