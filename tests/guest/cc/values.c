/* Arguments and results of every kind, between all pairs of instruction sets. */
#include <limits.h>
#include <stdbool.h>

#include "crossing.h"

enum sign { MINUS = -5, PLUS = 7 };
enum large { LARGE = 4000000000u };
struct pair { long first; int second; short third; char fourth; };
struct bytes { unsigned char at[5]; };
struct bits { unsigned a : 3; int b : 20; };
struct real { double x; };
struct complex_number { double re, im; };
struct single { float x; };
union word { long whole; char bytes[8]; };

#define FUNCTIONS(here, isa)                                                                                           \
    MOTET_ON(isa) signed char i8_##here(signed char x) { expect_on(isa); return (signed char)(x - 3); }                \
    MOTET_ON(isa) unsigned char u8_##here(unsigned char x) { expect_on(isa); return (unsigned char)(x + 200); }        \
    MOTET_ON(isa) short i16_##here(short x) { expect_on(isa); return (short)(x - 30000); }                             \
    MOTET_ON(isa) unsigned short u16_##here(unsigned short x) { expect_on(isa); return (unsigned short)(x + 60000); }  \
    MOTET_ON(isa) int i32_##here(int x) { expect_on(isa); return (int)((unsigned)x + 0x7fff0000u); }                   \
    MOTET_ON(isa) unsigned u32_##here(unsigned x) { expect_on(isa); return x * 3 + 0x90000000u; }                      \
    MOTET_ON(isa) long i64_##here(long x) { expect_on(isa); return (long)((unsigned long)x * 3); }                     \
    MOTET_ON(isa) unsigned long u64_##here(unsigned long x) { expect_on(isa); return x + 1; }                          \
    MOTET_ON(isa) bool boolean_##here(bool x) { expect_on(isa); return !x; }                                           \
    MOTET_ON(isa) float f32_##here(float x) { expect_on(isa); return x * 1.25f; }                                      \
    MOTET_ON(isa) double f64_##here(double x) { expect_on(isa); return x / 3; }                                        \
    MOTET_ON(isa) const char *text_##here(const char *x) { expect_on(isa); return x + 1; }                             \
    MOTET_ON(isa) enum sign negative_##here(enum sign x) { expect_on(isa); return x == MINUS ? PLUS : MINUS; }         \
    MOTET_ON(isa) enum large positive_##here(enum large x) { expect_on(isa); return (enum large)(x - 1); }             \
    MOTET_ON(isa) long many_##here(signed char a, unsigned char b, short c, unsigned short d, int e, unsigned f,       \
        bool g, signed char h, unsigned char i, short j, unsigned short k, int l, unsigned m, long n, bool o,          \
        const char *p) {                                                                                               \
        expect_on(isa);                                                                                                \
        return a + 2L * b + 3L * c + 5L * d + 7L * e + 11L * f + 13L * g + 17L * h + 19L * i + 23L * j + 29L * k +     \
            31L * l + 37L * m + 41L * n + 43L * o + 47L * p[0];                                                        \
    }                                                                                                                  \
    MOTET_ON(isa) double mixed_##here(float a, long b, double c, int d, float e, unsigned char f, double g, short h,   \
        float i, double j, long k, float l, long m, double n) {                                                        \
        expect_on(isa);                                                                                                \
        return a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h + 19 * i + 23 * j + 29 * k + 31 * l +      \
            37 * m + 41 * n;                                                                                           \
    }                                                                                                                  \
    MOTET_ON(isa) struct pair pair_##here(int before, struct pair x, int after) {                                      \
        expect_on(isa);                                                                                                \
        return (struct pair){x.second + before, (int)x.first + after, (short)(x.fourth * 2), (char)x.third};           \
    }                                                                                                                  \
    MOTET_ON(isa) struct bytes bytes_##here(struct bytes x) {                                                          \
        expect_on(isa);                                                                                                \
        return (struct bytes){{x.at[4], x.at[3], x.at[2], x.at[1], x.at[0]}};                                          \
    }                                                                                                                  \
    MOTET_ON(isa) struct bits bits_##here(struct bits x) { expect_on(isa); return (struct bits){x.a + 1, -x.b}; }      \
    MOTET_ON(isa) struct real real_##here(struct real x) { expect_on(isa); return (struct real){x.x * 2}; }            \
    MOTET_ON(isa) struct single single_##here(float a, struct single x) {                                              \
        expect_on(isa);                                                                                                \
        return (struct single){x.x * 2 + a};                                                                           \
    }                                                                                                                  \
    MOTET_ON(isa) struct complex_number complex_##here(struct complex_number x, double factor) {                       \
        expect_on(isa);                                                                                                \
        return (struct complex_number){x.im * factor, x.re};                                                           \
    }                                                                                                                  \
    MOTET_ON(isa) union word word_##here(union word x) { expect_on(isa); x.bytes[3] ^= 0x55; return x; }               \
    MOTET_ON(isa) void nothing_##here(void) { expect_on(isa); }

