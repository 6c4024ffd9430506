/* POSIX message queues. Each case removes what it makes: on the host it would stay. */
#include "keys.h"

/* linux/mqueue.h */
struct attributes { long flags, maxmsg, msgsize, curmsgs, rest[4]; };
struct event { long value; int signal, notify; long rest[6]; };

static char text[8193];
static int status;
static unsigned priority;

/* Nobody else on the machine has this name. */
static const char *own_name(void) {
    static char name[32];
    if (!name[0])
        sprintf(name, "motet.%d", own_key());
    return name;
}
#define NAME own_name()

static int make(long count, long size, int flags) {
    struct attributes wanted = {0, count, size, 0, {0}};
    return (int)CALL(mq_open, NAME, O_CREAT | flags, 0600, &wanted);
}
static void discard(void) { CALL(mq_unlink, NAME); }

static void show(int fd) {
    struct attributes now;
    if (CALL(mq_getsetattr, fd, 0, &now) < 0)
        say(" | %s", errno_name(errno));
    else
        say(" | flags %lo, %ld of %ld messages of %ld bytes", now.flags, now.curmsgs, now.maxmsg, now.msgsize);
}

static long put(int fd, const char *what, unsigned how) {
    return CALL(mq_timedsend, fd, what, strlen(what), how, 0);
}

static void got(int fd) {
    memset(text, 0, sizeof text);
    priority = 99;
    long len = CALL(mq_timedreceive, fd, text, sizeof text, &priority, 0);
    result(len);
    if (len >= 0)
        say(" %u '%s'", priority, text);
}

static void told(int signal, siginfo_t *info, void *context) {
    (void)context;
    say(" | told by %d%s, value %d, %s", signal, info->si_code == SI_MESGQ ? " for a message" : "", info->si_value.sival_int, info->si_pid == getpid() ? "own" : "another's");
}

static void handle(int signal) {
    struct sigaction how = {.sa_sigaction = told, .sa_flags = SA_SIGINFO};
    sigaction(signal, &how, 0);
}

/* Lets a child wait, and does something else meanwhile. */
#define WAITER(waits, meanwhile) do { \
        pid_t child = fork(); \
        if (child == 0) _exit((waits) < 0 ? errno : 0); \
        until_asleep(child); \
        meanwhile; \
        waitpid(child, &status, 0); \
        say(" | %s", status == 0 ? "done" : errno_name(WEXITSTATUS(status))); \
    } while (0)

/* What comes of a child's doing. */
#define CHILD(does) do { \
        pid_t child = fork(); \
        if (child == 0) _exit((does) < 0 ? errno : 0); \
        waitpid(child, &status, 0); \
        say(" | %s", status == 0 ? "done" : errno_name(WEXITSTATUS(status))); \
    } while (0)

