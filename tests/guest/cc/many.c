/* System calls on many objects at once: descriptors, processes, waiting threads, ranges, pages, locks, names. Each must do the same as on Linux,
 * however many there are. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, FILES = 1000, PROCESSES = 200, THREADS = 300, RANGES = 4000, PAGES = 8192, LOCKS = 1000 };
enum { PIECES = 1024, DEEP = 400, ROBUST = 2000, QUEUED = 500, FIRST_FILE = 20 };
enum { READ_WRITE = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS };

static char folder[] = "/tmp/manyXXXXXX";
static char *self;

static void tell(const char *what, int is_well) {
    printf("%s: %s\n", what, is_well ? "done" : strerror(errno));
}

static int ended_well(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && status == 0;
}

/* Descriptors. */

static int open_files(void) {
    int count = 0;
    for (int fd = FIRST_FILE; fd < FIRST_FILE + FILES; fd++) {
        int made = eventfd(1, 0);
        count += fcntl(made, F_DUPFD_CLOEXEC, fd) == fd;
        close(made);
    }
    return count == FILES;
}

static int count_entries(const char *path) {
    int count = 0;
    DIR *list = opendir(path);
    while (readdir(list) != 0)
        count++;
    closedir(list);
    return count;
}

static void descriptors(void) {
    struct rlimit most = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &most);
    tell("open", open_files());
    tell("listed", count_entries("/proc/self/fd") >= FILES);
    pid_t child = fork();
    if (child == 0) {
        execl(self, self, "ends", (char *)0);
        _exit(1);
    }
    tell("closed by exec", ended_well(child));
    child = fork();
    if (child == 0)
        _exit(0);
    tell("closed by exit", ended_well(child));

    static struct pollfd polled[FILES];
    for (int index = 0; index < FILES; index++)
        polled[index] = (struct pollfd){.fd = FIRST_FILE + index, .events = POLLIN};
    tell("polled", poll(polled, FILES, -1) == FILES);
    for (int index = 0; index < FILES; index++)
        polled[index].events = POLLPRI;
    tell("polled for nothing", poll(polled, FILES, 1) == 0);
    fd_set set;
    FD_ZERO(&set);
    for (int fd = FIRST_FILE; fd < FILES; fd++)
        FD_SET(fd, &set);
    tell("selected", select(FILES, &set, 0, 0, 0) == FILES - FIRST_FILE);

    struct epoll_event *events = calloc(FILES, sizeof *events);
    int all = epoll_create1(0), added = 0;
    for (int index = 0; index < FILES; index++) {
        events[0] = (struct epoll_event){.events = EPOLLIN, .data.fd = FIRST_FILE + index};
        added += epoll_ctl(all, EPOLL_CTL_ADD, FIRST_FILE + index, &events[0]) == 0;
    }
    tell("watched", added == FILES && epoll_wait(all, events, FILES, -1) > 0);
    uint64_t value;
    for (int fd = FIRST_FILE; fd < FIRST_FILE + FILES; fd++)
        if (read(fd, &value, 8) != 8)
            added = 0;
    tell("watched for nothing", added && epoll_wait(all, events, FILES, 1) == 0);
    child = fork();
    if (child == 0)
        _exit(close(all));
    tell("watched by two", ended_well(child));
    tell("marked", syscall(SYS_close_range, FIRST_FILE, ~0u, 4) == 0);
    child = fork();
    if (child == 0) {
        execl(self, self, "ends", (char *)0);
        _exit(1);
    }
    tell("marked closed by exec", ended_well(child));
    tell("closed", syscall(SYS_close_range, FIRST_FILE, ~0u, 0) == 0 && fcntl(FIRST_FILE, F_GETFD) < 0);
    close(all);
    free(events);
}

/* Processes. */

static volatile sig_atomic_t signals;
static void note(int signal) { (void)signal, signals++; }

