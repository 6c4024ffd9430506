/* FT: a diffusion equation on a periodic box, solved by three-dimensional Fourier transforms. */
#include "npb.h"

enum {
    NX = CLASS_IS(64, 128, 256, 512),
    NY = CLASS_IS(64, 128, 256, 256),
    NZ = CLASS_IS(64, 32, 128, 256),
    LONGEST = NX, /* of the dimensions */
    STEPS = CLASS_IS(6, 6, 6, 20),
    BUNDLE = 32, /* lines that are transformed together */
};

struct complex {
    double real, imag;
};

/* A row has an element more than it needs. */
static struct {
    char before[0x40];
    ARRAY struct complex sums[STEPS + 1];
    ARRAY double twiddle[NZ][NY][NX + 1];
    ARRAY struct complex xnt[NZ][NY][NX + 1];
    ARRAY struct complex y[NZ][NY][NX + 1];
    struct run run;
    char between[0x420 - sizeof(struct run)];
    /* A bundle of lines: element, then line. */
    ARRAY struct complex plane[LONGEST][BUNDLE + 1];
    ARRAY struct complex scr[LONGEST][BUNDLE + 1];
} ft ON_A_PAGE;

static const struct complex published_sums[] = {
#if defined(CLASS_B)
    {517.7643571579, 507.7803458597}, {515.4521291263, 508.8249431599}, {514.6409228649, 509.6208912659},
    {514.2378756213, 510.1023387619}, {513.9626667737, 510.3976610617}, {513.7423460082, 510.5948019802},
    {513.5547056878, 510.7404165783}, {513.3910925466, 510.8576573661}, {513.2470705390, 510.9577278523},
    {513.1197729984, 511.0460304483}, {513.0070319283, 511.1252433800}, {512.9070537032, 511.1968077718},
    {512.8182883502, 511.2616233064}, {512.7393733383, 511.3203605551}, {512.6691062020, 511.3735928093},
    {512.6064276004, 511.4218460548}, {512.5504076570, 511.4656139760}, {512.5002331720, 511.5053595966},
    {512.4551951846, 511.5415130407}, {512.4146770029, 511.5744692211},
#elif defined(CLASS_A)
    {504.6735008193, 511.4047905510}, {505.9412319734, 509.8809666433}, {506.9376896287, 509.8144042213},
    {507.7892868474, 510.1336130759}, {508.5233095391, 510.4914655194}, {509.1487099959, 510.7917842803},
#elif defined(CLASS_W)
    {567.3612178944, 529.3246849175}, {563.1436885271, 528.2149986629}, {559.4024089970, 527.0996558037},
    {556.0698047020, 526.0027904925}, {553.0898991250, 524.9400845633}, {550.4159734538, 523.9212247086},
#else
    {554.6087004964, 484.5363331978}, {554.6385409189, 486.5304269511}, {554.6148406171, 488.3910722336},
    {554.5423607415, 490.1273169046}, {554.4255039624, 491.7475857993}, {554.2683411902, 493.2597244941},
#endif
};

static const double alpha = 1e-6, pi = 3.141592653589793238;

/* e^(2 pi i k / LONGEST). The shorter dimensions take every second or fourth. */
struct roots {
    struct complex of[LONGEST];
};

static void make_roots(struct roots *roots) {
    for (int k = 0; k < LONGEST; k++)
        roots->of[k] = (struct complex){cos(2.0 * pi * k / LONGEST), sin(2.0 * pi * k / LONGEST)};
}

static void make_field(void) {
    uint64_t random = RANDOM_SEED;
    for (int z = 0; z < NZ; z++) {
        for (int y = 0; y < NY; y++) {
            for (int x = 0; x < NX; x++) {
                ft.xnt[z][y][x].real = random_number(&random);
                ft.xnt[z][y][x].imag = random_number(&random);
            }
        }
    }
}

/* Frequencies above the middle stand for negative ones. */
static inline int frequency(int index, int len) { return index < len / 2 ? index : index - len; }

/* How each frequency decays in a step of time. */
static void make_twiddle(void) {
    for (int z = 0; z < NZ; z++) {
        int kz = frequency(z, NZ);
        for (int y = 0; y < NY; y++) {
            int ky = frequency(y, NY);
            for (int x = 0; x < NX; x++) {
                int kx = frequency(x, NX);
                ft.twiddle[z][y][x] = exp(-4.0 * alpha * pi * pi * (double)(kx * kx + ky * ky + kz * kz));
            }
        }
    }
}

