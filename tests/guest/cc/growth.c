/* What is done for one of many takes about as long as for one of few. Time is simulated where this is tested, so it is a count of instructions.
 *
 * A case makes many of a thing, first few and then more, and measures an operation on one among them each time. Each case is a process of its own, so
 * what it has made goes with it. Usage: `growth [figures] [long]`; `figures` prints what was measured, `long` goes on to a hundred thousand. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L
#define MUST(condition) ((condition) ? (void)0 : failed(#condition, __LINE__))

static void failed(const char *condition, int line) {
    printf("line %d: %s: %s\n", line, condition, strerror(errno));
    fflush(stdout);
    _exit(3);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* Numbers of descriptors from which on a case uses them again and again, and how many a process may have. */
enum { FIRST_FD = 100, FDS = 3500 };

static char name[128];
static const char *number(const char *before, long index) {
    sprintf(name, "%s%ld", before, index);
    return name;
}

/* Threads and processes that only wait: they need no more than a little stack. */

enum { STACK = 16384 };

static char *new_stack(void) {
    static char *next, *end;
    if (next == end) {
        next = mmap(0, 256 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(next != MAP_FAILED);
        end = next + 256 * STACK;
    }
    next += STACK;
    return next - STACK;
}

static pthread_t thread(void *(*what)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_t made;
    MUST(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, new_stack(), STACK) == 0);
    MUST(pthread_create(&made, &attributes, what, argument) == 0);
    return made;
}

static int process(int (*what)(void *), void *argument) {
    int id = clone(what, new_stack() + STACK, CLONE_VM | SIGCHLD, argument);
    MUST(id > 0);
    return id;
}

static int word[1 << 17];

static void wake(int *at, int most) {
    syscall(SYS_futex, at, FUTEX_WAKE, most, 0, 0, 0);
}

static void *wait_once(void *at) {
    syscall(SYS_futex, at, FUTEX_WAIT, 0, 0, 0, 0);
    return 0;
}

static int wait_as_process(void *at) {
    while (1) wait_once(at);
    return 0;
}

static void *sleep_long(void *seconds) {
    struct timespec t = {(long)seconds, 0};
    nanosleep(&t, 0);
    return 0;
}

static void *end_at_once(void *argument) {
    return argument;
}

static int end_as_process(void *argument) {
    (void)argument;
    return 0;
}

/* Lets all others run until they wait. */
static void settle(void) {
    usleep(20000);
}

/* Names. */

static void make_names(long from, long to) {
    if (from == 0) MUST(mkdir("/tmp/names", 0700) == 0 && chdir("/tmp/names") == 0);
    for (long k = from; k < to; k++) MUST(mknod(number("n", k), S_IFREG | 0600, 0) == 0);
}

static void use_name(long count) {
    MUST(access(number("n", count / 2), F_OK) == 0);
    MUST(rename(name, "other") == 0 && rename("other", name) == 0);
    MUST(mknod("one", S_IFREG | 0600, 0) == 0 && unlink("one") == 0);
}

static void make_links(long from, long to) {
    if (from == 0) {
        MUST(mkdir("/tmp/links", 0700) == 0 && chdir("/tmp/links") == 0);
        MUST(mknod("one", S_IFREG | 0600, 0) == 0);
    }
    for (long k = from; k < to; k++) MUST(link("one", number("l", k)) == 0);
}

static void use_link(long count) {
    MUST(unlink(number("l", count / 2)) == 0 && link("one", name) == 0);
}

static void go_deeper(long from, long to) {
    if (from == 0) MUST(mkdir("/tmp/deep", 0700) == 0 && chdir("/tmp/deep") == 0);
    for (long k = from; k < to; k++) MUST(mkdir("d", 0700) == 0 && chdir("d") == 0);
}

static void use_deep(long count) {
    (void)count;
    MUST(mkdir("one", 0700) == 0 && access("one/..", F_OK) == 0 && rmdir("one") == 0);
}

/* Memory. */

static char *last_area;

