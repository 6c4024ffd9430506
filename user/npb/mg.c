/* MG: V-cycles of a multigrid method for Poisson's equation on a periodic cube. */
#include "npb.h"

enum {
    LEVELS = CLASS_IS(5, 7, 8, 8), /* the finest grid has 2^LEVELS points in each dimension, and a face on each side */
    CYCLES = CLASS_IS(4, 4, 4, 20),
    SIDE = (1 << LEVELS) + 2,
    POINTS = SIDE * SIDE * SIDE,
    /* What all grids together have, as the published program estimates it. */
    ROOM = (POINTS + SIDE * SIDE + 5 * SIDE + 7 * LEVELS + 6) / 7 * 8,
    CHARGES = 10, /* of each sign */
};

static const double published_norm =
    CLASS_IS(0.5307707005734e-04, 0.6467329375339e-05, 0.2433365309069e-05, 0.1800564401355e-05);

/* Factors of the operators by how many coordinates of a neighbour differ: a point itself, faces, edges, corners. */
static const double operator_a[4] = {-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0};
static const double smoother_c[4] = {CLASS_IS(-3.0 / 8.0, -3.0 / 8.0, -3.0 / 8.0, -3.0 / 17.0),
                                     CLASS_IS(1.0 / 32.0, 1.0 / 32.0, 1.0 / 32.0, 1.0 / 33.0),
                                     CLASS_IS(-1.0 / 64.0, -1.0 / 64.0, -1.0 / 64.0, -1.0 / 61.0), 0.0};

/* In u and r the finest grid is first. */
static struct {
    struct run run;
    char before[0x560 - sizeof(struct run)];
    ARRAY double u[ROOM];
    ARRAY double v[ROOM];
    ARRAY double r[ROOM];
    double norm;
} mg ON_A_PAGE;

/* A grid of a level has 2^level + 2 points a side. The first and last are copies of points on the other side. */
static inline int side(int level) { return (1 << level) + 2; }

static double *grid_of(double *grids, int level) {
    for (int finer = LEVELS; finer > level; finer--)
        grids += side(finer) * side(finer) * side(finer);
    return grids;
}

/* The address of row (plane, row). */
#define ROW(grid, n, plane, row) (&(grid)[((size_t)(plane) * (n) + (row)) * (n)])

/* Makes the faces copies of the points on the other side. */
static void wrap(double *grid, int n) {
    for (int plane = 1; plane < n - 1; plane++) {
        for (int row = 1; row < n - 1; row++) {
            double *points = ROW(grid, n, plane, row);
            points[0] = points[n - 2];
            points[n - 1] = points[1];
        }
        for (int i = 0; i < n; i++) {
            ROW(grid, n, plane, 0)[i] = ROW(grid, n, plane, n - 2)[i];
            ROW(grid, n, plane, n - 1)[i] = ROW(grid, n, plane, 1)[i];
        }
    }
    for (int row = 0; row < n; row++) {
        for (int i = 0; i < n; i++) {
            ROW(grid, n, 0, row)[i] = ROW(grid, n, n - 2, row)[i];
            ROW(grid, n, n - 1, row)[i] = ROW(grid, n, 1, row)[i];
        }
    }
}

static void clear(double *grid, int n) {
    for (int i = 0; i < n * n * n; i++)
        grid[i] = 0.0;
}

/* For each point of a row, the sum of its four neighbours in other rows that share a face with it, and of those that share an edge. */
static void sum_around(const double *grid, int n, int plane, int row, double *near, double *far) {
    const double *north = ROW(grid, n, plane, row - 1), *south = ROW(grid, n, plane, row + 1);
    const double *below = ROW(grid, n, plane - 1, row), *above = ROW(grid, n, plane + 1, row);
    const double *north_below = ROW(grid, n, plane - 1, row - 1), *south_below = ROW(grid, n, plane - 1, row + 1);
    const double *north_above = ROW(grid, n, plane + 1, row - 1), *south_above = ROW(grid, n, plane + 1, row + 1);
    for (int i = 0; i < n; i++) {
        near[i] = north[i] + south[i] + below[i] + above[i];
        far[i] = north_below[i] + south_below[i] + north_above[i] + south_above[i];
    }
}