FUNCTIONS(x86, X86)
FUNCTIONS(arm, ARM)
FUNCTIONS(riscv, RISCV)

/* Calls the functions of one instruction set. Results are widened here, by the caller's code. */
#define CALLS(to)                                                                                                      \
    for (int i = -1; i < 2; i++) {                                                                                     \
        long low = i8_##to((signed char)(i * 127)), high = i16_##to((short)(i * 32767));                               \
        unsigned long byte = u8_##to((unsigned char)i), half = u16_##to((unsigned short)i);                            \
        long word = i32_##to(i * INT_MAX);                                                                             \
        unsigned long plain = u32_##to((unsigned)i);                                                                   \
        printf("%ld %ld %lu %lu %ld %lu ", low, high, byte, half, word, plain);                                        \
        printf("%ld %lu %d ", i64_##to(i * LONG_MAX), u64_##to((unsigned long)i), boolean_##to(i != 0));               \
        printf("%.9g %.17g %s ", f32_##to(i * 0.1f), f64_##to(i * 1e300), text_##to("text"));                          \
        printf("%d %u\n", negative_##to(i < 0 ? MINUS : PLUS), positive_##to(LARGE));                                  \
        printf("%ld ", many_##to(-1, 255, -2, 65535, i, -1u, 1, -128, 200, -32768, 40000, INT_MIN, 3000000000u,        \
            LONG_MAX / 50, 1, "A"));                                                                                   \
        printf("%.17g\n", mixed_##to(0.5f, i, 1e10, -2, 0.25f, 255, -0.0, -3, 1e-5f, 3.5, 1L << 40, i, -7, 1.0 / 3));  \
        struct pair pair = pair_##to(i, (struct pair){1L << 33 | 5, -6, -7, -8}, -1);                                  \
        struct bytes bytes = bytes_##to((struct bytes){{1, 2, 3, 250, (unsigned char)i}});                             \
        struct bits bits = bits_##to((struct bits){5, i * 1000});                                                      \
        struct complex_number complex_number = complex_##to((struct complex_number){i, 2.5}, -1.5);                    \
        printf("%ld %d %d %d ", pair.first, pair.second, pair.third, pair.fourth);                                     \
        printf("%d %d %d %d %d ", bytes.at[0], bytes.at[1], bytes.at[2], bytes.at[3], bytes.at[4]);                    \
        printf("%d %d %g %g ", bits.a, bits.b, complex_number.re, complex_number.im);                                  \
        printf("%g %g ", real_##to((struct real){i}).x, single_##to(i, (struct single){0.75f}).x);                     \
        printf("%#lx\n", (unsigned long)word_##to((union word){i}).whole);                                             \
        nothing_##to();                                                                                                \
    }

#define CALLERS(here, isa)                                                                                             \
    MOTET_ON(isa) void from_##here(void) {                                                                             \
        expect_on(isa);                                                                                                \
        CALLS(x86)                                                                                                     \
        CALLS(arm)                                                                                                     \
        CALLS(riscv)                                                                                                   \
    }

CALLERS(x86, X86)
CALLERS(arm, ARM)
CALLERS(riscv, RISCV)

int main(void) {
    from_x86();
    from_arm();
    from_riscv();
    return 5;
}
