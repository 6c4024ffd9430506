/*
 * A program on the board calls functions of the host, and the host calls functions of the board. Tests system calls that are served where the function
 * runs, other system calls, and arguments on the stack. Prints `hosts: ok`, or what was wrong.
 */
#include <motet.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define HOST MOTET_ONLY("x86_64")

HOST long of_process(void) { return getpid() * 1000 + getppid(); }
HOST long is_x86(void) {
    struct utsname names;
    return uname(&names) == 0 && strcmp(names.machine, "x86_64") == 0;
}
HOST long time_ns(void) {
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) ? -1 : now.tv_sec * 1000000000 + now.tv_nsec;
}
HOST long twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l;
}
HOST long written(int file, const char *text) { return write(file, text, strlen(text)); }

int main(void) {
    long before = time_ns(), good = before > 0;
    for (long round = 0; round < 50; round++) {
        long now = time_ns();
        good = good && of_process() == getpid() * 1000 + getppid() && is_x86() && now > before;
        good = good && twelve(round, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) == round + 649;
        before = now;
    }
    int ends[2];
    char text[5] = "";
    good = good && pipe(ends) == 0 && written(ends[1], "host") == 4 && read(ends[0], text, 4) == 4 && !strcmp(text, "host");
    puts(good ? "hosts: ok" : "hosts: a function of the host has another result");
    return !good;
}
