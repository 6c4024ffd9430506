/* Runs tests of the Open POSIX Test Suite: run WORKERS FOLDER LIST. LIST names them as INTERFACE.N-M, a line each, those of an interface together: these
   run one after the other, as they share names, and so many interfaces at a time. Prints `NAME STATUS`: the exit status, `signal N`, or `timeout`; and what a
   test that did not pass has printed last. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY = 65534, SECONDS_MAX = 60, NAMES_MAX = 4096, TEXT_MAX = 160 };

static char *names[NAMES_MAX];

static int same_interface(const char *one, const char *other)
{
    size_t len = strcspn(one, ".");
    return len == strcspn(other, ".") && !strncmp(one, other, len);
}

/* What it has printed last, in one line. */
static void last_words(int file, char *text)
{
    off_t end = lseek(file, 0, SEEK_END);
    lseek(file, end > TEXT_MAX ? end - TEXT_MAX : 0, SEEK_SET);
    ssize_t len = read(file, text, TEXT_MAX - 1);
    text[len > 0 ? len : 0] = 0;
    for (char *at = text; *at; at++)
        if (*at < ' ')
            *at = '|';
}

/* Waits for a test, and ends it and what it has left. */
static const char *outcome(pid_t test)
{
    static char text[32];
    struct timespec pause = {0, 10 * 1000 * 1000};
    time_t until = time(0) + SECONDS_MAX;
    int status;
    pid_t ended;
    while ((ended = waitpid(test, &status, WNOHANG)) == 0 && time(0) < until)
        nanosleep(&pause, 0);
    kill(-test, SIGKILL);
    if (ended == 0) {
        waitpid(test, &status, 0);
        return "timeout";
    }
    snprintf(text, sizeof text, WIFEXITED(status) ? "%d" : "signal %d", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return text;
}

static void run(const char *folder, const char *name)
{
    char path[256], text[TEXT_MAX], line[512];
    snprintf(path, sizeof path, "/tmp/posix-output-%d", getpid());
    int output = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    unlink(path);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    pid_t test = fork();
    if (test == 0) {
        setsid();
        dup2(open("/dev/null", O_RDWR), 0);
        dup2(output, 1);
        dup2(output, 2);
        if (setgroups(0, 0) || setgid(NOBODY) || setuid(NOBODY))
            _exit(99);
        execl(path, path, (char *)0);
        _exit(98);
    }
    const char *what = outcome(test);
    last_words(output, text);
    close(output);
    snprintf(line, sizeof line, "%s %s%s%s\n", name, what, strcmp(what, "0") ? " " : "", strcmp(what, "0") ? text : "");
    write(1, line, strlen(line));
}

int main(int count, char **words)
{
    if (count != 4)
        return 64;
    FILE *list = fopen(words[3], "r");
    if (!list)
        return 66;
    char line[128];
    int all = 0;
    while (all < NAMES_MAX && fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = 0;
        names[all++] = strdup(line);
    }
    /* Of all workers, the one that gets a byte of this has the next interface. */
    int next[2], workers = atoi(words[1]);
    if (pipe(next) || (mkdir("/tmp/posix", 0777) && errno != EEXIST) || chmod("/tmp/posix", 01777) || chdir("/tmp/posix"))
        return 71;
    int first = 0;
    write(next[1], &first, sizeof first);
    for (int worker = 0; worker < workers; worker++) {
        if (fork())
            continue;
        int at;
        while (read(next[0], &at, sizeof at) == sizeof at) {
            int end = at;
            while (end < all && same_interface(names[at], names[end]))
                end++;
            write(next[1], &end, sizeof end);
            for (; at < end; at++)
                run(words[2], names[at]);
            if (end == all)
                break;
        }
        _exit(0);
    }
    while (wait(0) > 0)
        continue;
    return 0;
}
