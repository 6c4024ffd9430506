#include <stdint.h>
#include <string.h>

typedef uint64_t __attribute__((may_alias)) word;

void *memmove(void *destination, const void *source, size_t size)
{
	/* Our memcpy is right unless the destination begins inside the source. */
	if ((uintptr_t)destination - (uintptr_t)source >= size)
		return memcpy(destination, source, size);
	unsigned char *to = (unsigned char *)destination + size;
	const unsigned char *from = (const unsigned char *)source + size;
	if ((uintptr_t)to % sizeof(word) == (uintptr_t)from % sizeof(word)) {
		for (; size && (uintptr_t)to % sizeof(word); size--)
			*--to = *--from;
		for (; size >= sizeof(word); size -= sizeof(word)) {
			to -= sizeof(word);
			from -= sizeof(word);
			*(word *)to = *(const word *)from;
		}
	}
	while (size--)
		*--to = *--from;
	return destination;
}
