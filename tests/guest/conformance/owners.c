/* fcntl(2), "Managing signals": who is told by a signal that a file has become ready. */
#include "conform.h"

#include <pthread.h>

static volatile sig_atomic_t told;
static siginfo_t last;

static void handler(int number, siginfo_t *info, void *context) {
    told += 1;
    last = *info;
    (void)number, (void)context;
}

static void handle(int number) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(number, &action, 0);
}

/* Signals since the last look, and what the last one said: POLL_IN or POLL_OUT, descriptor and events; SI_SIGIO or SI_KERNEL. */
static void show_told(void) {
    say(" | told %s", told ? "yes" : "no");
    if (told && last.si_code > 0 && last.si_code != 0x80)
        say(" %d of %d for %lx", last.si_code, last.si_fd, (long)last.si_band);
    else if (told)
        say(" code %d by %d", last.si_code, last.si_code == 0x80 ? (int)last.si_pid : -1);
    told = 0;
    memset(&last, 0, sizeof last);
}

/* The file's owner is this process, and told. */
static long turn_on(int fd, int signal) {
    handle(signal ? signal : SIGIO);
    if (signal && fcntl(fd, F_SETSIG, signal))
        return -1;
    if (fcntl(fd, F_SETOWN, getpid()))
        return -1;
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC) ? -1 : 0;
}

static void show_owner(int fd) {
    struct f_owner_ex owner = {-1, -1};
    int number = fcntl(fd, F_GETOWN);
    fcntl(fd, F_GETOWN_EX, &owner);
    say(" | %s, %d %s", number == getpid() ? "own" : number == -getpid() ? "own group" : number ? "other" : "none", owner.type,
        owner.pid == getpid() ? "own" : owner.pid ? "other" : "none");
}

static void *write_to(void *fd) {
    if (write((int)(long)fd, "t", 1) != 1)
        _exit(9);
    return 0;
}

static void fill(int fd) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    while (write(fd, buffer, 4096) > 0)
        ;
}

static void drain(int fd) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    while (read(fd, buffer, sizeof buffer) > 0)
        ;
}

