/* What a system call has kept is nothing to the next one, in whatever way the first one has ended: each call of `check` does what it should
   after each call of `first`. Each of `check` has a process of its own, on one of the instruction sets. After a process that was killed in the
   middle of a call, it is one made right then: it has the kernel's records that the dead one had. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../asleep.h"
#include "crossing.h"

#define PAGE 4096l
#define MS 1000000l
#define LONG (60000 * MS)
enum { PAGES = 16, LEN = PAGES * PAGE, WAIT_MS = 30, FIRSTS_MAX = 80, CHECKS_MAX = 40, PUNCH = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE };

/* What the processes have found, in memory that they share. */
static struct found {
    char name[40], begun;
    struct {
        char name[40], result[16], right;
    } after[FIRSTS_MAX];
} *found;

/* A pipe with nothing in it, and one with a byte; interest lists of these; files; a timer that does not expire; a mapping before a hole. */
static int empty[2], ready[2], list, ready_list, file, other, never, word;
static char *before_hole, *region, bytes[LEN], many[4 * LEN];
static char fifo[] = "/tmp/leftover.XXXXXX/fifo";

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 * MS + now.tv_nsec;
}

static struct timespec time_of(long ns) { return (struct timespec){ns / (1000 * MS), ns % (1000 * MS)}; }

/* The timer's signals come again and again, so that one comes after the call has begun, however slow the host is. The second one's handler
   writes a byte, for calls that are made again. */
static volatile sig_atomic_t came, wakes;

static void handler(int number) {
    (void)number;
    if (++came == 2 && wakes >= 0 && write(wakes, "x", 1) != 1) _exit(98);
}

static void begin_alarms(int flags, int wanted) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    struct itimerval often = {{0, 20000}, {0, 2000}};
    sigaction(SIGALRM, &action, 0);
    came = 0;
    wakes = wanted;
    setitimer(ITIMER_REAL, &often, 0);
}

static long end_alarms(long result) {
    static const struct itimerval none;
    int error = errno;
    setitimer(ITIMER_REAL, &none, 0);
    errno = error;
    return result;
}

#define ALARMED(flags, wanted, call) (begin_alarms(flags, wanted), end_alarms(call))

static long sleep_for(int flags, long ns) {
    struct timespec time = time_of(flags == TIMER_ABSTIME ? now_ns() + ns : ns);
    errno = clock_nanosleep(CLOCK_MONOTONIC, flags, &time, 0);
    return errno == 0 ? 0 : -1;
}

static long poll_for(int fd, long ns) {
    struct pollfd one = {fd, POLLIN, 0};
    struct timespec timeout = time_of(ns);
    sigset_t none;
    sigemptyset(&none);
    return ppoll(&one, 1, &timeout, &none);
}

static long select_for(int fd, long ns) {
    struct timeval timeout = {ns / (1000 * MS), ns % (1000 * MS) / 1000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return select(fd + 1, &set, 0, 0, &timeout);
}

static long pselect_for(long ns) {
    struct timespec timeout = time_of(ns);
    sigset_t none;
    sigemptyset(&none);
    return pselect(0, 0, 0, 0, &timeout, &none);
}

static long epoll_for(int list, long ns) {
    struct epoll_event event;
    struct timespec timeout = time_of(ns);
    return syscall(SYS_epoll_pwait2, list, &event, 1, &timeout, 0, 8);
}

static long epoll_for_ms(int ms, int is_masked) {
    struct epoll_event event;
    sigset_t none;
    sigemptyset(&none);
    return is_masked ? epoll_pwait(list, &event, 1, ms, &none) : epoll_wait(list, &event, 1, ms);
}

static long futex_for(int expected, long ns) {
    struct timespec timeout = time_of(ns);
    return syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, 0, 0);
}

static long signal_for(long ns) {
    struct timespec timeout = time_of(ns);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return syscall(SYS_rt_sigtimedwait, &set, 0, &timeout, 8); /* musl makes it again after a signal */
}

static long read_at_once(void) {
    fcntl(empty[0], F_SETFL, O_NONBLOCK);
    long got = read(empty[0], bytes, 1);
    int error = errno;
    fcntl(empty[0], F_SETFL, 0);
    errno = error;
    return got;
}

/* Writes more than there is room for: a part, when the signal comes. */
static long write_part(int flags) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    long got = ALARMED(flags, -1, write(ends[1], many, sizeof many));
    for (long left = got; left > 0;) left -= read(ends[0], many, left);
    close(ends[0]);
    close(ends[1]);
    return got > 0 && got < (long)sizeof many;
}

