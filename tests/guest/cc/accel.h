/* A client of an accelerator, without a library; and programs that end at the first thing that is wrong. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Of the data section that is mapped. */
#define DATA_BYTES (256 << 10)
/* STAT. */
enum { DONE = 5 };

struct registers {
    uint32_t stat, start, over, cmd, data_addr, data_size;
    uint64_t result;
    uint32_t int_ctrl, pad, custom[8];
};

struct client {
    int fd;
    volatile struct registers *registers;
    unsigned char *data;
    uint64_t told;
};

static void fail(const char *what) {
    printf("%s: %s\n", what, strerror(errno));
    exit(1);
}

static void expect(int is_right, const char *what) {
    if (!is_right) {
        printf("wrong: %s\n", what);
        exit(1);
    }
}

static struct client come(const char *accelerator) {
    char path[64];
    snprintf(path, sizeof path, "/dev/accel/%s", accelerator);
    struct client client = {.fd = open(path, O_RDWR)};
    if (client.fd < 0)
        fail(path);
    void *pages = mmap(NULL, 4096 + DATA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, client.fd, 0);
    if (pages == MAP_FAILED)
        fail("mmap");
    client.registers = pages;
    client.data = (unsigned char *)pages + 4096;
    return client;
}
