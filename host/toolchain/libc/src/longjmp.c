/* Jumps that may lead out of functions that other instruction sets have called. The kernel ends these calls, and the thread goes
 * on at __jump_here on the buffer's instruction set. Programs without such calls do not ask it. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>

#include "syscall.h"

enum { SYS_MOTET_JUMP = 0x4d08 };
/* Words that setjmp.S stores. */
enum { ISA = 2, STACK = 3 };

/* One byte for each pinned function, as far as addresses go. */
extern hidden const char __pins_start[], __pins_end[];
/* Set by motet_call_on. */
int __motet_crosses;

hidden _Noreturn void __jump_here(jmp_buf, int);

static _Noreturn void lost(void)
{
	static const char message[] = "motet: longjmp to a function that has returned\n";
	__syscall(SYS_write, 2, message, sizeof message - 1);
	abort();
}

_Noreturn void longjmp(jmp_buf buffer, int value)
{
	if (__motet_crosses || __pins_start != __pins_end) {
		const unsigned long *saved = buffer->__ss;
		long failed = __syscall(SYS_MOTET_JUMP, saved[ISA], saved[STACK], __jump_here, buffer, value);
		/* ENOSYS: plain Linux, where nothing is called across instruction sets. */
		if (failed && failed != -ENOSYS)
			lost();
	}
	__jump_here(buffer, value);
}

weak_alias(longjmp, _longjmp);
