/* Descriptors of processes. */
#include "conform.h"
#include <pthread.h>

static siginfo_t info;
static int fd, status;
static volatile int tid;
static char text[4096];
/* Its size differs between instruction sets. */
static long event_space[2];
#define event (*(struct epoll_event *)event_space)
/* What clone3 is told: flags, where the descriptor goes, tids, the signal. */
#define HOW(...) (&(struct { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, rest[6]; }){__VA_ARGS__})

/* Sleeps until its parent, the case, has ended: what it has open ends then. */
static void sleep_beside(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        pause();
    _exit(0);
}

static pid_t sleeper(void) {
    fflush(stdout);
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        sleep_beside(parent);
    return child;
}

/* A descriptor of a child that sleeps. */
static pid_t child_of_fd(void) {
    pid_t child = sleeper();
    fd = (int)CALL(pidfd_open, child, 0);
    return child;
}

/* A descriptor of a child that has ended, and was not waited for. */
static pid_t zombie_of_fd(void) {
    pid_t child = child_of_fd();
    kill(child, SIGTERM);
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    memset(&info, 0, sizeof info);
    return child;
}

static pid_t gone_of_fd(void) {
    pid_t child = zombie_of_fd();
    waitpid(child, &status, 0);
    return child;
}

static void *pause_for_ever(void *unused) {
    tid = (int)CALL(gettid);
    for (;;)
        pause();
    return unused;
}

static void begin_thread(void) {
    pthread_t thread;
    pthread_create(&thread, 0, pause_for_ever, 0);
    while (!tid)
        usleep(1000);
}

static void show_readiness(void) {
    struct pollfd one = {fd, POLLIN | POLLOUT, 0};
    int got = poll(&one, 1, 0);
    say(" | %d %x", got, got > 0 ? one.revents : 0);
}

static void show_change(void) {
    say(" | signal %d code %d status %d pid %s", info.si_signo, info.si_code, info.si_status, info.si_pid ? "a child's" : "0");
}

/* The lines of fdinfo about the process, of which the id is not the same twice. */
static void show_fdinfo(pid_t child) {
    char path[64], own[32];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    int of = open(path, O_RDONLY);
    long len = read(of, text, sizeof text - 1);
    text[len > 0 ? len : 0] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n"))
        if (strstr(line, "Pid:") == line || strstr(line, "NSpid:") == line) {
            snprintf(own, sizeof own, "\t%d", child);
            char *number = strchr(line, '\t');
            say(" | %.*s %s", (int)(number - line), line, strcmp(number, own) == 0 ? "the child's" : number + 1);
        }
}

static siginfo_t *saying(int signal, int code) {
    info = (siginfo_t){.si_signo = signal, .si_code = code};
    return &info;
}

static void note(int signal, siginfo_t *told, void *context) {
    (void)context, (void)signal;
    info = *told;
}

