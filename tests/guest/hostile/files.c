/* open(2), truncate(2), execve(2), access(2), connect(2): what a mode forbids (path_resolution(7)). */
#include "hostile.h"
#include <dirent.h>
#include <grp.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static void make(const char *name, mode_t mode, uid_t owner, gid_t group, const char *text) {
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    size_t len = strlen(text);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || fchown(fd, owner, group) || fchmod(fd, mode) || close(fd))
        fail(name);
}

static void make_directory(const char *name, mode_t mode, uid_t owner, gid_t group) {
    if (mkdir(name, 0700) || chown(name, owner, group) || chmod(name, mode))
        fail(name);
}

static void copy(const char *from, const char *name, mode_t mode, uid_t owner, gid_t group) {
    static char bytes[1 << 16];
    ssize_t len;
    make(name, 0600, 0, 0, "");
    int input = open(from, O_RDONLY), output = open(name, O_WRONLY);
    while ((len = read(input, bytes, sizeof bytes)) > 0)
        if (write(output, bytes, len) != len)
            fail(name);
    if (len < 0 || fchown(output, owner, group) || fchmod(output, mode) || close(output) || close(input))
        fail(name);
}

static struct sockaddr_un named(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, name, sizeof address.sun_path - 1);
    return address;
}

static long bind_to(const char *name) {
    struct sockaddr_un address = named(name);
    return bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}

static long connect_to(const char *name) {
    struct sockaddr_un address = named(name);
    return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}

/* A socket that listens at a path, for as long as the program runs. */
static void listen_at(const char *name, mode_t mode) {
    struct sockaddr_un address = named(name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 8) || chmod(name, mode))
        fail(name);
}

void make_files(const char *own_program) {
    make("secret", 0600, 0, 0, "secret");
    make("readable", 0644, 0, 0, "readable");
    make("writable", 0622, 0, 0, "not readable");
    make("unexecutable", 0644, 0, 0, "#!/bin/sh\n");
    make("of guild", 0640, 0, guild, "of the guild");
    make("not of guild", 0604, 0, guild, "of all but the guild");
    make("of other", 0600, other, other, "another user's");
    make("not mine", 0077, attacker, attacker, "all may but the owner");
    make("set-id", 06777, 0, 0, "set-id");
    make("set-group-id", 02777, 0, 0, "set-group-id");
    make("other set-id", 06777, other, other, "set-id");
    copy(own_program, "set-id program", 04755, 0, 0);
    copy(own_program, "set-group-id program", 02755, attacker, guild);
    copy(own_program, "unreadable program", 0711, 0, 0);
    make_directory("private", 0700, 0, 0);
    make("private/file", 0666, 0, 0, "out of reach");
    make("private/program", 0755, 0, 0, "#!/bin/sh\n");
    make_directory("searchable", 0711, 0, 0);
    make("searchable/file", 0644, 0, 0, "in reach of who knows it");
    make_directory("shared", 01777, 0, 0);
    make("shared/of root", 0666, 0, 0, "shared");
    make("shared/of other", 0666, other, other, "shared");
    make_directory("shared/directory", 0777, 0, 0);
    make_directory("shared/of attacker", 0777, attacker, attacker);
    if (symlink("../readable", "shared/link of root") || symlink("../readable", "shared/link of other") ||
        lchown("shared/link of other", other, other))
        fail("symlink");
    make_directory("guild", 02770, 0, guild);
    make_directory("mine", 0755, attacker, attacker);
    make("mine/file", 0644, attacker, attacker, "mine");
    make("mine/foreign", 0755, attacker, 0, "of a group that its owner is not in");
    make("mine/script", 0755, attacker, attacker, "#!../unexecutable\n");
    make("mine/of root", 0600, 0, 0, "in the attacker's directory");
    make_directory("mine/below", 0755, attacker, attacker);
    make_directory("mine/directory", 0755, 0, 0);
    make("mine/directory/file", 0644, 0, 0, "kept");
    if (mkfifo("pipe", 0600))
        fail("pipe");
    listen_at("socket", 0755);
    listen_at("open socket", 0777);
}

