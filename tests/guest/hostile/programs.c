/* execve(2) of programs with set-ID bits: they have their owner's rights, and who starts them does not reach into them. */
#include "hostile.h"
#include <sched.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>

static long start(const char *program, const char *what, long argument) {
    char number[24];
    snprintf(number, sizeof number, "%ld", argument);
    execl(program, program, what, number, "set-id", NULL);
    return -1;
}

int act_as_set_id(const char *what, const char *argument) {
    int number = atoi(argument), signal;
    if (strcmp(what, "user") == 0) {
        int is_root = geteuid() == 0 && getuid() != 0 && (getauxval(AT_SECURE) == 1) && prctl(PR_GET_DUMPABLE) == 0;
        return is_root && access("secret", R_OK) != 0 && open("secret", O_RDONLY) >= 0 ? 0 : EPERM;
    }
    if (strcmp(what, "group") == 0)
        return getegid() == guild || getegid() == getgid() || getauxval(AT_SECURE) != 1 ? EPERM : 0;
    if (strcmp(what, "plain") == 0)
        return geteuid() != getuid() || getauxval(AT_SECURE) || prctl(PR_GET_DUMPABLE) != 1 ? EPERM : 0;
    if (strcmp(what, "opaque") == 0)
        return prctl(PR_GET_DUMPABLE) == 0 ? 0 : EPERM;
    if (strcmp(what, "death") == 0)
        return prctl(PR_GET_PDEATHSIG, &signal) == 0 && signal == 0 ? 0 : EPERM;
    if (strcmp(what, "child") == 0) {
        /* A child that was to end this process by a signal ends now. */
        int status;
        close(number);
        return waitpid(-1, &status, __WALL) > 0 ? 0 : EPERM;
    }
    if (strcmp(what, "files") == 0) {
        /* Says at which number it has opened a file, and waits. */
        char byte = open("secret", O_RDONLY);
        if (write(number, &byte, 1) == 1)
            pause();
        return 0;
    }
    return 99;
}

static long bits_barred(void) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return -2;
    return start("set-id program", "user", 0);
}

static long told_of_death(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return start("set-id program", "death", 0);
}

static long killed_by_child(void) {
    int pipes[2];
    char byte;
    if (pipe(pipes))
        return -2;
    if (syscall(SYS_clone, SIGKILL, NULL, NULL, NULL, NULL) == 0) {
        close(pipes[1]);
        _exit(read(pipes[0], &byte, 1) != 0);
    }
    close(pipes[0]);
    return start("set-id program", "child", pipes[1]);
}

static int pipes[2];

static int become_set_id(void *unused) {
    (void)unused;
    start("set-id program", "files", pipes[1]);
    return 1;
}

/* A descriptor table that is shared is not shared with a program that has more rights. */
static long reach_into_files(void) {
    static _Alignas(16) char stack[1 << 16];
    char number, byte;
    if (pipe(pipes))
        return -2;
    pid_t child = clone(become_set_id, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL);
    long result = child > 0 && read(pipes[0], &number, 1) == 1 ? read(number, &byte, 1) : -2;
    int error = errno;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    errno = error;
    return result;
}

static long look_into(const char *program, const char *file) {
    char path[64], byte;
    if (pipe(pipes))
        return -2;
    pid_t child = fork();
    if (child == 0)
        _exit(start(program, "files", pipes[1]));
    read(pipes[0], &byte, 1);
    snprintf(path, sizeof path, "/proc/%d/%s", (int)child, file);
    long result = open(path, O_RDONLY);
    int error = errno;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    errno = error;
    return result;
}

void attack_programs(void) {
    struct statvfs system;
    if (statvfs(".", &system) == 0 && system.f_flag & (ST_NOSUID | ST_NOEXEC))
        return;
    ALLOWED(start("set-id program", "user", 0));
    ALLOWED(start("set-group-id program", "group", 0));
    ALLOWED(start("unreadable program", "opaque", 0));
    REFUSED(EPERM, start("unreadable program", "plain", 0));
    REFUSED(EPERM, bits_barred());
    REFUSED(EACCES, open("unreadable program", O_RDONLY));
    ALLOWED(told_of_death());
    ALLOWED(killed_by_child());
    REFUSED(EBADF, reach_into_files());
    REFUSED(EACCES, look_into("set-id program", "environ"));
    REFUSED(EACCES, look_into("set-id program", "maps"));
    REFUSED(EACCES, look_into("set-id program", "fd"));
    REFUSED(EACCES, look_into("set-id program", "exe"));
    REFUSED(EACCES, look_into("unreadable program", "environ"));
    REFUSED(EACCES, look_into("unreadable program", "exe"));
}
