/* The C++ library throws by way of these, so that exceptions pass through calls across instruction sets. An unwinder knows the frames
 * of its own instruction set; they end at the gate, to which a called function returns. If nobody catches the exception up to there, the
 * frames are cleaned up (forced unwinding), and the kernel lets the caller call __motet_raise_here in place of that function. So
 * each side searches and cleans up by itself. */
#include <libunwind.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <unwind.h>

enum { SYS_MOTET_LEAVE = 0x4d09 };
/* What the kernel lets functions return to that it has called for another instruction set (motet_abi::stubs). */
#define GATES 0x7fffbffff200
#define GATES_END 0x7fffc0000000

void *__cxa_begin_catch(void *);
_Noreturn void _ZSt9terminatev(void);

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

static _Noreturn void end(_Unwind_Exception *exception)
{
	__cxa_begin_catch(exception);
	_ZSt9terminatev();
}

static void raise_here(_Unwind_Exception *exception);

/* Called for each frame that is cleaned up, and then for the gate. */
static _Unwind_Reason_Code leave(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
	_Unwind_Exception *exception, struct _Unwind_Context *context, void *nothing)
{
	static const char message[] =
		"motet: an exception would leave a function that motet_call_on() has called; it must be caught there\n";
	if (!(actions & _UA_END_OF_STACK))
		return _URC_NO_REASON;
	syscall(SYS_MOTET_LEAVE, raise_here, exception);
	(void)!write(STDERR_FILENO, message, sizeof message - 1);
	end(exception);
}

/* Nobody has caught it in this call. */
static _Unwind_Reason_Code uncaught(_Unwind_Reason_Code reason, _Unwind_Exception *exception)
{
	uintptr_t address = outermost();
	if (address >= GATES && address < GATES_END)
		return _Unwind_ForcedUnwind(exception, leave, 0);
	return reason;
}

_Unwind_Reason_Code __motet_raise(_Unwind_Exception *exception)
{
	return uncaught(_Unwind_RaiseException(exception), exception);
}

_Unwind_Reason_Code __motet_raise_again(_Unwind_Exception *exception)
{
	return uncaught(_Unwind_Resume_or_Rethrow(exception), exception);
}

/* The function that was called has thrown it. */
static void raise_here(_Unwind_Exception *exception)
{
	__motet_raise(exception);
	end(exception);
}