static void opening(void) {
    E(show_flags(3), pidfd_open, getpid(), 0)
    E(show_flags(3), pidfd_open, getppid(), O_NONBLOCK)
    C(pidfd_open, 1, 0)
    C(pidfd_open, 0, 0)
    C(pidfd_open, -1, 0)
    C(pidfd_open, 999999, 0)
    C(pidfd_open, getpid(), 1)
    C(pidfd_open, getpid(), O_CLOEXEC)
    C(pidfd_open, getpid(), -1)
    C(pidfd_open, getpid(), O_EXCL)
    T(pidfd_open, "another thread than the first", { begin_thread(); result(CALL(pidfd_open, tid, 0)); })
    T(pidfd_open, "a zombie", { pid_t child = zombie_of_fd(); result(CALL(pidfd_open, child, 0)); waitpid(child, &status, 0); result(CALL(pidfd_open, child, 0)); })
    T(pidfd_open, "too many descriptors", { struct rlimit few = {24, 24}; int made = 0; setrlimit(RLIMIT_NOFILE, &few); while (CALL(pidfd_open, getpid(), 0) >= 0) made++; result(CALL(pidfd_open, getpid(), 0)); })
    T(pidfd_open, "what it is", {
        struct stat st;
        struct statfs fs;
        child_of_fd();
        result(fstat(fd, &st));
        say(" | %o", st.st_mode);
        fstatfs(fd, &fs);
        say(" | %lx", (long)fs.f_type);
        result(read(fd, text, 8));
        result(write(fd, text, 8));
        result(lseek(fd, 0, SEEK_SET));
        result(ioctl(fd, FIONREAD, text));
        int copy = fcntl(fd, F_DUPFD, 0);
        result(CALL(pidfd_send_signal, copy, 0, 0, 0));
        result(fcntl(fd, F_SETFL, O_NONBLOCK));
        show_flags(fd);
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        long len = readlink(path, text, sizeof text);
        say(" | %.*s", (int)len, text);
    })
    T(pidfd_open, "fdinfo", { pid_t child = child_of_fd(); show_fdinfo(child); kill(child, SIGKILL); waitpid(child, &status, 0); show_fdinfo(child); })
    T(openat, "fdinfo of a file", {
        lseek(RW, 5, SEEK_SET);
        int of = open("/proc/self/fdinfo/10", O_RDONLY);
        long len = read(of, text, sizeof text - 1);
        text[len > 0 ? len : 0] = 0;
        char *flags = strstr(text, "flags:\t");
        long value = flags ? strtol(flags + 7, 0, 8) : -1;
        say(" | %.6s | %s %s", text, (value & O_ACCMODE) == O_RDWR ? "RDWR" : "others", strstr(text, "\nino:\t") ? "ino" : "no ino");
        struct stat st;
        result(stat("/proc/self/fdinfo/10", &st));
        say(" | %o", st.st_mode);
        result(stat("/proc/self/fdinfo/63", &st));
        result(stat("/proc/self/fdinfo", &st));
        say(" | %o", st.st_mode);
        result(open("/proc/1/fdinfo", O_RDONLY | O_DIRECTORY));
    })
    T(pidfd_open, "closed by execve", {
        fd = (int)CALL(pidfd_open, getpid(), 0);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            snprintf(text, sizeof text, "test ! -e /proc/self/fd/%d", fd);
            execl("/bin/sh", "sh", "-c", text, (char *)0);
        }
        waitpid(child, &status, 0);
        say(" | %d", status);
    })
}