static void names(void) {
    C(mq_open, "", O_RDWR, 0, 0)
    C(mq_open, "/", O_RDWR, 0, 0)
    C(mq_open, ".", O_RDWR, 0, 0)
    C(mq_open, "..", O_RDWR | O_CREAT, 0600, 0)
    C(mq_open, "motet/none", O_RDWR | O_CREAT, 0600, 0)
    C(mq_open, BAD, O_RDWR, 0, 0)
    C(mq_open, "motet.none", O_RDWR, 0, 0)
    C(mq_open, "motet.none", O_RDWR | O_EXCL, 0, 0)
    C(mq_unlink, "motet.none")
    C(mq_unlink, "")
    C(mq_unlink, "a/b")
    C(mq_unlink, BAD)
    T(mq_open, "a name that is too long", {
        char name[300];
        memset(name, 'n', sizeof name);
        name[256] = 0;
        result(CALL(mq_open, name, O_CREAT | O_RDWR, 0600, 0));
        result(CALL(mq_unlink, name));
    })
    T(mq_open, "what it is", {
        int fd = make(3, 50, O_RDWR);
        say(" | %d", fd);
        show(fd);
        show_flags(fd);
        struct stat is;
        fstat(fd, &is);
        say(" | %o, %ld bytes, %s", is.st_mode, (long)is.st_size, is.st_uid == getuid() ? "own" : "another's");
        result(lseek(fd, 0, SEEK_CUR));
        result(write(fd, "text", 4));
        result(ftruncate(fd, 3));
        result((long)mmap(0, PAGE, PROT_READ, MAP_SHARED, fd, 0));
        discard();
    })
    T(mq_open, "with what there is if nothing is said", { int fd = (int)CALL(mq_open, NAME, O_CREAT | O_RDONLY | O_NONBLOCK, 0600, 0); show(fd); show_flags(fd); discard(); })
    T(mq_open, "again", {
        int fd = make(3, 50, O_RDWR);
        put(fd, "first", 1);
        int other = make(9, 90, O_RDONLY);
        show(other);
        show_flags(other);
        result(CALL(mq_open, NAME, O_CREAT | O_EXCL | O_RDWR, 0600, 0));
        result(CALL(mq_open, NAME, O_ACCMODE, 0, 0));
        got(other);
        result(put(other, "no", 1));
        int writer = (int)CALL(mq_open, NAME, O_WRONLY, 0, 0);
        result(put(writer, "yes", 1));
        result(CALL(mq_timedreceive, writer, text, sizeof text, 0, 0));
        discard();
    })
    T(mq_open, "with room that cannot be", {
        result(make(0, 50, O_RDWR));
        result(make(3, 0, O_RDWR));
        result(make(-1, 50, O_RDWR));
        result(make(3, -1, O_RDWR));
        result(make(11, 50, O_RDWR));
        result(make(3, 8193, O_RDWR));
        result(CALL(mq_open, NAME, O_CREAT | O_RDWR, 0600, BAD));
        result(CALL(mq_open, NAME, O_RDWR, 0600, BAD));
        result(CALL(mq_unlink, NAME));
    })
    /* A user has so many over all processes, and this program may run several times on a machine: nobody else has this one. */
    R(mq_open, "more bytes than RLIMIT_MSGQUEUE", {
        uid_t own = 100000 + (uid_t)getpid();
        setresuid(own, own, own);
        struct rlimit few = {1000, 1000};
        setrlimit(RLIMIT_MSGQUEUE, &few);
        result(make(3, 500, O_RDWR));
        int fd = make(1, 800, O_RDWR);
        show(fd);
        discard();
        result(make(1, 950, O_RDWR));
    })
    T(mq_open, "a mode, and the mask", {
        umask(027);
        int fd = (int)CALL(mq_open, NAME, O_CREAT | O_RDWR, 07777, 0);
        struct stat is;
        fstat(fd, &is);
        say(" | %o", is.st_mode);
        result(fchmod(fd, 0400));
        result(CALL(mq_open, NAME, O_RDWR, 0, 0) >= 0 ? 0 : -1);
        discard();
    })
    T(mq_unlink, "while it is open", {
        int fd = make(3, 50, O_RDWR);
        put(fd, "kept", 1);
        result(CALL(mq_unlink, NAME));
        result(CALL(mq_unlink, NAME));
        int other = make(5, 60, O_RDWR);
        show(other);
        got(fd);
        show(fd);
        discard();
    })
    T(mq_open, "kept by fork", {
        int fd = make(3, 50, O_RDWR);
        CHILD(put(fd, "of a child", 3));
        got(fd);
        discard();
    })
}

