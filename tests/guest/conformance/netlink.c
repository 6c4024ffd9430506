/* Messages to the kernel about interfaces, addresses and routes: what is asked, and what is answered. The superuser's cases have the loopback device only; others
 * are in the same network. */
#include "conform.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

/* As in <linux/netlink.h> and <linux/rtnetlink.h>, which not all have that compile this. */
enum { ERROR = 2, DONE = 3, NEWLINK = 16, GETLINK = 18, NEWADDR = 20, GETADDR = 22, NEWROUTE = 24, GETROUTE = 26, GETNEIGH = 30 };
enum { REQUEST = 1, MULTI = 2, ACK = 4, DUMP = 0x301 };
enum { ROUTE = 0, SOL = 270, ADD_MEMBERSHIP = 1, DROP_MEMBERSHIP, PKTINFO, BROADCAST_ERROR, NO_ENOBUFS, LISTEN_ALL_NSID = 8, LIST_MEMBERSHIPS, CAP_ACK, EXT_ACK, STRICT };
struct place { unsigned short family, pad; unsigned port, groups; };
struct header { unsigned len; unsigned short type, flags; unsigned sequence, port; };
struct link { unsigned char family, pad; unsigned short type; int index; unsigned flags, change; };
struct address { unsigned char family, bits, flags, scope; unsigned index; };
struct route { unsigned char family, to, from, tos, table, protocol, scope, type; unsigned flags; };

static char asked[4096];
static unsigned asked_len, begun;
static union { char bytes[1 << 16]; struct header header; } got;

static void put(const void *bytes, int len) { memcpy(asked + asked_len, bytes, len); asked_len += (len + 3) & ~3; ((struct header *)(asked + begun))->len = asked_len - begun; }
static void message(int type, int flags, const void *bytes, int len) {
    struct header header = {0, type, flags, 7, 0};
    begun = asked_len;
    put(&header, sizeof header);
    put(bytes, len);
}
static void attribute(int type, const void *value, int len) {
    unsigned short both[2] = {len + 4, type};
    put(both, 4);
    put(value, len);
    ((struct header *)(asked + begun))->len -= (4 - len % 4) % 4;
}
static void word(int type, unsigned value) { attribute(type, &value, 4); }
#define ASK(type, flags, ...) message(type, flags, &__VA_ARGS__, sizeof(__VA_ARGS__))

static int nl(int options) {
    int fd = socket(AF_NETLINK, SOCK_RAW, ROUTE), on = 1;
    if (options) setsockopt(fd, SOL, options, &on, sizeof on);
    return fd;
}

/* Attributes that are told, in the order of their kinds; some are not the same twice. */
static void show_attributes(const char *at, int len, const char *kinds) {
    for (const char *kind = kinds; *kind;) {
        int wanted = strtol(kind, (char **)&kind, 10), all = *kind++ != '?';
        for (int i = 0; i + 4 <= len;) {
            unsigned short both[2];
            memcpy(both, at + i, 4);
            if ((both[1] & 0x3fff) == wanted) {
                say(" %d:", wanted);
                for (int j = 4; all && j < both[0]; j++) say("%02x", (unsigned char)at[i + j]);
                if (!all) say("%d bytes", both[0] - 4);
            }
            i += both[0] < 4 ? len : (both[0] + 3) & ~3;
        }
    }
}

