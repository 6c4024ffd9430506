/* What calls do beside what they are called for: to times, to bits of modes. And what they take for a name. */
#include "conform.h"

/* Permissions, and whose a file is. */
static void show_access(int fd) {
    struct stat file;
    if (fstat(fd, &file))
        return;
    say(" | %o", file.st_mode & 07777);
    if (file.st_uid == getuid() && file.st_gid == getgid())
        say(" own");
    else
        say(" %u %u", file.st_uid, file.st_gid);
}

static struct stat before;

/* Makes the times of a file old: its reading before its change, so that one more reading is worth a note (`relatime`). */
static void age(const char *path) {
    struct timespec times[] = {{1, 0}, {2, 0}}, moment = {0, 12000000};
    utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
    nanosleep(&moment, 0);
    lstat(path, &before);
}

/* Which times are others than `age` has found. */
static void show_changes(const char *path) {
    struct stat now;
    lstat(path, &now);
#define OTHER(which) (now.which.tv_sec != before.which.tv_sec || now.which.tv_nsec != before.which.tv_nsec)
    say(" | %s:%s%s%s", path, OTHER(st_atim) ? " read" : "", OTHER(st_mtim) ? " modified" : "", OTHER(st_ctim) ? " changed" : "");
}

#define TIMES_AFTER(name, what, path, ...) T(name, what, { age(path); __VA_ARGS__; show_changes(path); })

