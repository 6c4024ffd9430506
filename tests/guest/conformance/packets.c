/* Packets and datagrams between sockets, and what goes with them: open files, credentials. */
#include "conform.h"

static char data[4096];
static struct sockaddr_un server = {AF_UNIX, "server"}, client = {AF_UNIX, "client"};
static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
static int pair[2];

/* As `T`, for one of the kinds. */
#define K(name, what, ...) if (begin(of_kind(i, #name ": " what), NR_##name)) { __VA_ARGS__; end(); }

static const char *of_kind(int i, const char *what) {
    static char label[200];
    static const char *names[] = {"SOCK_STREAM", "SOCK_DGRAM", "SOCK_SEQPACKET"};
    snprintf(label, sizeof label, "%s, %s", what, names[i]);
    return label;
}

static void make_pair(int kind) {
    if (socketpair(AF_UNIX, kind, 0, pair))
        abort();
}

/* Two messages, the second one in a page that cannot be written. */
static struct mmsghdr *across_a_border(void) {
    static struct iovec part = {data, 3};
    char *pages = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct mmsghdr *all = (void *)(pages + PAGE - sizeof *all);
    for (int j = 0; j < 2; j++)
        all[j].msg_hdr = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
    mprotect(pages + PAGE, PAGE, PROT_READ);
    return all;
}

static int bound(int kind, struct sockaddr_un *name) {
    int fd = socket(AF_UNIX, kind, 0);
    bind(fd, (void *)name, sizeof *name);
    return fd;
}

/* A message with control messages. */
struct message {
    struct msghdr header;
    struct iovec part;
    struct sockaddr_un name;
    union { struct cmsghdr first; char space[2048]; } control;
};

static struct message *message_of(void *bytes, int len) {
    static struct message all[8];
    static int next;
    struct message *of = &all[next++ % 8];
    memset(of, 0, sizeof *of);
    of->part = (struct iovec){bytes, len};
    of->header = (struct msghdr){.msg_iov = &of->part, .msg_iovlen = 1};
    return of;
}

static struct message *with_files(void *bytes, int len, int count, const int *fds) {
    struct message *of = message_of(bytes, len);
    of->header.msg_control = of->control.space;
    of->header.msg_controllen = CMSG_SPACE(4 * count);
    of->control.first = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(4 * count)};
    memcpy(CMSG_DATA(&of->control.first), fds, 4 * count);
    return of;
}

static long send_files(int to, int count, ...) {
    int fds[300];
    va_list rest;
    va_start(rest, count);
    for (int i = 0; i < count; i++)
        fds[i] = va_arg(rest, int);
    va_end(rest);
    return CALL(sendmsg, to, &with_files("x", 1, count, fds)->header, 0);
}

static struct message *with_room(int len, int room) {
    struct message *of = message_of(data, len);
    of->header.msg_control = of->control.space;
    of->header.msg_controllen = room;
    return of;
}

/* What control messages there are; a pipe among the files is written to, and the files are closed. */
static void show_control(struct message *of) {
    say(" | flags %x, %d bytes", of->header.msg_flags, (int)of->header.msg_controllen);
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&of->header); at; at = CMSG_NXTHDR(&of->header, at)) {
        say(" | %d %d %d:", at->cmsg_level, at->cmsg_type, (int)at->cmsg_len);
        int *fds = (int *)CMSG_DATA(at), count = ((int)at->cmsg_len - (int)CMSG_LEN(0)) / 4;
        struct ucred *of_whom = (void *)fds;
        if (at->cmsg_type == SCM_CREDENTIALS && count == 3)
            say(" %s %s %s", of_whom->pid == getpid() ? "own" : of_whom->pid ? "other" : "none", of_whom->uid == getuid() ? "own" : "other", of_whom->gid == getgid() ? "own" : "other");
        else
            for (int i = 0; i < count && i < 4 && at->cmsg_type == SCM_RIGHTS; i++) {
                say(" %d", fds[i]);
                say(fcntl(fds[i], F_GETFD) & FD_CLOEXEC ? " cloexec" : "");
                close(fds[i]);
            }
    }
}

static void receive_into(int from, int flags, struct message *into) {
    result(CALL(recvmsg, from, &into->header, flags));
    show_control(into);
}

static void receive(int from, int flags) { receive_into(from, flags, with_room(64, 1024)); }

static void show_option(int fd, int option) {
    int value = -1;
    socklen_t len = 4;
    result(getsockopt(fd, SOL_SOCKET, option, &value, &len));
    say(" | %d", value);
}

static void show_ready(int fd) {
    struct pollfd look = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    poll(&look, 1, 0);
    say(" | %x", look.revents);
}

