/* A store and a later load of another variable may change places, whatever release and acquire say. A fence of all orders keeps them apart. */
/* Each on a line of its own: this has nothing to do with the fault. */
static struct {
    _Alignas(64) atomic_int yes;
} wants[2];
static _Alignas(64) atomic_int turn;

static void lock(int me) {
    atomic_store_explicit(&wants[me].yes, 1, memory_order_release);
    atomic_store_explicit(&turn, !me, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load_explicit(&wants[!me].yes, memory_order_acquire) &&
           atomic_load_explicit(&turn, memory_order_acquire) == !me)
        ;
}

static void unlock(int me) {
    atomic_store_explicit(&wants[me].yes, 0, memory_order_release);
}
