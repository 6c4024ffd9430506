/*
 * bfs FILE HOST_ISLAND NXP_ISLAND ITERATIONS: breadth-first search of a graph in the NxP's memory.
 *
 * - The layout is that of Graph500's reference code for lists. An edge has its two ends (16 bytes) and a link for each end (8 bytes each). A vertex
 *   has its first link. Edges are followed in both directions.
 * - First the host searches, then the NxP. The NxP calls a function of the host for each vertex that it discovers.
 * - The tree and the queue are in the memory of the side that searches.
 *
 * FILE: three 64-bit words (vertices, edges, source), then for each edge two 32-bit words.
 */
#include <fcntl.h>

#include "flick.h"

typedef struct {
    int64_t vertices, edges, source;
    int64_t (*ends)[2];
    int64_t *links; /* 2 k + side: the next link at that end of edge k; -1: the last */
    int64_t *first; /* by vertex */
} Graph;

/* What a search needs for itself. */
typedef struct {
    int64_t *parents;
    int64_t *queue;
} Room;

static int64_t discovered;

MOTET_ON(HOST) static void on_discovery(void) { discovered++; }

#define SEARCH(DISCOVERED)                                                                                             \
    memset(room->parents, 0xff, (size_t)graph->vertices * sizeof(int64_t));                                            \
    int64_t *parents = room->parents, *queue = room->queue, *links = graph->links;                                     \
    int64_t (*ends)[2] = graph->ends;                                                                                  \
    int64_t taken = 0, known = 1;                                                                                      \
    queue[0] = graph->source;                                                                                          \
    parents[graph->source] = graph->source;                                                                            \
    while (taken < known) {                                                                                            \
        int64_t vertex = queue[taken++];                                                                               \
        for (int64_t link = graph->first[vertex]; link >= 0; link = links[link]) {                                     \
            int64_t other = ends[link / 2][1 - link % 2];                                                              \
            if (parents[other] < 0) {                                                                                  \
                parents[other] = vertex;                                                                               \
                queue[known++] = other;                                                                                \
                DISCOVERED;                                                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    return known;

MOTET_ON(HOST) static int64_t search_on_host(const Graph *graph, const Room *room) { SEARCH(on_discovery()) }
MOTET_ON(NXP) static int64_t search_on_nxp(const Graph *graph, const Room *room) { SEARCH(on_discovery()) }

static void read_all(int file, void *to, size_t bytes) {
    while (bytes > 0) {
        ssize_t got = read(file, to, bytes);
        if (got <= 0) {
            fputs("the graph's file is too short\n", stderr);
            exit(1);
        }
        to = (char *)to + got;
        bytes -= (size_t)got;
    }
}

/* Reads the graph where its memory is. */
MOTET_ON(NXP) static Graph *load(const char *path, int island) {
    static uint32_t buffer[2 * 4096];
    int file = open(path, O_RDONLY);
    if (file < 0) {
        perror(path);
        exit(1);
    }
    Graph *graph = memory_on(island, sizeof *graph);
    read_all(file, graph, 3 * sizeof(int64_t));
    int64_t vertices = graph->vertices, edges = graph->edges;
    graph->ends = memory_on(island, (size_t)edges * sizeof *graph->ends);
    graph->links = memory_on(island, (size_t)edges * 2 * sizeof(int64_t));
    graph->first = memory_on(island, (size_t)vertices * sizeof(int64_t));
    memset(graph->first, 0xff, (size_t)vertices * sizeof(int64_t));
    for (int64_t done = 0; done < edges;) {
        int64_t part = edges - done < 4096 ? edges - done : 4096;
        read_all(file, buffer, (size_t)part * 8);
        for (int64_t index = 0; index < part; index++, done++) {
            for (int side = 0; side < 2; side++) {
                int64_t vertex = buffer[2 * index + side];
                graph->ends[done][side] = vertex;
                graph->links[2 * done + side] = graph->first[vertex];
                graph->first[vertex] = 2 * done + side;
            }
        }
    }
    close(file);
    return graph;
}

static Room *room_on(int island, const Graph *graph) {
    Room *room = memory_on(island, sizeof *room);
    room->parents = memory_on(island, (size_t)graph->vertices * sizeof(int64_t));
    room->queue = memory_on(island, (size_t)graph->vertices * sizeof(int64_t));
    return room;
}

typedef int64_t (*Search)(const Graph *, const Room *);

static void measure(const char *name, Search search, const Graph *graph, const Room *room, long iterations) {
    int64_t known = 0;
    discovered = 0;
    motet_roi_begin(name);
    for (long iteration = 0; iteration < iterations; iteration++)
        known = search(graph, room);
    motet_roi_end(name);
    printf("%s %lld %lld\n", name, (long long)known, (long long)discovered);
}

int main(int count, char **words) {
    if (count < 6) {
        fputs("usage: bfs FILE HOST_ISLAND NXP_ISLAND ITERATIONS host|nxp...\n", stderr);
        return 64;
    }
    int host = (int)number(words[2]), nxp = (int)number(words[3]);
    Graph *graph = load(words[1], nxp);
    long iterations = number(words[4]);
    for (int index = 5; index < count; index++) {
        if (!strcmp(words[index], "host"))
            measure("host", search_on_host, graph, room_on(host, graph), iterations);
        else
            measure("nxp", search_on_nxp, graph, room_on(nxp, graph), iterations);
    }
    show_crossings();
    return 0;
}
