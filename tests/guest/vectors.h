/* Vector instructions in C programs, for RISC-V. Elsewhere they are compiled as well, so that a program can be built for all instruction sets. */
#ifndef VECTORS_H
#define VECTORS_H

#if defined(__riscv)
#define VECTORS(text, ...) __asm__ volatile(".option push\n.option arch, +v\n" text "\n.option pop\n" __VA_ARGS__)
#else
#define VECTORS(text, ...) (void)0
#endif

#endif
