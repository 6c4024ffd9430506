/* System V IPC: segments of shared memory, and queues of messages. Each case removes what it makes: on the host it would stay. */
#include "keys.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/shm.h>

#ifndef SHM_STAT_ANY
#define SHM_STAT_ANY 15
#endif
#ifndef MSG_STAT_ANY
#define MSG_STAT_ANY 13
#endif
#ifndef MSG_EXCEPT
#define MSG_EXCEPT 020000
#endif
#ifndef MSG_COPY
#define MSG_COPY 040000
#endif
#ifndef SHM_EXEC
#define SHM_EXEC 0100000
#endif
#ifndef SHM_HUGETLB
#define SHM_HUGETLB 04000
#endif
#ifndef SHM_NORESERVE
#define SHM_NORESERVE 010000
#endif
/* The name of the own key. */
#define NAME 0x4d6f7465
#define PLACE ((char *)0x5a0000000000)

static struct shmid_ds segment;
static struct msqid_ds queue;
static int status;
/* A message: type and text. */
static struct { long type; char text[8200]; } message;
static int new_segment(long size) { return (int)CALL(shmget, IPC_PRIVATE, size, 0600); }
static void destroy(int id) { CALL(shmctl, id, IPC_RMID, 0); }
static int new_queue(void) { return (int)CALL(msgget, IPC_PRIVATE, 0600); }
static void discard(int id) { CALL(msgctl, id, IPC_RMID, 0); }

static void show_segment(int id) {
    if (CALL(shmctl, id, IPC_STAT, &segment) < 0) {
        say(" | %s", errno_name(errno));
        return;
    }
    say(" | %lo %ld bytes, %ld attached", (long)segment.shm_perm.mode, (long)segment.shm_segsz, (long)segment.shm_nattch);
    say(", key %x, made by %s, used by %s", (unsigned)shown(*(int *)&segment, NAME), segment.shm_cpid == getpid() ? "own" : "other",
        segment.shm_lpid == getpid() ? "own" : segment.shm_lpid ? "other" : "0");
    say(", %s", segment.shm_perm.uid == getuid() && segment.shm_perm.cuid == getuid() ? "own" : "others'");
    say(", times %d%d%d", segment.shm_atime != 0, segment.shm_dtime != 0, segment.shm_ctime != 0);
}

static void show_queue(int id) {
    if (CALL(msgctl, id, IPC_STAT, &queue) < 0) {
        say(" | %s", errno_name(errno));
        return;
    }
    say(" | %lo, %ld messages, of %ld bytes", (long)queue.msg_perm.mode, (long)queue.msg_qnum, (long)queue.msg_qbytes);
    say(", %ld", ((long *)&queue)[9]);
    say(", sent by %s, received by %s", queue.msg_lspid == getpid() ? "own" : queue.msg_lspid ? "other" : "0",
        queue.msg_lrpid == getpid() ? "own" : queue.msg_lrpid ? "other" : "0");
    say(", times %d%d%d", queue.msg_stime != 0, queue.msg_rtime != 0, queue.msg_ctime != 0);
}

/* The name that /proc/self/maps has for an address. */
static void show_name(void *at) {
    char line[512];
    unsigned long start, end;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && start <= (unsigned long)at && (unsigned long)at < end) {
            char *space = strchr(line, ' '), *name = strchr(line, '/'), own[16], usual[16];
            snprintf(own, sizeof own, "/SYSV%08x", KEY);
            snprintf(usual, sizeof usual, "/SYSV%08x", shown(KEY, NAME));
            if (name && strncmp(name, own, 13) == 0)
                memcpy(name, usual, 13);
            say(" | %.4s, %.4s, %lu bytes, %.*s", space + 1, space + 6 + 4, end - start, name ? (int)strcspn(name, "\n") : 4, name ? name : "none");
        }
    if (maps)
        fclose(maps);
}

