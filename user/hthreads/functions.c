/* The functions of devices that are threads, in software: for back ends and machines without such devices. Device and software compute the same in
 * the same order (docs/protocols/hardware-threads.md). */
#include "internal.h"

#include <string.h>

enum { NOTHING, SORTS, FILTERS, COUNT_MAX = 1 << 24, WRITES = 1 };

static const char *const NAMES[] = {NULL, "sort", "filter"};

unsigned ht_does(const char *name) {
    for (unsigned does = SORTS; does <= FILTERS; does++)
        if (strcmp(name, NAMES[does]) == 0)
            return does;
    return NOTHING;
}

static size_t element_bytes(unsigned does, const hthread_work_t *work) { return does == SORTS && work->kind == HTHREAD_I64 ? 8 : 4; }
static uint32_t blocks_of(const hthread_work_t *work) { return work->blocks ? work->blocks : 1; }

static int is_known(unsigned does, const hthread_work_t *work) {
    if (work->count > COUNT_MAX || blocks_of(work) > COUNT_MAX)
        return 0;
    if (does == SORTS)
        return work->kind <= HTHREAD_I64;
    return work->kind == HTHREAD_FIR && work->taps >= 1 && work->taps <= HTHREAD_TAPS && work->shift < 64;
}

/* If the argument is not valid, it is the only region. */
unsigned ht_regions(unsigned does, const hthread_work_t *work, struct region *regions) {
    unsigned count = 1;
    regions[0] = (struct region){(uintptr_t)work, sizeof *work, 0};
    uint64_t bytes = (uint64_t)work->count * blocks_of(work) * element_bytes(does, work);
    if (!is_known(does, work))
        return count;
    if (bytes) {
        regions[count++] = (struct region){(uintptr_t)work->data, bytes, does == SORTS ? WRITES : 0};
        if (does == FILTERS)
            regions[count++] = (struct region){(uintptr_t)work->out, bytes, WRITES};
    }
    if (work->done)
        regions[count++] = (struct region){(uintptr_t)work->done, sizeof *work->done, WRITES};
    return count;
}

/* Moves element `at` of a heap of `end` elements down to its place. */
#define SINK(name, type)                                                                                               \
    static void name(type *elements, size_t at, size_t end) {                                                          \
        type sinking = elements[at];                                                                                   \
        for (size_t below; (below = 2 * at + 1) < end; at = below) {                                                   \
            if (below + 1 < end && elements[below + 1] > elements[below])                                              \
                below++;                                                                                               \
            if (elements[below] <= sinking)                                                                            \
                break;                                                                                                 \
            elements[at] = elements[below];                                                                            \
        }                                                                                                              \
        elements[at] = sinking;                                                                                        \
    }                                                                                                                  \
    static void name##_all(type *elements, size_t count) {                                                             \
        for (size_t at = count / 2; at-- > 0;)                                                                         \
            name(elements, at, count);                                                                                 \
        for (size_t last = count; last-- > 1;) {                                                                       \
            type largest = elements[0];                                                                                \
            (elements[0] = elements[last], elements[last] = largest);                                                  \
            name(elements, 0, last);                                                                                   \
            if (last % 1024 == 0)                                                                                      \
                hthread_testcancel();                                                                                  \
        }                                                                                                              \
    }
SINK(sort_u32, uint32_t)
SINK(sort_i64, int64_t)

static void filter(const hthread_work_t *work, size_t first) {
    const int32_t *data = work->data;
    int32_t *out = work->out;
    for (size_t at = first; at < first + work->count; at++) {
        uint64_t sum = 0;
        for (size_t tap = 0; tap < work->taps && tap <= at; tap++)
            sum += (uint64_t)((int64_t)work->coefficients[tap] * data[at - tap]);
        out[at] = (int32_t)((int64_t)sum >> work->shift);
        if (at % 4096 == 0)
            hthread_testcancel();
    }
}

static void work_on(unsigned does, const hthread_work_t *work, size_t first) {
    if (does == FILTERS)
        filter(work, first);
    else if (work->kind == HTHREAD_I64)
        sort_i64_all((int64_t *)work->data + first, work->count);
    else
        sort_u32_all((uint32_t *)work->data + first, work->count);
}

static int is_misaligned(const void *address, size_t bytes) { return (uintptr_t)address % bytes != 0; }

static void *be(unsigned does, hthread_work_t *work) {
    size_t bytes = element_bytes(does, work);
    int error = !is_known(does, work) || is_misaligned(work->data, bytes) || (does == FILTERS && is_misaligned(work->out, bytes)) ? EINVAL : 0;
    uint32_t block = 0, blocks = blocks_of(work);
    for (; !error && block < blocks; block++) {
        hthread_testcancel();
        if (work->mutex.handle && (error = hthread_mutex_lock(&work->mutex)) != 0)
            break;
        work_on(does, work, (size_t)block * work->count);
        if (work->done)
            ++*work->done;
        if (work->condition.handle)
            error = hthread_cond_broadcast(&work->condition);
        if (!error && work->mutex.handle)
            error = hthread_mutex_unlock(&work->mutex);
    }
    return (void *)(intptr_t)(error ? -(error == EPERM ? EINVAL : error) : (int)block);
}

static void *sort_thread(void *work) { return be(SORTS, work); }
static void *filter_thread(void *work) { return be(FILTERS, work); }

void *(*ht_function(unsigned does))(void *) { return does == SORTS ? sort_thread : filter_thread; }
