/* Whether a thread, or a process's first one, sleeps: its state is behind its name in /proc/PID/stat. */
#pragma once
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One that is no more counts as one that sleeps. */
static int is_asleep(int thread) {
    char path[40], text[256] = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", thread);
    int fd = open(path, O_RDONLY);
    long len = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    close(fd);
    const char *state = strrchr(text, ')');
    return len <= 0 || (state && state[2] == 'S');
}

static void until_asleep(int thread) {
    while (!is_asleep(thread)) usleep(500);
}