static void boundaries(void) {
    for (int i = 0; i < 3; i++) {
        K(socketpair, "what it is", { make_pair(kinds[i]); show_option(pair[0], SO_TYPE); show_option(pair[1], SO_DOMAIN); show_option(pair[0], SO_SNDBUF); show_option(pair[0], SO_RCVBUF); show_option(pair[0], SO_ERROR); show_ready(pair[0]); })
        K(write, "borders of packets", { make_pair(kinds[i]); write(pair[0], "one", 3); write(pair[0], "three", 5); show_ready(pair[1]); result(read(pair[1], data, 64)); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); })
        K(recvfrom, "less room than there is", { make_pair(kinds[i]); write(pair[0], "hello", 5); write(pair[0], "you", 3); result(CALL(recvfrom, pair[1], data, 2, 0, 0, 0)); result(CALL(recvfrom, pair[1], data, 64, 0, 0, 0)); })
        K(recvfrom, "MSG_TRUNC", { make_pair(kinds[i]); write(pair[0], "hello", 5); result(CALL(recvfrom, pair[1], data, 2, MSG_TRUNC, 0, 0)); })
        K(recvfrom, "MSG_PEEK", { make_pair(kinds[i]); write(pair[0], "hello", 5); result(CALL(recvfrom, pair[1], data, 2, MSG_PEEK, 0, 0)); result(CALL(recvfrom, pair[1], data, 2, MSG_PEEK | MSG_TRUNC, 0, 0)); result(CALL(recvfrom, pair[1], data, 64, 0, 0, 0)); show_bytes(data, 5); })
        K(recvmsg, "MSG_TRUNC is told", { make_pair(kinds[i]); write(pair[0], "hello", 5); receive_into(pair[1], MSG_PEEK, with_room(2, 0)); receive_into(pair[1], 0, with_room(2, 0)); })
        K(sendto, "nothing", { make_pair(kinds[i]); result(CALL(sendto, pair[0], "", 0, 0, 0, 0)); show_ready(pair[1]); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); })
        K(recvfrom, "no room at all", { make_pair(kinds[i]); write(pair[0], "hello", 5); result(CALL(recvfrom, pair[1], data, 0, 0, 0, 0)); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); })
        K(read, "no room at all", { make_pair(kinds[i]); write(pair[0], "hello", 5); result(read(pair[1], data, 0)); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); })
        K(ioctl, "FIONREAD", { make_pair(kinds[i]); write(pair[0], "hello", 5); write(pair[0], "you", 3); int count = -1; result(ioctl(pair[1], FIONREAD, &count)); say(" | %d", count); })
        K(sendto, "bad memory", { make_pair(kinds[i]); result(CALL(sendto, pair[0], BAD, 4, 0, 0, 0)); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); })
        K(recvfrom, "more room than there is memory", { make_pair(kinds[i]); write(pair[0], "hello", 5); char *end_of_memory = in_page + PAGE - 5; result(CALL(recvfrom, pair[1], end_of_memory, 64, MSG_PEEK, 0, 0)); result(CALL(recvfrom, pair[1], end_of_memory, 64, 0, 0, 0)); })
        K(sendto, "MSG_OOB on a packet", { make_pair(kinds[i]); if (kinds[i] != SOCK_STREAM) { result(CALL(sendto, pair[0], "x", 1, MSG_OOB, 0, 0)); result(CALL(recvfrom, pair[0], data, 1, MSG_OOB, 0, 0)); } })
        K(sendto, "unknown flags", { make_pair(kinds[i]); result(CALL(sendto, pair[0], "x", 1, 1 << 25, 0, 0)); result(CALL(recvfrom, pair[1], data, 64, 1 << 25, 0, 0)); })
        K(close, "the peer has gone", { make_pair(kinds[i]); write(pair[1], "left", 4); close(pair[1]); show_ready(pair[0]); result(CALL(recvfrom, pair[0], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(recvfrom, pair[0], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(sendto, pair[0], "x", 1, MSG_NOSIGNAL, 0, 0)); result(CALL(sendto, pair[0], "x", 1, MSG_NOSIGNAL, 0, 0)); show_ready(pair[0]); })
        K(close, "the peer has gone with unread data", { make_pair(kinds[i]); write(pair[0], "lost", 4); close(pair[1]); show_ready(pair[0]); result(CALL(recvfrom, pair[0], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(recvfrom, pair[0], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(sendto, pair[0], "x", 1, MSG_NOSIGNAL, 0, 0)); })
        K(close, "unread data, and then sending", { make_pair(kinds[i]); write(pair[0], "lost", 4); close(pair[1]); result(CALL(sendto, pair[0], "x", 1, MSG_NOSIGNAL, 0, 0)); result(CALL(sendto, pair[0], "x", 1, MSG_NOSIGNAL, 0, 0)); show_option(pair[0], SO_ERROR); })
        K(close, "the peer has gone, and what it has sent when something is sent to it", { make_pair(kinds[i]); write(pair[1], "left", 4); send_files(pair[1], 1, PIPE_W); close(PIPE_W); close(pair[1]); result(CALL(sendto, pair[0], "x", 1, MSG_NOSIGNAL, 0, 0)); show_ready(pair[0]); result(CALL(recvfrom, pair[0], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(recvfrom, pair[0], data, 64, MSG_DONTWAIT, 0, 0)); show_option(pair[0], SO_ERROR); read(PIPE_R, data, 64); struct pollfd look = {PIPE_R, POLLIN, 0}; result(poll(&look, 1, 5000)); })
        K(shutdown, "writing", { make_pair(kinds[i]); write(pair[0], "last", 4); result(shutdown(pair[0], SHUT_WR)); result(CALL(sendto, pair[0], "x", 1, MSG_NOSIGNAL, 0, 0)); show_ready(pair[0]); show_ready(pair[1]); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(sendto, pair[1], "back", 4, 0, 0, 0)); })
        K(shutdown, "reading", { make_pair(kinds[i]); write(pair[1], "left", 4); result(shutdown(pair[0], SHUT_RD)); show_ready(pair[0]); show_ready(pair[1]); result(CALL(recvfrom, pair[0], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(recvfrom, pair[0], data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(sendto, pair[1], "x", 1, MSG_NOSIGNAL, 0, 0)); })
        K(shutdown, "both", { make_pair(kinds[i]); result(shutdown(pair[0], SHUT_RDWR)); show_ready(pair[0]); show_ready(pair[1]); result(read(pair[0], data, 64)); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); })
        K(shutdown, "whoever waits to receive", {
            make_pair(kinds[i]);
            pid_t child = fork();
            if (child == 0)
                _exit(read(pair[0], data, 64) == 0 ? 7 : 8);
            until_asleep(child);
            result(shutdown(pair[0], SHUT_RD));
            int status;
            waitpid(child, &status, 0);
            say(" | %d", WEXITSTATUS(status));
        })
        K(setsockopt, "SO_RCVTIMEO", { make_pair(kinds[i]); struct timeval time = {0, 10000}; result(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, 16)); result(read(pair[0], data, 64)); })
        K(sendto, "MSG_DONTWAIT until it is full", { make_pair(kinds[i]); while (CALL(sendto, pair[0], buffer, 4096, MSG_DONTWAIT, 0, 0) > 0) { } say(" %s", errno_name(errno)); show_ready(pair[0]); while (CALL(recvfrom, pair[1], buffer, 4096, MSG_DONTWAIT, 0, 0) > 0) { } show_ready(pair[0]); })
        K(sendto, "waits for room", {
            make_pair(kinds[i]);
            while (CALL(sendto, pair[0], buffer, 4096, MSG_DONTWAIT, 0, 0) > 0) { }
            pid_t child = fork();
            if (child == 0)
                _exit(send(pair[0], buffer, 4096, 0) == 4096 ? 7 : 8);
            until_asleep(child);
            while (CALL(recvfrom, pair[1], buffer, 4096, MSG_DONTWAIT, 0, 0) > 0) { }
            int status;
            waitpid(child, &status, 0);
            say(" | %d", WEXITSTATUS(status));
        })
    }
    for (int i = 1; i < 3; i++) {
        K(sendto, "as long as it may be, and longer", { make_pair(kinds[i]); char *many = calloc(1, 300000); many[99999] = 'y'; result(CALL(sendto, pair[0], many, 100000, 0, 0, 0)); result(CALL(sendto, pair[0], many, 300000, 0, 0, 0)); memset(many, 0, 300000); result(CALL(recvfrom, pair[1], many, 300000, 0, 0, 0)); say(" | %d", many[99999]); })
        K(setsockopt, "SO_SNDBUF limits packets", { make_pair(kinds[i]); int bytes = 5000; result(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, 4)); show_option(pair[0], SO_SNDBUF); result(CALL(sendto, pair[0], buffer, 9968, 0, 0, 0)); result(CALL(sendto, pair[0], buffer, 9969, MSG_DONTWAIT, 0, 0)); })
        K(sendfile, "to a socket of packets", { make_pair(kinds[i]); int fd = socket(AF_UNIX, kinds[i], 0); result(sendto(fd, "x", 1, 0, 0, 0)); result(read(fd, data, 0)); })
    }
    T(setsockopt, "SO_SNDBUF and SO_RCVBUF, the least", { int bytes = 1; setsockopt(FRESH, SOL_SOCKET, SO_SNDBUF, &bytes, 4); show_option(FRESH, SO_SNDBUF); setsockopt(FRESH, SOL_SOCKET, SO_RCVBUF, &bytes, 4); show_option(FRESH, SO_RCVBUF); })
    T(recvfrom, "SOCK_SEQPACKET that is not connected", { int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0); result(CALL(recvfrom, fd, data, 64, 0, 0, 0)); result(CALL(sendto, fd, "x", 1, 0, &server, sizeof server)); show_ready(fd); })
    T(recvfrom, "SOCK_DGRAM that is not connected", { int fd = socket(AF_UNIX, SOCK_DGRAM, 0); result(CALL(recvfrom, fd, data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(sendto, fd, "x", 1, 0, 0, 0)); result(write(fd, "x", 1)); show_ready(fd); result(listen(fd, 1)); result(CALL(accept, fd, 0, 0)); })
    T(connect, "kinds that differ", {
        int fd = bound(SOCK_SEQPACKET, &server);
        listen(fd, 1);
        result(connect(FRESH, (void *)&server, sizeof server));
        result(connect(socket(AF_UNIX, SOCK_DGRAM, 0), (void *)&server, sizeof server));
        result(CALL(sendto, socket(AF_UNIX, SOCK_DGRAM, 0), "x", 1, 0, &server, sizeof server));
        result(connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), (void *)&server, sizeof server));
    })
    T(accept, "packets, and names", {
        int fd = bound(SOCK_SEQPACKET, &server);
        result(listen(fd, 1));
        int other = bound(SOCK_SEQPACKET, &client);
        result(connect(other, (void *)&server, sizeof server));
        write(other, "early", 5);
        int end = accept(fd, 0, 0);
        struct message *into = with_room(64, 0);
        into->header.msg_name = &into->name;
        into->header.msg_namelen = sizeof into->name;
        receive_into(end, 0, into);
        say(" | %d %s", (int)into->header.msg_namelen, into->name.sun_path);
        write(end, "back", 4);
        result(read(other, data, 64));
        show_option(end, SO_TYPE);
    })
}

