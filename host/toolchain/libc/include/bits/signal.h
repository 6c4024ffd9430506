/* Stacks of signals are as large everywhere as on the ISA that needs most (AArch64), so arrays of that size are, too. */
#include_next <bits/signal.h>
#ifdef MINSIGSTKSZ
#undef MINSIGSTKSZ
#undef SIGSTKSZ
#define MINSIGSTKSZ 6144
#define SIGSTKSZ 12288
#endif