/* r = v - A u */
static void residual(const double *u, const double *v, double *r, int n) {
    double near[SIDE], far[SIDE];
    for (int plane = 1; plane < n - 1; plane++) {
        for (int row = 1; row < n - 1; row++) {
            const double *own = ROW(u, n, plane, row), *right = ROW(v, n, plane, row);
            double *result = ROW(r, n, plane, row);
            sum_around(u, n, plane, row, near, far);
            /* The factor of faces is 0. */
            for (int i = 1; i < n - 1; i++)
                result[i] = right[i] - operator_a[0] * own[i] - operator_a[2] * (far[i] + near[i - 1] + near[i + 1]) -
                            operator_a[3] * (far[i - 1] + far[i + 1]);
        }
    }
    wrap(r, n);
}

/* u += C r */
static void smooth(const double *r, double *u, int n) {
    double near[SIDE], far[SIDE];
    for (int plane = 1; plane < n - 1; plane++) {
        for (int row = 1; row < n - 1; row++) {
            const double *own = ROW(r, n, plane, row);
            double *result = ROW(u, n, plane, row);
            sum_around(r, n, plane, row, near, far);
            /* The factor of corners is 0. */
            for (int i = 1; i < n - 1; i++)
                result[i] += smoother_c[0] * own[i] + smoother_c[1] * (own[i - 1] + own[i + 1] + near[i]) +
                             smoother_c[2] * (far[i] + near[i - 1] + near[i + 1]);
        }
    }
    wrap(u, n);
}

/* The coarser grid's residual: the mean over a fine point's neighbours, with weights 1/2, 1/4, 1/8 and 1/16. */
static void restrict_to(double *coarse, const double *fine, int n, int m) {
    double near[SIDE], far[SIDE];
    for (int plane = 1; plane < m - 1; plane++) {
        for (int row = 1; row < m - 1; row++) {
            const double *own = ROW(fine, n, 2 * plane, 2 * row);
            double *result = ROW(coarse, m, plane, row);
            sum_around(fine, n, 2 * plane, 2 * row, near, far);
            for (int i = 1, k = 2; i < m - 1; i++, k += 2)
                result[i] = 0.5 * own[k] + 0.25 * (own[k - 1] + own[k + 1] + near[k]) +
                            0.125 * (near[k - 1] + near[k + 1] + far[k]) + 0.0625 * (far[k - 1] + far[k + 1]);
        }
    }
    wrap(coarse, m);
}

/* Adds to two points of a fine row for each coarse one, by trilinear interpolation. `sums` are sums of 1 / `weight` coarse rows. */
static void spread(double *fine, const double *sums, double weight, int m) {
    for (int i = 0; i < m - 1; i++) {
        fine[2 * i] += weight * sums[i];
        fine[2 * i + 1] += 0.5 * weight * (sums[i] + sums[i + 1]);
    }
}

/* fine += interpolated coarse. Of `m` coarse points, each but the last begins a cell with eight fine ones. */
static void interpolate(const double *coarse, double *fine, int m, int n) {
    double south[SIDE], above[SIDE], all[SIDE];
    for (int plane = 0; plane < m - 1; plane++) {
        for (int row = 0; row < m - 1; row++) {
            const double *own = ROW(coarse, m, plane, row);
            for (int i = 0; i < m; i++) {
                south[i] = own[i] + ROW(coarse, m, plane, row + 1)[i];
                above[i] = own[i] + ROW(coarse, m, plane + 1, row)[i];
                all[i] = above[i] + ROW(coarse, m, plane, row + 1)[i] + ROW(coarse, m, plane + 1, row + 1)[i];
            }
            spread(ROW(fine, n, 2 * plane, 2 * row), own, 1.0, m);
            spread(ROW(fine, n, 2 * plane, 2 * row + 1), south, 0.5, m);
            spread(ROW(fine, n, 2 * plane + 1, 2 * row), above, 0.5, m);
            spread(ROW(fine, n, 2 * plane + 1, 2 * row + 1), all, 0.25, m);
        }
    }
}

