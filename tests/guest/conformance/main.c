/* The frame of the cases: a process, a folder and descriptors for each, and what is printed. */
#include "conform.h"
#include <dirent.h>
#include <grp.h>
#include <net/if.h>
#include <setjmp.h>

char *in_page, *read_only, *no_access;
char buffer[1 << 17] __attribute__((aligned(4096)));

/* A case that takes longer never ends; the slowest uses two seconds of a processor. */
enum { CASE_SECONDS_MAX = 60 };

static char line[8192], folder[256];
static int line_len, cases, is_superuser;
static const char *only;

long raw(long number, ...) {
    long a[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

void say(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    int len = vsnprintf(line + line_len, sizeof line - line_len - 2, format, rest);
    va_end(rest);
    line_len += len < (int)sizeof line - line_len - 2 ? len : (int)sizeof line - line_len - 3;
}

void result(long value) {
    if (value < 0 && value > -4096)
        say(" = %s", errno_name(errno));
    else
        say(" = %ld", value);
}

void some(long value) {
    if (value < 0 && value > -4096)
        say(" = %s", errno_name(errno));
    else
        say(" = ok");
}

void end(void) {
    line[line_len++] = '\n';
    if (write(1, line, line_len) != line_len)
        _exit(2);
    _exit(0);
}

static void place(int from, int to) {
    if (from < 0 || dup2(from, to) != to)
        abort();
    close(from);
}

static void put(const char *path, const char *text, int mode) {
    int fd = open(path, O_CREAT | O_WRONLY, mode);
    if (fd < 0 || write(fd, text, strlen(text)) != (long)strlen(text) || fchmod(fd, mode) != 0 || close(fd) != 0)
        abort();
}

/* The files and descriptors of a case. */
static void set_up(void) {
    put("file", "0123456789abcdef", 0644);
    put("empty", "", 0600);
    put("locked", "secret", 0);
    put("fixed", "read only", 0444);
    put("program", "#!/none\n", 0755);
    if (mkdir("dir", 0755) || symlink("file", "link") || symlink("none", "dangling") || symlink("loop", "loop")
        || mkfifo("fifo", 0644) || mkdir("closed", 0) || mkdir("void", 0755))
        abort();
    put("dir/in", "inside", 0644);
    place(open("file", O_RDWR), RW);
    place(open("file", O_RDONLY), RO);
    place(open("file", O_WRONLY), WO);
    place(open("file", O_WRONLY | O_APPEND), APPEND);
    place(open("dir", O_RDONLY | O_DIRECTORY), DIR_FD);
    place(open("file", O_PATH), PATH_FD);
    int two[2];
    if (pipe(two))
        abort();
    place(two[0], PIPE_R);
    place(two[1], PIPE_W);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, two))
        abort();
    place(two[0], SOCK);
    place(two[1], PEER);
    place(eventfd(3, EFD_NONBLOCK), EVENT);
    place(epoll_create1(0), EPOLL);
    place(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), TIMER);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    place(signalfd(-1, &set, SFD_NONBLOCK), SIGNAL);
    place((int)CALL(memfd_create, "memory", MFD_ALLOW_SEALING), MEMFD);
    place(open("/dev/null", O_RDWR), NULL_FD);
    place(open("/dev/zero", O_RDWR), ZERO_FD);
    place(socket(AF_UNIX, SOCK_STREAM, 0), FRESH);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 7};
    if (write(PIPE_W, "pipe", 4) != 4 || write(PEER, "sock", 4) != 4 || ftruncate(MEMFD, 8192)
        || epoll_ctl(EPOLL, EPOLL_CTL_ADD, PIPE_R, &event))
        abort();
    char *pages = mmap(0, 7 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    in_page = pages + PAGE;
    read_only = pages + 3 * PAGE;
    no_access = pages + 5 * PAGE;
    if (pages == MAP_FAILED || mprotect(in_page, PAGE, PROT_READ | PROT_WRITE) || mprotect(read_only, PAGE, PROT_READ)
        || munmap(pages, PAGE) || munmap(pages + 2 * PAGE, PAGE) || munmap(pages + 4 * PAGE, PAGE))
        abort();
    errno = 0;
}

