#include <features.h>
#include <fenv.h>

/* In place of musl's assembly: FE_* and fenv_t are the same on every ISA (bits/fenv.h). Each ISA has four functions that
 * read and write its exceptions and its rounding, in terms of FE_*. */

#if defined(__x86_64__)

/* MXCSR has both: the exceptions in the bits of FE_*, the rounding three bits further left. The x87 unit is not used. */
static unsigned control_and_status(void)
{
	unsigned value;
	__asm__ __volatile__("stmxcsr %0" : "=m"(value));
	return value;
}

static void set_control_and_status(unsigned value)
{
	__asm__ __volatile__("ldmxcsr %0" : : "m"(value));
}

static unsigned exceptions(void) { return control_and_status() & FE_ALL_EXCEPT; }
static void set_exceptions(unsigned value) { set_control_and_status((control_and_status() & ~FE_ALL_EXCEPT) | value); }
static unsigned rounding(void) { return control_and_status() >> 3 & FE_TOWARDZERO; }
static void set_rounding(unsigned value)
{
	set_control_and_status((control_and_status() & ~(FE_TOWARDZERO << 3)) | value << 3);
}

#elif defined(__aarch64__)

/* FPSR: invalid operation in bit 0, then as FE_*, one bit further right. FPCR: rounding in bits 22 and 23. */
#define ALL_BITS 0x1ful
#define ROUNDING_BITS (3ul << 22)

static unsigned exceptions(void)
{
	unsigned long status;
	__asm__ __volatile__("mrs %0, fpsr" : "=r"(status));
	return (status & 1) | (status & 0x1e) << 1;
}

static void set_exceptions(unsigned value)
{
	unsigned long status;
	__asm__ __volatile__("mrs %0, fpsr" : "=r"(status));
	status = (status & ~ALL_BITS) | (value & 1) | (value >> 1 & 0x1e);
	__asm__ __volatile__("msr fpsr, %0" : : "r"(status));
}

/* Up and down have each other's numbers. */
static unsigned swapped(unsigned number) { return number >> 1 | (number & 1) << 1; }

static unsigned rounding(void)
{
	unsigned long control;
	__asm__ __volatile__("mrs %0, fpcr" : "=r"(control));
	return swapped((control & ROUNDING_BITS) >> 22) << 10;
}

static void set_rounding(unsigned value)
{
	unsigned long control;
	__asm__ __volatile__("mrs %0, fpcr" : "=r"(control));
	control = (control & ~ROUNDING_BITS) | (unsigned long)swapped(value >> 10) << 22;
	__asm__ __volatile__("msr fpcr, %0" : : "r"(control));
}

#elif defined(__riscv)

/* FFLAGS: the other way round, without a gap behind invalid operation. FRM: nearest, zero, down, up. */
static unsigned exceptions(void)
{
	unsigned long flags;
	__asm__ __volatile__("frflags %0" : "=r"(flags));
	return (flags & 1) << 5 | (flags & 2) << 3 | (flags & 4) << 1 | (flags & 8) >> 1 | (flags & 16) >> 4;
}

static void set_exceptions(unsigned value)
{
	unsigned long flags =
		value >> 5 & 1 | value >> 3 & 2 | value >> 1 & 4 | (value << 1 & 8) | (value << 4 & 16);
	__asm__ __volatile__("fsflags %0" : : "r"(flags));
}

static const unsigned short roundings[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

static unsigned rounding(void)
{
	unsigned long mode;
	__asm__ __volatile__("frrm %0" : "=r"(mode));
	return roundings[mode & 3];
}

static void set_rounding(unsigned value)
{
	unsigned long mode = 0;
	while (roundings[mode] != value)
		mode++;
	__asm__ __volatile__("fsrm %0" : : "r"(mode));
}

#else
#error "which registers have the floating-point environment?"
#endif

int feclearexcept(int mask)
{
	set_exceptions(exceptions() & ~mask);
	return 0;
}

int feraiseexcept(int mask)
{
	set_exceptions(exceptions() | (mask & FE_ALL_EXCEPT));
	return 0;
}

int fetestexcept(int mask)
{
	return exceptions() & mask;
}

int fegetround(void)
{
	return rounding();
}

/* What fesetround calls with one of the four. */
hidden int __fesetround(int value)
{
	set_rounding(value);
	return 0;
}

int fegetenv(fenv_t *environment)
{
	environment->__rounding = rounding();
	environment->__exceptions = exceptions();
	return 0;
}

int fesetenv(const fenv_t *environment)
{
	static const fenv_t start;
	if (environment == FE_DFL_ENV)
		environment = &start;
	set_rounding(environment->__rounding & FE_TOWARDZERO);
	set_exceptions(environment->__exceptions & FE_ALL_EXCEPT);
	return 0;
}
