/* Waiting for several files: epoll, event counters and timers. Threads that wait and threads that write run on different
   instruction sets. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crossing.h"

static int list;

static const char *shown(int result) {
    static char text[64];
    if (result >= 0) {
        snprintf(text, sizeof text, "%d", result);
        return text;
    }
    return strerror(errno);
}

static int control(int operation, int fd, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    return epoll_ctl(list, operation, fd, &event);
}

/* What epoll_wait returns, with the events in the order of their data. */
static void look(const char *when, int most, int timeout_ms) {
    struct epoll_event events[8];
    int count = epoll_wait(list, events, most, timeout_ms);
    printf("%s: %s", when, shown(count));
    if (most == 1) count = 0; /* any of them */
    for (uint64_t data = 0; data < 16; data++)
        for (int i = 0; i < count; i++)
            if (events[i].data.u64 == data + 0x1234567800000000) printf(" %d:%#x", (int)data, events[i].events);
    printf("\n");
}

#define DATA(n) (0x1234567800000000 + (n))

/* Functions, so that each can be pinned to an instruction set. */
MOTET_ON(ARM) ssize_t put_there(int fd, const void *bytes, size_t len) { expect_on(ARM); return write(fd, bytes, len); }
MOTET_ON(RISCV) ssize_t take_there(int fd, void *bytes, size_t len) { expect_on(RISCV); return read(fd, bytes, len); }
MOTET_ON(RISCV) int add_there(int fd, uint32_t events, uint64_t data) {
    expect_on(RISCV);
    return control(EPOLL_CTL_ADD, fd, events, data);
}
MOTET_ON(ARM) void look_there(const char *when, int most, int timeout_ms) { expect_on(ARM); look(when, most, timeout_ms); }

static void levels(void) {
    int ends[2];
    char bytes[100];
    pipe2(ends, O_NONBLOCK);
    printf("levels\n");
    look("nothing watched", 8, 0);
    printf("add %s\n", shown(add_there(ends[0], EPOLLIN, DATA(1))));
    printf("add again %s\n", shown(control(EPOLL_CTL_ADD, ends[0], EPOLLIN, DATA(1))));
    printf("add the other end %s\n", shown(control(EPOLL_CTL_ADD, ends[1], EPOLLOUT | EPOLLIN, DATA(2))));
    look("empty", 8, 0);
    put_there(ends[1], "hello", 5);
    look("written", 8, 0);
    look_there("still", 8, 0);
    look("one at a time", 1, 0);
    take_there(ends[0], bytes, sizeof bytes);
    look("read", 8, 0);
    printf("modify %s\n", shown(control(EPOLL_CTL_MOD, ends[1], 0, DATA(3))));
    look("not asked", 8, 0);
    close(ends[0]);
    look("no reader", 8, 0);
    printf("remove %s\n", shown(control(EPOLL_CTL_DEL, ends[1], 0, 0)));
    printf("remove again %s\n", shown(control(EPOLL_CTL_DEL, ends[1], 0, 0)));
    look("removed", 8, 0);
    close(ends[1]);
}

static void edges(void) {
    int ends[2];
    char bytes[100];
    pipe2(ends, O_NONBLOCK);
    printf("edges\n");
    control(EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET, DATA(1));
    put_there(ends[1], "hello", 5);
    look("written", 8, 0);
    look("no news", 8, 0);
    put_there(ends[1], "hello", 5);
    look_there("more", 8, 0);
    take_there(ends[0], bytes, sizeof bytes);
    put_there(ends[1], "hellohello", 10);
    look("as much as before", 8, 0);
    look("no news", 8, 0);
    close(ends[1]);
    look("no writer", 8, 0);
    look("no news", 8, 0);
    control(EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLET, DATA(4));
    look("modified", 8, 0);
    close(ends[0]);

    pipe2(ends, O_NONBLOCK);
    control(EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLONESHOT, DATA(5));
    put_there(ends[1], "hello", 5);
    look("once", 8, 0);
    put_there(ends[1], "hello", 5);
    look("no more", 8, 0);
    control(EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLONESHOT, DATA(6));
    look("once again", 8, 0);
    close(ends[0]);
    close(ends[1]);
}

/* A file stays watched until its last descriptor is closed, also those of children. */
static void lives(void) {
    int ends[2];
    pipe(ends);
    printf("lives\n");
    control(EPOLL_CTL_ADD, ends[0], EPOLLIN, DATA(1));
    int copy = dup(ends[0]);
    close(ends[0]);
    write(ends[1], "x", 1);
    look("a copy is open", 8, 0);
    close(copy);
    look("closed", 8, 0);
    close(ends[1]);
    int counter = eventfd(0, 0);
    printf("add %s\n", shown(control(EPOLL_CTL_ADD, counter, EPOLLIN, DATA(7))));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        put_there(counter, &(uint64_t){3}, 8);
        _exit(0);
    }
    look("the child wrote", 8, -1);
    waitpid(child, 0, 0);
    uint64_t count = 0;
    take_there(counter, &count, 8);
    printf("count %d\n", (int)count);
    close(counter);
}

