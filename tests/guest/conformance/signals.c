/* Signals: what is told of them, masks, and what becomes of those who get them. */
#include "conform.h"

static siginfo_t info;
static volatile int handled;
static sigset_t set, old;
static struct itimerval often = {{0, 200000}, {0, 200000}};
static struct timespec moment = {0, 1000000}, second = {5, 0}, odd = {0, 1000000000};

static void note(int signal, siginfo_t *told, void *context) {
    (void)context;
    handled = signal;
    info = *told;
}

static void handle(int signal, int flags) {
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | flags};
    sigaction(signal, &action, 0);
}

static void only(int signal) {
    sigemptyset(&set);
    sigaddset(&set, signal);
}

static void tell(int signal, siginfo_t *told, void *context) {
    (void)context;
    (void)signal;
    say(" | signal %d code %d %s", told->si_signo, told->si_code, told->si_addr == no_access ? "no_access" : told->si_addr == BAD ? "BAD" : told->si_addr == read_only ? "read_only" : told->si_addr ? "an address" : "0");
    end();
}

static void on_fault(int signal) {
    struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO};
    sigaction(signal, &action, 0);
}

static void show_child_info(pid_t child) {
    say(" | signal %d code %d status %d pid %s uid %s", info.si_signo, info.si_code, info.si_status,
        info.si_pid == child ? "child's" : "other", info.si_uid == getuid() ? "own" : "other");
}

static pid_t stopping(void) {
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    return child;
}

/* A read that a handler interrupts, and that finds a byte if it goes on. */
static void restarted(int flags) {
    int ends[2];
    pipe(ends);
    handle(SIGUSR1, flags);
    pid_t parent = getpid();
    if (fork() == 0) {
        until_asleep(parent);
        kill(parent, SIGUSR1);
        _exit(flags & SA_RESTART && write(ends[1], "x", 1) != 1);
    }
    result(read(ends[0], buffer, 1));
    wait(0);
    say(" | %d", handled);
}

static void where(int signal) {
    char here;
    (void)signal;
    handled = &here >= buffer + PAGE && &here < buffer + PAGE + 65536 ? 1 : 2;
}

static void note_order(int signal) { say(" %d", signal); }

static void show_stack(int signal) {
    stack_t now;
    stack_t other = {buffer + 20 * PAGE, 0, 65536};
    where(signal);
    result(sigaltstack(0, &now));
    say(" | %s %x", handled == 1 ? "there" : "elsewhere", now.ss_flags);
    result(sigaltstack(&other, 0));
}

static int wait_for_usr2(void) {
    only(SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, 0);
    return CALL(rt_sigtimedwait, &set, 0, &second, 8) < 0 ? errno : 0;
}

static void show_signal_of_child(void) { say(" | signal %d", handled); }

/* What a signal does to a child that is in a group of its own, whose parent is in the same session. */
static void default_of(int signal) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        raise(signal);
        _exit(9);
    }
    waitpid(child, &status, WUNTRACED);
    say(WIFSTOPPED(status) ? " | stopped by %d" : WIFSIGNALED(status) ? " | ended by %d" : " | nothing, %d",
        WIFSTOPPED(status) ? WSTOPSIG(status) : WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    kill(child, SIGKILL);
}

#define D(name) T(kill, #name " by default", { default_of(name); })
static void defaults(void) {
    D(SIGHUP) D(SIGINT) D(SIGQUIT) D(SIGILL) D(SIGTRAP) D(SIGABRT) D(SIGBUS) D(SIGFPE) D(SIGKILL) D(SIGUSR1) D(SIGSEGV)
    D(SIGUSR2) D(SIGPIPE) D(SIGALRM) D(SIGTERM) D(SIGSTKFLT) D(SIGCHLD) D(SIGCONT) D(SIGSTOP) D(SIGTSTP) D(SIGTTIN)
    D(SIGTTOU) D(SIGURG) D(SIGXCPU) D(SIGXFSZ) D(SIGVTALRM) D(SIGPROF) D(SIGWINCH) D(SIGIO) D(SIGPWR) D(SIGSYS)
}

