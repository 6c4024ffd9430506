/* Byte-range locks: what becomes of ranges that meet, who waits for whom, and who gives them up. */
#include "conform.h"

static struct flock range(int kind, long start, long len) {
    return (struct flock){.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

static long set(int fd, int command, int kind, long start, long len) {
    struct flock asked = range(kind, start, len);
    return CALL(fcntl, fd, command, &asked);
}

static const char *kind_of(const struct flock *found) {
    return found->l_type == F_WRLCK ? "write" : found->l_type == F_RDLCK ? "read" : "none";
}

/* What another process finds in its way that asks for each of these bytes and all behind it. */
static void others_see(const long *starts, int count, int kind) {
    int ends[2];
    struct flock found;
    pipe(ends);
    for (int i = 0; i < count; i++) {
        if (fork() == 0) {
            found = range(kind, starts[i], 0);
            CALL(fcntl, RW, F_GETLK, &found);
            _exit(write(ends[1], &found, sizeof found) != sizeof found);
        }
        read(ends[0], &found, sizeof found);
        wait(0);
        say(" | %s of %ld from %ld", kind_of(&found), (long)found.l_len, (long)found.l_start);
        if (found.l_type != F_UNLCK)
            say(found.l_pid == getpid() ? " by it" : " by another");
    }
}
#define OTHERS_SEE(kind, ...) others_see((long[]){__VA_ARGS__}, sizeof((long[]){__VA_ARGS__}) / sizeof(long), kind)

static void ranges_meet(void) {
    T(fcntl, "locks that touch become one", { set(RW, F_SETLK, F_WRLCK, 0, 10); set(RW, F_SETLK, F_WRLCK, 10, 10); OTHERS_SEE(F_WRLCK, 0, 5); })
    T(fcntl, "locks that overlap become one", { set(RW, F_SETLK, F_RDLCK, 0, 15); set(RW, F_SETLK, F_RDLCK, 10, 20); OTHERS_SEE(F_WRLCK, 0, 29, 30); })
    T(fcntl, "a lock between two joins them", { set(RW, F_SETLK, F_WRLCK, 20, 10); set(RW, F_SETLK, F_WRLCK, 0, 10); set(RW, F_SETLK, F_WRLCK, 10, 10); OTHERS_SEE(F_WRLCK, 0); })
    T(fcntl, "a lock within another changes nothing", { set(RW, F_SETLK, F_WRLCK, 0, 30); set(RW, F_SETLK, F_WRLCK, 10, 10); OTHERS_SEE(F_WRLCK, 0, 15, 25); })
    T(fcntl, "locks of two kinds stay two", { set(RW, F_SETLK, F_WRLCK, 0, 10); set(RW, F_SETLK, F_RDLCK, 10, 10); OTHERS_SEE(F_WRLCK, 0, 10); })
    T(fcntl, "a lock of another kind divides one", { set(RW, F_SETLK, F_WRLCK, 0, 30); set(RW, F_SETLK, F_RDLCK, 10, 10); OTHERS_SEE(F_WRLCK, 0, 10, 20); OTHERS_SEE(F_RDLCK, 10); })
    T(fcntl, "what is given up divides one", { set(RW, F_SETLK, F_WRLCK, 0, 30); set(RW, F_SETLK, F_UNLCK, 10, 10); OTHERS_SEE(F_WRLCK, 0, 10, 20, 30); })
    T(fcntl, "a lock from behind to before others", { set(RW, F_SETLK, F_WRLCK, 5, 5); set(RW, F_SETLK, F_RDLCK, 15, 5); set(RW, F_SETLK, F_WRLCK, 0, 0); OTHERS_SEE(F_WRLCK, 0, 100); })
    T(fcntl, "a length below zero means what is before", { result(set(RW, F_SETLK, F_WRLCK, 20, -10)); OTHERS_SEE(F_WRLCK, 0, 15, 20); })
    T(fcntl, "from the position and from the end", {
        struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_start = -2, .l_len = 1};
        lseek(RW, 5, SEEK_SET);
        result(CALL(fcntl, RW, F_SETLK, &asked));
        asked = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -4};
        result(CALL(fcntl, RW, F_SETLK, &asked));
        OTHERS_SEE(F_WRLCK, 0, 4);
    })
    T(fcntl, "before the beginning", { result(set(RW, F_SETLK, F_WRLCK, 5, -6)); result(set(RW, F_SETLK, F_WRLCK, -1, 0)); result(set(RW, F_SETLK, F_WRLCK, 0, -1)); })
    T(fcntl, "beyond the largest offset", { result(set(RW, F_SETLK, F_WRLCK, HUGE_NUMBER, 1)); result(set(RW, F_SETLK, F_WRLCK, HUGE_NUMBER, 2)); result(set(RW, F_SETLK, F_WRLCK, 1, HUGE_NUMBER)); })
    T(fcntl, "any descriptor that is closed gives them up", { set(RW, F_SETLK, F_WRLCK, 0, 10); close(RO); OTHERS_SEE(F_WRLCK, 0); })
    T(fcntl, "a child has none", {
        set(RW, F_SETLK, F_WRLCK, 0, 10);
        if (fork() == 0) {
            result(set(RW, F_SETLK, F_RDLCK, 0, 1));
            result(set(RW, F_SETLK, F_UNLCK, 0, 0));
            OTHERS_SEE(F_WRLCK, 0);
            end();
        }
        wait(0);
        _exit(0);
    })
}