/* The root of the mean square. */
static double norm(const double *grid, int n) {
    double sum = 0.0, points = (double)(n - 2) * (n - 2) * (n - 2);
    for (int plane = 1; plane < n - 1; plane++)
        for (int row = 1; row < n - 1; row++)
            for (int i = 1; i < n - 1; i++)
                sum += ROW(grid, n, plane, row)[i] * ROW(grid, n, plane, row)[i];
    return sqrt(sum / points);
}

/* An entry of a list of extreme points. */
struct extreme {
    double value;
    int plane, row, i;
};

/* Takes `found` up into a sorted list of the largest if it is one of them. With sign -1: of the smallest. */
static void keep(struct extreme *list, struct extreme found, double sign) {
    int at = CHARGES - 1;
    if (sign * found.value <= sign * list[at].value)
        return;
    for (; at > 0 && sign * found.value > sign * list[at - 1].value; at--)
        list[at] = list[at - 1];
    list[at] = found;
}

/* Charges: +1 where a random field has its ten largest numbers, -1 where it has its ten smallest. */
static void place_charges(double *v, int n) {
    struct extreme largest[CHARGES], smallest[CHARGES];
    for (int k = 0; k < CHARGES; k++) {
        largest[k] = (struct extreme){0.0, 0, 0, 0};
        smallest[k] = (struct extreme){1.0, 0, 0, 0};
    }
    uint64_t random = RANDOM_SEED;
    for (int plane = 1; plane < n - 1; plane++) {
        for (int row = 1; row < n - 1; row++) {
            for (int i = 1; i < n - 1; i++) {
                struct extreme found = {random_number(&random), plane, row, i};
                keep(largest, found, 1.0);
                keep(smallest, found, -1.0);
            }
        }
    }
    clear(v, n);
    for (int k = 0; k < CHARGES; k++) {
        ROW(v, n, largest[k].plane, largest[k].row)[largest[k].i] = 1.0;
        ROW(v, n, smallest[k].plane, smallest[k].row)[smallest[k].i] = -1.0;
    }
    wrap(v, n);
}

/* A V-cycle. */
static void cycle(void) {
    for (int level = LEVELS; level > 1; level--)
        restrict_to(grid_of(mg.r, level - 1), grid_of(mg.r, level), side(level), side(level - 1));
    clear(grid_of(mg.u, 1), side(1));
    smooth(grid_of(mg.r, 1), grid_of(mg.u, 1), side(1));
    for (int level = 2; level <= LEVELS; level++) {
        double *u = grid_of(mg.u, level), *r = grid_of(mg.r, level);
        int n = side(level);
        if (level < LEVELS)
            clear(u, n);
        interpolate(grid_of(mg.u, level - 1), u, side(level - 1), n);
        residual(u, level < LEVELS ? r : mg.v, r, n);
        smooth(r, u, n);
    }
}

static void *iterate(void *argument) {
    (void)argument;
    cycle();
    residual(mg.u, mg.v, mg.r, SIDE);
    return NULL;
}

static void *solve(void *argument) {
    (void)argument;
    residual(mg.u, mg.v, mg.r, SIDE);
    mg.norm = norm(mg.r, SIDE);
    for (int iteration = 1; iteration <= CYCLES; iteration++)
        call(&mg.run, iteration_is_away(&mg.run, iteration), iterate, NULL);
    mg.norm = norm(mg.r, SIDE);
    return NULL;
}

int main(int argc, char **argv) {
    begin(&mg.run, argc, argv, false);
    /* One cycle that is not timed. */
    place_charges(mg.v, SIDE);
    residual(mg.u, mg.v, mg.r, SIDE);
    iterate(NULL);
    clear(mg.u, SIDE);
    place_charges(mg.v, SIDE);

    start(&mg.run, "mg");
    call(&mg.run, procedure_is_away(&mg.run), solve, NULL);
    stop(&mg.run, "mg");

    return end(&mg.run, "MG", CYCLES, check("norm", mg.norm, published_norm, 1e-8));
}