static long opened(const char *path, int flags) {
    int fd = open(path, flags);
    if (fd >= 0) close(fd);
    return fd < 0 ? -1 : 0;
}

/* How many bytes the names in a folder take. */
static long names(const char *path) {
    int fd = open(path, O_RDONLY);
    long got, sum = 0;
    while ((got = syscall(SYS_getdents64, fd, many, sizeof many)) > 0) sum += got;
    int error = errno;
    close(fd);
    errno = error;
    return got < 0 ? -1 : sum;
}

static long vforked(void) {
    int status = 0;
    pid_t child = vfork();
    if (child == 0) _exit(7);
    return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}

static long waited(int options) {
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | options);
}

static long forked(void) {
    if (fork() == 0) _exit(3);
    return waited(0);
}

static long shrink_heap(void) {
    long end = syscall(SYS_brk, 0), grown = syscall(SYS_brk, end + 8 * PAGE);
    if (grown != end + 8 * PAGE) return -1;
    *(char *)(end + 4 * PAGE) = 1;
    return syscall(SYS_brk, end) == end ? 0 : -1;
}

/* Makes a call, unless there are no more. */
static long first(int number, const char **name) {
#define FIRST(text, call) if (number-- == 0) return *name = text, errno = 0, (call)
    FIRST("nothing", 0);
    FIRST("nanosleep, 1 ns", sleep_for(0, 1));
    FIRST("nanosleep, 2 ms", sleep_for(0, 2 * MS));
    FIRST("nanosleep, over", sleep_for(TIMER_ABSTIME, -MS));
    FIRST("nanosleep, bad time", sleep_for(0, -1));
    FIRST("nanosleep, signal", ALARMED(0, -1, sleep_for(0, LONG)));
    FIRST("nanosleep, SA_RESTART", ALARMED(SA_RESTART, -1, sleep_for(0, LONG)));
    FIRST("poll, 0 ms", poll(0, 0, 0));
    FIRST("poll, 1 ns", poll_for(empty[0], 1));
    FIRST("poll, 1 us", poll_for(empty[0], 1000));
    FIRST("poll, 2 ms", poll_for(empty[0], 2 * MS));
    FIRST("poll, ready", poll_for(ready[0], LONG));
    FIRST("poll, bad address", poll((struct pollfd *)8, 1, 2));
    FIRST("poll, signal", ALARMED(0, -1, poll_for(empty[0], LONG)));
    FIRST("poll, SA_RESTART", ALARMED(SA_RESTART, -1, poll_for(empty[0], LONG)));
    FIRST("select, 1 us", select_for(empty[0], 1000));
    FIRST("select, 2 ms", select_for(empty[0], 2 * MS));
    FIRST("select, ready", select_for(ready[0], LONG));
    FIRST("select, no file", select_for(60, 2 * MS));
    FIRST("select, signal", ALARMED(0, -1, select_for(empty[0], LONG)));
    FIRST("pselect, 1 ns", pselect_for(1));
    FIRST("epoll, 0 ms", epoll_for_ms(0, 0));
    FIRST("epoll, 1 us", epoll_for(list, 1000));
    FIRST("epoll, 2 ms", epoll_for_ms(2, 1));
    FIRST("epoll, ready", epoll_for(ready_list, LONG));
    FIRST("epoll, signal", ALARMED(0, -1, epoll_for(list, LONG)));
    FIRST("futex, 1 ns", futex_for(0, 1));
    FIRST("futex, 2 ms", futex_for(0, 2 * MS));
    FIRST("futex, another value", futex_for(1, LONG));
    FIRST("futex, signal", ALARMED(0, -1, futex_for(0, LONG)));
    FIRST("sigtimedwait, 1 ns", signal_for(1));
    FIRST("sigtimedwait, 2 ms", signal_for(2 * MS));
    FIRST("sigtimedwait, sent", raise(SIGUSR1) == 0 && signal_for(LONG) == SIGUSR1);
    FIRST("sigtimedwait, signal", ALARMED(0, -1, signal_for(LONG)));
    FIRST("pause, signal", ALARMED(0, -1, pause()));
    FIRST("read, nothing", read_at_once());
    FIRST("read, signal", ALARMED(0, -1, read(empty[0], bytes, 1)));
    FIRST("read, SA_RESTART", ALARMED(SA_RESTART, empty[1], read(empty[0], bytes, 1)));
    FIRST("write, signal", write_part(0));
    FIRST("write, SA_RESTART", write_part(SA_RESTART));
    FIRST("timer, nothing", read(never, bytes, 8));
    FIRST("open, signal", ALARMED(0, -1, opened(fifo, O_RDONLY)));
    FIRST("open, nothing", opened("/tmp/leftover/none", O_RDONLY));
    FIRST("fallocate", fallocate(other, PUNCH, 4 * PAGE, PAGE));
    FIRST("fallocate, no file", fallocate(900, PUNCH, 0, PAGE));
    FIRST("sendfile", sendfile(other, file, &(off_t){0}, 100));
    FIRST("copy_file_range", copy_file_range(file, &(off_t){0}, other, &(off_t){0}, 100, 0));
    FIRST("getdents", names("/proc/self/fd") < 0);
    FIRST("getdents, a file", names("/proc/self/status"));
    FIRST("madvise, a hole", madvise(before_hole, LEN, MADV_DONTNEED));
    FIRST("mprotect, a hole", mprotect(before_hole, LEN, PROT_READ));
    FIRST("msync, a hole", msync(before_hole, LEN, MS_ASYNC));
    FIRST("brk", shrink_heap());
    FIRST("vfork", vforked());
    FIRST("waitid", forked());
    FIRST("waitid, nobody", waited(WNOHANG));
    *name = 0;
    return 0;
}

