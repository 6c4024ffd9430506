/* A line for each. */
struct counter {
    _Alignas(64) volatile long count;
};

static struct counter counters[2];
