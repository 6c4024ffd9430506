/* Waiting for several files. */
#include "conform.h"

static struct pollfd one[8];
static struct timespec moment = {0, 1000000}, odd = {0, 1000000000};
static struct timeval soon = {0, 1000}, wrong = {-1, 0};
/* Room for any ISA's, as a datum has the same size on all. */
static uint64_t events_space[12];
#define watched (*(struct epoll_event *)(events_space + 8))
#define found ((struct epoll_event *)events_space)

static short readiness_of(int fd) {
    one[0] = (struct pollfd){fd, POLLIN | POLLOUT | POLLPRI | POLLRDHUP, 0};
    poll(one, 1, 0);
    return one[0].revents;
}

static void all_kinds(void) {
    static const char *names[] = {"RW", "RO", "WO", "APPEND", "DIR_FD", "PATH_FD", "PIPE_R", "PIPE_W", "SOCK", "PEER", "EVENT",
        "EPOLL", "TIMER", "SIGNAL", "MEMFD", "NULL_FD", "ZERO_FD", "FRESH", "CLOSED"};
    for (int fd = RW; fd <= CLOSED; fd++)
        say(" | %s %x", names[fd - RW], readiness_of(fd));
}

static fd_set in, out;

static void nothing(int signal) { (void)signal; }

/* A handler runs after 200 ms, and again and again, should the host be so busy that the call begins later. */
static void interrupt_soon(void) {
    struct itimerval soon = {{0, 200000}, {0, 200000}};
    signal(SIGALRM, nothing);
    setitimer(ITIMER_REAL, &soon, 0);
}

static volatile int handled;
static struct timespec nothing_left;
static long none[1];
static void note(int signal) { handled = signal; }

/* A signal that has a handler, and waits for its mask to let it through. */
static void raise_blocked(void) {
    sigset_t set;
    signal(SIGUSR1, note);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(SIGUSR1);
}

static int wait_in_poll(void) { return poll(0, 0, 3000) < 0 ? errno : 0; }
static int wait_in_epoll(void) { return epoll_wait(EPOLL, found, 4, 30000) < 0 ? errno : 0; }

