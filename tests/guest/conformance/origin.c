/* What is told of datagrams by control messages: where they were sent to, how, and when; and what senders say of that. */
#include "conform.h"
#include <arpa/inet.h>
#include <netinet/in.h>

#ifndef SCM_TIMESTAMPNS
#define SCM_TIMESTAMPNS 35
#endif
static const int versions[] = {AF_INET, AF_INET6};
static int yes = 1;
static char label[200];
#define V(name, what, ...) for (int i = 0; i < 2; i++) { snprintf(label, sizeof label, #name ": " what ", %s", i ? "AF_INET6" : "AF_INET"); if (begin(label, NR_##name)) { __VA_ARGS__; end(); } }

struct v4 { int index; unsigned char own[4], to[4]; };
struct v6 { unsigned char to[16]; unsigned index; };
union at { struct sockaddr any; struct sockaddr_in v4; struct sockaddr_in6 v6; };

static union at address(int version, const char *text, int port) {
    union at at = {.v6 = {.sin6_family = version}};
    at.v4.sin_port = port;
    inet_pton(version, text, version == AF_INET ? (void *)&at.v4.sin_addr : &at.v6.sin6_addr);
    return at;
}
static int len_of(int version) { return version == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6); }

/* A socket at a port of any address, or of one. */
static int bound(int version, const char *text) {
    union at at = address(version, text, 0);
    int fd = socket(version, SOCK_DGRAM, 0);
    if (bind(fd, &at.any, len_of(version))) result(-1);
    return fd;
}
static int port_of(int fd) {
    union at at; socklen_t len = sizeof at;
    getsockname(fd, &at.any, &len);
    return at.v4.sin_port;
}
static void set(int fd, int level, int option, int value) { if (setsockopt(fd, level, option, &value, sizeof value)) result(-1); }

/* The next packet, with its control messages; times are not the same twice. */
static void received(int fd, int flags, int room) {
    char control[256];
    struct iovec at = {buffer, 64};
    struct msghdr all = {.msg_iov = &at, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
    long len = recvmsg(fd, &all, flags | MSG_DONTWAIT);
    result(len);
    if (len < 0) return;
    say(" | flags %x, %d of control", all.msg_flags, (int)all.msg_controllen);
    for (struct cmsghdr *told = CMSG_FIRSTHDR(&all); told; told = CMSG_NXTHDR(&all, told)) {
        long seconds, now = time(0);
        say(" | %d %d %d:", told->cmsg_level, told->cmsg_type, (int)told->cmsg_len);
        if (told->cmsg_level == SOL_SOCKET) { memcpy(&seconds, CMSG_DATA(told), 8); say(" %s", now - seconds >= 0 && now - seconds < 60 ? "now" : "another time"); }
        else show_bytes(CMSG_DATA(told), told->cmsg_len - CMSG_LEN(0));
    }
}
/* Sends with a control message. */
static void send_with(int fd, union at to, int level, int kind, const void *data, int len) {
    char control[64] = {0};
    struct iovec at = {"hello", 5};
    struct msghdr all = {.msg_name = &to, .msg_namelen = len_of(to.any.sa_family), .msg_iov = &at, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(len)};
    struct cmsghdr *said = CMSG_FIRSTHDR(&all);
    said->cmsg_level = level, said->cmsg_type = kind, said->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(said), data, len);
    result(sendmsg(fd, &all, 0));
}
static void send_from(int fd, union at to) { result(sendto(fd, "hello", 5, 0, &to.any, len_of(to.any.sa_family))); }

static void telling(void) {
    static const struct { const char *what; int v4, v6; } all[] = {{"PKTINFO", 8, 49}, {"RECVTTL", 12, 51}, {"RECVTOS", 13, 66}};
    static const char *const own[] = {"127.0.0.1", "::1"}, *const any[] = {"0.0.0.0", "::"};
    static const int levels[] = {IPPROTO_IP, IPPROTO_IPV6};
    for (unsigned j = 0; j < sizeof all / sizeof *all; j++)
        for (int i = 0; i < 2; i++) {
            snprintf(label, sizeof label, "recvmsg: %s, %s", all[j].what, i ? "AF_INET6" : "AF_INET");
            if (begin(label, NR_recvmsg)) {
                int fd = bound(versions[i], any[i]), from = socket(versions[i], SOCK_DGRAM, 0);
                union at to = address(versions[i], own[i], port_of(fd));
                send_from(from, to); received(fd, 0, 256);
                set(fd, levels[i], i ? all[j].v6 : all[j].v4, 1);
                send_from(from, to); received(fd, MSG_PEEK, 256); received(fd, 0, 20);
                set(from, levels[i], i ? 16 : 2, 7); set(from, levels[i], i ? 67 : 1, 0x28);
                send_from(from, to); received(fd, 0, 256);
                set(fd, levels[i], i ? all[j].v6 : all[j].v4, 0);
                send_from(from, to); received(fd, 0, 256);
                end();
            }
        }
    T(recvmsg, "PKTINFO of 127.1.2.3, and to all", { int fd = bound(AF_INET, "0.0.0.0"), from = socket(AF_INET, SOCK_DGRAM, 0); set(fd, IPPROTO_IP, 8, 1); set(from, SOL_SOCKET, SO_BROADCAST, 1); send_from(from, address(AF_INET, "127.1.2.3", port_of(fd))); received(fd, 0, 256); send_from(from, address(AF_INET, "127.255.255.255", port_of(fd))); received(fd, 0, 256); })
    T(recvmsg, "all of AF_INET by AF_INET6", { int fd = bound(AF_INET6, "::"), from = socket(AF_INET, SOCK_DGRAM, 0); set(fd, IPPROTO_IP, 8, 1); set(fd, IPPROTO_IP, 12, 1); set(fd, IPPROTO_IPV6, 49, 1); set(fd, IPPROTO_IPV6, 51, 1); send_from(from, address(AF_INET, "127.0.0.1", port_of(fd))); received(fd, 0, 256); })
    V(recvmsg, "SO_TIMESTAMP", { int fd = bound(versions[i], any[i]); set(fd, SOL_SOCKET, SO_TIMESTAMP, 1); set(fd, levels[i], i ? 49 : 8, 1); send_from(fd, address(versions[i], own[i], port_of(fd))); received(fd, 0, 256); })
    V(recvmsg, "SO_TIMESTAMPNS", { int fd = bound(versions[i], any[i]); set(fd, SOL_SOCKET, SO_TIMESTAMPNS, 1); send_from(fd, address(versions[i], own[i], port_of(fd))); received(fd, 0, 256); })
    T(setsockopt, "SO_TIMESTAMP and SO_TIMESTAMPNS", { int fd = bound(AF_INET, "127.0.0.1"), both[] = {SO_TIMESTAMP, SO_TIMESTAMPNS}, one; for (int i = 0; i < 4; i++) { set(fd, SOL_SOCKET, both[i % 2], i < 3); for (int j = 0; j < 2; j++) { socklen_t len = 4; result(getsockopt(fd, SOL_SOCKET, both[j], &one, &len)); say(" | %d", one); } } })
}

