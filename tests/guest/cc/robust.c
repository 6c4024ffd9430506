/* A process ends between unlocking a robust futex and waking its waiter. Linux wakes the waiter then. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../asleep.h"
#include "crossing.h"

struct lock { void *entry; int word, waits; };
struct head { void *first; long offset; void *pending; };

static struct lock *lock;

/* The list is empty, and the lock is being given back. */
static void end_while_giving_back(void) {
    static struct head head;
    head = (struct head){&head, (char *)&lock->word - (char *)&lock->entry, &lock->entry};
    syscall(SYS_set_robust_list, &head, sizeof head);
    while (!__atomic_load_n(&lock->waits, __ATOMIC_SEQ_CST)) usleep(500);
    until_asleep(getppid());
    raise(SIGKILL);
}
MOTET_ON(ARM) void end_on_arm(void) { expect_on(ARM); end_while_giving_back(); }
MOTET_ON(RISCV) void end_on_riscv(void) { expect_on(RISCV); end_while_giving_back(); }

static void wait_for(const char *what, void (*end)(void)) {
    struct timespec longest = {60, 0};
    int status;
    lock->waits = 0;
    pid_t child = fork();
    if (child == 0)
        end();
    /* It may sleep in the call of fork, too. */
    __atomic_store_n(&lock->waits, 1, __ATOMIC_SEQ_CST);
    long result = syscall(SYS_futex, &lock->word, 0, 0, &longest);
    printf("%s: %s\n", what, result == 0 ? "woken" : strerror(errno));
    waitpid(child, &status, 0);
}

int main(void) {
    setvbuf(stdout, 0, _IONBF, 0);
    lock = mmap(0, sizeof *lock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    wait_for("arm", end_on_arm);
    wait_for("riscv", end_on_riscv);
    return 0;
}
