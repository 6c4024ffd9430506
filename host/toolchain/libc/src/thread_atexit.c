/* Destructors of C++'s thread-local variables: they run when the thread ends, in the reverse order of the constructors, and
 * those of the thread that ends the program before the destructors of static objects (exit.c). */
#include <pthread.h>
#include <stdlib.h>

struct ending {
	void (*destroy)(void *);
	void *object;
	struct ending *next;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void run(void *list)
{
	for (struct ending *ending = list; ending; ending = pthread_getspecific(key)) {
		/* It may construct others, which end next. */
		pthread_setspecific(key, ending->next);
		ending->destroy(ending->object);
		free(ending);
	}
}

static void make_key(void)
{
	if (pthread_key_create(&key, run))
		abort();
}

void __end_thread_variables(void)
{
	pthread_once(&once, make_key);
	run(pthread_getspecific(key));
}

int __cxa_thread_atexit_impl(void (*destroy)(void *), void *object, void *library)
{
	struct ending *ending = malloc(sizeof *ending);
	if (!ending)
		return -1;
	pthread_once(&once, make_key);
	*ending = (struct ending){ destroy, object, pthread_getspecific(key) };
	return pthread_setspecific(key, ending) ? -1 : 0;
}