/* One stage of Stockham's algorithm: blocks of `half` butterflies become sorted blocks of twice their length. */
static void stage(int sign, int len, int half, int lines, const struct roots *roots, struct complex (*from)[BUNDLE + 1],
                  struct complex (*to)[BUNDLE + 1]) {
    int blocks = len / (2 * half);
    for (int block = 0; block < blocks; block++) {
        struct complex root = roots->of[block * half * (LONGEST / len)];
        root.imag *= sign;
        for (int k = 0; k < half; k++) {
            const struct complex *one = from[block * half + k], *other = from[block * half + k + len / 2];
            struct complex *sum = to[2 * block * half + k], *difference = to[2 * block * half + k + half];
            for (int line = 0; line < lines; line++) {
                struct complex a = one[line], b = other[line];
                double real = a.real - b.real, imag = a.imag - b.imag;
                sum[line] = (struct complex){a.real + b.real, a.imag + b.imag};
                difference[line] =
                    (struct complex){root.real * real - root.imag * imag, root.real * imag + root.imag * real};
            }
        }
    }
}

/* Transforms a bundle of lines. `from` and `to` are the first element; elements of a line are `element_stride` apart, lines `line_stride`. */
static void transform_lines(int sign, int len, int lines, const struct roots *roots, const struct complex *from,
                            struct complex *to, size_t element_stride, size_t line_stride) {
    struct complex(*now)[BUNDLE + 1] = ft.plane, (*next)[BUNDLE + 1] = ft.scr;
    for (int k = 0; k < len; k++)
        for (int line = 0; line < lines; line++)
            now[k][line] = from[k * element_stride + line * line_stride];
    for (int half = 1; half < len; half *= 2) {
        stage(sign, len, half, lines, roots, now, next);
        struct complex(*other)[BUNDLE + 1] = now;
        now = next;
        next = other;
    }
    for (int k = 0; k < len; k++)
        for (int line = 0; line < lines; line++)
            to[k * element_stride + line * line_stride] = now[k][line];
}

/* Transforms along x, y and z: forward with sign 1, inverse (but for the factor) with sign -1. */
static void transform(int sign, const struct roots *roots, struct complex (*from)[NY][NX + 1],
                      struct complex (*to)[NY][NX + 1]) {
    const size_t row = NX + 1, layer = row * NY;
    for (int z = 0; z < NZ; z++)
        for (int y = 0; y < NY; y += BUNDLE)
            transform_lines(sign, NX, BUNDLE, roots, from[z][y], to[z][y], 1, row);
    for (int z = 0; z < NZ; z++)
        for (int x = 0; x < NX; x += BUNDLE)
            transform_lines(sign, NY, BUNDLE, roots, &to[z][0][x], &to[z][0][x], row, 1);
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x += BUNDLE)
            transform_lines(sign, NZ, BUNDLE, roots, &to[0][y][x], &to[0][y][x], layer, 1);
}

/* A step of time, of frequencies (y) and of what is to be transformed back (xnt). */
static void evolve(void) {
    for (int z = 0; z < NZ; z++) {
        for (int y = 0; y < NY; y++) {
            for (int x = 0; x < NX; x++) {
                ft.y[z][y][x].real *= ft.twiddle[z][y][x];
                ft.y[z][y][x].imag *= ft.twiddle[z][y][x];
                ft.xnt[z][y][x] = ft.y[z][y][x];
            }
        }
    }
}

static struct complex checksum(void) {
    struct complex sum = {0.0, 0.0};
    for (int k = 1; k <= 1024; k++) {
        const struct complex *one = &ft.xnt[5 * k % NZ][3 * k % NY][k % NX];
        sum.real += one->real;
        sum.imag += one->imag;
    }
    const double points = (double)NX * NY * NZ;
    return (struct complex){sum.real / points, sum.imag / points};
}

struct iteration {
    int number;
    const struct roots *roots;
};

static void *iterate(void *argument) {
    const struct iteration *iteration = argument;
    evolve();
    transform(-1, iteration->roots, ft.xnt, ft.xnt);
    ft.sums[iteration->number] = checksum();
    return NULL;
}

static void *solve(void *argument) {
    struct iteration iteration = {1, argument};
    make_twiddle();
    make_field();
    transform(1, iteration.roots, ft.xnt, ft.y);
    for (; iteration.number <= STEPS; iteration.number++)
        call(&ft.run, iteration_is_away(&ft.run, iteration.number), iterate, &iteration);
    return NULL;
}

int main(int argc, char **argv) {
    begin(&ft.run, argc, argv, false);
    struct roots roots;
    make_roots(&roots);
    /* One transform that is not timed. */
    make_field();
    transform(1, &roots, ft.xnt, ft.y);

    start(&ft.run, "ft");
    call(&ft.run, procedure_is_away(&ft.run), solve, &roots);
    stop(&ft.run, "ft");

    bool verified = true;
    for (int step = 1; step <= STEPS; step++) {
        char real[16], imag[16];
        snprintf(real, sizeof real, "real%d", step);
        snprintf(imag, sizeof imag, "imag%d", step);
        verified &= check(real, ft.sums[step].real, published_sums[step - 1].real, 1e-12);
        verified &= check(imag, ft.sums[step].imag, published_sums[step - 1].imag, 1e-12);
    }
    return end(&ft.run, "FT", STEPS, verified);
}