void signals(void) {
    T(kill, "what a handler is told", { handle(SIGUSR1, 0); result(kill(getpid(), SIGUSR1)); show_info(&info); })
    T(kill, "by a child", { handle(SIGUSR1, 0); pid_t child = fork(); if (!child) { kill(getppid(), SIGUSR1); _exit(0); } while (!handled) usleep(1000); show_info(&info); say(info.si_pid == child ? " child's" : " not child's"); })
    C(kill, getpid(), 0)
    C(kill, -1, 0)
    C(kill, 999999, 0)
    C(kill, 999999, SIGUSR1)
    C(kill, getpid(), 100)
    C(kill, getpid(), -1)
    C(kill, -999999, 0)
    C(kill, INT_MIN, 0)
    C(kill, getpid(), SIGKILL)
    C(kill, getpid(), SIGTERM)
    C(kill, getpid(), SIGCHLD)
    T(tgkill, "what a handler is told", { handle(SIGUSR1, 0); result(CALL(tgkill, getpid(), getpid(), SIGUSR1)); show_info(&info); })
    C(tgkill, getpid(), 999999, SIGUSR1)
    C(tgkill, 999999, getpid(), SIGUSR1)
    C(tgkill, 0, getpid(), SIGUSR1)
    C(tgkill, getpid(), 0, SIGUSR1)
    C(tgkill, getpid(), -1, SIGUSR1)
    C(tgkill, getpid(), getpid(), 0)
    C(tgkill, getpid(), getpid(), 100)
    T(tkill, "what a handler is told", { handle(SIGUSR1, 0); result(CALL(tkill, getpid(), SIGUSR1)); show_info(&info); })
    C(tkill, 0, SIGUSR1)
    C(tkill, -1, SIGUSR1)
    C(tkill, 999999, 0)
    T(rt_sigqueueinfo, "what a handler is told", {
        handle(SIGUSR1, 0);
        siginfo_t sent = {.si_signo = 99, .si_code = SI_QUEUE};
        sent.si_pid = getpid();
        sent.si_uid = 77;
        sent.si_value.sival_int = 1234;
        result(CALL(rt_sigqueueinfo, getpid(), SIGUSR1, &sent));
        show_info(&info);
        say(" value %d", info.si_value.sival_int);
    })
    T(rt_sigqueueinfo, "real-time signals queue", {
        only(40);
        sigprocmask(SIG_BLOCK, &set, 0);
        for (int i = 0; i < 3; i++) {
            siginfo_t sent = {.si_code = SI_QUEUE};
            sent.si_value.sival_int = i;
            CALL(rt_sigqueueinfo, getpid(), 40, &sent);
        }
        for (int i = 0; i < 4; i++) {
            result(CALL(rt_sigtimedwait, &set, &info, &moment, 8));
            say(" %d", info.si_value.sival_int);
        }
    })
    T(rt_sigqueueinfo, "RLIMIT_SIGPENDING", {
        only(40);
        sigprocmask(SIG_BLOCK, &set, 0);
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_SIGPENDING, &none);
        siginfo_t sent = {.si_code = SI_QUEUE};
        result(CALL(rt_sigqueueinfo, getpid(), 40, &sent));
        result(kill(getpid(), 40));
    })
    T(rt_sigqueueinfo, "SI_USER for another", { pid_t child = stopping(); siginfo_t sent = {.si_code = SI_USER}; result(CALL(rt_sigqueueinfo, child, SIGUSR1, &sent)); kill(child, SIGKILL); })
    C(rt_sigqueueinfo, 999999, SIGUSR1, &((siginfo_t){.si_code = SI_QUEUE}))
    C(rt_sigqueueinfo, getpid(), 100, &((siginfo_t){.si_code = SI_QUEUE}))
    C(rt_sigqueueinfo, getpid(), 0, &((siginfo_t){.si_code = SI_QUEUE}))
    C(rt_sigqueueinfo, getpid(), SIGUSR1, BAD)
    C(rt_tgsigqueueinfo, getpid(), getpid(), 0, &((siginfo_t){.si_code = SI_QUEUE}))
    C(rt_tgsigqueueinfo, 0, getpid(), SIGUSR1, &((siginfo_t){.si_code = SI_QUEUE}))
    C(rt_tgsigqueueinfo, getpid(), 999999, SIGUSR1, &((siginfo_t){.si_code = SI_QUEUE}))
    C(rt_tgsigqueueinfo, getpid(), getpid(), SIGUSR1, BAD)
    T(wait4, "SIGCHLD of a child that exits", { handle(SIGCHLD, 0); pid_t child = fork(); if (!child) _exit(5); while (!handled) usleep(1000); show_child_info(child); })
    T(wait4, "SIGCHLD of a child that is killed", { handle(SIGCHLD, 0); pid_t child = stopping(); kill(child, SIGTERM); while (!handled) usleep(1000); show_child_info(child); })
    T(wait4, "SIGCHLD of a child that stops, and goes on", {
        handle(SIGCHLD, 0);
        pid_t child = stopping();
        kill(child, SIGSTOP);
        while (!handled) usleep(1000);
        show_child_info(child);
        handled = 0;
        kill(child, SIGCONT);
        while (!handled) usleep(1000);
        show_child_info(child);
        kill(child, SIGKILL);
    })
    T(wait4, "SA_NOCLDSTOP: none of a child that stops", { handle(SIGCHLD, SA_NOCLDSTOP); pid_t child = stopping(); kill(child, SIGSTOP); int status; waitpid(child, &status, WUNTRACED); say(" | %d", handled); kill(child, SIGKILL); })
    T(clone, "SIGUSR1 of a child that exits", { handle(SIGUSR1, 0); pid_t child = (pid_t)CALL(clone, SIGUSR1, 0, 0, 0, 0); if (!child) _exit(5); while (!handled) usleep(1000); show_child_info(child); })
    T(prctl, "PR_SET_PDEATHSIG", {
        int ends[2];
        pipe(ends);
        if (fork() == 0) {
            if (fork() == 0) {
                handle(SIGUSR1, 0);
                CALL(prctl, PR_SET_PDEATHSIG, SIGUSR1);
                write(ends[1], "r", 1);
                while (!handled) usleep(1000);
                show_info(&info);
                /* Who died has no name any more. */
                end();
            }
            read(ends[0], buffer, 1);
            _exit(0);
        }
        wait(0);
        /* Until the other one has ended, too. */
        close(ends[1]);
        while (read(ends[0], buffer, 1) > 0) continue;
        _exit(0);
    })
    T(write, "SIGPIPE", { handle(SIGPIPE, 0); close(PIPE_R); result(write(PIPE_W, "x", 1)); show_info(&info); })
    T(alarm, "SIGALRM", { handle(SIGALRM, 0); alarm(1); while (!handled) usleep(1000); show_info(&info); })
    T(mmap, "SIGSEGV where nothing is", { on_fault(SIGSEGV); *(volatile char *)BAD = 1; })
    T(mmap, "SIGSEGV where it is not allowed", { on_fault(SIGSEGV); *(volatile char *)no_access = 1; })
    T(mmap, "SIGSEGV of a write to what may be read", { on_fault(SIGSEGV); *(volatile char *)read_only = 1; })
    T(mmap, "SIGBUS beyond the end of a file", { on_fault(SIGBUS); *(volatile char *)mmap((void *)0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, open("empty", O_RDWR), 0) = 1; })
    C(rt_sigaction, SIGUSR1, 0, buffer, 8)
    C(rt_sigaction, SIGKILL, 0, buffer, 8)
    C(rt_sigaction, SIGKILL, buffer, 0, 8)
    C(rt_sigaction, 0, 0, buffer, 8)
    C(rt_sigaction, 65, 0, buffer, 8)
    C(rt_sigaction, SIGUSR1, 0, buffer, 4)
    C(rt_sigaction, SIGUSR1, BAD, 0, 8)
    C(rt_sigaction, SIGUSR1, 0, BAD, 8)
    T(rt_sigaction, "a mask never has SIGKILL or SIGSTOP", {
        struct sigaction now = {.sa_handler = SIG_DFL};
        memset(&now.sa_mask, 0xff, sizeof now.sa_mask);
        sigaction(SIGUSR1, &now, 0);
        result(sigaction(SIGUSR1, 0, &now));
        say(" | %d %d %d", sigismember(&now.sa_mask, SIGKILL), sigismember(&now.sa_mask, SIGSTOP), sigismember(&now.sa_mask, SIGUSR2));
    })
    T(rt_sigaction, "faults are taken before other signals", {
        struct sigaction action = {.sa_handler = note_order};
        sigemptyset(&set);
        int signals[] = {SIGUSR1, SIGUSR2, SIGSEGV, SIGHUP};
        for (int i = 0; i < 4; i++) {
            sigaction(signals[i], &action, 0);
            sigaddset(&set, signals[i]);
        }
        sigprocmask(SIG_BLOCK, &set, 0);
        for (int i = 0; i < 4; i++)
            kill(getpid(), signals[i]);
        /* The one that is taken last has its handler run first. */
        sigprocmask(SIG_UNBLOCK, &set, 0);
    })
    T(rt_sigaction, "SS_AUTODISARM: a handler has no other stack", {
        stack_t other = {buffer + PAGE, SS_AUTODISARM, 65536};
        sigaltstack(&other, 0);
        struct sigaction action = {.sa_handler = show_stack, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &action, 0);
        raise(SIGUSR1);
        sigaltstack(0, &other);
        say(" | %s %x", other.ss_sp == buffer + PAGE ? "there again" : "elsewhere", other.ss_flags);
    })
    T(rt_sigaction, "SA_NODEFER, SA_RESETHAND", { handle(SIGUSR1, SA_RESETHAND | SA_NODEFER); kill(getpid(), SIGUSR1); struct sigaction now; sigaction(SIGUSR1, 0, &now); say(now.sa_handler == SIG_DFL ? " | reset" : " | kept"); })
    T(rt_sigaction, "SA_RESTART: a read goes on", { restarted(SA_RESTART); })
    T(rt_sigaction, "without SA_RESTART it ends", { restarted(0); })
    T(rt_sigaction, "SA_ONSTACK", {
        stack_t other = {buffer + PAGE, 0, 65536};
        sigaltstack(&other, 0);
        struct sigaction action = {.sa_handler = where, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &action, 0);
        raise(SIGUSR1);
        say(" | %s", handled == 1 ? "there" : "elsewhere");
    })
    T(rt_sigaction, "SA_NOCLDWAIT: nothing to wait for", {
        handle(SIGCHLD, SA_NOCLDWAIT | SA_RESTART);
        if (fork() == 0)
            _exit(1);
        result(wait(0));
        show_signal_of_child();
    })
    T(rt_sigaction, "SA_RESTORER is the library's affair", { struct sigaction now; handle(SIGUSR1, 0); result(sigaction(SIGUSR1, 0, &now)); say(" | %d", (now.sa_flags & ~SA_RESTORER) == SA_SIGINFO); })
    T(rt_sigreturn, "a handler returns to where it came from", {
        register long kept = 12345;
        handle(SIGUSR1, 0);
        only(SIGUSR2);
        sigprocmask(SIG_SETMASK, &set, 0);
        raise(SIGUSR1);
        sigprocmask(SIG_SETMASK, 0, &old);
        say(" | %ld %s", kept, sigismember(&old, SIGUSR2) && !sigismember(&old, SIGUSR1) ? "the mask as it was" : "another mask");
    })
    defaults();
    T(rt_sigaction, "unknown flags", { struct sigaction now = {.sa_handler = SIG_IGN, .sa_flags = 0x100}; result(sigaction(SIGUSR1, &now, 0)); sigaction(SIGUSR1, 0, &now); say(" | %x", now.sa_flags & 0xfff); })
    C(rt_sigprocmask, SIG_BLOCK, buffer, buffer, 8)
    C(rt_sigprocmask, 9, buffer, 0, 8)
    T(rt_sigprocmask, "SIG_UNBLOCK brings what waited", {
        handle(SIGUSR1, 0);
        only(SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, 0);
        raise(SIGUSR1);
        say(" | %d", handled);
        result(CALL(rt_sigprocmask, SIG_UNBLOCK, &set, 0, 8));
        say(" | %d", handled);
    })
    C(rt_sigprocmask, 9, 0, buffer, 8)
    C(rt_sigprocmask, SIG_BLOCK, buffer, 0, 4)
    C(rt_sigprocmask, SIG_BLOCK, BAD, 0, 8)
    C(rt_sigprocmask, SIG_BLOCK, 0, BAD, 8)
    T(rt_sigprocmask, "SIGKILL is never blocked", { memset(&set, 0xff, sizeof set); CALL(rt_sigprocmask, SIG_SETMASK, &set, 0, 8); CALL(rt_sigprocmask, SIG_SETMASK, 0, buffer, 8); show_bytes(buffer, 8); })
    T(rt_sigpending, "a blocked signal", { only(SIGUSR1); sigprocmask(SIG_BLOCK, &set, 0); raise(SIGUSR1); result(CALL(rt_sigpending, buffer, 8)); show_bytes(buffer, 8); })
    C(rt_sigpending, buffer, 9)
    C(rt_sigpending, buffer, 4)
    C(rt_sigpending, BAD, 8)
    C(rt_sigsuspend, BAD, 8)
    C(rt_sigsuspend, buffer, 4)
    T(rt_sigsuspend, "a signal ends it", { handle(SIGUSR1, 0); only(SIGUSR1); sigprocmask(SIG_BLOCK, &set, &old); raise(SIGUSR1); result(CALL(rt_sigsuspend, &old, 8)); })
    T(rt_sigtimedwait, "a pending signal", { only(SIGUSR1); sigprocmask(SIG_BLOCK, &set, 0); kill(getpid(), SIGUSR1); result(CALL(rt_sigtimedwait, &set, &info, &second, 8)); show_info(&info); })
    T(rt_sigtimedwait, "no signal", { only(SIGUSR1); result(CALL(rt_sigtimedwait, &set, &info, &moment, 8)); })
    T(rt_sigtimedwait, "a stop ends it", { stopped_in(wait_for_usr2); })
    T(rt_sigtimedwait, "a bad time", { only(SIGUSR1); result(CALL(rt_sigtimedwait, &set, &info, &odd, 8)); })
    C(rt_sigtimedwait, BAD, 0, &moment, 8)
    C(rt_sigtimedwait, buffer, 0, &moment, 4)
    C(rt_sigtimedwait, buffer, 0, BAD, 8)
