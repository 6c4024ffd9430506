// Wide vector registers of any length in the contexts of signal handlers. If a handler changes a register in the context, the program's register
// changes. A damaged context ends the process with SIGSEGV. On AArch64, Advanced SIMD instructions clear registers' upper bits, so a thread with
// such bits must never run on a core without SVE.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { BYTES_MAX = 256 };

static uint8_t pattern[BYTES_MAX], found[BYTES_MAX];

#if defined __x86_64__

// The context's XSAVE area, which has the program's seventh register.
static uint8_t *area(ucontext_t *context) {
    return (uint8_t *)context->uc_mcontext.fpregs;
}

static int vector_bytes(void) {
    return 32;
}

static void hold(void) {
    __asm__ volatile("vmovdqu (%0), %%ymm7\nint3\nvmovdqu %%ymm7, (%1)" : : "r"(pattern), "r"(found) : "xmm7", "memory");
}

static void change(ucontext_t *context) {
    uint8_t *at = area(context);
    for (int n = 0; n < 16; n++) {
        at[160 + 16 * 7 + n] ^= 0xff;
        at[576 + 16 * 7 + n] ^= 0xff;
    }
}

static void go_on(ucontext_t *context) {
    (void)context;
}

// The damages: XSTATE_BV has a component that does not exist; XCOMP_BV; a reserved word; an area that cannot be read.
enum { DAMAGES = 4 };
static void damage(ucontext_t *context, int which) {
    uint8_t *at = area(context);
    if (which == 0) at[512 + 2] = 0xff;
    if (which == 1) at[520 + 7] = 0x80;
    if (which == 2) at[568] = 1;
    if (which == 3) context->uc_mcontext.fpregs = (void *)16;
}

#elif defined __aarch64__

#define SVE(code) ".arch_extension sve\n" code "\n.arch_extension nosve"

static int vector_bytes(void) {
    uint64_t bytes;
    __asm__ volatile(SVE("rdvl %0, #1") : "=r"(bytes));
    return bytes;
}

static void hold(void) {
    __asm__ volatile(SVE("ldr z7, [%0]\nbrk #0\nstr z7, [%1]") : : "r"(pattern), "r"(found) : "v7", "memory");
}

static uint32_t *find(ucontext_t *context, uint32_t magic) {
    uint32_t *at = (uint32_t *)context->uc_mcontext.__reserved;
    while (at[0] != 0 && at[0] != magic)
        at += at[1] / 4 + (at[0] == 0x45585401 ? 4 : 0); // after an extra_context and the end of the list, the next list begins
    return at[0] == magic ? at : NULL;
}

// Changes the record for Advanced SIMD, and the upper bits in the record for SVE.
static void change(ucontext_t *context) {
    uint8_t *simd = (uint8_t *)find(context, 0x46508001), *sve = (uint8_t *)find(context, 0x53564501);
    if (sve == NULL) return;
    int bytes = *(uint16_t *)(sve + 8);
    for (int n = 0; n < bytes; n++)
        *(n < 16 ? simd + 16 + 16 * 7 + n : sve + 16 + bytes * 7 + n) ^= 0xff;
}

static void go_on(ucontext_t *context) {
    context->uc_mcontext.pc += 4;
}

// The damages: a size that does not fit the length; a length that no core has; streaming mode; an unknown record; a record without an end.
enum { DAMAGES = 5 };
static void damage(ucontext_t *context, int which) {
    uint32_t *sve = find(context, 0x53564501);
    if (which == 0) sve[1] += 16;
    if (which == 1) sve[2] = 48;
    if (which == 2) sve[2] |= 1 << 16;
    if (which == 3) sve[0] = 1;
    if (which == 4) sve[1] = 0xfffffff0;
}

static uint64_t ticks(void) {
    uint64_t now;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
}

// Spins for `ms` milliseconds with a value in z7, has Advanced SIMD write to it, and spins again.
static void clear_after(uint64_t ms) {
    uint64_t hertz;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
    uint64_t first = ticks() + hertz * ms / 1000, second = first + hertz * ms / 1000;
    __asm__ volatile(SVE("ldr z7, [%0]\n1: mrs x9, cntvct_el0\ncmp x9, %2\nb.lo 1b\nmov v7.16b, v6.16b\n"
                         "1: mrs x9, cntvct_el0\ncmp x9, %3\nb.lo 1b\nstr z7, [%1]")
                     : : "r"(pattern), "r"(found), "r"(first), "r"(second) : "x9", "v6", "v7", "memory", "cc");
}

