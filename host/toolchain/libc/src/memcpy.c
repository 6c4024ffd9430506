#include <stddef.h>
#include <stdint.h>

/* Blocks that the compiler moves by registers, whatever their alignment; every ISA of Motet allows that. */
struct block {
	uint64_t words[4];
} __attribute__((packed, may_alias));
struct word {
	uint64_t value;
} __attribute__((packed, may_alias));

void *memcpy(void *restrict destination, const void *restrict source, size_t size)
{
	unsigned char *to = destination;
	const unsigned char *from = source;
	for (; size >= sizeof(struct block); size -= sizeof(struct block)) {
		*(struct block *)to = *(const struct block *)from;
		to += sizeof(struct block);
		from += sizeof(struct block);
	}
	for (; size >= sizeof(struct word); size -= sizeof(struct word)) {
		*(struct word *)to = *(const struct word *)from;
		to += sizeof(struct word);
		from += sizeof(struct word);
	}
	while (size--)
		*to++ = *from++;
	return destination;
}