#define STACK(...) (&(stack_t){__VA_ARGS__})
    C(sigaltstack, 0, buffer)
    E({ sigaltstack(0, (stack_t *)buffer); say(" | %x", ((stack_t *)buffer)->ss_flags); }, sigaltstack, STACK(buffer + PAGE, 0, 65536), 0)
    E({ sigaltstack(0, (stack_t *)buffer); say(" | %x", ((stack_t *)buffer)->ss_flags); }, sigaltstack, STACK(buffer + PAGE, SS_AUTODISARM, 65536), 0)
    E({ sigaltstack(0, (stack_t *)buffer); say(" | %x", ((stack_t *)buffer)->ss_flags); }, sigaltstack, STACK(buffer + PAGE, SS_ONSTACK, 65536), 0)
    C(sigaltstack, STACK(buffer + PAGE, 8, 65536), 0)
    C(sigaltstack, STACK(buffer + PAGE, 0, 100), 0)
    C(sigaltstack, STACK(buffer + PAGE, SS_DISABLE, 0), 0)
    C(sigaltstack, STACK(buffer + PAGE, SS_DISABLE | SS_ONSTACK, 0), 0)
    C(sigaltstack, BAD, 0)
    C(sigaltstack, 0, BAD)
    C(signalfd, -1, buffer, 8)
    C(signalfd, RW, buffer, 8)
    E(show_flags(3), signalfd4, -1, buffer, 8, SFD_CLOEXEC | SFD_NONBLOCK)
    C(signalfd4, -1, buffer, 8, O_APPEND)
    C(signalfd4, -1, buffer, 4, 0)
    C(signalfd4, -1, BAD, 8, 0)
    C(signalfd4, RW, buffer, 8, 0)
    C(signalfd4, CLOSED, buffer, 8, 0)
    C(signalfd4, SIGNAL, buffer, 8, 0)
    T(signalfd4, "what is read", {
        only(SIGUSR2);
        sigprocmask(SIG_BLOCK, &set, 0);
        kill(getpid(), SIGUSR2);
        struct signalfd_siginfo read_info;
        result(read(SIGNAL, &read_info, sizeof read_info));
        say(" | %u %d %s %s", read_info.ssi_signo, read_info.ssi_code, read_info.ssi_pid == (unsigned)getpid() ? "own" : "other", read_info.ssi_uid == getuid() ? "own" : "other");
    })
    T(signalfd4, "SIGCHLD", {
        only(SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, 0);
        int fd = signalfd(-1, &set, 0);
        pid_t child = fork();
        if (child == 0)
            _exit(6);
        struct signalfd_siginfo read_info;
        result(read(fd, &read_info, sizeof read_info));
        say(" | %u %d %d %s", read_info.ssi_signo, read_info.ssi_code, read_info.ssi_status, read_info.ssi_pid == (unsigned)child ? "child's" : "other");
    })
    T(pause, "a signal ends it", { handle(SIGALRM, 0); setitimer(ITIMER_REAL, &often, 0); result(CALL(pause)); })
}
