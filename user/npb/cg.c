/* CG: the smallest eigenvalue of a random sparse matrix by inverse iteration, each step of which is 25 steps of conjugate gradients. */
#include "npb.h"

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

static double dot(const double *one, const double *other) {
    double sum = 0.0;
    for (int i = 0; i < cg.naa; i++)
        sum += one[i] * other[i];
    return sum;
}

static void multiply(const double *vector, double *product) {
    for (int row = 0; row < cg.naa; row++) {
        double sum = 0.0;
        for (int k = cg.rowstr[row]; k < cg.rowstr[row + 1]; k++)
            sum += cg.a[k] * vector[cg.colidx[k]];
        product[row] = sum;
    }
}

/* Solves A z = x, about. */
static void *conj_grad(void *argument) {
    double *residual = argument;
    for (int i = 0; i < cg.naa; i++) {
        cg.q[i] = 0.0;
        cg.z[i] = 0.0;
        cg.r[i] = cg.x[i];
        cg.p[i] = cg.r[i];
    }
    double rho = dot(cg.r, cg.r);
    for (int step = 0; step < INNER_STEPS; step++) {
        multiply(cg.p, cg.q);
        double alpha = rho / dot(cg.p, cg.q), before = rho;
        for (int i = 0; i < cg.naa; i++) {
            cg.z[i] += alpha * cg.p[i];
            cg.r[i] -= alpha * cg.q[i];
        }
        rho = dot(cg.r, cg.r);
        double beta = rho / before;
        for (int i = 0; i < cg.naa; i++)
            cg.p[i] = cg.r[i] + beta * cg.p[i];
    }
    multiply(cg.z, cg.r);
    double sum = 0.0;
    for (int i = 0; i < cg.naa; i++)
        sum += (cg.x[i] - cg.r[i]) * (cg.x[i] - cg.r[i]);
    *residual = sqrt(sum);
    return NULL;
}

struct step {
    double zeta, residual;
};

/* A step of the inverse iteration. */
static void *step(void *argument) {
    struct step *step = argument;
    call(&cg.run, procedure_is_away(&cg.run), conj_grad, &step->residual);
    double scale = 1.0 / sqrt(dot(cg.z, cg.z));
    step->zeta = eigenvalue_shift + 1.0 / dot(cg.x, cg.z);
    for (int i = 0; i < cg.naa; i++)
        cg.x[i] = scale * cg.z[i];
    return NULL;
}

static void start_over(void) {
    for (int i = 0; i < cg.naa; i++)
        cg.x[i] = 1.0;
}

int main(int argc, char **argv) {
    begin(&cg.run, argc, argv, false);
    cg.naa = ROWS;
    make_matrix();
    struct step last = {0.0, 0.0};
    start_over();
    /* One step that is not timed. Its result is not needed: x starts over. */
    conj_grad(&last.residual);
    start_over();

    start(&cg.run, "cg");
    for (int iteration = 1; iteration <= ITERATIONS; iteration++)
        call(&cg.run, iteration_is_away(&cg.run, iteration), step, &last);
    stop(&cg.run, "cg");

    printf("residual %.6e\n", last.residual);
    return end(&cg.run, "CG", ITERATIONS, check("zeta", last.zeta, published_zeta, 1e-10));
}
