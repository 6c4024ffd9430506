/* EP: pairs of normally distributed random numbers, counted by their size. */
#include "team.h"

enum {
    PAIRS_LOG2 = CLASS_IS(24, 25, 28, 30),
    BATCH_LOG2 = 16,
    BATCH = 1 << BATCH_LOG2,
    BATCHES = 1 << (PAIRS_LOG2 - BATCH_LOG2),
    RINGS = 10,
};

static const uint64_t seed = 271828183;
static const double published_x =
    CLASS_IS(-3.247834652034740e+3, -2.863319731645753e+3, -4.295875165629892e+3, 4.033815542441498e+4);
static const double published_y =
    CLASS_IS(-6.958407078382297e+3, -6.320053679109499e+3, -1.580732573678431e+4, -2.660669192809235e+4);

/* What pairs add up to. */
struct sums {
    double x, y;
    long rings[RINGS]; /* pairs by the larger of the two absolute values */
};

static struct {
    struct run run;
    struct sums sums;
    ARRAY double numbers[2 * BATCH];
    /* Of threads. */
    ON_A_PAGE struct {
        struct sums sums;
        double numbers[2 * BATCH];
    } parts[TEAM_MAX];
} ep ON_A_PAGE;

/* The pairs of a batch, by the polar method: of a random point in the unit circle. */
static void add_batch(int batch, double *numbers, struct sums *sums) {
    uint64_t random = random_after(seed, (uint64_t)batch * 2 * BATCH);
    for (int i = 0; i < 2 * BATCH; i++)
        numbers[i] = random_number(&random);
    for (int i = 0; i < BATCH; i++) {
        double x = 2.0 * numbers[2 * i] - 1.0, y = 2.0 * numbers[2 * i + 1] - 1.0, square = x * x + y * y;
        if (square <= 1.0) {
            double factor = sqrt(-2.0 * log(square) / square);
            x *= factor;
            y *= factor;
            sums->rings[(int)fmax(fabs(x), fabs(y))]++;
            sums->x += x;
            sums->y += y;
        }
    }
}

static void *iterate(void *argument) {
    add_batch(*(int *)argument - 1, ep.numbers, &ep.sums);
    return NULL;
}

static void *solve(void *argument) {
    (void)argument;
    for (int iteration = 1; iteration <= BATCHES; iteration++)
        call(&ep.run, iteration_is_away(&ep.run, iteration), iterate, &iteration);
    return NULL;
}

static void *solve_part(void *argument) {
    const struct member *member = argument;
    for (int batch = team_first(member->index, BATCHES); batch < team_first(member->index + 1, BATCHES); batch++)
        add_batch(batch, ep.parts[member->index].numbers, &ep.parts[member->index].sums);
    return NULL;
}

static void add_parts(void) {
    for (int index = 0; index < team.size; index++) {
        const struct sums *sums = &ep.parts[index].sums;
        ep.sums.x += sums->x;
        ep.sums.y += sums->y;
        for (int ring = 0; ring < RINGS; ring++)
            ep.sums.rings[ring] += sums->rings[ring];
    }
}

int main(int argc, char **argv) {
    begin(&ep.run, argc, argv, true);
    if (ep.run.schedule == THREADS)
        team_gather(argc > 2 ? argv[2] : NULL);

    start(&ep.run, "ep");
    if (ep.run.schedule == THREADS) {
        team_run(solve_part);
        add_parts();
    } else {
        call(&ep.run, procedure_is_away(&ep.run), solve, NULL);
    }
    stop(&ep.run, "ep");

    for (int ring = 0; ring < RINGS; ring++)
        printf("ring %d %ld\n", ring, ep.sums.rings[ring]);
    bool verified = check("x", ep.sums.x, published_x, 1e-8);
    verified &= check("y", ep.sums.y, published_y, 1e-8);
    return end(&ep.run, "EP", BATCHES, verified);
}
