/* Processes: ids, limits, scheduling, birth and death. */
#include "conform.h"
#include <pthread.h>

static siginfo_t info;
static struct rlimit limit;
static int status;

/* A child that ends with `code`. */
static pid_t child_with(int code) {
    pid_t child = fork();
    if (child == 0)
        _exit(code);
    return child;
}

static void show_child(pid_t child) {
    say(" | signal %d code %d status %d pid %s uid %s", info.si_signo, info.si_code, info.si_status,
        info.si_pid == child ? "child's" : info.si_pid ? "other" : "0", info.si_uid == getuid() ? "own" : info.si_uid ? "other" : "0");
}

static void show_wait(int is_right) { say(is_right ? " | %x" : " | wrong, %x", status); }

static void waiting_for_children(void) {
    T(wait4, "a child that exits", { pid_t child = child_with(7); show_wait(CALL(wait4, -1, &status, 0, 0) == child); })
    T(wait4, "a child that is killed", { pid_t child = fork(); if (!child) pause(); kill(child, SIGTERM); show_wait(CALL(wait4, child, &status, 0, 0) == child); })
    T(wait4, "WUNTRACED, then WCONTINUED", {
        pid_t child = fork();
        if (!child)
            for (;;) pause();
        kill(child, SIGSTOP);
        show_wait(waitpid(child, &status, WUNTRACED) == child);
        kill(child, SIGCONT);
        show_wait(waitpid(child, &status, WCONTINUED) == child);
        result(waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED));
        kill(child, SIGKILL);
    })
    T(wait4, "WNOHANG while it runs", { pid_t child = fork(); if (!child) pause(); result(CALL(wait4, -1, &status, WNOHANG, 0)); kill(child, SIGKILL); })
    T(wait4, "a bad place for the status", { child_with(0); some(CALL(wait4, -1, BAD, 0, 0)); })
    T(wait4, "a child whose end sends no signal needs __WCLONE", {
        if (CALL(clone, 0, 0, 0, 0, 0) == 0)
            _exit(3);
        result(CALL(wait4, -1, &status, 0, 0));
        some(CALL(wait4, -1, &status, __WCLONE, 0));
        say(" | %x", status);
    })
    T(wait4, "__WALL waits for either", { if (CALL(clone, 0, 0, 0, 0, 0) == 0) _exit(3); some(CALL(wait4, -1, &status, __WALL, 0)); })
    T(wait4, "SIGCHLD ignored: nothing to wait for", { signal(SIGCHLD, SIG_IGN); child_with(1); result(CALL(wait4, -1, &status, 0, 0)); })
    T(wait4, "__WNOTHREAD: a child of this thread", { child_with(3); some(CALL(wait4, -1, &status, __WNOTHREAD, 0)); })
    C(wait4, -1, 0, 0, 0)
    C(wait4, -1, 0, 1 << 20, 0)
    C(wait4, INT_MIN, 0, 0, 0)
    C(wait4, 999999, 0, WNOHANG, 0)
    T(waitid, "a child that exits", { pid_t child = child_with(7); result(CALL(waitid, P_ALL, 0, &info, WEXITED, 0)); show_child(child); })
    T(waitid, "a child that is killed", { pid_t child = fork(); if (!child) pause(); kill(child, SIGTERM); result(CALL(waitid, P_PID, child, &info, WEXITED, 0)); show_child(child); })
    T(waitid, "WNOWAIT leaves it", { pid_t child = child_with(7); result(CALL(waitid, P_ALL, 0, &info, WEXITED | WNOWAIT, 0)); show_child(child); result(CALL(waitid, P_PID, child, &info, WEXITED, 0)); })
    T(waitid, "a child that stops, and goes on", {
        pid_t child = fork();
        if (!child)
            for (;;) pause();
        kill(child, SIGSTOP);
        result(CALL(waitid, P_PGID, 0, &info, WSTOPPED, 0));
        show_child(child);
        kill(child, SIGCONT);
        result(CALL(waitid, P_PID, child, &info, WCONTINUED, 0));
        show_child(child);
        kill(child, SIGKILL);
    })
    T(waitid, "WNOHANG while it runs", { pid_t child = fork(); if (!child) pause(); info.si_signo = 9; result(CALL(waitid, P_ALL, 0, &info, WEXITED | WNOHANG, 0)); show_child(child); kill(child, SIGKILL); })
    C(waitid, P_ALL, 0, &info, WEXITED, 0)
    C(waitid, P_ALL, 0, &info, 0, 0)
    C(waitid, P_ALL, 0, &info, WNOHANG, 0)
    C(waitid, P_ALL, 0, &info, WEXITED | 1 << 20, 0)
    C(waitid, P_PID, 0, &info, WEXITED, 0)
    C(waitid, P_PID, -1, &info, WEXITED, 0)
    C(waitid, P_PGID, -1, &info, WEXITED, 0)
    C(waitid, P_PIDFD, -1, &info, WEXITED, 0)
    C(waitid, P_PIDFD, RW, &info, WEXITED, 0)
    C(waitid, 9, 0, &info, WEXITED, 0)
}

static void nothing(int signal) { (void)signal; }

/* A child that should not have been made ends at once. */
#define N(name, ...) if (begin(#name "(" #__VA_ARGS__ ")", NR_##name)) { long made = CALL(name, ##__VA_ARGS__); if (made == 0) _exit(0); some(made); end(); }

