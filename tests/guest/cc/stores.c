// Stores to registers of the FPGA that are not connected, by a program that looks at all of its registers afterwards (docs/protocols/fpga.md, "Offers",
// "Looking"); and what such stores may not do. Only AArch64 looks: elsewhere all registers are stored anyway. `stores ROUNDS [exact]`: in
// simulated time, timers interrupt when they should.
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel.h"

enum { REGISTERS = 31, FLAGS = 31, DOUBLES = 32, WORDS = 34 };

// Loads x0 to x30, the flags, d0 and d31 from `values`, stores w1 where x0 points, and keeps all of them in `found`.
void store_checked(const uint64_t *values, uint64_t *found);
#ifdef __aarch64__
__asm__(".text\n.globl store_checked\n.type store_checked, %function\nstore_checked:\n"
        "stp x29, x30, [sp, #-112]!\nstp x19, x20, [sp, #16]\nstp x21, x22, [sp, #32]\nstp x23, x24, [sp, #48]\n"
        "stp x25, x26, [sp, #64]\nstp x27, x28, [sp, #80]\nstr x1, [sp, #96]\n"
        "ldr x2, [x0, #248]\nmsr nzcv, x2\nldr d0, [x0, #256]\nldr d31, [x0, #264]\n"
        "ldp x2, x3, [x0, #16]\nldp x4, x5, [x0, #32]\nldp x6, x7, [x0, #48]\nldp x8, x9, [x0, #64]\n"
        "ldp x10, x11, [x0, #80]\nldp x12, x13, [x0, #96]\nldp x14, x15, [x0, #112]\nldp x16, x17, [x0, #128]\n"
        "ldp x18, x19, [x0, #144]\nldp x20, x21, [x0, #160]\nldp x22, x23, [x0, #176]\nldp x24, x25, [x0, #192]\n"
        "ldp x26, x27, [x0, #208]\nldp x28, x29, [x0, #224]\nldr x30, [x0, #240]\nldp x0, x1, [x0]\n"
        "str w1, [x0]\n"
        "stp x0, x1, [sp, #-16]!\nldr x0, [sp, #112]\n"
        "stp x2, x3, [x0, #16]\nstp x4, x5, [x0, #32]\nstp x6, x7, [x0, #48]\nstp x8, x9, [x0, #64]\n"
        "stp x10, x11, [x0, #80]\nstp x12, x13, [x0, #96]\nstp x14, x15, [x0, #112]\nstp x16, x17, [x0, #128]\n"
        "stp x18, x19, [x0, #144]\nstp x20, x21, [x0, #160]\nstp x22, x23, [x0, #176]\nstp x24, x25, [x0, #192]\n"
        "stp x26, x27, [x0, #208]\nstp x28, x29, [x0, #224]\nstr x30, [x0, #240]\n"
        "mrs x2, nzcv\nstr x2, [x0, #248]\nstr d0, [x0, #256]\nstr d31, [x0, #264]\nldp x2, x3, [sp], #16\nstp x2, x3, [x0]\n"
        "ldp x19, x20, [sp, #16]\nldp x21, x22, [sp, #32]\nldp x23, x24, [sp, #48]\n"
        "ldp x25, x26, [sp, #64]\nldp x27, x28, [sp, #80]\nldp x29, x30, [sp], #112\nret\n");
#else
void store_checked(const uint64_t *values, uint64_t *found) {
    *(volatile uint32_t *)(uintptr_t)values[0] = (uint32_t)values[1];
    memcpy(found, values, WORDS * sizeof *values);
}
#endif

// Registers that are mapped from now on, and cannot be written.
static volatile struct registers *registers_of(const char *accelerator) {
    volatile struct registers *registers = come(accelerator).registers;
    expect(registers->stat == 0, "registers that nobody has stored to");
    return registers;
}

