/* Sockets of the internet's protocols, between programs of one machine. */
#include "conform.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

static char data[1 << 17];
static int yes = 1, no;
static const char *addresses[] = {"127.0.0.1", "::1"};
static const int versions[] = {AF_INET, AF_INET6};

/* An address of either version, or both. */
union endpoint {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* As `T`, for one of the versions. */
#define V(name, what, ...) if (begin(of_version(i, #name ": " what), NR_##name)) { __VA_ARGS__; end(); }

static const char *of_version(int i, const char *what) {
    static char label[200];
    snprintf(label, sizeof label, "%s, %s", what, i ? "AF_INET6" : "AF_INET");
    return label;
}

static socklen_t len_of(const union endpoint *at) { return at->any.sa_family == AF_INET ? sizeof at->v4 : sizeof at->v6; }

static union endpoint endpoint(const char *address, int port) {
    union endpoint at = {.v6 = {.sin6_family = strchr(address, ':') ? AF_INET6 : AF_INET}};
    at.v4.sin_port = htons(port);
    inet_pton(at.any.sa_family, address, at.any.sa_family == AF_INET ? (void *)&at.v4.sin_addr : &at.v6.sin6_addr);
    return at;
}

static int bind_at(int fd, const char *address, int port) {
    union endpoint at = endpoint(address, port);
    return bind(fd, &at.any, len_of(&at));
}

static int connect_at(int fd, const char *address, int port) {
    union endpoint at = endpoint(address, port);
    return connect(fd, &at.any, len_of(&at));
}

static long send_at(int fd, const char *bytes, const char *address, int port) {
    union endpoint at = endpoint(address, port);
    return CALL(sendto, fd, bytes, strlen(bytes), MSG_NOSIGNAL | MSG_DONTWAIT, &at, len_of(&at));
}

/* Ports that were seen, so that they are told from each other without their numbers. */
static int seen[8], seen_count;

static const char *name_of_port(int port) {
    static char name[8];
    if (port == 0)
        return "0";
    int i = 0;
    while (i < seen_count && seen[i] != port)
        i++;
    if (i == seen_count && i < 8)
        seen[seen_count++] = port;
    snprintf(name, sizeof name, "%c", 'a' + i);
    return name;
}

static int port_of(int fd) {
    union endpoint at = {{0}};
    socklen_t len = sizeof at;
    getsockname(fd, &at.any, &len);
    return ntohs(at.v4.sin_port);
}

static void show_endpoint(const union endpoint *at, socklen_t len) {
    char text[64] = "?";
    if (at->any.sa_family == AF_INET)
        inet_ntop(AF_INET, &at->v4.sin_addr, text, sizeof text);
    if (at->any.sa_family == AF_INET6)
        inet_ntop(AF_INET6, &at->v6.sin6_addr, text, sizeof text);
    say(" | %d bytes %s port %s", (int)len, text, name_of_port(ntohs(at->v4.sin_port)));
}

static void show_name(int fd) {
    union endpoint at = {{0}};
    socklen_t len = sizeof at;
    result(CALL(getsockname, fd, &at, &len));
    show_endpoint(&at, len);
}

static void show_peer(int fd) {
    union endpoint at = {{0}};
    socklen_t len = sizeof at;
    long got = CALL(getpeername, fd, &at, &len);
    result(got);
    if (got == 0)
        show_endpoint(&at, len);
}

static void show_ready(int fd) {
    struct pollfd look = {fd, POLLIN | POLLOUT | POLLRDHUP | POLLPRI | POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLWRBAND, 0};
    poll(&look, 1, 0);
    say(" | %x", look.revents);
}

static void show_option(int fd, int level, int option) {
    int value = -1;
    socklen_t len = 4;
    result(getsockopt(fd, level, option, &value, &len));
    say(" | %d", value);
}

static void show_set(int fd, int level, int option, int value) {
    result(setsockopt(fd, level, option, &value, 4));
    show_option(fd, level, option);
}

/* A port that nobody has, whichever instances of this program run. */
static int free_port(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bind_at(fd, "127.0.0.1", 0);
    int port = port_of(fd);
    close(fd);
    return port;
}

static int listening(const char *address, int backlog) {
    int fd = socket(strchr(address, ':') ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    bind_at(fd, address, 0);
    listen(fd, backlog);
    return fd;
}

static int datagrams(const char *address) {
    int fd = socket(strchr(address, ':') ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
    bind_at(fd, address, 0);
    return fd;
}

static int listener, one, two;

/* A connection: `one` has asked for it, `two` was accepted. */
static void connect_both(int i) {
    listener = listening(addresses[i], 4);
    one = socket(versions[i], SOCK_STREAM, 0);
    connect_at(one, addresses[i], port_of(listener));
    two = accept(listener, 0, 0);
}

static long get(int fd, int room, int flags) { return CALL(recvfrom, fd, data, room, flags | MSG_DONTWAIT, 0, 0); }
static long put(int fd, const char *bytes) { return CALL(sendto, fd, bytes, strlen(bytes), MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0); }

static void show_got(int fd) {
    union endpoint from = {{0}};
    socklen_t len = sizeof from;
    memset(data, 0, 64);
    long got = CALL(recvfrom, fd, data, 64, MSG_DONTWAIT, &from, &len);
    result(got);
    if (got >= 0) {
        say(" '%s'", data);
        show_endpoint(&from, len);
    }
}

static void kinds(void) {
    C(socket, AF_INET, SOCK_DGRAM, 0)
    C(socket, AF_INET, SOCK_DGRAM, IPPROTO_UDP)
    C(socket, AF_INET6, SOCK_DGRAM, IPPROTO_UDP)
    C(socket, AF_INET, SOCK_STREAM, IPPROTO_TCP)
    C(socket, AF_INET, SOCK_STREAM, IPPROTO_UDP)
    C(socket, AF_INET, SOCK_DGRAM, IPPROTO_TCP)
    C(socket, AF_INET, SOCK_SEQPACKET, 0)
    C(socket, AF_INET, SOCK_RAW, 0)
    C(socket, AF_INET, SOCK_STREAM, 1000)
    C(socket, AF_INET, 11, 0)
    C(socket, AF_INET, 0, 0)
    C(socketpair, AF_INET6, SOCK_DGRAM, 0, &one)
    for (int i = 0; i < 2; i++) {
        V(socket, "what a stream is", { one = socket(versions[i], SOCK_STREAM, 0); show_option(one, SOL_SOCKET, SO_TYPE); show_option(one, SOL_SOCKET, SO_DOMAIN); show_option(one, SOL_SOCKET, SO_PROTOCOL); show_option(one, SOL_SOCKET, SO_ERROR); show_option(one, SOL_SOCKET, SO_ACCEPTCONN); show_ready(one); show_name(one); show_peer(one); })
        V(socket, "what one of datagrams is", { one = socket(versions[i], SOCK_DGRAM, 0); show_option(one, SOL_SOCKET, SO_TYPE); show_option(one, SOL_SOCKET, SO_PROTOCOL); show_option(one, SOL_SOCKET, SO_SNDBUF); show_ready(one); show_name(one); show_peer(one); })
        V(socket, "calls on a new stream", { one = socket(versions[i], SOCK_STREAM, 0); result(put(one, "x")); result(get(one, 1, 0)); result(CALL(accept, one, 0, 0)); result(CALL(shutdown, one, SHUT_RDWR)); int count = -1; result(ioctl(one, FIONREAD, &count)); say(" | %d", count); })
        V(socket, "calls on a new one of datagrams", { one = socket(versions[i], SOCK_DGRAM, 0); result(put(one, "x")); result(get(one, 1, 0)); result(CALL(accept, one, 0, 0)); result(CALL(listen, one, 1)); result(CALL(shutdown, one, SHUT_RDWR)); show_ready(one); })
    }
}

static void binding(void) {
    for (int i = 0; i < 2; i++) {
        const char *own = addresses[i], *any = i ? "::" : "0.0.0.0";
        V(bind, "any port", { one = socket(versions[i], SOCK_STREAM, 0); result(bind_at(one, own, 0)); show_name(one); say(port_of(one) >= 32768 && port_of(one) <= 60999 ? " | in the range" : " | elsewhere"); })
        V(bind, "twice", { one = socket(versions[i], SOCK_STREAM, 0); result(bind_at(one, own, 0)); result(bind_at(one, own, 0)); })
        V(bind, "a privileged port", { one = socket(versions[i], SOCK_STREAM, 0); result(bind_at(one, own, 1023)); result(bind_at(one, own, 7)); show_name(one); })
        V(bind, "addresses that are another machine's", { one = socket(versions[i], SOCK_STREAM, 0); result(bind_at(one, i ? "2001:db8::1" : "203.0.113.1", 0)); result(bind_at(one, i ? "::ffff:203.0.113.1" : "128.0.0.1", 0)); show_name(one); })
        V(bind, "lengths and families", { union endpoint at = endpoint(own, 0); one = socket(versions[i], SOCK_STREAM, 0); result(bind(one, &at.any, 2)); result(bind(one, &at.any, 15)); result(bind(one, &at.any, i ? 23 : 16)); result(bind(one, &at.any, 200)); at.any.sa_family = AF_UNIX; result(bind(one, &at.any, 28)); at.any.sa_family = AF_UNSPEC; result(bind(one, &at.any, 28)); result(bind(one, BAD, 28)); })
        V(bind, "AF_UNSPEC and any address", { union endpoint at = endpoint(any, 0); at.any.sa_family = AF_UNSPEC; one = socket(versions[i], SOCK_STREAM, 0); result(bind(one, &at.any, 28)); })
        V(bind, "a port that is taken", { one = socket(versions[i], SOCK_STREAM, 0); two = socket(versions[i], SOCK_STREAM, 0); bind_at(one, own, 0); result(bind_at(two, own, port_of(one))); result(bind_at(two, any, port_of(one))); })
        V(bind, "a port of any address", { one = socket(versions[i], SOCK_STREAM, 0); two = socket(versions[i], SOCK_STREAM, 0); bind_at(one, any, 0); result(bind_at(two, own, port_of(one))); result(bind_at(two, any, port_of(one))); })
        V(bind, "a port of the other protocol", { one = socket(versions[i], SOCK_STREAM, 0); two = socket(versions[i], SOCK_DGRAM, 0); bind_at(one, own, 0); result(bind_at(two, own, port_of(one))); })
        V(bind, "a port that was closed", { one = socket(versions[i], SOCK_STREAM, 0); two = socket(versions[i], SOCK_STREAM, 0); bind_at(one, own, 0); int port = port_of(one); close(one); result(bind_at(two, own, port)); })
        V(bind, "SO_REUSEADDR", { one = socket(versions[i], SOCK_STREAM, 0); two = socket(versions[i], SOCK_STREAM, 0); setsockopt(two, SOL_SOCKET, SO_REUSEADDR, &yes, 4); bind_at(one, own, 0); result(bind_at(two, own, port_of(one))); setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &yes, 4); result(bind_at(two, own, port_of(one))); result(listen(one, 1)); result(listen(two, 1)); })
        V(bind, "SO_REUSEADDR and one that listens", { one = listening(own, 1); two = socket(versions[i], SOCK_STREAM, 0); setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &yes, 4); setsockopt(two, SOL_SOCKET, SO_REUSEADDR, &yes, 4); result(bind_at(two, own, port_of(one))); })
        V(bind, "SO_REUSEPORT", { one = socket(versions[i], SOCK_STREAM, 0); two = socket(versions[i], SOCK_STREAM, 0); setsockopt(one, SOL_SOCKET, SO_REUSEPORT, &yes, 4); bind_at(one, own, 0); result(bind_at(two, own, port_of(one))); setsockopt(two, SOL_SOCKET, SO_REUSEPORT, &yes, 4); result(bind_at(two, own, port_of(one))); result(listen(one, 1)); result(listen(two, 1)); })
        V(bind, "datagrams and SO_REUSEADDR: the newest receives", { one = datagrams(own); two = socket(versions[i], SOCK_DGRAM, 0); setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &yes, 4); setsockopt(two, SOL_SOCKET, SO_REUSEADDR, &yes, 4); result(bind_at(two, own, port_of(one))); result(send_at(two, "hello", own, port_of(one))); result(get(one, 64, 0)); result(get(two, 64, 0)); })
    }
    T(bind, "both versions of any address", { one = socket(AF_INET6, SOCK_STREAM, 0); two = socket(AF_INET, SOCK_STREAM, 0); result(bind_at(one, "::", 0)); result(bind_at(two, "0.0.0.0", port_of(one))); result(bind_at(two, "127.0.0.1", port_of(one))); })
    T(bind, "IPV6_V6ONLY", { one = socket(AF_INET6, SOCK_STREAM, 0); two = socket(AF_INET, SOCK_STREAM, 0); result(setsockopt(one, IPPROTO_IPV6, IPV6_V6ONLY, &yes, 4)); result(bind_at(one, "::ffff:127.0.0.1", 0)); result(bind_at(one, "::", 0)); result(bind_at(two, "0.0.0.0", port_of(one))); result(setsockopt(one, IPPROTO_IPV6, IPV6_V6ONLY, &no, 4)); })
    T(bind, "an address of version 4 in version 6", { one = socket(AF_INET6, SOCK_STREAM, 0); two = socket(AF_INET, SOCK_STREAM, 0); result(bind_at(one, "::ffff:127.0.0.1", 0)); show_name(one); result(bind_at(two, "127.0.0.1", port_of(one))); result(bind_at(two, "127.0.0.2", port_of(one))); })
    T(bind, "another address of the device", { one = socket(AF_INET, SOCK_STREAM, 0); two = socket(AF_INET, SOCK_STREAM, 0); result(bind_at(one, "127.0.0.2", 0)); result(bind_at(two, "127.0.0.1", port_of(one))); show_name(one); show_name(two); })
    R(bind, "a privileged port", { one = socket(AF_INET, SOCK_STREAM, 0); result(bind_at(one, "127.0.0.1", 600 + getpid() % 400)); })
}