/* Takes a case's folder away, whatever is in it. */
static void remove_tree(const char *path);
static void remove_in(const char *path) {
    DIR *dir = opendir(path);
    struct dirent *entry;
    char name[512];
    while (dir && (entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
            remove_tree(name);
        }
    if (dir)
        closedir(dir);
}
static void remove_tree(const char *path) {
    struct stat st;
    if (unlink(path) == 0 || lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return;
    chmod(path, 0700);
    remove_in(path);
    rmdir(path);
}

/* An ordinary user, for good: the superuser is refused too little. */
static void drop_rights(void) {
    if (setgroups(0, 0) || setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
        abort();
}

static void nothing(int signal) { (void)signal; }

/* Its state is behind its name in /proc/PID/stat. */
void until_asleep(int thread) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", thread);
    for (char *state = 0; !state || state[2] != 'S'; usleep(1000)) {
        int fd = open(path, O_RDONLY);
        long len = read(fd, text, sizeof text - 1);
        close(fd);
        text[len > 0 ? len : 0] = 0;
        state = strrchr(text, ')');
    }
}

void stopped_in(int (*waits)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(waits());
    until_asleep(child);
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
    say(" | %s", errno_name(WEXITSTATUS(status)));
}

/* What became of a case's process. */
static int status_of(pid_t child) {
    int status;
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, 0);
    alarm(CASE_SECONDS_MAX);
    while (waitpid(child, &status, 0) < 0)
        if (errno == EINTR) {
            kill(child, SIGKILL);
            printf("[does not end]");
        }
    alarm(0);
    return status;
}

int begin_as(int superuser, const char *label, long number) {
    if (number < 0 || (only && !strstr(label, only)))
        return 0;
    snprintf(folder, sizeof folder, "case%d", cases++);
    if (mkdir(folder, 0755))
        abort();
    if (is_superuser && !superuser && chown(folder, 1000, 1000))
        abort();
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        line_len = 0;
        say("%s\t", label);
        signal(SIGALRM, SIG_DFL);
        if (is_superuser && !superuser)
            drop_rights();
        if (chdir(folder))
            abort();
        set_up();
        return 1;
    }
    int status = status_of(child);
    if (WIFSIGNALED(status))
        printf("%s\t = ended by signal %d\n", label, WTERMSIG(status));
    else if (WEXITSTATUS(status))
        printf("%s\t = ended with %d\n", label, WEXITSTATUS(status));
    remove_tree(folder);
    return 0;
}

void show_file(int fd) {
    char text[65];
    struct stat st;
    fstat(fd, &st);
    say(" | at %ld of %ld", (long)lseek(fd, 0, SEEK_CUR), (long)st.st_size);
    int by_name = open("file", O_RDONLY);
    long len = pread(by_name, text, 64, 0);
    say(" '");
    for (long i = 0; i < len; i++)
        say(text[i] >= ' ' && text[i] < 127 ? "%c" : "\\%o", text[i]);
    say("'");
    close(by_name);
}

void show_path(const char *path) {
    struct stat st;
    if (lstat(path, &st)) {
        say(" | %s: %s", path, errno_name(errno));
        return;
    }
    say(" | %s: %o, %d links", path, st.st_mode, (int)st.st_nlink);
    if (!S_ISDIR(st.st_mode))
        say(", %ld bytes", (long)st.st_size);
}

void show_flags(int fd) {
    /* O_LARGEFILE and the access bits have the same meaning, not the same value, everywhere. */
    long flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        say(" | %d: %s", fd, errno_name(errno));
        return;
    }
    say(" | %d:", fd);
    static const struct { long bit; const char *name; } names[] = {
        {O_WRONLY, "WRONLY"}, {O_RDWR, "RDWR"}, {O_APPEND, "APPEND"}, {O_NONBLOCK, "NONBLOCK"}, {O_DIRECT, "DIRECT"},
        {O_ASYNC, "ASYNC"}, {O_NOATIME, "NOATIME"}, {O_PATH, "PATH"}, {O_DIRECTORY, "DIRECTORY"}, {O_NOFOLLOW, "NOFOLLOW"},
        {O_DSYNC, "DSYNC"}, {O_TRUNC, "TRUNC"}, {O_CREAT, "CREAT"}, {O_EXCL, "EXCL"}, {O_NOCTTY, "NOCTTY"},
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (flags & names[i].bit)
            say(" %s", names[i].name);
    if ((flags & O_SYNC) == O_SYNC)
        say(" SYNC");
    if (fcntl(fd, F_GETFD) & FD_CLOEXEC)
        say(" CLOEXEC");
}

void show_open(void) {
    say(" | open:");
    for (int fd = 0; fd < 64; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && (fd < RW || fd >= CLOSED))
            say(" %d%s", fd, flags & FD_CLOEXEC ? "c" : "");
        if (flags < 0 && fd >= RW && fd < CLOSED)
            say(" not %d", fd);
        if (flags > 0 && fd >= RW && fd < CLOSED)
            say(" %dc", fd);
    }
}

void show_bytes(const void *at, int count) {
    const unsigned char *bytes = at;
    say(" | ");
    for (int i = 0; i < count; i++)
        say("%02x", bytes[i]);
}

void show_info(const siginfo_t *info) {
    int mine = info->si_pid == getpid(), parent = info->si_pid == getppid();
    say(" | signal %d code %d", info->si_signo, info->si_code);
    say(" pid %s uid %s", mine ? "own" : parent ? "parent" : info->si_pid ? "other" : "0",
        info->si_uid == getuid() ? "own" : info->si_uid ? "other" : "0");
}