static void times_of_files(void) {
    TIMES_AFTER(read, "times", "file", result(read(RW, buffer, 5)))
    TIMES_AFTER(read, "times, at the end of the file", "file", lseek(RW, 0, SEEK_END); result(read(RW, buffer, 5)))
    TIMES_AFTER(read, "times, of no bytes", "file", result(read(RW, buffer, 0)))
    TIMES_AFTER(read, "times, O_NOATIME", "file", int fd = open("file", O_RDONLY | O_NOATIME); result(read(fd, buffer, 5)))
    TIMES_AFTER(read, "times, of a named pipe", "fifo", int fd = open("fifo", O_RDWR); write(fd, "x", 1); struct timespec times[] = {{1, 0}, {2, 0}}; utimensat(AT_FDCWD, "fifo", times, 0); lstat("fifo", &before); usleep(12000); result(read(fd, buffer, 5)))
    T(read, "the time of access is noted once", {
        age("file");
        result(read(RW, buffer, 5));
        usleep(12000);
        lstat("file", &before);
        result(read(RW, buffer, 5));
        show_changes("file");
    })
    TIMES_AFTER(pread64, "times", "file", result(pread(RO, buffer, 5, 2)))
    TIMES_AFTER(mmap, "times", "file", some((long)mmap(0, PAGE, PROT_READ, MAP_SHARED, RO, 0)))
    TIMES_AFTER(mmap, "times of what is stored to", "file", *(char *)mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, RW, 0) = 1)
    TIMES_AFTER(getdents64, "times", "dir", some(CALL(getdents64, DIR_FD, buffer, 4096)))
    TIMES_AFTER(readlinkat, "times", "link", result(CALL(readlinkat, AT_FDCWD, "link", buffer, 100)))
    TIMES_AFTER(openat, "times of a link that is followed", "link", result(CALL(openat, AT_FDCWD, "link", O_RDONLY)))
    TIMES_AFTER(openat, "times", "file", result(CALL(openat, AT_FDCWD, "file", O_RDWR)))
    TIMES_AFTER(openat, "times, O_TRUNC", "file", result(CALL(openat, AT_FDCWD, "file", O_RDWR | O_TRUNC)))
    TIMES_AFTER(openat, "times, O_TRUNC of nothing", "empty", result(CALL(openat, AT_FDCWD, "empty", O_RDWR | O_TRUNC)))
    TIMES_AFTER(openat, "times of a folder, O_CREAT", "dir", result(CALL(openat, DIR_FD, "new", O_RDWR | O_CREAT, 0600)))
    TIMES_AFTER(openat, "times of a folder, O_CREAT of what there is", "dir", result(CALL(openat, DIR_FD, "in", O_RDWR | O_CREAT, 0600)))
    TIMES_AFTER(openat, "times of a folder, O_TMPFILE", "dir", result(CALL(openat, AT_FDCWD, "dir", O_RDWR | O_TMPFILE, 0600)))
    TIMES_AFTER(write, "times", "file", result(write(RW, "x", 1)))
    TIMES_AFTER(write, "times, of no bytes", "file", result(write(RW, "x", 0)))
    TIMES_AFTER(write, "times, to a named pipe", "fifo", int fd = open("fifo", O_RDWR); result(write(fd, "x", 1)))
    TIMES_AFTER(ftruncate, "times", "file", result(ftruncate(RW, 3)))
    TIMES_AFTER(ftruncate, "times, to the same length", "file", result(ftruncate(RW, 16)))
    TIMES_AFTER(truncate, "times, to the same length", "file", result(truncate("file", 16)))
    TIMES_AFTER(fallocate, "times", "file", result(fallocate(RW, 0, 0, 30)))
    TIMES_AFTER(fallocate, "times, of what there is", "file", result(fallocate(RW, 0, 0, 10)))
    TIMES_AFTER(fallocate, "times, KEEP_SIZE", "file", result(fallocate(RW, FALLOC_FL_KEEP_SIZE, 0, 30)))
    TIMES_AFTER(fallocate, "times, PUNCH_HOLE", "file", result(fallocate(RW, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 3)))
    TIMES_AFTER(fchmod, "times, the mode that it has", "file", result(fchmod(RW, 0644)))
    TIMES_AFTER(fchownat, "times, of nothing", "file", result(fchownat(AT_FDCWD, "file", -1, -1, 0)))
    TIMES_AFTER(linkat, "times", "file", result(linkat(AT_FDCWD, "file", DIR_FD, "new", 0)))
    TIMES_AFTER(linkat, "times of the folder", "dir", result(linkat(AT_FDCWD, "file", DIR_FD, "new", 0)))
    TIMES_AFTER(unlinkat, "times of another name", "file", linkat(AT_FDCWD, "file", DIR_FD, "new", 0); lstat("file", &before); usleep(12000); result(unlinkat(DIR_FD, "new", 0)))
    TIMES_AFTER(unlinkat, "times of the folder", "dir", result(unlinkat(DIR_FD, "in", 0)))
    TIMES_AFTER(symlinkat, "times of the folder", "dir", result(symlinkat("x", DIR_FD, "new")))
    TIMES_AFTER(mkdirat, "times of the folder", "dir", result(mkdirat(DIR_FD, "new", 0700)))
    TIMES_AFTER(mknodat, "times of the folder", "dir", result(mknodat(DIR_FD, "new", S_IFIFO | 0600, 0)))
    TIMES_AFTER(renameat2, "times of the folder it comes to", "dir", result(CALL(renameat2, AT_FDCWD, "file", DIR_FD, "new", 0)))
    TIMES_AFTER(renameat2, "times of the folder it leaves", "dir", result(CALL(renameat2, DIR_FD, "in", AT_FDCWD, "new", 0)))
    T(renameat2, "times of what is renamed", { age("file"); result(CALL(renameat2, AT_FDCWD, "file", AT_FDCWD, "new", 0)); show_changes("new"); })
    T(renameat2, "times of what is replaced, and has another name", { link("empty", "other"); age("other"); result(CALL(renameat2, AT_FDCWD, "file", AT_FDCWD, "empty", 0)); show_changes("other"); })
    T(renameat2, "times of both that are exchanged", { age("file"); result(CALL(renameat2, AT_FDCWD, "file", AT_FDCWD, "empty", RENAME_EXCHANGE)); show_changes("empty"); })
    T(renameat2, "times of two names of one file", { link("file", "other"); age("file"); result(CALL(renameat2, AT_FDCWD, "file", AT_FDCWD, "other", 0)); show_changes("file"); })
    TIMES_AFTER(sendfile, "times of what is read", "file", result(sendfile(PIPE_W, RW, 0, 5)))
    TIMES_AFTER(sendfile, "times of what is written", "empty", int fd = open("empty", O_WRONLY); result(sendfile(fd, RW, 0, 5)))
    TIMES_AFTER(copy_file_range, "times of what is read", "file", int fd = open("empty", O_WRONLY); result(copy_file_range(RW, 0, fd, 0, 5, 0)))
    TIMES_AFTER(copy_file_range, "times of what is written", "empty", int fd = open("empty", O_WRONLY); result(copy_file_range(RW, 0, fd, 0, 5, 0)))
    TIMES_AFTER(utimensat, "times, of both as they are", "file", struct timespec times[] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}}; result(utimensat(AT_FDCWD, "file", times, 0)))
    TIMES_AFTER(utimensat, "times, of a link itself", "link", struct timespec times[] = {{5, 0}, {0, UTIME_OMIT}}; result(utimensat(AT_FDCWD, "link", times, AT_SYMLINK_NOFOLLOW)))
    TIMES_AFTER(utimensat, "times, of a named pipe", "fifo", result(utimensat(AT_FDCWD, "fifo", 0, 0)))
    C(utimensat, PIPE_R, 0, 0, 0)
    C(utimensat, SOCK, 0, 0, 0)
    C(utimensat, PATH_FD, 0, 0, 0)
    C(utimensat, PATH_FD, "", 0, AT_EMPTY_PATH)
}

#define MODE_AFTER(name, what, mode, ...) T(name, what, { chmod("file", mode); __VA_ARGS__; show_path("file"); })

