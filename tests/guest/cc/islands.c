/* Shows where functions run, and what the kernel counts. */
#include "crossing.h"

static void show(const char *name) { printf("%s %d\n", name, motet_island()); }
static void show_crossings(void) {
    char line[200];
    FILE *file = fopen("/proc/self/crossings", "r");
    while (file && fgets(line, sizeof line, file))
        fputs(line, stdout);
}

MOTET_ON(X86) int on_x86(void) { show("x86"); show_crossings(); return 1; }
MOTET_ON(RISCV) int on_riscv(void) { show("riscv"); return on_x86(); }
MOTET_ON(ARM) int on_arm(void) { show("arm"); return on_riscv(); }

int main(void) {
    show("main");
    on_arm();
    show_crossings();
    return 0;
}