static void clear_after_trap(void) {
    __asm__ volatile(SVE("ldr z7, [%0]\nbrk #0\nmov v7.16b, v6.16b\nstr z7, [%1]")
                     : : "r"(pattern), "r"(found) : "v6", "v7", "memory");
}

#else

// The words vstart, vl, vtype, vcsr, and the size and address of the registers. They follow the header of the record after the base registers.
static uint64_t *state(ucontext_t *context) {
    uint32_t *record = (uint32_t *)((uint8_t *)&context->uc_mcontext + 256 + 520);
    return record[0] == 0x53465457 ? (uint64_t *)(record + 2) : NULL;
}

#define V(code) ".option push\n.option arch, +v\n.option norvc\n" code "\n.option pop"

static int vector_bytes(void) {
    uint64_t bytes;
    __asm__ volatile(V("csrr %0, vlenb") : "=r"(bytes));
    return bytes;
}

static void hold(void) {
    __asm__ volatile(V("vl1re8.v v7, (%0)\nebreak\nvs1r.v v7, (%1)") : : "r"(pattern), "r"(found) : "memory");
}

static void change(ucontext_t *context) {
    uint64_t *vectors = state(context);
    if (vectors == NULL) return;
    uint8_t *registers = (uint8_t *)vectors[5];
    for (uint64_t n = 0; n < vectors[4]; n++)
        registers[7 * vectors[4] + n] ^= 0xff;
}

static void go_on(ucontext_t *context) {
    ((uint64_t *)&context->uc_mcontext)[0] += 4; // the program counter
}

// The damages: a length that no core has; an address of the registers where nothing is; a size that does not fit the length; an unknown record.
enum { DAMAGES = 4 };
static void damage(ucontext_t *context, int which) {
    uint64_t *vectors = state(context);
    if (which == 0) vectors[4] = 24;
    if (which == 1) vectors[5] = 16;
    if (which == 2) ((uint32_t *)vectors)[-1] += 16;
    if (which == 3) ((uint32_t *)vectors)[-2] = 1;
}

#endif

static int damages = -1;
static volatile int waits, is_pinned;
static int begun_on;

static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    // System calls drop the handler's own vector values. So at some time it needs no vectors any more, and goes back.
    for (time_t until = time(NULL) + 120; waits && sched_getcpu() != begun_on && time(NULL) < until;)
        continue;
    waits = waits && sched_getcpu() != begun_on;
    if (is_pinned) {
        cpu_set_t here;
        CPU_ZERO(&here);
        CPU_SET(begun_on, &here);
        sched_setaffinity(0, sizeof here, &here);
    }
    if (damages >= 0)
        damage(context, damages);
    else
        change(context);
    go_on(context);
}

static int is_changed(void) {
    for (int n = 0; n < vector_bytes(); n++)
        if (found[n] != (uint8_t)~pattern[n]) return 0;
    return 1;
}

static void in_child(const char *what, int which, int waits_pinned) {
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        damages = which;
        waits = is_pinned = waits_pinned;
        hold();
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s %d: signal %d\n", what, which, WTERMSIG(status));
    else
        printf("%s %d: exit %d\n", what, which, WEXITSTATUS(status));
    fflush(stdout);
}

#if defined __aarch64__
static int is_clear(void) {
    for (int n = 16; n < vector_bytes(); n++)
        if (found[n] != 0) return 0;
    return 1;
}
#endif

int main(void) {
    begun_on = sched_getcpu();
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    for (int n = 0; n < BYTES_MAX; n++)
        pattern[n] = n + 1;
    hold();
    printf("changed %d\n", is_changed());
    fflush(stdout);
    for (int which = 0; which < DAMAGES; which++)
        in_child("damage", which, 0);
    hold();
    printf("changed %d\n", is_changed());
#if defined __aarch64__
    clear_after(150);
    printf("clear after slices %d\n", is_clear());
    waits = 1;
    clear_after_trap();
    printf("clear after going back in a handler %d, waits %d\n", is_clear(), waits);
    fflush(stdout);
    in_child("pinned", -1, 1);
#endif
    return 0;
}
