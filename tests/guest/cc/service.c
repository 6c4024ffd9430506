/* The service core, used without a library: its registers, and how kernels manage them (docs/protocols/service.md). */
#define _GNU_SOURCE
#include "expect.h"
#include "motet.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 128, WINDOW = 128, WINDOWS = 32, ALLOT = 0x4d50, BIND = 0x4d51 };
enum { CREATE = 2, DELETE = 8, OWN = 10, MUTEX = 16, DESTROY = 17, LOCK = 18, UNLOCK = 20, CONSISTENT = 21, RAISE = 42, WITHDRAW = 48 };
enum { WAITS = 1, DONE = 2, OWNER_DEAD = 130 };

/* A device, and the caller's window. */
struct device {
    int fd;
    char *registers;
    volatile uint64_t *window;
    unsigned sequence;
    long number;
};

static struct device opened(void) {
    struct device device = { .fd = open("/dev/service", O_RDWR | O_CLOEXEC), .registers = MAP_FAILED };
    if (device.fd >= 0)
        device.registers = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, device.fd, 0);
    if (device.registers == MAP_FAILED) {
        printf("no service core: %s\n", strerror(errno));
        exit(1);
    }
    return device;
}

/* A window for the calling thread. */
static void take_window(struct device *device) {
    /* Windows of ended threads become free after a while. */
    do
        device->number = ioctl(device->fd, ALLOT, -1);
    while (device->number < 0 && errno == EAGAIN && sched_yield() == 0);
    EXPECT(ioctl(device->fd, BIND, device->number), 0);
    device->window = (volatile uint64_t *)(device->registers + WINDOW * device->number);
    device->sequence = 0;
}

static void request(struct device *device, unsigned operation, unsigned object, uint32_t argument) {
    device->sequence = device->sequence % 255 + 1;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    device->window[0] = (uint64_t)device->sequence << 56 | (uint64_t)operation << 48 | (uint64_t)object << 32 | argument;
}

/* Waits for an answer with a state; sleeps if that takes long. Returns code << 32 | value. */
static uint64_t answer(struct device *device, unsigned state) {
    volatile uint32_t *parked = (volatile uint32_t *)(device->window + 2), *upper = (volatile uint32_t *)device->window + 3;
    for (unsigned looks = 1;; looks++) {
        uint64_t found = device->window[1];
        if (found >> 56 == device->sequence && (found >> 48 & 0xff) >= state) {
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            return found & 0xffffffffffff;
        }
        if (looks % 1000 == 0) {
            *parked = 1;
            syscall(SYS_futex, upper, FUTEX_WAIT, (uint32_t)(found >> 32), 0, 0, 0);
            *parked = 0;
        }
    }
}

static uint64_t ask(struct device *device, unsigned operation, unsigned object, uint32_t argument) {
    request(device, operation, object, argument);
    return answer(device, DONE);
}

static uint64_t code(uint64_t answered) {
    return answered >> 32;
}

static int ended_well(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}

/* Requests that the kernel refuses, and the owners of objects. */

static sigjmp_buf faulted;

static void on_fault(int signal) {
    siglongjmp(faulted, signal);
}

static int fault_of(volatile char *byte) {
    int signal = sigsetjmp(faulted, 1);
    if (signal == 0)
        (void)*byte;
    return signal;
}

/* A new window does not have the words that were stored there before. The end of a deleted thread does not count as the end of the next one. */
static void reused(struct device *device) {
    long page = device->number / WINDOWS, number = ioctl(device->fd, ALLOT, page);
    unsigned mutex = ask(device, MUTEX, 0, 0);
    EXPECT(code(ask(device, CREATE, number, 0)), 0);
    int bound[2];
    EXPECT(pipe(bound), 0);
    pid_t child = fork();
    if (child == 0) {
        EXPECT(ioctl(device->fd, BIND, number), 0);
        EXPECT(write(bound[1], "", 1), 1);
        pause();
    }
    EXPECT(read(bound[0], &bound[1], 1), 1);
    EXPECT(code(ask(device, DELETE, number, 0)), 0);
    for (long stored = number; stored < (page + 1) * WINDOWS; stored++)
        *(volatile uint64_t *)(device->registers + WINDOW * stored) = (uint64_t)1 << 56 | (uint64_t)LOCK << 48 | (uint64_t)mutex << 32;
    long next = ioctl(device->fd, ALLOT, page);
    EXPECT(next >= 0 && next != number, 1);
    struct device other = *device;
    other.window = (volatile uint64_t *)(device->registers + WINDOW * next);
    other.sequence = 0;
    EXPECT(other.window[0], 0);
    EXPECT(kill(child, SIGKILL), 0);
    EXPECT(ended_well(child), 0);
    EXPECT(ask(&other, OWN, 0, 0), next);
    EXPECT(ask(device, LOCK, mutex, 0), 0);
    EXPECT(ask(device, UNLOCK, mutex, 0), 0);
}

