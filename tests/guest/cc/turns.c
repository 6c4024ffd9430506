/*
 * Calls of the board that have to wait for their turn: three threads of one core call, while a function of another process keeps the board computing
 * for ever. The called functions make system calls, those that are served where they run and others. Prints `turns: ok`, or what was wrong.
 */
#include <motet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

#define BOARD MOTET_ONLY("riscv64")

BOARD long forever(volatile long *started) {
    for (;;)
        *started = 1;
}

BOARD long mixed(signed char a, long b, short c, long d, unsigned char e, long f, signed char g, long h, unsigned i, int j) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * (long)i + 10 * (long)j;
}

BOARD long of_process(void) { return getpid() * 1000 + getppid(); }
BOARD long of_user(void) { return (long)(getuid() + geteuid() + getgid() + getegid()); }
BOARD long of_thread(void) { return syscall(SYS_gettid); }
BOARD long of_group(long pid) { return getpgid((pid_t)pid); }
BOARD long is_riscv(void) {
    struct utsname names;
    return uname(&names) == 0 && strcmp(names.machine, "riscv64") == 0;
}
BOARD long time_ns(long clock) {
    struct timespec now;
    if (clock_gettime((clockid_t)clock, &now) != 0)
        return -errno;
    return now.tv_sec * 1000000000 + now.tv_nsec;
}
/* A system call that fails there fails in the same way as at home. */
BOARD long time_nowhere(void) { return syscall(SYS_clock_gettime, CLOCK_MONOTONIC, 8) == -1 ? errno : 0; }
BOARD long written(int file, const char *text) { return write(file, text, strlen(text)); }

static void *work(void *first) {
    long number = (long)first, sum = 0, good = 1;
    for (long index = 0; index < 40; index++)
        sum += mixed(-1, number, -300, index, 255, 1, -128, 2, 4000000000u, -7) + of_thread() - syscall(SYS_gettid);
    for (long index = 0; index < 40; index++)
        good += sum == 40 * (-1 + 2 * number - 900 + 1275 + 6 - 896 + 16 + 36000000000 - 70) + 4 * 780;
    return (void *)good;
}

static void call(void) {
    pthread_t threads[3];
    for (long index = 0; index < 3; index++)
        pthread_create(&threads[index], NULL, work, (void *)(1000 * index));
    for (long index = 0; index < 3; index++) {
        void *good;
        pthread_join(threads[index], &good);
        EXPECT(good, 41);
    }
}

int main(void) {
    call();
    EXPECT(of_process(), getpid() * 1000 + getppid());
    EXPECT(of_user(), getuid() + geteuid() + getgid() + getegid());
    EXPECT(of_group(0), getpgrp());
    EXPECT(of_group(-1), -1);
    EXPECT(is_riscv(), 1);
    EXPECT(time_nowhere(), EFAULT);
    long before = time_ns(CLOCK_MONOTONIC), used = time_ns(CLOCK_PROCESS_CPUTIME_ID);
    EXPECT(before > 0 && time_ns(CLOCK_MONOTONIC) > before, 1);
    EXPECT(used > 0 && time_ns(CLOCK_PROCESS_CPUTIME_ID) > used, 1);
    EXPECT(time_ns(77), -EINVAL);
    int ends[2];
    char text[6] = "";
    EXPECT(pipe(ends), 0);
    EXPECT(written(ends[1], "board"), 5);
    EXPECT(read(ends[0], text, 5), 5);
    EXPECT(strcmp(text, "board"), 0);

    /* A process is killed while it waits for its turn. Others still get their turns. */
    pid_t busy = fork(), killed = busy == 0 ? 0 : fork();
    volatile long started = 0;
    if (busy == 0)
        forever(&started);
    while (killed == 0)
        written(ends[1], "");
    usleep(3000);
    kill(killed, SIGKILL);
    EXPECT(waitpid(killed, NULL, 0), killed);
    call();
    EXPECT(kill(busy, SIGKILL), 0);
    EXPECT(waitpid(busy, NULL, 0), busy);
    call();
    if (!wrong)
        puts("turns: ok");
    return wrong;
}