static void connecting(void) {
    for (int i = 0; i < 2; i++) {
        const char *own = addresses[i], *any = i ? "::" : "0.0.0.0";
        V(connect, "names of both ends", { connect_both(i); show_name(listener); show_name(one); show_peer(one); show_name(two); show_peer(two); show_ready(one); show_ready(two); })
        V(connect, "nobody is there", { one = socket(versions[i], SOCK_STREAM, 0); int port = free_port(); result(connect_at(one, own, port)); show_option(one, SOL_SOCKET, SO_ERROR); show_ready(one); result(connect_at(one, own, port)); })
        V(connect, "to one that is bound and does not listen", { one = socket(versions[i], SOCK_STREAM, 0); two = socket(versions[i], SOCK_STREAM, 0); bind_at(one, own, 0); result(connect_at(two, own, port_of(one))); })
        V(connect, "twice", { connect_both(i); result(connect_at(one, own, port_of(listener))); result(connect_at(two, own, port_of(listener))); result(connect_at(listener, own, port_of(listener))); })
        V(connect, "any address is the machine itself", { listener = listening(own, 1); one = socket(versions[i], SOCK_STREAM, 0); result(connect_at(one, any, port_of(listener))); show_name(one); show_peer(one); })
        V(connect, "who listens at any address", { listener = listening(any, 1); one = socket(versions[i], SOCK_STREAM, 0); result(connect_at(one, own, port_of(listener))); two = accept(listener, 0, 0); show_name(listener); show_name(two); show_peer(two); })
        V(connect, "from a port of one's own", { listener = listening(own, 1); one = socket(versions[i], SOCK_STREAM, 0); bind_at(one, any, 0); show_name(one); result(connect_at(one, own, port_of(listener))); show_name(one); two = accept(listener, 0, 0); show_peer(two); })
        V(connect, "lengths and families", { union endpoint at = endpoint(own, free_port()); one = socket(versions[i], SOCK_STREAM, 0); result(connect(one, &at.any, 0)); result(connect(one, &at.any, 1)); result(connect(one, &at.any, 2)); result(connect(one, &at.any, 15)); result(connect(one, &at.any, 200)); at.any.sa_family = AF_UNIX; result(connect(one, &at.any, 28)); at.any.sa_family = i ? AF_INET : AF_INET6; result(connect(one, &at.any, 28)); at.any.sa_family = AF_UNSPEC; result(connect(one, &at.any, 28)); result(connect(one, BAD, 28)); })
        V(connect, "port 0", { one = socket(versions[i], SOCK_STREAM, 0); result(connect_at(one, own, 0)); })
        V(connect, "when the listener has gone", { listener = listening(own, 1); int port = port_of(listener); close(listener); one = socket(versions[i], SOCK_STREAM, 0); result(connect_at(one, own, port)); })
        V(connect, "not waiting: it is ready, and no error is told", { listener = listening(own, 1); one = socket(versions[i], SOCK_STREAM | SOCK_NONBLOCK, 0); long got = connect_at(one, own, port_of(listener)); say(got == 0 || errno == EINPROGRESS ? " | asked for" : " | %s", errno_name(errno)); struct pollfd look = {one, POLLOUT, 0}; result(poll(&look, 1, 1000)); say(" | %x", look.revents); show_option(one, SOL_SOCKET, SO_ERROR); result(put(one, "x")); })
        V(accept, "nothing waits", { listener = listening(own, 1); fcntl(listener, F_SETFL, O_NONBLOCK); show_ready(listener); result(CALL(accept, listener, 0, 0)); })
        V(accept, "the address of who has connected", { listener = listening(own, 1); one = socket(versions[i], SOCK_STREAM, 0); connect_at(one, own, port_of(listener)); show_name(one); show_ready(listener); union endpoint from = {{0}}; socklen_t len = sizeof from; some(CALL(accept4, listener, &from, &len, SOCK_NONBLOCK)); show_endpoint(&from, len); show_ready(listener); })
        V(accept, "who has closed already", { listener = listening(own, 1); one = socket(versions[i], SOCK_STREAM, 0); connect_at(one, own, port_of(listener)); put(one, "left"); close(one); two = accept(listener, 0, 0); result(get(two, 64, 0)); result(get(two, 64, 0)); })
        V(accept, "the address of who has reset the connection already", { listener = listening(own, 1); one = socket(versions[i], SOCK_STREAM, 0); connect_at(one, own, port_of(listener)); struct linger at_once = {1, 0}; setsockopt(one, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); show_name(one); close(one); usleep(10000); union endpoint from = {{0}}; socklen_t len = sizeof from; some(two = CALL(accept4, listener, &from, &len, SOCK_NONBLOCK)); show_endpoint(&from, len); show_peer(two); result(get(two, 1, 0)); result(get(two, 1, 0)); })
        V(listen, "a port is chosen", { one = socket(versions[i], SOCK_STREAM, 0); result(listen(one, 1)); show_name(one); show_option(one, SOL_SOCKET, SO_ACCEPTCONN); result(bind_at(one, own, 0)); })
        V(listen, "one that is connected", { connect_both(i); result(listen(one, 1)); result(listen(two, 1)); result(listen(listener, 1)); })
        V(close, "a listener with connections that wait", { listener = listening(own, 2); one = socket(versions[i], SOCK_STREAM, 0); connect_at(one, own, port_of(listener)); put(one, "lost"); close(listener); usleep(10000); show_ready(one); result(get(one, 64, 0)); result(get(one, 64, 0)); })
        V(accept, "a port is shared with the listener, and free afterwards", { connect_both(i); int port = port_of(listener); result(port_of(two) == port); close(two); close(one); close(listener); two = socket(versions[i], SOCK_STREAM, 0); setsockopt(two, SOL_SOCKET, SO_REUSEADDR, &yes, 4); result(bind_at(two, own, port)); result(listen(two, 1)); })
        V(accept, "what it has of its listener", { listener = listening(own, 2); setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &yes, 4); setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &yes, 4); one = socket(versions[i], SOCK_STREAM, 0); connect_at(one, own, port_of(listener)); two = accept(listener, 0, 0); show_option(two, IPPROTO_TCP, TCP_NODELAY); show_option(two, SOL_SOCKET, SO_KEEPALIVE); show_option(two, SOL_SOCKET, SO_PROTOCOL); show_option(two, SOL_SOCKET, SO_ACCEPTCONN); })
        V(accept, "its listener's timeouts", { listener = listening(own, 2); struct timeval soon = {0, 20000}; setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon); one = socket(versions[i], SOCK_STREAM, 0); connect_at(one, own, port_of(listener)); two = accept(listener, 0, 0); result(CALL(recvfrom, two, data, 1, 0, 0, 0)); })
        V(connect, "to oneself", { one = socket(versions[i], SOCK_STREAM, 0); bind_at(one, own, 0); result(connect_at(one, own, port_of(one))); })
    }
    T(connect, "not waiting, to who listens", { listener = listening("127.0.0.1", 1); one = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0); result(connect_at(one, "127.0.0.1", port_of(listener))); })
    T(connect, "AF_UNSPEC of a connection", { connect_both(0); struct sockaddr none = {AF_UNSPEC, ""}; result(connect(one, &none, sizeof none)); show_peer(one); })
    T(sendto, "MSG_OOB on a stream of AF_INET", { connect_both(0); result(CALL(sendto, one, "x", 1, MSG_OOB, 0, 0)); })
    T(connect, "version 4 to a listener of version 6", { listener = listening("::", 2); one = socket(AF_INET, SOCK_STREAM, 0); result(connect_at(one, "127.0.0.1", port_of(listener))); two = accept(listener, 0, 0); show_name(one); show_peer(one); show_name(two); show_peer(two); })
    T(connect, "version 6 to a listener of version 4", { listener = listening("127.0.0.1", 2); one = socket(AF_INET6, SOCK_STREAM, 0); result(connect_at(one, "::ffff:127.0.0.1", port_of(listener))); two = accept(listener, 0, 0); show_name(one); show_peer(one); show_name(two); show_peer(two); result(connect_at(socket(AF_INET6, SOCK_STREAM, 0), "::1", port_of(listener))); })
    T(connect, "another address of the device", { listener = listening("127.0.0.5", 2); one = socket(AF_INET, SOCK_STREAM, 0); result(connect_at(one, "127.0.0.1", port_of(listener))); result(connect_at(one, "127.0.0.5", port_of(listener))); show_name(one); show_peer(one); })
    T(connect, "IPV6_V6ONLY", { listener = listening("127.0.0.1", 2); one = socket(AF_INET6, SOCK_STREAM, 0); setsockopt(one, IPPROTO_IPV6, IPV6_V6ONLY, &yes, 4); result(connect_at(one, "::ffff:127.0.0.1", port_of(listener))); })
    T(connect, "of version 6 to version 4", { listener = listening("127.0.0.1", 2); one = socket(AF_INET6, SOCK_STREAM, 0); bind_at(one, "::1", 0); show_option(one, IPPROTO_IPV6, IPV6_V6ONLY); result(connect_at(one, "::ffff:127.0.0.1", port_of(listener))); show_peer(one); })
    T(connect, "of version 4 to version 6", { listener = listening("::1", 2); one = socket(AF_INET6, SOCK_STREAM, 0); bind_at(one, "::ffff:127.0.0.1", 0); result(connect_at(one, "::1", port_of(listener))); result(connect_at(one, "::1", free_port())); })
    T(connect, "any address is one's own", { listener = listening("127.0.0.2", 2); one = socket(AF_INET, SOCK_STREAM, 0); bind_at(one, "127.0.0.2", 0); result(connect_at(one, "0.0.0.0", port_of(listener))); show_name(one); show_peer(one); two = datagrams("127.0.0.3"); result(connect_at(two, "0.0.0.0", port_of(listener))); show_name(two); show_peer(two); })
    T(connect, "a full backlog", { listener = listening("127.0.0.1", 0); for (int j = 0; j < 2; j++) { one = socket(AF_INET, SOCK_STREAM, 0); struct timeval soon = {0, 50000}; setsockopt(one, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon); result(connect_at(one, "127.0.0.1", port_of(listener))); } show_ready(one); show_option(one, SOL_SOCKET, SO_ERROR); })
}