/* What a list in /proc/sysvipc says of an id: some of its words. */
static void show_listed(const char *list, int id, int words) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/sysvipc/%s", list);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        int key, listed;
        if (sscanf(line, "%d %d", &key, &listed) != 2 || listed != id)
            continue;
        say(" | %d bytes, key %d:", (int)strlen(line), shown(key, NAME));
        char *at = line;
        for (int word = 0; word < words; word++) {
            at += strspn(at, " ");
            int len = (int)strcspn(at, " \n");
            if (word >= 2)
                say(" %.*s", len, at);
            at += len;
        }
    }
    if (file)
        fclose(file);
}

static void show_file_of(const char *path) {
    char text[256];
    int fd = open(path, O_RDONLY);
    long len = read(fd, text, sizeof text);
    close(fd);
    if (len < 0)
        say(" | %s", errno_name(errno));
    else
        say(" | %.*s", (int)strcspn(text, "\n"), text);
}

static void in_child(void (*act)(int), int id) {
    pid_t child = fork();
    if (child == 0) {
        act(id);
        _exit(0);
    }
    waitpid(child, &status, 0);
}

static void attach_and_end(int id) { CALL(shmat, id, 0, 0); }

static void shared_memory(void) {
    C(shmget, IPC_PRIVATE, 0, 0600)
    C(shmget, IPC_PRIVATE, -1L, 0600)
    C(shmget, KEY, 4096, 0)
    C(shmget, KEY, 4096, IPC_EXCL)
    C(shmget, IPC_PRIVATE, 1L << 50, 0600)
    T(shmget, "by a key", {
        int id = (int)CALL(shmget, KEY, 5000, IPC_CREAT | 0640);
        some(id);
        show_segment(id);
        say(" | %s", CALL(shmget, KEY, 0, 0) == id ? "the same" : "another");
        say(" | %s", CALL(shmget, KEY, 5000, IPC_CREAT) == id ? "the same" : "another");
        result(CALL(shmget, KEY, 5001, 0));
        result(CALL(shmget, KEY, 5000, IPC_CREAT | IPC_EXCL));
        destroy(id);
        result(CALL(shmget, KEY, 5000, 0));
        show_segment(id);
    })
    T(shmget, "a key that has been used is another segment's", {
        int first = (int)CALL(shmget, KEY, 4096, IPC_CREAT | 0600);
        destroy(first);
        int second = (int)CALL(shmget, KEY, 4096, IPC_CREAT | 0600);
        say(" | %s", first == second ? "the same" : "another");
        destroy(second);
    })
    T(shmget, "SHM_NORESERVE", { int id = (int)CALL(shmget, IPC_PRIVATE, 4096, SHM_NORESERVE | 0600); some(id); destroy(id); })
    T(shmget, "SHM_HUGETLB of no such size", { result(CALL(shmget, IPC_PRIVATE, 4096, SHM_HUGETLB | 5 << 26 | 0600)); })
    T(shmget, "what the mode does not allow", {
        int id = (int)CALL(shmget, KEY, 4096, IPC_CREAT | 0200);
        result(CALL(shmget, KEY, 0, 0400));
        some(CALL(shmget, KEY, 0, 0200));
        some(CALL(shmget, KEY, 0, 0020));
        result(CALL(shmat, id, 0, SHM_RDONLY) == -1 ? -1 : 0);
        show_segment(id);
        destroy(id);
    })
    C(shmat, -1, 0, 0)
    C(shmat, 0x7fffffff, 0, 0)
    T(shmat, "written, read, and detached", {
        int id = new_segment(3 * PAGE);
        char *at = (char *)CALL(shmat, id, 0, 0);
        some((long)at);
        at[0] = 'a';
        at[3 * PAGE - 1] = 'z';
        show_segment(id);
        result(CALL(shmdt, at));
        show_segment(id);
        at = (char *)CALL(shmat, id, 0, 0);
        say(" | %c%c%d", at[0], at[3 * PAGE - 1], at[PAGE]);
        destroy(id);
    })
    T(shmat, "twice", {
        int id = new_segment(PAGE);
        char *one = (char *)CALL(shmat, id, 0, 0);
        char *two = (char *)CALL(shmat, id, 0, 0);
        one[5] = 7;
        say(" | %d", two[5]);
        show_segment(id);
        destroy(id);
    })
    T(shmat, "SHM_RDONLY", {
        int id = new_segment(PAGE);
        char *at = (char *)CALL(shmat, id, 0, SHM_RDONLY);
        show_page(at);
        result(mprotect(at, PAGE, PROT_READ | PROT_WRITE));
        destroy(id);
    })
    T(shmat, "SHM_EXEC", {
        int id = (int)CALL(shmget, IPC_PRIVATE, PAGE, 0700);
        char *at = (char *)CALL(shmat, id, 0, SHM_EXEC);
        show_name(at);
        destroy(id);
        id = new_segment(PAGE);
        result(CALL(shmat, id, 0, SHM_EXEC) == -1 ? -1 : 0);
        destroy(id);
    })
    T(shmat, "at an address", {
        int id = new_segment(2 * PAGE);
        say(" | %ld", CALL(shmat, id, PLACE, 0) - (long)PLACE);
        result(CALL(shmat, id, PLACE + PAGE, 0));
        result(CALL(shmat, id, PLACE + 8 * PAGE + 5, 0));
        say(" | %ld", CALL(shmat, id, PLACE + 8 * PAGE + 5, SHM_RND) - (long)PLACE);
        result(CALL(shmat, id, -PAGE, 0));
        show_segment(id);
        destroy(id);
    })
    T(shmat, "SHM_REMAP", {
        int id = new_segment(2 * PAGE);
        result(CALL(shmat, id, 0, SHM_REMAP));
        char *at = mmap(PLACE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        memset(at, 9, 4 * PAGE);
        say(" | %ld", CALL(shmat, id, PLACE + PAGE, SHM_REMAP) - (long)PLACE);
        say(" | %d%d%d%d", at[0], at[PAGE], at[2 * PAGE], at[3 * PAGE]);
        result(CALL(shmat, 0x7fffffff, PLACE, SHM_REMAP));
        say(" | %d", at[0]);
        destroy(id);
    })
    T(shmat, "in /proc/self/maps", {
        int id = (int)CALL(shmget, KEY, 5000, IPC_CREAT | 0600);
        char *at = (char *)CALL(shmat, id, 0, 0);
        show_name(at);
        destroy(id);
        show_name(at);
    })
    T(shmat, "inherited, and gone with the child", {
        int id = new_segment(PAGE);
        char *at = (char *)CALL(shmat, id, 0, 0);
        int two[2];
        pipe(two);
        pid_t child = fork();
        if (child == 0) {
            at[0] = 'c';
            read(two[0], buffer, 1);
            _exit(0);
        }
        while (*(volatile char *)at != 'c')
            usleep(100);
        show_segment(id);
        write(two[1], "", 1);
        waitpid(child, &status, 0);
        show_segment(id);
        in_child(attach_and_end, id);
        show_segment(id);
        destroy(id);
    })
    T(shmat, "gone with the program", {
        int id = new_segment(PAGE);
        pid_t child = fork();
        if (child == 0) {
            CALL(shmat, id, 0, 0);
            execl("/proc/self/exe", "conformance", "/nowhere", "no such case", (char *)0);
            _exit(9);
        }
        waitpid(child, &status, 0);
        CALL(shmctl, id, IPC_STAT, &segment);
        say(" | %ld attached", (long)segment.shm_nattch);
        destroy(id);
    })
    T(shmat, "a segment that is removed stays until it is detached", {
        int id = new_segment(PAGE);
        char *at = (char *)CALL(shmat, id, 0, 0);
        at[0] = 'x';
        result(CALL(shmctl, id, IPC_RMID, 0));
        show_segment(id);
        result(CALL(shmctl, id, IPC_RMID, 0));
        char *again = (char *)CALL(shmat, id, 0, 0);
        say(" | %c", again[0]);
        CALL(shmdt, at);
        show_segment(id);
        CALL(shmdt, again);
        show_segment(id);
    })
    C(shmdt, 0)
    C(shmdt, 5)
    C(shmdt, buffer)
    C(shmdt, in_page)
    T(shmdt, "pieces", {
        int id = new_segment(6 * PAGE);
        char *at = (char *)CALL(shmat, id, PLACE, 0);
        munmap(at + PAGE, PAGE);
        mprotect(at + 4 * PAGE, PAGE, PROT_READ);
        mmap(at + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        show_segment(id);
        result(CALL(shmdt, at + PAGE));
        result(CALL(shmdt, at + 2 * PAGE));
        result(CALL(shmdt, at));
        show_segment(id);
        show_page(at + PAGE);
        destroy(id);
    })
    T(shmdt, "what has lost its beginning", {
        int id = new_segment(3 * PAGE);
        char *at = (char *)CALL(shmat, id, PLACE, 0);
        munmap(at, PAGE);
        result(CALL(shmdt, at + PAGE));
        result(CALL(shmdt, at));
        show_segment(id);
        destroy(id);
    })
    T(shmdt, "another one behind it stays", {
        int id = new_segment(PAGE);
        int other = new_segment(PAGE);
        CALL(shmat, id, PLACE, 0);
        CALL(shmat, other, PLACE + PAGE, 0);
        CALL(shmat, id, PLACE + 2 * PAGE, 0);
        result(CALL(shmdt, PLACE));
        show_segment(id);
        show_segment(other);
        destroy(id);
        destroy(other);
    })
    C(shmctl, -1, IPC_STAT, &segment)
    C(shmctl, 0x7fffffff, IPC_STAT, &segment)
    C(shmctl, 0x7fffffff, IPC_RMID, 0)
    C(shmctl, 0x7fffffff, SHM_STAT, &segment)
    C(shmctl, 0x7fffffff, SHM_STAT_ANY, &segment)
    T(shmctl, "a command that is none", { int id = new_segment(PAGE); result(CALL(shmctl, id, 99, 0)); result(CALL(shmctl, id, -1, 0)); result(CALL(shmctl, id, IPC_STAT | 0x100, &segment)); destroy(id); })
    T(shmctl, "bad addresses", {
        int id = new_segment(PAGE);
        result(CALL(shmctl, id, IPC_STAT, BAD));
        result(CALL(shmctl, id, IPC_SET, BAD));
        result(CALL(shmctl, 0, IPC_INFO, BAD));
        result(CALL(shmctl, 0, SHM_INFO, BAD));
        destroy(id);
    })
    T(shmctl, "IPC_SET", {
        int id = new_segment(PAGE);
        CALL(shmctl, id, IPC_STAT, &segment);
        segment.shm_perm.mode = 07644;
        segment.shm_segsz = 5;
        result(CALL(shmctl, id, IPC_SET, &segment));
        show_segment(id);
        segment.shm_perm.uid = -1;
        result(CALL(shmctl, id, IPC_SET, &segment));
        CALL(shmctl, id, IPC_STAT, &segment);
        segment.shm_perm.uid = 12345;
        segment.shm_perm.gid = 23456;
        result(CALL(shmctl, id, IPC_SET, &segment));
        show_segment(id);
        destroy(id);
        show_segment(id);
    })
    T(shmctl, "IPC_INFO", {
        struct shminfo { unsigned long most, least, number, seg, all, unused[4]; } info;
        some(CALL(shmctl, 0, IPC_INFO, &info));
        say(" | %ld %ld, %lu %lu", info.least, info.number, info.most, info.all);
    })
    T(shmctl, "SHM_INFO and SHM_STAT", {
        struct { int used; unsigned long total, resident, swapped, rest[2]; } before, after;
        CALL(shmctl, 0, SHM_INFO, &before);
        int id = (int)CALL(shmget, IPC_PRIVATE, 3 * PAGE + 1, 0600);
        char *at = (char *)CALL(shmat, id, 0, 0);
        at[0] = at[PAGE] = 1;
        long highest = CALL(shmctl, 0, SHM_INFO, &after);
        say(" | %d more, %ld pages, %ld resident", after.used - before.used, after.total - before.total, after.resident - before.resident);
        int found = 0;
        for (long place = 0; place <= highest; place++)
            found += CALL(shmctl, place, SHM_STAT, &segment) == id && segment.shm_segsz == 3 * PAGE + 1;
        for (long place = 0; place <= highest; place++)
            found += CALL(shmctl, place, SHM_STAT_ANY, &segment) == id;
        say(" | %d times", found);
        destroy(id);
    })
    T(shmctl, "SHM_LOCK and SHM_UNLOCK", {
        int id = new_segment(PAGE);
        result(CALL(shmctl, id, SHM_LOCK, 0));
        show_segment(id);
        result(CALL(shmctl, id, SHM_UNLOCK, 0));
        show_segment(id);
        result(CALL(shmctl, 0x7fffffff, SHM_LOCK, 0));
        destroy(id);
    })
    T(shmctl, "SHM_LOCK of more than may be locked", {
        int id = new_segment(4 * PAGE);
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_MEMLOCK, &none);
        result(CALL(shmctl, id, SHM_LOCK, 0));
        destroy(id);
    })
    T(shmctl, "a mode that allows the owner nothing", {
        int id = (int)CALL(shmget, IPC_PRIVATE, PAGE, 0);
        result(CALL(shmctl, id, IPC_STAT, &segment));
        result(CALL(shmctl, id & 0x7fff, SHM_STAT, &segment));
        some(CALL(shmctl, id & 0x7fff, SHM_STAT_ANY, &segment));
        result(CALL(shmctl, id, SHM_LOCK, 0));
        result(CALL(shmctl, id, IPC_RMID, 0));
    })
    R(shmctl, "another user's", {
        int id = (int)CALL(shmget, KEY, PAGE, IPC_CREAT | 0604);
        if (fork() == 0) {
            setgid(1000), setuid(1000);
            result(CALL(shmat, id, 0, 0) == -1 ? -1 : 0);
            some(CALL(shmat, id, 0, SHM_RDONLY));
            result(CALL(shmget, KEY, 0, 0600));
            result(CALL(shmctl, id, IPC_RMID, 0));
            CALL(shmctl, id, IPC_STAT, &segment);
            result(CALL(shmctl, id, IPC_SET, &segment));
            result(CALL(shmctl, id, SHM_LOCK, 0));
            result(CALL(shmctl, id, SHM_UNLOCK, 0));
            end();
        }
        wait(0);
        destroy(id);
        _exit(0);
    })
    R(shmctl, "given away", {
        int id = (int)CALL(shmget, IPC_PRIVATE, PAGE, 0600);
        CALL(shmctl, id, IPC_STAT, &segment);
        segment.shm_perm.uid = 1000;
        result(CALL(shmctl, id, IPC_SET, &segment));
        if (fork() == 0) {
            setgid(1000), setuid(1000);
            some(CALL(shmat, id, 0, 0));
            result(CALL(shmctl, id, IPC_RMID, 0));
            end();
        }
        wait(0);
        _exit(0);
    })
    T(shmctl, "in /proc/sysvipc/shm", {
        int id = (int)CALL(shmget, KEY, 5000, IPC_CREAT | 0640);
        show_listed("shm", id, 4);
        CALL(shmat, id, 0, 0);
        destroy(id);
        show_listed("shm", id, 4);
    })
    T(shmctl, "limits in /proc/sys/kernel", {
        show_file_of("/proc/sys/kernel/shmmax");
        show_file_of("/proc/sys/kernel/shmall");
        show_file_of("/proc/sys/kernel/shmmni");
        show_file_of("/proc/sys/kernel/shm_rmid_forced");
        result(open("/proc/sys/kernel/shmmax", O_WRONLY));
    })
}

static long put(int id, long type, const char *text) {
    message.type = type;
    strcpy(message.text, text);
    return CALL(msgsnd, id, &message, strlen(text), IPC_NOWAIT);
}

static void got(int id, long type, int flags) {
    memset(&message, 0, sizeof message);
    long len = CALL(msgrcv, id, &message, 100, type, flags | IPC_NOWAIT);
    result(len);
    if (len >= 0)
        say(" %ld '%.*s'", message.type, (int)len, message.text);
}

static void five(int id) {
    put(id, 3, "three");
    put(id, 1, "one");
    put(id, 2, "two");
    put(id, 1, "uno");
    put(id, 5, "five");
}

/* Lets a child wait for a message, and does something else meanwhile. */
#define WAITER(waits, meanwhile) do { \
        pid_t child = fork(); \
        if (child == 0) _exit((waits) < 0 ? errno : 0); \
        until_asleep(child); \
        meanwhile; \
        waitpid(child, &status, 0); \
        say(" | %s", status == 0 ? "got" : errno_name(WEXITSTATUS(status))); \
    } while (0)

