/* System calls with every kind of argument, and what came of each: a line `call(arguments) = result | effect`.
 *
 * The same program runs on the host's Linux and on each instruction set of the machine; its lines are compared. A case runs in a
 * process and a folder of its own, with the files and descriptors below, so that none sees what another has done. */
#ifndef CONFORM_H
#define CONFORM_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "constants.h"
/* Some libraries make these names of others. */
#undef prlimit64
#undef pread64
#undef pwrite64
#undef getdents64
#undef fadvise64
#include "numbers.h"

/* Descriptors that every case finds. */
enum {
    RW = 10,    /* "file", for reading and writing */
    RO,         /* "file", for reading */
    WO,         /* "file", for writing */
    APPEND,     /* "file", for writing at its end */
    DIR_FD,     /* "dir" */
    PATH_FD,    /* "file", O_PATH */
    PIPE_R,     /* a pipe that holds "pipe" */
    PIPE_W,
    SOCK,       /* a connected pair of stream sockets; SOCK can read "sock" */
    PEER,
    EVENT,      /* an eventfd that holds 3, not waiting */
    EPOLL,      /* an interest list that watches PIPE_R */
    TIMER,      /* a timerfd, disarmed, not waiting */
    SIGNAL,     /* a signalfd of SIGUSR2, not waiting */
    MEMFD,      /* a memfd of 8192 bytes that can be sealed */
    NULL_FD,    /* /dev/null */
    ZERO_FD,    /* /dev/zero */
    FRESH,      /* a stream socket, neither bound nor connected */
    CLOSED,     /* nothing */
};
#define PAGE 4096L
#define BAD ((void *)64)
#define HUGE_NUMBER 0x7fffffffffffffffL

extern char *in_page;     /* a page of memory that may be written, between two that are not mapped */
extern char *read_only;   /* a page that may only be read */
extern char *no_access;   /* a page that may not be accessed */
extern char buffer[1 << 17];

/* Whether the caller is the process that runs this case. */
int begin_as(int superuser, const char *label, long number);
#define begin(label, number) begin_as(0, label, number)
/* The result of a call, as it is printed. */
void result(long value);
/* As `result`, for results that are addresses, times, or other numbers that are not the same twice. */
void some(long value);
/* More of the case's line. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints the line, and ends the case. */
void end(void) __attribute__((noreturn));

/* Effects. */
void show_file(int fd);            /* position, size, contents */
void show_path(const char *path);  /* kind, mode, links, size */
void show_flags(int fd);           /* status flags and close-on-exec */
void show_open(void);              /* descriptors that are open */
void show_bytes(const void *at, int count);
void show_info(const siginfo_t *info);
void show_page(const void *at);    /* whether it may be read, written */
const char *errno_name(int error);
void stopped_in(int (*waits)(void)); /* what comes of a wait whose process is stopped and goes on */
void until_asleep(int thread);     /* waits until a thread, or a process's first one, sleeps */
long raw(long number, ...);

#define NTH(_0, _1, _2, _3, _4, _5, _6, n, ...) n
#define L0(...) 0, 0, 0, 0, 0, 0
#define L1(a) (long)(a), 0, 0, 0, 0, 0
#define L2(a, b) (long)(a), (long)(b), 0, 0, 0, 0
#define L3(a, b, c) (long)(a), (long)(b), (long)(c), 0, 0, 0
#define L4(a, b, c, d) (long)(a), (long)(b), (long)(c), (long)(d), 0, 0
#define L5(a, b, c, d, e) (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0
#define L6(a, b, c, d, e, f) (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)
#define LONGS(...) NTH(_0, ##__VA_ARGS__, L6, L5, L4, L3, L2, L1, L0)(__VA_ARGS__)
/* A system call by its name. */
#define CALL(name, ...) raw(NR_##name, LONGS(__VA_ARGS__))

/* A case: the result alone. */
#define C(name, ...) if (begin(#name "(" #__VA_ARGS__ ")", NR_##name)) { result(CALL(name, ##__VA_ARGS__)); end(); }
/* The result, and what `effect` shows. */
#define E(effect, name, ...) if (begin(#name "(" #__VA_ARGS__ ")", NR_##name)) { result(CALL(name, ##__VA_ARGS__)); effect; end(); }
/* Whether it succeeds, and what `effect` shows. */
#define S(effect, name, ...) if (begin(#name "(" #__VA_ARGS__ ")", NR_##name)) { some(CALL(name, ##__VA_ARGS__)); effect; end(); }
/* What comes of several calls, about the one named: `what` tells them apart. */
#define T(name, what, ...) if (begin(#name ": " what, NR_##name)) { __VA_ARGS__; end(); }
/* As `T`, by the superuser. */
#define R(name, what, ...) if (begin_as(1, #name ": " what " (as root)", NR_##name)) { __VA_ARGS__; end(); }

void files(void);
void effects(void);
void descriptors(void);
void memory(void);
void processes(void);
void signals(void);
void times_and_timers(void);
void posix_timers(void);
void pidfds(void);
void watches(void);
void owners(void);
void sockets(void);
void packets(void);
void inet(void);
void interfaces(void);
void netlink(void);
void origin(void);
void lists(void);
void endings(void);
void waiting(void);
void locks(void);
void family(void);
void terminals(void);
void sysv(void);
void semaphores(void);
void mqueues(void);
#endif
