/* System V semaphores. Each case removes the set that it makes: on the host it would stay. */
#include "keys.h"
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/sem.h>

#ifndef SEM_STAT_ANY
#define SEM_STAT_ANY 20
#endif
/* The name of the own key. */
#define NAME 0x4d6f7467

static union { struct semid_ds ds; char room[128]; } set;
static unsigned short values[32001];
static struct sembuf operations[501];
static int status;
static struct timespec soon = {0, 5000000}, negative = {-1, 0}, odd = {0, 1000000000}, now = {0, 0}, hour = {3600, 0};
static int new_set(int count) { return (int)CALL(semget, IPC_PRIVATE, count, 0600); }
static void discard(int id) { CALL(semctl, id, 0, IPC_RMID, 0); }
static long value(int id, int number) { return CALL(semctl, id, number, GETVAL, 0); }

static long operate(int id, int number, int change, int flags) {
    struct sembuf one = {number, change, flags};
    return CALL(semop, id, &one, 1);
}

static void two(int first, int change, int flags, int second, int other_change, int other_flags) {
    operations[0] = (struct sembuf){first, change, flags};
    operations[1] = (struct sembuf){second, other_change, other_flags};
}

static void show_set(int id) {
    if (CALL(semctl, id, 0, IPC_STAT, &set) < 0) {
        say(" | %s", errno_name(errno));
        return;
    }
    say(" | %lo, %ld semaphores", (long)set.ds.sem_perm.mode, (long)set.ds.sem_nsems);
    say(", times %d%d", set.ds.sem_otime != 0, set.ds.sem_ctime != 0);
    if (set.ds.sem_nsems <= 8)
        for (unsigned i = 0; i < set.ds.sem_nsems; i++)
            say(" %ld", value(id, i));
}

#define WAITER(waits, meanwhile) do { \
        pid_t child = fork(); \
        if (child == 0) _exit((waits) < 0 ? errno : 0); \
        until_asleep(child); \
        meanwhile; \
        waitpid(child, &status, 0); \
        say(" | %s", status == 0 ? "done" : errno_name(WEXITSTATUS(status))); \
    } while (0)
#define IN_CHILD(...) do { \
        pid_t child = fork(); \
        if (child == 0) { __VA_ARGS__; _exit(0); } \
        waitpid(child, &status, 0); \
    } while (0)

static void *in_thread(void *id) {
    operate((int)(long)id, 0, -1, SEM_UNDO);
    return 0;
}

