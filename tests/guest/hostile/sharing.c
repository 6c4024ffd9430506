/* shmget(2), semget(2), msgget(2), mq_open(3): segments, semaphores and messages of others. */
#include "hostile.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

/* Nobody else on the machine has this key, whose other islands may do the same at the same time. */
static int own_key;
#define KEY own_key
/* A message: type and text. */
static struct { long type; char text[8]; } message = {1, "secret"};
static union { struct shmid_ds segment; char room[8192]; } told;

static int segment, set, queue, readable, open_queue;
/* POSIX queues: nobody else may use the one, and others may send to the other. */
static char own_name[32], open_name[32];
static int own_fd, open_fd;

static long open_named(const char *name, int flags) { return syscall(SYS_mq_open, name, flags, 0602, NULL); }

static long attach(int id, int flags) { return shmat(id, NULL, flags) == (void *)-1 ? -1 : 0; }

static long attach_and_write(int id) {
    char *at = shmat(id, NULL, SHM_RDONLY);
    return at == (void *)-1 ? -2 : syscall(SYS_mprotect, at, 4096, 3);
}

static long operate(int id, int change) {
    struct sembuf one = {0, change, IPC_NOWAIT};
    return semop(id, &one, 1);
}

static void make(void) {
    own_key = 0x48000000 | getpid();
    segment = shmget(KEY, 4096, IPC_CREAT | 0600);
    set = semget(KEY, 1, IPC_CREAT | 0600);
    queue = msgget(KEY, IPC_CREAT | 0600);
    readable = shmget(IPC_PRIVATE, 4096, 0604);
    open_queue = msgget(IPC_PRIVATE, 0602);
    sprintf(own_name, "own.%d", getpid());
    sprintf(open_name, "open.%d", getpid());
    mode_t mask = umask(0);
    own_fd = syscall(SYS_mq_open, own_name, O_CREAT | O_RDWR | O_NONBLOCK, 0600, NULL);
    open_fd = syscall(SYS_mq_open, open_name, O_CREAT | O_RDWR | O_NONBLOCK, 0602, NULL);
    umask(mask);
    syscall(SYS_mq_timedsend, own_fd, "secret", 7, 0, NULL);
    semctl(set, 0, SETVAL, 3);
    msgsnd(queue, &message, 8, 0);
    msgsnd(open_queue, &message, 8, 0);
}

/* Whether all is as it was. */
static long is_spoiled(void) {
    return shmctl(segment, IPC_STAT, &told.segment) != 0 || told.segment.shm_perm.uid != 0 || semctl(set, 0, GETVAL) != 3
        || msgrcv(queue, &message, 8, 0, IPC_NOWAIT) != 8 || strcmp(message.text, "secret") != 0
        || syscall(SYS_mq_timedreceive, own_fd, told.room, 8192, NULL, NULL) != 7 || strcmp(told.room, "secret") != 0;
}

void attack_sharing(void) {
    make();
    REFUSED(EACCES, shmget(KEY, 0, 0600));
    REFUSED(EEXIST, shmget(KEY, 4096, IPC_CREAT | IPC_EXCL | 0600));
    REFUSED(EACCES, attach(segment, 0));
    REFUSED(EACCES, attach(segment, SHM_RDONLY));
    REFUSED(EACCES, attach(readable, 0));
    REFUSED(EACCES, attach(readable, SHM_RDONLY | SHM_EXEC));
    REFUSED(EACCES, attach_and_write(readable));
    ALLOWED(attach(readable, SHM_RDONLY));
    REFUSED(EACCES, shmctl(segment, IPC_STAT, &told.segment));
    REFUSED(EPERM, shmctl(segment, IPC_SET, &told.segment));
    REFUSED(EPERM, shmctl(segment, IPC_RMID, 0));
    REFUSED(EPERM, shmctl(segment, SHM_LOCK, 0));
    REFUSED(EPERM, shmctl(readable, SHM_UNLOCK, 0));
    REFUSED(EPERM, shmctl(readable, IPC_RMID, 0));
    REFUSED(EACCES, semget(KEY, 1, 0600));
    REFUSED(EACCES, operate(set, -1));
    REFUSED(EACCES, operate(set, 0));
    REFUSED(EACCES, semctl(set, 0, GETVAL));
    REFUSED(EACCES, semctl(set, 0, GETNCNT));
    REFUSED(EACCES, semctl(set, 0, SETVAL, 0));
    REFUSED(EPERM, semctl(set, 0, IPC_RMID));
    REFUSED(EACCES, msgget(KEY, 0600));
    REFUSED(EACCES, msgsnd(queue, &message, 8, IPC_NOWAIT));
    REFUSED(EACCES, msgrcv(queue, &message, 8, 0, IPC_NOWAIT));
    REFUSED(EPERM, msgctl(queue, IPC_RMID, 0));
    REFUSED(EACCES, msgrcv(open_queue, &message, 8, 0, IPC_NOWAIT));
    ALLOWED(msgsnd(open_queue, &message, 8, IPC_NOWAIT));
    REFUSED(EACCES, open("/proc/sys/kernel/shmmax", O_WRONLY));
    REFUSED(EACCES, open_named(own_name, O_RDONLY));
    REFUSED(EACCES, open_named(own_name, O_WRONLY | O_CREAT));
    REFUSED(EACCES, open_named(open_name, O_RDWR));
    ALLOWED(open_named(open_name, O_WRONLY) < 0 ? -1 : 0);
    REFUSED(EPERM, syscall(SYS_mq_unlink, own_name));
    REFUSED(EPERM, syscall(SYS_mq_unlink, open_name));
    check_shared(!is_spoiled());
    shmctl(segment, IPC_RMID, 0);
    shmctl(readable, IPC_RMID, 0);
    semctl(set, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, 0);
    msgctl(open_queue, IPC_RMID, 0);
    syscall(SYS_mq_unlink, own_name);
    syscall(SYS_mq_unlink, open_name);
}
