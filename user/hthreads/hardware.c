/* The back end `hardware`: requests to the service core, by registers (docs/protocols/service.md). */
#include "hardware.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Threads poll for about as long as sleeping and waking take. With less, a queue of sleeping threads would never get empty. */
enum { WINDOW_BYTES = 128, MAKE_WINDOW = 0x4d50, TAKE_WINDOW = 0x4d51, BECOME = 0x4d52, CANCEL = 0x4d53, POLLS = 400 };

static int device;
static char *registers;

/* Nothing to do: the core sees the store. */
static void deliver(struct thread *self, unsigned where) { (void)self, (void)where; }

static const struct way by_registers = {deliver, POLLS};

int ht_hardware_ask(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value) {
    struct thread *self = ht_me();
    return self ? ht_request(self, ht_word(operation, object, argument), &by_registers, 0, deadline, value) : EAGAIN;
}

int __attribute__((noinline, cold)) ht_hardware_finish(struct thread *self) { return ht_code(ht_await(self, POLLS, NULL)); }

static inline int exchange(enum operation operation, uint32_t mutex) {
    struct thread *self = ht_me();
    return __builtin_expect(self != NULL, 1) ? ht_hardware_exchange(self, operation, mutex) : EAGAIN;
}

int ht_hardware_lock(uint32_t mutex) { return exchange(LOCK, mutex); }
int ht_hardware_try_lock(uint32_t mutex) { return exchange(TRY_LOCK, mutex); }
int ht_hardware_unlock(uint32_t mutex) { return exchange(UNLOCK, mutex); }

struct thread *ht_hardware_make(void) {
    int number = ioctl(device, MAKE_WINDOW, -1L);
    if (number < 0 || number >= THREADS)
        return NULL;
    struct thread *thread = ht_threads + number;
    struct window *window = (struct window *)(registers + (size_t)WINDOW_BYTES * (unsigned)number);
    *thread = (struct thread){.window = window, .sequence = SEQUENCE_FIRST};
    return thread;
}

int ht_hardware_enter(struct thread *thread) { return ioctl(device, TAKE_WINDOW, (long)ht_number(thread)) == 0 ? 0 : errno; }

/* Nothing to do: the core frees a window when its kernel thread has ended and it will not be joined, or by DELETE. */
void ht_hardware_leave(struct thread *thread) { (void)thread; }

int ht_hardware_become(struct thread *thread, unsigned does, const hthread_work_t *work) {
    struct {
        uint32_t does, number;
        uint64_t argument, count;
        struct region regions[4];
    } asked = {.does = does, .number = ht_number(thread), .argument = (uintptr_t)work};
    asked.count = ht_regions(does, work, asked.regions);
    return ioctl(device, BECOME, &asked) == 0 ? 0 : errno;
}

int ht_hardware_stop(struct thread *thread) { return ioctl(device, CANCEL, (long)ht_number(thread)) == 0 ? 0 : errno; }

int ht_hardware_open(const char *words) {
    if (*words)
        return EINVAL;
    device = open("/dev/service", O_RDWR | O_CLOEXEC);
    if (device < 0)
        return errno;
    registers = mmap(NULL, (size_t)WINDOW_BYTES * THREADS, PROT_READ | PROT_WRITE, MAP_SHARED, device, 0);
    return registers == MAP_FAILED ? errno : 0;
}

const struct back_end ht_hardware = OF_CORE("hardware", ht_hardware_lock, ht_hardware_try_lock, ht_hardware_unlock,
                                                   ht_hardware_ask, ht_hardware_become);
