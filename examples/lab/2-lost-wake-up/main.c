/* Sends letters from one island to another one. Nothing is to be changed here. */
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../lab.h"

#define LETTERS 3000
#define PATIENCE_S 10

static atomic_int noted;

/* Takes a moment, as writing into a journal would. */
static void lab_note(const char *what) {
    for (int byte = 0; what[byte % 8] && byte < 400; byte++)
        atomic_fetch_add(&noted, 1);
}

static void lab_sleep(atomic_int *word, int value) {
    struct timespec patience = {PATIENCE_S, 0};
    double began = lab_now_us();
    syscall(SYS_futex, word, FUTEX_WAIT, value, &patience, 0, 0);
    if (lab_now_us() - began >= PATIENCE_S * 1e6) {
        printf("a wake-up was lost\n");
        fflush(stdout);
        _exit(1);
    }
}

static void lab_wake(atomic_int *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
}

#include LAB_FILE

static void work(int number) {
    for (int round = 1; round <= LETTERS; round++) {
        if (number == 0) {
            put(round);
        } else if (take() != round) {
            printf("a letter was lost\n");
            fflush(stdout);
            _exit(1);
        }
    }
}

int main(void) {
    lab_run(2, (int[]){0, 2}, work);
    printf("all letters have arrived\n");
    return 0;
}
