/* unlink(2), rename(2), link(2), mkdir(2): whose names may come and go, and sticky directories. */
#include "hostile.h"
#include <dirent.h>

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

static int reads_one(const char *path) {
    char digit = '0';
    int fd = open(path, O_RDONLY);
    ssize_t len = read(fd, &digit, 1);
    close(fd);
    return len == 1 && digit != '0';
}

static long exchange(const char *one, const char *two) {
    return syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, two, RENAME_EXCHANGE);
}

static long link_and_unlink(const char *from, const char *to) { return link(from, to) || unlink(to) ? -1 : 0; }

/* A file and a directory made in a set-group-ID directory are its group's; a directory hands the bit on. */
static long inherits_group(void) {
    struct stat file, directory;
    if (close(open("guild/file", O_WRONLY | O_CREAT, 0666)) || mkdir("guild/directory", 0777) ||
        stat("guild/file", &file) || stat("guild/directory", &directory) || unlink("guild/file") ||
        rmdir("guild/directory"))
        return -1;
    return fails_if(file.st_gid != guild || directory.st_gid != guild || !(directory.st_mode & S_ISGID) ||
                        file.st_mode & S_ISGID || (file.st_mode & 0777) != 0644,
                    EPERM);
}

static long list(const char *name) {
    DIR *directory = opendir(name);
    return directory && readdir(directory) ? 0 : -1;
}

void attack_directories(void) {
    REFUSED(EACCES, mkdir("new", 0777));
    REFUSED(EACCES, mkdir("private/new", 0777));
    REFUSED(EACCES, symlink("secret", "new"));
    REFUSED(EACCES, mkfifo("new", 0666));
    REFUSED(EACCES, mknod("new", S_IFREG | 0666, 0));
    REFUSED(EACCES, unlink("secret"));
    REFUSED(EACCES, unlink("readable"));
    REFUSED(EACCES, rmdir("private"));
    REFUSED(EACCES, unlink("private/file"));
    REFUSED(EACCES, unlink("mine/directory/file"));
    REFUSED(ENOTEMPTY, rmdir("mine/directory"));
    REFUSED(EACCES, rename("secret", "new"));
    REFUSED(EACCES, rename("secret", "mine/secret"));
    REFUSED(EACCES, rename("mine/file", "secret"));
    REFUSED(EACCES, rename("mine/file", "new"));
    REFUSED(EACCES, rename("mine/file", "private/file"));
    REFUSED(EACCES, exchange("mine/file", "secret"));
    REFUSED(EPERM, unlink("shared/of root"));
    REFUSED(EPERM, unlink("shared/of other"));
    REFUSED(EPERM, unlink("shared/link of root"));
    REFUSED(EPERM, rmdir("shared/directory"));
    REFUSED(EPERM, rename("shared/of root", "shared/new"));
    REFUSED(EPERM, rename("shared/of other", "mine/new"));
    REFUSED(EPERM, rename("shared/directory", "mine/new"));
    REFUSED(EPERM, rename("mine/file", "shared/of root"));
    REFUSED(EPERM, rename("mine/below", "shared/directory"));
    REFUSED(EPERM, exchange("mine/file", "shared/of root"));
    REFUSED(EPERM, exchange("shared/of other", "mine/file"));
    /* The directory's ".." would change, which takes the right to write it. */
    REFUSED(EACCES, rename("mine/directory", "mine/below/directory"));
    REFUSED(EACCES, exchange("mine/directory", "mine/below/../../shared/of attacker"));
    REFUSED(EACCES, link("mine/file", "new"));
    REFUSED(EACCES, link("private/file", "mine/new"));
    REFUSED(EPERM, link("mine", "mine/new"));
    if (reads_one("/proc/sys/fs/protected_hardlinks")) {
        REFUSED(EPERM, link("secret", "mine/new"));
        REFUSED(EPERM, link("readable", "mine/new"));
        REFUSED(EPERM, link("of guild", "mine/new"));
        REFUSED(EPERM, link("set-id", "mine/new"));
        REFUSED(EPERM, link("set-id program", "mine/new"));
        REFUSED(EPERM, link("pipe", "mine/new"));
        REFUSED(EPERM, link("mine/of root", "shared/new"));
        REFUSED(EPERM, linkat(AT_FDCWD, "/proc/self/exe", AT_FDCWD, "mine/new", AT_SYMLINK_FOLLOW));
    }
    if (reads_one("/proc/sys/fs/protected_symlinks")) {
        REFUSED(EACCES, open("shared/link of other", O_RDONLY));
        REFUSED(EACCES, chmod("shared/link of other", 0777));
    }
    REFUSED(EACCES, list("searchable"));
    REFUSED(EACCES, list("private"));
    ALLOWED(open("shared/link of root", O_RDONLY));
    ALLOWED(link_and_unlink("shared/of root", "mine/new"));
    ALLOWED(link_and_unlink("mine/file", "shared/new"));
    ALLOWED(rename("mine/directory", "mine/renamed") || rename("mine/renamed", "mine/directory") ? -1 : 0);
    ALLOWED(rename("shared/of attacker", "shared/new") || rename("shared/new", "shared/of attacker") ? -1 : 0);
    ALLOWED(inherits_group());
}
