/* How functions return to another instruction set: by the gate's system call and not by faults, once each island has the gate's page. They also return
 * if the program unmaps that page. No other code may make the gate's system call. */
#include <sys/mman.h>

#include "crossing.h"

#define GATE_PAGE 0x7fffbffff000ul
#define CALL_RETURN 0x4d05
#define CALLS 300
/* Most page faults of the rest of this program. */
#define OTHER_FAULTS 250

struct both {
    long first, second;
};

#define FUNCTIONS(NAME, ISA)                                                                                         \
    MOTET_ON(ISA) struct both NAME(long value) { return (struct both){value + 1, value + 2}; }                       \
    MOTET_ON(ISA) double NAME##_half(double value) { return value / 2; }                                             \
    MOTET_ON(ISA) long NAME##_says_so(void) { return motet_system_call(CALL_RETURN, 5, 0, 0); }
FUNCTIONS(on_x86, X86)
FUNCTIONS(on_arm, ARM)
FUNCTIONS(on_riscv, RISCV)
/* So x86-64's functions are called from elsewhere. */
MOTET_ON(ARM) struct both to_x86(long value) { return on_x86(value); }
MOTET_ON(RISCV) double to_x86_half(double value) { return on_x86_half(value); }
MOTET_ON(RISCV) long to_x86_says_so(void) { return on_x86_says_so(); }

static long page_faults(void) {
    char line[400];
    long sum = 0;
    FILE *file = fopen("/proc/motet", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *at = line + strlen("page_faults");
        if (strncmp(line, "page_faults ", strlen("page_faults ")) == 0)
            for (int island = 0; island < 3; island++)
                sum += strtol(at, &at, 10);
    }
    return file ? (fclose(file), sum) : -1;
}

/* Calls each function, and says how many results were right. */
static int right(int calls) {
    int right = 0;
    for (int call = 0; call < calls; call++) {
        struct both all[] = {to_x86(call), on_arm(call), on_riscv(call)};
        double halves[] = {to_x86_half(call), on_arm_half(call), on_riscv_half(call)};
        for (int index = 0; index < 3; index++)
            right += all[index].first == call + 1 && all[index].second == call + 2 && halves[index] == call / 2.0;
    }
    return right;
}

int main(void) {
    printf("right %d\n", right(1));
    long before = page_faults();
    printf("again %d\n", right(CALLS));
    long faults = page_faults() - before;
    if (before < 0 || faults > OTHER_FAULTS)
        printf("%ld page faults\n", faults);
    printf("refused %ld %ld %ld %ld\n", motet_system_call(CALL_RETURN, 5, 0, 0), to_x86_says_so(), on_arm_says_so(),
           on_riscv_says_so());
    printf("unmapped %d\n", munmap((void *)GATE_PAGE, 4096));
    printf("still %d\n", right(CALLS));
    return 0;
}
