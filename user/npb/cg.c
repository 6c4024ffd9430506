/* CG: the smallest eigenvalue of a random sparse matrix by inverse iteration, each step of which is 25 steps of conjugate gradients. */
#include "team.h"

enum {
    ROWS = CLASS_IS(1400, 7000, 14000, 75000),
    NONZEROS = CLASS_IS(7, 8, 11, 13), /* of each random vector, besides 0.5 at a place of its own */
    VECTOR = NONZEROS + 1,
    ROOM = ROWS * VECTOR * VECTOR,
    ITERATIONS = CLASS_IS(15, 15, 15, 75),
    INNER_STEPS = 25,
};

static const double eigenvalue_shift = CLASS_IS(10.0, 12.0, 20.0, 60.0);
static const double condition = 0.1;
static const double published_zeta = CLASS_IS(8.5971775078648, 10.362595087124, 17.130235054029, 22.712745482631);

static struct {
    struct run run;
    char before[0x440 - sizeof(struct run)];
    ARRAY int colidx[ROOM];
    ARRAY int rowstr[ROWS + 1];
    ARRAY int iv[ROWS];
    ARRAY int arow[ROWS];
    ARRAY int acol[ROWS * VECTOR];
    ARRAY double aelt[ROWS * VECTOR];
    ARRAY double a[ROOM];
    ARRAY double x[ROWS + 2];
    ARRAY double z[ROWS + 2];
    ARRAY double p[ROWS + 2];
    ARRAY double q[ROWS + 2];
    ARRAY double r[ROWS + 2];
    int naa; /* ROWS, which the loops read here */
    ON_A_PAGE double sums[2][TEAM_MAX][8]; /* of threads, each in a cache line of its own */
} cg ON_A_PAGE;

/* A random vector: its elements' places go to `places`, their values to `values`. Returns how many there are. */
static int make_vector(uint64_t *random, int own, int *places, double *values) {
    int len = 0, power = 1;
    while (power < ROWS)
        power *= 2;
    while (len < NONZEROS) {
        double value = random_number(random);
        int place = (int)(random_number(random) * power), at = 0;
        while (at < len && places[at] != place)
            at++;
        if (place < ROWS && at == len) {
            places[len] = place;
            values[len++] = value;
        }
    }
    int at = 0;
    while (at < len && places[at] != own)
        at++;
    places[at] = own;
    values[at] = 0.5;
    return at == len ? len + 1 : len;
}

/* Adds to an element of a row, whose elements are sorted by their columns. */
static void add(int row, int column, double value) {
    int at = cg.rowstr[row], end = at + cg.iv[row];
    while (at < end && cg.colidx[at] < column)
        at++;
    if (at == end || cg.colidx[at] != column) {
        for (int k = end; k > at; k--) {
            cg.colidx[k] = cg.colidx[k - 1];
            cg.a[k] = cg.a[k - 1];
        }
        cg.colidx[at] = column;
        cg.a[at] = 0.0;
        cg.iv[row]++;
    }
    cg.a[at] += value;
}

/* The sum of outer products of the random vectors, with weights from 1 down to `condition`, and a shifted diagonal. */
static void add_products(void) {
    double weight = 1.0, ratio = pow(condition, 1.0 / ROWS);
    for (int own = 0; own < ROWS; own++, weight *= ratio) {
        const int *places = &cg.acol[own * VECTOR];
        const double *values = &cg.aelt[own * VECTOR];
        for (int i = 0; i < cg.arow[own]; i++) {
            double scale = weight * values[i];
            for (int j = 0; j < cg.arow[own]; j++) {
                bool diagonal = places[i] == own && places[j] == own;
                add(places[i], places[j], values[j] * scale + (diagonal ? condition - eigenvalue_shift : 0.0));
            }
        }
    }
}

static void make_matrix(void) {
    uint64_t random = random_after(RANDOM_SEED, 1);
    for (int own = 0; own < ROWS; own++)
        cg.arow[own] = make_vector(&random, own, &cg.acol[own * VECTOR], &cg.aelt[own * VECTOR]);
    for (int own = 0; own < ROWS; own++)
        for (int i = 0; i < cg.arow[own]; i++)
            cg.rowstr[cg.acol[own * VECTOR + i] + 1] += cg.arow[own];
    for (int row = 0; row < ROWS; row++)
        cg.rowstr[row + 1] += cg.rowstr[row];
    add_products();
    /* Without the room that equal places have left over. */
    int end = 0;
    for (int row = 0; row < ROWS; row++) {
        int from = cg.rowstr[row];
        cg.rowstr[row] = end;
        for (int k = from; k < from + cg.iv[row]; k++, end++) {
            cg.colidx[end] = cg.colidx[k];
            cg.a[end] = cg.a[k];
        }
    }
    cg.rowstr[ROWS] = end;
}