static void refusals(void) {
    struct device device = opened();
    EXPECT(mmap(0, PAGE, PROT_READ, MAP_PRIVATE, device.fd, 0) == MAP_FAILED && errno == ENODEV, 1);
    EXPECT(read(device.fd, &device, 1) == -1 && errno == EINVAL, 1);
    EXPECT(ioctl(device.fd, 0x5413, &device) == -1 && errno == ENOTTY, 1);
    EXPECT(ioctl(device.fd, BIND, 7) == -1 && errno == EINVAL, 1);
    EXPECT(ioctl(device.fd, ALLOT, PAGES) == -1 && errno == ENXIO, 1);
    signal(SIGBUS, on_fault);
    EXPECT(fault_of(device.registers + (PAGES - 1) * PAGE), SIGBUS);
    take_window(&device);
    EXPECT(ioctl(device.fd, BIND, device.number) == -1 && errno == EBUSY, 1);
    EXPECT(ask(&device, OWN, 0, 0), device.number);
    pid_t child = fork();
    if (child == 0) /* another thread */
        _exit(ioctl(device.fd, BIND, device.number) != -1 || errno != EBUSY);
    EXPECT(ended_well(child), 1);
    reused(&device);
    int given = 0;
    while (given < WINDOWS && ioctl(device.fd, ALLOT, device.number / WINDOWS) >= 0)
        given++;
    EXPECT(errno, EAGAIN);
    EXPECT(given, WINDOWS - 2); /* all windows but the caller's and that of `reused` */
}

static void strangers(void) {
    struct device device = opened();
    take_window(&device);
    unsigned mutex = ask(&device, MUTEX, 0, 0);
    EXPECT(ask(&device, LOCK, mutex, 0), 0);
    pid_t child = fork();
    if (child == 0) {
        wrong = 0;
        struct device own = opened();
        take_window(&own);
        EXPECT(code(ask(&own, UNLOCK, mutex, 0)), EINVAL);
        EXPECT(code(ask(&own, DESTROY, mutex, 0)), EINVAL);
        EXPECT(code(ask(&own, RAISE, 3, 0)), EPERM);
        _exit(wrong);
    }
    EXPECT(ended_well(child), 1);
    child = fork();
    if (child == 0) {
        /* The child shares its parent's objects, but is another thread. */
        wrong = 0;
        take_window(&device);
        EXPECT(code(ask(&device, UNLOCK, mutex, 0)), EPERM);
        _exit(wrong);
    }
    EXPECT(ended_well(child), 1);
    EXPECT(ask(&device, UNLOCK, mutex, 0), 0);
}

/* Children are killed at any moment. Their mutexes go to others, which are told so, and no thread waits for ever. */

static void killed(int rounds) {
    struct device device = opened();
    take_window(&device);
    unsigned mutex = ask(&device, MUTEX, 0, 0), dead = 0;
    volatile int *begun = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < rounds; round++) {
        *begun = 0;
        pid_t child = fork();
        if (child == 0) {
            take_window(&device);
            for (*begun = 1;;) {
                ask(&device, LOCK, mutex, 0);
                /* A random delay, so that the child does not run in step with its killer in simulated time. */
                for (volatile int wait = rand() % 16; wait > 0; wait--)
                    ;
                ask(&device, UNLOCK, mutex, 0);
            }
        }
        while (*begun == 0)
            sched_yield();
        struct timespec moment = { 0, (long)(rand() % 20000) };
        nanosleep(&moment, 0);
        kill(child, SIGKILL);
        EXPECT(ended_well(child), 0);
        uint64_t locked = ask(&device, LOCK, mutex, 0);
        if (code(locked) == OWNER_DEAD) {
            dead++;
            EXPECT(ask(&device, CONSISTENT, mutex, 0), 0);
        } else {
            EXPECT(locked, 0);
        }
        EXPECT(ask(&device, UNLOCK, mutex, 0), 0);
    }
    fprintf(stderr, "%u of %d died with the mutex\n", dead, rounds);
}

