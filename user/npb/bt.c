/* BT: the compressible Navier-Stokes equations in a cube, by an implicit method whose steps are block-tridiagonal systems along each dimension. */
#include "npb.h"

enum {
    SIDE = CLASS_IS(12, 24, 64, 102), /* points in each dimension */
    STEPS = CLASS_IS(60, 200, 200, 200),
    ROOM = SIDE / 2 * 2 + 1, /* of rows and layers, as in the published program */
    POINTS = SIDE * ROOM * ROOM,
    M = 5, /* variables of a point: density, momentum in three dimensions, energy */
    ENERGY = 4,
};

static const double dt = CLASS_IS(0.010, 0.0008, 0.0008, 0.0003);

typedef double block[M][M];

static struct {
    struct run run;
    ARRAY double velocity[3][POINTS];
    ARRAY double qs[POINTS]; /* half of the squared velocity */
    ARRAY double rho_i[POINTS];
    ARRAY double square[POINTS]; /* density times qs */
    ARRAY double forcing[POINTS][M];
    ARRAY double u[POINTS][M];
    ARRAY double rhs[POINTS][M];
    /* Of a line: the derivatives of fluxes and of viscous terms, and the system's blocks below, on and above the diagonal. */
    ARRAY block fjac[SIDE];
    ARRAY block njac[SIDE];
    ARRAY block lhs[SIDE][3];
} bt ON_A_PAGE;

enum { BELOW, DIAGONAL, ABOVE };

static const double published_residual[4][M] = {
    {1.7034283709541311e-01, 1.2975252070034097e-02, 3.2527926989486055e-02, 2.6436421275166801e-02, 1.9211784131744430e-01},
    {1.125590409344e+02, 1.180007595731e+01, 2.710329767846e+01, 2.469174937669e+01, 2.638427874317e+02},
    {1.0806346714637264e+02, 1.1319730901220813e+01, 2.5974354511582465e+01, 2.3665622544678910e+01, 2.5278963211748344e+02},
    {1.4233597229287254e+03, 9.9330522590150238e+01, 3.5646025644535285e+02, 3.2485447959084092e+02, 3.2707541254659363e+03},
};
static const double published_error[4][M] = {
    {4.9976913345811579e-04, 4.5195666782961927e-05, 7.3973765172921357e-05, 7.3821238632439731e-05, 8.9269630987491446e-04},
    {4.419655736008e+00, 4.638531260002e-01, 1.011551749967e+00, 9.235878729944e-01, 1.018045837718e+01},
    {4.2348416040525025e+00, 4.4390282496995698e-01, 9.6692480136345650e-01, 8.8302063039765474e-01, 9.7379901770829278e+00},
    {5.2969847140936856e+01, 4.4632896115670668e+00, 1.3122573342210174e+01, 1.2006925323559144e+01, 1.2459576151035986e+02},
};
static const int class = CLASS_IS(0, 1, 2, 3);

