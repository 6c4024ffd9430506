/* What programs ask of the loopback device by sockets, and of what they have sent. Nothing is changed that the host has. */
#include "conform.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

/* As `T`, and by the superuser as `R`, with a label that is made. */
#define LABELED(root, label, ...) if (begin_as(root, label, NR_ioctl)) { __VA_ARGS__; end(); }

static char label[200];
static const struct { const char *name; int family, kind; } sorts[] = {
    {"AF_INET, SOCK_STREAM", AF_INET, SOCK_STREAM}, {"AF_INET6, SOCK_DGRAM", AF_INET6, SOCK_DGRAM}, {"AF_UNIX, SOCK_SEQPACKET", AF_UNIX, SOCK_SEQPACKET},
};
#define EACH_SORT for (unsigned i = 0; i < sizeof sorts / sizeof *sorts; i++)

static const char *labeled(const char *what, const char *of, int i) {
    snprintf(label, sizeof label, "ioctl: %s%s, %s", what, of, sorts[i].name);
    return label;
}

/* A request of an interface, and what it leaves of it. */
static void ask(int i, unsigned long request, const char *name, int number) {
    int fd = socket(sorts[i].family, sorts[i].kind, 0);
    memset(buffer, 0xaa, 64);
    strcpy(buffer, name);
    memcpy(buffer + 16, &number, 4);
    result(ioctl(fd, request, buffer));
    show_bytes(buffer + 16, 24);
}

static void gets(void) {
    static const struct { const char *name; unsigned long request; } all[] = {
        {"SIOCGIFFLAGS", SIOCGIFFLAGS}, {"SIOCGIFMTU", SIOCGIFMTU}, {"SIOCGIFINDEX", SIOCGIFINDEX}, {"SIOCGIFTXQLEN", SIOCGIFTXQLEN}, {"SIOCGIFMETRIC", SIOCGIFMETRIC},
        {"SIOCGIFMAP", SIOCGIFMAP}, {"SIOCGIFHWADDR", SIOCGIFHWADDR}, {"SIOCGIFADDR", SIOCGIFADDR}, {"SIOCGIFDSTADDR", SIOCGIFDSTADDR}, {"SIOCGIFBRDADDR", SIOCGIFBRDADDR}, {"SIOCGIFNETMASK", SIOCGIFNETMASK},
    };
    for (unsigned j = 0; j < sizeof all / sizeof *all; j++)
        EACH_SORT {
            LABELED(0, labeled(all[j].name, " of lo", i), ask(i, all[j].request, "lo", -1))
            LABELED(0, labeled(all[j].name, " of none", i), ask(i, all[j].request, "none", -1))
            if (i == 0)
                LABELED(0, labeled(all[j].name, " of another name", i), ask(i, all[j].request, "lo:1", -1))
        }
    EACH_SORT {
        LABELED(0, labeled("SIOCGIFNAME", " of 1", i), { ask(i, SIOCGIFNAME, "nothing", 1); say(" | %s", buffer); show_bytes(buffer, 16); })
        LABELED(0, labeled("SIOCGIFNAME", " of none", i), { ask(i, SIOCGIFNAME, "nothing", -1); say(" | %s", buffer); })
        LABELED(0, labeled("SIOCGIFMTU", " with a bad address", i), result(ioctl(socket(sorts[i].family, sorts[i].kind, 0), SIOCGIFMTU, BAD)))
        LABELED(0, labeled("an unknown request", "", i), ask(i, 0x8999, "lo", 0))
    }
}

