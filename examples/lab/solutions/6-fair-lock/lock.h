/* Numbers are called in the order in which they were taken. */
static atomic_int next, called;

static void lock(void) {
    int ticket = atomic_fetch_add(&next, 1);
    while (atomic_load(&called) != ticket)
        ;
}

static void unlock(void) {
    atomic_fetch_add(&called, 1);
}