static void datagrams(void) {
    T(sendto, "datagrams to a name, and from one", {
        int fd = bound(SOCK_DGRAM, &server);
        int other = bound(SOCK_DGRAM, &client);
        result(CALL(sendto, other, "hello", 5, 0, &server, sizeof server));
        struct sockaddr_un from;
        socklen_t bytes = sizeof from;
        result(CALL(recvfrom, fd, data, 64, 0, &from, &bytes));
        say(" | %d %s", bytes, from.sun_path);
        result(CALL(sendto, fd, "back", 4, 0, &from, bytes));
        result(CALL(recvfrom, other, data, 64, 0, 0, 0));
        result(CALL(sendto, socket(AF_UNIX, SOCK_DGRAM, 0), "none", 4, 0, &server, sizeof server));
        bytes = sizeof from;
        result(CALL(recvfrom, fd, data, 64, 0, &from, &bytes));
        say(" | %d", bytes);
    })
    T(sendto, "datagrams to nobody", { int fd = socket(AF_UNIX, SOCK_DGRAM, 0); result(CALL(sendto, fd, "x", 1, 0, &server, sizeof server)); close(bound(SOCK_DGRAM, &server)); result(CALL(sendto, fd, "x", 1, 0, &server, sizeof server)); struct sockaddr_un file = {AF_UNIX, "file"}; result(CALL(sendto, fd, "x", 1, 0, &file, sizeof file)); result(CALL(sendto, fd, "x", 1, 0, &server, 1)); struct sockaddr other = {.sa_family = AF_INET}; result(CALL(sendto, fd, "x", 1, 0, &other, 16)); })
    T(sendto, "datagrams to what may not be written", { bound(SOCK_DGRAM, &server); chmod("server", 0444); result(CALL(sendto, socket(AF_UNIX, SOCK_DGRAM, 0), "x", 1, 0, &server, sizeof server)); })
    T(connect, "datagrams have a peer", {
        int fd = bound(SOCK_DGRAM, &server);
        int other = bound(SOCK_DGRAM, &client);
        result(connect(other, (void *)&server, sizeof server));
        result(write(other, "hello", 5));
        result(read(fd, data, 64));
        struct sockaddr_un at;
        socklen_t bytes = sizeof at;
        result(CALL(getpeername, other, &at, &bytes));
        say(" | %d %s", bytes, at.sun_path);
        result(CALL(getpeername, fd, &at, &bytes));
        result(CALL(sendto, fd, "back", 4, 0, &client, sizeof client));
        result(CALL(recvfrom, other, data, 64, MSG_DONTWAIT, 0, 0));
        int third = socket(AF_UNIX, SOCK_DGRAM, 0);
        result(CALL(sendto, third, "x", 1, 0, &client, sizeof client));
        result(connect(third, (void *)&client, sizeof client));
        struct sockaddr none = {.sa_family = AF_UNSPEC};
        result(connect(other, &none, sizeof none));
        result(write(other, "x", 1));
        result(CALL(sendto, third, "x", 1, 0, &client, sizeof client));
    })
    T(connect, "datagrams to another peer", {
        int one = bound(SOCK_DGRAM, &server);
        int two = bound(SOCK_DGRAM, &client);
        connect(one, (void *)&client, sizeof client);
        connect(two, (void *)&server, sizeof server);
        write(one, "dropped", 7);
        struct sockaddr none = {.sa_family = AF_UNSPEC};
        result(connect(two, &none, sizeof none));
        show_ready(one);
        result(CALL(recvfrom, one, data, 64, MSG_DONTWAIT, 0, 0));
        result(CALL(recvfrom, one, data, 64, MSG_DONTWAIT, 0, 0));
        result(CALL(recvfrom, two, data, 64, MSG_DONTWAIT, 0, 0));
    })
    T(connect, "datagrams of whom it is not connected to", {
        int one = bound(SOCK_DGRAM, &server);
        int two = bound(SOCK_DGRAM, &client);
        int other = socket(AF_UNIX, SOCK_DGRAM, 0);
        connect(one, (void *)&client, sizeof client);
        connect(other, (void *)&client, sizeof client);
        write(one, "first", 5);
        result(connect(two, (void *)&server, sizeof server));
        result(write(other, "x", 1));
        result(write(one, "more", 4));
        result(read(two, data, 64));
        result(read(two, data, 64));
        struct sockaddr none = {.sa_family = AF_UNSPEC};
        result(connect(two, &none, sizeof none));
        show_ready(one);
        result(write(other, "x", 1));
        result(connect(two, (void *)&server, sizeof server));
        show_ready(one);
        result(CALL(recvfrom, two, data, 64, MSG_DONTWAIT, 0, 0));
        result(CALL(sendto, one, "x", 1, MSG_DONTWAIT, 0, 0));
        while (CALL(sendto, two, "x", 1, MSG_DONTWAIT, 0, 0) == 1) { }
        say(" %s", errno_name(errno));
        result(CALL(sendto, one, "x", 1, MSG_DONTWAIT, 0, 0));
        result(shutdown(two, SHUT_RD));
        result(CALL(sendto, one, "x", 1, MSG_NOSIGNAL, 0, 0));
        close(two);
        result(CALL(sendto, one, "x", 1, MSG_NOSIGNAL, 0, 0));
    })
    T(connect, "datagrams, when the peer has gone", { int fd = bound(SOCK_DGRAM, &server); int other = socket(AF_UNIX, SOCK_DGRAM, 0); connect(other, (void *)&server, sizeof server); close(fd); show_ready(other); result(write(other, "x", 1)); result(write(other, "x", 1)); })
    T(sendto, "how many datagrams wait", { bound(SOCK_DGRAM, &server); int other = socket(AF_UNIX, SOCK_DGRAM, 0); connect(other, (void *)&server, sizeof server); int count = 0; while (CALL(sendto, other, "x", 1, MSG_DONTWAIT, 0, 0) == 1) count++; say(" %s | %d", errno_name(errno), count); show_ready(other); read(3, data, 1); read(3, data, 1); show_ready(other); })
    T(sendto, "to itself", { int fd = bound(SOCK_DGRAM, &server); result(CALL(sendto, fd, "self", 4, 0, &server, sizeof server)); result(read(fd, data, 64)); })
    T(sendto, "when another one's datagrams fill the queue", {
        bound(SOCK_DGRAM, &server);
        char *many = calloc(1, 105000);
        int one = socket(AF_UNIX, SOCK_DGRAM, 0);
        int other = socket(AF_UNIX, SOCK_DGRAM, 0);
        result(CALL(sendto, one, many, 105000, MSG_DONTWAIT, &server, sizeof server));
        result(CALL(sendto, one, many, 105000, MSG_DONTWAIT, &server, sizeof server));
        result(CALL(sendto, other, "x", 1, MSG_DONTWAIT, &server, sizeof server));
    })
    T(setsockopt, "SO_PASSCRED of one that was accepted", {
        int fd = bound(SOCK_SEQPACKET, &server);
        listen(fd, 1);
        connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), (void *)&server, sizeof server);
        int end = accept(fd, 0, 0);
        int yes = 1;
        result(setsockopt(end, SOL_SOCKET, SO_PASSCRED, &yes, 4));
        result(write(end, "x", 1));
        struct sockaddr_un at;
        struct sockaddr_un own;
        socklen_t bytes = sizeof at;
        socklen_t own_bytes = sizeof own;
        result(CALL(getsockname, end, &at, &bytes));
        getsockname(fd, (void *)&own, &own_bytes);
        say(" | %d", bytes == own_bytes && !memcmp(&at, &own, bytes));
    })
    T(bind, "a name is chosen", {
        struct sockaddr_un none = {AF_UNIX, ""};
        struct sockaddr_un at;
        socklen_t bytes = sizeof at;
        result(CALL(bind, FRESH, &none, 2));
        result(CALL(getsockname, FRESH, &at, &bytes));
        say(" | %d %d", bytes, at.sun_path[0]);
        for (int i = 1; i < 6; i++)
            if (!strchr("0123456789abcdef", at.sun_path[i]))
                say(" %c", at.sun_path[i]);
        result(CALL(bind, FRESH, &none, 2));
        result(listen(FRESH, 1));
        result(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&at, bytes));
    })
    T(epoll_ctl, "a socket that is connected afterwards", {
        int fd = bound(SOCK_STREAM, &server);
        listen(fd, 1);
        struct epoll_event event = {.events = EPOLLIN};
        int list = epoll_create1(0);
        result(epoll_ctl(list, EPOLL_CTL_ADD, FRESH, &event));
        connect(FRESH, (void *)&server, sizeof server);
        int end = accept(fd, 0, 0);
        if (fork() == 0) {
            until_asleep(getppid());
            _exit(write(end, "x", 1) != 1);
        }
        result(epoll_wait(list, &event, 1, 5000));
        say(" | %x", event.events);
    })
    T(poll, "room for a datagram", {
        int fd = bound(SOCK_DGRAM, &server);
        int other = socket(AF_UNIX, SOCK_DGRAM, 0);
        connect(other, (void *)&server, sizeof server);
        while (CALL(sendto, other, "x", 1, MSG_DONTWAIT, 0, 0) == 1) { }
        if (fork() == 0) {
            until_asleep(getppid());
            _exit(read(fd, data, 1) != 1);
        }
        struct pollfd look = {other, POLLOUT, 0};
        result(poll(&look, 1, 5000));
        say(" | %x", look.revents);
    })
    T(socket, "SOCK_RAW is SOCK_DGRAM", { int fd = socket(AF_UNIX, SOCK_RAW, 0); show_option(fd, SO_TYPE); })
}