static void sending(void) {
    C(pidfd_send_signal, (child_of_fd(), fd), 0, 0, 0)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, 0, 0)
    C(pidfd_send_signal, (child_of_fd(), fd), 64, 0, 0)
    C(pidfd_send_signal, (child_of_fd(), fd), 65, 0, 0)
    C(pidfd_send_signal, (child_of_fd(), fd), -1, 0, 0)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, 0, 8)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, 0, PIDFD_SIGNAL_THREAD | PIDFD_SIGNAL_THREAD_GROUP)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, 0, PIDFD_SIGNAL_THREAD)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, 0, PIDFD_SIGNAL_THREAD_GROUP)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, 0, PIDFD_SIGNAL_PROCESS_GROUP)
    C(pidfd_send_signal, RW, SIGTERM, 0, 0)
    C(pidfd_send_signal, PATH_FD, SIGTERM, 0, 0)
    C(pidfd_send_signal, CLOSED, SIGTERM, 0, 0)
    C(pidfd_send_signal, -1, SIGTERM, 0, 0)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, BAD, 0)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, saying(SIGTERM, SI_QUEUE), 0)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, saying(SIGUSR1, SI_QUEUE), 0)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, saying(SIGTERM, SI_USER), 0)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, saying(SIGTERM, SI_TKILL), 0)
    C(pidfd_send_signal, (child_of_fd(), fd), SIGTERM, saying(SIGTERM, SI_KERNEL), 0)
    C(pidfd_send_signal, (zombie_of_fd(), fd), SIGTERM, 0, 0)
    C(pidfd_send_signal, (gone_of_fd(), fd), SIGTERM, 0, 0)
    C(pidfd_send_signal, (gone_of_fd(), fd), 0, 0, 0)
    T(pidfd_send_signal, "to the parent", { fd = (int)CALL(pidfd_open, getppid(), 0); result(CALL(pidfd_send_signal, fd, SIGTERM, 0, 0)); })
    T(pidfd_send_signal, "what is told", {
        struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
        sigaction(SIGUSR1, &action, 0);
        fd = (int)CALL(pidfd_open, getpid(), 0);
        result(CALL(pidfd_send_signal, fd, SIGUSR1, 0, 0));
        show_info(&info);
        siginfo_t own = {.si_signo = SIGUSR1, .si_code = SI_KERNEL};
        result(CALL(pidfd_send_signal, fd, SIGUSR1, &own, 0));
        say(" | %d", info.si_code);
        result(CALL(pidfd_send_signal, fd, SIGUSR1, 0, PIDFD_SIGNAL_THREAD));
        show_info(&info);
    })
    T(pidfd_send_signal, "PIDFD_SIGNAL_PROCESS_GROUP to all of it", {
        int ends[2];
        pipe(ends);
        fflush(stdout);
        pid_t leader = fork();
        if (leader == 0) {
            setpgid(0, 0);
            if (fork() == 0)
                write(ends[1], "x", 1);
            close(ends[1]);
            for (;;)
                pause();
        }
        close(ends[1]);
        read(ends[0], text, 1);
        fd = (int)CALL(pidfd_open, leader, 0);
        result(CALL(pidfd_send_signal, fd, SIGTERM, 0, PIDFD_SIGNAL_PROCESS_GROUP));
        /* The end comes when both have ended. */
        say(" | %ld", (long)read(ends[0], text, 1));
        waitpid(leader, &status, 0);
        say(" | %d", WTERMSIG(status));
    })
}

/* Its user may look into the process, although that has had more rights. */
static void tractable(void) { prctl(PR_SET_DUMPABLE, 1); }

static void getting(void) {
    C(pidfd_getfd, (tractable(), child_of_fd(), fd), RW, 1)
    C(pidfd_getfd, (tractable(), child_of_fd(), fd), CLOSED, 0)
    C(pidfd_getfd, (tractable(), child_of_fd(), fd), -1, 0)
    C(pidfd_getfd, RW, RW, 0)
    C(pidfd_getfd, CLOSED, RW, 0)
    C(pidfd_getfd, (tractable(), zombie_of_fd(), fd), RW, 0)
    C(pidfd_getfd, (gone_of_fd(), fd), RW, 0)
    E(show_flags(4), pidfd_getfd, (tractable(), child_of_fd(), fd), RW, 0)
    C(pidfd_getfd, (child_of_fd(), fd), RW, 0)
    T(pidfd_getfd, "of the superuser's process", { fd = (int)CALL(pidfd_open, getppid(), 0); result(CALL(pidfd_getfd, fd, 0, 0)); })
    T(pidfd_getfd, "of one's own process", { fd = (int)CALL(pidfd_open, getpid(), 0); long copy = CALL(pidfd_getfd, fd, RW, 0); result(copy); lseek((int)copy, 5, SEEK_SET); say(" | %ld", (long)lseek(RW, 0, SEEK_CUR)); })
    T(pidfd_getfd, "what only the child has", {
        int ends[2];
        tractable();
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        fflush(stdout);
        pid_t parent = getpid(), child = fork();
        if (child == 0) {
            int both[2];
            pipe(both);
            write(both[1], "child's", 7);
            write(ends[1], &both[0], sizeof both[0]);
            sleep_beside(parent);
        }
        int theirs;
        read(ends[0], &theirs, sizeof theirs);
        fd = (int)CALL(pidfd_open, child, 0);
        int got = (int)CALL(pidfd_getfd, fd, theirs, 0);
        say(" | %s", got >= 0 ? "got" : "not got");
        long len = read(got, text, 16);
        say(" | %.*s", (int)len, text);
    })
    T(pidfd_getfd, "too many descriptors", { tractable(); child_of_fd(); struct rlimit few = {24, 24}; setrlimit(RLIMIT_NOFILE, &few); while (dup(RW) >= 0) ; result(CALL(pidfd_getfd, fd, RW, 0)); })
}