static void streams(void) {
    for (int i = 0; i < 2; i++) {
        V(write, "bytes have no borders", { connect_both(i); result(put(one, "one")); result(put(one, "three")); show_ready(two); int count = -1; result(ioctl(two, FIONREAD, &count)); say(" | %d", count); result(get(two, 64, MSG_PEEK)); result(get(two, 2, 0)); result(get(two, 64, 0)); result(get(two, 64, 0)); show_bytes(data, 6); })
        V(recvfrom, "MSG_WAITALL", { connect_both(i); put(one, "hello"); if (fork() == 0) { usleep(50000); put(one, "you"); _exit(0); } result(CALL(recvfrom, two, data, 8, MSG_WAITALL, 0, 0)); show_bytes(data, 8); })
        V(recvfrom, "MSG_TRUNC drops bytes", { connect_both(i); put(one, "hello"); result(get(two, 2, MSG_TRUNC)); result(get(two, 64, 0)); })
        V(recvfrom, "nobody's name", { connect_both(i); put(one, "hello"); show_got(two); result(CALL(sendto, one, "x", 1, 0, &data, 16)); })
        V(recvfrom, "MSG_OOB when there is nothing", { connect_both(i); result(get(two, 1, MSG_OOB)); })
        V(shutdown, "SHUT_WR", { connect_both(i); put(one, "left"); result(shutdown(one, SHUT_WR)); show_ready(one); show_ready(two); result(get(two, 64, 0)); result(get(two, 64, 0)); result(put(one, "x")); result(put(two, "back")); result(get(one, 64, 0)); show_ready(one); result(shutdown(two, SHUT_WR)); show_ready(one); show_ready(two); })
        V(shutdown, "SHUT_RD: what comes is read", { connect_both(i); result(shutdown(two, SHUT_RD)); show_ready(two); show_ready(one); result(get(two, 64, 0)); result(put(one, "more")); result(get(two, 64, 0)); result(get(two, 64, 0)); })
        V(shutdown, "SHUT_RDWR", { connect_both(i); result(shutdown(two, SHUT_RDWR)); show_ready(two); show_ready(one); result(get(one, 64, 0)); result(get(two, 64, 0)); result(put(two, "x")); })
        V(shutdown, "a listener", { listener = listening(addresses[i], 1); result(shutdown(listener, SHUT_RD)); show_ready(listener); result(CALL(accept, listener, 0, 0)); one = socket(versions[i], SOCK_STREAM, 0); result(connect_at(one, addresses[i], port_of(listener))); })
        V(shutdown, "a listener listens again", { listener = socket(versions[i], SOCK_STREAM, 0); setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, 4); int port = free_port(); bind_at(listener, addresses[i], port); listen(listener, 4); result(shutdown(listener, SHUT_RD)); show_option(listener, SOL_SOCKET, SO_ACCEPTCONN); result(CALL(accept, listener, 0, 0)); result(shutdown(listener, SHUT_RD)); say(port_of(listener) == port ? " | the same port" : " | another"); result(listen(listener, 4)); one = socket(versions[i], SOCK_STREAM, 0); result(connect_at(one, addresses[i], port)); some(CALL(accept, listener, 0, 0)); show_ready(listener); })
        V(shutdown, "a listener where connections wait", { listener = listening(addresses[i], 4); one = socket(versions[i], SOCK_STREAM, 0); two = socket(versions[i], SOCK_STREAM, 0); connect_at(one, addresses[i], port_of(listener)); connect_at(two, addresses[i], port_of(listener)); put(two, "lost"); result(shutdown(listener, SHUT_RDWR)); usleep(10000); show_ready(one); result(get(one, 64, 0)); result(get(one, 64, 0)); result(get(two, 64, 0)); result(CALL(accept, listener, 0, 0)); })
        V(shutdown, "a listener, SHUT_WR", { listener = listening(addresses[i], 4); result(shutdown(listener, SHUT_WR)); show_ready(listener); one = socket(versions[i], SOCK_STREAM, 0); result(connect_at(one, addresses[i], port_of(listener))); show_ready(listener); some(CALL(accept, listener, 0, 0)); })
        V(shutdown, "a listener that connects", { listener = listening(addresses[i], 4); one = listening(addresses[i], 4); shutdown(one, SHUT_RD); result(connect_at(one, addresses[i], port_of(listener))); show_peer(one); })
        V(shutdown, "a listener whose port was chosen", { listener = listening(addresses[i], 4); int port = port_of(listener); shutdown(listener, SHUT_RD); show_name(listener); result(bind_at(socket(versions[i], SOCK_STREAM, 0), addresses[i], port)); result(listen(listener, 1)); say(port_of(listener) == port ? " | the same port" : " | another"); })
        V(recvfrom, "MSG_ERRQUEUE on a stream", { connect_both(i); put(one, "hello"); result(CALL(recvfrom, two, data, 64, MSG_ERRQUEUE, 0, 0)); result(get(two, 64, 0)); result(CALL(recvfrom, two, data, 64, MSG_ERRQUEUE, 0, 0)); result(CALL(recvfrom, listener, data, 64, MSG_ERRQUEUE, 0, 0)); })
        V(close, "everything was read", { connect_both(i); put(two, "left"); close(two); show_ready(one); result(get(one, 64, 0)); result(get(one, 64, 0)); show_ready(one); })
        V(close, "sending afterwards", { connect_both(i); close(two); result(put(one, "lost")); usleep(10000); show_ready(one); result(put(one, "x")); result(put(one, "x")); result(get(one, 64, 0)); show_option(one, SOL_SOCKET, SO_ERROR); })
        V(close, "SO_ERROR after sending", { connect_both(i); close(two); result(put(one, "lost")); usleep(10000); show_option(one, SOL_SOCKET, SO_ERROR); show_option(one, SOL_SOCKET, SO_ERROR); result(get(one, 64, 0)); result(put(one, "x")); })
        V(close, "something was not read", { connect_both(i); put(one, "lost"); put(two, "left"); close(two); usleep(10000); show_ready(one); result(get(one, 64, 0)); result(get(one, 64, 0)); result(get(one, 64, 0)); result(put(one, "x")); show_ready(one); })
        V(close, "something was not read, and sending", { connect_both(i); put(one, "lost"); close(two); usleep(10000); result(put(one, "x")); result(put(one, "x")); result(get(one, 64, 0)); })
        V(close, "something was not read, and SO_ERROR", { connect_both(i); put(one, "lost"); close(two); usleep(10000); show_option(one, SOL_SOCKET, SO_ERROR); result(get(one, 64, 0)); result(put(one, "x")); })
        V(close, "SO_LINGER of no time", { connect_both(i); struct linger at_once = {1, 0}; result(setsockopt(two, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once)); close(two); usleep(10000); show_ready(one); result(get(one, 64, 0)); result(get(one, 64, 0)); show_peer(one); })
        V(write, "SIGPIPE", { connect_both(i); shutdown(one, SHUT_WR); if (fork() == 0) { write(one, "x", 1); _exit(0); } int status; wait(&status); say(" | %x", status); })
        V(sendfile, "to a stream", { connect_both(i); result(CALL(sendfile, one, RO, 0, 100)); result(get(two, 64, 0)); })
        V(write, "nothing", { connect_both(i); result(CALL(write, one, data, 0)); result(get(two, 64, 0)); close(two); result(CALL(write, one, data, 0)); })
        V(sendto, "bad memory", { connect_both(i); result(CALL(sendto, one, BAD, 4, 0, 0, 0)); result(get(two, 64, 0)); put(one, "hello"); result(CALL(recvfrom, two, BAD, 4, 0, 0, 0)); result(get(two, 64, 0)); })
        V(setsockopt, "SO_RCVTIMEO", { connect_both(i); struct timeval soon = {0, 20000}; setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon); result(CALL(recvfrom, one, data, 1, 0, 0, 0)); setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon); result(CALL(accept, listener, 0, 0)); })
        V(epoll_wait, "edges of a stream", { connect_both(i); int list = epoll_create1(0); struct epoll_event event = {EPOLLIN | EPOLLRDHUP | EPOLLET, {.fd = two}}; epoll_ctl(list, EPOLL_CTL_ADD, two, &event); result(epoll_wait(list, &event, 1, 0)); put(one, "x"); result(epoll_wait(list, &event, 1, 1000)); say(" | %x", event.events); result(epoll_wait(list, &event, 1, 0)); close(one); result(epoll_wait(list, &event, 1, 1000)); say(" | %x", event.events); })
    }
}