static void open_files(void) {
    T(fcntl, "open files of one process have theirs apart", {
        int other = open("file", O_RDWR);
        result(set(RW, F_OFD_SETLK, F_WRLCK, 0, 10));
        result(set(other, F_OFD_SETLK, F_RDLCK, 5, 1));
        result(set(RW, F_SETLK, F_RDLCK, 5, 1));
        struct flock found = range(F_RDLCK, 0, 0);
        result(CALL(fcntl, other, F_OFD_GETLK, &found));
        say(" | %s of %ld by %d", kind_of(&found), (long)found.l_len, (int)found.l_pid);
        close(dup(RW));
        result(set(other, F_OFD_SETLK, F_RDLCK, 5, 1));
        close(RW);
        result(set(other, F_OFD_SETLK, F_RDLCK, 5, 1));
    })
    T(fcntl, "F_OFD_GETLK with F_UNLCK finds its own", {
        set(RW, F_OFD_SETLK, F_WRLCK, 5, 10);
        struct flock found = range(F_UNLCK, 0, 0);
        result(CALL(fcntl, RW, F_OFD_GETLK, &found));
        say(" | %s of %ld from %ld by %d", kind_of(&found), (long)found.l_len, (long)found.l_start, (int)found.l_pid);
        found = range(F_UNLCK, 0, 5);
        result(CALL(fcntl, RW, F_OFD_GETLK, &found));
        say(" | %s", kind_of(&found));
        found = range(F_UNLCK, 0, 0);
        result(CALL(fcntl, open("file", O_RDWR), F_OFD_GETLK, &found));
        say(" | %s", kind_of(&found));
    })
    T(fcntl, "F_GETLK with F_UNLCK", { struct flock found = range(F_UNLCK, 0, 0); result(CALL(fcntl, RW, F_GETLK, &found)); })
}

/* A child that has a lock at 20 and waits for one at 0. */
static pid_t waiter(int command) {
    pid_t child = fork();
    if (child == 0) {
        set(RW, command == F_OFD_SETLKW ? F_OFD_SETLK : F_SETLK, F_WRLCK, 20, 10);
        _exit(set(RW, command, F_WRLCK, 0, 10) < 0);
    }
    until_asleep(child);
    return child;
}

static void nothing(int signal) { (void)signal; }

static void waits(void) {
    T(fcntl, "two that would wait for each other", {
        int status;
        set(RW, F_SETLK, F_WRLCK, 0, 10);
        pid_t child = waiter(F_SETLKW);
        result(set(RW, F_SETLKW, F_WRLCK, 25, 1));
        set(RW, F_SETLK, F_UNLCK, 0, 0);
        waitpid(child, &status, 0);
        say(" | %x", status);
    })
    T(fcntl, "three that would wait for each other", {
        int status;
        set(RW, F_SETLK, F_WRLCK, 0, 10);
        pid_t first = waiter(F_SETLKW);
        pid_t second = fork();
        if (second == 0) {
            set(RW, F_SETLK, F_WRLCK, 40, 10);
            _exit(set(RW, F_SETLKW, F_WRLCK, 25, 1) < 0);
        }
        until_asleep(second);
        result(set(RW, F_SETLKW, F_RDLCK, 40, 1));
        set(RW, F_SETLK, F_UNLCK, 0, 0);
        waitpid(first, &status, 0);
        say(" | %x", status);
        waitpid(second, &status, 0);
        say(" | %x", status);
    })
    T(fcntl, "who has given up what another waits for may wait for it", {
        int status;
        for (int i = 0; i < 20; i++) {
            set(RW, F_SETLK, F_WRLCK, 0, 10);
            pid_t child = waiter(F_SETLKW);
            set(RW, F_SETLK, F_UNLCK, 0, 10);
            long got = set(RW, F_SETLKW, F_WRLCK, 25, 1);
            if (got || waitpid(child, &status, 0) != child || status) {
                result(got);
                say(" | %x", status);
            }
            set(RW, F_SETLK, F_UNLCK, 0, 0);
        }
        say(" | twenty times");
    })
    T(fcntl, "a wait that a handler has ended is no reason", {
        int status, ends[2];
        char waited;
        pipe(ends);
        set(RW, F_SETLK, F_WRLCK, 0, 10);
        pid_t child = fork();
        if (child == 0) {
            struct sigaction action = {.sa_handler = nothing};
            sigaction(SIGUSR1, &action, 0);
            set(RW, F_SETLK, F_WRLCK, 20, 10);
            int error = set(RW, F_SETLKW, F_WRLCK, 0, 10) < 0 ? errno : 0;
            write(ends[1], "w", 1);
            usleep(200000);
            _exit(error);
        }
        until_asleep(child);
        kill(child, SIGUSR1);
        read(ends[0], &waited, 1);
        result(set(RW, F_SETLKW, F_WRLCK, 25, 1));
        waitpid(child, &status, 0);
        say(" | %s", errno_name(WEXITSTATUS(status)));
    })
}

void locks(void) {
    ranges_meet();
    open_files();
    waits();
}
