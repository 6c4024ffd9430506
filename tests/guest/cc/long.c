/* System calls that take long. Other threads run meanwhile on the same core. Signals end the calls that they end on Linux. SIGKILL ends all. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEGA = 1 << 20, BIG = 48 * MEGA, ENTRIES = 20000 };

static char folder[] = "/tmp/longXXXXXX";
static char *memory;
static volatile sig_atomic_t alarms;
static volatile long turns;

static int open_in_folder(const char *name, int flags) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, flags, 0600);
    if (file < 0) {
        perror(path);
        exit(1);
    }
    return file;
}

/* The calls. Each works on files that `prepare` has made. */

static int random_file, zero_file, big_file, other_file, directory;

static void prepare(void) {
    random_file = open("/dev/urandom", O_RDONLY);
    zero_file = open("/dev/zero", O_RDONLY);
    big_file = open_in_folder("big", O_RDWR | O_CREAT);
    other_file = open_in_folder("other", O_RDWR | O_CREAT);
}

static long reads_random(void) { return read(random_file, memory, BIG / 4) == BIG / 4; }
static long gets_random(void) {
    long done = 0;
    while (done < BIG / 4)
        done += getrandom(memory + done, BIG / 4 - done, 0);
    return done == BIG / 4;
}
static long reads_zeros(void) { return read(zero_file, memory, BIG) == BIG; }
static long writes_file(void) { return pwrite(big_file, memory, BIG, 0) == BIG; }
static long reads_file(void) { return pread(big_file, memory, BIG, 0) == BIG; }
static long reads_vector(void) {
    struct iovec pieces[1024];
    for (int i = 0; i < 1024; i++)
        pieces[i] = (struct iovec){memory + i * (BIG / 1024), BIG / 1024};
    return preadv(big_file, pieces, 1024, 0) == BIG;
}
static long sends_file(void) {
    off_t from = 0;
    return sendfile(other_file, big_file, &from, BIG) == BIG && lseek(other_file, 0, SEEK_SET) == 0;
}
static long copies_file(void) {
    off_t from = 0, to = 0;
    return copy_file_range(big_file, &from, other_file, &to, BIG, 0) == BIG;
}

static const struct {
    const char *name;
    long (*call)(void);
    /* Whether a handled signal ends it on Linux. */
    int ends_by_signal;
} calls[] = {
    {"reads_random", reads_random, 1}, {"gets_random", gets_random, 0},   {"reads_zeros", reads_zeros, 1},
    {"writes_file", writes_file, 0},   {"reads_file", reads_file, 0},     {"reads_vector", reads_vector, 0},
    {"sends_file", sends_file, 1},     {"copies_file", copies_file, 1},
};
enum { CALLS = sizeof calls / sizeof *calls };

/* Another thread runs meanwhile: it sleeps for a millisecond again and again, on the same core. */

static void *sleeps(void *stop) {
    while (!*(volatile int *)stop) {
        struct timespec millisecond = {.tv_nsec = 1000000};
        nanosleep(&millisecond, 0);
        turns++;
    }
    return 0;
}

static void others_run(int index) {
    volatile int stop = 0;
    pthread_t sleeper;
    pthread_create(&sleeper, 0, sleeps, (void *)&stop);
    while (turns == 0)
        sched_yield();
    long before = turns;
    long ok = calls[index].call();
    long during = turns - before;
    stop = 1;
    pthread_join(sleeper, 0);
    turns = 0;
    printf("%s: %s, others %s\n", calls[index].name, ok ? "done" : "failed", during >= 3 ? "ran" : "waited");
}

/* A signal with a handler. */

static void note(int signal) {
    (void)signal;
    alarms++;
}

static long call_with_alarm(int index) {
    struct itimerval soon = {.it_value.tv_usec = 1000};
    alarms = 0;
    setitimer(ITIMER_REAL, &soon, 0);
    long ok = calls[index].call();
    while (!alarms)
        ;
    return ok;
}

/* On a busy host the alarm may come before the call has begun. So of many tries, at least one must end if the call is to end, and none otherwise. */
static void is_interrupted(int index) {
    long ok = call_with_alarm(index);
    for (int tries = 1; ok && calls[index].ends_by_signal && tries < 50; tries++)
        ok = call_with_alarm(index);
    printf("%s: %s by a signal\n", calls[index].name, ok ? "not ended" : "ended");
}

/* SIGKILL: the process ends without having finished. */