static long write_for_ever(void) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    while (write(ends[1], many, sizeof many) > 0) {}
    return -1;
}

static long lock_file(int command) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(file, command, &whole);
}

/* Which of the first calls is made before the one that is checked, or has been by a process that is dead; and who checks. */
static int number, checker;
static const char *killed_in;

static void begin(void) { __atomic_store_n(&found[checker].begun, 1, __ATOMIC_SEQ_CST); }

/* Waits in a call until the process is killed, if that is wanted. Returns the call's name; 0: there are no more. */
static const char *killed(int number, int is_to_wait) {
#define KILLED(text, call) if (number-- == 0) return is_to_wait && (begin(), call), text ", killed"
    KILLED("nanosleep", sleep_for(0, LONG));
    KILLED("poll", poll_for(empty[0], LONG));
    KILLED("select", select_for(empty[0], LONG));
    KILLED("epoll", epoll_for(list, LONG));
    KILLED("futex", futex_for(0, LONG));
    KILLED("sigtimedwait", signal_for(LONG));
    KILLED("pause", pause());
    KILLED("read", read(empty[0], bytes, 1));
    KILLED("write", write_for_ever());
    KILLED("open", opened(fifo, O_RDONLY));
    KILLED("fcntl", lock_file(F_SETLKW));
    return 0;
}

/* Has a process be killed in the middle of a call. (Before it, it may sleep for other reasons.) */
static void kill_in_call(int number) {
    __atomic_store_n(&found[checker].begun, 0, __ATOMIC_SEQ_CST);
    pid_t child = fork();
    if (child == 0) {
        killed(number, 1);
        _exit(0);
    }
    while (!__atomic_load_n(&found[checker].begun, __ATOMIC_SEQ_CST)) usleep(500);
    until_asleep(child);
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}

static const char *shown(long result) {
    static char text[16];
    sprintf(text, "%ld", result);
    if (result != -1) return text;
    switch (errno) {
    case EAGAIN: return "EAGAIN";
    case EBADF: return "EBADF";
    case ECHILD: return "ECHILD";
    case EFAULT: return "EFAULT";
    case EINTR: return "EINTR";
    case EINVAL: return "EINVAL";
    case ENOENT: return "ENOENT";
    case ENOMEM: return "ENOMEM";
    case ENOTDIR: return "ENOTDIR";
    case ETIMEDOUT: return "ETIMEDOUT";
    default: return strerror(errno);
    }
}

static void note_first(const char *name, const char *result) {
    strcpy(found[checker].after[number].result, result);
    strcpy(found[checker].after[number].name, name);
}

static long make_first(void) {
    if (killed_in != 0) {
        note_first(killed_in, "dead");
        return now_ns();
    }
    const char *name;
    long result = first(number, &name);
    if (name != 0) note_first(name, shown(result));
    return now_ns();
}

/* The file's bytes, and the mapping's, are 7. */
static int is_filled(void) {
    memset(bytes, 7, LEN);
    memset(region, 7, LEN);
    return pwrite(file, bytes, LEN, 0) == LEN && ftruncate(file, LEN) == 0;
}

/* Whether they are still 7, but 0 from one page to another. */
static int has_hole(const char *bytes, long page, long end) {
    for (long at = 0; at < LEN; at++)
        if (bytes[at] != (at >= page * PAGE && at < end * PAGE ? 0 : 7)) return 0;
    return 1;
}