/* A program stores anything in its registers. Other programs do not notice, and its objects are free afterwards. */

static uint64_t state;

static uint64_t random_word(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void store_something(char *page) {
    uint64_t word = random_word();
    char *at = page + random_word() % PAGE;
    switch (random_word() % 4) {
    case 0: *(volatile char *)at = (char)word; break;
    case 1: *(volatile uint32_t *)((uintptr_t)at & ~3ul) = (uint32_t)word; break;
    case 2: *(volatile uint64_t *)((uintptr_t)at & ~7ul) = word; break;
    /* A valid operation, in the window of some thread. */
    default: *(volatile uint64_t *)((uintptr_t)at & ~127ul) = (word & 0xff000007000000ffull) | (random_word() % 49) << 48;
    }
}

static void fuzz(int stores, uint64_t seed) {
    struct device device = opened();
    take_window(&device);
    unsigned mutex = ask(&device, MUTEX, 0, 0);
    EXPECT(ask(&device, LOCK, mutex, 0), 0);
    pid_t child = fork();
    if (child == 0) {
        wrong = 0;
        struct device own = opened();
        state = seed;
        take_window(&own);
        for (int count = 0; count < 8; count++)
            ioctl(own.fd, ALLOT, own.number / WINDOWS);
        for (int count = 0; count < stores; count++)
            store_something(own.registers + own.number / WINDOWS * PAGE);
        _exit(wrong);
    }
    EXPECT(ended_well(child), 1);
    EXPECT(ask(&device, UNLOCK, mutex, 0), 0);
    EXPECT(code(ask(&device, UNLOCK, mutex, 0)), EPERM);
    /* All other mutexes are free again. */
    int made = 1;
    while (code(ask(&device, MUTEX, 0, 0)) == 0)
        made++;
    EXPECT(made, 1024);
}

/* Threads of all instruction sets increment shared counters. */

enum { SHARED_EACH = 64 };

static struct device shared;
static unsigned counter_mutex;
static volatile long *counter;

/* Most of the time, a thread uses a mutex of its own. */
static void *count(void *argument) {
    unsigned own_mutex = ask(&shared, MUTEX, 0, 0);
    for (long left = (long)argument; left > 0; left--) {
        int is_shared = left % SHARED_EACH == 0;
        unsigned mutex = is_shared ? counter_mutex : own_mutex;
        EXPECT(ask(&shared, LOCK, mutex, 0), 0);
        if (is_shared)
            *counter = *counter + 1;
        EXPECT(ask(&shared, UNLOCK, mutex, 0), 0);
    }
    return (void *)(long)wrong;
}

static void counted(int islands, int processes, long each) {
    shared = opened();
    take_window(&shared);
    counter_mutex = ask(&shared, MUTEX, 0, 0);
    counter = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[64];
    for (int child = 0; child < processes; child++) {
        children[child] = fork();
        if (children[child] == 0) {
            take_window(&shared);
            _exit((int)(long)motet_call_on(child % islands, count, (void *)each));
        }
    }
    for (int child = 0; child < processes; child++)
        EXPECT(ended_well(children[child]), 1);
    EXPECT(*counter, processes * (each / SHARED_EACH));
}

int main(int count, char **words) {
    const char *part = count > 1 ? words[1] : "";
    long numbers[3] = { 0 };
    for (int word = 2; word < count && word < 5; word++)
        numbers[word - 2] = atol(words[word]);
    setvbuf(stdout, 0, _IOLBF, 0);
    if (strcmp(part, "refusals") == 0) {
        refusals();
    } else if (strcmp(part, "strangers") == 0) {
        strangers();
    } else if (strcmp(part, "killed") == 0) {
        killed((int)numbers[0]);
    } else if (strcmp(part, "fuzz") == 0) {
        fuzz((int)numbers[0], (uint64_t)numbers[1]);
    } else if (strcmp(part, "counted") == 0) {
        counted((int)numbers[0], (int)numbers[1], numbers[2]);
    }
    puts(wrong ? "wrong" : "right");
    return wrong;
}