static void processes(void) {
    int go[2], ready[2], count = 0;
    char byte;
    pipe(go), pipe(ready);
    pid_t group = 0;
    for (int index = 0; index < PROCESSES; index++) {
        pid_t child = fork();
        if (child == 0) {
            struct sigaction action = {.sa_handler = note};
            sigaction(SIGUSR1, &action, 0);
            setpgid(0, group);
            write(ready[1], "r", 1);
            while (!signals)
                pause();
            _exit(0);
        }
        if (child > 0 && group == 0)
            group = child;
        count += child > 0 && read(ready[0], &byte, 1) == 1;
    }
    tell("forked", count == PROCESSES);
    tell("slowed down", setpriority(PRIO_PGRP, group, 1) == 0 && getpriority(PRIO_PGRP, group) == 1);
    tell("slowed down by user", setpriority(PRIO_USER, 0, 2) == 0 && getpriority(PRIO_USER, 0) == 2);
    tell("asked", kill(-group, 0) == 0);
    tell("all listed", count_entries("/proc") > PROCESSES);
    /* The handler may run before the process waits, which then waits for another signal. */
    for (int ended = 0; ended < PROCESSES;) {
        kill(-group, SIGUSR1);
        usleep(1000);
        while (ended < PROCESSES && waitpid(-group, 0, WNOHANG) > 0)
            ended++;
    }
    tell("waited for", waitpid(-group, 0, 0) < 0 && errno == ECHILD);
    close(go[0]), close(go[1]), close(ready[0]), close(ready[1]);
    /* Without parents. */
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        for (int index = 0; index < PROCESSES; index++)
            if (fork() == 0)
                for (;;)
                    pause();
        _exit(0);
    }
    tell("left alone", ended_well(child));
    tell("killed", kill(-child, SIGKILL) == 0);
}

/* Signals. */

static void queued(void) {
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, &old);
    int sent = 0, taken = 0;
    for (int index = 0; index < QUEUED; index++)
        sent += sigqueue(getpid(), SIGRTMIN, (union sigval){index}) == 0;
    struct timespec none = {0};
    for (int index = 0; index < QUEUED / 2; index++)
        taken += sigtimedwait(&set, 0, &none) == SIGRTMIN;
    signal(SIGRTMIN, SIG_IGN);
    taken += sigtimedwait(&set, 0, &none) < 0;
    sigprocmask(SIG_SETMASK, &old, 0);
    tell("queued", sent == QUEUED && taken == QUEUED / 2 + 1);
}

/* Threads. */

static uint32_t gate, other_gate;
static int waiting, woken;

static void *waits(void *argument) {
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&other_gate, __ATOMIC_SEQ_CST) == 0)
        syscall(SYS_futex, &gate, 0, 0, 0, 0, 0);
    __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void threads(void) {
    static pthread_t all[THREADS];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 4 * PAGE);
    int started = 0;
    for (int index = 0; index < THREADS; index++)
        started += pthread_create(&all[index], &small, waits, 0) == 0;
    while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < started)
        sched_yield();
    /* Most of them move to the other word. */
    int moved = 0, tries = 0;
    while (moved < started && tries++ < 60000) {
        long more = syscall(SYS_futex, &gate, 3, 0, THREADS, &other_gate, 0);
        if (more > 0)
            moved += more;
        else
            usleep(1000); /* some have yet to come there */
    }
    other_gate = 1;
    tell("threads", started == THREADS && moved == THREADS);
    tell("woken", syscall(SYS_futex, &other_gate, 1, THREADS, 0, 0, 0) == THREADS);
    for (int index = 0; index < started; index++)
        pthread_join(all[index], 0);
    tell("joined", woken == THREADS);
    /* A process of many threads is killed, and ends itself. */
    for (int how = 0; how < 2; how++) {
        pid_t child = fork();
        if (child == 0) {
            other_gate = waiting = 0;
            for (int index = 0; index < THREADS; index++)
                pthread_create(&all[index], &small, waits, 0);
            while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < THREADS)
                sched_yield();
            if (how == 0)
                _exit(0);
            kill(getpid(), SIGKILL);
        }
        int status = 0;
        waitpid(child, &status, 0);
        tell("threads end", how == 0 ? status == 0 : WIFSIGNALED(status));
    }
}

/* Locks whose owner ends. */
struct entry { struct entry *next; uint32_t word; };
struct head { struct entry *first; long offset; struct entry *pending; };