/* All answers that have come; the packets that they come in are the kernel's own matter. */
static void answers(int fd) {
    for (;;) {
        int len = recv(fd, got.bytes, sizeof got, MSG_DONTWAIT);
        if (len < 0) {
            if (errno != EAGAIN) say(" | %s", errno_name(errno));
            return;
        }
        for (char *at = got.bytes; at + sizeof(struct header) <= got.bytes + len;) {
            struct header *header = (void *)at;
            char *body = at + sizeof *header;
            int rest = header->len - sizeof *header;
            struct place own; socklen_t own_len = sizeof own;
            getsockname(fd, (void *)&own, &own_len);
            if (header->sequence != 7 || header->port != own.port) say(" | another's");
            switch (header->type) {
            case ERROR: say(" | error %s", *(int *)body ? errno_name(-*(int *)body) : "none"); say(" flags %x, %d bytes, of %d with %d", header->flags, rest, ((struct header *)(body + 4))->type, ((struct header *)(body + 4))->len); break;
            case DONE: say(" | done %s", *(int *)body ? errno_name(-*(int *)body) : ""); say(" flags %x", header->flags & ~0x20); break;
            case NEWLINK: say(" | link flags %x", header->flags & ~0x20); show_bytes(body, 16); show_attributes(body + 16, rest - 16, ((struct link *)body)->family ? "1 3 4 16 " : "1 2 3 4 6 7?10 13 14 16 17 23?27 30 31 32 33 39 50 51 61 "); break;
            case NEWADDR: say(" | address flags %x", header->flags & ~0x20); show_bytes(body, 8); show_attributes(body + 8, rest - 8, "1 2 3 6?8 11 "); break;
            case NEWROUTE: say(" | route flags %x", header->flags & ~0x20); show_bytes(body, 12); show_attributes(body + 12, rest - 12, "1 2 4 5 6 7 12?15 20 25 "); break;
            default: say(" | another: %d", header->type);
            }
            at += (header->len + 3) & ~3;
        }
    }
}

/* What comes of what was written. */
static void ask_by(int fd) {
    struct place kernel = {AF_NETLINK};
    long sent = sendto(fd, asked, asked_len, 0, (void *)&kernel, sizeof kernel);
    result(sent == (long)asked_len ? 0 : sent);
    answers(fd);
}
#define Q(what, options, ...) T(sendto, "AF_NETLINK, " what, { __VA_ARGS__; ask_by(nl(options)); })
#define QR(what, options, ...) R(sendto, "AF_NETLINK, " what, { __VA_ARGS__; ask_by(nl(options)); })
static const unsigned char v4[4] = {127, 0, 0, 1}, another_v4[4] = {127, 1, 2, 3}, broadcast[4] = {127, 255, 255, 255}, far[4] = {192, 0, 2, 9}, v6[16] = {[15] = 1}, far_v6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1};

static void links(void) {
    Q("all links, by a family alone", 0, ASK(GETLINK, DUMP, (char){0}))
    Q("all links", 0, ASK(GETLINK, DUMP, (struct link){0}))
    Q("all links, of AF_INET", 0, ASK(GETLINK, DUMP, (struct link){AF_INET}))
    Q("all links, of AF_INET6", 0, ASK(GETLINK, DUMP, (struct link){AF_INET6}))
    Q("all links, of AF_BRIDGE", 0, ASK(GETLINK, DUMP, (struct link){7}))
    Q("all links without counts", 0, ASK(GETLINK, DUMP, (struct link){0}); word(29, 8))
    Q("all links of a master", 0, ASK(GETLINK, DUMP, (struct link){0}); word(10, 5))
    Q("all links by an unknown attribute", 0, ASK(GETLINK, DUMP, (struct link){0}); word(1000, 5))
    Q("all links, strictly", STRICT, ASK(GETLINK, DUMP, (struct link){0}); word(29, 1))
    Q("all links, by a family alone, strictly", STRICT, ASK(GETLINK, DUMP, (char){0}))
    Q("all links by an unknown attribute, strictly", STRICT, ASK(GETLINK, DUMP, (struct link){0}); word(1000, 5))
    Q("all links by a number, strictly", STRICT, ASK(GETLINK, DUMP, (struct link){.index = 1}))
    Q("a dump by one of its flags", 0, ASK(GETLINK, 0x101, (struct link){0}))
    Q("a dump and ACK", 0, ASK(GETLINK, DUMP | ACK, (struct link){7}))
    Q("a link by its number", 0, ASK(GETLINK, REQUEST, (struct link){.index = 1}))
    Q("a link by its number and ACK", 0, ASK(GETLINK, REQUEST | ACK, (struct link){.index = 1}))
    Q("a link by its name", 0, ASK(GETLINK, REQUEST, (struct link){0}); attribute(3, "lo", 3))
    Q("a link by another name", STRICT, ASK(GETLINK, REQUEST, (struct link){0}); attribute(53, "lo", 3))
    Q("a link that is not there", 0, ASK(GETLINK, REQUEST, (struct link){.index = 99}))
    Q("a link by a name that is not there", 0, ASK(GETLINK, REQUEST, (struct link){0}); attribute(3, "none", 5))
    Q("a link by nothing", 0, ASK(GETLINK, REQUEST, (struct link){0}))
    Q("a link by less than nothing", 0, ASK(GETLINK, REQUEST, (struct link){.index = -1}))
    Q("a link by a family alone", 0, ASK(GETLINK, REQUEST, (char){0}))
    Q("a link by an unknown attribute, strictly", STRICT, ASK(GETLINK, REQUEST, (struct link){.index = 1}); word(1000, 5))
    Q("a link by its type, strictly", STRICT, ASK(GETLINK, REQUEST, (struct link){.index = 1, .type = 772}))
}