static void refused(void) {
    int file = open("/dev/null", O_RDWR), other = epoll_create1(0), third = epoll_create1(EPOLL_CLOEXEC), counter = eventfd(1, 0);
    struct epoll_event event = {.events = EPOLLIN};
    printf("refused\n");
    printf("no file %s\n", shown(control(EPOLL_CTL_ADD, 99, EPOLLIN, 0)));
    printf("always ready %s\n", shown(control(EPOLL_CTL_ADD, file, EPOLLIN, 0)));
    printf("itself %s\n", shown(control(EPOLL_CTL_ADD, list, EPOLLIN, 0)));
    printf("no list %s\n", shown(epoll_ctl(counter, EPOLL_CTL_ADD, other, &event)));
    printf("no such operation %s\n", shown(control(7, counter, EPOLLIN, 0)));
    printf("change of nothing %s\n", shown(control(EPOLL_CTL_MOD, counter, EPOLLIN, 0)));
    printf("no room %s\n", shown(epoll_wait(list, &event, 0, 0)));
    printf("flags %s\n", shown(epoll_create1(1)));
    event.data.u64 = DATA(9);
    printf("a list in a list %s\n", shown(epoll_ctl(other, EPOLL_CTL_ADD, counter, &event)) );
    printf("add %s\n", shown(control(EPOLL_CTL_ADD, other, EPOLLIN, DATA(8))));
    printf("in a circle %s\n", shown(epoll_ctl(other, EPOLL_CTL_ADD, list, &event)));
    look("through two lists", 8, 0);
    printf("bad address %s\n", shown(epoll_wait(list, (void *)8, 1, 0)));
    printf("most %s\n", shown(epoll_wait(list, &event, 2147483647, 0)));
    struct pollfd asked = {list, POLLIN, 0};
    printf("poll %s %#x\n", shown(poll(&asked, 1, 0)), asked.revents);
    char link[64] = "", name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", list);
    printf("%s\n", readlink(name, link, sizeof link - 1) > 0 ? link : "no name");
    close(other), close(third), close(file), close(counter);
    look("closed", 8, 0);
}

static long elapsed_ms(struct timespec from) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000;
}

static void timers(void) {
    struct timespec start;
    struct itimerspec setting = {.it_value.tv_nsec = 500000000}, old;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    uint64_t count = 0;
    printf("timers\n");
    control(EPOLL_CTL_ADD, timer, EPOLLIN | EPOLLET, DATA(1));
    printf("not armed: %s", shown(take_there(timer, &count, 8)));
    clock_gettime(CLOCK_MONOTONIC, &start); /* before the timer is armed: afterwards the thread may be delayed at any time */
    printf(", %s\n", shown(timerfd_settime(timer, 0, &setting, &old)));
    printf("old %ld %ld\n", (long)old.it_value.tv_sec, (long)old.it_value.tv_nsec);
    while (elapsed_ms(start) >= 450) { /* the thread was delayed: it is not early any more */
        clock_gettime(CLOCK_MONOTONIC, &start);
        timerfd_settime(timer, 0, &setting, 0);
    }
    look("too early", 8, 1);
    look_there("expired", 8, -1);
    printf("in time: %d\n", elapsed_ms(start) >= 499);
    look("no news", 8, 0);
    printf("read %s", shown(take_there(timer, &count, 8)));
    printf(" %d\n", (int)count);
    printf("read again %s\n", shown(take_there(timer, &count, 8)));
    clock_gettime(CLOCK_REALTIME, &setting.it_value);
    setting.it_value.tv_sec -= 10;
    setting.it_interval.tv_nsec = 1000000;
    int real = timerfd_create(CLOCK_REALTIME, 0);
    timerfd_settime(real, TFD_TIMER_ABSTIME, &setting, 0);
    printf("read %s", shown(take_there(real, &count, 8)));
    printf(" many: %d\n", count >= 10000);
    timerfd_gettime(real, &setting);
    printf("next within an interval: %d\n", setting.it_value.tv_sec == 0 && setting.it_value.tv_nsec <= 1000000);
    printf("read %s\n", shown(take_there(real, &count, 8)));
    setting.it_value.tv_nsec = 1000000000;
    printf("bad time %s\n", shown(timerfd_settime(timer, 0, &setting, 0)));
    printf("bad clock %s\n", shown(timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0)));
    printf("no timer %s\n", shown(timerfd_gettime(list, &setting)));
    close(timer), close(real);
}