static int file_has_hole(int file, long page, long end) {
    memset(bytes, 1, LEN);
    return pread(file, bytes, LEN, 0) == LEN && has_hole(bytes, page, end);
}

/* Zeroes a page, by a hole where the file system does not do it otherwise. */
static int is_zeroed(void) {
    int done = fallocate(file, FALLOC_FL_ZERO_RANGE, PAGE, PAGE) == 0;
    return (done || (errno == EOPNOTSUPP && fallocate(file, PUNCH, PAGE, PAGE) == 0)) && file_has_hole(file, 1, 2);
}

static int is_writable(int page) { return pread(file, region + page * PAGE, 1, 0) == 1; }

static int is_protected(int pages) {
    int done = mprotect(region + PAGE, pages * PAGE, PROT_READ) == 0, right = 1;
    for (int page = 0; page < PAGES; page++) right &= is_writable(page) == (page < 1 || page > pages);
    return mprotect(region, LEN, PROT_READ | PROT_WRITE) == 0 && done && right;
}

/* A child finds zeroes in a page, and what was written in the others. */
static int is_wiped(void) {
    int status = -1, done = madvise(region + PAGE, PAGE, MADV_WIPEONFORK) == 0;
    pid_t child = fork();
    if (child == 0) _exit(!has_hole(region, 1, 2));
    waitpid(child, &status, 0);
    return madvise(region, LEN, MADV_KEEPONFORK) == 0 && done && status == 0;
}

static int is_moved(long moved) { return moved == LEN && file_has_hole(other, 0, 0); }

static int is_read(void) {
    bytes[0] = 0;
    return ALARMED(SA_RESTART, empty[1], read(empty[0], bytes, 2)) == 1 && bytes[0] == 'x' && came >= 2;
}

static int are_closed(void) {
    int open = 0;
    if (syscall(SYS_close_range, 100, 105, 0) != 0) return 0;
    for (int fd = 90; fd < 110; fd++) open += fcntl(fd, F_GETFD) >= 0;
    for (int fd = 90; fd < 110; fd++) close(fd);
    return open == 14;
}

static int are_open(void) {
    for (int fd = 90; fd < 110; fd++) dup2(file, fd);
    return 1;
}

static int is_timer_set(int timer) {
    struct itimerspec once = {{0, 0}, {0, WAIT_MS * MS}};
    return timerfd_settime(timer, 0, &once, 0) == 0;
}

/* Whether a call does what it should after a first one; -1: there are no more. */
static int check(int number, const char **name) {
    static long begun_ns, all;
    static int timer;
    if (timer == 0) timer = timerfd_create(CLOCK_MONOTONIC, 0);
#define CHECK(text, prepared, right) if (number-- == 0) return *name = text, (prepared) && (begun_ns = make_first(), errno = 0, (right))
#define WAIT(text, right) CHECK(text, 1, (right) && now_ns() - begun_ns >= (WAIT_MS - 1) * MS)
    WAIT("nanosleep", sleep_for(0, WAIT_MS * MS) == 0);
    WAIT("nanosleep until then", sleep_for(TIMER_ABSTIME, WAIT_MS * MS) == 0);
    WAIT("poll", poll(0, 0, WAIT_MS) == 0);
    WAIT("ppoll", poll_for(empty[0], WAIT_MS * MS) == 0);
    WAIT("select", select_for(empty[0], WAIT_MS * MS) == 0);
    WAIT("pselect", pselect_for(WAIT_MS * MS) == 0);
    WAIT("epoll_wait", epoll_for_ms(WAIT_MS, 0) == 0);
    WAIT("epoll_pwait", epoll_for_ms(WAIT_MS, 1) == 0);
    WAIT("epoll_pwait2", epoll_for(list, WAIT_MS * MS) == 0);
    WAIT("futex", futex_for(0, WAIT_MS * MS) == -1 && errno == ETIMEDOUT);
    WAIT("sigtimedwait", signal_for(WAIT_MS * MS) == -1 && errno == EAGAIN);
    WAIT("a timer", is_timer_set(timer) && read(timer, bytes, 8) == 8);
    CHECK("reading a pipe", 1, is_read());
    CHECK("writing a pipe", 1, write_part(SA_RESTART));
    CHECK("a hole", is_filled(), fallocate(file, PUNCH, PAGE, PAGE) == 0 && file_has_hole(file, 1, 2));
    CHECK("zeroes", is_filled(), is_zeroed());
    CHECK("madvise", is_filled(), madvise(region + PAGE, PAGE, MADV_DONTNEED) == 0 && has_hole(region, 1, 2));
    CHECK("madvise for forks", is_filled(), is_wiped());
    CHECK("mprotect", is_filled(), is_protected(2));
    CHECK("mprotect of nothing", is_filled(), is_protected(0));
    CHECK("msync", is_filled(), msync(region, LEN, MS_SYNC) == 0);
    CHECK("mincore", is_filled(), mincore(region, LEN, (void *)bytes) == 0 && bytes[PAGES - 1] == 1);
    CHECK("brk", 1, shrink_heap() == 0);
    CHECK("pread", is_filled(), file_has_hole(file, 0, 0));
    CHECK("pwrite", is_filled(), pwrite(other, region, LEN, 0) == LEN && file_has_hole(other, 0, 0));
    CHECK("sendfile", is_filled(), is_moved(sendfile(other, file, &(off_t){lseek(other, 0, SEEK_SET)}, LEN)));
    CHECK("copy_file_range", is_filled(), is_moved(copy_file_range(file, &(off_t){0}, other, &(off_t){0}, LEN, 0)));
    CHECK("getdents", (all = names("/proc/self/fd")) > 0, names("/proc/self/fd") == all);
    CHECK("close_range", are_open(), are_closed());
    CHECK("vfork", 1, vforked() == 7);
    CHECK("waitid", 1, forked() == 0);
    *name = 0;
    return -1;
}