/* A process of another user. `superuser`: its owner was named by the superuser. */
static void of_another_user(int superuser) {
    int go[2], status;
    drain(SOCK);
    if (pipe(go))
        _exit(9);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        handle(SIGIO);
        if (setresuid(1234, 1234, 1234) || write(PEER, "r", 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(8);
        _exit(told ? 1 : 0);
    }
    char byte;
    poll(&(struct pollfd){SOCK, POLLIN, 0}, 1, -1);
    read(SOCK, &byte, 1);
    if (!superuser && setresuid(4321, 4321, 0))
        _exit(7);
    result(fcntl(PIPE_R, F_SETOWN, child));
    if (!superuser && setresuid(-1, 0, -1))
        _exit(6);
    fcntl(PIPE_R, F_SETFL, O_ASYNC);
    write(PIPE_W, "x", 1);
    write(go[1], "g", 1);
    waitpid(child, &status, 0);
    say(" | %s", WIFEXITED(status) && WEXITSTATUS(status) == 1 ? "told" : WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "not told" : "failed");
}

void owners(void) {
    int on = 1, off = 0, number = getpid(), nobody = 0, least = INT_MIN, unknown = 999999;
    struct f_owner_ex thread = {F_OWNER_TID, getpid()}, process = {F_OWNER_PID, getpid()}, group = {F_OWNER_PGRP, 1}, odd = {3, 1}, missing = {F_OWNER_PID, 999999},
                      none = {F_OWNER_PGRP, 0};
    siginfo_t info = {0};
    C(fcntl, RW, F_SETOWN, INT_MIN)
    C(fcntl, RW, F_SETOWN, -999999)
    C(fcntl, CLOSED, F_SETOWN, 0)
    C(fcntl, PATH_FD, F_SETOWN, 0)
    E(show_owner(EVENT), fcntl, EVENT, F_SETOWN, 0)
    E(show_owner(RW), fcntl, RW, F_SETOWN_EX, &none)
    C(fcntl, RW, F_SETOWN_EX, &odd)
    C(fcntl, RW, F_SETOWN_EX, &missing)
    C(fcntl, RW, F_SETOWN_EX, BAD)
    C(fcntl, RW, F_GETOWN_EX, BAD)
    C(fcntl, RW, F_SETSIG, 64)
    C(fcntl, RW, F_SETSIG, 65)
    C(fcntl, RW, F_SETSIG, -1)
    T(fcntl, "F_SETSIG, then F_GETSIG", { result(fcntl(SOCK, F_SETSIG, SIGRTMIN + 3)); say(" | %d", fcntl(SOCK, F_GETSIG) - SIGRTMIN); fcntl(SOCK, F_SETSIG, 0); say(" | %d", fcntl(SOCK, F_GETSIG)); })
    T(fcntl, "the owner is a thread", { thread.pid = getpid(); result(fcntl(PIPE_R, F_SETOWN_EX, &thread)); show_owner(PIPE_R); })
    T(fcntl, "the owner is a process", { process.pid = getpid(); result(fcntl(PIPE_R, F_SETOWN_EX, &process)); show_owner(PIPE_R); })
    T(fcntl, "the owner is a group", { setpgid(0, 0); group.pid = getpid(); result(fcntl(PIPE_R, F_SETOWN_EX, &group)); show_owner(PIPE_R); })
    T(fcntl, "the owner is a group, as a number", { setpgid(0, 0); result(fcntl(PIPE_R, F_SETOWN, -getpid())); show_owner(PIPE_R); })
    T(fcntl, "the owner is of a descriptor's copy, too", { result(fcntl(PIPE_R, F_SETOWN, getpid())); show_owner(dup(PIPE_R)); })
    T(fcntl, "an owner that has ended", {
        int status;
        pid_t child = fork();
        if (child == 0)
            pause();
        result(fcntl(PIPE_R, F_SETOWN, child));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        show_owner(PIPE_R);
    })
    T(fcntl, "the owner is set back", { fcntl(PIPE_R, F_SETOWN, getpid()); result(fcntl(PIPE_R, F_SETOWN, 0)); show_owner(PIPE_R); })
    T(fcntl, "a pipe tells of bytes", { result(turn_on(PIPE_R, 0)); write(PIPE_W, "x", 1); show_told(); })
    T(fcntl, "a pipe tells of bytes by another signal", { result(turn_on(PIPE_R, SIGUSR1)); write(PIPE_W, "x", 1); show_told(); })
    T(fcntl, "a pipe tells of bytes by a real-time signal", { result(turn_on(PIPE_R, SIGRTMIN + 1)); write(PIPE_W, "x", 1); show_told(); })
    T(fcntl, "a pipe tells of bytes by SIGCHLD", { result(turn_on(PIPE_R, SIGCHLD)); write(PIPE_W, "x", 1); show_told(); })
    T(fcntl, "a pipe tells again", { result(turn_on(PIPE_R, 0)); write(PIPE_W, "x", 1); show_told(); write(PIPE_W, "x", 1); show_told(); })
    T(fcntl, "a pipe tells of its end", { int pair[2]; pipe(pair); result(turn_on(pair[0], 0)); close(pair[1]); show_told(); })
    T(fcntl, "a pipe tells of room", { fill(PIPE_W); result(turn_on(PIPE_W, SIGRTMIN + 1)); drain(PIPE_R); show_told(); })
    T(fcntl, "O_ASYNC is cleared", { turn_on(PIPE_R, 0); result(fcntl(PIPE_R, F_SETFL, 0)); write(PIPE_W, "x", 1); show_told(); show_flags(PIPE_R); })
    T(fcntl, "O_ASYNC without an owner", { handle(SIGIO); result(fcntl(PIPE_R, F_SETFL, O_ASYNC)); write(PIPE_W, "x", 1); show_told(); })
    T(fcntl, "an owner without O_ASYNC", { handle(SIGIO); result(fcntl(PIPE_R, F_SETOWN, getpid())); write(PIPE_W, "x", 1); show_told(); })
    T(fcntl, "O_ASYNC of a copy that is closed", { turn_on(PIPE_R, SIGUSR1); int copy = dup(PIPE_R); result(copy); close(PIPE_R); write(PIPE_W, "x", 1); show_told(); })
    T(fcntl, "O_ASYNC of a file that is closed", { int pair[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, pair); result(turn_on(pair[0], 0)); close(pair[0]); show_told(); })
    T(fcntl, "a socket tells of bytes", { drain(SOCK); result(turn_on(SOCK, SIGRTMIN + 1)); write(PEER, "x", 1); show_told(); })
    T(fcntl, "a socket does not tell of room that nobody wanted", { drain(SOCK); result(turn_on(PEER, 0)); write(PEER, "x", 1); drain(SOCK); show_told(); })
    T(fcntl, "a socket tells of room", { drain(SOCK); result(turn_on(PEER, SIGRTMIN + 1)); fill(PEER); show_told(); drain(SOCK); show_told(); })
    T(fcntl, "a socket of datagrams tells", { int pair[2]; socketpair(AF_UNIX, SOCK_DGRAM, 0, pair); result(turn_on(pair[0], SIGRTMIN + 1)); send(pair[1], "x", 1, 0); show_told(); })
    T(fcntl, "a socket that listens tells", {
        int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
        struct sockaddr_un name = {AF_UNIX, "socket here"};
        bind(listener, (void *)&name, sizeof name);
        listen(listener, 5);
        result(turn_on(listener, 0));
        connect(client, (void *)&name, sizeof name);
        show_told();
    })
    T(fcntl, "a socket that is connected later tells", {
        int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
        struct sockaddr_un name = {AF_UNIX, "socket here"};
        bind(listener, (void *)&name, sizeof name);
        listen(listener, 5);
        result(turn_on(client, 0));
        connect(client, (void *)&name, sizeof name);
        int served = accept(listener, 0, 0);
        told = 0;
        write(served, "x", 1);
        show_told();
    })
    T(fcntl, "inotify tells", {
        int watches = CALL(inotify_init1, 0);
        CALL(inotify_add_watch, watches, "dir", 0x100);
        result(turn_on(watches, 0));
        close(open("dir/new", O_CREAT | O_RDWR, 0600));
        show_told();
    })
    T(fcntl, "an eventfd does not tell", { result(turn_on(EVENT, 0)); uint64_t one = 1; write(EVENT, &one, 8); show_told(); show_flags(EVENT); })
    T(fcntl, "a thread is told", {
        pthread_t other;
        thread.pid = getpid();
        handle(SIGIO);
        fcntl(PIPE_R, F_SETOWN_EX, &thread);
        result(fcntl(PIPE_R, F_SETFL, O_ASYNC));
        pthread_create(&other, 0, write_to, (void *)(long)PIPE_W);
        pthread_join(other, 0);
        show_told();
    })
    T(fcntl, "a group is told", {
        int status;
        drain(SOCK);
        setpgid(0, 0);
        handle(SIGIO);
        pid_t child = fork();
        if (child == 0) {
            char byte;
            write(PEER, "r", 1);
            while (!told)
                read(PEER, &byte, 1);
            _exit(told ? 3 : 4);
        }
        poll(&(struct pollfd){SOCK, POLLIN, 0}, 1, -1);
        fcntl(PIPE_R, F_SETOWN, -getpid());
        result(fcntl(PIPE_R, F_SETFL, O_ASYNC));
        write(PIPE_W, "x", 1);
        show_told();
        write(SOCK, "g", 1);
        waitpid(child, &status, 0);
        say(" | %d", WEXITSTATUS(status));
    })
    T(fcntl, "signals that wait are one", {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGIO);
        sigprocmask(SIG_BLOCK, &set, 0);
        turn_on(PIPE_R, 0);
        write(PIPE_W, "x", 1);
        write(PIPE_W, "x", 1);
        struct timespec now = {0, 0};
        result(sigtimedwait(&set, &info, &now));
        show_info(&info);
        say(" | %d", sigtimedwait(&set, &info, &now));
    })
    T(fcntl, "real-time signals that wait are as many as writes", {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGRTMIN + 1);
        sigprocmask(SIG_BLOCK, &set, 0);
        turn_on(PIPE_R, SIGRTMIN + 1);
        write(PIPE_W, "x", 1);
        write(PIPE_W, "x", 1);
        struct timespec now = {0, 0};
        result(sigtimedwait(&set, &info, &now) > 0);
        say(" %d of %d", info.si_code, info.si_fd);
        say(" | %d", sigtimedwait(&set, &info, &now) > 0);
        say(" | %d", sigtimedwait(&set, &info, &now) > 0);
    })
    T(fcntl, "a signalfd says which file it is", {
        sigset_t set;
        struct signalfd_siginfo read_info = {0};
        sigemptyset(&set);
        sigaddset(&set, SIGRTMIN + 1);
        sigprocmask(SIG_BLOCK, &set, 0);
        int fd = signalfd(-1, &set, 0);
        turn_on(PIPE_R, SIGRTMIN + 1);
        write(PIPE_W, "x", 1);
        result(read(fd, &read_info, sizeof read_info));
        say(" | %d %d %x", read_info.ssi_code, read_info.ssi_fd, read_info.ssi_band);
    })
    T(fcntl, "SIGIO ends who does not handle it", {
        int status;
        pid_t child = fork();
        if (child == 0) {
            fcntl(PIPE_R, F_SETOWN, getpid());
            fcntl(PIPE_R, F_SETFL, O_ASYNC);
            write(PIPE_W, "x", 1);
            _exit(0);
        }
        result(waitpid(child, &status, 0) == child);
        say(" | %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    })
    R(fcntl, "another user's process is told, whom the superuser has named", { of_another_user(1); })
    R(fcntl, "another user's process is not told, whom a user has named", { of_another_user(0); })
    E({ show_flags(SOCK); }, ioctl, SOCK, FIOASYNC, &on)
    E({ show_flags(SOCK); }, ioctl, SOCK, FIOASYNC, &off)
    E({ show_flags(PIPE_R); }, ioctl, PIPE_R, FIOASYNC, &on)
    E({ show_flags(RW); }, ioctl, RW, FIOASYNC, &on)
    C(ioctl, RW, FIOASYNC, &off)
    C(ioctl, EVENT, FIOASYNC, &on)
    C(ioctl, NULL_FD, FIOASYNC, &on)
    C(ioctl, SOCK, FIOASYNC, BAD)
    C(ioctl, CLOSED, FIOASYNC, &on)
    T(ioctl, "FIOASYNC tells of bytes", { handle(SIGIO); fcntl(SOCK, F_SETOWN, getpid()); result(ioctl(SOCK, FIOASYNC, &on)); write(PEER, "x", 1); show_told(); ioctl(SOCK, FIOASYNC, &off); write(PEER, "x", 1); show_told(); })
    T(ioctl, "FIOSETOWN, then FIOGETOWN", { number = getpid(); result(ioctl(SOCK, 0x8901, &number)); number = 0; say(" | %d", ioctl(SOCK, 0x8903, &number)); say(" %s", number == getpid() ? "own" : "other"); })
    T(ioctl, "SIOCSPGRP, then SIOCGPGRP", { setpgid(0, 0); number = -getpid(); result(ioctl(SOCK, 0x8902, &number)); number = 0; say(" | %d", ioctl(SOCK, 0x8904, &number)); say(" %s", number == -getpid() ? "own group" : "other"); })
    C(ioctl, SOCK, FIOSETOWN, &nobody)
    C(ioctl, SOCK, FIOSETOWN, &unknown)
    C(ioctl, SOCK, SIOCSPGRP, &least)
    C(ioctl, SOCK, FIOSETOWN, BAD)
    C(ioctl, SOCK, FIOGETOWN, BAD)
    C(ioctl, PIPE_R, FIOSETOWN, &nobody)
}
