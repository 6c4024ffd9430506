/* kill(2), tkill(2), rt_sigqueueinfo(2), pidfd_send_signal(2), pidfd_getfd(2), timer_create(2). */
#include "hostile.h"
#include <time.h>

static long queue(pid_t pid, pid_t tid, int signal, int code) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = signal;
    info.si_code = code;
    info.si_pid = getpid();
    info.si_uid = getuid();
    if (tid)
        return syscall(SYS_rt_tgsigqueueinfo, pid, tid, signal, &info);
    return syscall(SYS_rt_sigqueueinfo, pid, signal, &info);
}

static long by_descriptor(pid_t pid, int signal) {
    int fd = syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -1 : syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
}

/* Takes an open file of a process. */
static long take_file(pid_t pid, int theirs) {
    int fd = syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -1 : syscall(SYS_pidfd_getfd, fd, theirs, 0);
}

static long wait_by_descriptor(pid_t pid) {
    int fd = syscall(SYS_pidfd_open, pid, 0);
    siginfo_t info;
    return fd < 0 ? -1 : waitid(3 /* P_PIDFD */, fd, &info, WEXITED | WNOHANG);
}

/* A timer that sends a signal to a thread (SIGEV_THREAD_ID), or that goes by its time. */
static long time_thread(pid_t receiver, int clock) {
    struct { long value; int signal, notify, thread, rest[11]; } event = {0, SIGUSR1, receiver ? 4 : 0, receiver};
    int id;
    return syscall(SYS_timer_create, clock, &event, &id);
}

static void attack(pid_t victim) {
    int signals[] = {0, SIGHUP, SIGKILL, SIGSTOP, SIGCONT, SIGTERM, SIGSEGV, SIGCHLD, SIGRTMIN};
    for (unsigned index = 0; index < sizeof signals / sizeof *signals; index++) {
        int signal = signals[index];
        REFUSED(EPERM, kill(victim, signal));
        REFUSED(EPERM, syscall(SYS_tkill, victim, signal));
        REFUSED(EPERM, syscall(SYS_tgkill, victim, victim, signal));
        REFUSED(EPERM, queue(victim, 0, signal, SI_QUEUE));
        REFUSED(EPERM, queue(victim, victim, signal, SI_QUEUE));
        REFUSED(EPERM, by_descriptor(victim, signal));
    }
    for (int fd = 0; fd < 3; fd++)
        REFUSED(EPERM, take_file(victim, fd));
    REFUSED(ECHILD, wait_by_descriptor(victim));
    REFUSED(EINVAL, time_thread(victim, CLOCK_MONOTONIC));
    REFUSED(EINVAL, time_thread(0, ~victim << 3 | 4 | 2));
    REFUSED(EPERM, queue(victim, 0, SIGKILL, SI_USER));
    REFUSED(EPERM, queue(victim, 0, SIGKILL, SI_KERNEL));
    /* In a container the first process may be in a group that has no number. */
    if (getpgid(victim) > 1) {
        REFUSED(EPERM, kill(-getpgid(victim), SIGKILL));
        REFUSED(EPERM, kill(-getpgid(victim), SIGCONT));
    }
}

/* A process that is ended by a signal of its child has been told nothing else. */
static long signal_all(int signal) {
    pid_t own = fork();
    if (own == 0) {
        pause();
        _exit(0);
    }
    int status;
    if (kill(-1, signal) || waitpid(own, &status, 0) != own)
        return -1;
    return fails_if(!WIFSIGNALED(status) || WTERMSIG(status) != signal, EPERM);
}

void attack_by_signals(void) {
    attack(1);
    attack(of_root);
    attack(of_other);
    /* Timers are of a process: those of others have no ids here. */
    long setting[4] = {0, 1, 0, 1};
    REFUSED(EINVAL, syscall(SYS_timer_settime, 0, 0, setting, 0));
    REFUSED(EINVAL, syscall(SYS_timer_gettime, 0, setting));
    REFUSED(EINVAL, syscall(SYS_timer_getoverrun, 0));
    REFUSED(EINVAL, syscall(SYS_timer_delete, 0));
    REFUSED(EPERM, kill(near, SIGTERM));
    REFUSED(EPERM, kill(near, SIGSTOP));
    ALLOWED(kill(near, SIGCONT));
    ALLOWED(syscall(SYS_tkill, near, SIGCONT));
    REFUSED(ESRCH, kill(0x3fffff, SIGKILL));
    REFUSED(ESRCH, kill(-0x3fffff, SIGKILL));
    ALLOWED(kill(getpid(), 0));
    ALLOWED(signal_all(SIGKILL));
    ALLOWED(signal_all(SIGTERM));
}
