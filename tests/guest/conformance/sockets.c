/* Sockets of the local domain. */
#include "conform.h"

static int both[2], yes = 1, len = 4;
static struct sockaddr_un named = {AF_UNIX, "socket"}, unnamed = {AF_UNIX, ""}, elsewhere = {AF_UNIX, "none/socket"}, folder = {AF_UNIX, "none/"}, taken = {AF_UNIX, "file"};
/* Its own for each run, as several may go on at once. */
static struct sockaddr_un abstract = {AF_UNIX, "\0"};
static char data[64];
static struct iovec part = {data, 4}, nowhere = {BAD, 4};
static struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1}, bad_message = {.msg_iov = &nowhere, .msg_iovlen = 1}, long_message = {.msg_iov = &part, .msg_iovlen = 2000};

static void show_option(void) { say(" | %d, %d bytes", *(int *)data, len); }

static int listening(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(fd, (struct sockaddr *)&named, sizeof named);
    listen(fd, 3);
    return fd;
}

/* Tries to connect, not waiting; the socket, or -1. */
static int connected(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    return connect(fd, (struct sockaddr *)&named, sizeof named) ? -1 : fd;
}

static void show_address(int fd, const void *at, int bytes) {
    (void)fd;
    const struct sockaddr_un *from = at;
    say(" | %d bytes", bytes);
    if (bytes > 2)
        say(" '%s'", from->sun_path);
}