/* What a child with shared memory leaves. */
static volatile int seen;
static int note_ids(void *argument) {
    seen = (int)CALL(getpid) == *(int *)argument ? 1 : 2;
    return 3;
}
static int close_one(void *argument) { return close(RW) | *(int *)argument; }

/* A child on a stack of its own. */
static int born(int flags, int (*does)(void *), void *argument) {
    char *stack = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return clone(does, stack + 16 * PAGE, flags, argument);
}

/* A child as of fork, whose arguments instruction sets have in different places. */
static long forked(long flags, int *parent_id, int *child_id) {
#ifdef __x86_64__
    return CALL(clone, flags, 0, parent_id, child_id, __builtin_thread_pointer());
#else
    return CALL(clone, flags, 0, parent_id, __builtin_thread_pointer(), child_id);
#endif
}

static void *close_rw(void *argument) {
    close(RW);
    *(int *)argument = (int)CALL(getpid);
    return 0;
}

static void threads(void) {
    T(clone, "CLONE_VM shares memory", { int own = getpid(); int child = born(CLONE_VM | SIGCHLD, note_ids, &own); waitpid(child, &status, 0); say(" | %d %x", seen, status); })
    T(clone, "CLONE_VFORK: the child ends first", { int own = getpid(); int child = born(CLONE_VM | CLONE_VFORK | SIGCHLD, note_ids, &own); say(" | %d", seen); waitpid(child, &status, 0); })
    T(clone, "CLONE_PARENT: a sibling", {
        if (fork() == 0) {
            int none = 0;
            born(CLONE_PARENT | SIGCHLD, close_one, &none);
            some(wait(&status));
            end();
        }
        int ended = 0;
        while (wait(&status) > 0)
            ended++;
        (void)ended;
        _exit(0);
    })
    T(clone, "CLONE_CHILD_SETTID, CLONE_CHILD_CLEARTID", {
        int *id = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        *id = -1;
        pid_t child = (pid_t)forked(SIGCHLD | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, 0, id);
        if (child == 0)
            _exit(*id != getpid());
        waitpid(child, &status, 0);
        /* Cleared for those with whom memory is shared, of whom there are none. */
        say(" | %x %s", status, *id == child ? "kept" : *id == 0 ? "cleared" : "other");
    })
    T(clone, "CLONE_SETTLS and CLONE_SYSVSEM in a child", {
        pid_t child = (pid_t)forked(SIGCHLD | CLONE_SETTLS | CLONE_SYSVSEM, 0, 0);
        if (child == 0)
            _exit(5);
        waitpid(child, &status, 0);
        say(" | %x", status);
    })
    N(clone, SIGCHLD | CLONE_DETACHED, 0, 0, 0, 0)
    N(clone, SIGCHLD | CLONE_DETACHED | CLONE_PIDFD, 0, buffer, 0, 0)
    N(clone, SIGCHLD | CLONE_PIDFD | CLONE_PARENT_SETTID, 0, buffer, 0, 0)
    N(clone, SIGCHLD | CLONE_THREAD | CLONE_SIGHAND, 0, 0, 0, 0)
    T(clone, "a thread shares ids and descriptors", {
        int id = 0;
        pthread_t thread;
        say(" = %d", pthread_create(&thread, 0, close_rw, &id));
        pthread_join(thread, 0);
        say(id == getpid() ? " | same" : " | other");
        show_open();
        result(waitpid(-1, &status, 0));
    })
    T(clone, "CLONE_PIDFD", {
        int fd = -1;
        pid_t child = (pid_t)CALL(clone, SIGCHLD | CLONE_PIDFD, 0, &fd, 0, 0);
        if (child == 0)
            _exit(4);
        some(child);
        if (child > 0)
            show_flags(fd);
    })
    T(clone3, "CLONE_CLEAR_SIGHAND: handlers go, what is ignored stays", {
        struct sigaction now;
        struct { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; } how = {.flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD};
        signal(SIGUSR1, nothing);
        signal(SIGUSR2, SIG_IGN);
        pid_t child = (pid_t)CALL(clone3, &how, 64);
        if (child == 0) {
            sigaction(SIGUSR1, 0, &now);
            int code = now.sa_handler == SIG_DFL;
            sigaction(SIGUSR2, 0, &now);
            _exit(code | (now.sa_handler == SIG_IGN) << 1);
        }
        waitpid(child, &status, 0);
        if (child < 0)
            result(child);
        say(" | %x", status);
    })
}

