/*
 * A spin lock. Who finds it free takes it, however long others have waited.
 *
 * To do: make it a ticket lock. Who comes takes a number, and waits until that number is called. Nobody is overtaken then.
 */
static atomic_int taken;

static void lock(void) {
    while (atomic_exchange(&taken, 1))
        ;
}

static void unlock(void) {
    atomic_store(&taken, 0);
}