static void addresses(void) {
    Q("all addresses, by a family alone", 0, ASK(GETADDR, DUMP, (char){0}))
    Q("all addresses", 0, ASK(GETADDR, DUMP, (struct address){0}))
    Q("all addresses of AF_INET", 0, ASK(GETADDR, DUMP, (struct address){AF_INET}))
    Q("all addresses of AF_INET6", 0, ASK(GETADDR, DUMP, (struct address){AF_INET6}))
    Q("all addresses of AF_UNIX", 0, ASK(GETADDR, DUMP, (struct address){AF_UNIX}))
    Q("all addresses of another link", 0, ASK(GETADDR, DUMP, (struct address){.index = 99}))
    Q("all addresses of a link, strictly", STRICT, ASK(GETADDR, DUMP, (struct address){AF_INET, .index = 1}))
    Q("all addresses of another link, strictly", STRICT, ASK(GETADDR, DUMP, (struct address){AF_INET, .index = 99}))
    Q("all addresses by a length, strictly", STRICT, ASK(GETADDR, DUMP, (struct address){AF_INET, .bits = 8}))
    Q("all addresses by an attribute, strictly", STRICT, ASK(GETADDR, DUMP, (struct address){AF_INET}); attribute(1, v4, 4))
    Q("an address of AF_INET", 0, ASK(GETADDR, REQUEST, (struct address){AF_INET, .index = 1}); attribute(1, v4, 4))
    Q("an address of AF_INET6", 0, ASK(GETADDR, REQUEST, (struct address){AF_INET6}); attribute(1, v6, 16))
    Q("an address that is not there", 0, ASK(GETADDR, REQUEST, (struct address){AF_INET6}); attribute(1, far_v6, 16))
    Q("an address by nothing", 0, ASK(GETADDR, REQUEST, (struct address){AF_INET6}))
}

static void routes(void) {
    Q("all routes of AF_INET", 0, ASK(GETROUTE, DUMP, (struct route){AF_INET}))
    Q("all routes of AF_INET6", 0, ASK(GETROUTE, DUMP, (struct route){AF_INET6}))
    Q("all routes by a family alone", 0, ASK(GETROUTE, DUMP, (char){AF_INET}))
    Q("all routes of all families", 0, ASK(GETROUTE, DUMP, (struct route){0}))
    Q("all routes of a table", 0, ASK(GETROUTE, DUMP, (struct route){AF_INET}); word(15, 100))
    Q("all routes of the local table, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET}); word(15, 255))
    Q("all routes of the main table, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET}); word(15, 254))
    Q("all routes of the main table, of AF_INET6, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET6}); word(15, 254))
    Q("all routes of another table, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET}); word(15, 100))
    Q("all routes of another table, of all families, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){0}); word(15, 100))
    Q("all routes by a link, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET}); word(4, 1))
    Q("all routes by another link, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET}); word(4, 99))
    Q("all routes by a kind, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET, .type = 3}))
    Q("all routes by another protocol, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET, .protocol = 4}))
    Q("all routes that were found, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET, .flags = 0x200}))
    Q("all routes by a length, strictly", STRICT, ASK(GETROUTE, DUMP, (struct route){AF_INET, .to = 8}))
    Q("all routes by a family alone, strictly", STRICT, ASK(GETROUTE, DUMP, (char){AF_INET}))
    Q("a route to 127.0.0.1", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET, 32}); attribute(1, v4, 4))
    Q("a route to 127.0.0.1, with its table", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET, 32, .flags = 0x1000}); attribute(1, v4, 4))
    Q("a route to 127.1.2.3", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET, 32}); attribute(1, another_v4, 4))
    Q("a route to 127.255.255.255", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET, 32}); attribute(1, broadcast, 4))
    Q("a route to nowhere", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET}))
    Q("a route to another network", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET, 32}); attribute(1, far, 4))
    Q("a route by another link", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET, 32}); attribute(1, v4, 4); word(4, 99))
    Q("a route to a part of an address", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET, 32}); attribute(1, v4, 2))
    Q("a route to ::1", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET6, 128}); attribute(1, v6, 16))
    Q("a route to another network of AF_INET6", 0, ASK(GETROUTE, REQUEST, (struct route){AF_INET6, 128}); attribute(1, far_v6, 16))
    Q("a route by a family alone", 0, ASK(GETROUTE, REQUEST, (char){AF_INET}))
    Q("a route of no family", 0, ASK(GETROUTE, REQUEST, (struct route){0}); attribute(1, v4, 4))
    Q("all neighbours of others of AF_INET", 0, ASK(GETNEIGH, DUMP, (char[12]){AF_INET, [10] = 8}))
    Q("all neighbours by a family alone, strictly", STRICT, ASK(GETNEIGH, DUMP, (char){AF_INET}))
}

