// The memory functions of the kernels, for bytes.c, under names of their own. The kernel of x86-64 has the compiler's; there the
// library's stand for them.
#if defined(__x86_64__)
    .text
    .globl kernel_memcpy, kernel_memmove, kernel_memset
kernel_memcpy: jmp memcpy
kernel_memmove: jmp memmove
kernel_memset: jmp memset
#else
#define memcpy kernel_memcpy
#define memmove kernel_memmove
#define memset kernel_memset
#if defined(__aarch64__)
#include "../../../kernel/hal-aarch64/src/bytes.s"
#else
#include "../../../kernel/hal-riscv64/src/bytes.s"
#endif
#endif
