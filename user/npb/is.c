/* IS: ranks of random integers, by buckets and counting. */
#include "npb.h"

enum {
    KEYS_LOG2 = CLASS_IS(16, 20, 23, 25),
    KEY_MAX_LOG2 = CLASS_IS(11, 16, 19, 21),
    BUCKETS_LOG2 = CLASS_IS(9, 10, 10, 10),
    KEYS = 1 << KEYS_LOG2,
    KEY_MAX = 1 << KEY_MAX_LOG2,
    BUCKETS = 1 << BUCKETS_LOG2,
    SHIFT = KEY_MAX_LOG2 - BUCKETS_LOG2,
    ITERATIONS = 10,
    TESTS = 5,
};

static struct {
    struct run run;
    char before[0x5c8 - sizeof(struct run)];
    int passed;
    ARRAY int key_array[KEYS];
    ARRAY int key_buff1[KEY_MAX]; /* how many keys are at most this one */
    ARRAY int key_buff2[KEYS];    /* the keys by bucket */
    ARRAY int test_keys[TESTS];
    ARRAY int bucket_size[BUCKETS];
    ARRAY int bucket_ptrs[BUCKETS];
} is ON_A_PAGE;

static const int test_places[4][TESTS] = {
    {48427, 17148, 23627, 62548, 4431},
    {357773, 934767, 875723, 898999, 404505},
    {2112377, 662041, 5336171, 3642833, 4250760},
    {41869, 812306, 5102857, 18232239, 26860214},
};
static const int test_ranks[4][TESTS] = {
    {0, 18, 346, 64917, 65463},
    {1249, 11698, 1039987, 1043896, 1048018},
    {104, 17523, 123928, 8288932, 8388264},
    {33422937, 10244, 59149, 33135281, 99},
};
static const int class = CLASS_IS(0, 1, 2, 3);

/* Each key is the mean of four random numbers. */
static void make_keys(void) {
    uint64_t random = RANDOM_SEED;
    for (int i = 0; i < KEYS; i++) {
        uint64_t sum = 0;
        for (int part = 0; part < 4; part++)
            sum += random_bits(&random);
        is.key_array[i] = (int)(sum >> (48 - KEY_MAX_LOG2));
    }
}

/* The rank that a test's key has in an iteration: those of small keys go up, those of large ones down. */
static int published_rank(int test, int iteration) {
    int rank = test_ranks[class][test];
    switch (CLASS_NAME) {
    case 'S': return test <= 2 ? rank + iteration : rank - iteration;
    case 'W': return test < 2 ? rank + iteration - 2 : rank - iteration;
    case 'A': return test <= 2 ? rank + iteration - 1 : rank - (iteration - 1);
    default: return test == 1 || test == 2 || test == 4 ? rank + iteration : rank - iteration;
    }
}

static void change_keys(int iteration) {
    is.key_array[iteration] = iteration;
    is.key_array[iteration + ITERATIONS] = KEY_MAX - iteration;
    for (int test = 0; test < TESTS; test++)
        is.test_keys[test] = is.key_array[test_places[class][test]];
}

static void test_some_ranks(int iteration) {
    for (int test = 0; test < TESTS; test++) {
        int key = is.test_keys[test];
        if (key > 0 && key < KEYS && is.key_buff1[key - 1] == published_rank(test, iteration))
            is.passed++;
    }
}

static void *rank(void *argument) {
    int iteration = *(int *)argument;
    change_keys(iteration);

    for (int bucket = 0; bucket < BUCKETS; bucket++)
        is.bucket_size[bucket] = 0;
    for (int i = 0; i < KEYS; i++)
        is.bucket_size[is.key_array[i] >> SHIFT]++;
    is.bucket_ptrs[0] = 0;
    for (int bucket = 1; bucket < BUCKETS; bucket++)
        is.bucket_ptrs[bucket] = is.bucket_ptrs[bucket - 1] + is.bucket_size[bucket - 1];
    for (int i = 0; i < KEYS; i++) {
        int key = is.key_array[i];
        is.key_buff2[is.bucket_ptrs[key >> SHIFT]++] = key;
    }

    for (int key = 0; key < KEY_MAX; key++)
        is.key_buff1[key] = 0;
    for (int i = 0; i < KEYS; i++)
        is.key_buff1[is.key_buff2[i]]++;
    for (int key = 1; key < KEY_MAX; key++)
        is.key_buff1[key] += is.key_buff1[key - 1];

    test_some_ranks(iteration);
    return NULL;
}

/* Puts each key at its rank, and looks whether all are in order. */
static bool sorts(void) {
    for (int i = 0; i < KEYS; i++)
        is.key_array[--is.key_buff1[is.key_buff2[i]]] = is.key_buff2[i];
    int wrong = 0;
    for (int i = 1; i < KEYS; i++)
        wrong += is.key_array[i - 1] > is.key_array[i];
    return wrong == 0;
}

int main(int argc, char **argv) {
    begin(&is.run, argc, argv, false);
    make_keys();
    int iteration = 1;
    rank(&iteration);
    is.passed = 0;

    start(&is.run, "is");
    for (; iteration <= ITERATIONS; iteration++)
        call(&is.run, iteration_is_away(&is.run, iteration) || procedure_is_away(&is.run), rank, &iteration);
    stop(&is.run, "is");

    is.passed += sorts();
    bool verified = check("tests", is.passed, TESTS * ITERATIONS + 1, 0);
    return end(&is.run, "IS", ITERATIONS, verified);
}