static void sets(void) {
    C(semget, IPC_PRIVATE, 0, 0600)
    C(semget, IPC_PRIVATE, -1, 0600)
    C(semget, IPC_PRIVATE, 32001, 0600)
    C(semget, KEY, 1, 0)
    T(semget, "by a key", {
        int id = (int)CALL(semget, KEY, 3, IPC_CREAT | 0640);
        some(id);
        show_set(id);
        say(" | %s", CALL(semget, KEY, 0, 0) == id ? "the same" : "another");
        say(" | %s", CALL(semget, KEY, 2, IPC_CREAT) == id ? "the same" : "another");
        result(CALL(semget, KEY, 4, 0));
        result(CALL(semget, KEY, 3, IPC_CREAT | IPC_EXCL));
        result(CALL(semget, KEY, 3, 0777));
        result(CALL(semctl, id, 0, IPC_RMID, 0));
        result(CALL(semget, KEY, 3, 0));
        show_set(id);
    })
    T(semget, "a large one", {
        int id = new_set(32000);
        show_set(id);
        result(CALL(semctl, id, 31999, SETVAL, 7));
        result(operate(id, 31999, -3, 0));
        result(value(id, 31999));
        result(value(id, 31998));
        result(CALL(semctl, id, 32000, GETVAL, 0));
        discard(id);
    })
    C(semctl, -1, 0, IPC_STAT, &set)
    C(semctl, 0x7fffffff, 0, GETVAL, 0)
    C(semctl, 0x7fffffff, 0, SEM_STAT, &set)
    C(semctl, 0x7fffffff, 0, SETVAL, -1)
    T(semctl, "what cannot be done", {
        int id = new_set(2);
        result(CALL(semctl, id, 2, GETVAL, 0));
        result(CALL(semctl, id, -1, GETVAL, 0));
        result(CALL(semctl, id, 0, SETVAL, 32768));
        result(CALL(semctl, id, 0, SETVAL, -1));
        result(CALL(semctl, id, 2, SETVAL, 1));
        result(CALL(semctl, id, 0, 99, 0));
        result(CALL(semctl, id, 0, IPC_STAT, BAD));
        result(CALL(semctl, id, 0, IPC_SET, BAD));
        result(CALL(semctl, id, 0, GETALL, BAD));
        result(CALL(semctl, id, 0, SETALL, BAD));
        values[1] = 32768;
        result(CALL(semctl, id, 0, SETALL, values));
        show_set(id);
        discard(id);
    })
    T(semctl, "SETVAL, GETVAL and GETPID", {
        int id = new_set(2);
        result(CALL(semctl, id, 0, GETPID, 0));
        result(CALL(semctl, id, 1, SETVAL, 32767));
        result(value(id, 1));
        say(" | %s", CALL(semctl, id, 1, GETPID, 0) == getpid() ? "own" : "other");
        IN_CHILD(operate(id, 1, -1, 0));
        say(" | %s", CALL(semctl, id, 1, GETPID, 0) == getpid() ? "own" : "other");
        operate(id, 0, 0, 0);
        say(" | %s", CALL(semctl, id, 0, GETPID, 0) == getpid() ? "own" : "other");
        discard(id);
    })
    T(semctl, "SETALL and GETALL", {
        int id = new_set(3);
        unsigned short some_values[4] = {5, 0, 32767, 9};
        result(CALL(semctl, id, 0, SETALL, some_values));
        show_set(id);
        unsigned short read_values[4] = {1, 1, 1, 1};
        result(CALL(semctl, id, 0, GETALL, read_values));
        say(" | %d %d %d %d", read_values[0], read_values[1], read_values[2], read_values[3]);
        discard(id);
    })
    T(semctl, "SETALL and GETALL of many", {
        int id = new_set(5000);
        int right = 0;
        for (int i = 0; i < 5000; i++)
            values[i] = i * 3;
        result(CALL(semctl, id, 0, SETALL, values));
        memset(values, 1, sizeof values);
        result(CALL(semctl, id, 0, GETALL, values));
        for (int i = 0; i < 5000; i++)
            right += values[i] == i * 3;
        say(" | %d right, then %x", right, values[5000]);
        discard(id);
    })
    T(semctl, "IPC_SET", {
        int id = new_set(1);
        CALL(semctl, id, 0, IPC_STAT, &set);
        set.ds.sem_perm.mode = 07640;
        result(CALL(semctl, id, 0, IPC_SET, &set));
        show_set(id);
        set.ds.sem_perm.gid = -1;
        result(CALL(semctl, id, 0, IPC_SET, &set));
        discard(id);
    })
    T(semctl, "IPC_INFO", {
        int info[10];
        some(CALL(semctl, 0, 0, IPC_INFO, info));
        say(" |");
        for (int i = 0; i < 10; i++)
            if (i != 7)
                say(" %d", info[i]);
    })
    T(semctl, "SEM_INFO and SEM_STAT", {
        int before[10], after[10], found = 0;
        CALL(semctl, 0, 0, SEM_INFO, before);
        int id = new_set(7);
        long highest = CALL(semctl, 0, 0, SEM_INFO, after);
        say(" | %d more, of %d", after[7] - before[7], after[9] - before[9]);
        for (long place = 0; place <= highest; place++)
            found += CALL(semctl, place, 0, SEM_STAT, &set) == id && set.ds.sem_nsems == 7;
        for (long place = 0; place <= highest; place++)
            found += CALL(semctl, place, 0, SEM_STAT_ANY, &set) == id;
        say(" | %d times", found);
        discard(id);
    })
    T(semctl, "GETNCNT and GETZCNT", {
        int id = new_set(2);
        CALL(semctl, id, 0, SETVAL, 1);
        pid_t first = fork();
        if (first == 0)
            _exit(operate(id, 0, -2, 0) < 0 ? errno : 0);
        pid_t second = fork();
        if (second == 0)
            _exit(operate(id, 0, 0, 0) < 0 ? errno : 0);
        until_asleep(first);
        until_asleep(second);
        say(" | %ld %ld %ld %ld", CALL(semctl, id, 0, GETNCNT, 0), CALL(semctl, id, 0, GETZCNT, 0), CALL(semctl, id, 1, GETNCNT, 0), CALL(semctl, id, 1, GETZCNT, 0));
        result(CALL(semctl, id, 2, GETNCNT, 0));
        CALL(semctl, id, 0, SETVAL, 2);
        waitpid(first, &status, 0);
        say(" | %x", status);
        waitpid(second, &status, 0);
        say(" | %x", status);
        discard(id);
    })
    T(semctl, "a mode that allows the owner nothing", {
        int id = (int)CALL(semget, IPC_PRIVATE, 1, 0);
        result(value(id, 0));
        result(CALL(semctl, id, 0, SETVAL, 1));
        result(operate(id, 0, 1, 0));
        result(operate(id, 0, 0, 0));
        result(CALL(semctl, id, 0, IPC_STAT, &set));
        result(CALL(semctl, id, 0, IPC_RMID, 0));
    })
    R(semctl, "another user's", {
        int id = (int)CALL(semget, KEY, 1, IPC_CREAT | 0604);
        if (fork() == 0) {
            setgid(1000), setuid(1000);
            result(value(id, 0));
            result(operate(id, 0, 0, 0));
            result(operate(id, 0, 1, 0));
            result(CALL(semctl, id, 0, SETVAL, 1));
            result(CALL(semctl, id, 0, SETALL, values));
            result(CALL(semctl, id, 0, IPC_STAT, &set));
            result(CALL(semctl, id, 0, IPC_SET, &set));
            result(CALL(semctl, id, 0, IPC_RMID, 0));
            end();
        }
        wait(0);
        discard(id);
        _exit(0);
    })
    T(semctl, "limits in /proc/sys/kernel", {
        char text[100] = "";
        int fd = open("/proc/sys/kernel/sem", O_RDONLY);
        read(fd, text, 99);
        say(" | %.*s", (int)strcspn(text, "\n"), text);
    })
    T(semctl, "in /proc/sysvipc/sem", {
        int id = (int)CALL(semget, KEY, 5, IPC_CREAT | 0640);
        char text[512];
        FILE *file = fopen("/proc/sysvipc/sem", "r");
        while (file && fgets(text, sizeof text, file)) {
            int key, listed, mode, count;
            if (sscanf(text, "%d %d %o %d", &key, &listed, &mode, &count) == 4 && listed == id)
                say(" | %d bytes, %x %o %d", (int)strlen(text), shown(key, NAME), mode, count);
        }
        discard(id);
    })
}

