/* setjmp, and the jump to its buffer on the same instruction set (longjmp.c). The buffer begins with the registers that a function keeps
 * for its caller, the stack pointer and the address to go on at. The instruction set and the stack pointer are once more in words
 * 2 and 3 of the signal mask, of which only word 0 is used otherwise, and word 1 by sigsetjmp. */
#define ISA 232
#define STACK 240

/* each OPERATION, REGISTER...: stores registers to the buffer, or loads them, each behind the last one. */
#if defined(__x86_64__)
.macro store name, at
	mov \name, \at(%rdi)
.endm
.macro load name, at
	mov \at(%rdi), \name
.endm
#define MOVE \operation \name, at
#elif defined(__aarch64__)
#define MOVE \operation \name, [x0, at]
#elif defined(__riscv)
#define MOVE \operation \name, at(a0)
#endif

.macro each operation, names:vararg
	.irp name, \names
	MOVE
	.set at, at + 8
	.endr
.endm

.global setjmp
.global _setjmp
.global __setjmp
.type setjmp, %function
.type _setjmp, %function
.type __setjmp, %function
setjmp:
_setjmp:
__setjmp:
	.set at, 0
#if defined(__x86_64__)
	pop %rdx
	each store, %rsp, %rdx, %rbx, %rbp, %r12, %r13, %r14, %r15
	store %rsp, STACK
	movq $1, ISA(%rdi)
	xor %eax, %eax
	jmp *%rdx
#elif defined(__aarch64__)
	mov x2, sp
	mov x3, 2
	each str, x2, x30, x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, x29
	each str, d8, d9, d10, d11, d12, d13, d14, d15
	str x2, [x0, STACK]
	str x3, [x0, ISA]
	mov w0, wzr
	ret
#elif defined(__riscv)
	li t0, 3
	each sd, sp, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11
	each fsd, fs0, fs1, fs2, fs3, fs4, fs5, fs6, fs7, fs8, fs9, fs10, fs11
	sd sp, STACK(a0)
	sd t0, ISA(a0)
	li a0, 0
	ret
#endif

/* void __jump_here(jmp_buf, int): to a buffer of this instruction set, in the innermost call across instruction sets. There, setjmp
 * returns the number, or 1 in place of 0. */
.global __jump_here
.type __jump_here, %function
__jump_here:
	.set at, 0
#if defined(__x86_64__)
	each load, %rsp, %rdx, %rbx, %rbp, %r12, %r13, %r14, %r15
	mov $1, %eax
	test %esi, %esi
	cmovnz %esi, %eax
	jmp *%rdx
#elif defined(__aarch64__)
	each ldr, x2, x30, x19, x20, x21, x22, x23, x24, x25, x26, x27, x28, x29
	each ldr, d8, d9, d10, d11, d12, d13, d14, d15
	mov sp, x2
	cmp w1, 0
	csinc w0, w1, wzr, ne
	ret
#elif defined(__riscv)
	each ld, sp, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11
	each fld, fs0, fs1, fs2, fs3, fs4, fs5, fs6, fs7, fs8, fs9, fs10, fs11
	seqz a0, a1
	or a0, a0, a1
	ret
#endif
