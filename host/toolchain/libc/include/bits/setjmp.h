/* As many words as the ISA that needs most (RISC-V: 12 integer and 12 floating-point registers, and two), everywhere. */
typedef unsigned long __jmp_buf[26];
