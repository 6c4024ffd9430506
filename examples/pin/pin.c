/*
 * What a call to another instruction set costs, and from which amount of work on it pays.
 *
 * pin calls COUNT: calls a function that does nothing, here and pinned, so many times.
 * pin chase NODES: follows a list, here and by a pinned function, so many nodes at a call.
 *
 * Lines with a figure are a name, a value and a unit, as `motet sweep` reads them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "motet.h"

#define LENGTH 16384
#define CALLS 8

struct node {
    struct node *next;
    long value[7]; /* to the end of the line of the cache */
};

/* In the memory that lies beside the RISC-V core. */
MOTET_DATA_ON("riscv64") static struct node list[LENGTH] = {{0}};

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

__attribute__((noinline)) static long nothing(long value) {
    __asm__ volatile(""); /* or the compiler leaves calls out */
    return value;
}

MOTET_ON("riscv64") long nothing_there(long value) {
    __asm__ volatile(""); /* or the compiler leaves calls out */
    return value;
}

static struct node *follow(struct node *node, long nodes) {
    for (; nodes > 0; nodes--)
        node = node->next;
    return node;
}

MOTET_ON("riscv64") struct node *follow_there(struct node *node, long nodes) {
    for (; nodes > 0; nodes--)
        node = node->next;
    return node;
}

/* A list that comes to every node once, in no order that a cache could use. */
MOTET_ON("riscv64") void make_list(void) {
    for (long at = 0; at < LENGTH; at++)
        list[at].next = &list[(at * 5 + 4099) % LENGTH];
}

static void calls(long count) {
    nothing_there(0); /* the first call brings pages */
    double began = now_ns();
    for (long call = 0; call < count; call++)
        nothing(call);
    double between = now_ns();
    for (long call = 0; call < count; call++)
        nothing_there(call);
    double ended = now_ns();
    printf("call_here %.0f ns\n", (between - began) / count);
    printf("call_there %.0f ns\n", (ended - between) / count);
}

static void chase(long nodes) {
    make_list();
    struct node *node = follow_there(list, 1);
    double began = now_ns();
    for (int call = 0; call < CALLS; call++)
        node = follow(node, nodes);
    double between = now_ns();
    for (int call = 0; call < CALLS; call++)
        node = follow_there(node, nodes);
    double ended = now_ns();
    double here = (between - began) / CALLS, there = (ended - between) / CALLS;
    printf("chase_here %.0f ns\n", here);
    printf("chase_there %.0f ns\n", there);
    printf("gain %.2f times\n", here / there);
    printf("%ld nodes: %s pays\n", nodes, there < here ? "the pinned function" : "staying here");
    if (node < list || node >= list + LENGTH)
        exit(1);
}

int main(int count, char **words) {
    long number = count == 3 ? atol(words[2]) : 0;
    if (number > 0 && strcmp(words[1], "calls") == 0)
        calls(number);
    else if (number > 0 && strcmp(words[1], "chase") == 0)
        chase(number);
    else
        return fprintf(stderr, "pin calls COUNT | pin chase NODES\n"), 2;
    return 0;
}
