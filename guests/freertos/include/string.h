/* What FreeRTOS uses of the C library; Rust's compiler library has it. */
#ifndef STRING_H
#define STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t len);
void *memset(void *to, int byte, size_t len);

#endif
