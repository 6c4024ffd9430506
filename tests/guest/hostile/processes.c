/* prlimit(2), setpriority(2), sched_setaffinity(2), setpgid(2), ptrace(2), and what else takes a process's id. */
#include "hostile.h"
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>

static long pin(pid_t victim) {
    cpu_set_t cores;
    if (sched_getaffinity(victim, sizeof cores, &cores))
        return -1;
    return sched_setaffinity(victim, sizeof cores, &cores);
}

static long schedule(pid_t victim, int policy) {
    struct sched_param parameters = {.sched_priority = policy != SCHED_OTHER};
    return syscall(SYS_sched_setscheduler, victim, policy, &parameters);
}

static long limit(pid_t victim, int reads) {
    struct rlimit old, new = {0, 0};
    return prlimit(victim, RLIMIT_NOFILE, reads ? NULL : &new, reads ? &old : NULL);
}

static long copy_memory(pid_t victim, int writes) {
    char byte = 0;
    struct iovec own = {&byte, 1}, theirs = {&own, 1};
    return syscall(writes ? SYS_process_vm_writev : SYS_process_vm_readv, victim, &own, 1L, &theirs, 1L, 0L);
}

static long look_for_pages(pid_t victim) {
    void *page = &page;
    int status;
    return syscall(SYS_move_pages, victim, 1L, &page, NULL, &status, 0);
}

static long robust_list(pid_t victim) {
    void *head;
    size_t len;
    return syscall(SYS_get_robust_list, victim, &head, &len);
}

static void attack(pid_t victim) {
    REFUSED(EPERM, limit(victim, 0));
    REFUSED(EPERM, limit(victim, 1));
    REFUSED(EPERM, setpriority(PRIO_PROCESS, victim, 10));
    REFUSED(EPERM, setpriority(PRIO_PROCESS, victim, -10));
    REFUSED(EPERM, setpriority(PRIO_PGRP, getpgid(victim), 10));
    REFUSED(EPERM, pin(victim));
    REFUSED(EPERM, schedule(victim, SCHED_OTHER));
    REFUSED(ESRCH, setpgid(victim, 0));
    REFUSED(EPERM, setpgid(0, victim));
    REFUSED(EPERM, robust_list(victim));
    ABSENT_OR(EPERM, ptrace(PTRACE_ATTACH, victim, NULL, NULL));
    ABSENT_OR(EPERM, ptrace(PTRACE_SEIZE, victim, NULL, NULL));
    ABSENT_OR(EPERM, copy_memory(victim, 0));
    ABSENT_OR(EPERM, copy_memory(victim, 1));
    ABSENT_OR(EPERM, look_for_pages(victim));
    ABSENT_OR(EPERM, syscall(SYS_kcmp, getpid(), victim, 0, 0, 0));
    ABSENT_OR(EPERM, syscall(SYS_ioprio_set, 1, victim, 0));
    ALLOWED(getpgid(victim));
    ALLOWED(getsid(victim));
    ALLOWED((errno = 0, getpriority(PRIO_PROCESS, victim)));
}

static long raise_limit(int resource) {
    struct rlimit limit;
    if (getrlimit(resource, &limit))
        return -1;
    limit.rlim_max = limit.rlim_cur = limit.rlim_cur > 100 ? 100 : limit.rlim_cur;
    if (setrlimit(resource, &limit))
        return -1;
    limit.rlim_max++;
    return setrlimit(resource, &limit);
}

static long by_descriptor(pid_t pid, int signal) {
    int fd = syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -1 : syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
}

static long take_file(pid_t pid) {
    int fd = syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -1 : syscall(SYS_pidfd_getfd, fd, 0, 0);
}

void attack_processes(void) {
    attack(1);
    attack(of_root);
    attack(of_other);
    REFUSED(EPERM, setpriority(PRIO_USER, other, 10));
    REFUSED(EACCES, setpriority(PRIO_PROCESS, 0, -1));
    REFUSED(EACCES, setpriority(PRIO_USER, attacker, -1));
    REFUSED(EPERM, schedule(0, SCHED_FIFO));
    REFUSED(EPERM, schedule(0, SCHED_RR));
    REFUSED(EPERM, raise_limit(RLIMIT_NOFILE));
    REFUSED(EPERM, raise_limit(RLIMIT_CORE));
    REFUSED(EPERM, raise_limit(RLIMIT_DATA));
    /* A process that was the superuser's is its user's to signal, but not to look into. */
    REFUSED(EPERM, robust_list(opaque));
    ABSENT_OR(EPERM, copy_memory(opaque, 0));
    ABSENT_OR(EPERM, ptrace(PTRACE_ATTACH, opaque, NULL, NULL));
    REFUSED(EPERM, take_file(opaque));
    ALLOWED(kill(opaque, 0));
    ALLOWED(by_descriptor(opaque, 0));
    ALLOWED(limit(opaque, 1));
    ALLOWED(setpriority(PRIO_PROCESS, 0, 5));
    ALLOWED(pin(0));
}