static void waiting_for(void) {
    E(show_change(), waitid, P_PIDFD, (child_of_fd(), fd), &info, WEXITED | WNOHANG, 0)
    E(show_change(), waitid, P_PIDFD, (zombie_of_fd(), fd), &info, WEXITED, 0)
    C(waitid, P_PIDFD, (gone_of_fd(), fd), &info, WEXITED, 0)
    C(waitid, P_PIDFD, (fd = (int)CALL(pidfd_open, getpid(), 0)), &info, WEXITED, 0)
    C(waitid, P_PIDFD, (fd = (int)CALL(pidfd_open, getppid(), 0)), &info, WEXITED, 0)
    C(waitid, P_PIDFD, CLOSED, &info, WEXITED, 0)
    T(waitid, "P_PIDFD waits", { pid_t child = child_of_fd(); pid_t parent = getpid(); if (fork() == 0) { until_asleep(parent); kill(child, SIGKILL); _exit(0); } result(CALL(waitid, P_PIDFD, fd, &info, WEXITED, 0)); show_change(); })
    T(waitid, "P_PIDFD of others that end", { pid_t child = child_of_fd(); if (fork() == 0) _exit(3); pid_t parent = getpid(); if (fork() == 0) { until_asleep(parent); kill(child, SIGTERM); _exit(0); } result(CALL(waitid, P_PIDFD, fd, &info, WEXITED, 0)); say(" | %s", info.si_pid == child ? "the child" : "another"); })
    T(waitid, "P_PIDFD, not waiting", { pid_t child = sleeper(); fd = (int)CALL(pidfd_open, child, O_NONBLOCK); result(CALL(waitid, P_PIDFD, fd, &info, WEXITED, 0)); result(CALL(waitid, P_PIDFD, fd, &info, WEXITED | WNOHANG, 0)); kill(child, SIGKILL); waitid(P_PID, child, &info, WEXITED | WNOWAIT); result(CALL(waitid, P_PIDFD, fd, &info, WEXITED, 0)); show_change(); })
    T(waitid, "P_PIDFD, stopped", { pid_t child = child_of_fd(); kill(child, SIGSTOP); result(CALL(waitid, P_PIDFD, fd, &info, WSTOPPED, 0)); show_change(); kill(child, SIGKILL); })
}

