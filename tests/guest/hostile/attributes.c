/* chmod(2), chown(2), utimensat(2): the owner's to change; and set-ID bits, which do not survive a change. */
#include "hostile.h"
#include <sys/time.h>

static long by_descriptor(const char *name, int changes_owner) {
    int fd = open(name, O_RDONLY);
    return changes_owner ? fchown(fd, attacker, attacker) : fchmod(fd, 0777);
}

static long set_times(const char *name, long access, long modification) {
    struct timespec times[] = {{1, access}, {1, modification}};
    return utimensat(AT_FDCWD, name, times, 0);
}

/* A mode with the set-group-ID bit is taken, but the bit is not. */
static long take_group(const char *name) {
    struct stat status;
    if (chmod(name, 02755) || stat(name, &status))
        return -1;
    return fails_if((status.st_mode & S_ISGID) == 0, EPERM);
}

/* Which of a file's set-ID bits are left. */
static long bits_of(const char *name) {
    struct stat status;
    return stat(name, &status) ? -1 : (status.st_mode >> 9) & 6;
}

static long bits_after_writing(const char *name) {
    int fd = open(name, O_WRONLY);
    if (write(fd, "s", 1) != 1 || close(fd))
        return 99;
    return bits_of(name);
}

static long bits_after_cutting(const char *name) {
    struct stat status;
    if (stat(name, &status) || truncate(name, status.st_size))
        return 99;
    return bits_of(name);
}

/* A file of the attacker's own, as the bits would be after `chown`. */
static long bits_after_giving(uid_t owner, gid_t group) {
    int fd = open("mine/new", O_WRONLY | O_CREAT, 0755);
    if (fchmod(fd, 06755) || bits_of("mine/new") != 6 || fchown(fd, owner, group))
        return 99;
    long bits = bits_of("mine/new");
    return unlink("mine/new") ? 99 : bits;
}

/* Set-ID bits that are left are no error, but their number is one here. */
static long are(long bits, long expected) { return fails_if(bits != expected, EPERM); }

void attack_attributes(void) {
    const char *foreign[] = {"secret", "readable", "of other", "shared/of root", "set-id program", "guild", ".",
                             "mine/of root", "mine/directory"};
    for (unsigned index = 0; index < sizeof foreign / sizeof *foreign; index++) {
        REFUSED(EPERM, chmod(foreign[index], 0777));
        REFUSED(EPERM, chown(foreign[index], attacker, -1));
        REFUSED(EPERM, chown(foreign[index], -1, attacker));
        REFUSED(EPERM, chown(foreign[index], -1, guild));
        REFUSED(EPERM, lchown(foreign[index], attacker, attacker));
        REFUSED(EPERM, set_times(foreign[index], 0, 0));
        REFUSED(EPERM, set_times(foreign[index], UTIME_NOW, 0));
        REFUSED(EPERM, set_times(foreign[index], UTIME_OMIT, UTIME_NOW));
    }
    REFUSED(EACCES, chmod("private/file", 0777));
    REFUSED(EACCES, chown("private/file", attacker, -1));
    REFUSED(EPERM, by_descriptor("readable", 0));
    REFUSED(EPERM, by_descriptor("readable", 1));
    REFUSED(EPERM, lchown("shared/link of root", attacker, -1));
    REFUSED(EACCES, set_times("readable", UTIME_NOW, UTIME_NOW));
    REFUSED(EACCES, utimes("secret", NULL));
    REFUSED(EPERM, chown("mine/file", other, -1));
    REFUSED(EPERM, chown("mine/file", 0, -1));
    REFUSED(EPERM, chown("mine/file", -1, 0));
    REFUSED(EPERM, chown("mine/file", -1, other));
    REFUSED(EPERM, take_group("mine/foreign"));
    ALLOWED(chown("mine/file", -1, guild));
    ALLOWED(chown("mine/file", attacker, attacker));
    ALLOWED(chmod("mine/file", 0600) || chmod("mine/file", 0644) ? -1 : 0);
    ALLOWED(take_group("mine/file"));
    ALLOWED(set_times("mine/file", 0, 0));
    ALLOWED(set_times("readable", UTIME_OMIT, UTIME_OMIT));
    ALLOWED(are(bits_of("set-id"), 6));
    ALLOWED(are(bits_of("other set-id"), 6));
    ALLOWED(are(bits_of("set-group-id"), 2));
    ALLOWED(are(bits_after_writing("set-id"), 0));
    ALLOWED(are(bits_after_cutting("other set-id"), 0));
    ALLOWED(are(bits_after_writing("set-group-id"), 0));
    ALLOWED(are(bits_after_giving(attacker, attacker), 0));
    ALLOWED(are(bits_after_giving(-1, guild), 0));
}