/* Coefficients of the exact solution: a constant, then x, y, z, x^2, y^2, z^2 and so on. */
static const double exact_coefficients[M][13] = {
    {2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
    {1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
    {2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
    {5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
};

/* Constants of the equations, as the specification calls them; tx1 and so on are the same in all dimensions. */
static const double c1 = 1.4, c2 = 0.4, c3c4 = 0.1, c1c5 = 1.4 * 1.4, con43 = 4.0 / 3.0, con16 = 1.0 / 6.0;
static const double t1 = (double)(SIDE - 1) * (SIDE - 1), t2 = (SIDE - 1) / 2.0;
/* Artificial viscosity by dimension, and the factor of dissipation of fourth order. */
static const double viscosity[3] = {0.75, 0.75, 1.0}, dissipation = 0.25;

static const int strides[3] = {1, ROOM, ROOM * ROOM};

static inline int point(int x, int y, int z) { return x + y * strides[1] + z * strides[2]; }

static void exact_solution(double x, double y, double z, double *result) {
    const double at[3] = {x, y, z};
    for (int m = 0; m < M; m++) {
        const double *c = exact_coefficients[m];
        result[m] = c[0];
        for (int d = 0; d < 3; d++)
            result[m] += at[d] * (c[1 + d] + at[d] * (c[4 + d] + at[d] * (c[7 + d] + at[d] * c[10 + d])));
    }
}

static inline double coordinate(int index) { return (double)index / (SIDE - 1); }

static bool is_boundary(int x, int y, int z) {
    return x == 0 || x == SIDE - 1 || y == 0 || y == SIDE - 1 || z == 0 || z == SIDE - 1;
}

/* For each dimension, interpolates linearly between the exact solution on the two faces, and combines the three (transfinite interpolation). */
static void interpolate(const double *at, double *result) {
    double between[3][M];
    for (int d = 0; d < 3; d++) {
        double low[3] = {at[0], at[1], at[2]}, high[3] = {at[0], at[1], at[2]}, first[M], last[M];
        low[d] = 0.0;
        high[d] = 1.0;
        exact_solution(low[0], low[1], low[2], first);
        exact_solution(high[0], high[1], high[2], last);
        for (int m = 0; m < M; m++)
            between[d][m] = at[d] * last[m] + (1.0 - at[d]) * first[m];
    }
    for (int m = 0; m < M; m++) {
        double x = between[0][m], y = between[1][m], z = between[2][m];
        result[m] = x + y + z - x * y - x * z - y * z + x * y * z;
    }
}

/* Sets all of u: to the exact solution, or to that on the boundary and to what is interpolated inside. */
static void fill(bool exact) {
    for (int z = 0; z < SIDE; z++) {
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                const double at[3] = {coordinate(x), coordinate(y), coordinate(z)};
                if (exact || is_boundary(x, y, z))
                    exact_solution(at[0], at[1], at[2], bt.u[point(x, y, z)]);
                else
                    interpolate(at, bt.u[point(x, y, z)]);
            }
        }
    }
}

/* What rhs needs of each point. */
static void derive(void) {
    for (int z = 0; z < SIDE; z++) {
        for (int y = 0; y < SIDE; y++) {
            for (int p = point(0, y, z); p < point(SIDE, y, z); p++) {
                const double *u = bt.u[p];
                double inverse = 1.0 / u[0];
                bt.rho_i[p] = inverse;
                for (int d = 0; d < 3; d++)
                    bt.velocity[d][p] = u[1 + d] * inverse;
                bt.square[p] = 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) * inverse;
                bt.qs[p] = bt.square[p] * inverse;
            }
        }
    }
}

static inline double second(const double *of, int p, int s) { return of[p + s] - 2.0 * of[p] + of[p - s]; }

/* Adds the fluxes through a point along dimension d, and the viscous terms. */
static inline void add_fluxes(int p, int d) {
    const int s = strides[d], normal = 1 + d;
    const double *above = bt.u[p + s], *here = bt.u[p], *below = bt.u[p - s], *speed = bt.velocity[d];
    const double up = speed[p + s], down = speed[p - s], now = speed[p], viscous = c3c4 * t1;
    double *rhs = bt.rhs[p];
    for (int m = 0; m < M; m++)
        rhs[m] += viscosity[d] * t1 * (above[m] - 2.0 * here[m] + below[m]);
    rhs[0] -= t2 * (above[normal] - below[normal]);
    for (int m = 1; m <= 3; m++)
        rhs[m] += viscous * (m == normal ? con43 : 1.0) * second(bt.velocity[m - 1], p, s) -
                  t2 * (above[m] * up - below[m] * down);
    rhs[normal] -= t2 * c2 * (above[ENERGY] - bt.square[p + s] - below[ENERGY] + bt.square[p - s]);
    rhs[ENERGY] += viscous * (1.0 - c1c5) * second(bt.qs, p, s) + viscous * con16 * (up * up - 2.0 * now * now + down * down) +
                   viscous * c1c5 *
                       (above[ENERGY] * bt.rho_i[p + s] - 2.0 * here[ENERGY] * bt.rho_i[p] + below[ENERGY] * bt.rho_i[p - s]) -
                   t2 * ((c1 * above[ENERGY] - c2 * bt.square[p + s]) * up - (c1 * below[ENERGY] - c2 * bt.square[p - s]) * down);
}

/* Fourth differences; next to the boundary without what is outside. `at` is the point's place along the dimension. */
static inline void add_dissipation(int p, int d, int at) {
    const int s = strides[d];
    for (int m = 0; m < M; m++) {
        double sum = (at == 1 || at == SIDE - 2 ? 5.0 : 6.0) * bt.u[p][m];
        if (at > 1)
            sum -= 4.0 * bt.u[p - s][m];
        if (at > 2)
            sum += bt.u[p - 2 * s][m];
        if (at < SIDE - 2)
            sum -= 4.0 * bt.u[p + s][m];
        if (at < SIDE - 3)
            sum += bt.u[p + 2 * s][m];
        bt.rhs[p][m] -= dissipation * sum;
    }
}

/* Adds the equations' terms to rhs, inside. */
static void add_terms(void) {
    derive();
    for (int d = 0; d < 3; d++) {
        for (int z = 1; z < SIDE - 1; z++) {
            for (int y = 1; y < SIDE - 1; y++) {
                for (int x = 1; x < SIDE - 1; x++) {
                    const int at[3] = {x, y, z}, p = point(x, y, z);
                    add_fluxes(p, d);
                    add_dissipation(p, d, at[d]);
                }
            }
        }
    }
}

static void compute_rhs(void) {
    memcpy(bt.rhs, bt.forcing, sizeof bt.rhs);
    add_terms();
    for (int z = 1; z < SIDE - 1; z++)
        for (int y = 1; y < SIDE - 1; y++)
            for (int p = point(1, y, z); p < point(SIDE - 1, y, z); p++)
                for (int m = 0; m < M; m++)
                    bt.rhs[p][m] *= dt;
}

/* What makes the exact solution stay as it is. */
static void compute_forcing(void) {
    fill(true);
    memset(bt.rhs, 0, sizeof bt.rhs);
    add_terms();
    for (int p = 0; p < POINTS; p++)
        for (int m = 0; m < M; m++)
            bt.forcing[p][m] = -bt.rhs[p][m];
}

/* Derivatives of a point's flux along dimension d by its variables. */
static void flux_derivatives(int p, int d, block f) {
    const int normal = 1 + d;
    const double *u = bt.u[p], inverse = bt.rho_i[p], squared = inverse * inverse, speed = u[normal] * inverse;
    memset(f, 0, sizeof(block));
    f[0][normal] = 1.0;
    for (int m = 1; m <= 3; m++) {
        f[m][0] = -u[m] * u[normal] * squared;
        f[m][normal] += u[m] * inverse;
        f[m][m] += speed;
        f[normal][m] -= c2 * u[m] * inverse;
        f[ENERGY][m] = -c2 * u[m] * u[normal] * squared;
    }
    f[normal][0] += c2 * bt.qs[p];
    f[normal][ENERGY] = c2;
    f[ENERGY][0] = (c2 * 2.0 * bt.square[p] - c1 * u[ENERGY]) * u[normal] * squared;
    f[ENERGY][normal] += c1 * u[ENERGY] * inverse - c2 * bt.qs[p];
    f[ENERGY][ENERGY] = c1 * speed;
}

/* The same of the viscous terms. */
static void viscous_derivatives(int p, int d, block n) {
    const double *u = bt.u[p], inverse = bt.rho_i[p], squared = inverse * inverse, c1345 = c1c5 * c3c4;
    memset(n, 0, sizeof(block));
    n[ENERGY][0] = -c1345 * squared * u[ENERGY];
    for (int m = 1; m <= 3; m++) {
        double factor = (m == 1 + d ? con43 : 1.0) * c3c4;
        n[m][0] = -factor * squared * u[m];
        n[m][m] = factor * inverse;
        n[ENERGY][0] -= (factor - c1345) * squared * inverse * u[m] * u[m];
        n[ENERGY][m] = (factor - c1345) * squared * u[m];
    }
    n[ENERGY][ENERGY] = c1345 * inverse;
}

/* The system of a line that begins at point p. On the boundary nothing changes. */
static void make_system(int p, int d) {
    const double dt1 = dt * t1, dt2 = dt * t2;
    for (int i = 0; i < SIDE; i++) {
        flux_derivatives(p + i * strides[d], d, bt.fjac[i]);
        viscous_derivatives(p + i * strides[d], d, bt.njac[i]);
    }
    memset(bt.lhs, 0, sizeof bt.lhs);
    for (int m = 0; m < M; m++)
        bt.lhs[0][DIAGONAL][m][m] = bt.lhs[SIDE - 1][DIAGONAL][m][m] = 1.0;
    for (int i = 1; i < SIDE - 1; i++) {
        for (int m = 0; m < M; m++) {
            for (int n = 0; n < M; n++) {
                bt.lhs[i][BELOW][m][n] = -dt2 * bt.fjac[i - 1][m][n] - dt1 * bt.njac[i - 1][m][n];
                bt.lhs[i][DIAGONAL][m][n] = 2.0 * dt1 * bt.njac[i][m][n];
                bt.lhs[i][ABOVE][m][n] = dt2 * bt.fjac[i + 1][m][n] - dt1 * bt.njac[i + 1][m][n];
            }
            bt.lhs[i][BELOW][m][m] -= dt1 * viscosity[d];
            bt.lhs[i][DIAGONAL][m][m] += 1.0 + 2.0 * dt1 * viscosity[d];
            bt.lhs[i][ABOVE][m][m] -= dt1 * viscosity[d];
        }
    }
}

/* result -= matrix vector */
static void subtract_vector(block matrix, const double *vector, double *result) {
    for (int m = 0; m < M; m++)
        for (int n = 0; n < M; n++)
            result[m] -= matrix[m][n] * vector[n];
}

/* result -= one other */
static void subtract_product(block one, block other, block result) {
    for (int m = 0; m < M; m++)
        for (int k = 0; k < M; k++)
            for (int n = 0; n < M; n++)
                result[m][n] -= one[m][k] * other[k][n];
}

/* Multiplies `above` and `rhs` by the inverse of `diagonal`, which is lost. The diagonal is large, so rows need not be exchanged. */
static void eliminate(block diagonal, block above, double *rhs) {
    for (int pivot = 0; pivot < M; pivot++) {
        double inverse = 1.0 / diagonal[pivot][pivot];
        for (int n = pivot + 1; n < M; n++)
            diagonal[pivot][n] *= inverse;
        for (int n = 0; n < M; n++)
            above[pivot][n] *= inverse;
        rhs[pivot] *= inverse;
        for (int m = 0; m < M; m++) {
            if (m == pivot)
                continue;
            double factor = diagonal[m][pivot];
            for (int n = pivot + 1; n < M; n++)
                diagonal[m][n] -= factor * diagonal[pivot][n];
            for (int n = 0; n < M; n++)
                above[m][n] -= factor * above[pivot][n];
            rhs[m] -= factor * rhs[pivot];
        }
    }
}

/* Solves the system of a line, whose right side becomes the solution. */
static void solve_line(int p, int d) {
    const int s = strides[d];
    make_system(p, d);
    for (int i = 0; i < SIDE; i++) {
        if (i > 0) {
            subtract_vector(bt.lhs[i][BELOW], bt.rhs[p + (i - 1) * s], bt.rhs[p + i * s]);
            subtract_product(bt.lhs[i][BELOW], bt.lhs[i - 1][ABOVE], bt.lhs[i][DIAGONAL]);
        }
        eliminate(bt.lhs[i][DIAGONAL], bt.lhs[i][ABOVE], bt.rhs[p + i * s]);
    }
    for (int i = SIDE - 2; i >= 0; i--)
        subtract_vector(bt.lhs[i][ABOVE], bt.rhs[p + (i + 1) * s], bt.rhs[p + i * s]);
}

/* A step of time, by alternating directions. */
static void *iterate(void *argument) {
    (void)argument;
    compute_rhs();
    for (int z = 1; z < SIDE - 1; z++)
        for (int y = 1; y < SIDE - 1; y++)
            solve_line(point(0, y, z), 0);
    for (int z = 1; z < SIDE - 1; z++)
        for (int x = 1; x < SIDE - 1; x++)
            solve_line(point(x, 0, z), 1);
    for (int y = 1; y < SIDE - 1; y++)
        for (int x = 1; x < SIDE - 1; x++)
            solve_line(point(x, y, 0), 2);
    for (int z = 1; z < SIDE - 1; z++)
        for (int y = 1; y < SIDE - 1; y++)
            for (int p = point(1, y, z); p < point(SIDE - 1, y, z); p++)
                for (int m = 0; m < M; m++)
                    bt.u[p][m] += bt.rhs[p][m];
    return NULL;
}

static void *solve(void *argument) {
    (void)argument;
    for (int step = 1; step <= STEPS; step++)
        call(&bt.run, iteration_is_away(&bt.run, step), iterate, NULL);
    return NULL;
}

/* Of each variable the root of the mean square: of rhs, inside, and of how far u is from the exact solution. */
static void measure(double *residual, double *error) {
    const double inside = (double)(SIDE - 2) * (SIDE - 2) * (SIDE - 2);
    compute_rhs();
    for (int m = 0; m < M; m++)
        residual[m] = error[m] = 0.0;
    for (int z = 0; z < SIDE; z++) {
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                double exact[M];
                exact_solution(coordinate(x), coordinate(y), coordinate(z), exact);
                for (int m = 0; m < M; m++) {
                    double far = bt.u[point(x, y, z)][m] - exact[m], rest = bt.rhs[point(x, y, z)][m];
                    error[m] += far * far;
                    residual[m] += is_boundary(x, y, z) ? 0.0 : rest * rest;
                }
            }
        }
    }
    for (int m = 0; m < M; m++) {
        residual[m] = sqrt(residual[m] / inside) / dt;
        error[m] = sqrt(error[m] / inside);
    }
}

int main(int argc, char **argv) {
    begin(&bt.run, argc, argv, false);
    compute_forcing();
    /* One step that is not timed. */
    fill(false);
    iterate(NULL);
    fill(false);

    start(&bt.run, "bt");
    call(&bt.run, procedure_is_away(&bt.run), solve, NULL);
    stop(&bt.run, "bt");

    double residual[M], error[M];
    bool verified = true;
    measure(residual, error);
    for (int m = 0; m < M; m++) {
        char name[16];
        snprintf(name, sizeof name, "residual%d", m);
        verified &= check(name, residual[m], published_residual[class][m], 1e-8);
        snprintf(name, sizeof name, "error%d", m);
        verified &= check(name, error[m], published_error[class][m], 1e-8);
    }
    return end(&bt.run, "BT", STEPS, verified);
}
