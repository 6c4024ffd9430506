/* What the back end `hybrid` takes from `hardware`. */
#ifndef HTHREAD_HARDWARE_H
#define HTHREAD_HARDWARE_H

#include "internal.h"

int ht_hardware_ask(enum operation operation, unsigned object, uint32_t argument, const struct timespec *deadline, uint32_t *value);
int ht_hardware_lock(uint32_t mutex);
/* The same, with a time limit, and whether somebody else had it. */
int ht_hardware_lock_told(uint32_t mutex, const struct timespec *deadline, int *has_waited);
int ht_hardware_try_lock(uint32_t mutex);
int ht_hardware_unlock(uint32_t mutex);
struct thread *ht_hardware_make(void);
int ht_hardware_enter(struct thread *thread);
void ht_hardware_leave(struct thread *thread);
int ht_hardware_open(const char *words);

#endif