// A store after which the program is as it was before.
static void store(volatile uint32_t *to, uint32_t seed) {
    uint64_t values[WORDS], found[WORDS];
    for (int at = 0; at < WORDS; at++) {
        seed = seed * 1664525 + 1013904223;
        values[at] = (uint64_t)seed << 32 | ~seed * 2654435761u;
    }
    values[0] = (uintptr_t)to;
    values[FLAGS] = (uint64_t)(seed >> 28) << 28;
    memset(found, 0, sizeof found);
    store_checked(values, found);
    for (int at = 0; at < WORDS; at++)
        if (values[at] != found[at]) {
            printf("register %d is %llx instead of %llx\n", at, (unsigned long long)found[at],
                   (unsigned long long)values[at]);
            exit(1);
        }
    expect(*to == (uint32_t)values[1], "what was stored is not there");
}

// Whoever has stored to `cmd` computes, so that it is not kept waiting for.
static void compute(volatile struct registers *registers) {
    registers->cmd = 0;
    registers->data_addr = 0;
    registers->data_size = 1;
    registers->custom[0] = 4096;
    *(volatile unsigned char *)&registers->start = 1;
    while (registers->start || !registers->over)
        ;
    expect(registers->stat == DONE, "a frame");
}

static sigjmp_buf refused;
static volatile int alarms;
static volatile uint32_t *watched;
static volatile uint32_t seen;

static void on_fault(int number) {
    siglongjmp(refused, number);
}

static void on_alarm(int number) {
    (void)number;
    seen = *watched;
    alarms++;
}

static int is_refused(volatile uint32_t *to) {
    int number = sigsetjmp(refused, 1);
    if (number == 0)
        *to = 0;
    return number == SIGSEGV;
}

// A page that is read-only for another reason, as its frame is shared with a child.
static void store_to_shared(uint32_t seed) {
    uint32_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int ends[2], status;
    page[3] = 7;
    if (pipe(ends))
        fail("pipe");
    pid_t child = fork();
    if (child == 0) {
        char byte;
        read(ends[0], &byte, 1);
        exit(page[3] != 7);
    }
    store(&page[3], seed);
    write(ends[1], "w", 1);
    expect(waitpid(child, &status, 0) == child && status == 0, "the child's page");
    close(ends[0]);
    close(ends[1]);
    munmap(page, 4096);
}

// Registers that are no longer to be written, although they are connected, or could be.
static void protect(volatile struct registers *registers, volatile struct registers *other) {
    void *pages = (void *)registers;
    // The registers alone, or all that is mapped.
    for (size_t bytes = 4096; bytes <= 4096 + DATA_BYTES; bytes += DATA_BYTES) {
        // The kernel has been asked since the mappings changed last.
        compute(other);
        usleep(2000);
        compute(registers);
        expect(!mprotect(pages, bytes, PROT_READ) && is_refused(&registers->cmd), "a store to what may only be read");
        expect(!mprotect(pages, bytes, PROT_READ | PROT_WRITE), "mprotect");
        // Now the other one has the region, and these registers are read-only until they are connected again.
        compute(other);
        usleep(2000);
        expect(!mprotect(pages, bytes, PROT_READ) && is_refused(&registers->cmd), "a request for what may only be read");
        expect(!mprotect(pages, bytes, PROT_READ | PROT_WRITE), "mprotect");
        compute(registers);
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    signal(SIGSEGV, on_fault);
    signal(SIGALRM, on_alarm);
    volatile struct registers *clients[] = {registers_of("qam16"), registers_of("qam16"), registers_of("fft1024")};
    for (int round = 0; round < rounds; round++) {
        // The other client of that accelerator: a region that is offered. The third one's: a region that becomes it.
        for (int at = 0; at < 3; at++) {
            store(&clients[at]->cmd, 31 * round + at);
            if (at < 2)
                compute(clients[at]);
            usleep(2000);
        }
        store_to_shared(17 * round);
        // Signals come while the core looks, and are handled before the store.
        struct itimerval soon = {.it_value = {.tv_usec = 100}};
        int before = alarms;
        watched = &clients[0]->cmd;
        setitimer(ITIMER_REAL, &soon, NULL);
        store(&clients[0]->cmd, 5 * round);
        expect(argc < 3 || (alarms == before + 1 && seen != *watched), "a signal while a region becomes another accelerator");
        while (alarms == before)
            ;
        compute(clients[0]);
        usleep(2000);
    }
    protect(clients[0], clients[1]);
    printf("right\n");
    return 0;
}