static void birth(void) {
    S({ if (getppid() == 1) _exit(0); }, getpid)
    T(fork, "the child is another", { pid_t child = (pid_t)CALL(fork); if (child == 0) _exit(4); waitpid(child, &status, 0); say(" | %x", status); })
    T(clone, "as fork", { pid_t child = (pid_t)CALL(clone, SIGCHLD, 0, 0, 0, 0); if (child == 0) _exit(4); waitpid(child, &status, 0); say(" | %x", status); })
    T(clone, "CLONE_PARENT_SETTID and CLONE_CHILD_SETTID", {
        static int ids[2];
        pid_t child = (pid_t)CALL(clone, SIGCHLD | CLONE_PARENT_SETTID, 0, ids, 0, 0);
        if (child == 0)
            _exit(0);
        waitpid(child, &status, 0);
        say(ids[0] == child ? " | stored" : " | not stored");
    })
    T(clone, "CLONE_FILES shares descriptors", { pid_t child = (pid_t)CALL(clone, SIGCHLD | CLONE_FILES, 0, 0, 0, 0); if (child == 0) { close(RW); _exit(0); } waitpid(child, &status, 0); show_open(); })
    T(clone, "CLONE_FS shares the folder and the mask", {
        pid_t child = (pid_t)CALL(clone, SIGCHLD | CLONE_FS, 0, 0, 0, 0);
        if (child == 0) {
            umask(0777);
            _exit(chdir("dir"));
        }
        waitpid(child, &status, 0);
        say(" | %o %s", umask(0), access("in", F_OK) ? "apart" : "shared");
    })
    T(clone, "without CLONE_FS they are apart", {
        pid_t child = (pid_t)CALL(clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            umask(0777);
            _exit(chdir("dir"));
        }
        waitpid(child, &status, 0);
        say(" | %o %s", umask(0), access("in", F_OK) ? "apart" : "shared");
    })
    N(clone, SIGCHLD | CLONE_THREAD, 0, 0, 0, 0)
    N(clone, SIGCHLD | CLONE_SIGHAND, 0, 0, 0, 0)
    N(clone, SIGCHLD | CLONE_NEWNS, 0, 0, 0, 0)
    N(clone, SIGCHLD | CLONE_NEWPID, 0, 0, 0, 0)
    N(clone, SIGCHLD | CLONE_NEWNET, 0, 0, 0, 0)
    N(clone, SIGCHLD | CLONE_NEWUTS, 0, 0, 0, 0)
    N(clone, SIGCHLD | CLONE_NEWIPC, 0, 0, 0, 0)
    N(clone, SIGCHLD | CLONE_NEWCGROUP, 0, 0, 0, 0)
    N(clone, SIGCHLD | CLONE_NEWNS | CLONE_FS, 0, 0, 0, 0)
    T(clone, "CLONE_UNTRACED, CLONE_PTRACE and CLONE_IO", { pid_t child = (pid_t)CALL(clone, SIGCHLD | CLONE_UNTRACED | CLONE_PTRACE | CLONE_IO, 0, 0, 0, 0); if (child == 0) _exit(0); some(child); })
#define CLONE3(...) (&(struct { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup; }){__VA_ARGS__})
    T(clone3, "as fork", { pid_t child = (pid_t)CALL(clone3, CLONE3(.exit_signal = SIGCHLD), 88); if (child == 0) _exit(4); waitpid(child, &status, 0); say(" | %x", status); })
    N(clone3, CLONE3(.exit_signal = 100), 88)
    N(clone3, CLONE3(.exit_signal = SIGCHLD, .flags = 1UL << 40), 88)
    N(clone3, CLONE3(.exit_signal = SIGCHLD, .flags = 0x11), 88)
    N(clone3, CLONE3(.exit_signal = SIGCHLD, .stack = 4096), 88)
    N(clone3, CLONE3(.exit_signal = SIGCHLD, .stack_size = 4096), 88)
    N(clone3, CLONE3(.exit_signal = SIGCHLD, .flags = CLONE_THREAD), 88)
    N(clone3, CLONE3(.exit_signal = SIGCHLD, .flags = CLONE_NEWNS), 88)
    N(clone3, CLONE3(.exit_signal = SIGCHLD, .set_tid_size = 1), 88)
    N(clone3, CLONE3(.exit_signal = SIGCHLD), 63)
    N(clone3, CLONE3(.exit_signal = SIGCHLD), 8192)
    C(clone3, BAD, 88)
    T(vfork, "the child ends first", { static volatile int at; pid_t child = vfork(); if (child == 0) { at = 5; _exit(0); } say(" | %d", at); waitpid(child, &status, 0); })
    T(fork, "RLIMIT_NPROC", { limit = (struct rlimit){0, 0}; setrlimit(RLIMIT_NPROC, &limit); pid_t child = (pid_t)CALL(fork); if (child == 0) _exit(0); some(child); })
    T(vfork, "RLIMIT_NPROC", { limit = (struct rlimit){0, 0}; setrlimit(RLIMIT_NPROC, &limit); pid_t child = vfork(); if (child == 0) _exit(0); some(child); })
    threads();
    T(clone, "RLIMIT_NPROC", {
        limit = (struct rlimit){0, 0};
        setrlimit(RLIMIT_NPROC, &limit);
        pid_t child = (pid_t)CALL(clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0)
            _exit(0);
        some(child);
    })
    static char *arguments[] = {"true", 0}, *none[] = {0};
    T(execve, "a program", {
        if (fork() == 0) {
            CALL(execve, "/bin/true", arguments, none);
            _exit(9);
        }
        wait(&status);
        say(" | %x", status);
    })
    T(execve, "descriptors that close, and that stay", {
        static char *check[] = {"sh", "-c", "test -e /proc/self/fd/11 && ! test -e /proc/self/fd/10", 0};
        fcntl(RW, F_SETFD, FD_CLOEXEC);
        if (fork() == 0) {
            CALL(execve, "/bin/sh", check, none);
            _exit(9);
        }
        wait(&status);
        say(" | %x", status);
    })
    T(execveat, "a program by its descriptor", {
        int fd = open("/bin/true", O_PATH);
        if (fork() == 0) {
            CALL(execveat, fd, "", arguments, none, AT_EMPTY_PATH);
            _exit(9);
        }
        wait(&status);
        say(" | %x", status);
    })
    T(execveat, "a file in memory that is open for writing", {
        int from = open("/bin/true", O_RDONLY), fd = memfd_create("program", 0);
        struct stat whole;
        fstat(from, &whole);
        say(" | %d", sendfile(fd, from, 0, whole.st_size) == whole.st_size);
        if (fork() == 0) {
            CALL(execveat, fd, "", arguments, none, AT_EMPTY_PATH);
            _exit(errno);
        }
        wait(&status);
        say(" | %x", status);
    })
    T(execve, "scripts that lead to one another", {
        static char *const names[] = {"/bin/true", "script1", "script2", "script3", "script4", "script5", "script6"};
        for (int depth = 1; depth <= 6; depth++) {
            int fd = open(names[depth], O_WRONLY | O_CREAT, 0700);
            dprintf(fd, "#!%s\n", names[depth - 1]);
            close(fd);
            if (fork() == 0) {
                CALL(execve, names[depth], arguments, none);
                _exit(errno);
            }
            wait(&status);
            say(" | %x", status);
        }
    })
    C(execve, "none", arguments, none)
    C(execve, "file", arguments, none)
    C(execve, "dir", arguments, none)
    C(execve, "program", arguments, none)
    C(execve, "empty", arguments, none)
    C(execve, "file/x", arguments, none)
    C(execve, BAD, arguments, none)
    C(execve, "/bin/true", BAD, none)
    C(execve, "loop", arguments, none)
    C(execve, "", arguments, none)
    C(execveat, AT_FDCWD, "link", arguments, none, AT_SYMLINK_NOFOLLOW)
    C(execveat, RW, "", arguments, none, AT_EMPTY_PATH)
    C(execveat, CLOSED, "x", arguments, none, 0)
    C(execveat, AT_FDCWD, "file", arguments, none, 1 << 20)
    T(exit, "its status", { if (fork() == 0) CALL(exit, 0x1ff); wait(&status); say(" | %x", status); })
    T(exit_group, "its status", { if (fork() == 0) CALL(exit_group, 258); wait(&status); say(" | %x", status); })
}