static void others(void) {
    static const int kinds[] = {16, 17, 19, 20, 21, 24, 25, 28, 29, 32, 33, 36, 123, 124, 1000};
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char label[64];
        snprintf(label, sizeof label, "sendto: AF_NETLINK, a change of kind %d", kinds[i]);
        if (begin(label, NR_sendto)) { ASK(kinds[i], REQUEST, (char[16]){0}); ask_by(nl(0)); end(); }
    }
    Q("a change, with its error capped", CAP_ACK, ASK(NEWLINK, REQUEST, (struct link){.index = 1, .flags = 1, .change = 1}))
    QR("the flags that a link has", 0, ASK(NEWLINK, REQUEST | ACK, (struct link){.index = 1, .flags = IFF_UP, .change = IFF_UP}))
    Q("no request", 0, ASK(GETLINK, ACK, (struct link){.index = 1}))
    Q("neither a request nor ACK", 0, ASK(GETLINK, 0, (struct link){.index = 1}))
    Q("a message of no protocol", 0, ASK(1, REQUEST | ACK, (char[4]){0}))
    Q("a message of nothing", 0, message(GETLINK, REQUEST, "", 0))
    Q("a message of nothing and ACK", 0, message(GETLINK, REQUEST | ACK, "", 0))
    Q("several messages", 0, ASK(GETLINK, REQUEST, (struct link){.index = 99}); ASK(NEWADDR, REQUEST, (struct address){AF_INET}); ASK(GETADDR, DUMP, (struct address){AF_INET}))
    Q("a message that is longer than it is", 0, ASK(GETADDR, DUMP, (struct address){AF_INET}); ((struct header *)asked)->len++)
    Q("a message that is shorter than its header", 0, ASK(GETADDR, DUMP, (struct address){AF_INET}); ((struct header *)asked)->len = 15)
    Q("less than a header", 0, ASK(GETADDR, DUMP, (struct address){AF_INET}); asked_len = 15)
    Q("an attribute that is longer than it is", 0, ASK(GETLINK, REQUEST, (struct link){.index = 1}); word(29, 8); asked[32]++)
    Q("an attribute that is shorter than its header", 0, ASK(GETLINK, REQUEST, (struct link){.index = 1}); word(29, 8); asked[32] = 3)
}

/* A port that no other process has, on whatever instruction set it runs. */
#define PORT (0x40000000 + 2 * getpid())

static void show_place(int fd, int (*get)(int, struct sockaddr *, socklen_t *)) {
    struct place at = {0}; socklen_t len = sizeof at;
    result(get(fd, (void *)&at, &len));
    say(" | %d bytes, family %d, port %s, groups %x", len, at.family, at.port == 0 ? "0" : at.port == (unsigned)getpid() ? "own" : (int)at.port < -4096 ? "chosen" : "another", at.groups);
}
static long bind_to(int fd, int family, unsigned port, unsigned groups, int len) {
    struct place at = {family, 0, port, groups};
    return CALL(bind, fd, &at, len);
}
static long connect_to(int fd, int family, unsigned port, unsigned groups, int len) {
    struct place at = {family, 0, port, groups};
    return CALL(connect, fd, &at, len);
}
static long send_to(int fd, int family, unsigned port, unsigned groups, int len) {
    struct place at = {family, 0, port, groups};
    asked_len = 0;
    ASK(GETADDR, DUMP, (struct address){AF_INET});
    return CALL(sendto, fd, asked, asked_len, 0, &at, len);
}