static void sending(void) {
    C(mq_timedsend, -1, text, 1, 0, 0)
    C(mq_timedsend, RW, text, 1, 0, 0)
    C(mq_timedsend, PIPE_W, text, 1, 32768, 0)
    C(mq_timedreceive, -1, text, 1, 0, 0)
    C(mq_timedreceive, RW, text, 1, 0, 0)
    C(mq_getsetattr, -1, 0, 0)
    C(mq_getsetattr, RW, 0, 0)
    T(mq_timedsend, "what cannot be sent", {
        int fd = make(3, 50, O_RDWR);
        result(CALL(mq_timedsend, fd, text, 51, 0, 0));
        result(CALL(mq_timedsend, fd, text, -1L, 0, 0));
        result(CALL(mq_timedsend, fd, text, 1, 32768, 0));
        result(CALL(mq_timedsend, fd, text, 1, -1, 0));
        result(CALL(mq_timedsend, fd, BAD, 1, 0, 0));
        result(CALL(mq_timedsend, fd, BAD, 0, 32767, 0));
        got(fd);
        discard();
    })
    T(mq_timedsend, "by priority", {
        int fd = make(10, 50, O_RDWR);
        put(fd, "three", 3);
        put(fd, "zero", 0);
        put(fd, "highest", 32767);
        put(fd, "three again", 3);
        put(fd, "five", 5);
        put(fd, "nothing again", 0);
        show(fd);
        for (int i = 0; i < 6; i++)
            got(fd);
        discard();
    })
    T(mq_timedsend, "until there is no room", {
        int fd = make(2, 50, O_RDWR | O_NONBLOCK);
        result(put(fd, "one", 0));
        result(put(fd, "two", 0));
        result(put(fd, "three", 0));
        show(fd);
        got(fd);
        result(put(fd, "four", 0));
        got(fd);
        got(fd);
        got(fd);
        discard();
    })
    T(mq_timedsend, "of every size", {
        int fd = make(3, 8192, O_RDWR);
        int right = 0;
        static const int sizes[] = {0, 1, 383, 384, 385, 4095, 4096, 4097, 8191, 8192};
        for (int i = 0; i < 10; i++) {
            for (int at = 0; at < sizes[i]; at++)
                text[at] = (char)(at * 7 + i);
            text[sizes[i]] = 99;
            if (CALL(mq_timedsend, fd, text, sizes[i], i, 0) != 0)
                break;
            memset(text, 99, sizeof text);
            int good = CALL(mq_timedreceive, fd, text, 8192, &priority, 0) == sizes[i] && priority == (unsigned)i && text[sizes[i]] == 99;
            for (int at = 0; at < sizes[i]; at++)
                good &= text[at] == (char)(at * 7 + i);
            right += good;
        }
        say(" | %d right", right);
        discard();
    })
    T(mq_timedreceive, "what cannot be received", {
        int fd = make(3, 50, O_RDWR | O_NONBLOCK);
        result(CALL(mq_timedreceive, fd, text, 50, 0, 0));
        put(fd, "one", 1);
        put(fd, "two", 1);
        result(CALL(mq_timedreceive, fd, text, 49, 0, 0));
        result(CALL(mq_timedreceive, fd, BAD, 50, 0, 0));
        result(CALL(mq_timedreceive, fd, text, 50, BAD, 0));
        show(fd);
        discard();
    })
    T(mq_timedreceive, "waits until a message comes", { int fd = make(3, 50, O_RDWR); WAITER(CALL(mq_timedreceive, fd, text, 50, 0, 0), put(fd, "here", 0)); show(fd); discard(); })
    T(mq_timedsend, "waits until there is room", { int fd = make(1, 50, O_RDWR); put(fd, "first", 0); WAITER(put(fd, "second", 0), got(fd)); got(fd); discard(); })
    T(mq_timedreceive, "waits until a time", {
        int fd = make(3, 50, O_RDWR);
        struct timespec until = {1, 0};
        result(CALL(mq_timedreceive, fd, text, 50, 0, &until));
        until.tv_nsec = 1000000000;
        result(CALL(mq_timedreceive, fd, text, 50, 0, &until));
        until = (struct timespec){-1, 0};
        result(CALL(mq_timedreceive, fd, text, 50, 0, &until));
        result(CALL(mq_timedreceive, fd, text, 50, 0, BAD));
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20000000;
        if (until.tv_nsec >= 1000000000)
            until.tv_nsec -= 1000000000, until.tv_sec++;
        result(CALL(mq_timedreceive, fd, text, 50, 0, &until));
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        say(" | %s", now.tv_sec > until.tv_sec || now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec ? "then" : "too early");
        put(fd, "there", 0);
        until = (struct timespec){1, 0};
        result(CALL(mq_timedreceive, fd, text, 50, 0, &until));
        for (int i = 0; i < 3; i++)
            put(fd, "full", 0);
        result(CALL(mq_timedsend, fd, text, 1, 0, &until));
        discard();
    })
    T(mq_timedreceive, "waits until a signal comes, SA_RESTART or not", {
        int fd = make(3, 50, O_RDWR);
        interrupt_soon(0);
        result(CALL(mq_timedreceive, fd, text, 50, 0, 0));
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        interrupt_soon(SA_RESTART);
        result(CALL(mq_timedreceive, fd, text, 50, 0, &until));
        discard();
    })
    T(mq_timedreceive, "waits in poll", {
        int fd = make(1, 50, O_RDWR);
        struct pollfd wanted = {fd, POLLIN | POLLOUT, 0};
        result(poll(&wanted, 1, 0));
        say(" %x", wanted.revents);
        struct pollfd in = {fd, POLLIN, 0};
        WAITER(poll(&in, 1, -1) == 1 && in.revents == POLLIN ? 0 : -1, put(fd, "here", 0));
        result(poll(&wanted, 1, 0));
        say(" %x", wanted.revents);
        discard();
    })
    T(mq_getsetattr, "whether it waits", {
        int fd = make(3, 50, O_RDWR);
        struct attributes wanted = {O_NONBLOCK, 7, 70, 7, {0}};
        struct attributes before;
        result(CALL(mq_getsetattr, fd, &wanted, &before));
        say(" | %lo before", before.flags);
        show(fd);
        show_flags(fd);
        wanted.flags = O_APPEND;
        result(CALL(mq_getsetattr, fd, &wanted, 0));
        result(CALL(mq_getsetattr, fd, BAD, 0));
        result(CALL(mq_getsetattr, fd, 0, BAD));
        wanted.flags = 0;
        result(CALL(mq_getsetattr, fd, &wanted, 0));
        show(fd);
        discard();
    })
}

