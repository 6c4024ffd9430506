/*
 * A mailbox for one letter. Its owner sleeps until a letter is there, and who sends one sleeps until the last one has been taken.
 *
 * To do: now and then both sleep, and nobody wakes them. Find the moment in which a wake-up is lost, and repair it. `lab_sleep(word, value)` is
 * the system call FUTEX_WAIT: the kernel looks whether the word still has the value, and only then puts the thread to sleep.
 */
static atomic_int full;
static int letter;

static void sleep_while(int value) {
    while (atomic_load(&full) == value) {
        lab_note("about to sleep");
        lab_sleep(&full, atomic_load(&full));
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