static void robust(void) {
    struct entry *entries = mmap(0, ROBUST * PAGE, READ_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        static struct head head;
        struct entry **last = &head.first;
        for (int index = 0; index < ROBUST; index++) {
            struct entry *entry = (void *)((char *)entries + (long)index * PAGE);
            entry->word = syscall(SYS_gettid);
            *last = entry;
            last = &entry->next;
        }
        *last = (struct entry *)&head;
        head.offset = offsetof(struct entry, word);
        syscall(SYS_set_robust_list, &head, sizeof head);
        _exit(0);
    }
    int well = ended_well(child), marked = 0;
    for (int index = 0; index < ROBUST; index++)
        marked += ((struct entry *)((char *)entries + (long)index * PAGE))->word == 0x40000000;
    tell("locks given up", well && marked == ROBUST);
    munmap(entries, ROBUST * PAGE);
}

/* Ranges and pages. */

static void ranges(void) {
    char *all = mmap(0, (2 * RANGES + 1l) * PAGE, READ_WRITE, PRIVATE, -1, 0);
    int done = 0;
    for (int index = 0; index < RANGES; index++) {
        all[(2l * index + 1) * PAGE] = 1;
        done += mprotect(all + (2l * index + 1) * PAGE, PAGE, PROT_READ) == 0;
    }
    tell("ranges", done == RANGES);
    size_t len = 2l * RANGES * PAGE;
    tell("advised", madvise(all, len, MADV_DONTFORK) == 0 && madvise(all, len, MADV_DOFORK) == 0);
    tell("locked", mlock(all, len) == 0 && munlock(all, len) == 0);
    tell("written", msync(all, len, MS_SYNC) == 0);
    static unsigned char resident[2 * RANGES];
    tell("resident", mincore(all, len, resident) == 0);
    unsigned long node = 1;
    tell("bound", syscall(SYS_mbind, all, len, 1, &node, 8, 0) == 0);
    int maps = open("/proc/self/maps", O_RDONLY);
    static char text[1 << 20];
    long got, whole = 0;
    while ((got = read(maps, text, sizeof text)) > 0)
        whole += got;
    close(maps);
    tell("told", whole > 2 * RANGES * 40);
    pid_t child = fork();
    if (child == 0)
        _exit(all[PAGE] != 1);
    tell("forked with ranges", ended_well(child));
    child = fork();
    if (child == 0) {
        execl(self, self, "ends", (char *)0);
        _exit(1);
    }
    tell("executed with ranges", ended_well(child));
    tell("advised away", madvise(all, len, MADV_DONTNEED) == 0 && all[PAGE] == 0);
    munmap(all, len + PAGE);
}

static void pages(void) {
    size_t len = (size_t)PAGES * PAGE;
    char *all = mmap(0, len, READ_WRITE, PRIVATE, -1, 0);
    for (int page = 0; page < PAGES; page++)
        all[(long)page * PAGE] = page;
    pid_t child = fork();
    if (child == 0)
        _exit(all[(PAGES - 1l) * PAGE] != (char)(PAGES - 1));
    tell("forked with pages", ended_well(child));
    child = fork();
    if (child == 0) {
        execl(self, self, "ends", (char *)0);
        _exit(1);
    }
    tell("executed with pages", ended_well(child));
    char *moved = mremap(all, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, all + 4 * len);
    tell("moved", moved == all + 4 * len && moved[(PAGES - 1l) * PAGE] == (char)(PAGES - 1));
    /* To where its tables cannot be handed on. */
    all = mremap(moved, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, moved - 2 * len + 3 * PAGE);
    tell("moved a little", all == moved - 2 * len + 3 * PAGE && all[(PAGES - 1l) * PAGE] == (char)(PAGES - 1));
    static void *places[PAGES];
    static int status[PAGES];
    for (int page = 0; page < PAGES; page++)
        places[page] = all + (long)page * PAGE;
    tell("asked where", syscall(SYS_move_pages, 0, PAGES, places, 0, status, 2) == 0 && status[0] >= 0);
    tell("synchronised", msync(all, len, MS_SYNC) == 0);
    tell("protected", mprotect(all, len, PROT_READ) == 0);
    tell("unmapped", munmap(all, len) == 0);
    tell("populated", (all = mmap(0, len, READ_WRITE, PRIVATE | MAP_POPULATE, -1, 0)) != MAP_FAILED);
    munmap(all, len);
}

/* Files. */

