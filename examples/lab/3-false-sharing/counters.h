/*
 * A counter for each of two threads, which run on different islands.
 *
 * To do: nobody but thread n uses counter n, yet each store waits for the other island. Give the counters another layout. Lines of caches have 64 bytes.
 */
struct counter {
    volatile long count;
};

static struct counter counters[2];
