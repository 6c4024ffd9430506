/* Pseudo-terminals: masters and terminals, the line discipline, job control. */
#include "conform.h"
#include <termios.h>

/* Some libraries have other names for the kernel's structure, or other numbers of its calls. */
#undef TCGETS
#undef TCSETS
#undef TCSETSW
#undef TCSETSF
#define TCGETS 0x5401
#define TCSETS 0x5402
#define TCSETSW 0x5403
#define TCSETSF 0x5404
#undef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#undef TIOCGPTLCK
#define TIOCGPTLCK 0x80045439
#undef TIOCGPKT
#define TIOCGPKT 0x80045438
#undef TIOCGEXCL
#define TIOCGEXCL 0x80045440
#undef TIOCSIG
#define TIOCSIG 0x40045436
#undef TIOCGDEV
#define TIOCGDEV 0x80045432
#undef TIOCGLCKTRMIOS
#define TIOCGLCKTRMIOS 0x5456
#ifndef TIOCPKT_FLUSHREAD
#define TIOCPKT_FLUSHREAD 1
#endif
#ifndef TIOCPKT_FLUSHWRITE
#define TIOCPKT_FLUSHWRITE 2
#endif
#ifndef TIOCPKT_STOP
#define TIOCPKT_STOP 4
#endif
#ifndef TIOCPKT_START
#define TIOCPKT_START 8
#endif
#ifndef TIOCPKT_NOSTOP
#define TIOCPKT_NOSTOP 16
#endif
#ifndef TIOCPKT_DOSTOP
#define TIOCPKT_DOSTOP 32
#endif

/* The kernel's `struct termios`. */
struct attributes { unsigned flags[4]; unsigned char line, control[19]; };
enum { INPUT, OUTPUT, CONTROL, LOCAL };

enum { M = 40, S };
static int number;
static char name[32];
/* What another process says. */
static char *told;

static void tell(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    vsprintf(told + strlen(told), format, rest);
    va_end(rest);
}
static const char *outcome(long value) {
    static char text[32];
    if (value < 0) return errno_name(errno);
    sprintf(text, "%ld", value);
    return text;
}

/* A pseudo-terminal whose master is M. */
static void master(int flags) {
    int unlocked = 0;
    told = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | flags);
    if (fd < 0 || dup2(fd, M) != M || close(fd) || ioctl(M, TIOCGPTN, &number) || ioctl(M, TIOCSPTLCK, &unlocked)) { result(-1); end(); }
    sprintf(name, "/dev/pts/%d", number);
}
static void open_slave(int flags) {
    int fd = open(name, O_RDWR | flags);
    if (fd < 0 || dup2(fd, S) != S || close(fd)) { result(-1); end(); }
}
/* And whose terminal is S. */
static void both(void) { master(0); open_slave(O_NOCTTY); }

static void set_local(unsigned on, unsigned off) {
    struct attributes all;
    ioctl(S, TCGETS, &all);
    all.flags[LOCAL] = (all.flags[LOCAL] | on) & ~off;
    ioctl(S, TCSETS, &all);
}
/* Raw, with a least number of bytes and a time in tenths of a second. */
static void raw_mode(int least, int tenths) {
    struct attributes all;
    ioctl(S, TCGETS, &all);
    all.flags[INPUT] = all.flags[OUTPUT] = all.flags[LOCAL] = 0;
    all.control[VMIN] = least, all.control[VTIME] = tenths;
    ioctl(S, TCSETS, &all);
}

static void show_text(const char *text, long len) {
    say(" '");
    for (long i = 0; i < len; i++) say(text[i] >= ' ' && text[i] < 127 ? "%c" : "\\%o", (unsigned char)text[i]);
    say("'");
}
/* What can be read, in one call. Linux passes on what is written a little later; on a busy computer, much later. */
enum { LATER_MS = 200 };
static void reads(int fd) {
    char text[512];
    struct pollfd one = {fd, POLLIN, 0};
    int ready = poll(&one, 1, LATER_MS);
    if (ready == 0) { say(" nothing"); return; }
    long len = read(fd, text, sizeof text);
    if (len < 0) result(len); else show_text(text, len);
}
static void put(int fd, const char *text) {
    if (write(fd, text, strlen(text)) != (long)strlen(text)) result(-1);
    usleep(LATER_MS * 1000);
}
/* The next packet, which says that something has been done. */
static void tells(int what) {
    char told[9];
    long len = read(M, told, sizeof told);
    show_text(told, len > 0 ? len : 0);
    if (len != 1 || told[0] != what) say(" is not %d", what);
}
static void types(const char *text) { put(M, text); }
static void shows(const char *text) { put(S, text); }
static void readiness(int fd) {
    struct pollfd one = {fd, POLLIN | POLLOUT | POLLPRI, 0};
    poll(&one, 1, 0);
    say(" | %x", one.revents);
}
static void show_int(int fd, unsigned long request) {
    int value = -1;
    result(ioctl(fd, request, &value));
    say(":%d", value);
}