static void notifying(void) {
    C(mq_notify, -1, 0)
    C(mq_notify, RW, 0)
    T(mq_notify, "how one cannot be told", {
        int fd = make(3, 50, O_RDWR);
        struct event event = {7, SIGUSR1, 77, {0}};
        result(CALL(mq_notify, fd, &event));
        event = (struct event){7, 65, 0, {0}};
        result(CALL(mq_notify, fd, &event));
        result(CALL(mq_notify, fd, BAD));
        result(CALL(mq_notify, fd, 0));
        discard();
    })
    T(mq_notify, "a signal, once", {
        int fd = make(3, 50, O_RDWR);
        handle(SIGUSR1);
        struct event event = {7, SIGUSR1, SIGEV_SIGNAL, {0}};
        result(CALL(mq_notify, fd, &event));
        result(CALL(mq_notify, fd, &event));
        result(put(fd, "first", 0));
        result(put(fd, "second", 0));
        got(fd);
        got(fd);
        result(put(fd, "third", 0));
        got(fd);
        result(CALL(mq_notify, fd, &event));
        result(CALL(mq_notify, fd, 0));
        result(put(fd, "fourth", 0));
        discard();
    })
    T(mq_notify, "of a queue that has messages", {
        int fd = make(3, 50, O_RDWR);
        handle(SIGUSR1);
        struct event event = {7, SIGUSR1, SIGEV_SIGNAL, {0}};
        put(fd, "first", 0);
        result(CALL(mq_notify, fd, &event));
        result(put(fd, "second", 0));
        got(fd);
        got(fd);
        result(put(fd, "third", 0));
        discard();
    })
    T(mq_notify, "SIGEV_NONE", {
        int fd = make(3, 50, O_RDWR);
        struct event event = {7, SIGUSR1, SIGEV_NONE, {0}};
        result(CALL(mq_notify, fd, &event));
        result(CALL(mq_notify, fd, &event));
        result(put(fd, "first", 0));
        result(CALL(mq_notify, fd, &event));
        discard();
    })
    T(mq_notify, "while somebody waits for the message", {
        int fd = make(3, 50, O_RDWR);
        handle(SIGUSR1);
        struct event event = {7, SIGUSR1, SIGEV_SIGNAL, {0}};
        result(CALL(mq_notify, fd, &event));
        WAITER(CALL(mq_timedreceive, fd, text, 50, 0, 0), put(fd, "here", 0));
        result(put(fd, "now", 0));
        discard();
    })
    T(mq_notify, "another process's", {
        int fd = make(3, 50, O_RDWR);
        handle(SIGUSR1);
        struct event event = {7, SIGUSR1, SIGEV_SIGNAL, {0}};
        result(CALL(mq_notify, fd, &event));
        CHILD(CALL(mq_notify, fd, &event));
        CHILD(CALL(mq_notify, fd, 0));
        CHILD(put(fd, "first", 0));
        discard();
    })
    T(mq_notify, "until a descriptor is closed", {
        int fd = make(3, 50, O_RDWR);
        int other = dup(fd);
        handle(SIGUSR1);
        struct event event = {7, SIGUSR1, SIGEV_SIGNAL, {0}};
        result(CALL(mq_notify, fd, &event));
        close(other);
        result(put(fd, "first", 0));
        result(CALL(mq_notify, fd, &event));
        discard();
    })
    T(mq_notify, "what reading says", {
        int fd = make(3, 50, O_RDWR);
        struct event event = {7, SIGUSR1, SIGEV_SIGNAL, {0}};
        put(fd, "four", 0);
        put(fd, "three", 0);
        memset(text, 0, sizeof text);
        result(read(fd, text, 100));
        text[strlen(text) - 1] = '$';
        say(" '%s'", text);
        result(read(fd, text, 100));
        CALL(mq_notify, fd, &event);
        memset(text, 0, sizeof text);
        pread(fd, text, 33, 0);
        say(" '%s'", text);
        discard();
    })
}

void mqueues(void) {
    names();
    sending();
    notifying();
}