static unsigned long sum_bytes(unsigned long sum, const void *bytes, size_t len) {
    for (size_t at = 0; at < len; at++)
        sum = (sum ^ ((const unsigned char *)bytes)[at]) * 0x100000001b3;
    return sum;
}

static unsigned long sum_of_file(const char *name) {
    static char bytes[1 << 16];
    struct stat status;
    if (lstat(name, &status))
        return 0;
    unsigned long numbers[] = {status.st_ino, status.st_mode,          status.st_uid,         status.st_gid,
                               status.st_size, status.st_mtim.tv_nsec, status.st_mtim.tv_sec, status.st_nlink};
    /* What is written by those who may changes the time only. */
    if (S_ISDIR(status.st_mode) || strstr(name, "set-"))
        numbers[4] = numbers[5] = numbers[6] = 0;
    if (strstr(name, "set-") && !strstr(name, "program"))
        numbers[1] &= 0777;
    unsigned long sum = sum_bytes(sum_bytes(0xcbf29ce484222325, name, strlen(name)), numbers, sizeof numbers);
    if (S_ISREG(status.st_mode)) {
        int fd = open(name, O_RDONLY);
        ssize_t len;
        while ((len = read(fd, bytes, sizeof bytes)) > 0)
            sum = sum_bytes(sum, bytes, len);
        close(fd);
    }
    return sum;
}

/* Order does not count: it may change when names come and go. */
static unsigned long sum_of_directory(const char *folder) {
    unsigned long sum = 0;
    char path[512];
    DIR *directory = opendir(folder);
    if (!directory)
        fail(folder);
    for (struct dirent *entry; (entry = readdir(directory));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strcmp(entry->d_name, "..") != 0)
            sum += sum_of_file(path);
    }
    closedir(directory);
    return sum;
}

unsigned long sum_of_files(void) {
    const char *folders[] = {".", "private", "searchable", "shared", "shared/directory", "mine/directory", "guild"};
    unsigned long sum = sum_of_file("mine/of root");
    for (unsigned index = 0; index < sizeof folders / sizeof *folders; index++)
        sum += sum_of_directory(folders[index]);
    return sum;
}

static long set_flag(const char *name, int flag) {
    int fd = open(name, O_RDONLY);
    return fd < 0 ? -1 : fcntl(fd, F_SETFL, flag);
}

static long write_to(const char *name, int flags) {
    int fd = open(name, flags);
    return fd < 0 ? -1 : write(fd, "x", 1);
}

/* Opening a descriptor again gives no more than opening the file. */
static long reopen(const char *name, int flags, int again) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", open(name, flags));
    return open(path, again);
}

static long cut(const char *name, int flags) {
    int fd = open(name, flags);
    return fd < 0 ? -1 : ftruncate(fd, 0);
}

static long start(const char *name) {
    char *arguments[] = {"program", NULL}, *environment[] = {NULL};
    return execve(name, arguments, environment);
}

/* inotify_add_watch(2): who may not read a file does not learn what happens to it. */
static long watch(const char *name) {
    int fd = inotify_init1(IN_NONBLOCK);
    long wd = fd < 0 ? -1 : inotify_add_watch(fd, name, IN_ALL_EVENTS);
    int error = errno;
    close(fd);
    errno = error;
    return wd;
}

/* As many as may be: the next one fails. */
static long watch_without_end(void) {
    int fds[256], made = 0;
    while (made < 256 && (fds[made] = inotify_init1(0)) >= 0)
        made++;
    int error = errno;
    while (made > 0)
        close(fds[--made]);
    errno = error;
    return made == 256 ? 0 : -1;
}