static void messages(void) {
    C(msgget, KEY, 0)
    T(msgget, "by a key", {
        int id = (int)CALL(msgget, KEY, IPC_CREAT | 0640);
        some(id);
        show_queue(id);
        say(" | %s", CALL(msgget, KEY, 0) == id ? "the same" : "another");
        result(CALL(msgget, KEY, IPC_CREAT | IPC_EXCL));
        result(CALL(msgget, KEY, 0777));
        result(CALL(msgctl, id, IPC_RMID, 0));
        result(CALL(msgget, KEY, 0));
    })
    C(msgsnd, -1, &message, 1, 0)
    T(msgsnd, "what cannot be sent", {
        int id = new_queue();
        message.type = 0;
        result(CALL(msgsnd, id, &message, 1, 0));
        message.type = -5;
        result(CALL(msgsnd, id, &message, 1, 0));
        message.type = 1;
        result(CALL(msgsnd, id, &message, 8193, 0));
        result(CALL(msgsnd, id, &message, -1L, 0));
        result(CALL(msgsnd, id, BAD, 1, 0));
        result(CALL(msgsnd, 0x7fffffff, &message, 1, 0));
        message.type = 1;
        memcpy(in_page + PAGE - 8, &message.type, 8);
        result(CALL(msgsnd, id, in_page + PAGE - 8, 1, 0));
        result(CALL(msgsnd, id, in_page + PAGE - 8, 0, 0));
        show_queue(id);
        discard(id);
    })
    T(msgsnd, "until there is no room", {
        int id = new_queue();
        int sent = 0;
        message.type = 1;
        while (CALL(msgsnd, id, &message, 1000, IPC_NOWAIT) == 0)
            sent++;
        result(-1);
        say(" | %d", sent);
        result(CALL(msgsnd, id, &message, 384, IPC_NOWAIT));
        result(CALL(msgsnd, id, &message, 1, IPC_NOWAIT));
        result(CALL(msgsnd, id, &message, 0, IPC_NOWAIT));
        show_queue(id);
        discard(id);
    })
    T(msgsnd, "as many as there are bytes", {
        int id = new_queue();
        int sent = 0;
        message.type = 1;
        CALL(msgctl, id, IPC_STAT, &queue);
        queue.msg_qbytes = 100;
        result(CALL(msgctl, id, IPC_SET, &queue));
        while (CALL(msgsnd, id, &message, 0, IPC_NOWAIT) == 0)
            sent++;
        say(" | %d", sent);
        discard(id);
    })
    T(msgsnd, "of every size", {
        int id = new_queue();
        int right = 0;
        static const int sizes[] = {0, 1, 383, 384, 385, 4095, 4096, 4097, 8191, 8192};
        for (int i = 0; i < 10; i++) {
            message.type = i + 1;
            for (int at = 0; at < sizes[i]; at++)
                message.text[at] = (char)(at * 7 + i);
            message.text[sizes[i]] = 99;
            if (CALL(msgsnd, id, &message, sizes[i], 0) != 0)
                break;
            memset(&message, 99, sizeof message);
            int good = CALL(msgrcv, id, &message, 8192, 0, 0) == sizes[i] && message.type == i + 1 && message.text[sizes[i]] == 99;
            for (int at = 0; at < sizes[i]; at++)
                good &= message.text[at] == (char)(at * 7 + i);
            right += good;
        }
        say(" | %d right", right);
        show_queue(id);
        discard(id);
    })
    T(msgrcv, "by type", {
        int id = new_queue();
        five(id);
        got(id, 2, 0);
        got(id, 7, 0);
        got(id, -2, 0);
        got(id, -2, 0);
        got(id, -2, 0);
        got(id, 0, 0);
        got(id, LONG_MIN, 0);
        got(id, 0, 0);
        show_queue(id);
        discard(id);
    })
    T(msgrcv, "MSG_EXCEPT", { int id = new_queue(); five(id); got(id, 3, MSG_EXCEPT); got(id, 3, MSG_EXCEPT); got(id, 1, MSG_EXCEPT); got(id, 0, MSG_EXCEPT); discard(id); })
    T(msgrcv, "MSG_NOERROR", {
        int id = new_queue();
        put(id, 4, "abcdefgh");
        result(CALL(msgrcv, id, &message, 3, 0, 0));
        show_queue(id);
        result(CALL(msgrcv, id, &message, 3, 0, MSG_NOERROR));
        say(" '%.3s'", message.text);
        show_queue(id);
        discard(id);
    })
    T(msgrcv, "MSG_COPY together with what it does not go with", {
        int id = new_queue();
        five(id);
        result(CALL(msgrcv, id, &message, 100, 0, MSG_COPY));
        result(CALL(msgrcv, id, &message, 100, 0, MSG_COPY | MSG_EXCEPT | IPC_NOWAIT));
        show_queue(id);
        discard(id);
    })
    T(msgrcv, "MSG_COPY", {
        int id = new_queue();
        five(id);
        got(id, 0, MSG_COPY);
        got(id, 2, MSG_COPY);
        got(id, 5, MSG_COPY);
        result(CALL(msgrcv, id, &message, 3, 0, MSG_COPY | IPC_NOWAIT));
        result(CALL(msgrcv, id, &message, 3, 0, MSG_COPY | IPC_NOWAIT | MSG_NOERROR));
        show_queue(id);
        discard(id);
    })
    C(msgrcv, -1, &message, 100, 0, 0)
    C(msgrcv, 0x7fffffff, &message, 100, 0, IPC_NOWAIT)
    T(msgrcv, "what cannot be received", {
        int id = new_queue();
        result(CALL(msgrcv, id, &message, -1L, 0, 0));
        result(CALL(msgrcv, id, &message, 100, 0, IPC_NOWAIT));
        put(id, 1, "one");
        result(CALL(msgrcv, id, BAD, 100, 0, 0));
        discard(id);
    })
    T(msgrcv, "waits until a message comes", { int id = new_queue(); WAITER(CALL(msgrcv, id, &message, 100, 5, 0), put(id, 4, "no"); put(id, 5, "yes")); show_queue(id); discard(id); })
    T(msgrcv, "waits until the queue goes", { int id = new_queue(); WAITER(CALL(msgrcv, id, &message, 100, 0, 0), discard(id)); })
    T(msgrcv, "waits until a signal comes, SA_RESTART or not", {
        int id = new_queue();
        interrupt_soon(0);
        result(CALL(msgrcv, id, &message, 100, 0, 0));
        interrupt_soon(SA_RESTART);
        result(CALL(msgrcv, id, &message, 100, 0, 0));
        discard(id);
    })
    T(msgrcv, "waits while its process is stopped", {
        int id = new_queue();
        pid_t child = fork();
        if (child == 0)
            _exit(CALL(msgrcv, id, &message, 100, 0, 0) == 3 ? 0 : 1);
        until_asleep(child);
        kill(child, SIGSTOP);
        waitpid(child, &status, WUNTRACED);
        kill(child, SIGCONT);
        put(id, 1, "one");
        waitpid(child, &status, 0);
        say(" | %x", status);
        discard(id);
    })
    T(msgsnd, "waits until there is room", {
        int id = new_queue();
        message.type = 1;
        while (CALL(msgsnd, id, &message, 4096, IPC_NOWAIT) == 0) {}
        WAITER(CALL(msgsnd, id, &message, 4096, 0), CALL(msgrcv, id, &message, 8192, 0, 0));
        show_queue(id);
        WAITER(CALL(msgsnd, id, &message, 4096, 0), discard(id));
    })
    T(msgsnd, "waits until a signal comes", {
        int id = new_queue();
        message.type = 1;
        while (CALL(msgsnd, id, &message, 4096, IPC_NOWAIT) == 0) {}
        interrupt_soon(SA_RESTART);
        result(CALL(msgsnd, id, &message, 4096, 0));
        discard(id);
    })
    C(msgctl, -1, IPC_STAT, &queue)
    C(msgctl, 0x7fffffff, IPC_RMID, 0)
    C(msgctl, 0x7fffffff, MSG_STAT, &queue)
    T(msgctl, "a command that is none", { int id = new_queue(); result(CALL(msgctl, id, 99, 0)); result(CALL(msgctl, id, IPC_STAT, BAD)); result(CALL(msgctl, id, IPC_SET, BAD)); discard(id); })
    T(msgctl, "IPC_SET", {
        int id = new_queue();
        CALL(msgctl, id, IPC_STAT, &queue);
        queue.msg_perm.mode = 0640;
        queue.msg_qbytes = 16385;
        result(CALL(msgctl, id, IPC_SET, &queue));
        queue.msg_qbytes = 50;
        result(CALL(msgctl, id, IPC_SET, &queue));
        show_queue(id);
        discard(id);
    })
    T(msgctl, "IPC_INFO", {
        int info[8];
        some(CALL(msgctl, 0, IPC_INFO, info));
        say(" | %d %d %d %d %d %d", info[1], info[2], info[3], info[5], info[6], info[7] & 0xffff);
    })
    T(msgctl, "MSG_INFO and MSG_STAT", {
        int before[8], after[8], found = 0;
        CALL(msgctl, 0, MSG_INFO, before);
        int id = new_queue();
        five(id);
        long highest = CALL(msgctl, 0, MSG_INFO, after);
        say(" | %d more, %d messages, %d bytes", after[0] - before[0], after[1] - before[1], after[6] - before[6]);
        for (long place = 0; place <= highest; place++)
            found += CALL(msgctl, place, MSG_STAT, &queue) == id && queue.msg_qnum == 5;
        for (long place = 0; place <= highest; place++)
            found += CALL(msgctl, place, MSG_STAT_ANY, &queue) == id;
        say(" | %d times", found);
        discard(id);
    })
    T(msgctl, "a mode that allows the owner nothing", {
        int id = (int)CALL(msgget, IPC_PRIVATE, 0);
        result(CALL(msgctl, id, IPC_STAT, &queue));
        result(put(id, 1, "one"));
        got(id, 0, 0);
        result(CALL(msgctl, id, IPC_RMID, 0));
    })
    R(msgctl, "another user's", {
        int id = (int)CALL(msgget, KEY, IPC_CREAT | 0602);
        if (fork() == 0) {
            setgid(1000), setuid(1000);
            result(put(id, 1, "one"));
            got(id, 0, 0);
            result(CALL(msgctl, id, IPC_RMID, 0));
            result(CALL(msgctl, id, IPC_STAT, &queue));
            result(CALL(msgctl, id, IPC_SET, &queue));
            end();
        }
        wait(0);
        discard(id);
        _exit(0);
    })
    T(msgctl, "in /proc/sysvipc/msg", { int id = (int)CALL(msgget, KEY, IPC_CREAT | 0640); five(id); show_listed("msg", id, 5); discard(id); })
    T(msgctl, "limits in /proc/sys/kernel", {
        show_file_of("/proc/sys/kernel/msgmax");
        show_file_of("/proc/sys/kernel/msgmnb");
        show_file_of("/proc/sys/kernel/msgmni");
    })
}

void sysv(void) {
    shared_memory();
    messages();
}