/* More files than a thread has wait nodes. Each file is written on another island than the thread waits on. */
enum { MANY = 24, ROUNDS = 200 };
static int many[MANY];

MOTET_ON(ARM) static void *write_all(void *unused) {
    expect_on(ARM);
    for (int round = 0; round < ROUNDS; round++) write(many[round * 7 % MANY], &(uint64_t){1}, 8);
    return unused;
}

static void crowds(void) {
    pthread_t writer;
    int seen = 0;
    printf("crowds\n");
    for (int i = 0; i < MANY; i++) control(EPOLL_CTL_ADD, many[i] = eventfd(0, EFD_NONBLOCK), EPOLLIN | EPOLLET, i);
    pthread_create(&writer, 0, write_all, 0);
    while (seen < ROUNDS) {
        struct epoll_event events[5];
        int count = epoll_wait(list, events, 5, 10000);
        if (count <= 0) break;
        for (int i = 0; i < count; i++) {
            uint64_t value = 0;
            if (read(many[events[i].data.u64], &value, 8) == 8) seen += value;
        }
    }
    pthread_join(writer, 0);
    printf("all seen: %d\n", seen);
    for (int i = 0; i < MANY; i++) close(many[i]);
}

/* More pipes than a thread has wait nodes. Each is written on one of three instruction sets. */
enum { PIPES = 200 };
static int pipes[PIPES][2];
static void write_every_third(int first) {
    for (int round = 0; round < 3; round++)
        for (int i = first; i < PIPES; i += 3) write(pipes[i][1], "x", 1);
}
static void *write_here(void *unused) { write_every_third(0); return unused; }
MOTET_ON(ARM) void *write_on_arm(void *unused) { expect_on(ARM); write_every_third(1); return unused; }
MOTET_ON(RISCV) void *write_on_riscv(void *unused) { expect_on(RISCV); write_every_third(2); return unused; }

static void all_pipes(uint32_t events) {
    void *(*const writers[])(void *) = {write_here, write_on_arm, write_on_riscv};
    pthread_t threads[3];
    int seen[PIPES] = {0}, all = 0;
    for (int i = 0; i < PIPES; i++) {
        pipe2(pipes[i], O_NONBLOCK);
        control(EPOLL_CTL_ADD, pipes[i][0], EPOLLIN | events, i);
    }
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, writers[i], 0);
    while (all < 3 * PIPES) {
        struct epoll_event found[16];
        int count = epoll_wait(list, found, 16, 10000);
        if (count <= 0) break;
        for (int i = 0; i < count; i++) {
            char bytes[8];
            ssize_t got = read(pipes[found[i].data.u64][0], bytes, sizeof bytes);
            if (got > 0) seen[found[i].data.u64] += got, all += got;
        }
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    int complete = 0;
    for (int i = 0; i < PIPES; i++) complete += seen[i] == 3;
    printf("complete: %d, left: %s\n", complete, shown(epoll_wait(list, &(struct epoll_event){0}, 1, 0)));
    for (int i = 0; i < PIPES; i++) close(pipes[i][0]), close(pipes[i][1]);
}

/* As all_pipes, without an interest list: each wait enters the queues of all pipes. */
static int wait_for_any(int by_select, struct pollfd *entries) {
    if (!by_select) return poll(entries, PIPES, 60000);
    fd_set readable;
    FD_ZERO(&readable);
    for (int i = 0; i < PIPES; i++) FD_SET(pipes[i][0], &readable);
    int count = select(pipes[PIPES - 1][1] + 1, &readable, 0, 0, &(struct timeval){.tv_sec = 10});
    for (int i = 0; i < PIPES; i++) entries[i].revents = FD_ISSET(pipes[i][0], &readable) ? POLLIN : 0;
    return count;
}

static void all_asked(int by_select) {
    void *(*const writers[])(void *) = {write_here, write_on_arm, write_on_riscv};
    pthread_t threads[3];
    struct pollfd entries[PIPES];
    int all = 0;
    for (int i = 0; i < PIPES; i++) {
        pipe2(pipes[i], O_NONBLOCK);
        entries[i] = (struct pollfd){.fd = pipes[i][0], .events = POLLIN};
    }
    printf("none: %d\n", poll(entries, PIPES, 30));
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, writers[i], 0);
    while (all < 3 * PIPES && wait_for_any(by_select, entries) > 0) {
        char bytes[8];
        for (int i = 0; i < PIPES; i++)
            if (entries[i].revents & POLLIN) all += read(pipes[i][0], bytes, sizeof bytes);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    printf("bytes: %d, left: %d\n", all, poll(entries, PIPES, 0));
    for (int i = 0; i < PIPES; i++) close(pipes[i][0]), close(pipes[i][1]);
}

