// Whom waitpid tells that a child has stopped finds its memory at rest. Threads of a child count in a page that its parent has, too; one makes others
// that end at once. The parent stops it, waits, and looks at the page for a while: nothing has changed. Another process sends SIGCONT before all
// threads have stopped: the child goes on.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNTERS = 4, ENDS = 150, ROUNDS = 30, LOOKS = 2000, LINE = 16 };

static volatile long *counts;

static void *end(void *unused) { return unused; }

static void *count(void *number) {
    for (volatile long *mine = counts + LINE * (long)number;; ++*mine) {
        if (number) continue;
        pthread_t thread;
        if (pthread_create(&thread, NULL, end, NULL) == 0) pthread_join(thread, NULL);
    }
}

static void child(void) {
    for (long number = 0; number < COUNTERS; number++) {
        pthread_t thread;
        pthread_create(&thread, NULL, count, (void *)number);
    }
    for (;;) pause();
}

static void until_all_count(void) {
    for (int n = 0; n < COUNTERS; n++)
        for (long before = counts[LINE * n]; counts[LINE * n] == before;) usleep(100);
}

// A child that ends while it stops either stops with all its threads, or ends: so many times it did neither.
static int ends(void) {
    int halves = 0;
    counts[0] = 0;
    for (unsigned round = 0; round < ENDS; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            pthread_t thread;
            for (int n = 1; n < 3; n++) pthread_create(&thread, NULL, count, (void *)(long)n);
            counts[0] = 1;
            usleep(round * 37 % 400);
            _exit(0);
        }
        while (!counts[0]) usleep(50);
        counts[0] = 0;
        usleep(round * 53 % 400);
        kill(pid, SIGSTOP);
        int status, threads = 0;
        if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status)) continue;
        char name[32];
        snprintf(name, sizeof name, "/proc/%d/task", pid);
        DIR *folder = opendir(name);
        for (struct dirent *entry; folder && (entry = readdir(folder));) threads += entry->d_name[0] != '.';
        if (folder) closedir(folder);
        halves += threads != 3;
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    return halves;
}

int main(void) {
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0) child();
    int changed = 0, stopped = 0, continued = 0;
    for (int round = 0; round < ROUNDS; round++) {
        until_all_count();
        kill(pid, SIGSTOP);
        int status;
        stopped += waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP;
        long before[COUNTERS];
        for (int n = 0; n < COUNTERS; n++) before[n] = counts[LINE * n];
        int same = 1;
        // The first look is over soon: a thread that runs may not have its processor.
        for (int look = 0; look < LOOKS; look++, look % (LOOKS / 2) || usleep(1000)) same &= before[look % COUNTERS] == counts[LINE * (look % COUNTERS)];
        changed += !same;
        kill(pid, SIGCONT);
        continued += waitpid(pid, &status, WCONTINUED) == pid && WIFCONTINUED(status);
    }
    printf("stopped %d, changed %d, continued %d\n", stopped, changed, continued);
    // No stop is over when it is continued: nobody is told of one.
    for (int round = 0; round < ROUNDS; round++) {
        until_all_count();
        kill(pid, SIGSTOP);
        kill(pid, SIGCONT);
    }
    until_all_count();
    int status, seen = 0;
    while (waitpid(pid, &status, WUNTRACED | WNOHANG) == pid) seen++;
    kill(pid, SIGKILL);
    printf("seen %d, ended %d\n", seen, waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    printf("neither %d\n", ends());
    return 0;
}
