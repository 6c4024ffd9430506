/* In a file of its own, so that programs can have another one. See heaps.c. */
#include <stdlib.h>

void *__heap_aligned(size_t, size_t);

void *aligned_alloc(size_t align, size_t size)
{
	return __heap_aligned(align, size);
}