static void make_areas(long from, long to) {
    for (long k = from; k < to; k++) {
        last_area = mmap(0, PAGE, k & 1 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        MUST(last_area != MAP_FAILED);
    }
}

static void use_area(long count) {
    (void)count;
    char *one = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(one != MAP_FAILED);
    *one = 1;
    MUST(mprotect(one, PAGE, PROT_READ) == 0 && munmap(one, PAGE) == 0);
}

static int file;

static void make_pages(long from, long to) {
    if (from == 0) file = memfd_create("pages", 0);
    for (long k = from; k < to; k++) MUST(pwrite(file, "x", 1, k * PAGE) == 1);
}

static void use_page(long count) {
    char byte;
    MUST(pread(file, &byte, 1, count / 2 * PAGE) == 1 && pwrite(file, &byte, 1, count / 2 * PAGE) == 1);
    MUST(pwrite(file, &byte, 1, count * PAGE) == 1 && ftruncate(file, count * PAGE) == 0);
}

static void map_once(void) {
    char *one = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    MUST(one != MAP_FAILED);
    *one = 1;
    last_area = one;
}

static void make_mappings(long from, long to) {
    if (from == 0) MUST((file = memfd_create("mapped", 0)) >= 0 && ftruncate(file, PAGE) == 0);
    for (long k = from; k < to; k++) map_once();
}

static void use_mapping(long count) {
    (void)count;
    map_once();
    MUST(munmap(last_area, PAGE) == 0);
}

/* Threads and processes. */

static void make_threads(long from, long to) {
    for (long k = from; k < to; k++) thread(wait_once, &word[k]);
    settle();
}

static void use_thread(long count) {
    (void)count;
    wake(&word[(1 << 17) - 1], 1); /* where nobody waits */
    MUST(pthread_join(thread(end_at_once, 0), 0) == 0);
}

static void make_waiters(long from, long to) {
    for (long k = from; k < to; k++) thread(wait_once, word);
    settle();
}

static void use_waiter(long count) {
    (void)count;
    struct timespec none = {0, 1};
    wake(&word[1], 1);
    syscall(SYS_futex, word, FUTEX_WAIT, 0, &none, 0, 0); /* in and out again */
}

static void make_sleepers(long from, long to) {
    for (long k = from; k < to; k++) thread(sleep_long, (void *)(10000 + k * 7919 % 1000));
    settle();
}

static void use_sleeper(long count) {
    (void)count;
    struct timespec none = {0, 1};
    nanosleep(&none, 0);
}

static int pipe_ends[2];

static void *poll_long(void *argument) {
    struct pollfd one = {pipe_ends[0], POLLIN, 0};
    poll(&one, 1, -1);
    return argument;
}

static void make_pollers(long from, long to) {
    if (from == 0) MUST(pipe(pipe_ends) == 0);
    for (long k = from; k < to; k++) thread(poll_long, 0);
    settle();
}

static void use_poller(long count) {
    (void)count;
    struct pollfd one = {pipe_ends[0], POLLIN, 0};
    struct timespec none = {0, 1};
    MUST(ppoll(&one, 1, &none, 0) == 0);
}

/* All are ready. Who measures is more urgent than all. */

static int *next_word = word;

static void set_policy(int policy, int priority) {
    struct sched_param parameters = {.sched_priority = priority};
    MUST(syscall(SYS_sched_setscheduler, 0, policy, &parameters) == 0);
}

static void make_ready(long from, long to) {
    (void)from;
    /* Those of the step before run and end meanwhile. */
    set_policy(SCHED_OTHER, 0);
    for (long k = 0; k < to + 100; k++) thread(wait_once, next_word + k);
    settle();
    set_policy(SCHED_FIFO, 1);
    for (long k = 0; k < to; k++) wake(next_word++, 1);
}

static void use_ready(long count) {
    (void)count;
    wake(next_word++, 1);
}

static void make_children(long from, long to) {
    for (long k = from; k < to; k++) process(wait_as_process, &word[k]);
    settle();
}

static void use_child(long count) {
    (void)count;
    int one = process(end_as_process, 0);
    MUST(kill(one, 0) == 0 && waitpid(one, 0, 0) == one);
}

/* One has ended, and nobody says which. */
static void use_any_child(long count) {
    (void)count;
    int one = process(end_as_process, 0);
    sched_yield();
    MUST(waitpid(-1, 0, WNOHANG) == one);
}

static int alone;

static void make_members(long from, long to) {
    if (from == 0) alone = process(wait_as_process, &word[1 << 16]);
    make_children(from, to);
}

static void use_group(long count) {
    (void)count;
    MUST(setpgid(alone, alone) == 0);
    MUST(kill(-alone, 0) == 0 && getpriority(PRIO_PGRP, (id_t)alone) == 0);
    MUST(setpgid(alone, getpgrp()) == 0);
}

static void make_zombies(long from, long to) {
    for (long k = from; k < to; k++) process(end_as_process, 0);
    settle();
}

/* Descriptors, and what has them. */

static void make_descriptors(long from, long to) {
    for (long k = from; k < to; k++) MUST(dup(0) >= 0);
}

static void use_descriptor(long count) {
    (void)count;
    int one = dup(0);
    MUST(one >= 0 && close(one) == 0);
}

/* One in the middle is free, and taken, and then the next one is behind all. */
static void use_gap(long count) {
    int middle = 10 + (int)count / 8;
    MUST(close(middle) == 0 && dup(0) == middle);
    use_descriptor(count);
}

static void make_readers(long from, long to) {
    if (from == 0) MUST(mkfifo("/tmp/fifo", 0600) == 0);
    for (long k = from; k < to; k++) MUST(open("/tmp/fifo", O_RDONLY | O_NONBLOCK) >= 0);
}

static void use_reader(long count) {
    (void)count;
    char byte = 0;
    int one = open("/tmp/fifo", O_RDWR);
    MUST(one >= 0 && write(one, &byte, 1) == 1 && read(one, &byte, 1) == 1 && close(one) == 0);
}

static void make_holders(long from, long to) {
    if (from == 0) MUST(mknod("/tmp/held", S_IFREG | 0600, 0) == 0);
    for (long k = from; k < to; k++) {
        file = open("/tmp/held", O_RDWR);
        MUST(file >= 0 && flock(file, LOCK_SH) == 0);
    }
}

static void use_holder(long count) {
    (void)count;
    MUST(flock(file, LOCK_EX | LOCK_NB) == -1 && flock(file, LOCK_UN) == 0 && flock(file, LOCK_SH) == 0);
}

static void lock_byte(int command, int kind, long at) {
    struct flock one = {.l_type = (short)kind, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    MUST(fcntl(file, command, &one) == 0);
}

static void make_ranges(long from, long to) {
    if (from == 0) MUST((file = open("/tmp/ranges", O_RDWR | O_CREAT, 0600)) >= 0);
    for (long k = from; k < to; k++) lock_byte(F_SETLK, F_WRLCK, 2 * k);
}

static void use_range(long count) {
    lock_byte(F_SETLK, F_UNLCK, count / 2 * 2);
    lock_byte(F_SETLK, F_WRLCK, count / 2 * 2);
    lock_byte(F_GETLK, F_WRLCK, count / 2 * 2 + 1);
}

/* Each open file has a byte. */
static void make_shares(long from, long to) {
    for (long k = from; k < to; k++) {
        MUST((file = open("/tmp/shares", O_RDWR | O_CREAT, 0600)) >= 0);
        lock_byte(F_OFD_SETLK, F_RDLCK, k);
    }
}

static void use_share(long count) {
    lock_byte(F_OFD_SETLK, F_UNLCK, count - 1);
    lock_byte(F_OFD_SETLK, F_RDLCK, count - 1);
}

/* Interest lists. A watch is of a file and of the number under which it was added, and stays when that is closed: so there may be many. */

enum { NUMBERS = 3000 };
static int lists[64], files[64], many_lists;
static unsigned watched_events;

static void control(int list, int operation, int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    MUST(epoll_ctl(list, operation, fd, &event) == 0);
}

static void make_watches(long from, long to) {
    for (long k = from; k < to; k++) {
        int turn = (int)(k / NUMBERS), fd = FIRST_FD + (int)(k % NUMBERS);
        int list = many_lists ? turn : 0, of = many_lists ? 0 : turn;
        if (lists[list] == 0) MUST((lists[list] = epoll_create1(0)) > 0);
        if (files[of] == 0) MUST((files[of] = eventfd(1, 0)) > 0);
        MUST(dup2(files[of], fd) == fd);
        control(lists[list], EPOLL_CTL_ADD, fd, watched_events);
    }
}

static void make_interests(long from, long to) {
    watched_events = EPOLLHUP;
    make_watches(from, to);
}

static void make_events(long from, long to) {
    watched_events = EPOLLIN;
    make_watches(from, to);
}

static void make_watchers(long from, long to) {
    watched_events = EPOLLHUP;
    many_lists = 1;
    make_watches(from, to);
}

static void use_watch(long count) {
    struct epoll_event found;
    control(lists[0], EPOLL_CTL_ADD, files[0], EPOLLHUP);
    control(lists[0], EPOLL_CTL_MOD, files[0], EPOLLPRI);
    control(lists[0], EPOLL_CTL_DEL, files[0], 0);
    MUST(epoll_wait(lists[0], &found, 1, 0) == (watched_events == EPOLLIN ? 1 : 0));
    (void)count;
}

/* Sockets. */

static socklen_t address_of(struct sockaddr_un *address, long index) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    return (socklen_t)(sizeof address->sun_family + 1 + (size_t)sprintf(address->sun_path + 1, "bound %ld", index));
}

static int bind_one(long index) {
    struct sockaddr_un address;
    socklen_t len = address_of(&address, index);
    int one = socket(AF_UNIX, SOCK_STREAM, 0);
    MUST(one >= 0 && bind(one, (struct sockaddr *)&address, len) == 0);
    return one;
}

/* As many as one process has descriptors for, and the rest in children. */
static void make_bound(long from, long to) {
    while (from < to) {
        long until = from + FDS < to ? from + FDS : to;
        int told[2];
        char byte;
        MUST(pipe(told) == 0);
        int child = fork();
        MUST(child >= 0);
        if (child == 0) {
            for (long k = from; k < until; k++) bind_one(k);
            MUST(write(told[1], "x", 1) == 1);
            while (1) pause();
        }
        MUST(read(told[0], &byte, 1) == 1 && close(told[0]) == 0 && close(told[1]) == 0);
        from = until;
    }
}

static void use_bound(long count) {
    struct sockaddr_un address;
    socklen_t len = address_of(&address, count / 2);
    int one = bind_one(-1);
    MUST(connect(one, (struct sockaddr *)&address, len) == -1 && errno == ECONNREFUSED && close(one) == 0);
}

static int listener;

static int connect_one(void) {
    struct sockaddr_un address;
    socklen_t len = address_of(&address, 0);
    int one = socket(AF_UNIX, SOCK_STREAM, 0);
    MUST(one >= 0 && connect(one, (struct sockaddr *)&address, len) == 0);
    return one;
}

static void make_connections(long from, long to) {
    if (from == 0) MUST(listen(listener = bind_one(0), 128) == 0);
    for (long k = from; k < to; k++) connect_one();
}

static void use_connection(long count) {
    (void)count;
    int one = connect_one(), other = accept(listener, 0, 0);
    MUST(other >= 0 && close(one) == 0 && close(other) == 0);
}

/* Signals. */

static void make_signals(long from, long to) {
    union sigval value = {0};
    sigset_t all;
    sigfillset(&all);
    if (from == 0) MUST(sigprocmask(SIG_BLOCK, &all, 0) == 0);
    for (long k = from; k < to; k++) MUST(sigqueue(getpid(), SIGRTMIN + (int)(k & 1), value) == 0);
}

static void use_signal(long count) {
    static const struct timespec none = {0, 0};
    union sigval value = {0};
    (void)count;
    for (int k = 0; k < 3; k++) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGRTMIN + k);
        MUST(sigqueue(getpid(), SIGRTMIN + k, value) == 0 && sigtimedwait(&one, 0, &none) == SIGRTMIN + k);
    }
}

