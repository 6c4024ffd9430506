/* What programs for several instruction sets (motet cc) may say about where they run. */
#ifndef MOTET_H
#define MOTET_H

#define MOTET_TEXT_OF_(number) #number
#define MOTET_TEXT_OF(number) MOTET_TEXT_OF_(number)

/* Before the definition of a function, or before one of its declarations: calls of it run on a core with this instruction
 * set ("x86_64", "aarch64" or "riscv64"), from wherever they are made. Each function gets a section of its own. */
#define MOTET_ON(isa) \
	__attribute__((noinline, used, section(".text.motet.on." isa "." MOTET_TEXT_OF(__COUNTER__))))

#endif
