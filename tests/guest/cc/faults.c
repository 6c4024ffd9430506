/* On every instruction set: what a handler is told of an exception, and what becomes of pages that a file no longer has. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "crossing.h"

enum { PAGE = 4096 };
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

static void cuts(void) {
    int file = memfd_create("cut", 0);
    if (ftruncate(file, 4 * PAGE) != 0) return;
    char *shared = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    volatile char *private = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    shared[0] = 1;
    for (int page = 0; page < 3; page++)
        private[page * PAGE] = 5 + page;
    (void)private[3 * PAGE];
    if (ftruncate(file, PAGE + 10) != 0) return;
    printf("what stays: %d %d\n", private[0], private[PAGE]);
    FAULT((void)private[2 * PAGE]);
    expect("written and cut off", SIGBUS, BUS_ADRERR, (char *)private + 2 * PAGE);
    FAULT((void)private[3 * PAGE]);
    expect("read and cut off", SIGBUS, BUS_ADRERR, (char *)private + 3 * PAGE);
    if (ftruncate(file, 4 * PAGE) != 0) return;
    FAULT(printf("grown again: %d %d\n", private[2 * PAGE], private[3 * PAGE]));
    private[2 * PAGE] = 9;
    if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4 * PAGE) != 0) printf("no hole\n");
    printf("a hole leaves copies: %d %d %d\n", private[0], private[2 * PAGE], shared[0]);
    munmap(shared, 4 * PAGE);
    munmap((void *)private, 4 * PAGE);
    close(file);
}

static void everything(void) { exceptions(); cuts(); }
MOTET_ON(X86) void on_x86(void) { expect_on(X86); everything(); }
MOTET_ON(ARM) void on_arm(void) { expect_on(ARM); everything(); }
MOTET_ON(RISCV) void on_riscv(void) { expect_on(RISCV); everything(); }

int main(void) {
    static const int signals[] = {SIGILL, SIGTRAP, SIGSEGV, SIGBUS};
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    setvbuf(stdout, 0, _IONBF, 0);
    for (int i = 0; i < 4; i++)
        sigaction(signals[i], &action, 0);
    on_x86();
    on_arm();
    on_riscv();
    return 0;
}
