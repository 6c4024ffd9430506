/* A shell of another instruction set on a pseudo-terminal, whose master is here: what is typed there, it does, with jobs. The argument is the shell's
 * instruction set. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "expect.h"

enum { WAIT_MS = 120000 };
static int master;
static char screen[1 << 16];
static int seen, len;

static void fail(const char *what) {
    printf("no %s on the terminal:\n%s\n", what, screen + seen);
    exit(1);
}
/* Waits until a text is shown, behind the last one. */
static void expect(const char *text) {
    char *at;
    while (!(at = strstr(screen + seen, text))) {
        struct pollfd one = {master, POLLIN, 0};
        if (poll(&one, 1, WAIT_MS) != 1) fail(text);
        long more = read(master, screen + len, sizeof screen - 1 - len);
        if (more <= 0) fail(text);
        len += more;
    }
    seen = at - screen + strlen(text);
}
static void type(const char *text) {
    if (write(master, text, strlen(text)) != (long)strlen(text)) fail("room");
}
/* Waits until the shell has given the terminal away. */
static void until_foreground(pid_t shell) {
    while (tcgetpgrp(master) == shell) usleep(10000);
    usleep(100000);
}

static void names(const char *path) {
    struct stat st;
    EXPECT(stat(path, &st), 0);
    EXPECT(major(st.st_rdev), 136);
    EXPECT(st.st_mode, S_IFCHR | 0620);
    EXPECT(st.st_gid, 5);
    EXPECT(access("/dev/pts/ptmx", R_OK | W_OK), 0);
}

static void jobs(pid_t shell) {
    type("sleep 1000\n");
    until_foreground(shell);
    type("\003");
    type("echo status=$?\n");
    expect("status=130");
    type("sleep 1000\n");
    until_foreground(shell);
    type("\032");
    expect("Stopped");
    type("jobs; echo lis''ted\n");
    expect("sleep 1000");
    expect("listed");
    type("fg\n");
    until_foreground(shell);
    type("\003");
    type("echo again=$?\n");
    expect("again=130");
    type("cat &\n");
    type("sleep 1; jobs\n");
    expect("Stopped (tty input)");
    type("kill %1; kill -CONT %1; wait; echo kil''led\n");
    expect("killed");
}

int main(int argc, char **argv) {
    char program[64], *environment[] = {"PS1=> ", "PATH=/bin", "HOME=/root", 0};
    (void)argc;
    sprintf(program, "/isa/%s/bin/sh", argv[1]);
    setvbuf(stdout, 0, _IONBF, 0);
    master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) { printf("no pseudo-terminal: %s\n", strerror(errno)); return 1; }
    char *path = ptsname(master);
    names(path);
    pid_t shell = fork();
    if (shell == 0) {
        setsid();
        int terminal = open(path, O_RDWR);
        for (int fd = 0; fd < 3; fd++) dup2(terminal, fd);
        close(terminal);
        close(master);
        char *arguments[] = {"sh", "-i", 0};
        execve(program, arguments, environment);
        _exit(127);
    }
    type("echo re''ady $(tty)\n");
    expect("ready /dev/pts/");
    type("echo it is $(uname -m)\n");
    expect("it is ");
    expect(argv[1]);
    jobs(shell);
    struct winsize size = {44, 99, 0, 0};
    EXPECT(ioctl(master, TIOCSWINSZ, &size), 0);
    type("stty size\n");
    expect("44 99");
    type("seq 20000 | tail -n 1 | sed 's/^/last /'; seq 3000; echo do''ne\n");
    expect("last 20000");
    expect("\r\n3000\r\n");
    expect("done");
    type("exit 7\n");
    int status;
    EXPECT(waitpid(shell, &status, 0), shell);
    EXPECT(WEXITSTATUS(status), 7);
    while (read(master, screen, sizeof screen) > 0) {}
    EXPECT(errno, EIO);
    close(master);
    EXPECT(access(path, F_OK), -1);
    printf("a shell of %s: %s\n", argv[1], wrong ? "wrong" : "well");
    return wrong;
}