static void locks(void) {
    int file = open("locks", O_RDWR | O_CREAT, 0600), done = 0;
    for (int index = 0; index < LOCKS; index++) {
        struct flock lock = {.l_type = F_WRLCK, .l_start = 2l * index, .l_len = 1};
        done += fcntl(file, F_SETLK, &lock) == 0;
    }
    tell("locked bytes", done == LOCKS);
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_start = 2l * LOCKS - 3, .l_len = 2};
        _exit(fcntl(file, F_GETLK, &lock) || lock.l_type != F_WRLCK || lock.l_start != 2l * LOCKS - 2);
    }
    tell("asked for a lock", ended_well(child));
    struct flock all = {.l_type = F_RDLCK, .l_len = 2l * LOCKS};
    tell("locked all", fcntl(file, F_SETLK, &all) == 0);
    for (int index = 0; index < LOCKS; index++) {
        struct flock lock = {.l_type = F_WRLCK, .l_start = 2l * index, .l_len = 1};
        fcntl(file, F_SETLK, &lock);
    }
    tell("closed with locks", close(file) == 0);
}

static int moves(int fd, int (*move)(int, const struct iovec *, int), int wanted) {
    static char bytes[PIECES * 64];
    struct iovec pieces[PIECES];
    for (int index = 0; index < PIECES; index++)
        pieces[index] = (struct iovec){bytes + 64 * index, 1};
    return move(fd, pieces, PIECES) == wanted;
}

static int reads(int fd, const struct iovec *pieces, int count) { return readv(fd, pieces, count); }
static int writes(int fd, const struct iovec *pieces, int count) { return writev(fd, pieces, count); }

static void vectors(void) {
    int file = open("vectors", O_RDWR | O_CREAT, 0600), ends[2], pair[2];
    tell("written in pieces", moves(file, writes, PIECES));
    lseek(file, 0, SEEK_SET);
    tell("read in pieces", moves(file, reads, PIECES));
    close(file);
    pipe(ends), socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    tell("through a pipe", moves(ends[1], writes, PIECES) && moves(ends[0], reads, PIECES));
    tell("through a socket", moves(pair[1], writes, PIECES) && moves(pair[0], reads, PIECES));
    close(ends[0]), close(ends[1]), close(pair[0]), close(pair[1]);
    const char *devices[] = {"/dev/null", "/dev/zero", "/dev/urandom"};
    for (int index = 0; index < 3; index++) {
        file = open(devices[index], O_RDWR);
        tell(devices[index], moves(file, writes, PIECES) && moves(file, reads, index == 0 ? 0 : PIECES));
        close(file);
    }
}

static void names(void) {
    int done = 0;
    for (int index = 0; index < DEEP; index++)
        done += mkdir("directory", 0700) == 0 && chdir("directory") == 0;
    tell("deep", done == DEEP);
    mkdir("one", 0700), mkdir("two", 0700), mkdir("two/one", 0700);
    tell("renamed deep down", rename("one", "two/one") == 0);
    char long_path[PATH_MAX];
    tell("where", syscall(SYS_getcwd, long_path, sizeof long_path) > DEEP * 9);
    done = 0;
    for (int at = 0; at + 2 < (int)sizeof long_path; at += 2)
        memcpy(long_path + at, "./", 2), long_path[at + 2] = 0;
    tell("a long path", access(long_path, F_OK) == 0);
    /* Each link is half of a path. */
    for (int index = 0; index < 30; index++) {
        char name[16];
        snprintf(name, sizeof name, "link%d", index);
        memset(long_path, 0, sizeof long_path);
        for (int at = 0; at < PATH_MAX - 32; at += 2)
            memcpy(long_path + at, "./", 2);
        snprintf(long_path + strlen(long_path), 16, index == 29 ? "two" : "link%d", index + 1);
        done += symlink(long_path, name) == 0;
    }
    tell("links of long paths", done == 30 && access("link0", F_OK) == 0);
    chdir(folder);
}

int main(int count, char **arguments) {
    if (count > 1)
        return 0;
    setvbuf(stdout, 0, _IOLBF, 0);
    syscall(SYS_close_range, 3, ~0u, 0);
    self = realpath("/proc/self/exe", 0);
    if (mkdtemp(folder) == 0 || chdir(folder) != 0)
        return 1;
    descriptors();
    processes();
    queued();
    threads();
    robust();
    ranges();
    pages();
    locks();
    vectors();
    names();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}
