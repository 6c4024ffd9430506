/* The C++ library throws by way of these, so that there is a word about exceptions that nobody can catch because a call
 * across instruction sets is in between: the stack ends at its gate, which lies outside of the program. */
#include <libunwind.h>
#include <stdint.h>
#include <unistd.h>
#include <unwind.h>

extern const char __executable_start[], etext[];

/* Where the outermost function that can be unwound returns to. */
static uintptr_t outermost(void)
{
	unw_context_t context;
	unw_cursor_t cursor;
	unw_word_t address = 0;
	unw_getcontext(&context);
	unw_init_local(&cursor, &context);
	while (unw_step(&cursor) > 0)
		;
	unw_get_reg(&cursor, UNW_REG_IP, &address);
	return address;
}

/* Nobody has caught it. */
static _Unwind_Reason_Code uncaught(_Unwind_Reason_Code reason)
{
	static const char message[] =
		"motet: an exception would leave a function that was called across instruction sets; it must be caught there\n";
	uintptr_t end = outermost();
	if (end < (uintptr_t)__executable_start || end >= (uintptr_t)etext)
		(void)!write(STDERR_FILENO, message, sizeof message - 1);
	return reason;
}

_Unwind_Reason_Code __motet_raise(_Unwind_Exception *exception)
{
	return uncaught(_Unwind_RaiseException(exception));
}

_Unwind_Reason_Code __motet_raise_again(_Unwind_Exception *exception)
{
	return uncaught(_Unwind_Resume_or_Rethrow(exception));
}
