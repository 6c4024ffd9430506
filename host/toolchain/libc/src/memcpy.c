#include <stddef.h>
#include <stdint.h>

typedef uint64_t __attribute__((may_alias)) word;

/* Copies from the lower addresses to the higher, so it is also right where the destination begins before the source. */
void *memcpy(void *restrict destination, const void *restrict source, size_t size)
{
	unsigned char *to = destination;
	const unsigned char *from = source;
	for (; size && (uintptr_t)to % sizeof(word); size--)
		*to++ = *from++;
	unsigned skew = (uintptr_t)from % sizeof(word);
	if (!skew) {
		for (; size >= 4 * sizeof(word); size -= 4 * sizeof(word)) {
			word a = ((const word *)from)[0], b = ((const word *)from)[1];
			word c = ((const word *)from)[2], d = ((const word *)from)[3];
			((word *)to)[0] = a;
			((word *)to)[1] = b;
			((word *)to)[2] = c;
			((word *)to)[3] = d;
			to += 4 * sizeof(word);
			from += 4 * sizeof(word);
		}
		for (; size >= sizeof(word); size -= sizeof(word)) {
			*(word *)to = *(const word *)from;
			to += sizeof(word);
			from += sizeof(word);
		}
	} else if (size >= 2 * sizeof(word)) {
		/* Reads whole words, and none without a byte that is wanted; not every core reads across them fast. */
		const word *next = (const word *)(from - skew);
		word low = *next++ >> 8 * skew;
		for (; size >= 2 * sizeof(word); size -= sizeof(word)) {
			word high = *next++;
			*(word *)to = low | high << (64 - 8 * skew);
			low = high >> 8 * skew;
			to += sizeof(word);
			from += sizeof(word);
		}
	}
	while (size--)
		*to++ = *from++;
	return destination;
}
