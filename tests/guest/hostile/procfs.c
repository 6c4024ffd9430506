/* proc(5): what of a process only those see who may look into it (ptrace(2), "Ptrace access mode checking"). */
#include "hostile.h"

static const char *of(pid_t victim, const char *name) {
    static char path[96];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)victim, name);
    return path;
}

static long link_of(pid_t victim, const char *name) {
    char target[256];
    return readlink(of(victim, name), target, sizeof target);
}

static long read_of(pid_t victim, const char *name) {
    char bytes[256];
    int fd = open(of(victim, name), O_RDONLY);
    return fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
}

static long rename_own_thread_of(pid_t victim) {
    int fd = open(of(victim, "comm"), O_WRONLY);
    return fd < 0 ? -1 : write(fd, "x", 1);
}

static void attack(pid_t victim) {
    const char *links[] = {"exe", "cwd", "root", "fd/0", "task/../exe"};
    for (unsigned index = 0; index < sizeof links / sizeof *links; index++) {
        const char *link = links[index];
        REFUSED(EACCES, link_of(victim, link));
        REFUSED(EACCES, open(of(victim, link), O_RDONLY));
        REFUSED(EACCES, open(of(victim, link), O_PATH));
    }
    REFUSED(EACCES, read_of(victim, "environ"));
    REFUSED(EACCES, read_of(victim, "maps"));
    REFUSED(EACCES, read_of(victim, "task/../environ"));
    REFUSED(EACCES, chdir(of(victim, "cwd")));
    REFUSED(EACCES, open(of(victim, "root/etc/passwd"), O_RDONLY));
    REFUSED(EACCES, open(of(victim, "fd"), O_RDONLY | O_DIRECTORY));
    REFUSED(EACCES, open(of(victim, "fdinfo"), O_RDONLY | O_DIRECTORY));
    REFUSED(EACCES, read_of(victim, "fdinfo/0"));
    REFUSED(EACCES, execl(of(victim, "exe"), "exe", NULL));
    ABSENT_OR(EACCES, open(of(victim, "mem"), O_RDONLY));
    ABSENT_OR(EACCES, open(of(victim, "mem"), O_RDWR));
    ABSENT_OR(EACCES, read_of(victim, "crossings"));
    ABSENT_OR(EACCES, read_of(victim, "auxv"));
    ABSENT_OR(EACCES, read_of(victim, "smaps"));
    ABSENT_OR(EACCES, read_of(victim, "pagemap"));
    ABSENT_OR(EACCES, read_of(victim, "io"));
    ABSENT_OR(EACCES, open(of(victim, "clear_refs"), O_WRONLY));
    ABSENT_OR(EACCES, open(of(victim, "oom_score_adj"), O_WRONLY));
    REFUSED(EACCES, open(of(victim, "comm"), O_WRONLY));
    REFUSED(EACCES, open(of(victim, "stat"), O_WRONLY));
    REFUSED(EPERM, chmod(of(victim, "environ"), 0666));
    REFUSED(EPERM, chown(of(victim, "environ"), attacker, attacker));
    REFUSED(EPERM, unlink(of(victim, "environ")));
    ALLOWED(read_of(victim, "stat"));
    ALLOWED(read_of(victim, "status"));
    ALLOWED(read_of(victim, "cmdline"));
    ALLOWED(read_of(victim, "comm"));
}

void attack_procfs(void) {
    attack(1);
    attack(of_root);
    attack(of_other);
    REFUSED(EACCES, read_of(opaque, "environ"));
    REFUSED(EACCES, read_of(opaque, "maps"));
    REFUSED(EACCES, link_of(opaque, "exe"));
    REFUSED(EACCES, open(of(opaque, "fd"), O_RDONLY));
    REFUSED(EACCES, open(of(opaque, "fdinfo"), O_RDONLY));
    REFUSED(EACCES, rename_own_thread_of(opaque));
    REFUSED(EACCES, open("/proc/sys/kernel/hostname", O_WRONLY));
    ABSENT_OR(EACCES, open("/proc/motet", O_WRONLY));
    ALLOWED(link_of(getpid(), "cwd"));
    ALLOWED(open("/proc/self/fd/0", O_PATH));
}