static void modes(void) {
    MODE_AFTER(write, "set-user-id bits stay, of no bytes", 06755, result(write(RW, "x", 0)))
    MODE_AFTER(write, "a set-group-id bit that means a lock", 02745, result(write(RW, "x", 1)))
    MODE_AFTER(write, "set-user-id bits go, though nothing is written", 06755, result(write(RW, BAD, 1)))
    MODE_AFTER(ftruncate, "set-user-id bits, to the same length", 06755, result(ftruncate(RW, 16)))
    MODE_AFTER(truncate, "set-user-id bits", 06755, result(truncate("file", 3)))
    MODE_AFTER(openat, "set-user-id bits, O_TRUNC", 06755, result(openat(AT_FDCWD, "file", O_WRONLY | O_TRUNC)))
    MODE_AFTER(openat, "set-user-id bits, to write", 06755, result(openat(AT_FDCWD, "file", O_WRONLY)))
    MODE_AFTER(fallocate, "set-user-id bits", 06755, result(fallocate(RW, 0, 0, 30)))
    MODE_AFTER(fallocate, "set-user-id bits, PUNCH_HOLE", 06755, result(fallocate(RW, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 30)))
    MODE_AFTER(sendfile, "set-user-id bits", 06755, result(sendfile(WO, MEMFD, 0, 5)))
    MODE_AFTER(copy_file_range, "set-user-id bits", 06755, int fd = open("fixed", O_RDONLY); result(copy_file_range(fd, 0, WO, 0, 5, 0)))
    MODE_AFTER(pwritev2, "set-user-id bits", 06755, struct iovec one = {buffer, 4}; result(CALL(pwritev2, RW, &one, 1, 0, 0, 0)))
    MODE_AFTER(utimensat, "set-user-id bits stay", 06755, result(utimensat(AT_FDCWD, "file", 0, 0)))
    MODE_AFTER(linkat, "set-user-id bits stay", 06755, result(linkat(AT_FDCWD, "file", AT_FDCWD, "new", 0)))
    MODE_AFTER(mmap, "set-user-id bits stay", 06755, *(char *)mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, RW, 0) = 1)
    R(write, "set-user-id bits stay", { chmod("file", 06755); result(write(RW, "x", 1)); show_path("file"); })
    R(fchown, "set-user-id bits", { chmod("file", 06755); result(fchown(RW, 5, 5)); show_path("file"); })
    R(fchown, "a set-group-id bit that means a lock", { chmod("file", 02745); result(fchown(RW, 5, 5)); show_path("file"); })
    R(fchown, "the bits of a folder", { chmod("dir", 07755); result(fchown(DIR_FD, 5, 5)); show_path("dir"); })
#define STRANGER (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
    R(fchmodat, "by a stranger", { chmod("file", 0666); (void)STRANGER; result(fchmodat(AT_FDCWD, "file", 0777, 0)); show_path("file"); })
    R(fchmod, "a group that one is not in", { chown("file", 1000, 7); (void)STRANGER; result(fchmod(RW, 02755)); show_path("file"); })
    R(fchownat, "by a stranger", { chmod("file", 0666); (void)STRANGER; result(fchownat(AT_FDCWD, "file", 1000, -1, 0)); result(fchownat(AT_FDCWD, "file", 0, 0, 0)); })
    R(utimensat, "by a stranger who may write", { chmod("file", 0666); (void)STRANGER; struct timespec times[] = {{5, 0}, {0, UTIME_OMIT}}; result(utimensat(AT_FDCWD, "file", 0, 0)); result(utimensat(AT_FDCWD, "file", times, 0)); })
    R(utimensat, "by a stranger who may not", { (void)STRANGER; struct timespec times[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}}; result(utimensat(AT_FDCWD, "file", 0, 0)); result(utimensat(AT_FDCWD, "file", times, 0)); })
    R(truncate, "by a stranger", { (void)STRANGER; result(truncate("file", 3)); chmod("file", 0666); })
    R(truncate, "set-user-id bits, by a stranger who may write", { chmod("file", 06777); (void)STRANGER; result(truncate("file", 3)); show_path("file"); })
    R(write, "set-user-id bits, by a stranger who has it open", { chmod("file", 06777); (void)STRANGER; result(write(RW, "x", 1)); show_path("file"); })
    R(fallocate, "set-user-id bits, by a stranger who has it open", { chmod("file", 06777); (void)STRANGER; result(fallocate(RW, 0, 0, 100)); show_path("file"); })
    R(linkat, "a stranger's file", { chmod(".", 0777); (void)STRANGER; result(linkat(AT_FDCWD, "file", AT_FDCWD, "new", 0)); })
    R(linkat, "a descriptor", { result(linkat(PATH_FD, "", AT_FDCWD, "new", AT_EMPTY_PATH)); show_path("new"); })
    R(unlinkat, "in a sticky folder, by a stranger", { chmod(".", 01777); (void)STRANGER; result(unlinkat(AT_FDCWD, "file", 0)); result(unlinkat(AT_FDCWD, "void", AT_REMOVEDIR)); })
    R(renameat2, "in a sticky folder, by a stranger", { chmod(".", 01777); (void)STRANGER; result(CALL(renameat2, AT_FDCWD, "file", AT_FDCWD, "new", 0)); close(open("own", O_CREAT | O_RDWR, 0600)); result(CALL(renameat2, AT_FDCWD, "own", AT_FDCWD, "file", 0)); })
    R(mkdirat, "in a set-group-id folder", { chown("dir", 0, 7); chmod("dir", 02777); (void)STRANGER; result(mkdirat(DIR_FD, "new", 0700)); show_path("dir/new"); struct stat of; stat("dir/new", &of); say(" group %d", of.st_gid); })
    R(openat, "in a set-group-id folder", { chown("dir", 0, 7); chmod("dir", 02777); (void)STRANGER; result(openat(DIR_FD, "new", O_CREAT | O_RDWR, 02770)); show_path("dir/new"); })
}