static void places(void) {
    C(socket, AF_NETLINK, SOCK_RAW, 0)
    C(socket, AF_NETLINK, SOCK_DGRAM, 0)
    C(socket, AF_NETLINK, SOCK_STREAM, 0)
    C(socket, AF_NETLINK, SOCK_SEQPACKET, 0)
    C(socket, AF_NETLINK, SOCK_RAW, 31)
    C(socket, AF_NETLINK, SOCK_RAW, 32)
    C(socket, AF_NETLINK, SOCK_RAW, -1)
    C(socket, AF_NETLINK, 99, 0)
    C(socketpair, AF_NETLINK, SOCK_RAW, 0, buffer)
    T(getsockname, "AF_NETLINK", { int fd = nl(0); show_place(fd, getsockname); show_place(fd, getpeername); result(bind_to(fd, AF_NETLINK, 0, 0, 12)); show_place(fd, getsockname); result(bind_to(fd, AF_NETLINK, 0, 0, 12)); result(bind_to(fd, AF_NETLINK, getpid(), 5, 12)); show_place(fd, getsockname); })
    T(getsockname, "AF_NETLINK, the second of a process", { int one = nl(0); int two = nl(0); result(bind_to(one, AF_NETLINK, 0, 0, 12)); result(bind_to(two, AF_NETLINK, 0, 0, 12)); show_place(two, getsockname); close(one); int three = nl(0); result(bind_to(three, AF_NETLINK, 0, 0, 12)); show_place(three, getsockname); })
    T(getsockname, "AF_NETLINK, after sending", { int fd = nl(0); result(send_to(fd, AF_NETLINK, 0, 0, 12)); show_place(fd, getsockname); })
    T(bind, "AF_NETLINK, ports", { int one = nl(0), two = nl(0); result(bind_to(one, AF_NETLINK, PORT, 0, 12)); result(bind_to(two, AF_NETLINK, PORT, 0, 12)); result(bind_to(one, AF_NETLINK, PORT + 1, 0, 12)); result(bind_to(one, AF_NETLINK, PORT, 0x11, 12)); show_place(one, getsockname); close(one); result(bind_to(two, AF_NETLINK, PORT, 0, 12)); })
    T(bind, "AF_NETLINK, what is no address", { int fd = nl(0); result(bind_to(fd, AF_NETLINK, 0, 0, 11)); result(bind_to(fd, AF_INET, 0, 0, 12)); result(bind_to(fd, AF_UNSPEC, 0, 0, 12)); result(CALL(bind, fd, BAD, 12)); result(bind_to(fd, AF_NETLINK, 0, 0, 200)); show_place(fd, getsockname); })
    T(connect, "AF_NETLINK", { int fd = nl(0); result(connect_to(fd, AF_NETLINK, 0, 0, 12)); show_place(fd, getsockname); show_place(fd, getpeername); result(send_to(fd, AF_NETLINK, 0, 0, 12)); result(connect_to(fd, AF_UNSPEC, 0, 0, 12)); result(connect_to(fd, AF_INET, 0, 0, 12)); result(connect_to(fd, AF_NETLINK, 0, 0, 11)); result(connect_to(fd, AF_NETLINK, 1, 0, 12)); result(connect_to(fd, AF_NETLINK, 0, 1, 12)); })
    R(connect, "AF_NETLINK, another program", { int one = nl(0), two = nl(0); bind_to(two, AF_NETLINK, PORT, 0, 12); result(connect_to(one, AF_NETLINK, PORT, 0, 12)); show_place(one, getpeername); result(send(one, "hello", 5, 0)); result(recv(two, buffer, 64, MSG_DONTWAIT)); show_bytes(buffer, 5); close(two); result(send(one, "hello", 5, 0)); })
    T(sendto, "AF_NETLINK, where nobody may", { int fd = nl(0); result(send_to(fd, AF_NETLINK, PORT, 0, 12)); result(send_to(fd, AF_NETLINK, 0, 1, 12)); result(send_to(fd, AF_NETLINK, 0, 0, 11)); result(send_to(fd, AF_INET, 0, 0, 12)); result(CALL(sendto, fd, asked, asked_len, 0, BAD, 12)); })
    R(sendto, "AF_NETLINK, to nobody", { int fd = nl(0); result(send_to(fd, AF_NETLINK, PORT, 0, 12)); })
    T(sendto, "AF_NETLINK, lengths and flags", { int fd = nl(0), small = 1; result(send(fd, "", 0, 0)); result(send(fd, "hello", 5, MSG_OOB)); result(CALL(sendto, fd, BAD, 16, 0, 0, 0)); setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, 4); result(send(fd, buffer, 4608 - 32, 0)); result(send(fd, buffer, 4608 - 31, 0)); result(recv(fd, buffer, 64, MSG_DONTWAIT)); })
    T(listen, "AF_NETLINK", { int fd = nl(0); result(listen(fd, 1)); result(accept(fd, 0, 0)); result(shutdown(fd, SHUT_RDWR)); })
    T(read, "AF_NETLINK", { int fd = nl(0); ASK(GETLINK, DUMP, (struct link){7}); result(write(fd, asked, asked_len)); result(read(fd, buffer, sizeof buffer)); fcntl(fd, F_SETFL, O_NONBLOCK); result(read(fd, buffer, sizeof buffer)); })
}