static void is_killed(int index) {
    int said[2];
    pipe(said);
    pid_t child = fork();
    if (child == 0) {
        close(said[0]);
        write(said[1], "b", 1);
        for (;;)
            calls[index].call();
    }
    close(said[1]);
    char byte = 0;
    read(said[0], &byte, 1);
    usleep(1000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    long more = read(said[0], &byte, 1);
    close(said[0]);
    int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    printf("%s: %s\n", calls[index].name, killed && more == 0 ? "killed" : "not killed");
}

/* Writers that share a description, or append, do not mix. */

static void *writes_much(void *byte) {
    size_t len = 4 * MEGA;
    char *bytes = malloc(len);
    memset(bytes, (int)(long)byte, len);
    long written = write(other_file, bytes, len);
    free(bytes);
    return (void *)written;
}

static void writers_do_not_mix(const char *how, int flags) {
    close(other_file);
    other_file = open_in_folder("other", O_RDWR | O_TRUNC | flags);
    pthread_t writers[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&writers[i], 0, writes_much, (void *)('a' + i));
    for (int i = 0; i < 3; i++)
        pthread_join(writers[i], 0);
    long len = pread(other_file, memory, BIG, 0), changes = 0;
    for (long i = 1; i < len; i++)
        changes += memory[i] != memory[i - 1];
    printf("%s: %ld bytes, %ld changes, at %ld\n", how, len, changes, (long)lseek(other_file, 0, SEEK_CUR));
}

/* A file whose descriptor another thread closes is read to its end. */

static void *closes(void *file) {
    usleep(2000);
    close(*(int *)file);
    return 0;
}

static void closed_meanwhile(void) {
    int file = dup(big_file);
    pthread_t closer;
    pthread_create(&closer, 0, closes, &file);
    long len = pread(file, memory, BIG, 0);
    pthread_join(closer, 0);
    printf("closed meanwhile: %s\n", len == BIG ? "read" : "not read");
}

/* Large files and directories are removed, and processes with many files end, while other threads run. */

static long truncates(void) { return ftruncate(big_file, 4096) == 0; }
static long fills_and_unlinks(void) {
    struct stat status;
    for (int i = 0; i < 4; i++) {
        int file = open_in_folder("short", O_RDWR | O_CREAT);
        if (pwrite(file, memory, BIG, 0) != BIG || fstat(file, &status) != 0 || status.st_size != BIG)
            return 0;
        close(file);
        char path[64];
        snprintf(path, sizeof path, "%s/short", folder);
        if (unlink(path) != 0)
            return 0;
    }
    return 1;
}

static long makes_and_lists(void) {
    char path[64];
    snprintf(path, sizeof path, "%s/many", folder);
    mkdir(path, 0700);
    directory = open(path, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < ENTRIES; i++) {
        snprintf(path, sizeof path, "%d", i);
        int file = openat(directory, path, O_WRONLY | O_CREAT, 0600);
        if (file < 0)
            return 0;
        close(file);
    }
    long found = 0, bytes;
    while ((bytes = syscall(SYS_getdents64, directory, memory, MEGA)) > 0)
        for (char *at = memory; at < memory + bytes; at += *(unsigned short *)(at + 16))
            found++;
    for (int i = 0; i < ENTRIES; i++) {
        snprintf(path, sizeof path, "%d", i);
        if (unlinkat(directory, path, 0) != 0)
            return 0;
    }
    snprintf(path, sizeof path, "%s/many", folder);
    return found == ENTRIES + 2 && rmdir(path) == 0;
}

int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    /* One core for all threads. */
    cpu_set_t cpus;
    int cpu = sched_getcpu();
    CPU_ZERO(&cpus);
    CPU_SET(cpu < 0 ? 0 : cpu, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    mkdtemp(folder);
    memory = mmap(0, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    prepare();
    for (int i = 0; i < CALLS; i++)
        others_run(i);
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGALRM, &action, 0);
    for (int i = 0; i < CALLS; i++)
        if (calls[i].call != gets_random)
            is_interrupted(i);
    for (int i = 0; i < CALLS; i++)
        is_killed(i);
    writers_do_not_mix("shared", 0);
    writers_do_not_mix("appending", O_APPEND);
    closed_meanwhile();
    printf("truncates: %s\n", truncates() ? "done" : "failed");
    printf("fills and unlinks: %s\n", fills_and_unlinks() ? "done" : "failed");
    printf("makes and lists: %s\n", makes_and_lists() ? "done" : "failed");
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}
