/* FreeRTOS includes it and uses nothing of it. */
#ifndef STDLIB_H
#define STDLIB_H

#include <stddef.h>

#endif