static void operating(void) {
    C(semop, -1, operations, 1)
    C(semop, 0x7fffffff, operations, 1)
    T(semop, "what cannot be done", {
        int id = new_set(2);
        result(CALL(semop, id, operations, 0));
        result(CALL(semop, id, operations, 501));
        result(CALL(semop, id, BAD, 1));
        result(operate(id, 2, 1, 0));
        result(operate(id, 0, -1, IPC_NOWAIT));
        result(operate(id, 1, 32767, 0));
        result(operate(id, 1, 1, 0));
        result(operate(id, 1, 0, IPC_NOWAIT));
        show_set(id);
        discard(id);
    })
    T(semop, "adds, takes, and finds 0", {
        int id = new_set(1);
        result(operate(id, 0, 5, 0));
        result(operate(id, 0, -2, 0));
        result(value(id, 0));
        result(operate(id, 0, -3, 0));
        result(operate(id, 0, 0, 0));
        show_set(id);
        discard(id);
    })
    T(semop, "all of several, or none", {
        int id = new_set(2);
        two(0, 3, 0, 1, -1, IPC_NOWAIT);
        result(CALL(semop, id, operations, 2));
        show_set(id);
        two(0, 3, 0, 1, 4, 0);
        result(CALL(semop, id, operations, 2));
        two(0, -3, 0, 0, -1, IPC_NOWAIT);
        result(CALL(semop, id, operations, 2));
        two(0, -3, 0, 0, 0, IPC_NOWAIT);
        result(CALL(semop, id, operations, 2));
        two(1, 32000, 0, 1, 32000, 0);
        result(CALL(semop, id, operations, 2));
        two(1, -4, 0, 1, 4, 0);
        result(CALL(semop, id, operations, 2));
        show_set(id);
        discard(id);
    })
    T(semop, "five hundred", {
        int id = new_set(100);
        for (int i = 0; i < 500; i++)
            operations[i] = (struct sembuf){i % 100, i / 100 == 4 ? -3 : 1, SEM_UNDO};
        result(CALL(semop, id, operations, 500));
        say(" | %ld %ld", value(id, 0), value(id, 99));
        discard(id);
    })
    T(semop, "waits until it can", {
        int id = new_set(2);
        WAITER(operate(id, 0, -2, 0), operate(id, 0, 1, 0); operate(id, 0, 1, 0));
        operate(id, 0, 2, 0);
        WAITER(operate(id, 0, 0, 0), operate(id, 0, -1, 0); operate(id, 0, -1, 0));
        two(0, -1, 0, 1, -1, 0);
        WAITER(CALL(semop, id, operations, 2), operate(id, 1, 1, 0); operate(id, 0, 1, 0));
        operate(id, 0, 2, 0);
        two(0, -1, 0, 0, 0, 0);
        WAITER(CALL(semop, id, operations, 2), operate(id, 0, -1, 0));
        WAITER(operate(id, 0, -1, 0), CALL(semctl, id, 0, SETVAL, 3));
        WAITER(operate(id, 1, -1, 0), values[0] = 0; values[1] = 1; CALL(semctl, id, 0, SETALL, values));
        show_set(id);
        discard(id);
    })
    T(semop, "waits until the set goes", { int id = new_set(1); WAITER(operate(id, 0, -1, 0), discard(id)); })
    T(semop, "waits until a signal comes, SA_RESTART or not", {
        int id = new_set(1);
        interrupt_soon(0);
        result(operate(id, 0, -1, 0));
        interrupt_soon(SA_RESTART);
        result(operate(id, 0, -1, 0));
        discard(id);
    })
    T(semtimedop, "waits for some time", {
        int id = new_set(1);
        operations[0] = (struct sembuf){0, -1, 0};
        result(CALL(semtimedop, id, operations, 1, &soon));
        result(CALL(semtimedop, id, operations, 1, &now));
        result(CALL(semtimedop, id, operations, 1, &negative));
        result(CALL(semtimedop, id, operations, 1, &odd));
        result(CALL(semtimedop, id, operations, 1, BAD));
        WAITER(CALL(semtimedop, id, operations, 1, &hour), operate(id, 0, 1, 0));
        operate(id, 0, 1, 0);
        result(CALL(semtimedop, id, operations, 1, &soon));
        operate(id, 0, 1, 0);
        result(CALL(semtimedop, id, operations, 1, 0));
        show_set(id);
        discard(id);
    })
    T(semtimedop, "what it need not wait for", {
        int id = new_set(2);
        two(0, 3, 0, 1, 0, 0);
        result(CALL(semtimedop, id, operations, 2, &soon));
        result(CALL(semtimedop, id, operations, 2, &now));
        result(CALL(semtimedop, id, operations, 501, &now));
        show_set(id);
        discard(id);
    })
    C(semtimedop, -1, operations, 1, 0)
    T(semop, "SEM_UNDO", {
        int id = new_set(3);
        CALL(semctl, id, 0, SETVAL, 5);
        IN_CHILD(operate(id, 0, -2, SEM_UNDO); operate(id, 1, 4, SEM_UNDO); operate(id, 2, 3, 0));
        show_set(id);
        IN_CHILD(operate(id, 0, -1, SEM_UNDO); operate(id, 0, -1, SEM_UNDO); operate(id, 0, 1, SEM_UNDO));
        show_set(id);
        discard(id);
    })
    T(semop, "SEM_UNDO wakes who waits", {
        int id = new_set(1);
        CALL(semctl, id, 0, SETVAL, 1);
        operate(id, 0, -1, 0);
        pid_t holder = fork();
        if (holder == 0) {
            operate(id, 0, 1, 0);
            operate(id, 0, -1, SEM_UNDO);
            pause();
        }
        until_asleep(holder);
        WAITER(operate(id, 0, -1, 0), kill(holder, SIGKILL));
        discard(id);
    })
    T(semop, "SEM_UNDO goes no lower than 0, and is forgotten when the value is set", {
        int id = new_set(2);
        IN_CHILD(operate(id, 0, 5, SEM_UNDO); operate(id, 0, -3, 0));
        show_set(id);
        IN_CHILD(operate(id, 0, 5, SEM_UNDO); CALL(semctl, id, 0, SETVAL, 9));
        show_set(id);
        values[0] = values[1] = 4;
        IN_CHILD(operate(id, 1, 5, SEM_UNDO); CALL(semctl, id, 0, SETALL, values));
        show_set(id);
        discard(id);
    })
    T(semop, "SEM_UNDO of more than can be undone", {
        int id = new_set(1);
        result(operate(id, 0, 32767, SEM_UNDO));
        result(operate(id, 0, -32767, 0));
        result(operate(id, 0, 2, SEM_UNDO));
        show_set(id);
        discard(id);
    })
    T(semop, "SEM_UNDO stays with the process that executes a program, and its set may go", {
        int id = new_set(1);
        int other = new_set(1);
        IN_CHILD(operate(id, 0, 3, SEM_UNDO); operate(other, 0, 3, SEM_UNDO); discard(other); execl("/proc/self/exe", "conformance", "/nowhere", "no such case", (char *)0));
        show_set(id);
        discard(id);
    })
    T(semop, "SEM_UNDO of a forked child is its own", {
        int id = new_set(1);
        pid_t child = fork();
        if (child == 0) {
            operate(id, 0, 3, SEM_UNDO);
            IN_CHILD(operate(id, 0, 4, SEM_UNDO));
            _exit((int)value(id, 0));
        }
        waitpid(child, &status, 0);
        say(" | %d", WEXITSTATUS(status));
        show_set(id);
        discard(id);
    })
    T(semop, "SEM_UNDO and CLONE_SYSVSEM", {
        int id = new_set(1);
        pid_t child = fork();
        if (child == 0) {
            pid_t sharer = (pid_t)CALL(clone, CLONE_SYSVSEM | SIGCHLD, 0, 0, 0, 0);
            if (sharer == 0) {
                operate(id, 0, 5, SEM_UNDO);
                _exit(0);
            }
            waitpid(sharer, &status, 0);
            _exit((int)value(id, 0));
        }
        waitpid(child, &status, 0);
        say(" | %d", WEXITSTATUS(status));
        show_set(id);
        discard(id);
    })
    T(unshare, "CLONE_SYSVSEM undoes", {
        int id = new_set(1);
        operate(id, 0, 5, SEM_UNDO);
        result(CALL(unshare, CLONE_SYSVSEM));
        show_set(id);
        discard(id);
    })
    T(semop, "SEM_UNDO of a thread is the process's", {
        int id = new_set(1);
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            operate(id, 0, 3, 0);
            pthread_create(&thread, 0, in_thread, (void *)(long)id);
            pthread_join(thread, 0);
            _exit((int)value(id, 0));
        }
        waitpid(child, &status, 0);
        say(" | %d", WEXITSTATUS(status));
        show_set(id);
        discard(id);
    })
}

void semaphores(void) {
    sets();
    operating();
}