/* Room for any ISA's, as a datum has the same size on all. */
static uint64_t jump_space[128];
#define place_to_go (*(sigjmp_buf *)jump_space)
static void go_back(int signal) { siglongjmp(place_to_go, signal); }
void show_page(const void *at) {
    volatile char *byte = (volatile char *)at;
    signal(SIGSEGV, go_back);
    signal(SIGBUS, go_back);
    int fault = sigsetjmp(place_to_go, 1);
    if (fault == 0) {
        char read = *byte;
        say(" | read");
        if ((fault = sigsetjmp(place_to_go, 1)) == 0) {
            *byte = read;
            say(" write");
        }
    } else {
        say(" | signal %d", fault);
    }
}

const char *errno_name(int error) {
    static const struct { int error; const char *name; } names[] = {
#define N(name) {name, #name}
        N(EPERM), N(ENOENT), N(ESRCH), N(EINTR), N(EIO), N(ENXIO), N(E2BIG), N(ENOEXEC), N(EBADF), N(ECHILD), N(EAGAIN),
        N(ENOMEM), N(EACCES), N(EFAULT), N(ENOTBLK), N(EBUSY), N(EEXIST), N(EXDEV), N(ENODEV), N(ENOTDIR), N(EISDIR),
        N(EINVAL), N(ENFILE), N(EMFILE), N(ENOTTY), N(ETXTBSY), N(EFBIG), N(ENOSPC), N(ESPIPE), N(EROFS), N(EMLINK),
        N(EPIPE), N(EDOM), N(ERANGE), N(EDEADLK), N(ENAMETOOLONG), N(ENOLCK), N(ENOSYS), N(ENOTEMPTY), N(ELOOP),
        N(ENODATA), N(EOVERFLOW), N(ENOTSOCK), N(ETOOMANYREFS), N(EDESTADDRREQ), N(EMSGSIZE), N(EPROTOTYPE), N(ENOPROTOOPT),
        N(EPROTONOSUPPORT), N(ESOCKTNOSUPPORT), N(EOPNOTSUPP), N(EPFNOSUPPORT), N(EAFNOSUPPORT), N(EADDRINUSE),
        N(EADDRNOTAVAIL), N(ECONNABORTED), N(ECONNRESET), N(ENOBUFS), N(EISCONN), N(ENOTCONN), N(ETIMEDOUT), N(ENETUNREACH),
        N(ECONNREFUSED), N(EALREADY), N(EINPROGRESS), N(ESTALE), N(ECANCELED), N(EOWNERDEAD), N(ENOTRECOVERABLE), N(EUCLEAN), N(EIDRM), N(ENOMSG),
#undef N
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error)
            return names[i].name;
    static char number[16];
    snprintf(number, sizeof number, "errno %d", error);
    return number;
}

/* Limits and other things that processes inherit, the same wherever the program runs. */
static void be_ordinary(void) {
    static const struct { int resource; rlim_t value; } limits[] = {
        {RLIMIT_NOFILE, 256}, {RLIMIT_CORE, 0}, {RLIMIT_STACK, 8 << 20}, {RLIMIT_NICE, 0}, {RLIMIT_RTPRIO, 0},
        {RLIMIT_MEMLOCK, 64 << 10}, {RLIMIT_MSGQUEUE, 819200}, {RLIMIT_SIGPENDING, 64},
    };
    for (unsigned i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit both = {limits[i].value, limits[i].value};
        setrlimit(limits[i].resource, &both);
    }
    umask(022);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, 0);
    for (int signal_number = 1; signal_number < 32; signal_number++)
        signal(signal_number, SIG_DFL);
    place(open("/dev/null", O_RDWR), 0);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    is_superuser = getuid() == 0;
    setpriority(PRIO_PROCESS, 0, 0);
    prctl(PR_SET_NAME, "conform");
}

/* On Linux, the superuser's cases have a network of their own: some set what its loopback device has already. */
static void have_own_network(void) {
    if (unshare(CLONE_NEWNET) != 0) return;
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ioctl(fd, SIOCSIFFLAGS, &loopback);
    close(fd);
}

int main(int argc, char **argv) {
    if (argc < 2 || chdir(argv[1])) {
        fprintf(stderr, "usage: conform FOLDER [PART OF A CASE'S NAME]\n");
        return 64;
    }
    only = argc > 2 ? argv[2] : 0;
    setvbuf(stdout, 0, _IOLBF, 0);
    have_own_network();
    be_ordinary();
    files();
    effects();
    descriptors();
    memory();
    processes();
    signals();
    times_and_timers();
    posix_timers();
    pidfds();
    watches();
    owners();
    sockets();
    packets();
    inet();
    interfaces();
    netlink();
    origin();
    lists();
    endings();
    waiting();
    locks();
    family();
    terminals();
    sysv();
    mqueues();
    semaphores();
    return 0;
}
