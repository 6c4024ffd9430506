/*
 * Atomic operations that the compiler calls functions for (LLVM Atomics, "Libcalls: __atomic_*"). Up to 8 bytes, where they are aligned, they are those that the compiler
 * writes itself; all others, 16 bytes too, are done under a lock on every instruction set: only some have instructions for them, and whoever uses
 * other means than a lock would not be kept out by it. A handler of a signal must not use them, as with other libraries.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "lock.h"

#define LOCKS 64
/* Each in a cache line of its own. */
static struct { _Alignas(64) volatile int lock[1]; } locks[LOCKS];

static volatile int *lock_of(const volatile void *object)
{
	uintptr_t address = (uintptr_t)object / 16;
	return locks[(address ^ address / LOCKS) % LOCKS].lock;
}

/* By their names in the object file: the compiler has its own ideas of functions with these names. */
#define NAMED(name) __asm__("__atomic_" name)

int motet_is_lock_free(size_t, const volatile void *) NAMED("is_lock_free");
void motet_load(size_t, void *, void *, int) NAMED("load");
void motet_store(size_t, void *, void *, int) NAMED("store");
void motet_exchange(size_t, void *, void *, void *, int) NAMED("exchange");
_Bool motet_compare_exchange(size_t, void *, void *, void *, int, int) NAMED("compare_exchange");

int motet_is_lock_free(size_t size, const volatile void *object)
{
	return (size == 1 || size == 2 || size == 4 || size == 8) && (uintptr_t)object % size == 0;
}

#define EACH(what) \
	if (motet_is_lock_free(size, object)) \
		switch (size) { what(uint8_t) what(uint16_t) what(uint32_t) what(uint64_t) }

void motet_load(size_t size, void *object, void *result, int order)
{
#define LOAD(type) case sizeof(type): *(type *)result = __atomic_load_n((type *)object, __ATOMIC_SEQ_CST); return;
	EACH(LOAD)
	volatile int *lock = lock_of(object);
	LOCK(lock);
	memcpy(result, object, size);
	UNLOCK(lock);
}

void motet_store(size_t size, void *object, void *value, int order)
{
#define STORE(type) case sizeof(type): __atomic_exchange_n((type *)object, *(type *)value, __ATOMIC_SEQ_CST); return;
	EACH(STORE)
	volatile int *lock = lock_of(object);
	LOCK(lock);
	memcpy(object, value, size);
	UNLOCK(lock);
}

void motet_exchange(size_t size, void *object, void *value, void *result, int order)
{
#define EXCHANGE(type) case sizeof(type): \
	*(type *)result = __atomic_exchange_n((type *)object, *(type *)value, __ATOMIC_SEQ_CST); return;
	EACH(EXCHANGE)
	volatile int *lock = lock_of(object);
	LOCK(lock);
	/* The result may be where the value is. */
	for (size_t i = 0; i < size; i++) {
		unsigned char old = ((unsigned char *)object)[i];
		((unsigned char *)object)[i] = ((unsigned char *)value)[i];
		((unsigned char *)result)[i] = old;
	}
	UNLOCK(lock);
}

_Bool motet_compare_exchange(size_t size, void *object, void *expected, void *value, int success, int failure)
{
#define COMPARE_EXCHANGE(type) case sizeof(type): return __atomic_compare_exchange_n( \
	(type *)object, (type *)expected, *(type *)value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	EACH(COMPARE_EXCHANGE)
	volatile int *lock = lock_of(object);
	LOCK(lock);
	_Bool same = !memcmp(object, expected, size);
	if (same)
		memcpy(object, value, size);
	else
		memcpy(expected, object, size);
	UNLOCK(lock);
	return same;
}

#define SIZED(size, type) \
	type __atomic_load_##size(void *object, int order) \
	{ \
		type result; \
		motet_load(size, object, &result, order); \
		return result; \
	} \
	void __atomic_store_##size(void *object, type value, int order) { motet_store(size, object, &value, order); } \
	type __atomic_exchange_##size(void *object, type value, int order) \
	{ \
		type result; \
		motet_exchange(size, object, &value, &result, order); \
		return result; \
	} \
	_Bool __atomic_compare_exchange_##size(void *object, void *expected, type value, int success, int failure) \
	{ \
		return motet_compare_exchange(size, object, expected, &value, success, failure); \
	} \
	CHANGED(size, type, add, old + value) \
	CHANGED(size, type, sub, old - value) \
	CHANGED(size, type, and, old & value) \
	CHANGED(size, type, or, old | value) \
	CHANGED(size, type, xor, old ^ value) \
	CHANGED(size, type, nand, ~(old & value))

#define CHANGED(size, type, operation, changed) \
	type __atomic_fetch_##operation##_##size(void *object, type value, int order) \
	{ \
		type old = __atomic_load_##size(object, order), new; \
		do \
			new = changed; \
		while (!motet_compare_exchange(size, object, &old, &new, order, order)); \
		return old; \
	}

SIZED(1, uint8_t)
SIZED(2, uint16_t)
SIZED(4, uint32_t)
SIZED(8, uint64_t)
SIZED(16, unsigned __int128)
