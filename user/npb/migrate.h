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

/* Where the thread goes. */
struct migrate {
    int island; /* -1: nowhere, as on a plain Linux */
    char isa[16];
};

enum { ISLANDS_MAX = 64 };

/* Tells the instruction set of each island, and returns how many there are (on a plain Linux: none). /proc/cpuinfo has a paragraph for each core:
 * processor, island, isa. */
static int migrate_islands(char isas[ISLANDS_MAX][16]) {
    char line[256], isa[16];
    int island = -1, count = 0;
    /* Where each island has a kernel of its own, these say what they are. */
    FILE *file = motet_island() < 0 ? NULL : fopen("/proc/motet", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "kernel_isa_%d %15s", &island, isa) == 2 && island >= 0 && island < ISLANDS_MAX) {
            strcpy(isas[island], isa);
            count = island + 1;
        }
    if (file)
        fclose(file);
    if (count)
        return count;
    file = motet_island() < 0 ? NULL : fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "island : %d", &island);
        if (sscanf(line, "isa : %15s", isa) == 1 && island >= 0 && island < ISLANDS_MAX) {
            strcpy(isas[island], isa);
            if (island >= count)
                count = island + 1;
        }
    }
    if (file)
        fclose(file);
    return count;
}

/* Chooses where the thread goes: the first island of an instruction set, an island by its number, or (NULL) one of another instruction set. */
static void migrate_choose(struct migrate *migrate, const char *place) {
    char isas[ISLANDS_MAX][16] = {{0}}, number[12];
    int home = motet_island(), count = migrate_islands(isas);
    for (int island = 0; island < count && migrate->island < 0; island++) {
        snprintf(number, sizeof number, "%d", island);
        if (*isas[island] && (place ? !strcmp(place, isas[island]) || !strcmp(place, number) : strcmp(isas[home], isas[island]))) {
            migrate->island = island;
            strcpy(migrate->isa, isas[island]);
        }
    }
    if (home >= 0 && migrate->island < 0) {
        fprintf(stderr, "npb: the machine has no island %s\n", place ? place : "of another instruction set");
        exit(2);
    }
}

/* Calls `function`, which returns NULL, there. */
static void migrate_call(const struct migrate *migrate, void *(*function)(void *), void *argument) {
#ifdef MIGRATE_HOOKS
    migrate_arrives(1);
#endif
    void *result = migrate->island < 0 ? function(argument) : motet_call_on(migrate->island, function, argument);
#ifdef MIGRATE_HOOKS
    migrate_arrives(0);
#endif
    if (result) {
        fprintf(stderr, "npb: a call to island %d failed: %s\n", migrate->island, strerror(-(int)(long)result));
        exit(2);
    }
}

/* Prints how often the process crossed, by pair of islands. */
static void migrate_show(void) {
    char line[256];
    FILE *file = motet_island() < 0 ? NULL : fopen("/proc/self/crossings", "r");
    while (file && fgets(line, sizeof line, file))
        fputs(line, stdout);
    if (file)
        fclose(file);
}

#endif