static void messages(void) {
    for (int i = 0; i < 2; i++) {
        const char *own = addresses[i], *any = i ? "::" : "0.0.0.0";
        V(sendto, "who has sent it", { one = datagrams(own); two = socket(versions[i], SOCK_DGRAM, 0); result(send_at(two, "hello", own, port_of(one))); show_name(two); show_ready(one); show_got(one); show_got(one); })
        V(sendto, "back to who has sent it", { one = datagrams(own); two = datagrams(any); send_at(two, "hello", own, port_of(one)); show_name(two); show_got(one); result(send_at(one, "you", own, port_of(two))); show_got(two); })
        V(sendto, "to oneself", { one = datagrams(own); result(send_at(one, "hello", own, port_of(one))); show_got(one); })
        V(sendto, "borders of datagrams", { one = datagrams(own); send_at(one, "one", own, port_of(one)); send_at(one, "", own, port_of(one)); send_at(one, "three", own, port_of(one)); int count = -1; result(ioctl(one, FIONREAD, &count)); say(" | %d", count); result(get(one, 2, MSG_PEEK)); result(get(one, 2, MSG_PEEK | MSG_TRUNC)); result(get(one, 2, 0)); result(get(one, 64, 0)); result(get(one, 64, 0)); result(get(one, 64, 0)); })
        V(sendto, "nobody is there", { one = socket(versions[i], SOCK_DGRAM, 0); result(send_at(one, "lost", own, free_port())); result(get(one, 64, 0)); show_option(one, SOL_SOCKET, SO_ERROR); show_ready(one); })
        V(sendto, "nobody is there, connected", { one = socket(versions[i], SOCK_DGRAM, 0); int port = free_port(); result(connect_at(one, own, port)); result(put(one, "lost")); show_ready(one); result(put(one, "lost")); result(get(one, 64, 0)); result(put(one, "lost")); result(get(one, 64, 0)); put(one, "lost"); show_option(one, SOL_SOCKET, SO_ERROR); show_option(one, SOL_SOCKET, SO_ERROR); })
        V(sendto, "without an address", { one = socket(versions[i], SOCK_DGRAM, 0); result(put(one, "x")); result(send_at(one, "x", own, 0)); union endpoint at = endpoint(own, 9); result(CALL(sendto, one, "x", 1, 0, &at, 8)); at.any.sa_family = AF_UNIX; result(CALL(sendto, one, "x", 1, 0, &at, 28)); at.any.sa_family = AF_UNSPEC; result(CALL(sendto, one, "x", 1, 0, &at, 28)); })
        V(sendto, "how long", { one = datagrams(own); connect_at(one, own, port_of(one)); result(CALL(sendto, one, data, 65507, 0, 0, 0)); result(CALL(sendto, one, data, 65508, 0, 0, 0)); result(CALL(sendto, one, data, 65527, 0, 0, 0)); result(CALL(sendto, one, data, 65528, 0, 0, 0)); result(get(one, sizeof data, 0)); })
        V(sendto, "MSG_OOB", { one = datagrams(own); connect_at(one, own, port_of(one)); result(CALL(sendto, one, "x", 1, MSG_OOB, 0, 0)); result(get(one, 1, MSG_OOB)); })
        V(recvfrom, "MSG_ERRQUEUE of datagrams", { one = datagrams(own); send_at(one, "hello", own, port_of(one)); result(CALL(recvfrom, one, data, 64, MSG_ERRQUEUE, 0, 0)); result(get(one, 64, 0)); result(CALL(recvfrom, one, data, 64, MSG_ERRQUEUE, 0, 0)); })
        V(sendto, "bad memory, datagrams", { one = datagrams(own); result(CALL(sendto, one, BAD, 4, 0, 0, 0)); connect_at(one, own, port_of(one)); result(CALL(sendto, one, BAD, 4, 0, 0, 0)); connect_at(one, own, free_port()); result(CALL(sendto, one, BAD, 4, 0, 0, 0)); result(put(one, "x")); })
        V(shutdown, "a receiver of datagrams that reads no more", { one = datagrams(own); two = datagrams(own); connect_at(one, own, port_of(two)); connect_at(two, own, port_of(one)); result(shutdown(one, SHUT_RD)); result(put(two, "hello")); result(put(two, "you")); show_option(two, SOL_SOCKET, SO_ERROR); show_ready(one); result(get(one, 64, 0)); result(CALL(recvfrom, one, data, 64, 0, 0, 0)); result(CALL(recvfrom, one, data, 64, 0, 0, 0)); result(get(one, 64, 0)); })
        V(connect, "AF_UNSPEC, and the address was bound", { one = datagrams(own); two = datagrams(own); int port = port_of(one); connect_at(one, own, port_of(two)); struct sockaddr none = {AF_UNSPEC, ""}; result(connect(one, &none, sizeof none)); show_name(one); result(send_at(two, "lost", own, port)); result(send_at(one, "hello", own, port_of(two))); show_name(one); show_got(two); show_got(one); })
        V(connect, "from whom datagrams come", { one = datagrams(own); two = datagrams(own); int three = datagrams(own); result(connect_at(one, own, port_of(two))); show_name(one); show_peer(one); result(send_at(three, "other", own, port_of(one))); result(send_at(two, "peer", own, port_of(one))); show_got(one); show_got(one); result(put(one, "back")); show_got(two); result(send_at(one, "elsewhere", own, port_of(three))); show_got(three); })
        V(connect, "AF_UNSPEC", { one = socket(versions[i], SOCK_DGRAM, 0); two = datagrams(own); connect_at(one, own, port_of(two)); show_name(one); struct sockaddr none = {AF_UNSPEC, ""}; result(connect(one, &none, sizeof none)); show_peer(one); show_name(one); result(put(one, "x")); })
        V(connect, "AF_UNSPEC, and the port was bound", { one = datagrams(any); two = datagrams(own); show_name(one); connect_at(one, own, port_of(two)); show_name(one); struct sockaddr none = {AF_UNSPEC, ""}; result(connect(one, &none, sizeof none)); show_name(one); })
        V(connect, "any address, datagrams", { one = socket(versions[i], SOCK_DGRAM, 0); two = datagrams(own); result(connect_at(one, any, port_of(two))); show_name(one); show_peer(one); result(put(one, "hello")); show_got(two); })
        V(shutdown, "datagrams", { one = datagrams(own); result(shutdown(one, SHUT_RD)); connect_at(one, own, port_of(one)); result(shutdown(one, SHUT_WR)); result(put(one, "x")); show_ready(one); result(shutdown(one, SHUT_RD)); show_ready(one); result(get(one, 64, 0)); result(CALL(recvfrom, one, data, 64, 0, 0, 0)); })
        V(sendto, "more than there is room for is lost", { one = datagrams(own); two = datagrams(own); connect_at(two, own, port_of(one)); int count = 0; for (int j = 0; j < 2000; j++) count += CALL(sendto, two, data, 1000, MSG_DONTWAIT, 0, 0) == 1000; say(" | %d", count); int got = 0; while (get(one, sizeof data, 0) == 1000) got++; say(got > 20 && got < 2000 ? " | some" : " | %d", got); })
        V(recvmsg, "MSG_TRUNC is told", { one = datagrams(own); send_at(one, "hello", own, port_of(one)); struct iovec part = {data, 2}; union endpoint from; struct msghdr header = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1}; result(CALL(recvmsg, one, &header, 0)); say(" | flags %x", header.msg_flags); show_endpoint(&from, header.msg_namelen); })
        V(sendmsg, "open files are not sent", { one = datagrams(own); connect_at(one, own, port_of(one)); struct iovec part = {data, 1}; union { struct cmsghdr first; char space[64]; } control = {.first = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(4)}}; struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(4)}; result(CALL(sendmsg, one, &header, 0)); header.msg_controllen = sizeof control; result(CALL(recvmsg, one, &header, MSG_DONTWAIT)); say(" | %d", (int)header.msg_controllen); })
    }
    T(sendto, "version 4 to a socket of version 6", { one = datagrams("::"); two = socket(AF_INET, SOCK_DGRAM, 0); result(send_at(two, "hello", "127.0.0.1", port_of(one))); show_got(one); })
    T(sendto, "version 6 to a socket of version 4", { one = datagrams("127.0.0.1"); two = socket(AF_INET6, SOCK_DGRAM, 0); result(send_at(two, "hello", "::ffff:127.0.0.1", port_of(one))); show_got(one); result(send_at(two, "hello", "127.0.0.1", port_of(one))); show_got(one); })
    T(sendto, "of version 6 to version 4", { one = datagrams("127.0.0.1"); two = datagrams("::1"); show_option(two, IPPROTO_IPV6, IPV6_V6ONLY); result(send_at(two, "hello", "::ffff:127.0.0.1", port_of(one))); show_got(one); result(connect_at(two, "::ffff:127.0.0.1", port_of(one))); show_peer(two); result(put(two, "hello")); show_got(one); result(connect_at(two, "127.0.0.1", port_of(one))); })
    T(sendto, "of version 4 to version 6", { one = datagrams("::1"); two = datagrams("::ffff:127.0.0.1"); result(send_at(two, "hello", "::1", port_of(one))); result(connect_at(two, "::1", port_of(one))); result(send_at(two, "hello", "::1", free_port())); })
    T(connect, "an address of version 4, of version 6", { one = datagrams("127.0.0.1"); two = socket(AF_INET6, SOCK_DGRAM, 0); result(connect_at(two, "127.0.0.1", port_of(one))); show_name(two); show_peer(two); result(put(two, "hello")); show_got(one); two = socket(AF_INET6, SOCK_DGRAM, 0); setsockopt(two, IPPROTO_IPV6, IPV6_V6ONLY, &yes, 4); result(connect_at(two, "127.0.0.1", port_of(one))); union endpoint at = endpoint("127.0.0.1", 9); result(connect(two, &at.any, 15)); two = socket(AF_INET6, SOCK_DGRAM, 0); result(connect(two, &at.any, 15)); two = socket(AF_INET6, SOCK_STREAM, 0); result(connect(two, &at.any, 16)); result(connect(two, &at.any, 28)); })
    T(sendto, "broadcast goes to all", { one = socket(AF_INET, SOCK_DGRAM, 0); setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &yes, 4); bind_at(one, "0.0.0.0", 0); two = socket(AF_INET, SOCK_DGRAM, 0); setsockopt(two, SOL_SOCKET, SO_REUSEADDR, &yes, 4); result(bind_at(two, "0.0.0.0", port_of(one))); int three = socket(AF_INET, SOCK_DGRAM, 0); setsockopt(three, SOL_SOCKET, SO_REUSEADDR, &yes, 4); result(bind_at(three, "127.0.0.1", port_of(one))); setsockopt(one, SOL_SOCKET, SO_BROADCAST, &yes, 4); result(send_at(one, "hello", "127.255.255.255", port_of(one))); usleep(10000); show_got(one); show_got(two); show_got(three); })
    T(bind, "any port, while it has one", { one = datagrams("127.0.0.1"); result(bind_at(one, "127.0.0.1", 0)); two = socket(AF_INET, SOCK_DGRAM, 0); send_at(two, "x", "127.0.0.1", port_of(one)); result(bind_at(two, "127.0.0.1", 0)); })
    T(sendto, "broadcast", { one = socket(AF_INET, SOCK_DGRAM, 0); result(send_at(one, "x", "127.255.255.255", 9)); setsockopt(one, SOL_SOCKET, SO_BROADCAST, &yes, 4); result(send_at(one, "x", "127.255.255.255", 9)); one = socket(AF_INET, SOCK_STREAM, 0); result(connect_at(one, "127.255.255.255", 9)); })
}