static void names(void) {
    T(openat, "a master, and its terminal before it is unlocked", {
        master(0);
        int locked = 1;
        result(ioctl(M, TIOCSPTLCK, &locked)); show_int(M, TIOCGPTLCK);
        result(open(name, O_RDWR | O_NOCTTY));
        result(ioctl(M, TIOCGPTPEER, O_RDWR | O_NOCTTY));
        locked = 0;
        result(ioctl(M, TIOCSPTLCK, &locked)); show_int(M, TIOCGPTLCK);
        some(open(name, O_RDWR | O_NOCTTY)); some(ioctl(M, TIOCGPTPEER, O_RDWR | O_NOCTTY)); })
    T(openat, "what the nodes are", {
        both();
        struct stat of; struct stat by;
        fstat(S, &of); stat(name, &by);
        say(" | %d %d %d same %d", S_ISCHR(of.st_mode), (int)(of.st_rdev >> 8), (int)(of.st_rdev & 255) == number, of.st_ino == by.st_ino);
        say(" mine %d mode %o", of.st_uid == getuid(), of.st_mode & 0707);
        fstat(M, &of);
        say(" | master %d %d:%d", S_ISCHR(of.st_mode), (int)(of.st_rdev >> 8), (int)(of.st_rdev & 255));
        say(" | %d %d", isatty(M), isatty(S));
        char at[64]; char link[64];
        sprintf(link, "/proc/self/fd/%d", S);
        long len = readlink(link, at, sizeof at);
        say(" %d", len == (long)strlen(name) && !memcmp(at, name, len));
        len = readlink("/proc/self/fd/40", at, sizeof at);
        show_text(at, len); })
    T(fchmod, "a terminal", { both(); result(fchmod(S, 0640)); struct stat of; stat(name, &of); say(" | %o", of.st_mode); result(fchown(S, 0, -1)); result(fchown(S, getuid(), -1)); })
    T(openat, "a terminal by another user", {
        both(); fchmod(S, 0600);
        pid_t child = fork();
        if (child == 0) { if (setresuid(1001, 1001, 1001)) tell("%s", errno_name(errno)); tell(" %s", outcome(open(name, O_RDWR | O_NOCTTY))); _exit(0); }
        waitpid(child, 0, 0); say(" | %s", told); })
    R(openat, "a terminal by another user", {
        both(); fchmod(S, 0600);
        pid_t child = fork();
        if (child == 0) { if (setresuid(1001, 1001, 1001)) tell("%s", errno_name(errno)); tell(" %s", outcome(open(name, O_RDWR | O_NOCTTY))); _exit(0); }
        waitpid(child, 0, 0); say(" | %s", told); })
    T(openat, "a terminal whose master is closed", { both(); close(M); result(open(name, O_RDWR)); result(ioctl(S, TCGETS, buffer)); result(ioctl(S, TIOCSPGRP, buffer)); })
    T(openat, "a terminal by its link", { both(); char link[64]; sprintf(link, "/proc/self/fd/%d", S); int fd = open(link, O_RDWR | O_NOCTTY); some(fd); types("x\n"); reads(fd); })
    T(openat, "/dev/tty without one", { pid_t child = fork(); master(0); if (child == 0) { setsid(); _exit(open("/dev/tty", O_RDWR) < 0 ? errno : 0); } int status; waitpid(child, &status, 0); say(" | %s", errno_name(WEXITSTATUS(status))); })
    T(openat, "two masters", { master(0); int first = number; int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY); int other = -1; ioctl(fd, TIOCGPTN, &other); say(" | %d", first != other); })
    T(ioctl, "TIOCEXCL", { both(); result(ioctl(S, TIOCEXCL, 0)); show_int(S, TIOCGEXCL); result(open(name, O_RDWR | O_NOCTTY)); result(ioctl(S, TIOCNXCL, 0)); some(open(name, O_RDWR | O_NOCTTY)); })
    T(ioctl, "requests of masters on a terminal", { both(); show_int(S, TIOCGPTN); show_int(S, TIOCSPTLCK); show_int(S, TIOCPKT); show_int(S, TIOCGPTLCK); result(ioctl(S, TIOCGPTPEER, O_RDWR)); })
    T(ioctl, "bad addresses", { both(); result(ioctl(M, TIOCGPTN, BAD)); result(ioctl(M, TIOCSPTLCK, BAD)); result(ioctl(M, TIOCPKT, BAD)); result(ioctl(S, TCGETS, BAD)); result(ioctl(S, TCSETS, BAD)); result(ioctl(S, TIOCGWINSZ, BAD)); result(ioctl(S, TIOCSWINSZ, BAD)); })
    T(lseek, "a terminal", { both(); result(lseek(S, 0, SEEK_SET)); result(lseek(M, 0, SEEK_CUR)); result(pread(S, buffer, 1, 0)); })
    T(mmap, "a terminal", { both(); result((long)mmap(0, PAGE, PROT_READ, MAP_SHARED, S, 0)); })
}

