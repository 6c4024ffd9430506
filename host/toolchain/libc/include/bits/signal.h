/* Stacks of signals are as large everywhere as on the ISA that needs most (AArch64), so arrays of that size are, too. */
#ifdef __aarch64__
/* There, mcontext_t has an array of `long double`, which has 64 bits here. The kernel's has 128, and is aligned to that. */
#define double __attribute__((__vector_size__(16)))
#include_next <bits/signal.h>
#undef double
#else
#include_next <bits/signal.h>
#endif
#ifdef MINSIGSTKSZ
#undef MINSIGSTKSZ
#undef SIGSTKSZ
#define MINSIGSTKSZ 6144
#define SIGSTKSZ 12288
#endif
