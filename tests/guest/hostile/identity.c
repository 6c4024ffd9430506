/* credentials(7), capabilities(7): nobody becomes what he is not. */
#include "hostile.h"
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>

static long become_for_files(uid_t user) {
    syscall(SYS_setfsuid, user);
    return fails_if((uid_t)syscall(SYS_setfsuid, -1) != user, EPERM);
}

static long become_group_for_files(gid_t group) {
    syscall(SYS_setfsgid, group);
    return fails_if((gid_t)syscall(SYS_setfsgid, -1) != group, EPERM);
}

static long take_capability(unsigned effective, unsigned permitted, unsigned inheritable) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{effective, permitted, inheritable}};
    return syscall(SYS_capset, &header, data);
}

/* There are none, and that is what is said. */
static long count_capabilities(pid_t of) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, of};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data))
        return -1;
    return fails_if((data[0].effective | data[0].permitted | data[1].effective | data[1].permitted) == 0, EPERM);
}

static long groups_are_kept(void) {
    gid_t groups[64];
    return fails_if(getgroups(64, groups) != 1 || groups[0] != guild, EPERM);
}

static long is_inherited(void) {
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(groups_are_kept() != 0 || getuid() != attacker || getegid() != attacker);
    return fails_if(waitpid(child, &status, 0) != child || status != 0, EPERM);
}

void attack_identity(void) {
    gid_t root_group = 0;
    REFUSED(EPERM, setuid(0));
    REFUSED(EPERM, setuid(other));
    REFUSED(EPERM, setreuid(0, -1));
    REFUSED(EPERM, setreuid(-1, 0));
    REFUSED(EPERM, setreuid(other, other));
    REFUSED(EPERM, setresuid(-1, -1, 0));
    REFUSED(EPERM, setresuid(0, -1, -1));
    REFUSED(EPERM, setgid(0));
    REFUSED(EPERM, setgid(guild));
    REFUSED(EPERM, setregid(0, -1));
    REFUSED(EPERM, setresgid(-1, 0, -1));
    REFUSED(EPERM, setgroups(0, NULL));
    REFUSED(EPERM, setgroups(1, &root_group));
    REFUSED(EINVAL, setuid(-1));
    REFUSED(EPERM, become_for_files(0));
    REFUSED(EPERM, become_for_files(other));
    REFUSED(EPERM, become_group_for_files(0));
    REFUSED(EPERM, take_capability(1, 1, 0));
    REFUSED(EPERM, take_capability(0, 1 << CAP_KILL, 0));
    REFUSED(EPERM, take_capability(1 << CAP_CHOWN, 0, 0));
    REFUSED(EPERM, prctl(PR_CAPBSET_DROP, CAP_CHOWN));
    REFUSED(EPERM, count_capabilities(0));
    REFUSED(EINVAL, prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
    REFUSED(EINVAL, prctl(PR_CAPBSET_READ, 1000));
    ALLOWED(take_capability(0, 0, 0));
    ALLOWED(become_for_files(attacker));
    ALLOWED(setresuid(attacker, attacker, attacker));
    ALLOWED(setuid(attacker));
    ALLOWED(groups_are_kept());
    ALLOWED(is_inherited());
}