static void receiving(void) {
    T(recvfrom, "AF_NETLINK, MSG_PEEK and MSG_TRUNC", { int fd = nl(0); ASK(GETLINK, DUMP, (struct link){7}); send(fd, asked, asked_len, 0); result(recv(fd, buffer, 0, MSG_PEEK | MSG_TRUNC)); result(recv(fd, 0, 0, MSG_PEEK | MSG_TRUNC)); result(recv(fd, buffer, 7, MSG_PEEK)); result(recv(fd, buffer, 7, MSG_TRUNC)); result(recv(fd, buffer, 7, MSG_DONTWAIT)); result(recv(fd, buffer, 7, MSG_OOB)); })
    T(recvmsg, "AF_NETLINK", {
        int fd = nl(PKTINFO); char control[64]; struct place from; struct iovec at = {buffer, 7};
        struct msghdr all = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &at, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ASK(GETLINK, DUMP, (struct link){7}); send(fd, asked, asked_len, 0);
        result(recvmsg(fd, &all, 0)); say(" | flags %x, %d bytes, family %d, port %d, groups %d, %d of control", all.msg_flags, all.msg_namelen, from.family, from.port, from.groups, (int)all.msg_controllen);
        struct cmsghdr *told = CMSG_FIRSTHDR(&all); if (told) { say(" | %d %d %d:", told->cmsg_level, told->cmsg_type, (int)told->cmsg_len); show_bytes(CMSG_DATA(told), 4); } })
    T(recvmsg, "AF_NETLINK, SO_PASSCRED", {
        int fd = nl(0), on = 1; char control[64]; struct place from; struct iovec at = {buffer, 64};
        result(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, 4));
        struct msghdr all = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &at, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        ASK(GETLINK, DUMP, (struct link){7}); send(fd, asked, asked_len, 0);
        result(recvmsg(fd, &all, 0)); struct cmsghdr *told = CMSG_FIRSTHDR(&all); if (told) { say(" | %d %d %d:", told->cmsg_level, told->cmsg_type, (int)told->cmsg_len); show_bytes(CMSG_DATA(told), 12); } })
    T(ppoll, "AF_NETLINK", { int fd = nl(0); struct pollfd one = {fd, POLLIN | POLLOUT}; result(poll(&one, 1, 0)); say(" | %x", one.revents); ASK(GETLINK, DUMP, (struct link){7}); send(fd, asked, asked_len, 0); result(poll(&one, 1, 0)); say(" | %x", one.revents); })
    T(recvfrom, "AF_NETLINK, more answers than there is room for", { int fd = nl(0), small = 1; setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, 4); ASK(GETLINK, REQUEST, (struct link){.index = 99}); for (int i = 0; i < 50; i++) send(fd, asked, asked_len, 0); result(recv(fd, buffer, 64, MSG_DONTWAIT)); some(recv(fd, buffer, 64, MSG_DONTWAIT)); })
    T(ioctl, "AF_NETLINK", { int fd = nl(0), count = -1; result(ioctl(fd, FIONREAD, &count)); result(ioctl(fd, TIOCOUTQ, &count)); struct ifreq asks = {.ifr_name = "lo"}; result(ioctl(fd, SIOCGIFINDEX, &asks)); say(" | %d", asks.ifr_ifindex); result(ioctl(fd, SIOCGIFADDR, &asks)); })
    T(fstat, "AF_NETLINK", { struct stat st; result(fstat(nl(0), &st)); say(" | %o", st.st_mode); })
}

