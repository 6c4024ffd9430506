/* Watches of inodes (inotify). */
#include "conform.h"
#include <sys/inotify.h>
#include <pthread.h>

#ifndef IN_MASK_CREATE
#define IN_MASK_CREATE 0x10000000
#endif

static int fd, other;
static char events[1 << 16] __attribute__((aligned(16)));
static int status;

/* What an event's mask has. */
static void show_mask(uint32_t mask) {
    static const struct { uint32_t bit; const char *name; } names[] = {
        {IN_ACCESS, "ACCESS"}, {IN_MODIFY, "MODIFY"}, {IN_ATTRIB, "ATTRIB"}, {IN_CLOSE_WRITE, "CLOSE_WRITE"},
        {IN_CLOSE_NOWRITE, "CLOSE_NOWRITE"}, {IN_OPEN, "OPEN"}, {IN_MOVED_FROM, "MOVED_FROM"}, {IN_MOVED_TO, "MOVED_TO"},
        {IN_CREATE, "CREATE"}, {IN_DELETE, "DELETE"}, {IN_DELETE_SELF, "DELETE_SELF"}, {IN_MOVE_SELF, "MOVE_SELF"},
        {IN_UNMOUNT, "UNMOUNT"}, {IN_Q_OVERFLOW, "Q_OVERFLOW"}, {IN_IGNORED, "IGNORED"}, {IN_ISDIR, "ISDIR"},
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (mask & names[i].bit) {
            say("%s%s", names[i].name, mask & ~names[i].bit ? "+" : "");
            mask &= ~names[i].bit;
        }
    if (mask)
        say("%x", mask);
}

/* Events that a read has given. Cookies are numbered as they come. */
static void show_events(long len) {
    uint32_t seen[16];
    int cookies = 0;
    if (len < 0) {
        say(" | %s", errno_name(errno));
        return;
    }
    for (long at = 0; at + (long)sizeof(struct inotify_event) <= len;) {
        struct inotify_event *event = (void *)(events + at);
        say(" | %d ", event->wd);
        show_mask(event->mask);
        if (event->len)
            say(" '%s' in %u", event->name, event->len);
        if (event->cookie) {
            int i = 0;
            while (i < cookies && seen[i] != event->cookie)
                i++;
            if (i == cookies && cookies < 16)
                seen[cookies++] = event->cookie;
            say(" cookie %d", i + 1);
        }
        at += sizeof *event + event->len;
    }
}

/* All that was told. */
static void show_all(void) { show_events(read(fd, events, sizeof events)); }

static void watch(const char *path, uint32_t mask) {
    long wd = CALL(inotify_add_watch, fd, path, mask);
    if (wd < 0)
        result(wd);
}

static void begin_watching(const char *path, uint32_t mask) {
    fd = (int)CALL(inotify_init1, O_NONBLOCK);
    watch(path, mask);
}

static void touch(const char *path) { close(open(path, O_CREAT | O_WRONLY, 0644)); }

static void show_ready(void) {
    struct pollfd one = {fd, POLLIN | POLLOUT, 0};
    int got = poll(&one, 1, 0), bytes = -1;
    say(" | %d %x", got, got > 0 ? one.revents : 0);
    result(ioctl(fd, FIONREAD, &bytes));
    say(" %d", bytes);
}

/* Lines of fdinfo about watches; inodes differ. */
static void show_fdinfo(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    int of = open(path, O_RDONLY);
    long len = read(of, buffer, sizeof buffer - 1);
    buffer[len > 0 ? len : 0] = 0;
    for (char *line = strtok(buffer, "\n"); line; line = strtok(0, "\n"))
        if (strstr(line, "inotify ") == line) {
            unsigned wd, mask;
            char *at = strstr(line, " mask:");
            say(" |");
            if (sscanf(line, "inotify wd:%x", &wd) == 1 && at && sscanf(at, " mask:%x", &mask) == 1)
                say(" %u %x %s", wd, mask, strstr(line, " ignored_mask:0") ? "ignores nothing" : "ignores");
        }
}

static long number_in(const char *path) {
    char text[64];
    int of = open(path, O_RDONLY);
    long len = read(of, text, sizeof text - 1);
    close(of);
    text[len > 0 ? len : 0] = 0;
    return len > 0 ? strtol(text, 0, 10) : -1;
}

static void *touch_later(void *unused) {
    usleep(20000);
    touch("dir/later");
    return unused;
}

static volatile int interrupted;
static void interrupt(int signal) { (void)signal, interrupted = 1; }

static void making(void) {
    E(show_flags(3), inotify_init)
    E(show_flags(3), inotify_init1, 0)
    E(show_flags(3), inotify_init1, IN_NONBLOCK)
    E(show_flags(3), inotify_init1, IN_CLOEXEC)
    E(show_flags(3), inotify_init1, IN_CLOEXEC | IN_NONBLOCK)
    C(inotify_init1, 1)
    C(inotify_init1, -1)
    T(inotify_init1, "what it is", {
        struct stat st;
        struct statfs fs;
        char path[64];
        fd = (int)CALL(inotify_init1, 0);
        result(fstat(fd, &st));
        say(" | %o", st.st_mode);
        fstatfs(fd, &fs);
        say(" | %lx", (long)fs.f_type);
        result(write(fd, events, 8));
        result(lseek(fd, 0, SEEK_SET));
        result(pread(fd, events, 64, 0));
        result(ioctl(fd, TCGETS, events));
        result(mmap(0, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        long len = readlink(path, buffer, sizeof buffer);
        say(" | %.*s", (int)len, buffer);
        result(ftruncate(fd, 0));
        result(fcntl(fd, F_SETFL, O_NONBLOCK));
        show_flags(fd);
    })
    T(inotify_init1, "too many descriptors", { struct rlimit few = {24, 24}; setrlimit(RLIMIT_NOFILE, &few); while (CALL(inotify_init1, 0) >= 0) {} result(CALL(inotify_init1, 0)); })
    T(inotify_init, "too many descriptors", { struct rlimit few = {24, 24}; setrlimit(RLIMIT_NOFILE, &few); while (CALL(inotify_init) >= 0) {} result(CALL(inotify_init)); })
    /* Of a user of its own: the program runs on all islands at once. */
    R(inotify_init1, "too many of a user", {
        uid_t own = 100000 + (uid_t)getpid();
        setresuid(own, own, own);
        long most = number_in("/proc/sys/fs/inotify/max_user_instances");
        int made = 0;
        while (made < most + 2 && CALL(inotify_init1, 0) >= 0)
            made++;
        result(CALL(inotify_init1, 0));
        say(" | %d more than may be", made > most);
        close(3);
        result(CALL(inotify_init1, 0));
    })
    T(openat, "limits of inotify", {
        say(" | %ld %ld %s", number_in("/proc/sys/fs/inotify/max_user_instances"), number_in("/proc/sys/fs/inotify/max_queued_events"),
            number_in("/proc/sys/fs/inotify/max_user_watches") >= 8192 ? "many" : "few");
    })
}

static void adding(void) {
    T(inotify_add_watch, "numbers", {
        begin_watching("dir", IN_CREATE);
        result(CALL(inotify_add_watch, fd, "file", IN_OPEN));
        result(CALL(inotify_add_watch, fd, "dir", IN_CREATE));
        result(CALL(inotify_rm_watch, fd, 2));
        result(CALL(inotify_add_watch, fd, "file", IN_OPEN));
        result(CALL(inotify_rm_watch, fd, 2));
        result(CALL(inotify_rm_watch, fd, 3));
        result(CALL(inotify_rm_watch, fd, 0));
        result(CALL(inotify_rm_watch, fd, -1));
        show_all();
    })
    C(inotify_add_watch, CLOSED, "dir", IN_CREATE)
    C(inotify_add_watch, RW, "dir", IN_CREATE)
    C(inotify_add_watch, PATH_FD, "dir", IN_CREATE)
    C(inotify_add_watch, CLOSED, "dir", 0)
    C(inotify_add_watch, RW, "dir", IN_MASK_ADD | IN_MASK_CREATE)
    C(inotify_rm_watch, CLOSED, 1)
    C(inotify_rm_watch, RW, 1)
    T(inotify_add_watch, "masks", {
        begin_watching("dir", IN_CREATE);
        result(CALL(inotify_add_watch, fd, "file", 0));
        result(CALL(inotify_add_watch, fd, "file", 0x1000));
        result(CALL(inotify_add_watch, fd, "file", 0x1000 | IN_OPEN));
        result(CALL(inotify_add_watch, fd, "file", -1));
        result(CALL(inotify_add_watch, fd, "file", IN_MASK_ADD | IN_MASK_CREATE | IN_OPEN));
        result(CALL(inotify_add_watch, fd, "empty", IN_MASK_ADD));
        result(CALL(inotify_add_watch, fd, "link", IN_DONT_FOLLOW));
        result(CALL(inotify_add_watch, fd, "void", IN_ONLYDIR));
        result(CALL(inotify_add_watch, fd, "fifo", IN_ISDIR));
        result(CALL(inotify_add_watch, fd, "fixed", IN_IGNORED));
        result(CALL(inotify_add_watch, fd, "program", IN_ONESHOT));
        show_fdinfo();
    })
    T(inotify_add_watch, "paths", {
        begin_watching("dir", IN_CREATE);
        result(CALL(inotify_add_watch, fd, "none", IN_OPEN));
        result(CALL(inotify_add_watch, fd, "", IN_OPEN));
        result(CALL(inotify_add_watch, fd, BAD, IN_OPEN));
        result(CALL(inotify_add_watch, fd, "file/x", IN_OPEN));
        result(CALL(inotify_add_watch, fd, "loop", IN_OPEN));
        result(CALL(inotify_add_watch, fd, "loop", IN_OPEN | IN_DONT_FOLLOW));
        result(CALL(inotify_add_watch, fd, "dangling", IN_OPEN));
        result(CALL(inotify_add_watch, fd, "file", IN_OPEN | IN_ONLYDIR));
        result(CALL(inotify_add_watch, fd, "link", IN_OPEN | IN_ONLYDIR | IN_DONT_FOLLOW));
        result(CALL(inotify_add_watch, fd, "file/", IN_OPEN));
        result(CALL(inotify_add_watch, fd, "/dev/null", IN_OPEN));
        memset(buffer, 'a', 5000);
        result(CALL(inotify_add_watch, fd, buffer, IN_OPEN));
    })
    T(inotify_add_watch, "what may not be read", {
        begin_watching("dir", IN_CREATE);
        chmod("file", 0333);
        mkdir("blind", 0300);
        touch("blind/in");
        result(CALL(inotify_add_watch, fd, "locked", IN_ALL_EVENTS));
        result(CALL(inotify_add_watch, fd, "file", IN_ALL_EVENTS));
        result(CALL(inotify_add_watch, fd, "closed", IN_ALL_EVENTS));
        result(CALL(inotify_add_watch, fd, "blind", IN_ALL_EVENTS));
        result(CALL(inotify_add_watch, fd, "blind/in", IN_ALL_EVENTS));
        result(CALL(inotify_add_watch, fd, "closed/in", IN_ALL_EVENTS));
    })
    T(inotify_add_watch, "IN_MASK_ADD, IN_MASK_CREATE", {
        begin_watching("file", IN_OPEN);
        result(CALL(inotify_add_watch, fd, "file", IN_ACCESS | IN_MASK_ADD));
        show_fdinfo();
        result(CALL(inotify_add_watch, fd, "file", IN_ATTRIB | IN_MASK_CREATE));
        show_fdinfo();
        result(CALL(inotify_add_watch, fd, "file", IN_ATTRIB | IN_ONESHOT));
        show_fdinfo();
        result(CALL(inotify_add_watch, fd, "file", IN_OPEN | IN_MASK_ADD | IN_EXCL_UNLINK));
        show_fdinfo();
        result(CALL(inotify_add_watch, fd, "file", IN_OPEN));
        show_fdinfo();
        result(CALL(inotify_add_watch, fd, "empty", IN_OPEN | IN_MASK_CREATE));
    })
    T(inotify_add_watch, "by another name", { begin_watching("file", IN_OPEN); link("file", "second"); result(CALL(inotify_add_watch, fd, "second", IN_ACCESS)); result(CALL(inotify_add_watch, fd, "link", IN_ACCESS)); })
    T(inotify_add_watch, "two descriptors", {
        begin_watching("dir", IN_CREATE);
        other = (int)CALL(inotify_init1, O_NONBLOCK);
        result(CALL(inotify_add_watch, other, "dir", IN_DELETE));
        touch("dir/new");
        unlink("dir/new");
        show_all();
        show_events(read(other, events, sizeof events));
    })
    T(inotify_rm_watch, "what is told afterwards", { begin_watching("dir", IN_CREATE); touch("dir/a"); result(CALL(inotify_rm_watch, fd, 1)); touch("dir/b"); show_all(); show_all(); })
}

static void reading(void) {
    T(read, "inotify: nothing", { begin_watching("dir", IN_CREATE); show_ready(); show_all(); result(read(fd, events, 0)); result(read(fd, BAD, 64)); })
    T(read, "inotify: room", {
        begin_watching("dir", IN_CREATE);
        touch("dir/name");
        touch("dir/a name of sixteen");
        show_ready();
        result(read(fd, events, 0));
        result(read(fd, events, 15));
        result(read(fd, events, 31));
        result(read(fd, BAD, 31));
        show_ready();
        show_events(read(fd, events, 63));
        show_events(read(fd, events, 47));
        show_events(read(fd, events, 48));
        show_ready();
    })
    T(read, "inotify: several at once", { begin_watching("dir", IN_CREATE | IN_DELETE); touch("dir/a"); touch("dir/b"); unlink("dir/a"); show_ready(); show_all(); show_all(); })
    T(readv, "inotify: two pieces", {
        begin_watching("dir", IN_CREATE);
        touch("dir/a");
        touch("dir/b");
        struct iovec two[2] = {{events, 20}, {events + 20, 44}};
        show_events(readv(fd, two, 2));
    })
    T(read, "inotify: names", {
        char name[260];
        begin_watching("dir", IN_CREATE);
        for (int len = 14; len < 18; len++) {
            snprintf(name, sizeof name, "dir/%.*s", len, "abcdefghijklmnopqrst");
            touch(name);
        }
        memset(buffer, 'n', 255);
        buffer[255] = 0;
        snprintf(name, sizeof name, "dir/%s", buffer);
        touch(name);
        show_events(read(fd, events, 16 * 4 + 16 + 16 + 32 + 32));
        long len = read(fd, events, sizeof events);
        say(" | %ld %u", len, ((struct inotify_event *)events)->len);
    })
    T(read, "inotify: waits", { begin_watching("dir", IN_CREATE); fcntl(fd, F_SETFL, 0); pthread_t thread; pthread_create(&thread, 0, touch_later, 0); show_all(); pthread_join(thread, 0); })
    T(read, "inotify: is interrupted", {
        begin_watching("dir", IN_CREATE);
        fcntl(fd, F_SETFL, 0);
        struct sigaction action = {.sa_handler = interrupt};
        sigaction(SIGALRM, &action, 0);
        struct itimerval soon = {{0, 0}, {0, 20000}};
        setitimer(ITIMER_REAL, &soon, 0);
        show_all();
        say(" | %d", interrupted);
    })
    T(ppoll, "inotify", {
        begin_watching("dir", IN_CREATE);
        struct pollfd one = {fd, POLLIN, 0};
        pthread_t thread;
        pthread_create(&thread, 0, touch_later, 0);
        result(ppoll(&one, 1, 0, 0));
        say(" %x", one.revents);
        pthread_join(thread, 0);
    })
    T(epoll_pwait, "inotify", {
        /* Its size differs between instruction sets. */
        static long space[2];
        struct epoll_event *event = (void *)space;
        begin_watching("dir", IN_CREATE);
        event->events = EPOLLIN | EPOLLET;
        result(epoll_ctl(EPOLL, EPOLL_CTL_ADD, fd, event));
        epoll_ctl(EPOLL, EPOLL_CTL_DEL, PIPE_R, 0);
        result(epoll_wait(EPOLL, event, 1, 0));
        touch("dir/a");
        result(epoll_wait(EPOLL, event, 1, 0));
        result(epoll_wait(EPOLL, event, 1, 0));
        touch("dir/b");
        result(epoll_wait(EPOLL, event, 1, 0));
        show_all();
    })
    T(pselect6, "inotify", { begin_watching("dir", IN_CREATE); touch("dir/a"); fd_set set; FD_ZERO(&set); FD_SET(fd, &set); struct timeval none = {0, 0}; result(select(fd + 1, &set, 0, 0, &none)); result(FD_ISSET(fd, &set)); })
    T(fcntl, "inotify: O_ASYNC", { begin_watching("dir", IN_CREATE); result(fcntl(fd, F_SETFL, O_NONBLOCK)); show_flags(fd); })
    T(dup, "inotify", { begin_watching("dir", IN_CREATE); other = dup(fd); close(fd); fd = other; touch("dir/a"); show_all(); })
    T(fork, "inotify is shared", { begin_watching("dir", IN_CREATE); fflush(stdout); if (fork() == 0) { touch("dir/a"); _exit(0); } wait(&status); show_all(); })
    T(close, "inotify: watches go", { begin_watching("dir", IN_CREATE); close(fd); begin_watching("dir", IN_CREATE); touch("dir/a"); show_all(); })
}

static void of_directories(void) {
    T(openat, "inotify: a new file", { begin_watching("dir", IN_ALL_EVENTS); other = open("dir/new", O_CREAT | O_RDWR, 0644); show_all(); result(write(other, "text", 4)); result(lseek(other, 0, SEEK_SET)); result(read(other, events, 4)); show_all(); close(other); show_all(); })
    T(mkdirat, "inotify", { begin_watching("dir", IN_ALL_EVENTS); result(mkdir("dir/new", 0755)); show_all(); })
    T(mknodat, "inotify", { begin_watching("dir", IN_ALL_EVENTS); result(mknod("dir/new", S_IFIFO | 0644, 0)); show_all(); })
    T(symlinkat, "inotify", { begin_watching("dir", IN_ALL_EVENTS); result(symlink("x", "dir/new")); show_all(); })
    T(bind, "inotify", { begin_watching("dir", IN_ALL_EVENTS); struct sockaddr_un name = {AF_UNIX, "dir/new"}; result(bind(FRESH, (struct sockaddr *)&name, sizeof name)); show_all(); })
    T(linkat, "inotify", { begin_watching("dir", IN_ALL_EVENTS); watch("file", IN_ALL_EVENTS); result(link("file", "dir/new")); show_all(); })
    T(unlinkat, "inotify", { begin_watching("dir", IN_ALL_EVENTS); result(unlink("dir/in")); show_all(); })
    T(unlinkat, "inotify: the file, too", { begin_watching("dir", IN_ALL_EVENTS); watch("dir/in", IN_ALL_EVENTS); result(unlink("dir/in")); show_all(); result(CALL(inotify_rm_watch, fd, 2)); })
    T(unlinkat, "inotify: a directory", { mkdir("dir/sub", 0755); begin_watching("dir", IN_ALL_EVENTS); watch("dir/sub", IN_ALL_EVENTS); result(rmdir("dir/sub")); show_all(); })
    T(unlinkat, "inotify: one of two names", { link("dir/in", "dir/two"); begin_watching("dir", IN_ALL_EVENTS); watch("dir/in", IN_ALL_EVENTS); result(unlink("dir/two")); show_all(); })
    T(unlinkat, "inotify: an open file", {
        other = open("dir/in", O_RDWR);
        begin_watching("dir", IN_ALL_EVENTS);
        watch("dir/in", IN_ALL_EVENTS);
        result(unlink("dir/in"));
        show_all();
        result(write(other, "text", 4));
        show_all();
        close(other);
        show_all();
    })
    T(unlinkat, "inotify: an open file, IN_EXCL_UNLINK", {
        other = open("dir/in", O_RDWR);
        begin_watching("dir", IN_ALL_EVENTS | IN_EXCL_UNLINK);
        watch("dir/in", IN_ALL_EVENTS | IN_EXCL_UNLINK);
        result(write(other, "text", 4));
        result(unlink("dir/in"));
        show_all();
        result(write(other, "text", 4));
        result(fchmod(other, 0600));
        show_all();
        close(other);
        show_all();
    })
    T(unlinkat, "inotify: the directory that is watched", { begin_watching("void", IN_ALL_EVENTS); result(rmdir("void")); show_all(); show_ready(); })
    T(unlinkat, "inotify: the working directory", { mkdir("dir/sub", 0755); begin_watching("dir/sub", IN_ALL_EVENTS); result(chdir("dir/sub")); result(rmdir("../sub")); show_all(); result(chdir("../..")); show_all(); })
    T(unlinkat, "inotify: what fails tells nothing", { begin_watching("dir", IN_ALL_EVENTS); result(unlink("dir/none")); result(rmdir("dir/in")); result(mkdir("dir/in", 0755)); result(open("dir/none", O_RDONLY)); result(open("dir/in", O_RDONLY | O_DIRECTORY)); show_all(); })
    T(getdents64, "inotify", { begin_watching("dir", IN_ALL_EVENTS); watch(".", IN_ALL_EVENTS); other = open("dir", O_RDONLY | O_DIRECTORY); result(CALL(getdents64, other, buffer, 1000) > 0); result(CALL(getdents64, other, buffer, 1000)); close(other); show_all(); })
    T(chdir, "inotify", { begin_watching("dir", IN_ALL_EVENTS); result(chdir("dir")); struct stat st; result(stat("in", &st)); result(access("in", R_OK)); show_all(); })
    T(fchmod, "inotify: the directory", { begin_watching("dir", IN_ALL_EVENTS); watch(".", IN_ALL_EVENTS); result(fchmod(DIR_FD, 0700)); show_all(); })
}

static void moving(void) {
    T(renameat2, "inotify: in a directory", { begin_watching("dir", IN_ALL_EVENTS); watch("dir/in", IN_ALL_EVENTS); result(rename("dir/in", "dir/out")); show_all(); })
    T(renameat2, "inotify: to another directory", { begin_watching("dir", IN_ALL_EVENTS); watch("void", IN_ALL_EVENTS); result(rename("dir/in", "void/out")); touch("void/out"); show_all(); })
    T(renameat2, "inotify: out of what is watched", { begin_watching("dir", IN_ALL_EVENTS); result(rename("dir/in", "out")); touch("out"); show_all(); })
    T(renameat2, "inotify: into what is watched", { begin_watching("dir", IN_ALL_EVENTS); result(rename("file", "dir/file")); touch("dir/file"); show_all(); })
    T(renameat2, "inotify: in place of another", { begin_watching("dir", IN_ALL_EVENTS); watch("empty", IN_ALL_EVENTS); watch("dir/in", IN_ALL_EVENTS); result(rename("empty", "dir/in")); touch("dir/in"); show_all(); })
    T(renameat2, "inotify: in place of one that is open", {
        other = open("dir/in", O_WRONLY);
        begin_watching("dir", IN_ALL_EVENTS);
        watch("dir/in", IN_ALL_EVENTS);
        result(rename("empty", "dir/in"));
        show_all();
        result(write(other, "text", 4));
        close(other);
        show_all();
    })
    T(renameat2, "inotify: an open file", {
        other = open("dir/in", O_WRONLY);
        begin_watching("dir", IN_ALL_EVENTS);
        result(rename("dir/in", "dir/out"));
        result(write(other, "text", 4));
        result(rename("dir/out", "away"));
        result(write(other, "text", 4));
        result(rename("away", "dir/back"));
        close(other);
        show_all();
    })
    T(renameat2, "inotify: an open file, in place of another", {
        touch("dir/old");
        other = open("dir/in", O_WRONLY);
        begin_watching("dir", IN_MODIFY | IN_CLOSE);
        result(rename("dir/in", "dir/old"));
        result(write(other, "text", 4));
        close(other);
        show_all();
    })
    T(renameat2, "inotify: a directory", { mkdir("dir/sub", 0755); begin_watching("dir", IN_ALL_EVENTS); watch("void", IN_ALL_EVENTS); watch("dir/sub", IN_ALL_EVENTS); result(rename("dir/sub", "void/sub")); show_all(); })
    T(renameat2, "inotify: a directory in place of another", { mkdir("dir/sub", 0755); mkdir("dir/old", 0755); begin_watching("dir", IN_ALL_EVENTS); watch("dir/old", IN_ALL_EVENTS); result(rename("dir/sub", "dir/old")); show_all(); })
    T(renameat2, "inotify: RENAME_EXCHANGE", {
        mkdir("void/sub", 0755);
        begin_watching("dir", IN_ALL_EVENTS);
        watch("void", IN_ALL_EVENTS);
        watch("dir/in", IN_ALL_EVENTS);
        watch("void/sub", IN_ALL_EVENTS);
        result(CALL(renameat2, AT_FDCWD, "dir/in", AT_FDCWD, "void/sub", 2));
        touch("void/sub");
        show_all();
    })
    T(renameat2, "inotify: RENAME_NOREPLACE", { begin_watching("dir", IN_ALL_EVENTS); result(CALL(renameat2, AT_FDCWD, "file", AT_FDCWD, "dir/in", 1)); result(CALL(renameat2, AT_FDCWD, "file", AT_FDCWD, "dir/new", 1)); show_all(); })
    T(renameat2, "inotify: to itself", { link("dir/in", "dir/two"); begin_watching("dir", IN_ALL_EVENTS); result(rename("dir/in", "dir/in")); result(rename("dir/in", "dir/two")); show_all(); })
    T(renameat2, "inotify: two cookies", { begin_watching("dir", IN_MOVE); result(rename("dir/in", "dir/a")); result(rename("dir/a", "dir/b")); show_all(); })
}

static void of_files(void) {
    T(openat, "inotify: a file", { begin_watching("file", IN_ALL_EVENTS); other = open("file", O_RDONLY); result(read(other, events, 4)); close(other); show_all(); other = open("file", O_RDWR); result(write(other, "text", 4)); close(other); show_all(); })
    T(openat, "inotify: through a link", { begin_watching(".", IN_ALL_EVENTS); watch("link", IN_ALL_EVENTS | IN_DONT_FOLLOW); other = open("link", O_RDONLY); close(other); result(readlink("link", events, 64)); show_all(); })
    T(openat, "inotify: O_PATH", { begin_watching("dir", IN_ALL_EVENTS); other = open("dir/in", O_PATH); close(other); show_all(); })
    T(openat, "inotify: O_TRUNC", { begin_watching(".", IN_ALL_EVENTS); other = open("file", O_WRONLY | O_TRUNC); close(other); show_all(); other = open("empty", O_WRONLY | O_TRUNC); close(other); show_all(); other = open("new", O_CREAT | O_WRONLY | O_TRUNC, 0644); close(other); show_all(); })
    T(openat, "inotify: by /proc/self/fd", { begin_watching(".", IN_ALL_EVENTS); other = open("/proc/self/fd/11", O_RDONLY); close(other); show_all(); })
    T(openat, "inotify: one of two names", { link("file", "dir/two"); begin_watching(".", IN_ALL_EVENTS); watch("dir", IN_ALL_EVENTS); other = open("file", O_RDWR); result(read(other, events, 4)); result(write(other, "text", 4)); close(other); show_all(); other = open("dir/two", O_RDWR); result(read(other, events, 4)); close(other); show_all(); })
    T(openat, "inotify: a fifo", { begin_watching(".", IN_ALL_EVENTS); other = open("fifo", O_RDWR); result(write(other, "text", 4)); result(read(other, events, 4)); close(other); show_all(); })
    T(openat, "inotify: a device", { begin_watching("/dev/zero", IN_OPEN | IN_CLOSE | IN_ACCESS | IN_MODIFY); other = open("/dev/zero", O_RDWR); result(write(other, "text", 4)); result(read(other, events, 4)); close(other); show_all(); })
    T(openat, "inotify: a file without a name", { begin_watching("dir", IN_CREATE | IN_DELETE | IN_MOVE); other = open("dir", O_TMPFILE | O_RDWR, 0600); result(write(other, "text", 4)); close(other); show_all(); })
    T(pread64, "inotify", { begin_watching("file", IN_ALL_EVENTS); result(pread(RO, events, 4, 2)); result(pread(RO, events, 4, 100)); show_all(); result(pwrite(WO, "x", 1, 2)); show_all(); })
    T(read, "inotify: at the end", { begin_watching("file", IN_ALL_EVENTS); result(lseek(RO, 0, SEEK_END)); result(read(RO, events, 4)); result(read(RO, events, 0)); result(write(WO, "", 0)); result(write(WO, BAD, 4)); show_all(); })
    T(readv, "inotify: a file", { begin_watching("file", IN_ALL_EVENTS); struct iovec two[2] = {{events, 2}, {events + 8, 2}}; result(readv(RO, two, 2)); result(writev(WO, two, 2)); show_all(); })
    T(ftruncate, "inotify", { begin_watching("file", IN_ALL_EVENTS); result(ftruncate(RW, 3)); show_all(); result(ftruncate(RW, 3)); result(ftruncate(RO, 3)); show_all(); result(truncate("file", 100)); show_all(); })
    T(fallocate, "inotify", { begin_watching("file", IN_ALL_EVENTS); result(fallocate(RW, 0, 0, 100)); show_all(); result(fallocate(RW, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 10)); show_all(); })
    T(sendfile, "inotify", { begin_watching("file", IN_ALL_EVENTS); watch("empty", IN_ALL_EVENTS); other = open("empty", O_WRONLY); show_all(); result(sendfile(other, RO, 0, 100)); show_all(); result(sendfile(PIPE_W, RO, &(off_t){0}, 4)); show_all(); })
    T(copy_file_range, "inotify", { begin_watching("file", IN_ALL_EVENTS); watch("empty", IN_ALL_EVENTS); other = open("empty", O_WRONLY); show_all(); result(CALL(copy_file_range, RO, 0, other, 0, 100, 0)); show_all(); result(CALL(copy_file_range, RO, 0, other, 0, 100, 0)); show_all(); })
    T(fchmod, "inotify", { begin_watching(".", IN_ALL_EVENTS); watch("file", IN_ALL_EVENTS); result(fchmod(RW, 0600)); result(chmod("file", 0600)); show_all(); result(chmod("/dev/null", 0666)); })
    T(fchown, "inotify", { begin_watching("file", IN_ALL_EVENTS); result(fchown(RW, -1, getgid())); show_all(); result(fchown(RW, -1, -1)); show_all(); })
    T(utimensat, "inotify", {
        struct timespec times[2] = {{1, 0}, {2, 0}};
        begin_watching("file", IN_ALL_EVENTS);
        result(CALL(utimensat, AT_FDCWD, "file", 0, 0));
        show_all();
        result(CALL(utimensat, AT_FDCWD, "file", times, 0));
        show_all();
        times[0].tv_nsec = UTIME_OMIT;
        result(CALL(utimensat, AT_FDCWD, "file", times, 0));
        show_all();
        times[0].tv_nsec = 0;
        times[1].tv_nsec = UTIME_OMIT;
        result(CALL(utimensat, AT_FDCWD, "file", times, 0));
        show_all();
        times[0].tv_nsec = UTIME_OMIT;
        result(CALL(utimensat, AT_FDCWD, "file", times, 0));
        show_all();
        times[0].tv_nsec = times[1].tv_nsec = UTIME_NOW;
        result(CALL(utimensat, RW, 0, times, 0));
        show_all();
    })
    T(write, "inotify: set-user-ID goes", { chmod("file", 04755); begin_watching("file", IN_ALL_EVENTS); result(write(WO, "text", 4)); show_all(); })
    T(mmap, "inotify", { begin_watching("file", IN_ALL_EVENTS); char *at = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, RW, 0); at[0] = at[1]; munmap(at, PAGE); show_all(); })
    T(close, "inotify: the last of two", { other = open("file", O_WRONLY); begin_watching("file", IN_ALL_EVENTS); int two = dup(other); close(other); show_all(); close(two); show_all(); })
    T(execve, "inotify", { begin_watching("program", IN_OPEN | IN_ACCESS); fflush(stdout); if (fork() == 0) { execl("./program", "program", (char *)0); _exit(1); } wait(&status); show_all(); })
    T(exit_group, "inotify: closes files", { begin_watching("empty", IN_ALL_EVENTS); fflush(stdout); if (fork() == 0) { open("empty", O_WRONLY); open("empty", O_RDONLY); _exit(0); } wait(&status); show_all(); })
}

static void coalescing(void) {
    T(write, "inotify: events that are alike", {
        begin_watching("file", IN_ALL_EVENTS);
        for (int i = 0; i < 5; i++)
            write(WO, "x", 1);
        show_ready();
        read(RO, events, 1);
        write(WO, "x", 1);
        show_all();
        write(WO, "x", 1);
        show_all();
    })
    T(write, "inotify: of two files in turn", { touch("void/a"); touch("void/b"); int a = open("void/a", O_WRONLY), b = open("void/b", O_WRONLY); begin_watching("void", IN_MODIFY); write(a, "x", 1); write(b, "x", 1); write(b, "x", 1); write(a, "x", 1); show_all(); })
    T(inotify_rm_watch, "a watch that is there again", { begin_watching("file", IN_MODIFY); CALL(inotify_rm_watch, fd, 1); result(CALL(inotify_add_watch, fd, "file", IN_MODIFY)); write(WO, "x", 1); show_all(); })
    T(inotify_add_watch, "IN_ONESHOT", { begin_watching("dir", IN_CREATE | IN_ONESHOT); touch("dir/a"); touch("dir/b"); show_all(); result(CALL(inotify_rm_watch, fd, 1)); result(CALL(inotify_add_watch, fd, "dir", IN_CREATE)); })
    T(inotify_add_watch, "IN_ONESHOT of a file that goes", { begin_watching("file", IN_DELETE_SELF | IN_ONESHOT); for (int i = RW; i <= PATH_FD; i++) close(i); unlink("file"); show_all(); })
    T(read, "inotify: an overflow", {
        long most = number_in("/proc/sys/fs/inotify/max_queued_events"), got = 0, len, overflows = 0, last = 0;
        touch("void/a");
        touch("void/b");
        int a = open("void/a", O_WRONLY), b = open("void/b", O_WRONLY);
        begin_watching("void", IN_MODIFY);
        for (int i = 0; i < most + 100; i++)
            write(i & 1 ? a : b, "x", 1);
        while ((len = read(fd, events, sizeof events)) > 0)
            for (long at = 0; at < len; at += sizeof(struct inotify_event) + ((struct inotify_event *)(events + at))->len, got++) {
                struct inotify_event *event = (void *)(events + at);
                if (event->mask & IN_Q_OVERFLOW) {
                    overflows++, last = got;
                    say(" | %d %x %u %u", event->wd, event->mask, event->cookie, event->len);
                }
            }
        say(" | %s, %ld overflow, %s", got == most + 1 ? "all" : "not all", overflows, last == most ? "the last" : "not the last");
        write(a, "x", 1);
        show_all();
    })
    T(read, "inotify: after an overflow", {
        long most = number_in("/proc/sys/fs/inotify/max_queued_events");
        touch("void/a");
        touch("void/b");
        int a = open("void/a", O_WRONLY), b = open("void/b", O_WRONLY);
        begin_watching("void", IN_MODIFY);
        for (int i = 0; i < most + 1; i++)
            write(i & 1 ? a : b, "x", 1);
        read(fd, events, 320);
        write(a, "x", 1);
        write(b, "x", 1);
        for (long i = 10; i < most; i++)
            read(fd, events, 32);
        show_all();
    })
}

void watches(void) {
    making();
    adding();
    reading();
    of_directories();
    moving();
    of_files();
    coalescing();
}
