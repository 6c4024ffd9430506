/*
 * What programs are told: by which name they were executed, times of files before 1970, that a file is executed or being written. The output is the
 * same on the host.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include "crossing.h"

static char program[4096], folder[64];

static void tell(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? strerror(errno) : "done");
}

/* The path without the folder, which has another name each time. */
static const char *shown(const char *path) {
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 ? path + len : strcmp(path, program) == 0 ? "the program" : path;
}

static int run(int at, const char *path, char *const *arguments, int flags) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        setenv("FOLDER", folder, 1);
        setenv("PROGRAM", program, 1);
        syscall(SYS_execveat, at, path, arguments, environ, flags);
        printf("%s: %s\n", shown(path), strerror(errno));
        _exit(9);
    }
    while (waitpid(child, &status, 0) != child)
        ;
    return status;
}

static void copy(const char *from, const char *to, int mode) {
    static char bytes[1 << 16];
    ssize_t len;
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, mode);
    while ((len = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, len) != len) printf("no room\n");
    close(in);
    close(out);
}

static void names(void) {
    char *told[] = {"any name", "told", 0}, *none[] = {0}, *empty[] = {"", 0};
    char script[4200];
    int at = open(".", O_RDONLY | O_DIRECTORY), fd = open(program, O_RDONLY);
    run(AT_FDCWD, program, told, 0);
    run(AT_FDCWD, "./copy", told, 0);
    run(AT_FDCWD, "copy", told, 0);
    dup2(at, 50);
    dup2(fd, 1023);
    run(50, "copy", told, 0);
    run(50, "./below/../copy", told, 0);
    run(1023, "", told, AT_EMPTY_PATH);
    run(AT_FDCWD, program, none, 0);
    run(AT_FDCWD, program, empty, 0);
    snprintf(script, sizeof script, "#!%s told\n", program);
    int out = open("script", O_WRONLY | O_CREAT, 0755);
    if (write(out, script, strlen(script)) < 0) return;
    run(AT_FDCWD, "./script", told, 0); /* still open for writing */
    close(out);
    run(AT_FDCWD, "./script", told, 0);
    run(50, "script", told, 0);
    close(50);
    close(1023);
    close(at);
    close(fd);
}

static void show_times(const char *what) {
    struct stat about;
    stat("dated", &about);
    printf("%s: %lld.%09ld %lld.%09ld\n", what, (long long)about.st_atim.tv_sec, about.st_atim.tv_nsec,
           (long long)about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
}

static void times_of_files(void) {
    close(open("dated", O_WRONLY | O_CREAT, 0644));
    utimensat(AT_FDCWD, "dated", (struct timespec[]){{-5, 123456789}, {4000000000, 987654321}}, 0);
    show_times("utimensat");
    utimensat(AT_FDCWD, "dated", (struct timespec[]){{-2000000000, 0}, {-1, 999999999}}, 0);
    show_times("utimensat");
    utimes("dated", (struct timeval[]){{-7, 250000}, {-1, 0}});
    show_times("utimes");
    tell("too many microseconds", utimes("dated", (struct timeval[]){{-7, 1000000}, {-1, 0}}));
    tell("too few", utimes("dated", (struct timeval[]){{-7, -1}, {-1, 0}}));
    utime("dated", &(struct utimbuf){-100, -200});
    show_times("utime");
}

static void show_link(const char *what, const char *path) {
    char text[4200];
    ssize_t len = readlink(path, text, sizeof text - 1);
    text[len < 0 ? 0 : len] = 0;
    printf("%s: %s\n", what, shown(text));
}

/* Names of what has been removed, and is still in use. */
static void removed(void) {
    char path[64];
    int fd = open("removed", O_RDWR | O_CREAT, 0644), replaced = open("replaced", O_RDWR | O_CREAT, 0644);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    show_link("there", path);
    link("removed", "another");
    unlink("another");
    show_link("still there", path);
    unlink("removed");
    show_link("removed", path);
    tell("linked again", linkat(AT_FDCWD, path, AT_FDCWD, "back", AT_SYMLINK_FOLLOW));
    close(open("removed", O_RDWR | O_CREAT, 0644));
    show_link("another one has its name", path);
    snprintf(path, sizeof path, "/proc/self/fd/%d", replaced);
    rename("removed", "replaced");
    show_link("replaced", path);
    unlink("replaced");
    mkdir("gone", 0755);
    mkdir("gone/below", 0755);
    int inside = open("gone/below/file", O_RDWR | O_CREAT, 0644);
    if (chdir("gone/below") != 0) return;
    unlink("file");
    rmdir("../below");
    show_link("working directory", "/proc/self/cwd");
    tell("getcwd", syscall(SYS_getcwd, path, sizeof path) < 0 ? -1 : 0);
    rmdir("../../gone");
    snprintf(path, sizeof path, "/proc/self/fd/%d", inside);
    show_link("file in it", path);
    if (chdir(folder) != 0) return;
    close(fd);
    close(replaced);
    close(inside);
}

static void busy(void) {
    char *told[] = {"any name", "told", 0}, *waits[] = {"any name", "waits", 0}, path[64];
    int status, ready[2];
    copy("copy", "running", 0755);
    if (pipe(ready) != 0) return;
    pid_t child = fork();
    if (child == 0) {
        dup2(ready[1], 30);
        execv("./running", waits);
    }
    char letter;
    if (read(ready[0], &letter, 1) != 1) return;
    tell("writing a program that runs", open("running", O_WRONLY));
    tell("reading and writing it", open("running", O_RDWR));
    tell("cutting it", truncate("running", 0));
    tell("emptying it", open("running", O_RDONLY | O_TRUNC));
    snprintf(path, sizeof path, "/proc/%d/exe", child);
    tell("by another name", open(path, O_WRONLY));
    tell("reading it", close(open("running", O_RDONLY)));
    tell("removing it", rename("running", "moved"));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    int out = open("moved", O_WRONLY);
    tell("when it has ended", out);
    int again = open("moved", O_RDWR), reads = open("moved", O_RDONLY);
    run(AT_FDCWD, "./moved", told, 0);
    close(out);
    run(AT_FDCWD, "./moved", told, 0);
    close(again);
    run(AT_FDCWD, "./moved", told, 0);
    close(reads);
    close(ready[0]);
    close(ready[1]);
}

int main(int count, char **arguments) {
    setvbuf(stdout, 0, _IONBF, 0);
    if (getenv("FOLDER") && (count < 2 || strcmp(arguments[1], "waits") != 0)) {
        strcpy(folder, getenv("FOLDER"));
        strcpy(program, getenv("PROGRAM"));
        printf("executed as %s:", shown((char *)getauxval(AT_EXECFN)));
        for (int i = 0; i < count; i++)
            printf(" \"%s\"", shown(arguments[i]));
        printf("\n");
        return 0;
    }
    if (count > 1 && strcmp(arguments[1], "waits") == 0) {
        if (write(30, "x", 1) == 1)
            for (;;) pause();
        return 1;
    }
    strcpy(folder, "/tmp/told.XXXXXX");
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0 || !mkdtemp(folder) || chdir(folder) != 0) return 2;
    mkdir("below", 0755);
    copy(program, "copy", 0755);
    names();
    times_of_files();
    removed();
    busy();
    static const char *const made[] = {"copy", "script", "dated", "moved"};
    for (int i = 0; i < 4; i++)
        unlink(made[i]);
    rmdir("below");
    return chdir("/") || rmdir(folder);
}