static void capabilities(void) {
    static struct { uint32_t version; int pid; } header = {0x20080522, 0}, other = {0x20080522, 999999}, odd = {7, 0};
    static struct { uint32_t effective, permitted, inheritable; } sets[2];
    E(show_bytes(sets, sizeof sets), capget, &header, sets)
    E(say(" | version %x", odd.version), capget, &odd, sets)
    E(say(" | version %x", odd.version), capget, &odd, 0)
    C(capget, &header, BAD)
    C(capget, BAD, sets)
    C(capget, &other, sets)
    C(capset, &header, sets)
    C(capset, &odd, sets)
    C(capset, &header, BAD)
    C(capset, &other, sets)
    T(capset, "a capability that the process has not", { sets[0].permitted = sets[0].effective = 1; result(CALL(capset, &header, sets)); })
    T(capset, "more effective than permitted", { sets[0].effective = 1; result(CALL(capset, &header, sets)); })
    T(capset, "an inheritable one that is not permitted", { sets[0].inheritable = 1; result(CALL(capset, &header, sets)); })
    R(capset, "fewer, which do not come back", {
        sets[0].permitted = sets[0].effective = 1 << 6;
        result(CALL(capset, &header, sets));
        result(CALL(setuid, 1000));
        sets[0].permitted = sets[0].effective = 3;
        result(CALL(capset, &header, sets));
        result(CALL(capget, &header, sets));
        say(" | %x %x", sets[0].effective, sets[0].permitted);
    })
}