static void files_in_messages(void) {
    for (int i = 0; i < 3; i++) {
        K(sendmsg, "an open file", { make_pair(kinds[i]); result(send_files(pair[0], 1, PIPE_W)); close(PIPE_W); struct message *into = with_room(64, 1024); result(CALL(recvmsg, pair[1], &into->header, 0)); int fd = *(int *)CMSG_DATA(&into->control.first); result(write(fd, "through", 7)); result(read(PIPE_R, data, 64)); show_control(into); })
        K(recvmsg, "MSG_CMSG_CLOEXEC of files", { make_pair(kinds[i]); send_files(pair[0], 2, RW, RO); receive(pair[1], MSG_CMSG_CLOEXEC); })
        K(recvmsg, "MSG_PEEK of files", { make_pair(kinds[i]); send_files(pair[0], 2, RW, RO); receive(pair[1], MSG_PEEK); receive(pair[1], 0); })
        K(recvmsg, "files without room", { make_pair(kinds[i]); send_files(pair[0], 3, RW, RO, WO); receive_into(pair[1], 0, with_room(64, 0)); send_files(pair[0], 3, RW, RO, WO); receive_into(pair[1], 0, with_room(64, 16)); send_files(pair[0], 3, RW, RO, WO); receive_into(pair[1], 0, with_room(64, CMSG_LEN(8))); send_files(pair[0], 3, RW, RO, WO); receive_into(pair[1], 0, with_room(64, CMSG_LEN(5))); show_open(); })
        K(read, "files that nobody takes", { make_pair(kinds[i]); send_files(pair[0], 1, PIPE_W); close(PIPE_W); result(read(pair[1], data, 64)); result(read(PIPE_R, data, 64)); result(read(PIPE_R, data, 64)); })
        K(close, "files that nobody received", { make_pair(kinds[i]); send_files(pair[0], 1, PIPE_W); close(PIPE_W); close(pair[1]); result(read(PIPE_R, data, 64)); result(read(PIPE_R, data, 64)); })
        K(sendmsg, "bad files", { make_pair(kinds[i]); result(send_files(pair[0], 2, RW, CLOSED)); result(send_files(pair[0], 1, -1)); result(send_files(pair[0], 1, PATH_FD)); receive(pair[1], MSG_DONTWAIT); receive(pair[1], MSG_DONTWAIT); })
        K(sendmsg, "no file at all", { make_pair(kinds[i]); result(send_files(pair[0], 0)); receive(pair[1], MSG_DONTWAIT); })
        K(sendmsg, "files without bytes", { make_pair(kinds[i]); int fds[] = {RW}; result(CALL(sendmsg, pair[0], &with_files("", 0, 1, fds)->header, 0)); receive(pair[1], MSG_DONTWAIT); })
        K(sendmsg, "the most files, and one more", { make_pair(kinds[i]); int fds[254]; for (int j = 0; j < 254; j++) fds[j] = RW; result(CALL(sendmsg, pair[0], &with_files("x", 1, 254, fds)->header, 0)); result(CALL(sendmsg, pair[0], &with_files("x", 1, 253, fds)->header, 0)); receive_into(pair[1], 0, with_room(64, 2048)); })
        K(sendmsg, "a socket through itself", { make_pair(kinds[i]); result(send_files(pair[0], 1, pair[1])); close(pair[0]); receive(pair[1], 0); result(CALL(recvfrom, pair[1], data, 64, MSG_DONTWAIT, 0, 0)); })
        K(close, "sockets that only they name", {
            /* What waits in a pair that only its own packets name is closed: the pipe ends. */
            make_pair(kinds[i]);
            send_files(pair[0], 2, pair[1], PIPE_W);
            send_files(pair[1], 1, pair[0]);
            close(PIPE_W);
            close(pair[0]);
            close(pair[1]);
            close(socket(AF_UNIX, SOCK_STREAM, 0));
            read(PIPE_R, data, 64);
            struct pollfd look = {PIPE_R, POLLIN, 0};
            result(poll(&look, 1, 5000));
            result(read(PIPE_R, data, 64));
        })
        K(close, "sockets in each other, one of which is named", {
            make_pair(kinds[i]);
            int other[2];
            socketpair(AF_UNIX, kinds[i], 0, other);
            send_files(pair[0], 1, other[1]);
            send_files(other[0], 2, pair[0], PIPE_W);
            close(PIPE_W);
            close(other[0]);
            close(other[1]);
            close(socket(AF_UNIX, SOCK_STREAM, 0));
            struct message *into = with_room(64, 1024);
            result(CALL(recvmsg, pair[1], &into->header, 0));
            receive(*(int *)CMSG_DATA(&into->control.first), 0);
        })
        K(sendmsg, "credentials", {
            make_pair(kinds[i]);
            int yes = 1;
            result(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &yes, 4));
            show_option(pair[1], SO_PASSCRED);
            write(pair[0], "x", 1);
            receive(pair[1], 0);
            struct message *of = message_of("y", 1);
            of->header.msg_control = of->control.space;
            of->header.msg_controllen = CMSG_SPACE(12);
            of->control.first = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(12)};
            struct ucred *whose = (void *)CMSG_DATA(&of->control.first);
            *whose = (struct ucred){getpid(), getuid(), getgid()};
            result(CALL(sendmsg, pair[0], &of->header, 0));
            receive(pair[1], 0);
            whose->pid = 1;
            result(CALL(sendmsg, pair[0], &of->header, 0));
            *whose = (struct ucred){getpid(), getuid() + 1, getgid()};
            result(CALL(sendmsg, pair[0], &of->header, 0));
            of->control.first.cmsg_len = CMSG_LEN(8);
            result(CALL(sendmsg, pair[0], &of->header, 0));
        })
        K(recvmsg, "credentials of what was sent before", { make_pair(kinds[i]); write(pair[0], "x", 1); int yes = 1; setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &yes, 4); receive(pair[1], 0); })
        K(recvmsg, "credentials and files, and little room", { make_pair(kinds[i]); int yes = 1; setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &yes, 4); for (int j = 0; j < 4; j++) send_files(pair[0], 1, RW); receive(pair[1], 0); receive_into(pair[1], 0, with_room(64, 20)); receive_into(pair[1], 0, with_room(64, CMSG_SPACE(12))); receive_into(pair[1], 0, with_room(64, 0)); })
        K(sendmsg, "control messages that are none", {
            make_pair(kinds[i]);
            int fds[] = {RW};
            struct message *of = with_files("x", 1, 1, fds);
            of->control.first.cmsg_level = 77;
            result(CALL(sendmsg, pair[0], &of->header, 0));
            of->control.first.cmsg_level = SOL_SOCKET;
            of->control.first.cmsg_type = 77;
            result(CALL(sendmsg, pair[0], &of->header, 0));
            of->control.first.cmsg_type = SCM_RIGHTS;
            of->control.first.cmsg_len = 15;
            result(CALL(sendmsg, pair[0], &of->header, 0));
            of->control.first.cmsg_len = 100;
            result(CALL(sendmsg, pair[0], &of->header, 0));
            of->header.msg_controllen = 15;
            result(CALL(sendmsg, pair[0], &of->header, 0));
            of->header.msg_control = BAD;
            of->header.msg_controllen = 64;
            result(CALL(sendmsg, pair[0], &of->header, 0));
        })
        K(sendmmsg, "several", {
            make_pair(kinds[i]);
            struct mmsghdr all[4] = {};
            struct iovec parts[4] = {{"one", 3}, {"three", 5}, {BAD, 4}, {"four", 4}};
            for (int j = 0; j < 4; j++)
                all[j].msg_hdr = (struct msghdr){.msg_iov = &parts[j], .msg_iovlen = 1};
            result(CALL(sendmmsg, pair[0], all, 2, 0));
            say(" | %d %d", all[0].msg_len, all[1].msg_len);
            result(CALL(sendmmsg, pair[0], all + 1, 3, 0));
            result(CALL(sendmmsg, pair[0], all + 2, 2, 0));
            for (int j = 0; j < 4; j++)
                parts[j] = (struct iovec){data + 64 * j, 3};
            result(CALL(recvmmsg, pair[1], all, 4, MSG_DONTWAIT, 0));
            say(" | %d %d %d | %x %x", all[0].msg_len, all[1].msg_len, all[2].msg_len, all[0].msg_hdr.msg_flags, all[1].msg_hdr.msg_flags);
        })
        K(recvmmsg, "MSG_WAITFORONE, and times", {
            make_pair(kinds[i]);
            struct mmsghdr all[2] = {};
            struct iovec parts[2] = {{data, 64}, {data + 64, 64}};
            for (int j = 0; j < 2; j++)
                all[j].msg_hdr = (struct msghdr){.msg_iov = &parts[j], .msg_iovlen = 1};
            write(pair[0], "x", 1);
            result(CALL(recvmmsg, pair[1], all, 2, MSG_WAITFORONE, 0));
            struct timespec bad = {0, -1};
            struct timespec now = {0, 0};
            result(CALL(recvmmsg, pair[1], all, 2, MSG_DONTWAIT, &bad));
            write(pair[0], "x", 1);
            write(pair[0], "y", 1);
            result(CALL(recvmmsg, pair[1], all, 2, 0, &now));
        })
    }
    T(sendmmsg, "a length that cannot be written", { make_pair(SOCK_SEQPACKET); struct mmsghdr *all = across_a_border(); result(CALL(sendmmsg, pair[0], all, 2, 0)); result(CALL(sendmmsg, pair[0], all + 1, 1, 0)); })
    T(recvmmsg, "a length that cannot be written", { make_pair(SOCK_SEQPACKET); write(pair[0], "one", 3); write(pair[0], "three", 5); struct mmsghdr *all = across_a_border(); result(CALL(recvmmsg, pair[1], all, 2, 0, 0)); say(" | %d", all[0].msg_len); })
    T(recvmsg, "a stream's bytes before files, with them, and behind", { make_pair(SOCK_STREAM); write(pair[0], "before", 6); int fds[] = {RW}; CALL(sendmsg, pair[0], &with_files("with", 4, 1, fds)->header, 0); write(pair[0], "behind", 6); receive(pair[1], 0); receive(pair[1], 0); })
    T(recvmsg, "a stream's bytes with files, one at a time", { make_pair(SOCK_STREAM); int fds[] = {RW}; CALL(sendmsg, pair[0], &with_files("with", 4, 1, fds)->header, 0); write(pair[0], "behind", 6); receive_into(pair[1], 0, with_room(1, 64)); receive(pair[1], 0); })
    T(recvmsg, "a stream's bytes with files, and again", { make_pair(SOCK_STREAM); int fds[] = {RW}; CALL(sendmsg, pair[0], &with_files("one", 3, 1, fds)->header, 0); CALL(sendmsg, pair[0], &with_files("two", 3, 1, fds)->header, 0); receive(pair[1], 0); receive(pair[1], MSG_WAITALL | MSG_DONTWAIT); })
    T(recvfrom, "MSG_WAITALL, and files", { make_pair(SOCK_STREAM); write(pair[0], "before", 6); int fds[] = {RW}; CALL(sendmsg, pair[0], &with_files("with", 4, 1, fds)->header, 0); write(pair[0], "behind", 6); result(CALL(recvfrom, pair[1], data, 64, MSG_WAITALL, 0, 0)); })
    T(recvmsg, "a stream's bytes with credentials, and without", { make_pair(SOCK_STREAM); int yes = 1; write(pair[0], "none", 4); setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &yes, 4); write(pair[0], "own", 3); write(pair[0], "again", 5); receive(pair[1], MSG_PEEK); receive(pair[1], 0); receive(pair[1], MSG_PEEK); receive(pair[1], 0); })
    T(sendmsg, "many bytes of a stream, with a file", { make_pair(SOCK_STREAM); int fds[] = {RW}; result(CALL(sendmsg, pair[0], &with_files(buffer, 10000, 1, fds)->header, 0)); struct message *into = with_room(0, 64); into->part = (struct iovec){buffer, 20000}; receive_into(pair[1], 0, into); })
    T(accept, "SO_PASSCRED of one that listens", { int fd = bound(SOCK_STREAM, &server); listen(fd, 1); int yes = 1; setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, 4); connect(FRESH, (void *)&server, sizeof server); int end = accept(fd, 0, 0); show_option(end, SO_PASSCRED); write(FRESH, "x", 1); receive(end, 0); })
    /* A user has so many over all processes, and this program may run several times on a machine: nobody else has this one. */
    R(sendmsg, "ETOOMANYREFS", { uid_t own = 100000 + (uid_t)getpid(); setresuid(own, own, own); struct rlimit few = {30, 30}; setrlimit(RLIMIT_NOFILE, &few); make_pair(SOCK_DGRAM); int count = 0; while (count < 100 && send_files(pair[0], 1, RW) == 1) count++; say(" %s | %d", errno_name(errno), count); read(pair[1], data, 1); read(pair[1], data, 1); result(send_files(pair[0], 1, RW)); })
    T(recvmsg, "no descriptors left", { make_pair(SOCK_DGRAM); send_files(pair[0], 2, RW, RO); struct rlimit few = {6, 6}; setrlimit(RLIMIT_NOFILE, &few); receive(pair[1], 0); })
    T(sendmsg, "to a child, which is another program's", {
        make_pair(SOCK_SEQPACKET);
        pid_t child = fork();
        if (child == 0) {
            struct message *into = with_room(64, 1024);
            recvmsg(pair[1], &into->header, 0);
            _exit(write(*(int *)CMSG_DATA(&into->control.first), "child", 5));
        }
        result(send_files(pair[0], 1, PIPE_W));
        close(PIPE_W);
        int status;
        waitpid(child, &status, 0);
        say(" | %d", WEXITSTATUS(status));
        result(read(PIPE_R, data, 64));
    })
}

void packets(void) {
    boundaries();
    datagrams();
    files_in_messages();
    C(sendmmsg, SOCK, BAD, 1, 0)
    C(sendmmsg, SOCK, 0, 0, 0)
    C(sendmmsg, CLOSED, 0, 0, 0)
    C(sendmmsg, RW, 0, 0, 0)
    C(recvmmsg, SOCK, BAD, 1, 0, 0)
    C(recvmmsg, SOCK, 0, 0, 0, 0)
    C(recvmmsg, SOCK, 0, 1, 0, BAD)
    C(recvmmsg, CLOSED, 0, 0, 0, 0)
    C(recvmmsg, RW, 0, 0, 0, 0)
}
