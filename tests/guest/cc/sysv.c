/* System V IPC between processes of three instruction sets: they share a segment, take turns by semaphores, send messages to each other, and one of them is killed while it
   has a semaphore. Prints the same everywhere. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

enum { KEY = 0x53797356, WORKERS = 6, ROUNDS = 300, LEN_MAX = 6000 };

struct shared {
    long count, by[3];
    char text[3 * 4096];
};
struct message {
    long type;
    unsigned char text[LEN_MAX];
};

static int set, queue, segment;

static int operate(int number, int change, int flags) {
    struct sembuf one = {number, change, flags};
    return semop(set, &one, 1);
}

/* Adds to what all share, in turn, and checks and answers messages. */
static int work(int place, int number) {
    static struct message message;
    struct shared *shared = shmat(shmget(KEY, 0, 0), 0, 0);
    if (shared == (void *)-1) return 1;
    for (int round = 0; round < ROUNDS; round++) {
        if (operate(0, -1, SEM_UNDO) != 0) return 2;
        long count = shared->count;
        if (round % 16 == 0) sched_yield();
        shared->count = count + 1;
        shared->by[place]++;
        shared->text[count % sizeof shared->text] = (char)count;
        if (operate(0, 1, SEM_UNDO) != 0) return 3;
    }
    for (int round = 0; round < 20; round++) {
        ssize_t len = msgrcv(queue, &message, LEN_MAX, 10 + number, 0);
        if (len < 0) return 4;
        for (ssize_t at = 0; at < len; at++)
            if (message.text[at] != (unsigned char)(at * 5 + len)) return 5;
        message.type = 1;
        memcpy(message.text, &len, sizeof len);
        if (msgsnd(queue, &message, sizeof len, 0) != 0) return 6;
    }
    return shmdt(shared) == 0 ? 0 : 7;
}

MOTET_ON(X86) int work_on_x86(int number) { expect_on(X86); return work(0, number); }
MOTET_ON(ARM) int work_on_arm(int number) { expect_on(ARM); return work(1, number); }
MOTET_ON(RISCV) int work_on_riscv(int number) { expect_on(RISCV); return work(2, number); }

/* Takes the second semaphore, and keeps it. */
MOTET_ON(ARM) void keep_on_arm(void) {
    expect_on(ARM);
    operate(1, -1, SEM_UNDO);
    operate(2, 1, 0);
    pause();
}

/* Waits for the second semaphore. */
MOTET_ON(RISCV) int wait_on_riscv(void) {
    expect_on(RISCV);
    return operate(1, -1, 0) == 0 ? 0 : errno;
}

/* Waits for what goes, or has just gone. */
MOTET_ON(X86) int wait_on_x86(void) {
    static struct message message;
    expect_on(X86);
    return msgrcv(queue, &message, LEN_MAX, 99, 0) < 0 ? errno == EIDRM || errno == EINVAL : 2;
}

static int status_of(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(void) {
    static int (*const on[])(int) = {work_on_x86, work_on_arm, work_on_riscv};
    static struct message message;
    segment = shmget(KEY, sizeof(struct shared), IPC_CREAT | IPC_EXCL | 0600);
    set = semget(KEY, 3, IPC_CREAT | IPC_EXCL | 0600);
    queue = msgget(KEY, IPC_CREAT | IPC_EXCL | 0600);
    if (segment < 0 || set < 0 || queue < 0) return perror("get"), 1;
    struct shared *shared = shmat(segment, 0, 0);
    pid_t workers[WORKERS];
    for (int number = 0; number < WORKERS; number++)
        if ((workers[number] = fork()) == 0) _exit(on[number % 3](number));
    operate(0, 1, 0);
    long sum = 0, answers = 0;
    for (int round = 0; round < 20; round++) {
        for (int number = 0; number < WORKERS; number++) {
            long len = (round * 307 + number * 41) % 2400;
            message.type = 10 + number;
            for (long at = 0; at < len; at++) message.text[at] = (unsigned char)(at * 5 + len);
            if (msgsnd(queue, &message, len, 0) != 0) return perror("msgsnd"), 1;
            sum += len;
        }
        for (int number = 0; number < WORKERS; number++) {
            ssize_t len;
            if (msgrcv(queue, &message, sizeof len, 1, 0) != sizeof len) return perror("msgrcv"), 1;
            memcpy(&len, message.text, sizeof len);
            answers += len;
        }
    }
    for (int number = 0; number < WORKERS; number++) printf("worker %d: %d\n", number, status_of(workers[number]));
    printf("%ld rounds, %ld %ld %ld, %s\n", shared->count, shared->by[0], shared->by[1], shared->by[2], sum == answers ? "all answered" : "not all answered");

    operate(1, 1, 0);
    pid_t keeper = fork();
    if (keeper == 0) {
        keep_on_arm();
        _exit(1);
    }
    operate(2, -1, 0);
    pid_t waiter = fork();
    if (waiter == 0) _exit(wait_on_riscv());
    while (semctl(set, 1, GETNCNT) != 1) usleep(1000);
    kill(keeper, SIGKILL);
    printf("keeper: %d\n", status_of(keeper));
    printf("waiter: %d\n", status_of(waiter));

    pid_t reader = fork();
    if (reader == 0) _exit(wait_on_x86());
    usleep(20000);
    printf("removed: %d %d\n", msgctl(queue, IPC_RMID, 0), semctl(set, 0, IPC_RMID));
    printf("reader: %d\n", status_of(reader));
    struct shmid_ds told;
    shmctl(segment, IPC_RMID, 0);
    shmctl(segment, IPC_STAT, &told);
    printf("%ld attached, mode %o\n", (long)told.shm_nattch, told.shm_perm.mode);
    shmdt(shared);
    printf("gone: %d\n", shmctl(segment, IPC_STAT, &told) < 0 && errno == EINVAL);
    return 0;
}
