/* The kernel compares the word with the value for which the loop has decided to sleep, so a change in between is seen. */
static atomic_int full;
static int letter;

static void sleep_while(int value) {
    while (atomic_load(&full) == value) {
        lab_note("about to sleep");
        lab_sleep(&full, value);
    }
}

static void put(int text) {
    sleep_while(1);
    letter = text;
    atomic_store(&full, 1);
    lab_wake(&full);
}

static int take(void) {
    sleep_while(0);
    int text = letter;
    atomic_store(&full, 0);
    lab_wake(&full);
    return text;
}
