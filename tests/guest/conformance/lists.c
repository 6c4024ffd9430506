/* What /proc/net and /sys/class/net tell of sockets and of the loopback device. The host has other sockets and interfaces, too. */
#include "conform.h"
#include <arpa/inet.h>
#include <netinet/in.h>

static char text[1 << 20];

/* All of a file, in pieces of that many bytes. */
static long slurp_in(const char *path, long piece) {
    long len = 0, got = 0;
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return -1;
    while ((got = read(fd, text + len, piece < (long)sizeof text - 1 - len ? piece : (long)sizeof text - 1 - len)) > 0)
        len += got;
    close(fd);
    text[len] = 0;
    return got < 0 ? -1 : len;
}

static unsigned long number_of(int fd) {
    struct stat st;
    fstat(fd, &st);
    return st.st_ino;
}

static int port_of(int fd) {
    struct sockaddr_in6 at;
    socklen_t len = sizeof at;
    return getsockname(fd, (void *)&at, &len) ? -1 : ntohs(at.sin6_port);
}

static int ports[2];

/* An address and a port, which may be one of two. */
static void show_endpoint(char *word) {
    char *port = strchr(word, ':');
    *port++ = 0;
    int number = strtol(port, 0, 16);
    say(" %s:%s", word, number == 0 ? port : number == ports[0] ? "one" : number == ports[1] ? "two" : "another");
}

/* The line of a socket in a list, by the number of its file: all words but those that are not the same twice. `some`: bytes that wait, which keeping datagrams adds to. */
static void show_line(const char *list, int fd, int some) {
    char path[64], number[32];
    snprintf(path, sizeof path, "/proc/net/%s", list);
    snprintf(number, sizeof number, "%lu", number_of(fd));
    if (slurp_in(path, 4096) < 0) {
        say(" | %s", errno_name(errno));
        return;
    }
    int is_unix = !strcmp(list, "unix"), at = is_unix ? 6 : 9;
    for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) {
        int length = strlen(line), count = 0;
        char *words[40], *rest = line;
        for (char *word; count < 40 && (word = strsep(&rest, " "));)
            if (*word)
                words[count++] = word;
        if (count <= at || strcmp(words[at], number))
            continue;
        say(" |");
        for (int i = 1; i < count; i++) {
            if (i == at)
                say(" number");
            else if (!is_unix && i < 3)
                show_endpoint(words[i]);
            else if (!is_unix && i == 4 && some)
                say(" %s", strcmp(words[i], "00000000:00000000") ? "some" : "none");
            else if (is_unix && *words[i] == '@')
                say(" %.3s", words[i]); /* The rest is this process's. */
            else if (is_unix || i < at || i == count - 1)
                say(" %s", words[i]);
        }
        if (!strchr(list, '6') && !is_unix)
            say(", %d characters", length);
        return;
    }
    say(" | not in %s", list);
}

/* The first line of a file, and how many there are, if that does not depend on what else there is. */
static void show_first(const char *path, int is_all) {
    long len = slurp_in(path, 4096);
    char *end = strchr(text, '\n');
    result(len < 0 ? -1 : 0);
    if (len <= 0)
        return;
    say(" | '%.*s'", (int)(end - text), text);
    for (char *line = end + 1; is_all && (end = strchr(line, '\n')); line = end + 1)
        say(" '%.*s'", (int)(end - line), line);
}

#define FIRST(path, all) T(openat, path, show_first(path, all))