/* Who is told what, and which error comes first. */
static void connections(void) {
    static struct sockaddr_un fixed = {AF_UNIX, "fixed"}, closed = {AF_UNIX, "closed/socket"}, in_dir = {AF_UNIX, "dir"}, dangling = {AF_UNIX, "dangling"}, through = {AF_UNIX, "way"}, from;
    static socklen_t bytes = sizeof from;
    C(bind, FRESH, &closed, sizeof closed)
    C(bind, FRESH, &dangling, sizeof dangling)
    C(connect, FRESH, &fixed, sizeof fixed)
    C(connect, FRESH, &closed, sizeof closed)
    C(connect, FRESH, &in_dir, sizeof in_dir)
    C(connect, SOCK, &elsewhere, sizeof elsewhere)
    C(connect, SOCK, &taken, sizeof taken)
    T(connect, "to one that is bound and does not listen", { bind(FRESH, (void *)&named, sizeof named); result(connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&named, sizeof named)); })
    T(connect, "one that listens, to itself and to another", { int fd = listening(); result(connect(fd, (void *)&named, sizeof named)); result(connect(fd, (void *)&taken, sizeof taken)); })
    T(connect, "by a link", { listening(); symlink("socket", "way"); result(connect(FRESH, (void *)&through, sizeof through)); })
    T(connect, "to what may not be written", { listening(); chmod("socket", 0444); result(connect(FRESH, (void *)&named, sizeof named)); })
    T(connect, "when the name has gone", { listening(); unlink("socket"); result(connect(FRESH, (void *)&named, sizeof named)); result(bind(FRESH, (void *)&named, sizeof named)); })
    T(connect, "when the listener has gone", { close(listening()); result(connect(FRESH, (void *)&named, sizeof named)); })
    T(bind, "one that was accepted", {
        int fd = listening();
        connected();
        int end = accept(fd, 0, 0);
        result(bind(end, (void *)&abstract, 8));
        result(bind(end, (void *)&unnamed, 2));
        bytes = sizeof from;
        result(CALL(getsockname, end, &from, &bytes));
        show_address(end, &from, bytes);
    })
    T(connect, "SO_PASSCRED chooses a name", {
        listening();
        setsockopt(FRESH, SOL_SOCKET, SO_PASSCRED, &yes, 4);
        result(connect(FRESH, (void *)&named, sizeof named));
        bytes = sizeof from;
        result(CALL(getsockname, FRESH, &from, &bytes));
        say(" | %d bytes", bytes);
    })
    T(bind, "the mode that the mask leaves", { umask(027); result(bind(FRESH, (void *)&named, sizeof named)); show_path("socket"); })
    T(listen, "how many wait", {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        bind(fd, (void *)&named, sizeof named);
        result(listen(fd, 2));
        int count = 0;
        while (connected() >= 0)
            count++;
        say(" %s | %d", errno_name(errno), count);
        result(listen(fd, 4));
        while (connected() >= 0)
            count++;
        say(" | %d", count);
    })
    T(listen, "nobody may wait, and one does", {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        bind(fd, (void *)&named, sizeof named);
        result(listen(fd, 0));
        int count = 0;
        while (connected() >= 0)
            count++;
        say(" | %d", count);
    })
    T(listen, "a longer backlog lets in whoever waits", {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        bind(fd, (void *)&named, sizeof named);
        listen(fd, 0);
        connected();
        pid_t child = fork();
        if (child == 0)
            _exit(connect(FRESH, (void *)&named, sizeof named) != 0);
        until_asleep(child);
        result(listen(fd, 5));
        int status;
        waitpid(child, &status, 0);
        say(" | %d", WEXITSTATUS(status));
    })
    T(shutdown, "one that listens", {
        int fd = listening();
        connected();
        result(shutdown(fd, SHUT_RDWR));
        result(connect(FRESH, (void *)&named, sizeof named));
        result(CALL(accept, fd, 0, 0));
        result(CALL(accept, fd, 0, 0));
        struct pollfd look = {fd, POLLIN | POLLRDHUP};
        result(poll(&look, 1, 0));
        say(" | %x", look.revents);
    })
    T(shutdown, "one that listens, for writing", { int fd = listening(); result(shutdown(fd, SHUT_WR)); result(connect(FRESH, (void *)&named, sizeof named)); result(CALL(accept, fd, 0, 0)); })
    T(shutdown, "whoever waits to accept", {
        int fd = listening();
        pid_t child = fork();
        if (child == 0) {
            errno = 0;
            accept(fd, 0, 0);
            _exit(errno == EINVAL);
        }
        until_asleep(child);
        result(shutdown(fd, SHUT_RD));
        int status;
        waitpid(child, &status, 0);
        say(" | %d", WEXITSTATUS(status));
    })
    T(accept4, "the address of one without a name", { int fd = listening(); connected(); bytes = sizeof from; result(CALL(accept4, fd, &from, &bytes, 0)); show_address(fd, &from, bytes); })
    T(accept4, "the address of one with a name", {
        int fd = listening();
        struct sockaddr_un own = {AF_UNIX, "own"};
        bind(FRESH, (void *)&own, sizeof own);
        connect(FRESH, (void *)&named, sizeof named);
        bytes = sizeof from;
        result(CALL(accept4, fd, &from, &bytes, 0));
        show_address(fd, &from, bytes);
        bytes = 6;
        result(CALL(getpeername, FRESH, &from, &bytes));
        say(" | %d bytes", bytes);
        write(FRESH, "text", 4);
        bytes = sizeof from;
        result(CALL(recvfrom, 4, data, 64, 0, &from, &bytes));
        show_address(fd, &from, bytes);
        message.msg_name = &from;
        message.msg_namelen = sizeof from;
        write(FRESH, "text", 4);
        result(CALL(recvmsg, 4, &message, 0));
        show_address(fd, &from, message.msg_namelen);
    })
    T(recvfrom, "the address of one without a name", { bytes = sizeof from; result(CALL(recvfrom, SOCK, data, 64, 0, &from, &bytes)); say(" | %d bytes", bytes); })
    T(recvmsg, "the address of one without a name", { message.msg_name = &from; message.msg_namelen = sizeof from; result(CALL(recvmsg, SOCK, &message, 0)); say(" | %d bytes", message.msg_namelen); })
    T(recvmsg, "MSG_CMSG_CLOEXEC", { result(CALL(recvmsg, SOCK, &message, MSG_CMSG_CLOEXEC)); say(" | %x", message.msg_flags); })
    T(recvmsg, "no room for a control message", { char room[64]; message.msg_control = room; message.msg_controllen = sizeof room; result(CALL(recvmsg, SOCK, &message, 0)); say(" | %d %x", (int)message.msg_controllen, message.msg_flags); })
    T(sendmsg, "an address of no bytes", { message.msg_name = &named; message.msg_namelen = 0; result(CALL(sendmsg, SOCK, &message, 0)); })
    T(sendmsg, "an address", { message.msg_name = &named; message.msg_namelen = sizeof named; result(CALL(sendmsg, SOCK, &message, 0)); })
    C(sendto, SOCK, "data", 4, 0, &named, 0)
    C(sendto, FRESH, "data", 4, 0, &named, 0)
    C(sendto, SOCK, "data", 0, 0, 0, 0)
    T(sendto, "nothing, when the peer has gone", { close(PEER); result(CALL(sendto, SOCK, "data", 0, MSG_NOSIGNAL, 0, 0)); })
    T(sendto, "after SHUT_WR: SIGPIPE", { shutdown(SOCK, SHUT_WR); result(CALL(sendto, SOCK, "data", 4, 0, 0, 0)); })
    T(sendto, "after SHUT_WR: MSG_NOSIGNAL", { shutdown(SOCK, SHUT_WR); result(CALL(sendto, SOCK, "data", 4, MSG_NOSIGNAL, 0, 0)); })
    T(sendto, "when the peer reads no more", { shutdown(PEER, SHUT_RD); result(CALL(sendto, SOCK, "data", 4, MSG_NOSIGNAL, 0, 0)); })
    T(sendto, "more than there is room for, MSG_DONTWAIT", { long sent = CALL(sendto, SOCK, buffer, sizeof buffer, MSG_DONTWAIT, 0, 0); say(sent > 0 ? " some" : " none"); while (CALL(sendto, SOCK, buffer, 4096, MSG_DONTWAIT, 0, 0) > 0) { } say(" %s", errno_name(errno)); })
    T(recvfrom, "the end", { close(PEER); result(CALL(recvfrom, SOCK, data, 64, 0, 0, 0)); result(CALL(recvfrom, SOCK, data, 64, 0, 0, 0)); })
    T(recvfrom, "the peer has closed, and not read", { write(SOCK, "data", 4); close(PEER); result(CALL(recvfrom, SOCK, data, 64, 0, 0, 0)); result(CALL(recvfrom, SOCK, data, 64, 0, 0, 0)); result(CALL(recvfrom, SOCK, data, 64, 0, 0, 0)); })
    T(recvfrom, "MSG_WAITALL, and the end", { close(PEER); result(CALL(recvfrom, SOCK, data, 64, MSG_WAITALL, 0, 0)); })
    T(recvfrom, "MSG_WAITALL | MSG_DONTWAIT", { result(CALL(recvfrom, SOCK, data, 64, MSG_WAITALL | MSG_DONTWAIT, 0, 0)); })
    T(recvfrom, "MSG_PEEK | MSG_TRUNC", { result(CALL(recvfrom, SOCK, data, 2, MSG_PEEK | MSG_TRUNC, 0, 0)); result(CALL(recvfrom, SOCK, data, 64, 0, 0, 0)); })
    T(recvfrom, "nothing", { result(CALL(recvfrom, SOCK, data, 0, 0, 0, 0)); })
    T(recvfrom, "one that listens", { result(CALL(recvfrom, listening(), data, 64, MSG_DONTWAIT, 0, 0)); result(CALL(sendto, 3, data, 4, 0, 0, 0)); })
    T(close, "one that listens tells whoever waits", { int fd = listening(); int other = connected(); write(other, "data", 4); close(fd); result(read(other, data, 64)); result(read(other, data, 64)); result(CALL(sendto, other, "x", 1, MSG_NOSIGNAL, 0, 0)); })
    T(getsockopt, "the peer of one that has none", { struct ucred of = {5, 5, 5}; len = sizeof of; result(getsockopt(FRESH, SOL_SOCKET, SO_PEERCRED, &of, (socklen_t *)&len)); say(" | %d %d %d", of.pid, of.uid, of.gid); })
    T(getsockopt, "the peer of a pair", { struct ucred of = {5, 5, 5}; len = sizeof of; result(getsockopt(SOCK, SOL_SOCKET, SO_PEERCRED, &of, (socklen_t *)&len)); say(" | %d %d %d", of.pid == getpid(), of.uid == getuid(), of.gid == getgid()); })
    T(getsockopt, "the peer of one that listens", { struct ucred of = {5, 5, 5}; len = sizeof of; result(getsockopt(listening(), SOL_SOCKET, SO_PEERCRED, &of, (socklen_t *)&len)); say(" | %d %d %d", of.pid == getpid(), of.uid == getuid(), of.gid == getgid()); })
    T(getsockopt, "no room", { len = 0; result(getsockopt(SOCK, SOL_SOCKET, SO_TYPE, data, (socklen_t *)&len)); say(" | %d", len); len = 2; result(getsockopt(SOCK, SOL_SOCKET, SO_TYPE, data, (socklen_t *)&len)); say(" | %d", len); len = -1; result(getsockopt(SOCK, SOL_SOCKET, SO_TYPE, data, (socklen_t *)&len)); })
    T(getsockopt, "upper halves of registers mean nothing", { len = 4; result(CALL(getsockopt, SOCK, 1L << 32 | SOL_SOCKET, 1L << 32 | SO_TYPE, data, &len)); result(CALL(setsockopt, SOCK, 1L << 32 | SOL_SOCKET, 1L << 32 | SO_REUSEADDR, &yes, 1L << 32 | 4)); })
    T(getsockopt, "SO_ERROR, once", { write(SOCK, "data", 4); close(PEER); len = 4; result(getsockopt(SOCK, SOL_SOCKET, SO_ERROR, data, (socklen_t *)&len)); say(" | %s", errno_name(*(int *)data)); result(getsockopt(SOCK, SOL_SOCKET, SO_ERROR, data, (socklen_t *)&len)); say(" | %d", *(int *)data); })
    T(setsockopt, "SO_RCVTIMEO ends an accept", { int fd = listening(); struct timeval time = {0, 10000}; result(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, 16)); result(CALL(accept, fd, 0, 0)); })
    T(setsockopt, "SO_SNDTIMEO ends a write", {
        struct timeval time = {0, 10000};
        result(setsockopt(SOCK, SOL_SOCKET, SO_SNDTIMEO, &time, 16));
        while (CALL(sendto, SOCK, buffer, 4096, 0, 0, 0) > 0) { }
        say(" %s", errno_name(errno));
    })
    T(setsockopt, "SO_SNDTIMEO ends a connect", {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        bind(fd, (void *)&named, sizeof named);
        listen(fd, 0);
        connected();
        struct timeval time = {0, 10000};
        result(setsockopt(FRESH, SOL_SOCKET, SO_SNDTIMEO, &time, 16));
        result(connect(FRESH, (void *)&named, sizeof named));
    })
    T(setsockopt, "SO_RCVTIMEO ends MSG_WAITALL", { struct timeval time = {0, 10000}; result(setsockopt(SOCK, SOL_SOCKET, SO_RCVTIMEO, &time, 16)); result(CALL(recvfrom, SOCK, data, 64, MSG_WAITALL, 0, 0)); result(CALL(recvfrom, SOCK, data, 64, MSG_WAITALL, 0, 0)); })
    T(setsockopt, "SO_RCVTIMEO does not delay what is there", { struct timeval time = {9, 0}; result(setsockopt(SOCK, SOL_SOCKET, SO_RCVTIMEO, &time, 16)); result(read(SOCK, data, 64)); })
    T(setsockopt, "SO_RCVTIMEO of zero waits", { struct timeval time = {0, 0}; result(setsockopt(PEER, SOL_SOCKET, SO_RCVTIMEO, &time, 16)); alarm(1); signal(SIGALRM, SIG_IGN); pid_t child = fork(); if (child == 0) { usleep(50000); write(SOCK, "late", 4); _exit(0); } result(read(PEER, data, 64)); wait(0); })
    T(setsockopt, "SO_RCVTIMEO before now", { struct timeval time = {-1, 0}; result(setsockopt(PEER, SOL_SOCKET, SO_RCVTIMEO, &time, 16)); result(read(PEER, data, 64)); })
    C(setsockopt, SOCK, SOL_SOCKET, SO_RCVTIMEO, &((struct timeval){3, 0}), 15)
    C(setsockopt, SOCK, SOL_SOCKET, SO_SNDTIMEO, &((struct timeval){3, -1}), 16)
    T(setsockopt, "SO_KEEPALIVE is turned off", { int no = 0; setsockopt(SOCK, SOL_SOCKET, SO_KEEPALIVE, &yes, 4); setsockopt(SOCK, SOL_SOCKET, SO_REUSEADDR, &yes, 4); result(setsockopt(SOCK, SOL_SOCKET, SO_KEEPALIVE, &no, 4)); len = 4; getsockopt(SOCK, SOL_SOCKET, SO_KEEPALIVE, data, (socklen_t *)&len); say(" | %d", *(int *)data); getsockopt(SOCK, SOL_SOCKET, SO_REUSEADDR, data, (socklen_t *)&len); say(" | %d", *(int *)data); })
    T(sendfile, "to a socket", { result(sendfile(SOCK, RW, 0, 10)); result(read(PEER, data, 64)); show_bytes(data, 4); })
    T(sendfile, "to a socket that writes no more", { shutdown(SOCK, SHUT_WR); result(sendfile(SOCK, RW, 0, 10)); })
    C(sendfile, FRESH, RW, 0, 10)
    T(ioctl, "bytes that a socket can read", { int count = -1; result(ioctl(SOCK, FIONREAD, &count)); say(" | %d", count); })
}

