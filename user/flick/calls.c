/*
 * calls FROM TO COUNT: on a core of instruction set FROM, calls an empty function of TO, COUNT times. The region `calls` has all of these calls but
 * the first one, which makes a stack. The region `kernel` has COUNT system calls of FROM that do next to nothing. It measures the cost of entering
 * and leaving the kernel.
 */
#include "flick.h"

typedef void (*Empty)(void);
typedef void (*Caller)(Empty, long);

/* Without the assembly, a compiler that sees an empty function leaves out its calls. */
#define ON(isa)                                                                                                        \
    MOTET_ON(#isa) static void empty_##isa(void) { __asm__ volatile(""); }                                             \
    MOTET_ON(#isa) static void call_from_##isa(Empty empty, long count) {                                              \
        empty();                                                                                                       \
        motet_roi_begin("calls");                                                                                      \
        for (long index = 0; index < count; index++)                                                                   \
            empty();                                                                                                   \
        motet_roi_end("calls");                                                                                        \
        syscall(SYS_getppid);                                                                                          \
        motet_roi_begin("kernel");                                                                                     \
        for (long index = 0; index < count; index++)                                                                   \
            syscall(SYS_getppid);                                                                                      \
        motet_roi_end("kernel");                                                                                       \
    }

ON(x86_64)
ON(aarch64)
ON(riscv64)

static const struct {
    const char *isa;
    Empty empty;
    Caller caller;
} functions[] = {
    {"x86_64", empty_x86_64, call_from_x86_64},
    {"aarch64", empty_aarch64, call_from_aarch64},
    {"riscv64", empty_riscv64, call_from_riscv64},
};

static int find(const char *isa) {
    for (int index = 0; index < 3; index++)
        if (strcmp(functions[index].isa, isa) == 0)
            return index;
    fprintf(stderr, "%s is not an instruction set\n", isa);
    exit(64);
}

int main(int count, char **words) {
    if (count != 4) {
        fputs("usage: calls FROM TO COUNT\n", stderr);
        return 64;
    }
    functions[find(words[1])].caller(functions[find(words[2])].empty, number(words[3]));
    show_crossings();
    return 0;
}