static void identity(void) {
    C(getuid)
    C(geteuid)
    C(getgid)
    C(getegid)
    S(, gettid)
    S(, getppid)
    S(, getpgrp)
    S(, getpgid, 0)
    C(getpgid, 999999)
    C(getpgid, -1)
    S(, getsid, 0)
    C(getsid, 999999)
    T(setpgid, "a group of its own", { result(CALL(setpgid, 0, 0)); say(getpgrp() == getpid() ? " | own" : " | other"); })
    C(setpgid, 0, -1)
    C(setpgid, -1, 0)
    C(setpgid, 999999, 0)
    C(setpgid, 0, 999999)
    T(setsid, "a session of its own", { some(CALL(setsid)); say(getsid(0) == getpid() ? " | own" : " | other"); })
    T(setsid, "by the leader of a group", { setpgid(0, 0); result(CALL(setsid)); })
    C(setuid, 0)
    C(setuid, getuid())
    C(setuid, -1)
    C(setgid, 0)
    C(setgid, -1)
    C(setgid, getgid())
    C(setreuid, -1, -1)
    C(setreuid, 0, -1)
    C(setregid, -1, -1)
    C(setregid, 0, -1)
    C(setresuid, -1, -1, -1)
    C(setresuid, -1, 0, -1)
    C(setresgid, -1, -1, -1)
    C(setresgid, 0, -1, -1)
    S(, getresuid, buffer, buffer + 4, buffer + 8)
    C(getresuid, BAD, buffer, buffer)
    S(, getresgid, buffer, buffer + 4, buffer + 8)
    C(getresgid, BAD, buffer, buffer)
    C(getgroups, -1, buffer)
    S(, getgroups, 100, buffer)
    C(setgroups, 0, 0)
    R(setgroups, "two", {
        gid_t groups[2] = {7, 8};
        result(CALL(setgroups, 2, groups));
        result(CALL(getgroups, 0, 0));
        result(CALL(getgroups, 1, groups));
    })
    R(setgroups, "too many", { result(CALL(setgroups, 100000, buffer)); })
    R(setgroups, "a bad place", { result(CALL(setgroups, 2, BAD)); })
    C(setfsuid, -1)
    E(say(" = %ld", CALL(setfsuid, -1)), setfsuid, 0)
    C(setfsgid, -1)
    E(say(" = %ld", CALL(setfsgid, -1)), setfsgid, 0)
    R(setfsuid, "files are another's", {
        result(CALL(setfsuid, 1001));
        result(CALL(setfsuid, -1));
        result(open("locked", O_RDONLY));
        result(kill(getppid(), 0));
    })
    R(setfsgid, "files are another group's", {
        struct stat made;
        result(CALL(setfsgid, 1001));
        int fd = open("new", O_CREAT | O_WRONLY, 0600);
        fstat(fd, &made);
        say(" | group %d", (int)made.st_gid);
    })
    capabilities();
    C(setgroups, 100000, 0)
    C(uname, buffer)
    C(uname, BAD)
    C(sysinfo, buffer)
    C(sysinfo, BAD)
    C(getrusage, RUSAGE_SELF, buffer)
    C(getrusage, RUSAGE_CHILDREN, buffer)
    C(getrusage, RUSAGE_THREAD, buffer)
    C(getrusage, 7, buffer)
    C(getrusage, RUSAGE_SELF, BAD)
    S(, set_tid_address, buffer)
    C(getcpu, buffer, buffer + 4, 0)
    C(getcpu, BAD, 0, 0)
    C(set_robust_list, buffer, 24)
    C(set_robust_list, buffer, 23)
    C(get_robust_list, 0, buffer, buffer + 8)
    C(get_robust_list, 999999, buffer, buffer + 8)
    C(get_robust_list, 0, BAD, buffer + 8)
    C(getrandom, buffer, 100, 0)
    C(getrandom, buffer, 100, GRND_NONBLOCK)
    C(getrandom, buffer, 100, GRND_RANDOM)
    C(getrandom, buffer, 100, GRND_INSECURE)
    C(getrandom, buffer, 100, GRND_RANDOM | GRND_INSECURE)
    C(getrandom, buffer, 100, 8)
    C(getrandom, BAD, 100, 0)
    C(getrandom, buffer, 0, 0)
}

