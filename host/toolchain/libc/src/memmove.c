#include <stdint.h>
#include <string.h>

struct word {
	uint64_t value;
} __attribute__((packed, may_alias));

void *memmove(void *destination, const void *source, size_t size)
{
	unsigned char *to = destination;
	const unsigned char *from = source;
	/* Forwards is right unless the destination begins inside the source. */
	if ((uintptr_t)to - (uintptr_t)from >= size) {
		for (; size >= sizeof(struct word); size -= sizeof(struct word)) {
			*(struct word *)to = *(const struct word *)from;
			to += sizeof(struct word);
			from += sizeof(struct word);
		}
		while (size--)
			*to++ = *from++;
		return destination;
	}
	to += size;
	from += size;
	for (; size >= sizeof(struct word); size -= sizeof(struct word)) {
		to -= sizeof(struct word);
		from -= sizeof(struct word);
		*(struct word *)to = *(const struct word *)from;
	}
	while (size--)
		*--to = *--from;
	return destination;
}