static void files_of_the_device(void) {
    FIRST("/proc/net/dev", 0)
    FIRST("/proc/net/route", 0)
    FIRST("/proc/net/arp", 0)
    FIRST("/proc/net/raw", 0)
    FIRST("/proc/net/tcp", 0)
    FIRST("/proc/net/tcp6", 0)
    FIRST("/proc/net/udp", 0)
    FIRST("/proc/net/udp6", 0)
    FIRST("/proc/net/unix", 0)
    FIRST("/sys/class/net/lo/address", 1)
    FIRST("/sys/class/net/lo/mtu", 1)
    FIRST("/sys/class/net/lo/operstate", 1)
    FIRST("/sys/class/net/lo/flags", 1)
    FIRST("/sys/class/net/lo/ifindex", 1)
    FIRST("/sys/class/net/lo/type", 1)
    FIRST("/sys/devices/virtual/net/lo/mtu", 1)
    FIRST("/sys/class/net/none/mtu", 1)
    FIRST("/proc/net/raw6", 0)
    FIRST("/proc/net/packet", 0)
    FIRST("/proc/net/ipv6_route", 0)
    FIRST("/proc/net/snmp", 0)
    FIRST("/proc/net/netstat", 0)
    FIRST("/sys/class/net/lo/addr_assign_type", 1)
    FIRST("/sys/class/net/lo/addr_len", 1)
    FIRST("/sys/class/net/lo/broadcast", 1)
    FIRST("/sys/class/net/lo/carrier", 1)
    FIRST("/sys/class/net/lo/carrier_changes", 1)
    FIRST("/sys/class/net/lo/carrier_down_count", 1)
    FIRST("/sys/class/net/lo/carrier_up_count", 1)
    FIRST("/sys/class/net/lo/dev_id", 1)
    FIRST("/sys/class/net/lo/dev_port", 1)
    FIRST("/sys/class/net/lo/dormant", 1)
    FIRST("/sys/class/net/lo/iflink", 1)
    FIRST("/sys/class/net/lo/link_mode", 1)
    FIRST("/sys/class/net/lo/name_assign_type", 1)
    FIRST("/sys/class/net/lo/netdev_group", 1)
    FIRST("/sys/class/net/lo/proto_down", 1)
    FIRST("/sys/class/net/lo/testing", 1)
    FIRST("/sys/class/net/lo/tx_queue_len", 1)
    FIRST("/sys/class/net/lo/uevent", 1)
    FIRST("/sys/class/net/lo/subsystem/lo/mtu", 1)
    FIRST("/proc/1/net/arp", 0)
    FIRST("/proc/thread-self/net/arp", 0)
    T(openat, "the loopback device in /proc/net/if_inet6", { slurp_in("/proc/net/if_inet6", 7); say(" | %d", strstr(text, "00000000000000000000000000000001 01 80 10 80       lo\n") != 0); })
    T(openat, "the loopback device in /proc/net/dev", { slurp_in("/proc/net/dev", 7); char *lo = strstr(text, "\n    lo: "); int numbers = 0; for (char *at = lo + 9; lo && *at != '\n'; at++) numbers += *at != ' ' && (at[1] == ' ' || at[1] == '\n'); say(" | %d numbers", numbers); })
    T(openat, "names in /proc/net/sockstat", { slurp_in("/proc/net/sockstat", 4096); for (char *word = strtok(text, " \n"); word; word = strtok(0, " \n")) say(*word >= '0' && *word <= '9' ? " N" : " %s", word); })
    T(openat, "names in /proc/net/sockstat6", { slurp_in("/proc/net/sockstat6", 4096); for (char *word = strtok(text, " \n"); word; word = strtok(0, " \n")) say(*word >= '0' && *word <= '9' ? " N" : " %s", word); })
    T(openat, "lines of /proc/net/snmp", { slurp_in("/proc/net/snmp", 7); for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) { char *word = strchr(line, ' '); int count = 0; for (char *at = word; *at; at++) count += *at == ' '; if (strncmp(line, "IcmpMsg", 7)) say(" | %.*s %d%s", (int)(word - line), line, count, word[1] >= 'A' ? "" : strncmp(line, "Ip: ", 4) && strncmp(line, "Tcp: ", 5) ? "" : word[1] == '2' ? " 2 64" : " 1 200"); } })
    T(openat, "connections in /proc/net/snmp", { int before, after, listener = socket(AF_INET6, SOCK_STREAM, 0), one = socket(AF_INET6, SOCK_STREAM, 0); struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}; socklen_t len = sizeof at; bind(listener, (void *)&at, len); listen(listener, 1); getsockname(listener, (void *)&at, &len);
        for (int i = 0; i < 2; i++) { slurp_in("/proc/net/snmp", 4096); char *tcp = strstr(strstr(text, "Tcp: ") + 5, "Tcp: "); result(tcp && sscanf(tcp, "Tcp: %*d %*d %*d %*d %*d %*d %*d %*d %d", i ? &after : &before) == 1); if (!i) connect(one, (void *)&at, len); }
        say(" | %d", after >= 2); })
    T(openat, "counts of the loopback device", { static const char *const names[] = {"rx_bytes", "tx_packets", "collisions", "multicast"}; for (int i = 0; i < 4; i++) { char path[64]; snprintf(path, sizeof path, "/sys/class/net/lo/statistics/%s", names[i]); long len = slurp_in(path, 4096); say(" | %d", len > 1 && text[len - 1] == '\n'); } })
    T(openat, "/proc/net/tcp for writing", result(open("/proc/net/tcp", O_RDWR)))
    T(readlinkat, "/proc/net", { long len = readlink("/proc/net", buffer, 64); result(len); say(" | %.*s", (int)len, buffer); })
    T(readlinkat, "/sys/class/net/lo", { long len = readlink("/sys/class/net/lo", buffer, 64); result(len); say(" | %.*s", (int)len, buffer); })
    T(newfstatat, "modes in /proc/net", { static const char *const paths[] = {"/proc/self/net", "/proc/net/tcp", "/proc/net/unix", "/proc/net/dev"}; struct stat st; for (int i = 0; i < 4; i++) { result(stat(paths[i], &st)); say(" | %o", st.st_mode); } })
}