static void readiness(void) {
    T(poll, "a process", { pid_t child = child_of_fd(); show_readiness(); kill(child, SIGKILL); waitid(P_PID, child, &info, WEXITED | WNOWAIT); show_readiness(); waitpid(child, &status, 0); show_readiness(); })
    T(poll, "until a process ends", { pid_t child = child_of_fd(); pid_t parent = getpid(); if (fork() == 0) { until_asleep(parent); kill(child, SIGKILL); _exit(0); } struct pollfd one = {fd, POLLIN, 0}; result(CALL(ppoll, &one, 1, 0, 0, 8)); say(" | %x", one.revents); })
    T(poll, "a process whose threads end one after the other", {
        int ends[2];
        pipe(ends);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            begin_thread();
            write(ends[1], "x", 1);
            /* The first thread alone. */
            CALL(exit, 0);
        }
        read(ends[0], text, 1);
        usleep(50000);
        fd = (int)CALL(pidfd_open, child, 0);
        show_readiness();
        kill(child, SIGKILL);
        waitid(P_PID, child, &info, WEXITED | WNOWAIT);
        show_readiness();
    })
    T(poll, "a process that executes a program", { pid_t child = fork(); if (child == 0) { execl("/bin/sleep", "sleep", "100", (char *)0); _exit(1); } fd = (int)CALL(pidfd_open, child, 0); usleep(100000); show_readiness(); kill(child, SIGKILL); waitid(P_PID, child, &info, WEXITED | WNOWAIT); show_readiness(); })
    T(epoll_wait, "a process", {
        pid_t child = child_of_fd();
        int list = epoll_create1(0);
        event = (struct epoll_event){EPOLLIN, {.u64 = 9}};
        result(epoll_ctl(list, EPOLL_CTL_ADD, fd, &event));
        say(" | %d", epoll_wait(list, &event, 1, 10));
        pid_t parent = getpid();
        if (fork() == 0) {
            until_asleep(parent);
            kill(child, SIGKILL);
            _exit(0);
        }
        int got = epoll_wait(list, &event, 1, -1);
        say(" | %d %x", got, event.events);
        waitpid(child, &status, 0);
        got = epoll_wait(list, &event, 1, 0);
        say(" | %d %x", got, event.events);
    })
}

static long clone_with(long flags, int *at) { return CALL(clone, SIGCHLD | flags, 0, at, 0, 0); }

static void cloning(void) {
    T(clone, "CLONE_PIDFD is of the child", {
        pid_t child = (pid_t)clone_with(CLONE_PIDFD, &fd);
        if (child == 0)
            for (;;)
                pause();
        show_flags(fd);
        result(CALL(pidfd_send_signal, fd, SIGTERM, 0, 0));
        result(CALL(waitid, P_PIDFD, fd, &info, WEXITED, 0));
        say(" | %s %d", info.si_pid == child ? "the child" : "another", info.si_status);
    })
    T(clone, "CLONE_PIDFD, the child has it not", { pid_t child = (pid_t)clone_with(CLONE_PIDFD, &fd); if (child == 0) { for (int i = 0; i < RW; i++) if (i > 2 && fcntl(i, F_GETFD) >= 0) _exit(1); _exit(0); } waitpid(child, &status, 0); say(" | %d", status); })
    T(clone, "CLONE_PIDFD, a bad address", { long child = clone_with(CLONE_PIDFD, BAD); if (child == 0) _exit(0); result(child); show_open(); })
    T(clone, "CLONE_PIDFD, too many descriptors", { struct rlimit few = {24, 24}; setrlimit(RLIMIT_NOFILE, &few); while (dup(RW) >= 0) ; long child = clone_with(CLONE_PIDFD, &fd); if (child == 0) _exit(0); result(child); result(CALL(wait4, -1, 0, WNOHANG, 0)); })
    T(clone3, "CLONE_PIDFD", { int parent_tid = 0; long child = CALL(clone3, HOW(CLONE_PIDFD | CLONE_PARENT_SETTID, (uint64_t)&fd, 0, (uint64_t)&parent_tid, SIGCHLD), 88); if (child == 0) _exit(4); say(" | %s", parent_tid == child ? "told" : "not told"); result(CALL(waitid, P_PIDFD, fd, &info, WEXITED, 0)); say(" | %d", info.si_status); })
    T(clone3, "CLONE_PIDFD and CLONE_PARENT_SETTID at one place", { long child = CALL(clone3, HOW(CLONE_PIDFD | CLONE_PARENT_SETTID, (uint64_t)&fd, 0, (uint64_t)&fd, SIGCHLD), 88); if (child == 0) _exit(4); result(child); })
    T(clone3, "CLONE_PIDFD, a bad address", { long child = CALL(clone3, HOW(CLONE_PIDFD, 64, 0, 0, SIGCHLD), 88); if (child == 0) _exit(4); result(child); show_open(); })
}

void pidfds(void) {
    opening();
    sending();
    getting();
    waiting_for();
    readiness();
    cloning();
}