static void discipline(void) {
    T(ioctl, "what a terminal is set to first", {
        both();
        struct attributes all; ioctl(S, TCGETS, &all);
        for (int i = 0; i < 4; i++) say(" %x", all.flags[i]);
        show_bytes(all.control, 17);
        ioctl(M, TCGETS, &all); say(" | master %x", all.flags[LOCAL]);
        struct winsize size; result(ioctl(S, TIOCGWINSZ, &size)); say(":%d %d", size.ws_row, size.ws_col); })
    T(read, "lines", { both(); types("one\ntwo\n"); reads(M); reads(S); reads(S); reads(S); })
    T(read, "a line in pieces", { both(); types("abcdef\n"); char part[4]; long len = read(S, part, 4); show_text(part, len); reads(S); })
    T(read, "a line that is not finished", { both(); types("abc"); readiness(S); reads(M); types("\n"); readiness(S); reads(S); })
    T(read, "erased, word-erased and killed", { both(); types("abc\177X\027new word\025line\n"); reads(M); reads(S); })
    T(read, "erased beyond its beginning", { both(); types("a\177\177\177b\n"); reads(M); reads(S); })
    T(read, "a quoted character", { both(); types("a\026\003z\n"); reads(M); reads(S); })
    T(read, "a quoted end of line", { both(); types("a\026\nz\n"); reads(M); reads(S); })
    T(read, "reprinted", { both(); types("ab\022c\n"); reads(M); reads(S); })
    T(read, "the end of a file", { both(); types("abc\004"); reads(S); types("\004"); reads(S); reads(M); reads(S); })
    T(read, "a carriage return", { both(); types("x\ry\n"); reads(M); reads(S); reads(S); })
    T(read, "control characters", { both(); types("\001\033[A\t\n"); reads(M); reads(S); })
    T(read, "without echo", { both(); set_local(0, ECHO); types("secret\n"); reads(M); reads(S); })
    T(read, "echo of the end of line alone", { both(); set_local(ECHONL, ECHO); types("secret\n"); reads(M); reads(S); })
    T(read, "what was typed as a line, raw", { both(); types("ab"); raw_mode(1, 0); reads(S); types("c"); reads(S); })
    T(read, "what was typed raw, as a line", { both(); raw_mode(1, 0); types("ab"); set_local(ICANON, 0); readiness(S); reads(S); })
    T(read, "dropped by TCSETSF", { both(); types("ab\n"); struct attributes all; ioctl(S, TCGETS, &all); result(ioctl(S, TCSETSF, &all)); reads(S); })
    T(write, "processed output", { both(); result(write(S, "out\nput\ttab\r", 12)); reads(M); raw_mode(1, 0); result(write(S, "a\n", 2)); reads(M); })
    T(write, "carriage returns become newlines", { both(); struct attributes all; ioctl(S, TCGETS, &all); all.flags[OUTPUT] = OPOST | OCRNL; ioctl(S, TCSETS, &all); shows("a\rb\n"); reads(M); })
    T(read, "raw, nothing there", { both(); raw_mode(0, 0); result(read(S, buffer, 9)); fcntl(S, F_SETFL, O_NONBLOCK); result(read(S, buffer, 9)); raw_mode(1, 0); result(read(S, buffer, 9)); })
    T(read, "raw, with a time", { both(); raw_mode(0, 1); result(read(S, buffer, 9)); types("ab"); result(read(S, buffer, 9)); })
    T(read, "raw, until there is enough", { both(); raw_mode(3, 0); types("ab"); readiness(S); if (fork() == 0) { usleep(50000); types("cd"); _exit(0); } result(read(S, buffer, 9)); })
    T(read, "raw, until nothing comes for a time", { both(); raw_mode(3, 1); types("ab"); readiness(S); result(read(S, buffer, 9)); })
    T(read, "raw, fewer than are awaited, not waiting", { both(); raw_mode(3, 0); fcntl(S, F_SETFL, O_NONBLOCK); result(read(S, buffer, 9)); types("ab"); result(read(S, buffer, 9)); })
    T(read, "a line, not waiting", { both(); fcntl(S, F_SETFL, O_NONBLOCK); result(read(S, buffer, 9)); types("ab"); result(read(S, buffer, 9)); types("\n"); result(read(S, buffer, 9)); })
    T(read, "interrupted", { both(); struct itimerval soon = {{0, 0}, {0, 50000}}; pid_t child = fork(); if (child == 0) { signal(SIGALRM, SIG_DFL); setitimer(ITIMER_REAL, &soon, 0); read(S, buffer, 1); _exit(0); } int status; waitpid(child, &status, 0); say(" | %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0); })
    T(ioctl, "FIONREAD", { both(); types("ab\ncd\n"); show_int(S, FIONREAD); show_int(M, FIONREAD); types("e"); show_int(S, FIONREAD); shows("x"); show_int(M, FIONREAD); show_int(S, TIOCOUTQ); show_int(M, TIOCOUTQ); })
    T(ioctl, "TCFLSH", { both(); set_local(0, ECHO); types("ab\n"); shows("x"); result(ioctl(S, TCFLSH, TCOFLUSH)); reads(M); result(ioctl(S, TCFLSH, TCIFLUSH)); reads(S); result(ioctl(S, TCFLSH, 3)); types("cd\n"); shows("y"); result(ioctl(M, TCFLSH, TCIFLUSH)); reads(M); reads(S); })
    T(ioctl, "TCXONC", { both(); result(ioctl(S, TCXONC, TCOOFF)); fcntl(S, F_SETFL, O_NONBLOCK); result(write(S, "x", 1)); readiness(S); result(ioctl(S, TCXONC, TCOON)); result(write(S, "x", 1)); readiness(S); result(ioctl(S, TCXONC, 4)); result(ioctl(S, TCXONC, TCIOFF)); result(ioctl(S, TCXONC, TCION)); usleep(LATER_MS * 1000); reads(M); })
    T(ioctl, "stopped and started by keys", { both(); types("\023"); fcntl(S, F_SETFL, O_NONBLOCK); result(write(S, "x", 1)); types("\021"); result(write(S, "x", 1)); reads(M); reads(S); })
    T(ioctl, "TCSBRK", { both(); shows("unread"); result(ioctl(S, TCSBRK, 1)); result(ioctl(S, TCSBRK, 0)); result(ioctl(S, TCSBRKP, 0)); result(ioctl(S, TCSETSW, ({ struct attributes all; ioctl(S, TCGETS, &all); static struct attributes kept; kept = all; &kept; }))); })
    T(ioctl, "disciplines", { both(); show_int(S, TIOCGETD); int other = 77; int same = 0; result(ioctl(S, TIOCSETD, &other)); result(ioctl(S, TIOCSETD, &same)); result(ioctl(S, TIOCSETD, BAD)); })
    T(ioctl, "TIOCSTI", { both(); result(ioctl(S, TIOCSTI, "x")); reads(S); })
    T(ioctl, "TIOCGDEV", { both(); int device = 0; result(ioctl(S, TIOCGDEV, &device)); say(" %d:%d", device >> 8, (device & 255) == number); result(ioctl(M, TIOCGDEV, &device)); say(" %d:%d", device >> 8, (device & 255) == number); })
    T(ioctl, "attributes that are locked", { both(); memset(buffer, 1, 40); result(ioctl(S, TIOCGLCKTRMIOS, buffer)); show_bytes(buffer, 36); })
    T(ioctl, "what is none of a terminal's", { both(); result(ioctl(S, 0x5480, 0)); result(ioctl(M, 0x5480, 0)); })
    T(ioctl, "sizes", { both(); struct winsize size = {24, 80, 5, 6}; result(ioctl(S, TIOCSWINSZ, &size)); memset(&size, 0, sizeof size); result(ioctl(M, TIOCGWINSZ, &size)); say(":%d %d %d %d", size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel); size.ws_row = 50; result(ioctl(M, TIOCSWINSZ, &size)); ioctl(S, TIOCGWINSZ, &size); say(":%d", size.ws_row); })
    T(ioctl, "packets", {
        both(); int on = 1; int off = 0;
        show_int(M, TIOCGPKT); result(ioctl(M, TIOCPKT, &on)); show_int(M, TIOCGPKT);
        shows("pk"); readiness(M); reads(M);
        ioctl(S, TCFLSH, TCIFLUSH); readiness(M); tells(TIOCPKT_FLUSHREAD);
        ioctl(S, TCXONC, TCOOFF); tells(TIOCPKT_STOP); ioctl(S, TCXONC, TCOON); tells(TIOCPKT_START);
        raw_mode(1, 0); tells(TIOCPKT_NOSTOP);
        struct attributes all; ioctl(S, TCGETS, &all); all.flags[INPUT] = IXON; ioctl(S, TCSETS, &all); tells(TIOCPKT_DOSTOP);
        set_local(ECHO, 0); types("x"); reads(M);
        result(ioctl(M, TIOCPKT, &off)); shows("end"); reads(M); })
    T(ioctl, "packets: a signal's key", { both(); int on = 1; ioctl(M, TIOCPKT, &on); types("ab\003"); tells(TIOCPKT_FLUSHREAD | TIOCPKT_FLUSHWRITE); reads(M); reads(M); reads(S); })
}

static void ends(void) {
    T(read, "a master before its terminal is opened", { master(O_NONBLOCK); readiness(M); result(read(M, buffer, 9)); types("early\n"); open_slave(O_NOCTTY); reads(S); reads(M); })
    T(read, "a master whose terminal is closed", { both(); shows("last"); readiness(M); close(S); readiness(M); reads(M); readiness(M); result(read(M, buffer, 9)); types("x"); open_slave(O_NOCTTY); readiness(M); shows("again"); reads(M); })
    T(read, "a terminal whose master is closed", { both(); types("unread\n"); close(M); readiness(S); result(read(S, buffer, 9)); result(write(S, "x", 1)); })
    T(read, "a master, not waiting", { both(); fcntl(M, F_SETFL, O_NONBLOCK); result(read(M, buffer, 9)); })
    T(read, "a master until its terminal is closed", { both(); if (fork() == 0) { usleep(50000); _exit(0); } close(S); result(read(M, buffer, 9)); })
    T(read, "a terminal until its master is closed", { both(); pid_t child = fork(); if (child == 0) { close(M); tell("%s", outcome(read(S, buffer, 9))); _exit(0); } until_asleep(child); close(M); waitpid(child, 0, 0); say(" | %s", told); })
    T(write, "a terminal that is full, until its master is closed", { both(); pid_t child = fork(); if (child == 0) { close(M); long len; while ((len = write(S, buffer, 1000)) > 0) {} tell("%s", outcome(len)); _exit(0); } until_asleep(child); close(M); waitpid(child, 0, 0); say(" | %s", told); })
    T(write, "a terminal that is full", { both(); fcntl(S, F_SETFL, O_NONBLOCK); long len; while ((len = write(S, buffer, 1000)) > 0) {} result(len); readiness(S); for (int i = 0; i < 200; i++) { struct pollfd one = {M, POLLIN, 0}; if (poll(&one, 1, 0) == 1) read(M, buffer, 4096); } readiness(S); })
    T(write, "a full terminal that is read later", { both(); raw_mode(1, 0); pid_t child = fork(); if (child == 0) { long sum = 0; for (int i = 0; i < 200; i++) sum += write(S, buffer, 1000); tell("%ld", sum); _exit(0); } close(S); long sum = 0; long len; while ((len = read(M, buffer, 4096)) > 0) sum += len; result(len); waitpid(child, 0, 0); say(" | %s %ld", told, sum); })
    T(write, "a master whose terminal is read later", { both(); raw_mode(1, 0); pid_t child = fork(); if (child == 0) { long sum = 0; for (int i = 0; i < 200; i++) sum += write(M, buffer, 1000); tell("%ld", sum); _exit(0); } long sum = 0; while (sum < 200000) sum += read(S, buffer, 4096); waitpid(child, 0, 0); say(" | %s %ld", told, sum); })
    T(epoll_pwait, "both sides of a terminal", {
        both();
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 1}; struct epoll_event found[4];
        int list = epoll_create1(0);
        epoll_ctl(list, EPOLL_CTL_ADD, M, &event); event.data.u64 = 2; epoll_ctl(list, EPOLL_CTL_ADD, S, &event);
        say(" | %d", epoll_wait(list, found, 4, 0));
        shows("x"); say(" | %d", epoll_wait(list, found, 4, 0)); say(":%x %d", found[0].events, (int)found[0].data.u64);
        say(" | %d", epoll_wait(list, found, 4, 0));
        set_local(0, ECHO); types("x\n"); say(" | %d", epoll_wait(list, found, 4, 0)); say(":%x %d", found[0].events, (int)found[0].data.u64);
        close(M); say(" | %d", epoll_wait(list, found, 4, 0)); say(":%x %d", found[0].events, (int)found[0].data.u64); })
    T(pselect6, "both sides of a terminal", { both(); fd_set in; fd_set out; struct timeval none = {0, 0}; FD_ZERO(&in); FD_ZERO(&out); FD_SET(M, &in); FD_SET(S, &in); FD_SET(M, &out); FD_SET(S, &out); say(" | %d", select(S + 1, &in, &out, 0, &none)); types("x\n"); FD_SET(M, &in); FD_SET(S, &in); say(" | %d %d %d", select(S + 1, &in, 0, 0, &none), FD_ISSET(M, &in), FD_ISSET(S, &in)); })
    T(dup, "the last of a terminal", { both(); int other = dup(S); close(S); readiness(M); close(other); readiness(M); })
}

/* Runs something in a session of its own, which the terminal controls, and says what it tells. */
static void led(void (*leader)(void), void (*meanwhile)(pid_t)) {
    master(0);
    pid_t child = fork();
    if (child == 0) {
        setsid();
        open_slave(0);
        close(M);
        leader();
        _exit(0);
    }
    if (meanwhile) meanwhile(child);
    int status;
    waitpid(child, &status, 0);
    say(" | %s", told);
    if (WIFSIGNALED(status)) say(" killed by %d", WTERMSIG(status));
}
static void ready(void) { write(S, "r", 1); }
static void when_ready(void) { char byte; read(M, &byte, 1); }
static volatile int handled;
static void note(int signal) { handled = signal; }
static void waits_for(int signal) {
    struct sigaction action = {.sa_handler = note};
    sigset_t set; sigset_t before;
    sigemptyset(&set); sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, &before);
    sigaction(signal, &action, 0);
    ready();
    while (!handled) sigsuspend(&before);
    tell("signal %d", handled);
}
static void waits_for_int(void) { waits_for(SIGINT); }
static void waits_for_quit(void) { waits_for(SIGQUIT); }
static void waits_for_winch(void) { waits_for(SIGWINCH); }
static void waits_for_hup(void) { waits_for(SIGHUP); }
static void types_int(pid_t child) { (void)child; when_ready(); types("partial\003"); }
static void types_quit(pid_t child) { (void)child; when_ready(); types("\034"); }
static void sends_int(pid_t child) { (void)child; when_ready(); result(ioctl(M, TIOCSIG, SIGINT)); result(ioctl(M, TIOCSIG, SIGTERM)); }
static void resizes(pid_t child) { (void)child; when_ready(); struct winsize size = {9, 9, 0, 0}; ioctl(M, TIOCSWINSZ, &size); }
static void hangs_up(pid_t child) { (void)child; when_ready(); close(M); }
static void sleeps(void) { ready(); for (;;) pause(); }

static int status;
static void in_background(void (*act)(void)) {
    pid_t child = fork();
    if (child == 0) { setpgid(0, 0); act(); _exit(0); }
    setpgid(child, child);
    waitpid(child, &status, WUNTRACED);
    tell(WIFSTOPPED(status) ? " stopped by %d" : " ended with %d", WIFSTOPPED(status) ? WSTOPSIG(status) : WEXITSTATUS(status));
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}
static void reads_terminal(void) { tell(" read %s", outcome(read(S, buffer, 1))); }
static void writes_terminal(void) { tell(" write %s", outcome(write(S, "x", 1))); }
static void sets_terminal(void) { struct attributes all; ioctl(S, TCGETS, &all); tell(" set %s", outcome(ioctl(S, TCSETS, &all))); }
static void takes_terminal(void) { int own = getpid(); tell(" take %s", outcome(ioctl(S, TIOCSPGRP, &own))); }
static void flushes_terminal(void) { tell(" flush %s", outcome(ioctl(S, TCFLSH, 0))); }
static void ignoring(void) { signal(SIGTTIN, SIG_IGN); signal(SIGTTOU, SIG_IGN); reads_terminal(); sets_terminal(); }
static void blocking(void) { sigset_t set; sigfillset(&set); sigprocmask(SIG_BLOCK, &set, 0); reads_terminal(); sets_terminal(); takes_terminal(); sigpending(&set); tell(" pending %d", sigismember(&set, SIGTTOU)); }
static void background(void) { in_background(reads_terminal); in_background(writes_terminal); in_background(sets_terminal); in_background(takes_terminal); in_background(flushes_terminal); in_background(ignoring); }
static void background_stopped_output(void) { set_local(TOSTOP, 0); in_background(writes_terminal); }
static void taking(void) { in_background(blocking); }
static void numbers_of(void) {
    int group = -1; int session = -1; int master_group = -1;
    tell("%s", outcome(ioctl(S, TIOCGPGRP, &group))); tell(" %s", outcome(ioctl(S, TIOCGSID, &session)));
    tell(" %d %d", group == getpid(), session == getpid());
    int tty = open("/dev/tty", O_RDWR);
    tell(" %d", tty >= 0); ioctl(tty, TIOCGPGRP, &master_group); tell(" %d", master_group == group);
    char text[512]; int stat = open("/proc/self/stat", O_RDONLY); long len = read(stat, text, 511); text[len > 0 ? len : 0] = 0;
    int device = 0; int foreground = 0;
    sscanf(strrchr(text, ')') + 4, "%*d %*d %*d %d %d", &device, &foreground);
    tell(" %d:%d %d", device >> 8, (device & 255) == number, foreground == getpid());
}
static void giving_up(void) {
    signal(SIGHUP, SIG_IGN);
    tell("%s", outcome(ioctl(S, TIOCNOTTY, 0))); tell(" %s", outcome(open("/dev/tty", O_RDWR)));
    int group; tell(" %s", outcome(ioctl(S, TIOCGPGRP, &group))); tell(" %s", outcome(ioctl(S, TIOCNOTTY, 0)));
    tell(" %s", outcome(ioctl(S, TIOCSCTTY, 0))); tell(" %s", outcome(ioctl(S, TIOCGPGRP, &group)));
}
/* A member gives it up for itself, and its children; a new session may have another one. */
static void member_gives_up(void) {
    int group;
    pid_t child = fork();
    if (child == 0) {
        tell("%s", outcome(ioctl(S, TIOCNOTTY, 0))); tell(" %s", outcome(open("/dev/tty", O_RDWR)));
        tell(" %s", outcome(ioctl(S, TIOCGPGRP, &group))); tell(" %s", outcome(ioctl(S, TIOCSCTTY, 0)));
        if (fork() == 0) { tell(" child %s", outcome(open("/dev/tty", O_RDWR))); _exit(0); }
        wait(0);
        tell(" %d", setsid() == getpid()); tell(" %s", outcome(ioctl(S, TIOCSCTTY, 0)));
        _exit(0);
    }
    waitpid(child, 0, 0);
    tell(" leader %s", outcome(ioctl(S, TIOCGPGRP, &group)));
}
static void wrong_groups(void) {
    int none = 0x3fffff; int negative = -1; int parent = getppid();
    tell("%s", outcome(ioctl(S, TIOCSPGRP, &none))); tell(" %s", outcome(ioctl(S, TIOCSPGRP, &negative)));
    tell(" %s", outcome(ioctl(S, TIOCSPGRP, &parent))); tell(" %s", outcome(setsid())); tell(" %s", outcome(ioctl(S, TIOCSPGRP, BAD)));
}
static void second_terminal(void) {
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY); int zero = 0; int other = -1; char path[32]; int session = -1;
    ioctl(fd, TIOCSPTLCK, &zero); ioctl(fd, TIOCGPTN, &other); sprintf(path, "/dev/pts/%d", other);
    int second = open(path, O_RDWR);
    tell("%s", outcome(ioctl(second, TIOCGSID, &session))); tell(" %s", outcome(ioctl(second, TIOCSCTTY, 0)));
}
static void orphaned(void) {
    int two[2]; char text[64] = "";
    pipe(two);
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        if (fork() == 0) { while (getppid() == child) {} usleep(20000); long len = read(S, text, 1); sprintf(text, "read %s", outcome(len)); write(two[1], text, strlen(text)); _exit(0); }
        _exit(0);
    }
    waitpid(child, 0, 0); close(two[1]);
    read(two[0], text, sizeof text - 1); tell("%s", text);
}
static void after_leader(void) { handled = 0; signal(SIGHUP, note); signal(SIGCONT, note); ready(); for (int i = 0; i < 200 && !handled; i++) usleep(10000); tell(" foreground got %d", handled); _exit(0); }
static void leaves_foreground(void) { if (fork() == 0) after_leader(); char byte; read(S, &byte, 1); }
static void ends_leader(pid_t child) { (void)child; when_ready(); types("\n"); for (int i = 0; i < 300 && !strstr(told, "got"); i++) usleep(10000); }
static void opens_without(void) { }

