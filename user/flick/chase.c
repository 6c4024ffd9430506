/*
 * chase NXP_ISLAND NODES CALLS STEP MOST DELAY_US INTERVAL_US: follows a list of nodes in the NxP's memory. The nodes have 8 bytes, one in each page,
 * at random places and in random order. For n = STEP, 2 STEP, ... MOST the list is followed for n nodes, CALLS times: by a function on the host,
 * then by the same function on the NxP. Before each call the host computes for INTERVAL_US. Before a call of the NxP it also waits for DELAY_US.
 * Prints, for each n, nanoseconds for each call: on the host, on the NxP.
 */
#include "flick.h"

typedef struct Node {
    struct Node *next;
} Node;

#define PAGE 4096

#define CHASE                                                                                                          \
    for (long index = 0; index < nodes; index++)                                                                       \
        node = node->next;                                                                                             \
    return node;

MOTET_ON(HOST) static Node *chase_on_host(Node *node, long nodes) { CHASE }
MOTET_ON(NXP) static Node *chase_on_nxp(Node *node, long nodes) { CHASE }

/* xorshift64*: the same list every time. */
static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1d;
}

/* A ring of nodes in random order, made where its memory is. */
MOTET_ON(NXP) static Node *make_list(int island, long nodes) {
    char *memory = memory_on(island, (size_t)nodes * PAGE);
    Node **order = malloc((size_t)nodes * sizeof *order);
    uint64_t state = 1;
    if (!order) {
        fputs("no memory for the list\n", stderr);
        exit(1);
    }
    for (long index = 0; index < nodes; index++) {
        Node *node = (Node *)(memory + index * PAGE + next_random(&state) % (PAGE / sizeof(Node)) * sizeof(Node));
        long other = (long)(next_random(&state) % (uint64_t)(index + 1));
        order[index] = order[other];
        order[other] = node;
    }
    for (long index = 0; index < nodes; index++)
        order[index]->next = order[(index + 1) % nodes];
    Node *first = order[0];
    free(order);
    return first;
}

/* The host's other work. */
static void compute(long rounds) {
    for (long index = 0; index < rounds; index++)
        __asm__ volatile("");
}

/* How many rounds of compute() take a time. */
static long rounds_of(long interval_us) {
    const long sample = 200000;
    uint64_t start = now_ns();
    compute(sample);
    return (long)((uint64_t)interval_us * 1000 * (uint64_t)sample / (now_ns() - start + 1));
}

typedef Node *(*Chase)(Node *, long);

/* Nanoseconds for each call. */
static uint64_t time_calls(Chase chase, Node **node, long nodes, long calls, long delay_us, long rounds) {
    struct timespec delay = {.tv_sec = delay_us / 1000000, .tv_nsec = delay_us % 1000000 * 1000};
    uint64_t start = now_ns();
    for (long call = 0; call < calls; call++) {
        if (rounds)
            compute(rounds);
        if (delay_us)
            nanosleep(&delay, NULL);
        *node = chase(*node, nodes);
    }
    return (now_ns() - start) / (uint64_t)calls;
}

int main(int count, char **words) {
    if (count != 8) {
        fputs("usage: chase NXP_ISLAND NODES CALLS STEP MOST DELAY_US INTERVAL_US\n", stderr);
        return 64;
    }
    long values[8];
    for (int index = 1; index < 8; index++)
        values[index] = number(words[index]);
    long nodes = values[2], calls = values[3], step = values[4], most = values[5], delay_us = values[6];
    long rounds = values[7] ? rounds_of(values[7]) : 0;
    Node *node = make_list((int)values[1], nodes);
    /* Afterwards all pages are in the page tables of both islands. */
    node = chase_on_nxp(chase_on_host(node, nodes), nodes);
    for (long accesses = step; accesses <= most; accesses += step) {
        uint64_t host = time_calls(chase_on_host, &node, accesses, calls, 0, rounds);
        uint64_t nxp = time_calls(chase_on_nxp, &node, accesses, calls, delay_us, rounds);
        printf("%ld %llu %llu\n", accesses, (unsigned long long)host, (unsigned long long)nxp);
    }
    motet_roi_begin("host");
    node = chase_on_host(node, nodes);
    motet_roi_end("host");
    return node == NULL;
}