static void options(void) {
    static const struct { const char *name; int level, option, values[3]; } all[] = {
        {"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, {1, 2, 0}}, {"TCP_CORK", IPPROTO_TCP, TCP_CORK, {1, 0, 0}}, {"TCP_MAXSEG", IPPROTO_TCP, TCP_MAXSEG, {1000, 87, 32768}},
        {"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, {60, 0, 32768}}, {"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, {60, 0, 32768}}, {"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, {3, 0, 128}},
        {"TCP_QUICKACK", IPPROTO_TCP, TCP_QUICKACK, {0, 1, 2}}, {"TCP_FASTOPEN", IPPROTO_TCP, TCP_FASTOPEN, {5, 0, -1}}, {"TCP_FASTOPEN_CONNECT", IPPROTO_TCP, TCP_FASTOPEN_CONNECT, {1, 0, 2}}, {"TCP_DEFER_ACCEPT", IPPROTO_TCP, TCP_DEFER_ACCEPT, {1, 0, -1}},
        {"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, {0, 5, -1}}, {"IP_PKTINFO", IPPROTO_IP, IP_PKTINFO, {1, 2, 0}}, {"IPV6_RECVPKTINFO", IPPROTO_IPV6, 49, {1, 2, 0}}, {"TCP_SYNCNT", IPPROTO_TCP, TCP_SYNCNT, {3, 0, 128}}, {"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, {1000, 0, -1}}, {"IP_TOS", IPPROTO_IP, IP_TOS, {16, 255, 256}}, {"IP_TTL", IPPROTO_IP, IP_TTL, {1, -1, 0}},
        {"IP_MTU_DISCOVER", IPPROTO_IP, IP_MTU_DISCOVER, {0, 2, 6}}, {"IP_RECVERR", IPPROTO_IP, IP_RECVERR, {1, 0, 0}}, {"IPV6_UNICAST_HOPS", IPPROTO_IPV6, IPV6_UNICAST_HOPS, {1, -1, 256}}, {"IPV6_TCLASS", IPPROTO_IPV6, IPV6_TCLASS, {16, -1, 256}},
        {"IPV6_V6ONLY", IPPROTO_IPV6, IPV6_V6ONLY, {1, 0, 0}}, {"SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, {1, 2, 0}}, {"SO_REUSEPORT", SOL_SOCKET, SO_REUSEPORT, {1, 2, 0}}, {"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, {1, 2, 0}},
        {"SO_BROADCAST", SOL_SOCKET, SO_BROADCAST, {1, 2, 0}}, {"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, {1, 2, 0}}, {"SO_PASSCRED", SOL_SOCKET, SO_PASSCRED, {1, 0, 0}}, {"an unknown one", IPPROTO_TCP, 1000, {1, 0, 0}}, {"an unknown level", 1000, 1, {1, 0, 0}},
    };
    static char label[100];
    for (unsigned j = 0; j < sizeof all / sizeof *all; j++)
        for (int i = 0; i < 2; i++) {
            snprintf(label, sizeof label, "setsockopt: %s, %s", all[j].name, i ? "AF_INET6, SOCK_DGRAM" : "AF_INET, SOCK_STREAM");
            if (begin(label, NR_setsockopt)) {
                one = socket(versions[i], i ? SOCK_DGRAM : SOCK_STREAM, 0);
                show_option(one, all[j].level, all[j].option);
                for (int k = 0; k < 3; k++)
                    show_set(one, all[j].level, all[j].option, all[j].values[k]);
                end();
            }
        }
    for (int i = 0; i < 2; i++) {
        V(getsockopt, "SO_LINGER", { one = socket(versions[i], SOCK_STREAM, 0); struct linger how = {7, 7}; socklen_t len = sizeof how; result(getsockopt(one, SOL_SOCKET, SO_LINGER, &how, &len)); say(" | %d %d, %d bytes", how.l_onoff, how.l_linger, (int)len); how = (struct linger){2, 5}; result(setsockopt(one, SOL_SOCKET, SO_LINGER, &how, len)); result(getsockopt(one, SOL_SOCKET, SO_LINGER, &how, &len)); say(" | %d %d", how.l_onoff, how.l_linger); result(setsockopt(one, SOL_SOCKET, SO_LINGER, &how, 4)); })
        V(getsockopt, "the state in TCP_INFO", { connect_both(i); struct tcp_info info; socklen_t len = sizeof info; result(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &len)); say(" | %d", info.tcpi_state); getsockopt(one, IPPROTO_TCP, TCP_INFO, &info, &len); say(" | %d", info.tcpi_state); shutdown(one, SHUT_WR); usleep(10000); getsockopt(one, IPPROTO_TCP, TCP_INFO, &info, &len); say(" | %d", info.tcpi_state); getsockopt(two, IPPROTO_TCP, TCP_INFO, &info, &len); say(" | %d", info.tcpi_state); one = socket(versions[i], SOCK_STREAM, 0); getsockopt(one, IPPROTO_TCP, TCP_INFO, &info, &len); say(" | %d", info.tcpi_state); })
        V(getsockopt, "SO_PEERCRED", { connect_both(i); struct ucred whom; socklen_t len = sizeof whom; for (int j = 0; j < 2; j++) { result(getsockopt(j ? one : two, SOL_SOCKET, SO_PEERCRED, &whom, &len)); say(" | %d %d %d", whom.pid, (int)whom.uid, (int)whom.gid); } })
        V(setsockopt, "values that are too short", { one = socket(versions[i], SOCK_STREAM, 0); result(setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &yes, 3)); result(setsockopt(one, IPPROTO_IP, IP_TOS, &yes, 1)); result(setsockopt(one, IPPROTO_IP, IP_TTL, &yes, 0)); result(setsockopt(one, SOL_SOCKET, SO_REUSEPORT, &yes, 3)); })
        V(setsockopt, "TCP_CONGESTION", { one = socket(versions[i], SOCK_STREAM, 0); static const char *const ways[] = {"reno", "none", ""}; for (int j = 0; j < 3; j++) { result(setsockopt(one, IPPROTO_TCP, TCP_CONGESTION, ways[j], strlen(ways[j]))); char name[16] = ""; socklen_t len = sizeof name; result(getsockopt(one, IPPROTO_TCP, TCP_CONGESTION, name, &len)); say(" | %s, %d bytes", name, (int)len); } result(setsockopt(one, IPPROTO_TCP, TCP_CONGESTION, "reno and more, so that it is long", 33)); result(setsockopt(one, IPPROTO_TCP, TCP_CONGESTION, BAD, 4)); })
    }
}

void inet(void) {
    kinds();
    binding();
    connecting();
    streams();
    messages();
    options();
}