void attack_files(void) {
    int ways[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_WRONLY | O_APPEND, O_WRONLY | O_CREAT,
                  O_RDONLY | O_NONBLOCK, O_RDONLY | O_NOATIME, O_WRONLY | O_TRUNC | O_CREAT};
    const char *closed[] = {"secret", "of other", "private/file", "private/none", "not of guild", "not mine", "pipe",
                            "mine/of root"};
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        for (unsigned index = 0; index < sizeof closed / sizeof *closed; index++)
            REFUSED(EACCES, open(closed[index], ways[way], 0666));
        if (ways[way] & (O_WRONLY | O_RDWR | O_TRUNC)) {
            REFUSED(EACCES, open("readable", ways[way], 0666));
            REFUSED(EACCES, open("of guild", ways[way], 0666));
            REFUSED(EACCES, open("searchable/file", ways[way], 0666));
        }
    }
    REFUSED(EPERM, open("readable", O_RDONLY | O_NOATIME));
    REFUSED(EPERM, set_flag("readable", O_NOATIME));
    REFUSED(EACCES, open("writable", O_RDONLY));
    REFUSED(EACCES, open("writable", O_RDWR));
    const char *unreadable[] = {"secret", "of other", "private", "private/file", "not mine", "writable", "searchable"};
    for (unsigned index = 0; index < sizeof unreadable / sizeof *unreadable; index++)
        REFUSED(EACCES, watch(unreadable[index]));
    ALLOWED(watch("readable"));
    REFUSED(EMFILE, watch_without_end());
    REFUSED(EACCES, open("searchable", O_RDONLY));
    REFUSED(EACCES, open("new", O_WRONLY | O_CREAT, 0666));
    REFUSED(EACCES, open("searchable/new", O_WRONLY | O_CREAT, 0666));
    REFUSED(EACCES, open(".", O_TMPFILE | O_RDWR, 0666));
    REFUSED(EISDIR, open("shared", O_RDWR));
    REFUSED(EACCES, reopen("readable", O_RDONLY, O_RDWR));
    REFUSED(EACCES, reopen("readable", O_PATH, O_WRONLY));
    REFUSED(EACCES, reopen("secret", O_PATH, O_RDONLY));
    REFUSED(EBADF, write_to("readable", O_RDONLY));
    REFUSED(EBADF, write_to("secret", O_PATH));
    REFUSED(EACCES, truncate("secret", 0));
    REFUSED(EACCES, truncate("readable", 0));
    REFUSED(EACCES, truncate("private/file", 0));
    REFUSED(EISDIR, truncate("private", 0));
    REFUSED(EINVAL, cut("readable", O_RDONLY));
    REFUSED(EBADF, cut("secret", O_PATH));
    REFUSED(EACCES, access("secret", R_OK));
    REFUSED(EACCES, access("readable", W_OK));
    REFUSED(EACCES, access("readable", X_OK));
    REFUSED(EACCES, access("private/file", F_OK));
    REFUSED(EACCES, access("private/none", F_OK));
    REFUSED(EACCES, faccessat(AT_FDCWD, "secret", R_OK, AT_EACCESS));
    REFUSED(EACCES, chdir("private"));
    REFUSED(EACCES, start("unexecutable"));
    REFUSED(EACCES, start("private/program"));
    REFUSED(EACCES, start("secret"));
    REFUSED(EACCES, start("mine"));
    REFUSED(EACCES, start("shared/of root"));
    REFUSED(EACCES, (chdir("mine"), start("script")));
    REFUSED(EACCES, connect_to("socket"));
    REFUSED(EACCES, bind_to("new socket"));
    REFUSED(EADDRINUSE, bind_to("readable"));
    ALLOWED(connect_to("open socket"));
    ALLOWED(open("readable", O_RDONLY));
    ALLOWED(open("writable", O_WRONLY));
    ALLOWED(open("of guild", O_RDONLY));
    ALLOWED(open("searchable/file", O_RDONLY));
    ALLOWED(open("secret", O_PATH));
    ALLOWED(open("shared", O_TMPFILE | O_RDWR, 0666));
    ALLOWED(open("mine/file", O_RDWR | O_NOATIME));
}