static void confs(void) {
    EACH_SORT {
        /* The host may have more interfaces. */
        LABELED(0, labeled("SIOCGIFCONF", "", i), {
            struct ifreq all[32]; struct ifconf how = {.ifc_len = sizeof all, .ifc_req = all};
            memset(all, 0xaa, sizeof all);
            result(ioctl(socket(sorts[i].family, sorts[i].kind, 0), SIOCGIFCONF, &how));
            say(" | %d %d", how.ifc_len >= (int)sizeof *all, how.ifc_len % (int)sizeof *all);
            show_bytes(all, sizeof *all); })
        LABELED(0, labeled("SIOCGIFCONF", " without room", i), {
            struct ifconf how = {.ifc_len = sizeof(struct ifreq) - 1, .ifc_buf = BAD};
            result(ioctl(socket(sorts[i].family, sorts[i].kind, 0), SIOCGIFCONF, &how)); say(" | %d", how.ifc_len); })
        LABELED(0, labeled("SIOCGIFCONF", " with a bad address", i), {
            struct ifconf how = {.ifc_len = 4096, .ifc_buf = BAD};
            result(ioctl(socket(sorts[i].family, sorts[i].kind, 0), SIOCGIFCONF, &how)); say(" | %d", how.ifc_len);
            result(ioctl(socket(sorts[i].family, sorts[i].kind, 0), SIOCGIFCONF, BAD)); })
        LABELED(0, labeled("SIOCGIFCONF", " of how much room it takes", i), {
            struct ifconf how = {.ifc_len = -1};
            result(ioctl(socket(sorts[i].family, sorts[i].kind, 0), SIOCGIFCONF, &how));
            say(" | %d %d", how.ifc_len >= (int)sizeof(struct ifreq), how.ifc_len % (int)sizeof(struct ifreq)); })
    }
}

/* What `lo` has is set once more, or what nobody can set. */
static void set(int i, unsigned long request, const char *name, int number, const char *address) {
    struct ifreq asked = {0};
    strcpy(asked.ifr_name, name);
    asked.ifr_mtu = number;
    if (address) {
        struct sockaddr_in at = {.sin_family = number};
        inet_pton(AF_INET, address, &at.sin_addr);
        memcpy(&asked.ifr_addr, &at, sizeof at);
    }
    result(ioctl(socket(sorts[i].family, sorts[i].kind, 0), request, &asked));
}

static void sets(void) {
    static const struct { const char *what; unsigned long request; int number; const char *address; } all[] = {
        {"SIOCSIFFLAGS", SIOCSIFFLAGS, IFF_UP | IFF_LOOPBACK | IFF_RUNNING, 0}, {"SIOCSIFFLAGS IFF_UP", SIOCSIFFLAGS, IFF_UP, 0}, {"SIOCSIFMTU", SIOCSIFMTU, 65536, 0}, {"SIOCSIFMTU of less than nothing", SIOCSIFMTU, -1, 0},
        {"SIOCSIFTXQLEN", SIOCSIFTXQLEN, 1000, 0}, {"SIOCSIFTXQLEN of less than nothing", SIOCSIFTXQLEN, -1, 0}, {"SIOCSIFMETRIC", SIOCSIFMETRIC, 0, 0}, {"SIOCSIFMAP", SIOCSIFMAP, 0, 0},
        {"SIOCSIFHWADDR of another kind", SIOCSIFHWADDR, 1, 0}, {"SIOCSIFADDR", SIOCSIFADDR, AF_INET, "127.0.0.1"}, {"SIOCSIFADDR of no address", SIOCSIFADDR, AF_UNIX, "127.0.0.1"}, {"SIOCSIFNETMASK", SIOCSIFNETMASK, AF_INET, "255.0.0.0"},
        {"SIOCSIFDSTADDR", SIOCSIFDSTADDR, AF_INET, "127.0.0.1"}, {"SIOCSIFBRDADDR", SIOCSIFBRDADDR, AF_INET, "0.0.0.0"},
    };
    for (unsigned j = 0; j < sizeof all / sizeof *all; j++)
        EACH_SORT {
            LABELED(0, labeled(all[j].what, "", i), set(i, all[j].request, "lo", all[j].number, all[j].address))
            /* Addresses of version 6 would be made. */
            if (sorts[i].family == AF_INET6 && all[j].address)
                continue;
            LABELED(1, labeled(all[j].what, " (as root)", i), set(i, all[j].request, "lo", all[j].number, all[j].address))
            if (i == 0)
                LABELED(1, labeled(all[j].what, " of none (as root)", i), set(i, all[j].request, "none", all[j].number, all[j].address))
        }
    EACH_SORT {
        LABELED(0, labeled("SIOCADDRT", "", i), result(ioctl(socket(sorts[i].family, sorts[i].kind, 0), SIOCADDRT, buffer)))
        LABELED(0, labeled("SIOCSIFMTU", " with a bad address", i), result(ioctl(socket(sorts[i].family, sorts[i].kind, 0), SIOCSIFMTU, BAD)))
    }
}

