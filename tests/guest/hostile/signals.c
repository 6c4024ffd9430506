/* kill(2), tkill(2), rt_sigqueueinfo(2), pidfd_send_signal(2). */
#include "hostile.h"

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

static void attack(pid_t victim) {
    int signals[] = {0, SIGHUP, SIGKILL, SIGSTOP, SIGCONT, SIGTERM, SIGSEGV, SIGCHLD, SIGRTMIN};
    for (unsigned index = 0; index < sizeof signals / sizeof *signals; index++) {
        int signal = signals[index];
        REFUSED(EPERM, kill(victim, signal));
        REFUSED(EPERM, syscall(SYS_tkill, victim, signal));
        REFUSED(EPERM, syscall(SYS_tgkill, victim, victim, signal));
        REFUSED(EPERM, queue(victim, 0, signal, SI_QUEUE));
        REFUSED(EPERM, queue(victim, victim, signal, SI_QUEUE));
        ABSENT_OR(EPERM, by_descriptor(victim, signal));
    }
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
