/* malloc where threads run on several islands. musl's allocator keeps everything in one context; here there are several,
 * heaps, and it uses the one that __heap points to (its files are compiled with other names for that: libc.rs). malloc uses
 * a heap of the instruction set that it is called on, so that small blocks of different islands never share a page, and a
 * page lies near the island that touches it first. motet_malloc_on uses one of the island's, whose pages lie there. */
#define __malloc_context (*__heap)

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "meta.h"

enum { ISAS = 3, ISLANDS_MAX = 8, HEAPS = ISAS + ISLANDS_MAX };
enum { MPOL_PREFERRED = 1, SYS_MOTET_ISLAND = 0x4d01 };

#if defined(__x86_64__)
enum { OWN = 0 };
#elif defined(__aarch64__)
enum { OWN = 1 };
#elif defined(__riscv)
enum { OWN = 2 };
#endif

/* __heap itself is defined where musl defines the context. */
static struct malloc_context heaps[HEAPS];
static volatile int heap_lock[1];

void *__heap_malloc(size_t);
void __heap_free(void *);
void *__heap_realloc(void *, size_t);
void *__heap_aligned_alloc(size_t, size_t);

/* What musl's files do to lock: the lock is held already. */
void __heap_no_lock(volatile int *lock)
{
	(void)lock;
}

void __malloc_atfork(int who)
{
	if (who < 0)
		LOCK(heap_lock);
	else if (who > 0)
		heap_lock[0] = 0;
	else
		UNLOCK(heap_lock);
}

static void enter(void)
{
	if (libc.need_locks)
		LOCK(heap_lock);
}

static void leave(void)
{
	UNLOCK(heap_lock);
}

/* All heaps have the first one's secret, because musl compares it without the lock; only that one uses brk. */
static void use(unsigned heap)
{
	struct malloc_context *next = &heaps[heap];
	if (!next->init_done && __heap && __heap->init_done) {
		next->secret = __heap->secret;
#ifndef PAGESIZE
		next->pagesize = __heap->pagesize;
#endif
		next->brk = -1;
		next->init_done = 1;
	}
	__heap = next;
}

/* Where the number of a block's heap is: in the padding of the page that describes the block. */
static unsigned *owner_of(const unsigned char *block)
{
	_Static_assert(offsetof(struct meta_area, slots) - offsetof(struct meta_area, nslots) == 8, "padding");
	size_t offset = block[-4] ? *(const uint32_t *)(block - 8) : *(const uint16_t *)(block - 2);
	const struct group *group = (const void *)(block - UNIT * offset - UNIT);
	struct meta_area *area = (void *)((uintptr_t)group->meta & -4096);
	return (unsigned *)&area->nslots + 1;
}

static void use_owner_of(const void *block)
{
	unsigned heap = *owner_of(block);
	if (heap >= HEAPS)
		a_crash();
	use(heap);
}

/* The block is of the present heap. */
static void *own(void *block)
{
	if (block)
		*owner_of(block) = __heap - heaps;
	leave();
	return block;
}

void *malloc(size_t size)
{
	enter();
	use(OWN);
	return own(__heap_malloc(size));
}

void *motet_malloc_on(int island, size_t size)
{
	if (island < 0 || island >= ISLANDS_MAX) {
		errno = EINVAL;
		return 0;
	}
	enter();
	use(ISAS + island);
	return own(__heap_malloc(size));
}

void *__heap_aligned(size_t align, size_t size)
{
	enter();
	use(OWN);
	return own(__heap_aligned_alloc(align, size));
}

/* Stays in its heap, also when it moves. */
void *realloc(void *block, size_t size)
{
	if (!block)
		return malloc(size);
	enter();
	use_owner_of(block);
	return own(__heap_realloc(block, size));
}

void free(void *block)
{
	if (!block)
		return;
	enter();
	use_owner_of(block);
	__heap_free(block);
	leave();
}

/* Memory for the present heap. */
void *__heap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
	void *memory = mmap(at, size, protection, flags, file, offset);
	long island = __heap - heaps - ISAS;
	if (memory == MAP_FAILED || island < 0 || __syscall(SYS_MOTET_ISLAND) < 0)
		return memory;
	unsigned long nodes = 1ul << island;
	long result = __syscall(SYS_mbind, memory, size, MPOL_PREFERRED, &nodes, 8 * sizeof nodes + 1, 0);
	if (result == 0)
		return memory;
	munmap(memory, size);
	errno = -result; /* There is no such island. */
	return MAP_FAILED;
}