static void saying(void) {
    T(sendmsg, "IP_PKTINFO", { int fd = bound(AF_INET, "0.0.0.0"), from = socket(AF_INET, SOCK_DGRAM, 0); union at to = address(AF_INET, "127.0.0.1", port_of(fd)), at; socklen_t len = sizeof at;
        struct v4 said[] = {{0, {127, 3, 2, 1}}, {1, {127, 3, 2, 1}}, {1}, {99, {127, 0, 0, 1}}, {0, {192, 0, 2, 9}}};
        for (int i = 0; i < 5; i++) { memset(&at, 0, sizeof at); send_with(from, to, IPPROTO_IP, 8, said + i, 12); len = sizeof at; result(recvfrom(fd, buffer, 64, MSG_DONTWAIT, &at.any, &len)); show_bytes(&at.v4.sin_addr, 4); }
        send_with(from, to, IPPROTO_IP, 8, said, 11); send_with(from, to, IPPROTO_IP, 99, said, 4); send_with(from, to, IPPROTO_IPV6, 50, said, 12); })
    T(sendmsg, "IPV6_PKTINFO", { int fd = bound(AF_INET6, "::"), from = socket(AF_INET6, SOCK_DGRAM, 0); union at to = address(AF_INET6, "::1", port_of(fd));
        struct v6 said[] = {{{[15] = 1}, 1}, {{0}, 1}, {{0}, 0}, {{[15] = 1}, 99}, {{0x20, 1, [15] = 1}, 0}};
        for (int i = 0; i < 5; i++) { send_with(from, to, IPPROTO_IPV6, 50, said + i, 20); received(fd, 0, 256); }
        send_with(from, to, IPPROTO_IPV6, 50, said, 19); send_with(from, to, IPPROTO_IPV6, 999, said, 4); })
    T(sendmsg, "IP_TTL and IP_TOS", { int fd = bound(AF_INET, "0.0.0.0"); union at to = address(AF_INET, "127.0.0.1", port_of(fd)); int numbers[] = {9, 0, 256, 255}; set(fd, IPPROTO_IP, 12, 1); set(fd, IPPROTO_IP, 13, 1);
        for (int i = 0; i < 4; i++) { send_with(fd, to, IPPROTO_IP, 2, numbers + i, 4); received(fd, 0, 256); send_with(fd, to, IPPROTO_IP, 1, numbers + i, 4); received(fd, 0, 256); }
        send_with(fd, to, IPPROTO_IP, 1, numbers, 1); received(fd, 0, 256); send_with(fd, to, IPPROTO_IP, 2, numbers, 1); })
    T(sendmsg, "IPV6_HOPLIMIT and IPV6_TCLASS", { int fd = bound(AF_INET6, "::"); union at to = address(AF_INET6, "::1", port_of(fd)); int numbers[] = {9, 0, 256, -1, -2}; set(fd, IPPROTO_IPV6, 51, 1); set(fd, IPPROTO_IPV6, 66, 1);
        for (int i = 0; i < 5; i++) { send_with(fd, to, IPPROTO_IPV6, 52, numbers + i, 4); received(fd, 0, 256); send_with(fd, to, IPPROTO_IPV6, 67, numbers + i, 4); received(fd, 0, 256); }
        send_with(fd, to, IPPROTO_IPV6, 52, numbers, 1); })
    T(sendmsg, "IP_PKTINFO on AF_UNIX", { struct v4 said = {1, {127, 0, 0, 1}}; char control[64] = {0}; struct iovec at = {"hello", 5}; struct msghdr all = {.msg_iov = &at, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(12)}; struct cmsghdr *one = CMSG_FIRSTHDR(&all); one->cmsg_level = IPPROTO_IP; one->cmsg_type = 8; one->cmsg_len = CMSG_LEN(12); memcpy(CMSG_DATA(one), &said, 12); result(sendmsg(SOCK, &all, 0)); })
}

void origin(void) {
    telling();
    saying();
}