/* How many there are in the end where little time is to be used, and where much: the operation is measured beside a hundredth of that, a tenth and
 * all. Some things are limited: what is a list beyond that limit does not matter. */
static const struct {
    const char *of;
    long most, most_long;
    void (*make)(long from, long to);
    void (*use)(long count);
} CASES[] = {
    {"names of a folder", 10000, 100000, make_names, use_name},
    {"names of a file", 10000, 50000, make_links, use_link},
    {"deep folders", 10000, 100000, go_deeper, use_deep},
    {"mappings", 10000, 60000, make_areas, use_area},
    {"pages of a file", 10000, 100000, make_pages, use_page},
    {"mappings of a page", 10000, 60000, make_mappings, use_mapping},
    {"threads", 1000, 10000, make_threads, use_thread},
    {"waiters at a word", 1000, 10000, make_waiters, use_waiter},
    {"sleepers", 1000, 10000, make_sleepers, use_sleeper},
    {"pollers of a pipe", 1000, 10000, make_pollers, use_poller},
    {"ready threads", 1000, 10000, make_ready, use_ready},
    {"children", 1000, 10000, make_children, use_child},
    {"children of which one has ended", 1000, 10000, make_children, use_any_child},
    {"members of a group", 1000, 10000, make_members, use_group},
    {"zombies", 1000, 10000, make_zombies, use_child},
    {"descriptors", 3500, 3500, make_descriptors, use_descriptor},
    {"descriptors behind a gap", 3500, 3500, make_descriptors, use_gap},
    {"readers of a pipe", 3000, 3000, make_readers, use_reader},
    {"holders of a lock", 3000, 3000, make_holders, use_holder},
    {"locked ranges", 4000, 4000, make_ranges, use_range},
    {"locked ranges of many", 3000, 3000, make_shares, use_share},
    {"files in an interest list", 10000, 100000, make_interests, use_watch},
    {"ready files in an interest list", 10000, 100000, make_events, use_watch},
    {"lists that watch a file", 10000, 100000, make_watchers, use_watch},
    {"bound sockets", 10000, 100000, make_bound, use_bound},
    {"connections to be accepted", 120, 120, make_connections, use_connection},
    {"pending signals", 1000, 1000, make_signals, use_signal},
};