#define N50 "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
#define N255 N50 N50 N50 N50 N50 "nnnnn"
#define TOO_LONG N255 "n"

static void long_names(void) {
    T(mkdirat, "names of 255 and 256 bytes", { result(mkdirat(AT_FDCWD, N255, 0700)); result(mkdirat(AT_FDCWD, TOO_LONG, 0700)); result(mkdirat(AT_FDCWD, "dir/" TOO_LONG, 0700)); })
    T(mkdirat, "a long name behind a file, or nothing, or a closed folder", { result(mkdirat(AT_FDCWD, "file/" TOO_LONG, 0700)); result(mkdirat(AT_FDCWD, "none/" TOO_LONG, 0700)); result(mkdirat(AT_FDCWD, "closed/" TOO_LONG, 0700)); })
    T(openat, "names of 255 and 256 bytes", { result(openat(AT_FDCWD, N255, O_CREAT | O_RDWR, 0600)); result(openat(AT_FDCWD, TOO_LONG, O_CREAT | O_RDWR, 0600)); result(openat(AT_FDCWD, TOO_LONG "/", O_RDONLY)); result(openat(AT_FDCWD, TOO_LONG "/none", O_RDONLY)); })
    T(unlinkat, "a name of 256 bytes", { result(unlinkat(AT_FDCWD, TOO_LONG, 0)); result(unlinkat(AT_FDCWD, TOO_LONG, AT_REMOVEDIR)); })
    T(renameat2, "a name of 256 bytes", { result(CALL(renameat2, AT_FDCWD, "file", AT_FDCWD, TOO_LONG, 0)); result(CALL(renameat2, AT_FDCWD, TOO_LONG, AT_FDCWD, "file", 0)); })
    T(linkat, "a name of 256 bytes", { result(linkat(AT_FDCWD, "file", AT_FDCWD, TOO_LONG, 0)); })
    T(symlinkat, "a name of 256 bytes", { result(symlinkat("x", AT_FDCWD, TOO_LONG)); result(symlinkat(TOO_LONG, AT_FDCWD, "new")); result(open("new", O_RDONLY)); })
    T(bind, "a name of 108 bytes", {
        struct sockaddr_un at = {AF_UNIX};
        memset(at.sun_path, 'n', 108);
        result(bind(FRESH, (void *)&at, sizeof at));
        socklen_t len = sizeof buffer;
        result(getsockname(FRESH, (void *)buffer, &len));
        say(" | %d bytes", len);
    })
}