/* What a thread does of a step: some rows. */
struct part {
    int index; /* of the thread; -1: there is only one */
    int first, end;
    unsigned turn; /* of sums */
    double zeta, residual;
};

static inline int end_of(const struct part *part) { return part->index < 0 ? cg.naa : part->end; }

static void wait_for_all(const struct part *part) {
    if (part->index >= 0)
        team_wait();
}

/* Sum over all threads, which all get the same. There is room for two: whoever is at the next sum may be ahead of one that still reads this. */
static double sum_of_all(struct part *part, double own) {
    if (part->index < 0)
        return own;
    double(*sums)[8] = cg.sums[part->turn++ % 2], sum = 0.0;
    sums[part->index][0] = own;
    team_wait();
    for (int other = 0; other < team.size; other++)
        sum += sums[other][0];
    return sum;
}

static double dot(struct part *part, const double *one, const double *other) {
    double sum = 0.0;
    int last = end_of(part);
    for (int i = part->first; i < last; i++)
        sum += one[i] * other[i];
    return sum_of_all(part, sum);
}

static void multiply(const struct part *part, const double *vector, double *product) {
    int last = end_of(part);
    wait_for_all(part);
    for (int row = part->first; row < last; row++) {
        double sum = 0.0;
        for (int k = cg.rowstr[row]; k < cg.rowstr[row + 1]; k++)
            sum += cg.a[k] * vector[cg.colidx[k]];
        product[row] = sum;
    }
}

/* Solves A z = x, about. */
static void *conj_grad(void *argument) {
    struct part *part = argument;
    int first = part->first, last = end_of(part);
    for (int i = first; i < last; i++) {
        cg.q[i] = 0.0;
        cg.z[i] = 0.0;
        cg.r[i] = cg.x[i];
        cg.p[i] = cg.r[i];
    }
    double rho = dot(part, cg.r, cg.r);
    for (int step = 0; step < INNER_STEPS; step++) {
        multiply(part, cg.p, cg.q);
        double alpha = rho / dot(part, cg.p, cg.q), before = rho;
        for (int i = first; i < last; i++) {
            cg.z[i] += alpha * cg.p[i];
            cg.r[i] -= alpha * cg.q[i];
        }
        rho = dot(part, cg.r, cg.r);
        double beta = rho / before;
        for (int i = first; i < last; i++)
            cg.p[i] = cg.r[i] + beta * cg.p[i];
    }
    multiply(part, cg.z, cg.r);
    double sum = 0.0;
    for (int i = first; i < last; i++)
        sum += (cg.x[i] - cg.r[i]) * (cg.x[i] - cg.r[i]);
    part->residual = sqrt(sum_of_all(part, sum));
    return NULL;
}

/* A step of the inverse iteration. */
static void *step(void *argument) {
    struct part *part = argument;
    call(&cg.run, procedure_is_away(&cg.run), conj_grad, part);
    double scale = 1.0 / sqrt(dot(part, cg.z, cg.z));
    int first = part->first, last = end_of(part);
    part->zeta = eigenvalue_shift + 1.0 / dot(part, cg.x, cg.z);
    for (int i = first; i < last; i++)
        cg.x[i] = scale * cg.z[i];
    return NULL;
}

/* The first thread's, at its end. */
static struct part first_part;

/* All steps, by one of several threads. */
static void *steps_of_member(void *argument) {
    const struct member *member = argument;
    int index = member->index;
    struct part part = {index, team_first(index, ROWS), team_first(index + 1, ROWS), 0, 0.0, 0.0};
    for (int iteration = 1; iteration <= ITERATIONS; iteration++)
        step(&part);
    if (index == 0)
        first_part = part;
    return NULL;
}

static void start_over(void) {
    for (int i = 0; i < cg.naa; i++)
        cg.x[i] = 1.0;
}

int main(int argc, char **argv) {
    begin(&cg.run, argc, argv, true);
    if (cg.run.schedule == THREADS)
        team_gather(argc > 2 ? argv[2] : NULL);
    cg.naa = ROWS;
    make_matrix();
    struct part all = {-1, 0, 0, 0, 0.0, 0.0};
    start_over();
    /* One step that is not timed. Its result is not needed: x starts over. */
    conj_grad(&all);
    start_over();

    start(&cg.run, "cg");
    if (cg.run.schedule == THREADS) {
        team_run(steps_of_member);
        all = first_part;
    }
    for (int iteration = 1; cg.run.schedule != THREADS && iteration <= ITERATIONS; iteration++)
        call(&cg.run, iteration_is_away(&cg.run, iteration), step, &all);
    stop(&cg.run, "cg");

    printf("residual %.6e\n", all.residual);
    return end(&cg.run, "CG", ITERATIONS, check("zeta", all.zeta, published_zeta, 1e-10));
}
