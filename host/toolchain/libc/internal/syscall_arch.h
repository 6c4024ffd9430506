/* musl's, without the kernel's functions in user space: it keeps their addresses, which belong to one ISA. */
#include_next "syscall_arch.h"
#undef VDSO_CGT_SYM
#undef VDSO_GETCPU_SYM