void waiting(void) {
    T(ppoll, "what every kind of file is ready for", { all_kinds(); })
    T(ppoll, "a pipe without writer", { close(PIPE_W); say(" | %x", readiness_of(PIPE_R)); read(PIPE_R, buffer, 9); say(" | %x", readiness_of(PIPE_R)); })
    T(ppoll, "a named pipe before and after its first writer", {
        int ends[2] = {open("fifo", O_RDONLY | O_NONBLOCK), -1};
        say(" | %x", readiness_of(ends[0]));
        ends[1] = open("fifo", O_WRONLY);
        say(" | %x", readiness_of(ends[0]));
        close(ends[1]);
        say(" | %x", readiness_of(ends[0]));
        say(" | %x", readiness_of(open("fifo", O_RDONLY | O_NONBLOCK)));
    })
    T(ppoll, "a pipe without reader", { close(PIPE_R); say(" | %x", readiness_of(PIPE_W)); })
    T(ppoll, "what is asked for is told, errors unasked", {
        struct pollfd asked[4] = {
            {SOCK, POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND, 0},
            {SOCK, 0, 0},
            {CLOSED, 0, 0},
            {EVENT, POLLERR | POLLHUP | POLLNVAL, 0},
        };
        result(poll(asked, 4, 0));
        say(" | %x %x %x %x", asked[0].revents, asked[1].revents, asked[2].revents, asked[3].revents);
    })
    C(select, FD_SETSIZE + 1, 0, 0, 0, &soon)
    T(ppoll, "a socket whose peer has gone", { close(PEER); say(" | %x", readiness_of(SOCK)); })
    one[0] = (struct pollfd){PIPE_R, POLLIN, 0};
    one[1] = (struct pollfd){-5, POLLIN, 99};
    one[2] = (struct pollfd){CLOSED, POLLIN, 0};
    one[3] = (struct pollfd){PEER, POLLIN, 0};
    E(say(" | %x %x %x", one[0].revents, one[1].revents, one[2].revents), poll, one, 3, -1)
    C(poll, one + 3, 1, 0)
    C(poll, one + 3, 1, 1)
    C(poll, 0, 0, 1)
    C(poll, BAD, 1, 0)
    C(poll, one, 100000, 0)
    C(ppoll, one, 1, &moment, 0, 8)
    C(ppoll, one + 3, 1, &moment, 0, 8)
    C(ppoll, one + 3, 1, &odd, 0, 8)
    C(ppoll, one + 3, 1, BAD, 0, 8)
    C(ppoll, one + 3, 1, &moment, buffer, 4)
    C(ppoll, one + 3, 1, &moment, BAD, 8)
    C(ppoll, BAD, 1, &moment, 0, 8)
    T(ppoll, "the time left when a handler ends it", {
        struct timespec time = {1000, 0};
        interrupt_soon();
        result(CALL(ppoll, 0, 0, &time, 0, 8));
        say(" | %s", time.tv_sec < 1000 && time.tv_sec > 900 ? "less" : "other");
    })
    T(ppoll, "no time, and a signal that the mask lets through", { raise_blocked(); result(CALL(ppoll, 0, 0, &nothing_left, none, 8)); say(" | %d", handled); })
    T(ppoll, "a file is ready, and a signal that the mask lets through", { raise_blocked(); result(CALL(ppoll, one, 1, &nothing_left, none, 8)); say(" | %d", handled); })
    T(pselect6, "no time, and a signal that the mask lets through", { long mask[2] = {(long)none, 8}; raise_blocked(); result(CALL(pselect6, 0, 0, 0, 0, &nothing_left, mask)); say(" | %d", handled); })
    T(epoll_pwait, "no time, and a signal that the mask lets through", { epoll_ctl(EPOLL, EPOLL_CTL_DEL, PIPE_R, 0); raise_blocked(); result(CALL(epoll_pwait, EPOLL, found, 4, 0, none, 8)); say(" | %d", handled); })
    T(epoll_pwait, "a signal that the mask lets through", { epoll_ctl(EPOLL, EPOLL_CTL_DEL, PIPE_R, 0); raise_blocked(); result(CALL(epoll_pwait, EPOLL, found, 4, 2000, none, 8)); say(" | %d", handled); })
    T(poll, "a stop does not end it", { stopped_in(wait_in_poll); })
    T(poll, "a handler that ends it writes nothing", {
        /* Where a deadline would be that somebody took for an address. */
        struct timespec now;
        long at;
        long sum = 0;
        clock_gettime(CLOCK_MONOTONIC, &now);
        at = ((now.tv_sec + 20) * 1000000000L + now.tv_nsec) & -PAGE;
        char *there = mmap((void *)at, 16384 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        interrupt_soon();
        result(CALL(poll, 0, 0, 20000));
        for (long i = 0; i < 16384 * PAGE; i += 8)
            sum |= *(long *)(there + i);
        say(" | %s%s", there == (char *)at ? "there" : "elsewhere", sum ? ", written" : "");
    })
    T(poll, "more than RLIMIT_NOFILE", {
        struct rlimit few = {40, 40};
        static struct pollfd many[41];
        for (int i = 0; i < 41; i++)
            many[i].fd = -1;
        setrlimit(RLIMIT_NOFILE, &few);
        result(CALL(poll, many, 40, 0));
        result(CALL(poll, many, 41, 0));
    })
    T(ppoll, "the time left is written back", { struct timespec time = {100, 0}; result(CALL(ppoll, one, 1, &time, 0, 8)); say(time.tv_sec < 100 ? " | less" : " | as it was"); })
    FD_SET(PIPE_R, &in);
    FD_SET(PIPE_W, &out);
    E(say(" | %d %d", !!FD_ISSET(PIPE_R, &in), !!FD_ISSET(PIPE_W, &out)), select, 64, &in, &out, 0, &soon)
    C(select, -1, 0, 0, 0, &soon)
    C(select, 64, BAD, 0, 0, &soon)
    C(select, 0, 0, 0, 0, &soon)
    C(select, 64, &in, 0, 0, &wrong)
    C(select, 64, &in, 0, 0, BAD)
    E(say(" | %d %d", !!FD_ISSET(PIPE_R, &in), !!FD_ISSET(PIPE_W, &out)), pselect6, 64, &in, &out, 0, &moment, 0)
    C(pselect6, -1, 0, 0, 0, &moment, 0)
    C(pselect6, 0, 0, 0, 0, &moment, 0)
    C(pselect6, 0, 0, 0, 0, &odd, 0)
    C(pselect6, 0, 0, 0, 0, &moment, BAD)
    T(pselect6, "a closed descriptor", { fd_set closed; FD_ZERO(&closed); FD_SET(CLOSED, &closed); result(CALL(pselect6, 64, &closed, 0, 0, &moment, 0)); })
    T(select, "the time left is written back", { struct timeval time = {100, 0}; some(CALL(select, 64, &in, 0, 0, &time)); say(time.tv_sec < 100 ? " | less" : " | as it was"); })
    C(select, 0, 0, 0, 0, (&(struct timeval){0, 1500000}))
    T(select, "the time left when it is over", { struct timeval time = {0, 1000}; result(CALL(select, 0, 0, 0, 0, &time)); say(" | %ld %ld", (long)time.tv_sec, (long)time.tv_usec); })
    T(select, "the time left when a handler ends it", {
        struct timeval time = {1000, 0};
        interrupt_soon();
        result(CALL(select, 0, 0, 0, 0, &time));
        say(" | %s", time.tv_sec < 1000 && time.tv_sec > 900 ? "less" : "other");
    })
    T(pselect6, "the time left when a handler ends it", {
        struct timespec time = {1000, 0};
        interrupt_soon();
        result(CALL(pselect6, 0, 0, 0, 0, &time, 0));
        say(" | %s", time.tv_sec < 1000 && time.tv_sec > 900 ? "less" : "other");
    })
    T(pselect6, "the time left is written back", { struct timespec time = {100, 0}; some(CALL(pselect6, 64, &in, 0, 0, &time, 0)); say(time.tv_sec < 100 ? " | less" : " | as it was"); })
    E(show_flags(3), epoll_create, 1)
    C(epoll_create, 0)
    C(epoll_create, -1)
    E(show_flags(3), epoll_create1, EPOLL_CLOEXEC)
    C(epoll_create1, O_NONBLOCK)
    watched = (struct epoll_event){EPOLLIN, {.u64 = 9}};
#define EVENT_OF(...) (&(struct epoll_event){__VA_ARGS__})
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, PEER, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, PIPE_R, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, RW, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, DIR_FD, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, PATH_FD, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, EPOLL, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, CLOSED, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, PEER, BAD)
    C(epoll_ctl, EPOLL, EPOLL_CTL_MOD, PIPE_R, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_MOD, PEER, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_DEL, PIPE_R, 0)
    C(epoll_ctl, EPOLL, EPOLL_CTL_DEL, PEER, 0)
    C(epoll_ctl, EPOLL, 9, PEER, &watched)
    C(epoll_ctl, RW, EPOLL_CTL_ADD, PEER, &watched)
    C(epoll_ctl, CLOSED, EPOLL_CTL_ADD, PEER, &watched)
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, PEER, EVENT_OF(EPOLLIN | EPOLLET | EPOLLONESHOT))
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, PEER, EVENT_OF(EPOLLIN | EPOLLEXCLUSIVE))
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, PEER, EVENT_OF(EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT))
    C(epoll_ctl, EPOLL, EPOLL_CTL_MOD, PIPE_R, EVENT_OF(EPOLLIN | EPOLLEXCLUSIVE))
    C(epoll_ctl, EPOLL, EPOLL_CTL_ADD, PEER, EVENT_OF(EPOLLIN | EPOLLWAKEUP))
    E(say(" | %x %d", found[0].events, (int)found[0].data.u64), epoll_wait, EPOLL, found, 4, -1)
    C(epoll_wait, EPOLL, found, 0, 0)
    C(epoll_wait, EPOLL, found, -1, 0)
    C(epoll_wait, EPOLL, BAD, 4, 0)
    C(epoll_wait, RW, found, 4, 0)
    C(epoll_wait, CLOSED, found, 4, 0)
    E(say(" | %x %d", found[0].events, (int)found[0].data.u64), epoll_pwait, EPOLL, found, 4, -1, 0, 8)
    C(epoll_pwait, EPOLL, found, 4, -1, buffer, 4)
    C(epoll_pwait, EPOLL, found, 4, -1, BAD, 8)
    C(epoll_pwait, RW, found, 4, 0, 0, 8)
    E(say(" | %x %d", found[0].events, (int)found[0].data.u64), epoll_pwait2, EPOLL, found, 4, &moment, 0, 8)
    C(epoll_pwait2, EPOLL, found, 4, &odd, 0, 8)
    C(epoll_pwait2, EPOLL, found, 4, BAD, 0, 8)
    C(epoll_pwait2, RW, found, 4, &moment, 0, 8)
    T(epoll_wait, "EPOLLET tells once", { *found = (struct epoll_event){EPOLLIN | EPOLLET, {.u64 = 1}}; epoll_ctl(EPOLL, EPOLL_CTL_MOD, PIPE_R, found); result(epoll_wait(EPOLL, found, 4, 0)); result(epoll_wait(EPOLL, found, 4, 0)); write(PIPE_W, "x", 1); result(epoll_wait(EPOLL, found, 4, 0)); })
    T(epoll_wait, "a stop ends it", { epoll_ctl(EPOLL, EPOLL_CTL_DEL, PIPE_R, 0); stopped_in(wait_in_epoll); })
    T(epoll_ctl, "EPOLLEXCLUSIVE stays", { *found = (struct epoll_event){EPOLLIN | EPOLLEXCLUSIVE}; result(epoll_ctl(EPOLL, EPOLL_CTL_ADD, PEER, found)); result(epoll_ctl(EPOLL, EPOLL_CTL_MOD, PEER, &watched)); })
    T(epoll_ctl, "EPOLLEXCLUSIVE of a list", { int list = epoll_create1(0); *found = (struct epoll_event){EPOLLIN | EPOLLEXCLUSIVE}; result(epoll_ctl(EPOLL, EPOLL_CTL_ADD, list, found)); })
    T(epoll_wait, "EPOLLONESHOT tells once", { *found = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u64 = 1}}; epoll_ctl(EPOLL, EPOLL_CTL_MOD, PIPE_R, found); result(epoll_wait(EPOLL, found, 4, 0)); write(PIPE_W, "x", 1); result(epoll_wait(EPOLL, found, 4, 0)); })
}
