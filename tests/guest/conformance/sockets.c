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
}