static void slashes(void) {
    E(show_path("new"), mkdirat, AT_FDCWD, "new///", 0700)
    C(mkdirat, AT_FDCWD, "dangling", 0700)
    C(mkdirat, AT_FDCWD, "dangling/", 0700)
    C(mkdirat, AT_FDCWD, "/", 0700)
    C(mkdirat, AT_FDCWD, "..", 0700)
    C(mkdirat, AT_FDCWD, "none/.", 0700)
    C(mkdirat, AT_FDCWD, "dir/.", 0700)
    E(show_path("void"), unlinkat, AT_FDCWD, "void//", AT_REMOVEDIR)
    C(unlinkat, AT_FDCWD, "file/", AT_REMOVEDIR)
    C(unlinkat, AT_FDCWD, ".", AT_REMOVEDIR)
    C(unlinkat, AT_FDCWD, "..", AT_REMOVEDIR)
    C(unlinkat, AT_FDCWD, "none/.", AT_REMOVEDIR)
    C(unlinkat, AT_FDCWD, "/", AT_REMOVEDIR)
    C(unlinkat, AT_FDCWD, "//", AT_REMOVEDIR)
    C(unlinkat, AT_FDCWD, ".", 0)
    C(unlinkat, AT_FDCWD, "..", 0)
    C(unlinkat, AT_FDCWD, "/", 0)
    C(unlinkat, AT_FDCWD, "dir/", 0)
    C(unlinkat, AT_FDCWD, "none/", 0)
    C(unlinkat, AT_FDCWD, "link/", 0)
    T(unlinkat, "a link to a folder, and a slash", { symlink("void", "way"); result(unlinkat(AT_FDCWD, "way/", 0)); result(unlinkat(AT_FDCWD, "way/", AT_REMOVEDIR)); show_path("way"); show_path("void"); })
    C(linkat, AT_FDCWD, "file/", AT_FDCWD, "new", 0)
    C(linkat, AT_FDCWD, "file", AT_FDCWD, ".", 0)
    C(linkat, AT_FDCWD, "file", AT_FDCWD, "/", 0)
    C(linkat, AT_FDCWD, "file", AT_FDCWD, "dir/", 0)
    C(linkat, AT_FDCWD, "file", AT_FDCWD, "dangling", 0)
    C(symlinkat, "x", AT_FDCWD, ".")
    C(symlinkat, "x", AT_FDCWD, "/")
    C(symlinkat, "x", AT_FDCWD, "dir/")
    C(mknodat, AT_FDCWD, "new/", S_IFIFO | 0600, 0)
    C(mknodat, AT_FDCWD, ".", S_IFIFO | 0600, 0)
    C(mknodat, AT_FDCWD, "dir/", S_IFIFO | 0600, 0)
#define RENAME(old, new, flags) T(renameat2, old " to " new ", " #flags, { result(CALL(renameat2, AT_FDCWD, old, AT_FDCWD, new, flags)); show_path("file"); show_path("dir"); show_path("void"); })
    RENAME("file/", "new", 0)
    RENAME("file", "new/", 0)
    RENAME("file/", "none/new", 0)
    RENAME("none/", "new", 0)
    RENAME("none", "new/", 0)
    RENAME("dir/", "new/", 0)
    RENAME("dir", "void/", 0)
    RENAME("dir", "file/", 0)
    RENAME("link/", "new", 0)
    RENAME("file", "void/", 0)
    RENAME("file", "dir/", RENAME_NOREPLACE)
    RENAME("file", "dir/", RENAME_EXCHANGE)
    RENAME("file/", "dir", RENAME_EXCHANGE)
    RENAME("dir", "file/", RENAME_EXCHANGE)
    RENAME("dir/", "file", RENAME_EXCHANGE)
    RENAME("dir", "dir/in", RENAME_EXCHANGE)
    RENAME("dir/in", "dir", RENAME_EXCHANGE)
    RENAME("dir/in", "dir", 0)
    RENAME(".", "new", 0)
    RENAME("..", "new", 0)
    RENAME("dir/.", "new", 0)
    RENAME("dir/..", "new", 0)
    RENAME("none/.", "new", 0)
    RENAME("file", ".", 0)
    RENAME("dir", "..", 0)
    RENAME("dir", "void/.", 0)
    RENAME("dir", ".", RENAME_NOREPLACE)
    RENAME("dir", ".", RENAME_EXCHANGE)
    RENAME("none", ".", 0)
    RENAME("file", "file", 0)
    RENAME("file", "file", RENAME_NOREPLACE)
    RENAME("dir", "dir", 0)
    RENAME("file", "/proc/new", 0)
    RENAME("/proc/version", "new", 0)
    T(renameat2, "a link to a folder, and a slash", { symlink("void", "way"); result(CALL(renameat2, AT_FDCWD, "way/", AT_FDCWD, "new", 0)); result(CALL(renameat2, AT_FDCWD, "dir", AT_FDCWD, "way/", 0)); result(CALL(renameat2, AT_FDCWD, "way", AT_FDCWD, "new", 0)); show_path("new"); })
    T(renameat2, "a folder that may not be written", { chmod("dir", 0555); result(CALL(renameat2, AT_FDCWD, "dir", AT_FDCWD, "new", 0)); result(CALL(renameat2, AT_FDCWD, "new", AT_FDCWD, "void/new", 0)); })
    C(openat, AT_FDCWD, "link/", O_RDONLY)
    C(openat, AT_FDCWD, "dir/", O_RDONLY | O_CREAT, 0600)
    C(openat, AT_FDCWD, "dangling/", O_RDONLY | O_CREAT, 0600)
    C(openat, AT_FDCWD, ".", O_RDONLY | O_CREAT, 0600)
    C(openat, AT_FDCWD, "..", O_RDONLY | O_CREAT | O_EXCL, 0600)
    C(openat, AT_FDCWD, "/", O_RDONLY | O_CREAT, 0600)
    C(openat, AT_FDCWD, "file/.", O_RDONLY)
    C(openat, AT_FDCWD, "file/..", O_RDONLY)
    C(openat, AT_FDCWD, "none/..", O_RDONLY)
    C(openat, AT_FDCWD, "new/", O_RDONLY | O_CREAT | O_EXCL, 0600)
    C(openat, AT_FDCWD, "file/", O_RDONLY | O_CREAT, 0600)
    C(openat, AT_FDCWD, "/proc/new", O_RDONLY | O_CREAT, 0600)
    C(newfstatat, AT_FDCWD, "link/", buffer, AT_SYMLINK_NOFOLLOW)
    C(newfstatat, AT_FDCWD, "file/", buffer, 0)
    C(readlinkat, AT_FDCWD, "link/", buffer, 100)
    T(readlinkat, "a link to a folder, and a slash", { symlink("void", "way"); result(readlinkat(AT_FDCWD, "way/", buffer, 100)); result(readlinkat(AT_FDCWD, "way", buffer, 100)); })
    C(faccessat, AT_FDCWD, "file/", F_OK)
    C(truncate, "file/", 3)
    C(truncate, "none", -1)
    C(truncate, "link", 3)
    C(unlinkat, AT_FDCWD, "/proc/version", 0)
    C(mkdirat, AT_FDCWD, "/proc/new", 0700)
    C(linkat, AT_FDCWD, "/proc/version", AT_FDCWD, "new", 0)
    C(mknodat, AT_FDCWD, "new", S_IFCHR | 0600, 0)
    E(show_path("new"), mknodat, AT_FDCWD, "new", S_IFCHR | 0644, 0)
    C(mknodat, AT_FDCWD, "new", S_IFBLK | 0600, 0)
    C(mknodat, AT_FDCWD, "new", 0170600, 0)
    C(mknodat, AT_FDCWD, "file", S_IFBLK | 0600, 0x103)
}

