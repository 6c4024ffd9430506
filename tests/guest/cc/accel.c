// Accelerators of an FPGA, used without a library: their results, jobs that continue after a preemption, and requests that are refused.
#define _GNU_SOURCE
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel.h"

#define RESULTS (128 << 10)
#define SET_PRIORITY 0x4d60
#define MEMORY 0x4d70
enum { PREEMPTED = 4 };
enum { RUNNING = 3, FAILED = 6 };

static void go(struct client *client) {
    munmap((void *)client->registers, 4096 + DATA_BYTES);
    close(client->fd);
}

static void begin(struct client *client, uint32_t command, uint32_t size) {
    volatile struct registers *registers = client->registers;
    registers->cmd = command;
    registers->data_addr = 0;
    registers->data_size = size;
    registers->custom[0] = RESULTS;
    registers->int_ctrl = 1;
    *(volatile unsigned char *)&registers->start = 1;
}

static void await(struct client *client) {
    volatile struct registers *registers = client->registers;
    while (registers->start || !registers->over) {
        struct pollfd asked = {.fd = client->fd, .events = POLLIN};
        uint64_t told = 0;
        if (poll(&asked, 1, 10000) != 1 || read(client->fd, &told, 8) != 8)
            fail("nothing comes of it");
        client->told |= told;
    }
}

static void fill(unsigned char *data, int len, uint32_t seed) {
    for (int at = 0; at < len; at++) {
        seed = seed * 1664525 + 1013904223;
        data[at] = seed >> 24;
    }
}

// 16-QAM of the paper's frame, several times, while others do the same.
static void qam(void) {
    static const int16_t levels[] = {-15543, -5181, 15543, 5181};
    for (int round = 0; round < 8; round++) {
        struct client client = come("qam16");
        int len = 18800 / 8;
        fill(client.data, len, round + getpid());
        begin(&client, 0, len);
        await(&client);
        expect(client.registers->stat == DONE && client.registers->result == 4700 * 4, "status of a mapping");
        for (int point = 0; point < 4700; point++) {
            int bits = client.data[point / 2] >> (point % 2 ? 0 : 4) & 15;
            int16_t *found = (int16_t *)(client.data + RESULTS) + 2 * point;
            expect(found[0] == levels[bits >> 2] && found[1] == levels[bits & 3], "a point");
        }
        go(&client);
    }
}

// Two clients of one region: the less urgent one is stopped, continues, and gets the same result. It works until it has been stopped: whenever
// it runs, it says so, and the urgent one wants the region.
static void preemption(void) {
    static unsigned char expected[15 * 8192];
    struct client alone = come("fft512");
    fill(alone.data, sizeof expected, 7);
    begin(&alone, 0, sizeof expected);
    await(&alone);
    memcpy(expected, alone.data + RESULTS, sizeof expected);
    go(&alone);
    int ends[2];
    if (pipe(ends))
        fail("pipe");
    pid_t child = fork();
    if (child == 0) {
        struct client client = come("fft512");
        fill(client.data, sizeof expected, 7);
        for (int round = 0; round < 100 && !(client.told & PREEMPTED); round++) {
            memset(client.data + RESULTS, 0, sizeof expected);
            begin(&client, 0, sizeof expected);
            while (client.registers->stat != RUNNING && (client.registers->start || !client.registers->over))
                usleep(1000);
            write(ends[1], "r", 1);
            await(&client);
            expect(client.registers->stat == DONE, "status of a transform that was stopped");
            expect(!memcmp(expected, client.data + RESULTS, sizeof expected), "result of a transform that was stopped");
        }
        expect(client.told & PREEMPTED, "nobody said that it was stopped");
        exit(0);
    }
    close(ends[1]);
    struct client urgent = come("fft1024");
    if (ioctl(urgent.fd, SET_PRIORITY, 0))
        fail("priority");
    fill(urgent.data, 4096, 9);
    for (char byte; read(ends[0], &byte, 1) == 1;) {
        begin(&urgent, 0, 4096);
        await(&urgent);
        expect(urgent.registers->stat == DONE, "status of the urgent transform");
    }
    close(ends[0]);
    int status;
    go(&urgent);
    if (waitpid(child, &status, 0) != child || status)
        fail("the stopped client");
}

// Clients are killed at any moment. The next clients must not notice.
static void killed(void) {
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            struct client client = come(round % 2 ? "fft512" : "fft1024");
            fill(client.data, 15 * 8192, 1);
            for (;;) {
                begin(&client, 0, 15 * 8192);
                await(&client);
            }
        }
        usleep(1500 * round);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    struct client client = come("fft512");
    for (int at = 0; at < 3 * 65536; at++)
        expect(client.data[at] == 0, "another's data are there");
    go(&client);
    preemption();
    qam();
}