/* Two threads of different instruction sets send a ball back and forth over two counters, with edge-triggered events. */
static int ball[2];

static int play(int mine, int other, int rounds) {
    int own = epoll_create1(0), done = 0;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    epoll_ctl(own, EPOLL_CTL_ADD, mine, &event);
    while (done < rounds && epoll_wait(own, &event, 1, 10000) == 1) {
        uint64_t value;
        if (read(mine, &value, 8) != 8) continue;
        done++;
        write(other, &value, 8);
    }
    close(own);
    return done;
}
MOTET_ON(RISCV) void *play_there(void *unused) { expect_on(RISCV); play(ball[1], ball[0], 300); return unused; }

static void balls(void) {
    pthread_t other;
    ball[0] = eventfd(1, EFD_NONBLOCK), ball[1] = eventfd(0, EFD_NONBLOCK);
    pthread_create(&other, 0, play_there, 0);
    printf("balls\n%d\n", play(ball[0], ball[1], 300));
    pthread_join(other, 0);
    close(ball[0]), close(ball[1]);
}

static void interrupt(int number) { (void)number; }

static void signals(void) {
    struct epoll_event event;
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    sigset_t blocked, none;
    printf("signals\n");
    sigaction(SIGALRM, &action, 0);
    sigemptyset(&none), sigemptyset(&blocked), sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    raise(SIGALRM);
    printf("blocked %s\n", shown(epoll_wait(list, &event, 1, 1)));
    printf("let in %s\n", shown(epoll_pwait(list, &event, 1, -1, &none)));
    printf("blocked %s\n", shown(epoll_pwait(list, &event, 1, 1, &blocked)));
    sigprocmask(SIG_SETMASK, &none, 0);
}

/* signalfd: a process reads its own signals. */
static int signal_fd;
MOTET_ON(ARM) ssize_t read_signals_there(struct signalfd_siginfo *infos, int most) {
    expect_on(ARM);
    return read(signal_fd, infos, most * sizeof *infos) / (ssize_t)sizeof *infos;
}
static void read_signals(void) {
    struct signalfd_siginfo infos[4];
    struct epoll_event event = {.events = EPOLLIN};
    sigset_t set;
    printf("signals that are read\n");
    sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, 0);
    signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    printf("none %s\n", shown(read(signal_fd, infos, sizeof infos)));
    printf("too little room %s\n", shown(read(signal_fd, infos, 100)));
    printf("not written %s\n", shown(write(signal_fd, infos, 128)));
    epoll_ctl(list, EPOLL_CTL_ADD, signal_fd, &event);
    printf("quiet %s\n", shown(epoll_wait(list, &event, 1, 0)));
    raise(SIGUSR1);
    printf("one %s\n", shown(epoll_wait(list, &event, 1, 1000)));
    ssize_t count = read_signals_there(infos, 4);
    printf("read %zd: signal %u of me %d\n", count, infos[0].ssi_signo, infos[0].ssi_pid == (uint32_t)getpid());
    printf("taken %s\n", shown(epoll_wait(list, &event, 1, 0)));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(0);
    }
    printf("child %s\n", shown(epoll_wait(list, &event, 1, 60000)));
    count = read_signals_there(infos, 4);
    printf("read %zd: signal %u of the child %d\n", count, infos[0].ssi_signo, infos[0].ssi_pid == (uint32_t)child);
    waitpid(child, 0, 0);
    sigdelset(&set, SIGUSR1);
    printf("other set %d\n", signalfd(signal_fd, &set, 0) == signal_fd);
    raise(SIGUSR1);
    printf("not for it %s\n", shown(read(signal_fd, infos, sizeof infos)));
    fcntl(signal_fd, F_SETFL, 0);
    if (fork() == 0) {
        usleep(20000);
        kill(getppid(), SIGCHLD);
        _exit(0);
    }
    printf("waited for %zd\n", read_signals_there(infos, 1));
    wait(0);
    printf("no such set %s\n", shown(signalfd(list, &set, 0)));
    close(signal_fd);
    signal(SIGUSR1, SIG_IGN);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &set, 0);
}

int main(void) {
    list = epoll_create1(0);
    levels();
    edges();
    lives();
    refused();
    timers();
    crowds();
    all_pipes(0);
    all_pipes(EPOLLET);
    all_asked(0);
    all_asked(1);
    balls();
    signals();
    read_signals();
    close(list);
    return 0;
}
