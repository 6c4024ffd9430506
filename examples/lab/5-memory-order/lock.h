/*
 * Peterson's lock for two threads: each says that it wants the lock, gives way to the other one, and waits as long as the other one wants it and has been
 * given way.
 *
 * To do: both threads are inside at times. Each store here is a release and each load an acquire. Which two accesses of one thread may still change places?
 * Repair it, with nothing but other orders or a fence.
 */
/* Each on a line of its own: this has nothing to do with the fault. */
static struct {
    _Alignas(64) atomic_int yes;
} wants[2];
static _Alignas(64) atomic_int turn;

static void lock(int me) {
    atomic_store_explicit(&wants[me].yes, 1, memory_order_release);
    atomic_store_explicit(&turn, !me, memory_order_release);
    while (atomic_load_explicit(&wants[!me].yes, memory_order_acquire) &&
           atomic_load_explicit(&turn, memory_order_acquire) == !me)
        ;
}

static void unlock(int me) {
    atomic_store_explicit(&wants[me].yes, 0, memory_order_release);
}
