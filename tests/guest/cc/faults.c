/* On every instruction set: what a handler is told of an exception. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>

#include "crossing.h"

#define BAD_ADDRESS 0x00f0000000001234 /* which no instruction set of these has with 48 bits */

#if defined(__x86_64__)
#define ILLEGAL __asm__ volatile("ud2")
#define BREAK __asm__ volatile("int3")
static const int illegal_code = 2 /* ILL_ILLOPN */, break_code = SI_KERNEL, bad_code = SI_KERNEL;
#elif defined(__aarch64__)
#define ILLEGAL __asm__ volatile(".inst 0")
#define BREAK __asm__ volatile("brk #0")
static const int illegal_code = 1 /* ILL_ILLOPC */, break_code = 1 /* TRAP_BRKPT */, bad_code = SEGV_MAPERR;
#else
#define ILLEGAL __asm__ volatile(".word 0")
#define BREAK __asm__ volatile("ebreak")
static const int illegal_code = 1, break_code = 1, bad_code = SEGV_MAPERR;
#endif

static struct { int signal, code; void *address; } told;
static sigjmp_buf back;

static void handle(int signal, siginfo_t *info, void *context) {
    (void)context;
    told.signal = signal;
    told.code = info->si_code;
    told.address = info->si_addr;
    siglongjmp(back, 1);
}

static void expect(const char *what, int signal, int code, const void *address) {
    if (told.signal == signal && told.code == code && told.address == address) printf("%s: as it should be\n", what);
    else printf("%s: signal %d, code %d, address %p\n", what, told.signal, told.code, told.address);
}

#define FAULT(action)                                                                                                  \
    do {                                                                                                               \
        told.signal = 0;                                                                                               \
        if (sigsetjmp(back, 1) == 0) { action; }                                                                       \
    } while (0)
/* The place of the instruction is told where there is one. */
#define PLACE(code) ((code) == SI_KERNEL ? 0 : told.address)

static void exceptions(void) {
    FAULT(ILLEGAL);
    expect("illegal instruction", SIGILL, illegal_code, PLACE(illegal_code));
    if (told.address == 0) printf("the place of an illegal instruction is not told\n");
    FAULT(BREAK);
    expect("breakpoint", SIGTRAP, break_code, PLACE(break_code));
    if (break_code != SI_KERNEL && told.address == 0) printf("the place of a breakpoint is not told\n");
    FAULT(*(volatile int *)BAD_ADDRESS = 1);
    expect("no address", SIGSEGV, bad_code, bad_code == SI_KERNEL ? 0 : (void *)BAD_ADDRESS);
    FAULT(*(volatile int *)8 = 1);
    expect("nothing there", SIGSEGV, SEGV_MAPERR, (void *)8);
}

static void everything(void) { exceptions(); }
MOTET_ON(X86) void on_x86(void) { expect_on(X86); everything(); }
MOTET_ON(ARM) void on_arm(void) { expect_on(ARM); everything(); }
MOTET_ON(RISCV) void on_riscv(void) { expect_on(RISCV); everything(); }

int main(void) {
    static const int signals[] = {SIGILL, SIGTRAP, SIGSEGV};
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    setvbuf(stdout, 0, _IONBF, 0);
    for (int i = 0; i < 3; i++)
        sigaction(signals[i], &action, 0);
    on_x86();
    on_arm();
    on_riscv();
    return 0;
}
