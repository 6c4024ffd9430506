/* Replaces musl's: without TLS_ABOVE_TP, struct pthread has x86-64's layout, and the thread pointer is its address. */
static inline uintptr_t __get_tp()
{
	uintptr_t tp;
	__asm__ __volatile__("mv %0, tp" : "=r"(tp));
	return tp;
}

#define MC_PC __gregs[0]