static void told(int fd, unsigned long request) {
    int count = -1;
    result(ioctl(fd, request, &count));
    say(" | %d", count);
}

/* How much of `AF_UNIX` waits is told with what keeping it takes. */
static void told_if_any(int fd) {
    int count = -1;
    result(ioctl(fd, TIOCOUTQ, &count));
    say(" | %s", count < 0 ? "nothing" : count ? "some" : "none");
}

static void queues(void) {
    static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    static const char *const names[] = {"SOCK_STREAM", "SOCK_DGRAM", "SOCK_SEQPACKET"};
    for (int i = 0; i < 3; i++) {
        snprintf(label, sizeof label, "ioctl: TIOCOUTQ, AF_UNIX, %s", names[i]);
        LABELED(0, label, {
            int pair[2];
            socketpair(AF_UNIX, kinds[i], 0, pair);
            told_if_any(pair[0]); result(write(pair[0], "hello", 5)); told_if_any(pair[0]); told_if_any(pair[1]); result(read(pair[1], buffer, 64)); told_if_any(pair[0]);
            result(write(pair[0], "hello", 5)); close(pair[1]); told_if_any(pair[0]); })
        snprintf(label, sizeof label, "ioctl: SIOCATMARK, AF_UNIX, %s", names[i]);
        LABELED(0, label, { int pair[2]; socketpair(AF_UNIX, kinds[i], 0, pair); told(pair[0], SIOCATMARK); result(write(pair[0], "hello", 5)); told(pair[1], SIOCATMARK); })
    }
    T(ioctl, "TIOCOUTQ of a stream that listens", {
        struct sockaddr_un at = {AF_UNIX, "listens"};
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        bind(fd, (void *)&at, sizeof at); listen(fd, 1); told(fd, TIOCOUTQ);
        struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        fd = socket(AF_INET, SOCK_STREAM, 0);
        bind(fd, (void *)&v4, sizeof v4); listen(fd, 1); told(fd, TIOCOUTQ); told(fd, SIOCATMARK); })
    T(ioctl, "TIOCOUTQ and SIOCATMARK of TCP", {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t len = sizeof at;
        int listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
        told(one, TIOCOUTQ);
        bind(listener, (void *)&at, sizeof at); listen(listener, 1); getsockname(listener, (void *)&at, &len);
        connect(one, (void *)&at, sizeof at);
        int two = accept(listener, 0, 0);
        result(write(one, "hello", 5)); usleep(200000); told(one, TIOCOUTQ); told(two, TIOCOUTQ); told(two, FIONREAD); told(two, SIOCATMARK); told(one, SIOCATMARK); })
    T(ioctl, "TIOCOUTQ and SIOCATMARK of UDP", {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t len = sizeof at;
        int one = socket(AF_INET, SOCK_DGRAM, 0), two = socket(AF_INET, SOCK_DGRAM, 0);
        bind(two, (void *)&at, sizeof at); getsockname(two, (void *)&at, &len);
        result(sendto(one, "hello", 5, 0, (void *)&at, len)); told(one, TIOCOUTQ); told(two, TIOCOUTQ); told(two, FIONREAD); told(two, SIOCATMARK); })
    C(ioctl, SOCK, TIOCOUTQ, BAD)
    C(ioctl, SOCK, SIOCATMARK, BAD)
    C(ioctl, RW, SIOCGIFMTU, buffer)
}

void interfaces(void) {
    gets();
    confs();
    sets();
    queues();
}