void sockets(void) {
    int run = getpid();
    memcpy(abstract.sun_path + 1, &run, sizeof run);
    E(show_flags(3), socket, AF_UNIX, SOCK_STREAM, 0)
    E(show_flags(3), socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
    C(socket, AF_UNIX, SOCK_STREAM, 1)
    C(socket, AF_UNIX, SOCK_DGRAM, 0)
    C(socket, AF_UNIX, SOCK_SEQPACKET, 0)
    C(socket, AF_UNIX, SOCK_RAW, 0)
    C(socket, AF_UNIX, SOCK_RDM, 0)
    C(socket, AF_UNIX, 99, 0)
    C(socket, AF_UNIX, SOCK_STREAM, 99)
    C(socket, AF_UNIX, SOCK_STREAM | 1 << 20, 0)
    C(socket, AF_INET, SOCK_STREAM, 0)
    C(socket, AF_INET6, SOCK_STREAM, 0)
    C(socket, AF_PACKET, SOCK_RAW, 0)
    C(socket, 99, SOCK_STREAM, 0)
    C(socket, -1, SOCK_STREAM, 0)
    E({ show_flags(both[0]); show_flags(both[1]); }, socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both)
    C(socketpair, AF_UNIX, SOCK_DGRAM, 0, both)
    C(socketpair, AF_UNIX, SOCK_SEQPACKET, 0, both)
    C(socketpair, AF_INET, SOCK_STREAM, 0, both)
    C(socketpair, AF_UNIX, SOCK_STREAM, 99, both)
    C(socketpair, AF_UNIX, SOCK_STREAM | 1 << 20, 0, both)
    C(socketpair, AF_UNIX, SOCK_STREAM, 0, BAD)
    E(show_path("socket"), bind, FRESH, &named, sizeof named)
    C(bind, FRESH, &abstract, 8)
    C(bind, FRESH, &unnamed, 2)
    C(bind, FRESH, &taken, sizeof taken)
    C(bind, FRESH, &elsewhere, sizeof elsewhere)
    C(bind, FRESH, &folder, sizeof folder)
    C(bind, FRESH, &named, 1)
    C(bind, FRESH, &named, 200)
    C(bind, FRESH, BAD, sizeof named)
    C(bind, RW, &named, sizeof named)
    C(bind, CLOSED, &named, sizeof named)
    C(bind, FRESH, &((struct sockaddr){.sa_family = AF_INET}), 16)
    T(bind, "twice", { bind(FRESH, (void *)&named, sizeof named); result(bind(FRESH, (void *)&elsewhere, sizeof elsewhere)); })
    C(listen, FRESH, 5)
    C(listen, SOCK, 5)
    C(listen, RW, 5)
    C(listen, CLOSED, 5)
    T(listen, "a bound socket", { result(bind(FRESH, (void *)&named, sizeof named)); result(CALL(listen, FRESH, -1)); })
    C(connect, FRESH, &named, sizeof named)
    C(connect, FRESH, &taken, sizeof taken)
    C(connect, FRESH, &elsewhere, sizeof elsewhere)
    C(connect, FRESH, &unnamed, 2)
    C(connect, FRESH, &abstract, 8)
    C(connect, FRESH, BAD, sizeof named)
    C(connect, FRESH, &named, 1)
    C(connect, FRESH, &((struct sockaddr){.sa_family = AF_INET}), 16)
    C(connect, RW, &named, sizeof named)
    C(connect, CLOSED, &named, sizeof named)
    T(connect, "to one that listens", { listening(); result(connect(FRESH, (void *)&named, sizeof named)); result(connect(FRESH, (void *)&named, sizeof named)); })
    T(connect, "SOCK to one that listens", { listening(); result(connect(SOCK, (void *)&named, sizeof named)); })
    C(accept, FRESH, 0, 0)
    C(accept, SOCK, 0, 0)
    C(accept, RW, 0, 0)
    C(accept4, FRESH, 0, 0, 0)
    C(accept4, FRESH, 0, 0, 1 << 20)
    C(accept4, CLOSED, 0, 0, 0)
    T(accept, "a connection", { int fd = listening(); connect(FRESH, (void *)&named, sizeof named); result(CALL(accept, fd, 0, 0)); show_flags(4); })
    T(accept4, "SOCK_CLOEXEC | SOCK_NONBLOCK", { int fd = listening(); connect(FRESH, (void *)&named, sizeof named); result(CALL(accept4, fd, 0, 0, SOCK_CLOEXEC | SOCK_NONBLOCK)); show_flags(4); })
    T(accept4, "nobody there", { int fd = listening(); fcntl(fd, F_SETFL, O_NONBLOCK); result(CALL(accept4, fd, 0, 0, 0)); })
    E(say(" | %d", (int)read(PEER, data, 1)), shutdown, SOCK, SHUT_WR)
    E(say(" | %d", (int)read(SOCK, data, 9)), shutdown, SOCK, SHUT_RD)
    C(shutdown, SOCK, SHUT_RDWR)
    C(shutdown, SOCK, 9)
    C(shutdown, FRESH, SHUT_RD)
    C(shutdown, RW, SHUT_RD)
    C(shutdown, CLOSED, SHUT_RD)
    C(sendto, SOCK, "data", 4, 0, 0, 0)
    C(sendto, SOCK, "data", 4, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0)
    C(sendto, SOCK, "data", 4, MSG_MORE | MSG_EOR | MSG_CONFIRM | MSG_DONTROUTE, 0, 0)
    C(sendto, SOCK, "data", 4, MSG_OOB, 0, 0)
    C(sendto, SOCK, "data", 4, 1 << 25, 0, 0)
    C(sendto, SOCK, "data", 4, 0, &named, sizeof named)
    C(sendto, FRESH, "data", 4, 0, 0, 0)
    C(sendto, FRESH, "data", 4, 0, &named, sizeof named)
    C(sendto, SOCK, BAD, 4, 0, 0, 0)
    C(sendto, RW, "data", 4, 0, 0, 0)
    C(sendto, CLOSED, "data", 4, 0, 0, 0)
    T(sendto, "nobody reads: SIGPIPE", { close(PEER); result(CALL(sendto, SOCK, "data", 4, 0, 0, 0)); })
    T(sendto, "nobody reads: MSG_NOSIGNAL", { close(PEER); result(CALL(sendto, SOCK, "data", 4, MSG_NOSIGNAL, 0, 0)); })
    C(sendmsg, SOCK, &message, 0)
    C(sendmsg, SOCK, &bad_message, 0)
    C(sendmsg, SOCK, &long_message, 0)
    C(sendmsg, SOCK, BAD, 0)
    C(sendmsg, RW, &message, 0)
    E(show_bytes(data, 4), recvfrom, SOCK, data, 64, 0, 0, 0)
    E(say(" | %d", (int)read(SOCK, data, 9)), recvfrom, SOCK, data, 64, MSG_PEEK, 0, 0)
    E(show_bytes(data, 4), recvfrom, SOCK, data, 2, MSG_TRUNC, 0, 0)
    E(show_bytes(data, 4), recvfrom, SOCK, data, 4, MSG_WAITALL, 0, 0)
    C(recvfrom, PEER, data, 64, MSG_DONTWAIT, 0, 0)
    C(recvfrom, SOCK, data, 64, MSG_OOB, 0, 0)
    C(recvfrom, SOCK, data, 64, MSG_ERRQUEUE, 0, 0)
    C(recvfrom, SOCK, data, 64, 1 << 25, 0, 0)
    C(recvfrom, SOCK, BAD, 64, 0, 0, 0)
    C(recvfrom, FRESH, data, 64, 0, 0, 0)
    C(recvfrom, RW, data, 64, 0, 0, 0)
    C(recvfrom, CLOSED, data, 64, 0, 0, 0)
    E(say(" | %x", message.msg_flags), recvmsg, SOCK, &message, 0)
    C(recvmsg, SOCK, &bad_message, 0)
    C(recvmsg, SOCK, &long_message, 0)
    C(recvmsg, SOCK, BAD, 0)
    C(recvmsg, PEER, &message, MSG_DONTWAIT)
    C(recvmsg, CLOSED, &message, 0)
    T(sendmsg, "a descriptor", {
        union { struct cmsghdr header; char space[CMSG_SPACE(4)]; } control;
        struct msghdr with = message;
        with.msg_control = &control;
        with.msg_controllen = sizeof control.space;
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(4)};
        *(int *)CMSG_DATA(&control.header) = RW;
        result(CALL(sendmsg, SOCK, &with, 0));
        *(int *)CMSG_DATA(&control.header) = -1;
        result(CALL(recvmsg, PEER, &with, MSG_DONTWAIT));
        say(" | %d", *(int *)CMSG_DATA(&control.header));
    })
    len = sizeof data;
    E(say(" | %d", len), getsockname, SOCK, data, &len)
    C(getsockname, SOCK, BAD, &len)
    C(getsockname, SOCK, data, BAD)
    C(getsockname, RW, data, &len)
    C(getsockname, CLOSED, data, &len)
    E(say(" | %d", len), getpeername, SOCK, data, &len)
    C(getpeername, FRESH, data, &len)
    C(getpeername, RW, data, &len)
    C(getpeername, CLOSED, data, &len)
    E(show_option(), getsockopt, SOCK, SOL_SOCKET, SO_TYPE, data, &len)
    E(show_option(), getsockopt, SOCK, SOL_SOCKET, SO_DOMAIN, data, &len)
    E(show_option(), getsockopt, SOCK, SOL_SOCKET, SO_PROTOCOL, data, &len)
    E(show_option(), getsockopt, SOCK, SOL_SOCKET, SO_ERROR, data, &len)
    E(show_option(), getsockopt, SOCK, SOL_SOCKET, SO_ACCEPTCONN, data, &len)
    E(show_option(), getsockopt, SOCK, SOL_SOCKET, SO_REUSEADDR, data, &len)
    E(show_option(), getsockopt, SOCK, SOL_SOCKET, SO_KEEPALIVE, data, &len)
    E(say(" | %d bytes", len), getsockopt, SOCK, SOL_SOCKET, SO_SNDBUF, data, &len)
    E(say(" | %d bytes", len), getsockopt, SOCK, SOL_SOCKET, SO_PEERCRED, data, &len)
    E(say(" | %d bytes", len), getsockopt, SOCK, SOL_SOCKET, SO_RCVTIMEO, data, &len)
    C(getsockopt, SOCK, SOL_SOCKET, 9999, data, &len)
    C(getsockopt, SOCK, 9999, SO_TYPE, data, &len)
    C(getsockopt, SOCK, SOL_SOCKET, SO_TYPE, data, BAD)
    C(getsockopt, RW, SOL_SOCKET, SO_TYPE, data, &len)
    C(getsockopt, CLOSED, SOL_SOCKET, SO_TYPE, data, &len)
#define OPTION(name) { len = 4; getsockopt(SOCK, SOL_SOCKET, name, data, (socklen_t *)&len); show_option(); }
    E(OPTION(SO_REUSEADDR), setsockopt, SOCK, SOL_SOCKET, SO_REUSEADDR, &yes, 4)
    E(OPTION(SO_KEEPALIVE), setsockopt, SOCK, SOL_SOCKET, SO_KEEPALIVE, &yes, 4)
    E(OPTION(SO_PASSCRED), setsockopt, SOCK, SOL_SOCKET, SO_PASSCRED, &yes, 4)
    E(OPTION(SO_BROADCAST), setsockopt, SOCK, SOL_SOCKET, SO_BROADCAST, &yes, 4)
    E(, setsockopt, SOCK, SOL_SOCKET, SO_SNDBUF, &yes, 4)
    E({ struct timeval time; len = 16; getsockopt(SOCK, SOL_SOCKET, SO_RCVTIMEO, &time, (socklen_t *)&len); say(" | %ld", (long)time.tv_sec); }, setsockopt, SOCK, SOL_SOCKET, SO_RCVTIMEO, &((struct timeval){3, 0}), 16)
    T(setsockopt, "SO_RCVTIMEO ends a read", { struct timeval time = {0, 10000}; result(setsockopt(PEER, SOL_SOCKET, SO_RCVTIMEO, &time, 16)); if (setsockopt(PEER, SOL_SOCKET, SO_RCVTIMEO, &time, 16) == 0) result(read(PEER, data, 1)); })
    C(setsockopt, SOCK, SOL_SOCKET, SO_RCVTIMEO, &((struct timeval){3, 1000000}), 16)
    C(setsockopt, SOCK, SOL_SOCKET, SO_TYPE, &yes, 4)
    C(setsockopt, SOCK, SOL_SOCKET, 9999, &yes, 4)
    C(setsockopt, SOCK, 9999, 1, &yes, 4)
    C(setsockopt, SOCK, SOL_SOCKET, SO_REUSEADDR, &yes, 3)
    C(setsockopt, SOCK, SOL_SOCKET, SO_REUSEADDR, BAD, 4)
    C(setsockopt, RW, SOL_SOCKET, SO_REUSEADDR, &yes, 4)
    C(setsockopt, CLOSED, SOL_SOCKET, SO_REUSEADDR, &yes, 4)
    connections();
}
