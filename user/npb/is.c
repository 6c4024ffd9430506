/* IS: ranks of random integers, by buckets and counting. */
#include "team.h"

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
    ON_A_PAGE int parts[TEAM_MAX][BUCKETS]; /* bucket_size of each thread */
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

/* Writes where a thread's keys of each bucket go: behind those of lower buckets, and behind those of threads before it. */
static void find_places(int index, int *places) {
    int place = 0;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        for (int other = 0; other < team.size; other++) {
            if (other == index)
                places[bucket] = place;
            place += is.parts[other][bucket];
        }
    }
}

/* Sorts a thread's part of the keys into buckets. */
static void sort_part(int index) {
    int first = team_first(index, KEYS), end = team_first(index + 1, KEYS), places[BUCKETS];
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        is.parts[index][bucket] = 0;
    for (int i = first; i < end; i++)
        is.parts[index][is.key_array[i] >> SHIFT]++;
    team_wait();
    find_places(index, places);
    for (int i = first; i < end; i++) {
        int key = is.key_array[i];
        is.key_buff2[places[key >> SHIFT]++] = key;
    }
    team_wait();
}

/* Counts the keys of a thread's part of the buckets. */
static void count_part(int index) {
    int first = team_first(index, BUCKETS), end = team_first(index + 1, BUCKETS), before = 0, own = 0;
    for (int bucket = 0; bucket < end; bucket++)
        for (int other = 0; other < team.size; other++)
            *(bucket < first ? &before : &own) += is.parts[other][bucket];
    for (int key = first << SHIFT; key < end << SHIFT; key++)
        is.key_buff1[key] = 0;
    for (int i = before; i < before + own; i++)
        is.key_buff1[is.key_buff2[i]]++;
    for (int key = first << SHIFT; key < end << SHIFT; key++)
        before = is.key_buff1[key] += before;
    team_wait();
}

static void *rank_part(void *argument) {
    const struct member *member = argument;
    for (int iteration = 1; iteration <= ITERATIONS; iteration++) {
        if (member->index == 0)
            change_keys(iteration);
        team_wait();
        sort_part(member->index);
        count_part(member->index);
        if (member->index == 0)
            test_some_ranks(iteration);
    }
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
    begin(&is.run, argc, argv, true);
    if (is.run.schedule == THREADS)
        team_gather(argc > 2 ? argv[2] : NULL);
    make_keys();
    int iteration = 1;
    rank(&iteration);
    is.passed = 0;

    start(&is.run, "is");
    if (is.run.schedule == THREADS)
        team_run(rank_part);
    for (; is.run.schedule != THREADS && iteration <= ITERATIONS; iteration++)
        call(&is.run, iteration_is_away(&is.run, iteration) || procedure_is_away(&is.run), rank, &iteration);
    stop(&is.run, "is");

    is.passed += sorts();
    bool verified = check("tests", is.passed, TESTS * ITERATIONS + 1, 0);
    return end(&is.run, "IS", ITERATIONS, verified);
}