/* Checks one call after all first ones. */
static void check_all(void) {
    const char *name;
    for (number = 0; number < FIRSTS_MAX; number++) {
        found[checker].after[number].right = (char)check(checker, &name);
        if (found[checker].after[number].name[0] == 0) break;
        strcpy(found[checker].name, name);
    }
    lock_file(F_SETLK);
    for (int way = 0; killed(way, 0) != 0; way++, number++) {
        kill_in_call(way);
        pid_t child = fork();
        if (child == 0) {
            killed_in = killed(way, 0);
            found[checker].after[number].right = (char)check(checker, &name);
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
}

MOTET_ON(X86) void check_on_x86(void) { expect_on(X86); check_all(); }
MOTET_ON(ARM) void check_on_arm(void) { expect_on(ARM); check_all(); }
MOTET_ON(RISCV) void check_on_riscv(void) { expect_on(RISCV); check_all(); }

/* What a process has of its own. */
static void set_up(void) {
    struct epoll_event event = {.events = EPOLLIN};
    struct itimerspec late = {{0, 0}, {1000, 0}};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    if (pipe(empty) != 0 || pipe(ready) != 0 || write(ready[1], "", 1) != 1) exit(97);
    list = epoll_create1(0);
    ready_list = epoll_create1(0);
    epoll_ctl(list, EPOLL_CTL_ADD, empty[0], &event);
    epoll_ctl(ready_list, EPOLL_CTL_ADD, ready[0], &event);
    file = memfd_create("file", 0);
    other = memfd_create("other", 0);
    never = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    timerfd_settime(never, 0, &late, 0);
    before_hole = mmap(0, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    region = mmap(0, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(before_hole + 4 * PAGE, LEN - 4 * PAGE);
    if (!is_filled()) exit(96);
}

int main(void) {
    static void (*const on[])(void) = {check_on_x86, check_on_arm, check_on_riscv};
    char *name = strrchr(fifo, '/');
    int failed = 0, status;
    *name = 0;
    if (mkdtemp(fifo) == 0) return 1;
    *name = '/';
    if (mkfifo(fifo, 0600) != 0) return 1;
    found = mmap(0, CHECKS_MAX * sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (checker = 0; checker < CHECKS_MAX; checker++)
        if (fork() == 0) {
            set_up();
            on[checker % 3]();
            _exit(0);
        }
    while (wait(&status) > 0) failed += status != 0;
    unlink(fifo);
    *name = 0;
    rmdir(fifo);
    printf("%d processes have failed\n", failed);
    for (number = 0; number < FIRSTS_MAX && found[0].after[number].name[0] != 0; number++) {
        printf("%s: %s", found[0].after[number].name, found[0].after[number].result);
        for (checker = 0; checker < CHECKS_MAX && found[checker].name[0] != 0; checker++) {
            const char *result = found[checker].after[number].result;
            if (strcmp(result, found[0].after[number].result) != 0) printf(", %s before %s", result, found[checker].name);
            if (found[checker].after[number].right != 1) printf(", wrong after it: %s", found[checker].name);
        }
        printf("\n");
    }
    for (checker = 0; checker < CHECKS_MAX && found[checker].name[0] != 0; checker++) printf("%s checked\n", found[checker].name);
    return failed != 0;
}