static void limits_and_scheduling(void) {
#define RLIMIT(soft, hard) (&(struct rlimit){soft, hard})
    E(say(" | %ld %ld", (long)limit.rlim_cur, (long)limit.rlim_max), prlimit64, 0, RLIMIT_NOFILE, 0, &limit)
    E(say(" | %ld %ld", (long)limit.rlim_cur, (long)limit.rlim_max), prlimit64, 0, RLIMIT_NOFILE, RLIMIT(20, 30), &limit)
    C(prlimit64, 0, RLIMIT_NOFILE, RLIMIT(40, 30), 0)
    C(prlimit64, 0, RLIMIT_NOFILE, RLIMIT(40, 300), 0)
    C(prlimit64, 0, RLIMIT_NOFILE, RLIMIT(0, 0), 0)
    C(prlimit64, 0, RLIMIT_NOFILE, RLIMIT(RLIM_INFINITY, RLIM_INFINITY), 0)
    C(prlimit64, 0, 99, 0, &limit)
    C(prlimit64, 0, RLIMIT_NOFILE, BAD, 0)
    C(prlimit64, 0, RLIMIT_NOFILE, 0, BAD)
    C(prlimit64, 999999, RLIMIT_NOFILE, 0, &limit)
    C(prlimit64, -1, RLIMIT_NOFILE, 0, &limit)
    C(prlimit64, 1, RLIMIT_NOFILE, 0, &limit)
    C(prlimit64, 0, RLIMIT_NICE, RLIMIT(40, 40), 0)
    E(say(" | %ld", (long)limit.rlim_cur), getrlimit, RLIMIT_STACK, &limit)
    T(getrlimit, "RLIMIT_RSS, which limits nothing", { limit = (struct rlimit){1 << 20, 1 << 20}; result(setrlimit(RLIMIT_RSS, &limit)); limit.rlim_cur = 0; result(CALL(getrlimit, RLIMIT_RSS, &limit)); say(" | %ld", (long)limit.rlim_cur); })
    C(getrlimit, 99, &limit)
    C(getrlimit, RLIMIT_STACK, BAD)
    E({ getrlimit(RLIMIT_CPU, &limit); say(" | %ld", (long)limit.rlim_cur); }, setrlimit, RLIMIT_CPU, RLIMIT(100, 200))
    C(setrlimit, RLIMIT_CPU, RLIMIT(200, 100))
    C(setrlimit, RLIMIT_NOFILE, RLIMIT(100, 10000))
    C(setrlimit, 99, RLIMIT(1, 1))
    C(setrlimit, RLIMIT_CPU, BAD)
    T(setrlimit, "a limit is inherited", { limit = (struct rlimit){33, 44}; setrlimit(RLIMIT_NOFILE, &limit); if (fork() == 0) { getrlimit(RLIMIT_NOFILE, &limit); _exit((int)limit.rlim_cur); } wait(&status); say(" | %d", WEXITSTATUS(status)); })
    T(setrlimit, "RLIMIT_CPU ends with SIGXCPU", { limit = (struct rlimit){1, 2}; setrlimit(RLIMIT_CPU, &limit); for (;;) getppid(); })
    T(setrlimit, "RLIMIT_CPU, SIGXCPU ignored, ends with SIGKILL", { signal(SIGXCPU, SIG_IGN); limit = (struct rlimit){1, 2}; setrlimit(RLIMIT_CPU, &limit); for (;;) getppid(); })
    C(getpriority, PRIO_PROCESS, 0)
    C(getpriority, PRIO_PGRP, 0)
    C(getpriority, 9, 0)
    C(getpriority, PRIO_PROCESS, 999999)
    E(say(" | %ld", CALL(getpriority, PRIO_PROCESS, 0)), setpriority, PRIO_PROCESS, 0, 5)
    E(say(" | %ld", CALL(getpriority, PRIO_PROCESS, 0)), setpriority, PRIO_PROCESS, 0, 100)
    C(setpriority, PRIO_PROCESS, 0, -5)
    C(setpriority, PRIO_PROCESS, 999999, 5)
    C(setpriority, PRIO_PROCESS, 1, 5)
    C(setpriority, 9, 0, 5)
    C(sched_yield)
    C(sched_getscheduler, 0)
    C(sched_getscheduler, -1)
    C(sched_getscheduler, 999999)
#define PRIORITY(n) (&(int){n})
    C(sched_setscheduler, 0, SCHED_OTHER, PRIORITY(0))
    C(sched_setscheduler, 0, SCHED_OTHER, PRIORITY(1))
    C(sched_setscheduler, 0, SCHED_FIFO, PRIORITY(1))
    C(sched_setscheduler, 0, SCHED_FIFO, PRIORITY(0))
    C(sched_setscheduler, 0, SCHED_RR, PRIORITY(1))
    E(say(" | %ld", CALL(sched_getscheduler, 0)), sched_setscheduler, 0, SCHED_BATCH, PRIORITY(0))
    E(say(" | %ld", CALL(sched_getscheduler, 0)), sched_setscheduler, 0, SCHED_IDLE, PRIORITY(0))
    C(sched_setscheduler, 0, SCHED_DEADLINE, PRIORITY(0))
    C(sched_setscheduler, 0, 99, PRIORITY(0))
    C(sched_setscheduler, 0, -1, PRIORITY(0))
    C(sched_setscheduler, 0, SCHED_OTHER, BAD)
    C(sched_setscheduler, 0, SCHED_OTHER, 0)
    C(sched_setscheduler, 999999, SCHED_OTHER, PRIORITY(0))
    C(sched_setscheduler, -1, SCHED_OTHER, PRIORITY(0))
    E(show_bytes(buffer, 4), sched_getparam, 0, buffer)
    C(sched_getparam, 0, BAD)
    C(sched_getparam, 0, 0)
    C(sched_getparam, -1, buffer)
    C(sched_getparam, 999999, buffer)
    E(say(" | %lx", CALL(sched_getscheduler, 0)), sched_setscheduler, 0, SCHED_OTHER | SCHED_RESET_ON_FORK, PRIORITY(0))
    T(sched_setscheduler, "SCHED_RESET_ON_FORK, and back", { result(CALL(sched_setscheduler, 0, SCHED_OTHER | SCHED_RESET_ON_FORK, PRIORITY(0))); result(CALL(sched_setscheduler, 0, SCHED_OTHER, PRIORITY(0))); })
    T(sched_setscheduler, "SCHED_IDLE, and back", { result(CALL(sched_setscheduler, 0, SCHED_IDLE, PRIORITY(0))); result(CALL(sched_setscheduler, 0, SCHED_OTHER, PRIORITY(0))); })
    C(sched_setparam, 0, PRIORITY(0))
    C(sched_setparam, 0, PRIORITY(1))
    C(sched_setparam, 0, BAD)
    C(sched_setparam, 0, 0)
    C(sched_setparam, -1, PRIORITY(0))
    C(sched_setparam, 999999, PRIORITY(0))
#define ATTRIBUTES(...) (&(struct { unsigned size, policy; unsigned long flags; int nice; unsigned priority; unsigned long times[3]; }){48, __VA_ARGS__})
    E(say(" | %ld", CALL(getpriority, PRIO_PROCESS, 0)), sched_setattr, 0, ATTRIBUTES(SCHED_OTHER, 0, 7), 0)
    E(say(" | %ld", CALL(getpriority, PRIO_PROCESS, 0)), sched_setattr, 0, ATTRIBUTES(SCHED_OTHER, 0, 99), 0)
    C(sched_setattr, 0, ATTRIBUTES(SCHED_OTHER, 0, -1), 0)
    C(sched_setattr, 0, ATTRIBUTES(SCHED_OTHER, 0, 0, 1), 0)
    C(sched_setattr, 0, ATTRIBUTES(SCHED_FIFO, 0, 0, 1), 0)
    C(sched_setattr, 0, ATTRIBUTES(99), 0)
    E(say(" | %lx", CALL(sched_getscheduler, 0)), sched_setattr, 0, ATTRIBUTES(SCHED_BATCH, SCHED_FLAG_RESET_ON_FORK), 0)
    E(say(" | %ld", CALL(sched_getscheduler, 0)), sched_setattr, 0, ATTRIBUTES(SCHED_BATCH, SCHED_FLAG_KEEP_POLICY), 0)
    E(say(" | %ld", CALL(getpriority, PRIO_PROCESS, 0)), sched_setattr, 0, ATTRIBUTES(SCHED_BATCH, SCHED_FLAG_KEEP_PARAMS, 9), 0)
    C(sched_setattr, 0, ATTRIBUTES(SCHED_OTHER, 1ul << 40), 0)
    C(sched_setattr, 0, ATTRIBUTES(SCHED_OTHER), 1)
    C(sched_setattr, 0, 0, 0)
    C(sched_setattr, 0, BAD, 0)
    C(sched_setattr, -1, ATTRIBUTES(SCHED_OTHER), 0)
    C(sched_setattr, 999999, ATTRIBUTES(SCHED_OTHER), 0)
    E({ show_bytes(buffer, 8); show_bytes(buffer + 16, 8); }, sched_getattr, 0, buffer, 48, 0)
    C(sched_getattr, 0, buffer, 47, 0)
    C(sched_getattr, 0, buffer, 5000, 0)
    C(sched_getattr, 0, buffer, 48, 1)
    C(sched_getattr, 0, 0, 48, 0)
    C(sched_getattr, 0, BAD, 48, 0)
    C(sched_getattr, -1, buffer, 48, 0)
    C(sched_getattr, 999999, buffer, 48, 0)
    C(sched_rr_get_interval, 0, buffer)
    C(sched_rr_get_interval, 0, BAD)
    C(sched_rr_get_interval, -1, buffer)
    C(sched_rr_get_interval, 999999, buffer)
    C(sched_get_priority_max, SCHED_OTHER)
    C(sched_get_priority_max, SCHED_FIFO)
    C(sched_get_priority_max, SCHED_RR)
    C(sched_get_priority_max, SCHED_BATCH)
    C(sched_get_priority_max, SCHED_DEADLINE)
    C(sched_get_priority_max, 99)
    C(sched_get_priority_min, SCHED_OTHER)
    C(sched_get_priority_min, SCHED_FIFO)
    C(sched_get_priority_min, 99)
    S(, sched_getaffinity, 0, 128, buffer)
    C(sched_getaffinity, 0, 1, buffer)
    C(sched_getaffinity, 0, 12, buffer)
    C(sched_getaffinity, 0, 128, BAD)
    C(sched_getaffinity, 999999, 128, buffer)
    C(sched_setaffinity, 0, 8, "\0\0\0\0\0\0\0\0")
    C(sched_setaffinity, 0, 8, BAD)
    C(sched_setaffinity, 999999, 8, "\377\377\377\377\377\377\377\377")
    C(sched_setaffinity, 0, 8, "\377\377\377\377\377\377\377\377")
    E(say(" | %s", buffer), prctl, PR_GET_NAME, buffer)
    T(prctl, "PR_SET_NAME", { result(CALL(prctl, PR_SET_NAME, "a name that is too long")); CALL(prctl, PR_GET_NAME, buffer); say(" | %s", buffer); })
    C(prctl, PR_SET_NAME, BAD)
    C(prctl, PR_GET_NAME, BAD)
    E({ CALL(prctl, PR_GET_PDEATHSIG, buffer); show_bytes(buffer, 4); }, prctl, PR_SET_PDEATHSIG, SIGUSR1)
    C(prctl, PR_SET_PDEATHSIG, 100)
    C(prctl, PR_GET_PDEATHSIG, BAD)
    C(prctl, PR_GET_DUMPABLE)
    E(say(" | %ld", CALL(prctl, PR_GET_DUMPABLE)), prctl, PR_SET_DUMPABLE, 0)
    C(prctl, PR_SET_DUMPABLE, 2)
    E({ CALL(prctl, PR_GET_CHILD_SUBREAPER, buffer); show_bytes(buffer, 4); }, prctl, PR_SET_CHILD_SUBREAPER, 1)
    T(prctl, "a subreaper takes orphans", {
        result(CALL(prctl, PR_SET_CHILD_SUBREAPER, 1));
        int ends[2];
        pid_t adopted = 0;
        pipe(ends);
        pid_t child = fork();
        if (child == 0) {
            if (fork() == 0) {
                while (getppid() != getpgrp() && read(ends[0], buffer, 1) < 0)
                    ;
                pid_t parent = getppid();
                _exit(write(ends[1], &parent, 4) != 4);
            }
            _exit(0);
        }
        waitpid(child, &status, 0);
        write(ends[1], "x", 1);
        pid_t other = wait(&status);
        say(" | %s", other > 0 ? "adopted" : errno_name(errno));
        (void)adopted;
    })
    E(say(" | %ld", CALL(prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)), prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    C(prctl, PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)
    C(prctl, PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0)
    C(prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
    C(prctl, PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0)
    C(prctl, PR_GET_TIMERSLACK)
    C(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 0, 0, 0)
    C(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 99, 0, 0)
    C(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 0, 0, 0)
    C(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_LOWER, 0, 0, 0)
    C(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    C(prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 1, 0, 0)
    C(prctl, PR_CAP_AMBIENT, 9, 0, 0, 0)
    C(prctl, PR_GET_KEEPCAPS)
    E(say(" | %ld", CALL(prctl, PR_GET_KEEPCAPS)), prctl, PR_SET_KEEPCAPS, 1)
    C(prctl, PR_SET_KEEPCAPS, 2)
    C(prctl, PR_SET_VMA, 0, in_page, PAGE, "name")
    C(prctl, PR_SET_VMA, 1, in_page, PAGE, "name")
    C(prctl, PR_GET_TIMING)
    C(prctl, PR_SET_TIMING, 0)
    C(prctl, PR_SET_TIMING, 1)
    C(prctl, 9999)
    C(arch_prctl, ARCH_GET_FS, buffer)
    C(arch_prctl, ARCH_GET_FS, BAD)
    C(arch_prctl, ARCH_GET_GS, BAD)
    T(arch_prctl, "ARCH_SET_GS, then ARCH_GET_GS", { long base = 0; result(CALL(arch_prctl, ARCH_SET_GS, 0x1234567)); result(CALL(arch_prctl, ARCH_GET_GS, &base)); say(" | %lx", base); })
    T(arch_prctl, "ARCH_SET_FS to what it is", { long base = 0; CALL(arch_prctl, ARCH_GET_FS, &base); result(CALL(arch_prctl, ARCH_SET_FS, base)); })
    C(arch_prctl, ARCH_SET_GS, -1)
    C(arch_prctl, ARCH_SET_FS, -1)
    C(arch_prctl, 9999, 0)
    E(say(" | %ld", CALL(personality, -1)), personality, 0xffffffff)
    E(say(" | %ld", CALL(personality, -1)), personality, ADDR_NO_RANDOMIZE)
    E(say(" | %ld", CALL(personality, -1)), personality, 8)
    C(ioprio_get, 1, 0)
    C(ioprio_set, 1, 0, 2 << 13 | 4)
    C(setns, RW, 0)
    C(unshare, 0)
    C(unshare, CLONE_FILES)
    C(unshare, CLONE_NEWNS)
    C(unshare, 1 << 20)
    C(rseq, 0, 0, 0, 0)
}

static void futexes(void) {
    static uint32_t word = 5, other = 5;
    static struct timespec soon = {0, 1000000}, past = {1, 0}, odd = {0, 1000000000};
    C(futex, &word, FUTEX_WAIT, 4, 0)
    C(futex, &word, FUTEX_WAIT, 5, &soon)
    C(futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 5, &soon)
    C(futex, &word, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 5, &soon)
    C(futex, &word, FUTEX_WAIT, 5, &odd)
    C(futex, &word, FUTEX_WAIT, 5, BAD)
    C(futex, (char *)&word + 1, FUTEX_WAIT, 5, 0)
    C(futex, BAD, FUTEX_WAIT, 5, 0)
    C(futex, &word, FUTEX_WAKE, 1)
    C(futex, BAD, FUTEX_WAKE, 1)
    C(futex, (char *)&word + 1, FUTEX_WAKE, 1)
    C(futex, &word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1)
    C(futex, &word, FUTEX_WAIT_BITSET, 5, &past, 0, FUTEX_BITSET_MATCH_ANY)
    C(futex, &word, FUTEX_WAIT_BITSET, 5, &past, 0, 1)
    C(futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 5, &past, 0, 1)
    C(futex, &word, FUTEX_WAIT_BITSET, 5, &past, 0, 0)
    C(futex, &word, FUTEX_WAKE_BITSET, 1, 0, 0, 1)
    C(futex, &word, FUTEX_WAKE_BITSET, 1, 0, 0, 0)
    C(futex, &word, FUTEX_REQUEUE, 1, 1, &other, 0)
    C(futex, &word, FUTEX_REQUEUE, -1, 1, &other, 0)
    C(futex, &word, FUTEX_CMP_REQUEUE, 1, 1, &other, 5)
    C(futex, &word, FUTEX_CMP_REQUEUE, 1, 1, &other, 4)
    E(say(" | %u", other), futex, &word, FUTEX_WAKE_OP, 1, 1, &other, 1 << 28 | 3 << 12)
    C(futex, &word, FUTEX_WAKE_OP, 1, 1, BAD, 1 << 28 | 3 << 12)
    C(futex, &word, FUTEX_WAKE_OP, 1, 1, &other, 0xf << 28)
    C(futex, &word, FUTEX_UNLOCK_PI, 0)
    T(futex, "a lock with priority inheritance is not taken twice", {
        uint32_t mine = (uint32_t)CALL(gettid);
        result(CALL(futex, &mine, FUTEX_LOCK_PI, 0, 0));
        result(CALL(futex, &mine, FUTEX_TRYLOCK_PI, 0, 0));
    })
    C(futex, &word, 99, 0)
    T(set_robust_list, "who ends marks its locks, and wakes", {
        static struct { void *next; long offset; void *pending; } list;
        static struct { void *next; } entry;
        uint32_t *lock = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (fork() == 0) {
            list.next = &entry;
            entry.next = &list;
            list.offset = (char *)lock - (char *)&entry;
            *lock = (uint32_t)CALL(gettid) | FUTEX_WAITERS;
            CALL(set_robust_list, &list, 24);
            CALL(exit, 0);
        }
        wait(&status);
        say(" | %x%s%s", *lock & FUTEX_TID_MASK, *lock & FUTEX_OWNER_DIED ? " FUTEX_OWNER_DIED" : "", *lock & FUTEX_WAITERS ? " FUTEX_WAITERS" : "");
    })
}

void processes(void) {
    waiting_for_children();
    birth();
    identity();
    limits_and_scheduling();
    futexes();
}
