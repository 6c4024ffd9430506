/* Replaces musl's: without TLS_ABOVE_TP, struct pthread has x86-64's layout, and the thread pointer is its address. */
static inline uintptr_t __get_tp()
{
	uintptr_t tp;
	__asm__ ("mrs %0,tpidr_el0" : "=r"(tp));
	return tp;
}

#define MC_PC pc