#define WAY(...) (&(struct { uint64_t flags, mode, resolve; }){__VA_ARGS__})

/* Paths that must not lead everywhere. */
static void limited_ways(void) {
    C(openat2, DIR_FD, "in", WAY(O_RDONLY, 0, RESOLVE_BENEATH), 24)
    C(openat2, DIR_FD, "../file", WAY(O_RDONLY, 0, RESOLVE_BENEATH), 24)
    C(openat2, DIR_FD, "..", WAY(O_RDONLY, 0, RESOLVE_BENEATH), 24)
    C(openat2, DIR_FD, "..", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24)
    C(openat2, DIR_FD, "../in", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24)
    C(openat2, DIR_FD, "../../../in", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24)
    C(openat2, DIR_FD, "/in", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24)
    C(openat2, DIR_FD, "/../in", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24)
    C(openat2, DIR_FD, "/", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24)
    C(openat2, DIR_FD, "/in", WAY(O_RDONLY, 0, RESOLVE_BENEATH), 24)
    C(openat2, CLOSED, "/in", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24)
    C(openat2, RW, "in", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24)
    C(openat2, DIR_FD, "../new", WAY(O_RDWR | O_CREAT, 0600, RESOLVE_BENEATH), 24)
    E({ show_path("dir/new"); show_path("new"); }, openat2, DIR_FD, "../new", WAY(O_RDWR | O_CREAT, 0600, RESOLVE_IN_ROOT), 24)
    T(openat2, "a link out, or not", {
        symlink("../file", "dir/out");
        symlink("in", "dir/way");
        symlink("/in", "dir/absolute");
        result(CALL(openat2, DIR_FD, "out", WAY(O_RDONLY, 0, RESOLVE_BENEATH), 24));
        result(CALL(openat2, DIR_FD, "way", WAY(O_RDONLY, 0, RESOLVE_BENEATH), 24));
        result(CALL(openat2, DIR_FD, "absolute", WAY(O_RDONLY, 0, RESOLVE_BENEATH), 24));
        result(CALL(openat2, DIR_FD, "out", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24));
        result(CALL(openat2, DIR_FD, "absolute", WAY(O_RDONLY, 0, RESOLVE_IN_ROOT), 24));
        result(CALL(openat2, DIR_FD, "way", WAY(O_RDONLY, 0, RESOLVE_NO_SYMLINKS), 24));
        result(CALL(openat2, DIR_FD, "way", WAY(O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS), 24));
        result(CALL(openat2, DIR_FD, "way", WAY(O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), 24));
    })
    T(openat2, "a folder behind a link", {
        symlink("dir", "way");
        result(CALL(openat2, AT_FDCWD, "way/in", WAY(O_RDONLY, 0, RESOLVE_NO_SYMLINKS), 24));
        result(CALL(openat2, AT_FDCWD, "way/", WAY(O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS), 24));
        result(CALL(openat2, AT_FDCWD, "way/../../none", WAY(O_RDONLY, 0, RESOLVE_BENEATH), 24));
    })
    T(openat2, "links of /proc", {
        result(CALL(openat2, AT_FDCWD, "/proc/self/fd/10", WAY(O_RDONLY, 0, RESOLVE_NO_SYMLINKS), 24));
        result(CALL(openat2, AT_FDCWD, "/proc/self/stat", WAY(O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), 24));
        result(CALL(openat2, AT_FDCWD, "/proc/self/cwd/file", WAY(O_RDONLY, 0, RESOLVE_NO_MAGICLINKS), 24));
        result(CALL(openat2, AT_FDCWD, "/proc/self/fd/10", WAY(O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_MAGICLINKS), 24));
        int proc = open("/proc", O_PATH);
        result(CALL(openat2, proc, "self/fd/10", WAY(O_RDONLY, 0, RESOLVE_BENEATH), 24));
        result(CALL(openat2, proc, "self/cwd", WAY(O_RDONLY, 0, RESOLVE_NO_XDEV), 24));
        result(CALL(openat2, proc, "version", WAY(O_RDONLY, 0, RESOLVE_NO_XDEV | RESOLVE_BENEATH), 24));
        result(CALL(openat2, proc, "..", WAY(O_RDONLY, 0, RESOLVE_NO_XDEV), 24));
    })
    C(openat2, AT_FDCWD, "file", WAY(O_RDONLY, 0, RESOLVE_CACHED), 24)
    C(openat2, AT_FDCWD, "new", WAY(O_RDWR | O_CREAT, 0600, RESOLVE_CACHED), 24)
    C(openat2, AT_FDCWD, "file", WAY(O_RDWR | O_TRUNC, 0, RESOLVE_CACHED), 24)
    C(openat2, AT_FDCWD, "file", WAY(O_RDONLY, 0, 1UL << 40), 24)
}

