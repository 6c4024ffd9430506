/* Thread-local variables of programs (-femulated-tls): the compiler asks here for the address of the calling thread's
 * copy. The copies hang on a pthread key, so they are the same ones whichever ISA the thread runs on. */
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Made by the compiler for each variable, as __emutls_v.NAME. */
struct variable {
	size_t size, align;
	size_t index; /* Zero until the first thread asks; then one more than the place in a thread's table. */
	const void *initial; /* Null: zeros. */
};

struct copies {
	size_t count;
	int rounds; /* Of the ending thread's destructors that have passed. */
	void *address[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static size_t variables;

static void free_copies(void *table)
{
	struct copies *copies = table;
	/* Other keys' destructors use the variables: theirs come first. */
	if (++copies->rounds < PTHREAD_DESTRUCTOR_ITERATIONS && !pthread_setspecific(key, copies))
		return;
	for (size_t i = 0; i < copies->count; i++)
		free(copies->address[i]);
	free(copies);
}

static void make_key(void)
{
	if (pthread_key_create(&key, free_copies))
		abort();
}

static size_t index_of(struct variable *variable)
{
	size_t index = __atomic_load_n(&variable->index, __ATOMIC_ACQUIRE);
	if (index)
		return index;
	pthread_once(&once, make_key);
	pthread_mutex_lock(&lock);
	index = variable->index;
	if (!index) {
		index = ++variables;
		__atomic_store_n(&variable->index, index, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	return index;
}

static void *make_copy(const struct variable *variable)
{
	size_t align = variable->align < sizeof(void *) ? sizeof(void *) : variable->align;
	void *copy = aligned_alloc(align, (variable->size + align - 1) & -align);
	if (!copy)
		abort();
	if (variable->initial)
		memcpy(copy, variable->initial, variable->size);
	else
		memset(copy, 0, variable->size);
	return copy;
}

void *__emutls_get_address(struct variable *variable)
{
	size_t index = index_of(variable);
	struct copies *copies = pthread_getspecific(key);
	size_t count = copies ? copies->count : 0;
	if (index > count) {
		size_t wanted = index + 15;
		copies = realloc(copies, sizeof *copies + wanted * sizeof copies->address[0]);
		if (!copies)
			abort();
		memset(copies->address + count, 0, (wanted - count) * sizeof copies->address[0]);
		if (!count)
			copies->rounds = 0;
		copies->count = wanted;
		if (pthread_setspecific(key, copies))
			abort();
	}
	void **address = &copies->address[index - 1];
	if (!*address)
		*address = make_copy(variable);
	return *address;
}