static void jobs(void) {
    T(ioctl, "no controlling terminal", { both(); show_int(S, TIOCGPGRP); show_int(S, TIOCGSID); show_int(M, TIOCGPGRP); show_int(M, TIOCGSID); int group = getpgrp(); result(ioctl(S, TIOCSPGRP, &group)); result(ioctl(M, TIOCSPGRP, &group)); result(ioctl(S, TIOCNOTTY, 0)); result(ioctl(M, TIOCNOTTY, 0)); result(ioctl(S, TIOCSCTTY, 0)); })
    T(ioctl, "a controlling terminal", led(numbers_of, 0); )
    T(ioctl, "a controlling terminal is given up", led(giving_up, 0); )
    T(ioctl, "a controlling terminal is given up by another process", led(member_gives_up, 0); )
    T(ioctl, "groups that cannot be in the foreground", led(wrong_groups, 0); )
    T(ioctl, "a second terminal", led(second_terminal, 0); )
    T(kill, "^C", led(waits_for_int, types_int); reads(M); )
    T(kill, "^C by default", led(sleeps, types_int); )
    T(kill, "^\\", led(waits_for_quit, types_quit); reads(M); )
    T(kill, "TIOCSIG", led(waits_for_int, sends_int); )
    T(kill, "a new size", led(waits_for_winch, resizes); )
    T(kill, "the master is closed", led(waits_for_hup, hangs_up); )
    T(kill, "the master is closed, by default", led(sleeps, hangs_up); )
    T(kill, "the background", led(background, 0); )
    T(kill, "output in the background", led(background_stopped_output, 0); )
    T(kill, "the background, signals blocked", led(taking, 0); )
    T(kill, "an orphaned group reads", led(orphaned, 0); )
    T(kill, "the leader ends", led(leaves_foreground, ends_leader); )
    T(ioctl, "a terminal whose leader has ended", led(opens_without, 0); open_slave(O_NOCTTY); show_int(M, TIOCGSID); show_int(M, TIOCGPGRP); )
}

void terminals(void) {
    names();
    discipline();
    ends();
    jobs();
}