static void without_name(void) {
    T(getcwd, "of a folder that was removed", { chdir("void"); rmdir("../void"); result(CALL(getcwd, buffer, 4096)); result(CALL(getcwd, buffer, 1)); })
    R(getcwd, "out of reach", { result(chroot("dir")); some(CALL(getcwd, buffer, 4096)); say(" | %.13s", buffer); })
    R(getcwd, "of /proc, out of reach", { chdir("/proc"); result(chroot("/tmp")); some(CALL(getcwd, buffer, 4096)); say(" | %.13s", buffer); })
    T(openat, "in a folder that was removed", { chdir("void"); rmdir("../void"); result(open("new", O_CREAT | O_RDWR, 0600)); result(open(".", O_RDONLY)); result(open("..", O_RDONLY)); result(open("new", O_RDONLY)); result(open(".", O_TMPFILE | O_RDWR, 0600)); })
    T(mkdirat, "in a folder that was removed", { chdir("void"); rmdir("../void"); result(mkdir("new", 0700)); result(symlink("x", "new")); result(mkfifo("new", 0600)); result(link("../file", "new")); result(rename("../file", "new")); })
    T(getdents64, "of a folder that was removed", { int fd = open("void", O_RDONLY); rmdir("void"); result(CALL(getdents64, fd, buffer, 4096)); })
    T(fstat, "of a folder that was removed", { int fd = open("void", O_RDONLY); rmdir("void"); struct stat of; result(fstat(fd, &of)); say(" | %o, %d links", of.st_mode, (int)of.st_nlink); })
    T(fstat, "of a file that was removed", { unlink("file"); struct stat of; result(fstat(RW, &of)); say(" | %o, %d links, %d bytes", of.st_mode, (int)of.st_nlink, (int)of.st_size); })
    T(linkat, "a file whose last name has gone", { unlink("file"); result(linkat(AT_FDCWD, "/proc/self/fd/10", AT_FDCWD, "new", AT_SYMLINK_FOLLOW)); })
    T(fstat, "whose an unnamed file is", { int fd = open("dir", O_TMPFILE | O_RDWR, 0640); struct stat of; result(fstat(fd, &of)); say(" | %o, %d links, own %d", of.st_mode, (int)of.st_nlink, of.st_uid == getuid() && of.st_gid == getgid()); })
    T(fstat, "whose a pipe is", { struct stat of; struct stat end; result(fstat(PIPE_R, &of)); fstat(PIPE_W, &end); say(" | %o, %d links, own %d, one %d, of now %d, blocks of %d", of.st_mode, (int)of.st_nlink, of.st_uid == getuid() && of.st_gid == getgid(), of.st_ino == end.st_ino && of.st_dev == end.st_dev, of.st_mtim.tv_sec > 1000000, (int)of.st_blksize); })
    T(fstat, "whose a socket is", { struct stat of; result(fstat(SOCK, &of)); say(" | %o, %d links, own %d", of.st_mode, (int)of.st_nlink, of.st_uid == getuid() && of.st_gid == getgid()); })
    T(fstat, "whose a memfd is", { struct stat of; result(fstat(MEMFD, &of)); say(" | %o, %d links, own %d", of.st_mode, (int)of.st_nlink, of.st_uid == getuid() && of.st_gid == getgid()); })
    T(readlinkat, "what a memfd is called", { memset(buffer, 0, 100); result(readlink("/proc/self/fd/24", buffer, 100)); say(" | %s", buffer); })
    T(readlinkat, "what a pipe is called", { memset(buffer, 0, 100); struct stat of; fstat(PIPE_R, &of); char name[64]; snprintf(name, 64, "pipe:[%ld]", (long)of.st_ino); some(readlink("/proc/self/fd/16", buffer, 100)); say(" | %d", strcmp(name, buffer)); })
    T(readlinkat, "what a socket is called", { memset(buffer, 0, 100); struct stat of; fstat(SOCK, &of); char name[64]; snprintf(name, 64, "socket:[%ld]", (long)of.st_ino); some(readlink("/proc/self/fd/18", buffer, 100)); say(" | %d", strcmp(name, buffer)); })
    E(show_flags(3), openat, AT_FDCWD, "dangling", O_PATH | O_NOFOLLOW)
    C(openat, AT_FDCWD, "dangling", O_PATH)
    E(show_path("new"), openat, AT_FDCWD, "new", O_PATH | O_CREAT, 0600)
    C(openat, AT_FDCWD, "file", O_PATH | O_DIRECTORY)
    C(openat, AT_FDCWD, "link", O_NOFOLLOW | O_DIRECTORY)
    C(openat, AT_FDCWD, "dir", O_RDONLY | O_CREAT | O_DIRECTORY, 0600)
    C(openat, AT_FDCWD, "dir", O_TMPFILE | O_CREAT | O_RDWR, 0600)
    C(openat, AT_FDCWD, "file", O_RDWR | (O_TMPFILE & ~O_DIRECTORY), 0600)
    C(openat, PATH_FD, "in", O_RDONLY)
    C(fchdir, PATH_FD)
    T(fchdir, "O_PATH", { int fd = open("dir", O_PATH); result(fchdir(fd)); show_path("in"); result(openat(fd, "in", O_RDONLY)); result(mkdirat(fd, "new", 0700)); result(CALL(getdents64, fd, buffer, 4096)); })
    T(readlinkat, "a link by O_PATH", { int fd = open("link", O_PATH | O_NOFOLLOW); result(readlinkat(fd, "", buffer, 100)); struct stat of; result(fstatat(fd, "", &of, AT_EMPTY_PATH)); say(" | %o", of.st_mode & S_IFMT); result(CALL(fchownat, fd, "", -1, -1, AT_EMPTY_PATH)); result(CALL(fchmodat2, fd, "", 0600, AT_EMPTY_PATH)); result(openat(fd, "", O_RDONLY)); })
    T(fchmodat, "through /proc, of O_PATH", { result(fchmodat(AT_FDCWD, "/proc/self/fd/15", 0600, 0)); show_path("file"); })
    T(openat, "through /proc, for writing what was opened for reading", { result(open("/proc/self/fd/11", O_RDWR)); result(open("/proc/self/fd/10", O_RDWR | O_NOFOLLOW)); result(open("/proc/self/fd/10", O_RDWR | O_CREAT | O_EXCL, 0600)); })
    E(show_access(PIPE_R), fchown, PIPE_R, -1, -1)
    E(show_access(SOCK), fchown, SOCK, getuid(), getgid())
    C(fchown, SOCK, 0, 0)
    C(fchown, PIPE_R, 0, 0)
    C(fchown, EVENT, -1, -1)
    C(fchown, EPOLL, 0, 0)
    C(fchown, NULL_FD, 0, 0)
    E(show_access(SOCK), fchmod, SOCK, 0600)
    E(show_access(PIPE_W), fchmod, PIPE_R, 04612)
    E(show_access(SOCK), fchmod, PEER, 0)
    C(fchmod, EVENT, 0600)
    C(fchmod, EPOLL, 0600)
    C(fchmod, TIMER, 0600)
    C(fchmod, SIGNAL, 0600)
    C(fchmod, MEMFD, 0600)
    C(fchmod, FRESH, 0400)
    T(fchmod, "a pipe, opened by /proc", { result(fchmod(PIPE_R, 0400)); result(open("/proc/self/fd/16", O_RDONLY)); result(open("/proc/self/fd/17", O_WRONLY)); })
    T(fchmod, "a socket is written all the same", { result(fchmod(SOCK, 0)); result(write(SOCK, "x", 1)); })
    R(fchown, "a pipe", { fchmod(PIPE_R, 06777); result(fchown(PIPE_R, 5, 6)); show_access(PIPE_W); result(fchown(PIPE_W, -1, 7)); show_access(PIPE_R); })
    R(fchown, "a socket", { result(fchown(SOCK, 5, 6)); show_access(SOCK); show_access(PEER); })
    R(fchmod, "a pipe, by a stranger", { (void)STRANGER; result(fchmod(PIPE_R, 0777)); result(fchown(PIPE_R, 1000, -1)); show_access(PIPE_R); })
    R(fchmod, "a socket, by a stranger", { (void)STRANGER; result(fchmod(SOCK, 0777)); result(fchown(SOCK, 1000, -1)); show_access(SOCK); })
    C(fchmod, DIR_FD, 0700)
    C(fcntl, PATH_FD, F_SETFL, O_APPEND)
    C(fcntl, PATH_FD, F_DUPFD, 30)
    C(fstatfs, PATH_FD, buffer)
    S(say(" | %lx", *(long *)buffer), fstatfs, PIPE_R, buffer)
    S(say(" | %lx", *(long *)buffer), fstatfs, SOCK, buffer)
    T(lseek, "holes", { ftruncate(RW, 0); pwrite(RW, "x", 1, 8192); ftruncate(RW, 5 << 12); result(lseek(RW, 0, SEEK_DATA)); result(lseek(RW, 8200, SEEK_HOLE)); result(lseek(RW, 12288, SEEK_DATA)); result(lseek(RW, 100, SEEK_HOLE)); })
    T(lseek, "the last hole of a long file", { ftruncate(MEMFD, 1L << 39); result(lseek(MEMFD, 0, SEEK_DATA)); pwrite(MEMFD, "x", 1, (1L << 38) + 5); result(lseek(MEMFD, 0, SEEK_DATA)); result(lseek(MEMFD, 1L << 38, SEEK_HOLE)); })
    C(lseek, DIR_FD, 0, SEEK_DATA)
    C(lseek, NULL_FD, 0, SEEK_DATA)
    limited_ways();
    T(getdents64, "once more from the beginning", { int fd = open("void", O_RDONLY); some(CALL(getdents64, fd, buffer, 4096)); result(CALL(getdents64, fd, buffer, 4096)); lseek(fd, 0, SEEK_SET); some(CALL(getdents64, fd, buffer, 4096)); })
}

void effects(void) {
    times_of_files();
    modes();
    long_names();
    slashes();
    without_name();
}