static const int versions[] = {AF_INET, AF_INET6};
static const char *const lists_of[][2] = {{"tcp", "udp"}, {"tcp6", "udp6"}};
#define V(what, ...) { snprintf(label, sizeof label, "openat: %s, %s", what, i ? "AF_INET6" : "AF_INET"); if (begin(label, NR_openat)) { __VA_ARGS__; end(); } }
static char label[200];

/* A socket at a port of the loopback device that nobody else has. */
static int bound(int version, int kind) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(version, kind, 0);
    if (version == AF_INET ? bind(fd, (void *)&v4, sizeof v4) : bind(fd, (void *)&v6, sizeof v6))
        result(-1);
    return fd;
}

static int connected_to(int other, int version, int kind) {
    struct sockaddr_in6 at;
    socklen_t len = sizeof at;
    int fd = socket(version, kind, 0);
    getsockname(other, (void *)&at, &len);
    if (connect(fd, (void *)&at, len))
        result(-1);
    return fd;
}

static void internet(void) {
    for (int i = 0; i < 2; i++) {
        V("a listener, and who is connected there", {
            int listener = bound(versions[i], SOCK_STREAM);
            ports[0] = port_of(listener);
            show_line(lists_of[i][0], listener, 0);
            listen(listener, 5);
            show_line(lists_of[i][0], listener, 0);
            int one = connected_to(listener, versions[i], SOCK_STREAM);
            ports[1] = port_of(one);
            show_line(lists_of[i][0], listener, 0);
            int two = accept(listener, 0, 0);
            write(one, "hello", 5);
            usleep(200000);
            show_line(lists_of[i][0], listener, 0); show_line(lists_of[i][0], one, 0); show_line(lists_of[i][0], two, 0); show_line("unix", one, 0);
            read(two, buffer, 5);
            shutdown(one, SHUT_WR);
            usleep(200000);
            show_line(lists_of[i][0], one, 0); show_line(lists_of[i][0], two, 0); })
        V("the end of a stream, until it is read", {
            int listener = bound(versions[i], SOCK_STREAM);
            listen(listener, 5);
            int one = connected_to(listener, versions[i], SOCK_STREAM), two = accept(listener, 0, 0);
            ports[0] = port_of(listener); ports[1] = port_of(one);
            write(one, "hello", 5); shutdown(one, SHUT_WR); usleep(200000);
            show_line(lists_of[i][0], two, 0);
            result(recv(two, buffer, 5, 0)); show_line(lists_of[i][0], two, 0);
            result(recv(two, buffer, 5, MSG_PEEK)); result(recv(two, buffer, 0, 0)); show_line(lists_of[i][0], two, 0);
            result(recv(two, buffer, 5, 0)); show_line(lists_of[i][0], two, 0);
            result(recv(two, buffer, 5, 0)); show_line(lists_of[i][0], two, 0); })
        V("a stream that is nowhere", { int one = socket(versions[i], SOCK_STREAM, 0); show_line(lists_of[i][0], one, 0); })
        V("datagrams", {
            int one = socket(versions[i], SOCK_DGRAM, 0);
            show_line(lists_of[i][1], one, 1);
            one = bound(versions[i], SOCK_DGRAM);
            ports[0] = port_of(one);
            show_line(lists_of[i][1], one, 1);
            int two = connected_to(one, versions[i], SOCK_DGRAM);
            ports[1] = port_of(two);
            write(two, "hello", 5);
            show_line(lists_of[i][1], one, 1); show_line(lists_of[i][1], two, 1);
            read(one, buffer, 5);
            show_line(lists_of[i][1], one, 1); })
        V("a list that is read in small pieces", {
            int one = bound(versions[i], SOCK_DGRAM);
            char path[32], line[400] = "";
            snprintf(path, sizeof path, "/proc/net/%s", lists_of[i][1]);
            snprintf(line, sizeof line, " %lu 2 ", number_of(one));
            for (long piece = 1; piece < 5000; piece = piece * 7 + 1) {
                int found = slurp_in(path, piece) > 0 && strstr(text, line) != 0;
                say(" | %d", found); } })
    }
    R(openat, "whose a connection is, until it is accepted and then", {
        int listener = bound(AF_INET, SOCK_STREAM);
        listen(listener, 5);
        int one = connected_to(listener, AF_INET, SOCK_STREAM);
        char begin[40], user[16];
        ports[0] = port_of(listener); ports[1] = port_of(one);
        slurp_in("/proc/net/tcp", 4096);
        snprintf(begin, sizeof begin, ": 0100007F:%04X 0100007F:%04X", ports[0], ports[1]);
        char *line = strstr(text, begin);
        result(line && sscanf(line, ": %*s %*s %*s %*s %*s %*s %15s", user) == 1 ? 0 : -1); say(" | %s", user);
        result(setresuid(1000, 1000, 1000));
        int two = accept(listener, 0, 0);
        show_line("tcp", two, 0); })
    T(openat, "a stream of both versions in /proc/net/tcp6", {
        struct sockaddr_in6 any = {.sin6_family = AF_INET6};
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int listener = socket(AF_INET6, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
        bind(listener, (void *)&any, sizeof any); listen(listener, 1);
        ports[0] = port_of(listener); at.sin_port = htons(ports[0]);
        if (connect(one, (void *)&at, sizeof at)) result(-1);
        ports[1] = port_of(one);
        int two = accept(listener, 0, 0);
        show_line("tcp6", listener, 0); show_line("tcp6", two, 0); show_line("tcp", one, 0); })
    T(readlinkat, "numbers of sockets", { int one = bound(AF_INET, SOCK_DGRAM); char path[32], wanted[64]; snprintf(path, sizeof path, "/proc/self/fd/%d", one); snprintf(wanted, sizeof wanted, "socket:[%lu]", number_of(one)); long len = readlink(path, buffer, 64); say(" | %d", len == (long)strlen(wanted) && !memcmp(buffer, wanted, len)); })
}

static void local(void) {
    T(openat, "pairs in /proc/net/unix", { int pair[2]; static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}; for (int i = 0; i < 3; i++) { socketpair(AF_UNIX, kinds[i], 0, pair); show_line("unix", pair[0], 0); show_line("unix", pair[1], 0); } show_line("unix", FRESH, 0); })
    T(openat, "names in /proc/net/unix", {
        struct sockaddr_un named = {AF_UNIX, "a name"}, unnamed = {AF_UNIX, "\0c"};
        int len = 2 + 3 + sprintf(unnamed.sun_path + 3, "%d", getpid());
        int one = socket(AF_UNIX, SOCK_DGRAM, 0), two = socket(AF_UNIX, SOCK_STREAM, 0), three = socket(AF_UNIX, SOCK_STREAM, 0);
        bind(one, (void *)&named, sizeof named); show_line("unix", one, 0);
        bind(two, (void *)&unnamed, len); show_line("unix", two, 0);
        listen(two, 1); show_line("unix", two, 0);
        connect(three, (void *)&unnamed, len);
        int four = accept(two, 0, 0);
        show_line("unix", three, 0); show_line("unix", four, 0); close(three); show_line("unix", four, 0); })
    T(openat, "who waits to be accepted in /proc/net/unix", {
        struct sockaddr_un named = {AF_UNIX, "waits"};
        int two = socket(AF_UNIX, SOCK_STREAM, 0), three = socket(AF_UNIX, SOCK_STREAM, 0);
        bind(two, (void *)&named, sizeof named); listen(two, 1); connect(three, (void *)&named, sizeof named);
        slurp_in("/proc/net/unix", 64);
        char *waits = strstr(text, " 0001 02     0 waits\n");
        say(" | %d", waits != 0); })
    T(openat, "what is closed in /proc/net/unix", { int pair[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, pair); char number[32]; snprintf(number, sizeof number, " %lu\n", number_of(pair[0])); slurp_in("/proc/net/unix", 4096); say(" | %d", strstr(text, number) != 0); close(pair[0]);
        /* Somebody else's new socket may have its number. */
        int is_there = 1;
        for (int i = 0; i < 100 && is_there; i++) { slurp_in("/proc/net/unix", 4096); is_there = strstr(text, number) != 0; usleep(is_there * 1000); }
        say(" | %d", is_there); })
}

void lists(void) {
    files_of_the_device();
    internet();
    local();
}
