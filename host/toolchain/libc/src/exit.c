/* As musl's, but the calling thread's variables end first, as C++ wants it. */
#include <stdlib.h>

#include "libc.h"

typedef void function(void);
extern weak hidden function *const __fini_array_start[], *const __fini_array_end[];

static void nothing(void)
{
}

/* The files that have something to do replace these. */
weak_alias(nothing, __end_thread_variables);
weak_alias(nothing, __funcs_on_exit);
weak_alias(nothing, __stdio_exit);
function __end_thread_variables, __funcs_on_exit, __stdio_exit;

_Noreturn void exit(int status)
{
	__end_thread_variables();
	__funcs_on_exit();
	for (function *const *next = __fini_array_end; next > __fini_array_start;)
		(*--next)();
	__stdio_exit();
	_Exit(status);
}