enum { STEPS = 3, ROUNDS = 12 };

/* The least that it has taken: what else was due in between is not counted. */
static double measure(void (*use)(long), long count) {
    double least = 1e18;
    for (int k = 0; k < ROUNDS; k++) {
        double begun = now();
        use(count);
        double took = now() - begun;
        if (took < least) least = took;
    }
    return least;
}

static int run(int index, int figures, int is_long) {
    long most = is_long ? CASES[index].most_long : CASES[index].most, made = 0;
    double took[STEPS];
    for (int step = 0; step < STEPS; step++) {
        long count = step == 0 ? most / 100 : step == 1 ? most / 10 : most;
        CASES[index].make(made, count);
        made = count;
        took[step] = measure(CASES[index].use, count);
    }
    /* A search tree is twice as deep where there are a hundred times a hundred, and not all that is done is a search. */
    int grows = took[STEPS - 1] > 2 * took[0] || took[STEPS - 1] > 1.6 * took[1];
    printf("%s: %s", CASES[index].of, grows ? "more" : "no matter");
    if (grows || figures) printf(" (up to %ld: %.0f, %.0f and %.0f ns)", most, took[0], took[1], took[2]);
    printf("\n");
    fflush(stdout);
    return grows;
}

int main(int argc, char **argv) {
    int figures = 0, is_long = 0, wrong = 0;
    const char *only = 0;
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "figures") == 0) figures = 1;
        else if (strcmp(argv[k], "long") == 0) is_long = 1;
        else only = argv[k];
    }
    struct rlimit limit = {30000, 30000};
    setrlimit(RLIMIT_NPROC, &limit);
    MUST(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int index = 0; index < (int)(sizeof CASES / sizeof *CASES); index++) {
        if (only && !strstr(CASES[index].of, only)) continue;
        int status = 1, child = fork();
        MUST(child >= 0);
        if (child == 0) {
            setpgid(0, 0);
            _exit(run(index, figures, is_long));
        }
        MUST(waitpid(child, &status, 0) == child);
        wrong |= status;
        kill(-child, SIGKILL); /* what it has made */
        while (waitpid(-1, 0, 0) > 0); /* the machine's first process gets it */
    }
    return wrong != 0;
}