static void options(void) {
    static const int all[] = {ADD_MEMBERSHIP, DROP_MEMBERSHIP, PKTINFO, BROADCAST_ERROR, NO_ENOBUFS, 6, LISTEN_ALL_NSID, CAP_ACK, EXT_ACK, STRICT, 13, 99};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        char label[64];
        snprintf(label, sizeof label, "setsockopt: SOL_NETLINK, %d", all[i]);
        if (begin(label, NR_setsockopt)) {
            int fd = nl(0);
            for (int value = 1; value >= 0; value--) {
                int now = -1; socklen_t len = sizeof now;
                result(setsockopt(fd, SOL, all[i], &value, 4)); result(getsockopt(fd, SOL, all[i], &now, &len)); say(" | %d", now);
            }
            result(setsockopt(fd, SOL, all[i], &fd, 1)); result(CALL(setsockopt, fd, SOL, all[i], BAD, 4));
            end();
        }
    }
    T(setsockopt, "SOL_NETLINK, groups", { int fd = nl(0), group = 3; unsigned words[4] = {0}; socklen_t len = sizeof words; result(setsockopt(fd, SOL, ADD_MEMBERSHIP, &group, 4)); group = 33; result(setsockopt(fd, SOL, ADD_MEMBERSHIP, &group, 4)); show_place(fd, getsockname); result(getsockopt(fd, SOL, LIST_MEMBERSHIPS, words, &len)); say(" | %x %x, %d", words[0], words[1], len); group = 3; result(setsockopt(fd, SOL, DROP_MEMBERSHIP, &group, 4)); show_place(fd, getsockname); group = 999; result(setsockopt(fd, SOL, ADD_MEMBERSHIP, &group, 4)); })
    T(setsockopt, "AF_NETLINK, another level", { int fd = nl(0), value = 1; socklen_t len = 4; result(setsockopt(fd, IPPROTO_IP, 1, &value, 4)); result(getsockopt(fd, IPPROTO_IP, 1, &value, &len)); result(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len)); say(" | %d", value); result(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &value, &len)); say(" | %d", value); result(getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &len)); say(" | %d", value); })
}

/* What libraries make of it. */
static void interfaces_by_libraries(void) {
    T(sendto, "AF_NETLINK, getifaddrs", {
        struct ifaddrs *all, *one;
        result(getifaddrs(&all));
        for (int family = 0; family < 20; family++)
            for (one = all; one; one = one->ifa_next) {
                char text[64] = "";
                if (!one->ifa_addr || one->ifa_addr->sa_family != family) continue;
                if (family == AF_INET) inet_ntop(family, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, text, sizeof text);
                if (family == AF_INET6) inet_ntop(family, &((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr, text, sizeof text);
                say(" | %s family %d flags %x %s", one->ifa_name, family, one->ifa_flags & 0xffff, text);
            } })
    T(sendto, "AF_NETLINK, if_nameindex", { struct if_nameindex *all = if_nameindex(); result(all ? 0 : -1); for (; all && all->if_name; all++) say(" | %d %s", all->if_index, all->if_name); })
    T(ioctl, "if_nametoindex and if_indextoname", { char name[IF_NAMESIZE] = ""; result(if_nametoindex("lo")); result(if_nametoindex("none") ? 0 : -1); result(if_indextoname(1, name) ? 0 : -1); say(" | %s", name); result(if_indextoname(99, name) ? 0 : -1); })
}

void netlink(void) {
    places();
    links();
    addresses();
    routes();
    others();
    receiving();
    options();
    interfaces_by_libraries();
}
