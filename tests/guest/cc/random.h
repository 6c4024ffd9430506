/* For the random programs of the test crossing::random_programs: what their functions do to the program's state. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "motet.h"

#ifdef PLAIN
#define ON(isa) __attribute__((noinline))
#else
#define ON(isa) MOTET_ON(isa)
#endif

enum choice { LEAST = -3, NONE = 0, MOST = 100 };
struct pair { long first; int second; };
struct bytes { unsigned char at[5]; };
struct small { short first; unsigned char second; };
struct word { unsigned value; };
struct reals { double first, second; };
struct single { float value; };
typedef long callback(int, long);

static unsigned long hash = 1;
/* Calls that may still be made. */
static int fuel;
static char buffer[1000];

/* Not inlined: programs are large, and compiled by the hundred. */
static __attribute__((noinline)) void mix_word(unsigned long word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29); }
static inline void mix_i8(signed char x) { mix_word((unsigned long)x); }
static inline void mix_u8(unsigned char x) { mix_word(x); }
static inline void mix_i16(short x) { mix_word((unsigned long)x); }
static inline void mix_u16(unsigned short x) { mix_word(x); }
static inline void mix_i32(int x) { mix_word((unsigned long)x); }
static inline void mix_u32(unsigned x) { mix_word(x); }
static inline void mix_i64(long x) { mix_word((unsigned long)x); }
static inline void mix_u64(unsigned long x) { mix_word(x); }
static inline void mix_bool(bool x) { mix_word(x); }
static inline void mix_choice(enum choice x) { mix_word((unsigned long)x); }
static inline void mix_pointer(const char *x) { mix_word((unsigned long)(x - buffer)); }
static inline void mix_double(double x) { unsigned long bits; memcpy(&bits, &x, sizeof bits); mix_word(bits); }
static inline void mix_float(float x) { unsigned bits; memcpy(&bits, &x, sizeof bits); mix_word(bits); }
static inline void mix_pair(struct pair x) { mix_i64(x.first); mix_i32(x.second); }
static inline void mix_bytes(struct bytes x) { for (int i = 0; i < 5; i++) mix_u8(x.at[i]); }
static inline void mix_small(struct small x) { mix_i16(x.first); mix_u8(x.second); }
static inline void mix_word_struct(struct word x) { mix_u32(x.value); }
static inline void mix_reals(struct reals x) { mix_double(x.first); mix_double(x.second); }
static inline void mix_single(struct single x) { mix_float(x.value); }

/* A line for each call: the first that differs tells which one went wrong. */
static inline bool enter(const char *name) {
    printf("%s %016lx\n", name, hash);
    return fuel-- > 0;
}
