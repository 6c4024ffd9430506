/* How connections end, of streams of both kinds: who hears of it, and what was done before counts. */
#include "conform.h"
#include <netinet/in.h>

enum { LOCAL, INET };
static const char *kinds[] = {"AF_UNIX", "AF_INET"};
static char data[8 << 20];
static int one, two, list, told;
/* Its size differs between instruction sets. */
static long event_space[2];
#define event (*(struct epoll_event *)event_space)

/* As `T`, for one of the kinds. */
#define K(name, what, ...) if (begin(of_kind(i, #name ": " what), NR_##name)) { make(i); __VA_ARGS__; end(); }

static const char *of_kind(int i, const char *what) {
    static char label[200];
    snprintf(label, sizeof label, "%s, %s", what, kinds[i]);
    return label;
}

static void count(int signal) {
    (void)signal;
    told++;
}

/* A connection, whose ends are `one` and `two`. */
static void make(int i) {
    signal(SIGPIPE, count);
    if (i == LOCAL) {
        int both[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, both);
        one = both[0], two = both[1];
        return;
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    bind(listener, (void *)&at, len);
    listen(listener, 1);
    getsockname(listener, (void *)&at, &len);
    one = socket(AF_INET, SOCK_STREAM, 0);
    connect(one, (void *)&at, len);
    two = accept(listener, 0, 0);
    close(listener);
}

static long get(int fd, int room, int flags) { return CALL(recvfrom, fd, data, room, flags | MSG_DONTWAIT, 0, 0); }
static long put(int fd) { return CALL(sendto, fd, "x", 1, MSG_DONTWAIT, 0, 0); }

/* What the interest list says of `one`, and whether it says it twice. */
static void show_edge(void) {
    int got = epoll_wait(list, &event, 1, 20);
    say(" | %x", got == 1 ? event.events : 0);
    if (epoll_wait(list, &event, 1, 0) == 1)
        say(" twice");
}

static void watch(int events) {
    list = epoll_create1(0);
    event = (struct epoll_event){events | EPOLLET, {.fd = one}};
    epoll_ctl(list, EPOLL_CTL_ADD, one, &event);
    show_edge();
}

/* A child that acts when its parent sleeps. */
#define THEN(...) if (fork() == 0) { close(FRESH); until_asleep(getppid()); __VA_ARGS__; _exit(0); }

static void show_part(long got, long whole) {
    if (got > 0)
        say(got == whole ? " | all" : " | some");
    else
        result(got);
    say(" | %d signals", told);
}

void endings(void) {
    for (int i = LOCAL; i <= INET; i++) {
        K(epoll_wait, "edges of one's own shutdown", { watch(EPOLLIN | EPOLLOUT | EPOLLRDHUP); shutdown(one, SHUT_RD); show_edge(); })
        K(epoll_wait, "edges of one's own shutdown, and what was to be read", { watch(EPOLLIN | EPOLLRDHUP); shutdown(one, SHUT_RD); show_edge(); shutdown(two, SHUT_WR); show_edge(); shutdown(one, SHUT_WR); int got = epoll_wait(list, &event, 1, 100); say(" | %x", got == 1 ? event.events : 0); })
        K(epoll_wait, "edges of a peer that has closed, and of sending", { watch(EPOLLIN | EPOLLOUT | EPOLLRDHUP); close(two); usleep(10000); show_edge(); some(put(one)); usleep(10000); show_edge(); })
        K(epoll_wait, "edges of a peer that writes no more, then closes with something unread", { put(one); watch(EPOLLIN | EPOLLOUT | EPOLLRDHUP); shutdown(two, SHUT_WR); show_edge(); close(two); show_edge(); })
        K(epoll_wait, "edges of a peer that writes no more, then reads no more", { watch(EPOLLIN | EPOLLRDHUP); shutdown(two, SHUT_WR); show_edge(); shutdown(two, SHUT_RD); show_edge(); })
        K(epoll_wait, "edges of an error that was told", { put(one); watch(EPOLLIN | EPOLLRDHUP); close(two); show_edge(); result(get(one, 1, 0)); show_edge(); })
        K(write, "the peer closes with something unread meanwhile", { THEN(close(one), close(two)) close(two); show_part(write(one, data, sizeof data), sizeof data); result(put(one)); result(put(one)); say(" | %d signals", told); })
        K(write, "nothing more is written meanwhile", { THEN(shutdown(one, SHUT_WR)) show_part(write(one, data, sizeof data), sizeof data); result(put(one)); say(" | %d signals", told); })
        K(write, "nothing more is written meanwhile, and nothing was", { while (send(one, data, 4096, MSG_DONTWAIT) > 0); while (put(one) > 0); THEN(shutdown(one, SHUT_WR)) result(CALL(write, one, data, 1)); say(" | %d signals", told); })
        K(recvfrom, "nothing more is read meanwhile", { THEN(shutdown(one, SHUT_RD)) result(CALL(recvfrom, one, data, 1, 0, 0, 0)); })
        K(recvfrom, "no bytes", { result(get(one, 0, 0)); result(get(one, 0, MSG_PEEK)); result(CALL(read, one, data, 0)); put(two); usleep(10000); result(get(one, 0, 0)); result(get(one, 0, MSG_PEEK)); result(get(one, 1, 0)); shutdown(two, SHUT_WR); usleep(10000); result(get(one, 0, 0)); })
        K(recvfrom, "no bytes, when it was reset", { put(one); close(two); usleep(10000); result(CALL(read, one, data, 0)); result(get(one, 0, 0)); result(get(one, 0, 0)); result(get(one, 1, 0)); })
        K(recvfrom, "no bytes, waiting", { THEN(put(two)) result(CALL(recvfrom, one, data, 0, 0, 0, 0)); result(get(one, 4, 0)); })
        K(recvfrom, "MSG_TRUNC, and no memory", { CALL(write, two, "abcdef", 6); usleep(10000); result(get(one, 0, 0)); result(CALL(recvfrom, one, 0, 2, MSG_TRUNC | MSG_PEEK, 0, 0)); result(CALL(recvfrom, one, 0, 2, MSG_TRUNC, 0, 0)); result(CALL(recvfrom, one, BAD, 3, MSG_TRUNC, 0, 0)); result(get(one, 9, 0)); say(" '%s'", data); result(get(one, 9, MSG_TRUNC)); })
        K(recvmsg, "MSG_TRUNC, and a vector", { CALL(write, two, "abcdef", 6); usleep(10000); struct iovec parts[] = {{data, 1}, {0, 0}, {data + 8, 3}}; struct msghdr header = {.msg_iov = parts, .msg_iovlen = 3}; result(CALL(recvmsg, one, &header, MSG_TRUNC)); say(" '%s' '%s' | %x", data, data + 8, header.msg_flags); result(get(one, 9, 0)); })
        K(recvfrom, "MSG_PEEK | MSG_WAITALL", { CALL(write, two, "ab", 2); THEN(CALL(write, two, "cd", 2)) result(CALL(recvfrom, one, data, 4, MSG_PEEK | MSG_WAITALL, 0, 0)); say(" '%s'", data); wait(0); usleep(10000); result(get(one, 9, 0)); })
        K(recvfrom, "MSG_PEEK | MSG_WAITALL, and the end", { CALL(write, two, "ab", 2); shutdown(two, SHUT_WR); usleep(10000); result(CALL(recvfrom, one, data, 4, MSG_PEEK | MSG_WAITALL, 0, 0)); result(get(one, 9, 0)); })
        K(recvfrom, "MSG_PEEK | MSG_WAITALL, and its time is over", { struct timeval soon = {0, 50000}; setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon); CALL(write, two, "ab", 2); usleep(10000); result(CALL(recvfrom, one, data, 4, MSG_PEEK | MSG_WAITALL, 0, 0)); result(get(one, 9, 0)); })
        K(sendfile, "the peer has closed with something unread", { put(one); close(two); usleep(10000); result(CALL(sendfile, one, RW, 0, 4)); say(" | %d signals", told); result(CALL(sendfile, one, RW, 0, 4)); say(" | %d signals", told); })
        K(sendfile, "nothing more is written meanwhile", { ftruncate(RW, sizeof data); THEN(shutdown(one, SHUT_WR)) show_part(CALL(sendfile, one, RW, 0, sizeof data), sizeof data); result(put(one)); say(" | %d signals", told); })
    }
}