// Who opens waits for interfaces of clients that have gone.
static void opened_again(void) {
    for (int round = 0; round < 300; round++) {
        int fd = open("/dev/accel/fft512", O_RDWR);
        expect(fd >= 0, "an interface after others have been given back");
        close(fd);
    }
    struct client clients[64];
    int opened = 0;
    while (opened < 64 && (clients[opened].fd = open("/dev/accel/fft512", O_RDWR)) >= 0)
        opened++;
    expect(opened > 0 && opened < 64 && errno == ENOSPC, "more interfaces than there are");
    while (opened-- > 0)
        close(clients[opened].fd);
}

// Registers that a program maps executable are fetched by nobody, whether they have been mapped before or not.
static void not_executed(volatile struct registers *registers) {
    for (int mapped = 0; mapped < 2; mapped++) {
        pid_t child = fork();
        if (child == 0) {
            if (mapped)
                (void)registers->stat;
            mprotect((void *)registers, 4096, PROT_READ | PROT_EXEC);
            ((void (*)(void))registers)();
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "registers that are executed");
    }
}

static void refused(void) {
    struct client client = come("fft512");
    opened_again();
    not_executed(client.registers);
    expect(client.registers->stat == 0 && client.registers->over == 0, "registers that nobody has stored to");
    begin(&client, 0, 6);
    await(&client);
    expect(client.registers->stat == (FAILED | 1 << 8), "a wrong size");
    begin(&client, 9, 4096);
    await(&client);
    expect(client.registers->stat == (FAILED | 3 << 8), "a wrong command");
    begin(&client, 0, DATA_BYTES + 8192);
    await(&client);
    expect(client.registers->stat == (FAILED | 2 << 8), "data of others");
    expect(ioctl(client.fd, SET_PRIORITY, 40) == -1 && errno == EINVAL, "a wrong priority");
    expect(ioctl(client.fd, 0x4d6f, 0) == -1 && errno == ENOTTY, "an unknown request");
    expect(write(client.fd, "x", 1) == -1 && errno == EINVAL, "writing");
    begin(&client, 0, 4096);
    await(&client);
    expect(client.registers->stat == DONE, "what comes after errors");
    go(&client);
    expect(open("/dev/accel/none", O_RDWR) == -1, "an unknown accelerator");
}

static sigjmp_buf failed;

static void on_bus(int signal) {
    (void)signal;
    siglongjmp(failed, 1);
}

// The configuration port fails once.
static void port(void) {
    struct sigaction action = {.sa_handler = on_bus};
    sigaction(SIGBUS, &action, NULL);
    struct client client = come("qam16");
    if (!sigsetjmp(failed, 1)) {
        begin(&client, 0, 16);
        expect(0, "a port that fails");
    }
    expect(client.registers->stat == (FAILED | 4 << 8), "status of a request that failed");
    begin(&client, 0, 16);
    await(&client);
    expect(client.registers->stat == DONE, "what comes after a failure");
    go(&client);
}

static int give(int vm, uint64_t start, uint64_t bytes, int fd) {
    uint64_t words[] = {start, bytes, fd, 0};
    return ioctl(vm, MEMORY, words);
}

// A client whose interface a virtual machine does not take, and one whose machine has ended, have their own data section as before.
static void machines(void) {
    struct client client = come("qam16");
    int vm = open("/dev/vm", O_RDWR), memory = memfd_create("memory", 0);
    if (vm < 0 || ftruncate(memory, 8192))
        fail("/dev/vm");
    expect(give(vm, 0x18000000, 8192, memory) == 0, "memory of a machine");
    expect(give(vm, 0x18000000, 8192, client.fd) == -1 && errno == EINVAL, "an interface where memory is");
    begin(&client, 0, 4096);
    await(&client);
    expect(client.registers->stat == DONE, "a job after a machine has not taken the interface");
    expect(give(vm, 0x19000000, 8192, client.fd) == 0, "an interface of a machine");
    close(vm);
    begin(&client, 0, 4096);
    await(&client);
    expect(client.registers->stat == DONE, "a job after the machine has ended");
    go(&client);
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0); /* a line is one write: several of these programs may run at once */
    if (!strcmp(part, "qam"))
        qam();
    else if (!strcmp(part, "preemption"))
        preemption();
    else if (!strcmp(part, "killed"))
        killed();
    else if (!strcmp(part, "refused"))
        refused();
    else if (!strcmp(part, "port"))
        port();
    else if (!strcmp(part, "machines"))
        machines();
    else
        return 2;
    puts("right");
    return 0;
}
