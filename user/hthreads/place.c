/* Islands, and how a thread goes to one. On a plain Linux there is one island with all cores. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

#include "motet.h"

struct island ht_islands[ISLANDS];

static cpu_set_t allowed; /* cores that the process may use */

static int is_island(int island) { return island >= 0 && island < ISLANDS; }

static void add_cpu(int island, int cpu) {
    if (cpu >= 0 && cpu < CPU_SETSIZE && is_island(island) && CPU_ISSET(cpu, &allowed) && !CPU_ISSET(cpu, &ht_islands[island].cpus)) {
        CPU_SET(cpu, &ht_islands[island].cpus);
        ht_islands[island].count++;
    }
}

/* Reads /proc/cpuinfo, which has a paragraph for each core: processor, island, isa. */
static void read_cpuinfo(void) {
    char line[256];
    int cpu = -1, island = -1;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        char isa[16];
        sscanf(line, "processor : %d", &cpu);
        sscanf(line, "island : %d", &island);
        if (sscanf(line, "isa : %15s", isa) == 1 && is_island(island)) {
            strcpy(ht_islands[island].isa, isa);
            add_cpu(island, cpu);
        }
    }
    if (file)
        fclose(file);
}

void ht_find_islands(void) {
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    if (motet_island() >= 0) {
        read_cpuinfo();
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        add_cpu(0, cpu);
}

static int here(void) {
    int island = motet_island();
    return is_island(island) ? island : 0;
}

static int is_same_isa(int one, int other) { return strcmp(ht_islands[one].isa, ht_islands[other].isa) == 0; }

unsigned ht_usable_islands(void) {
    unsigned islands = 0;
    int own = here();
    for (int island = 0; island < ISLANDS; island++) {
#ifdef HTHREAD_SEVERAL_ISAS
        int has_code = 1;
        (void)own;
#else
        int has_code = is_same_isa(own, island);
#endif
        if (ht_islands[island].count && has_code)
            islands |= 1u << island;
    }
    return islands;
}

struct journey {
    int island, cpu;
    void *(*function)(void *);
    void *argument;
};

/* Runs on the island, or on another core of its instruction set. */
static void *arrive(void *words) {
    const struct journey *journey = words;
    cpu_set_t one = ht_islands[journey->island].cpus;
    if (journey->cpu >= 0) {
        CPU_ZERO(&one);
        CPU_SET(journey->cpu, &one);
    }
    sched_setaffinity(0, sizeof one, &one);
    return journey->function(journey->argument);
}

void *ht_run_on(int island, int cpu, void *(*function)(void *), void *argument) {
    struct journey journey = {island, cpu, function, argument};
    if (!is_island(island) || (motet_island() < 0 && cpu < 0))
        return function(argument);
#ifdef HTHREAD_SEVERAL_ISAS
    if (!is_same_isa(here(), island)) {
        /* Its creator may have been bound to another island. */
        sched_setaffinity(0, sizeof allowed, &allowed);
        return motet_call_on(island, arrive, &journey);
    }
#endif
    return arrive(&journey);
}
