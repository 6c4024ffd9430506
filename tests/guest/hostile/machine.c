/* What concerns the machine as a whole is the superuser's. */
#include "hostile.h"
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/swap.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>

static long step_clock(void) {
    struct timespec time = {1, 0};
    return clock_settime(CLOCK_REALTIME, &time);
}

static long slew_clock(void) {
    struct timex change = {.modes = ADJ_TICK, .tick = 10000};
    return adjtimex(&change) < 0 ? -1 : 0;
}

void attack_machine(void) {
    struct timeval time = {1, 0};
    REFUSED(EPERM, chroot("mine"));
    REFUSED(EACCES, chroot("private"));
    REFUSED(ENOTDIR, chroot("readable"));
    ABSENT_OR(EPERM, mount("none", "mine", "tmpfs", 0, NULL));
    ABSENT_OR(EPERM, umount2("/proc", MNT_DETACH));
    ABSENT_OR(EPERM, syscall(SYS_pivot_root, "mine", "mine"));
    ABSENT_OR(EPERM, sethostname("x", 1));
    ABSENT_OR(EPERM, setdomainname("x", 1));
    ABSENT_OR(EPERM, step_clock());
    ABSENT_OR(EPERM, settimeofday(&time, NULL));
    ABSENT_OR(EPERM, slew_clock());
    ABSENT_OR(EPERM, reboot(RB_DISABLE_CAD));
    ABSENT_OR(EPERM, swapon("mine/file", 0));
    ABSENT_OR(EPERM, swapoff("mine/file"));
    ABSENT_OR(EPERM, syscall(SYS_acct, NULL));
    ABSENT_OR(EPERM, syscall(SYS_vhangup));
    ABSENT_OR(EPERM, syscall(SYS_syslog, 5, NULL, 0));
    ABSENT_OR(EPERM, syscall(SYS_init_module, NULL, 0, ""));
    ABSENT_OR(EPERM, syscall(SYS_delete_module, "x", 0));
    ABSENT_OR(EPERM, syscall(SYS_setns, -1, 0) < 0 && errno == EBADF ? fails_if(1, EPERM) : -1);
    ABSENT_OR(EPERM, mknod("mine/null", S_IFCHR | 0666, 0x103));
    ABSENT_OR(EPERM, mknod("mine/disk", S_IFBLK | 0666, 0x800));
    ABSENT_OR(EACCES, open("/dev/host/stdin", O_RDONLY));
    ABSENT_OR(EACCES, open("/dev/host/stdout", O_WRONLY));
    ABSENT_OR(EACCES, open("/dev/host/stderr", O_RDWR));
}
