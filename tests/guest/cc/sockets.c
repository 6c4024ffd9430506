/* Sockets between programs, whose ends are on different instruction sets. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crossing.h"

static const char *shown(long result) {
    static char texts[4][64];
    static int next;
    char *text = texts[next++ % 4];
    if (result >= 0) snprintf(text, sizeof texts[0], "%ld", result);
    else snprintf(text, sizeof texts[0], "%s", strerror(errno));
    return text;
}

MOTET_ON(ARM) ssize_t send_there(int fd, const void *bytes, size_t len, int flags) {
    expect_on(ARM);
    return send(fd, bytes, len, flags);
}
MOTET_ON(RISCV) ssize_t receive_there(int fd, void *bytes, size_t len, int flags) {
    expect_on(RISCV);
    return recv(fd, bytes, len, flags);
}

static socklen_t address_of(struct sockaddr_un *address, const char *name, int is_abstract) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + is_abstract, name, strlen(name));
    return offsetof(struct sockaddr_un, sun_path) + strlen(name) + 1;
}

static void pairs(void) {
    int ends[2], count;
    char bytes[16];
    struct stat about;
    printf("pair %s\n", shown(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)));
    fstat(ends[0], &about);
    printf("is a socket %d, closed by exec %d\n", S_ISSOCK(about.st_mode), fcntl(ends[0], F_GETFD));
    printf("nothing yet %s\n", shown(receive_there(ends[1], bytes, 16, MSG_DONTWAIT)));
    printf("sent %s\n", shown(send_there(ends[0], "there", 5, 0)));
    ioctl(ends[1], FIONREAD, &count);
    printf("comes %d\n", count);
    printf("received %s\n", shown(receive_there(ends[1], bytes, 16, 0)));
    printf("sent back %s\n", shown(write(ends[1], "back", 4)));
    printf("received %s %.4s\n", shown(read(ends[0], bytes, 16)), bytes);
    printf("with an address %s\n", shown(sendto(ends[0], "x", 1, 0, (struct sockaddr *)bytes, 2)));
    struct iovec parts[2] = {{"one", 3}, {"three", 5}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    printf("message %s\n", shown(sendmsg(ends[0], &message, 0)));
    char first[4], second[8];
    struct iovec into[2] = {{first, 4}, {second, 8}};
    struct msghdr received = {.msg_iov = into, .msg_iovlen = 2, .msg_flags = -1};
    printf("message %s %.4s %.4s flags %d\n", shown(recvmsg(ends[1], &received, 0)), first, second, received.msg_flags);
    printf("no more writing %s\n", shown(shutdown(ends[0], SHUT_WR)));
    printf("end %s\n", shown(receive_there(ends[1], bytes, 16, 0)));
    printf("refused %s\n", shown(send_there(ends[0], "x", 1, MSG_NOSIGNAL)));
    printf("other direction %s", shown(send_there(ends[1], "x", 1, 0)));
    printf(" %s\n", shown(read(ends[0], bytes, 16)));
    printf("wrong way %s\n", shown(shutdown(ends[0], 3)));
    struct pollfd asked = {.fd = ends[1], .events = POLLIN | POLLOUT | POLLRDHUP};
    poll(&asked, 1, 0);
    printf("ready %#x\n", asked.revents);
    close(ends[0]);
    poll(&asked, 1, 0);
    printf("ready %#x\n", asked.revents);
    signal(SIGPIPE, SIG_IGN);
    printf("nobody %s\n", shown(write(ends[1], "x", 1)));
    close(ends[1]);
    int pipes[2];
    pipe(pipes);
    printf("no socket %s\n", shown(send_there(pipes[1], "x", 1, 0)));
    close(pipes[0]), close(pipes[1]);
    printf("no such kind %s\n", shown(socketpair(AF_UNIX, 77, 0, ends)));
}

/* A server on RISC-V answers each client's number with its square. */
enum { CLIENTS = 12 };
static int server;
MOTET_ON(RISCV) void *serve(void *unused) {
    expect_on(RISCV);
    for (int i = 0; i < CLIENTS; i++) {
        struct sockaddr_un from;
        socklen_t len = sizeof from;
        int fd = accept4(server, (struct sockaddr *)&from, &len, SOCK_CLOEXEC), number;
        if (fd < 0 || from.sun_family != AF_UNIX || len != 2) printf("accept %s\n", strerror(errno));
        while (read(fd, &number, 4) == 4) {
            number *= number;
            write(fd, &number, 4);
        }
        close(fd);
    }
    return unused;
}
MOTET_ON(ARM) int ask(const struct sockaddr_un *address, socklen_t len, int number) {
    expect_on(ARM);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)address, len) != 0) return -1;
    for (int round = 0; round < 3; round++) write(fd, &number, 4), read(fd, &number, 4);
    close(fd);
    return number;
}

static void servers(const char *name, int is_abstract) {
    struct sockaddr_un address, other;
    socklen_t len = address_of(&address, name, is_abstract), other_len = sizeof other;
    pthread_t thread;
    int status, sum = 0;
    printf("%s\n", name);
    int early = socket(AF_UNIX, SOCK_STREAM, 0);
    printf("too early %s\n", shown(connect(early, (struct sockaddr *)&address, len)));
    server = socket(AF_UNIX, SOCK_STREAM, 0);
    printf("unbound %s\n", shown(listen(server, 1)));
    printf("bind %s\n", shown(bind(server, (struct sockaddr *)&address, len)));
    printf("not listening %s\n", shown(connect(early, (struct sockaddr *)&address, len)));
    if (is_abstract) printf("bound twice %s\n", shown(bind(server, (struct sockaddr *)&address, len)));
    printf("taken %s\n", shown(bind(early, (struct sockaddr *)&address, len)));
    printf("listen %s\n", shown(listen(server, 2)));
    getsockname(server, (struct sockaddr *)&other, &other_len);
    printf("named %d %d\n", (int)other_len, memcmp(&other, &address, other_len < len ? other_len : len));
    pthread_create(&thread, 0, serve, 0);
    fflush(stdout);
    for (int client = 0; client < CLIENTS - 1; client++)
        if (fork() == 0) _exit(ask(&address, len, 2) == 256 ? client : 99);
    while (wait(&status) > 0) sum += WEXITSTATUS(status);
    printf("all answered %d\n", sum == (CLIENTS - 1) * (CLIENTS - 2) / 2);
    printf("connected %s\n", shown(connect(early, (struct sockaddr *)&address, len)));
    printf("again %s\n", shown(connect(early, (struct sockaddr *)&address, len)));
    struct ucred peer;
    other_len = sizeof peer;
    getsockopt(early, SOL_SOCKET, SO_PEERCRED, &peer, &other_len);
    printf("peer is me %d\n", peer.pid == getpid() && peer.uid == getuid());
    other_len = sizeof other;
    printf("peer's name %s", shown(getpeername(early, (struct sockaddr *)&other, &other_len)));
    printf(" %d\n", memcmp(&other, &address, len));
    close(early);
    pthread_join(thread, 0);
    close(server);
    early = socket(AF_UNIX, SOCK_STREAM, 0);
    printf("too late %s\n", shown(connect(early, (struct sockaddr *)&address, len)));
    close(early);
    if (!is_abstract) {
        struct stat about;
        stat(name, &about);
        printf("left behind %d %s\n", S_ISSOCK(about.st_mode), shown(open(name, O_RDONLY)));
        unlink(name);
    }
}

/* MSG_PEEK and MSG_WAITALL: data are read without removing them, and waited for until all have come. */
static volatile int has_looked;
static void *send_halves(void *end) {
    send_there(*(int *)end, "first", 5, 0);
    while (!has_looked) usleep(1000);
    usleep(20000); /* by now the rest is most likely waited for */
    send_there(*(int *)end, "second", 6, 0);
    return end;
}
static void looks(void) {
    static char many[9000], seen[9000];
    int ends[2];
    char bytes[16];
    pthread_t thread;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    printf("look at nothing %s\n", shown(receive_there(ends[1], bytes, 16, MSG_PEEK | MSG_DONTWAIT)));
    pthread_create(&thread, 0, send_halves, &ends[0]);
    printf("look %s", shown(receive_there(ends[1], bytes, 16, MSG_PEEK)));
    printf(" %.3s\n", bytes);
    has_looked = 1;
    printf("all %s", shown(receive_there(ends[1], bytes, 11, MSG_WAITALL)));
    printf(" %.11s\n", bytes);
    pthread_join(thread, 0);
    for (int i = 0; i < 9000; i++) many[i] = i * 7 % 251;
    send_there(ends[0], many, 9000, 0);
    printf("look at all %s", shown(receive_there(ends[1], seen, 9000, MSG_PEEK)));
    printf(" %d\n", memcmp(many, seen, 9000));
    printf("a part %s\n", shown(receive_there(ends[1], seen, 8998, MSG_WAITALL | MSG_TRUNC)));
    struct iovec parts[2] = {{bytes, 1}, {bytes + 1, 15}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    printf("look at the rest %s\n", shown(recvmsg(ends[1], &message, MSG_PEEK)));
    close(ends[0]);
    printf("all that come %s\n", shown(receive_there(ends[1], bytes, 16, MSG_WAITALL)));
    printf("look at the end %s\n", shown(receive_there(ends[1], bytes, 16, MSG_PEEK)));
    close(ends[1]);
}

/* An end is closed though not all has been read that was sent to it: the other end hears of that, once. */
static int events_of(int fd) {
    struct pollfd entry = {.fd = fd, .events = POLLIN | POLLRDHUP};
    poll(&entry, 1, 0);
    return entry.revents & (POLLIN | POLLRDHUP | POLLHUP | POLLERR);
}
static void resets(void) {
    int ends[2], error = -1;
    socklen_t len = sizeof error;
    char bytes[16];
    for (int way = 0; way < 4; way++) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        printf("%d: sent %s", way, shown(send_there(ends[0], "unread", 6, 0)));
        printf(" and back %s\n", shown(send_there(ends[1], "read", 4, 0)));
        if (way == 1) printf("read all %s\n", shown(receive_there(ends[1], bytes, 16, 0)));
        if (way == 2) shutdown(ends[0], SHUT_RDWR);
        close(ends[1]);
        printf("events %x\n", events_of(ends[0]));
        if (way == 3) {
            getsockopt(ends[0], SOL_SOCKET, SO_ERROR, &error, &len);
            printf("error %s\n", strerror(error));
        }
        printf("received %s\n", shown(receive_there(ends[0], bytes, 16, 0)));
        printf("nothing %s\n", shown(receive_there(ends[0], bytes, 0, 0)));
        printf("then %s\n", shown(receive_there(ends[0], bytes, 16, MSG_PEEK)));
        printf("then %s\n", shown(receive_there(ends[0], bytes, 16, 0)));
        getsockopt(ends[0], SOL_SOCKET, SO_ERROR, &error, &len);
        printf("error %s, events %x\n", strerror(error), events_of(ends[0]));
        printf("sent %s\n", shown(send(ends[0], "x", 1, MSG_NOSIGNAL)));
        close(ends[0]);
    }
    struct sockaddr_un address;
    socklen_t address_len = address_of(&address, "resets", 1);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), early = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(listener, (struct sockaddr *)&address, address_len);
    listen(listener, 2);
    connect(early, (struct sockaddr *)&address, address_len);
    close(listener);
    printf("never accepted %s\n", shown(receive_there(early, bytes, 16, 0)));
    printf("then %s\n", shown(receive_there(early, bytes, 16, 0)));
    close(early);
}

/* Sends more than fits into the socket; an interest list says when there is room. */
enum { LENGTH = 1 << 20 };
static char out[LENGTH];
static int far_end;
MOTET_ON(RISCV) void *send_all(void *unused) {
    expect_on(RISCV);
    size_t done = 0;
    while (done < LENGTH) {
        ssize_t sent = write(far_end, out + done, LENGTH - done);
        if (sent <= 0) break;
        done += sent;
    }
    shutdown(far_end, SHUT_WR);
    return unused;
}

static void floods(void) {
    int ends[2], list = epoll_create1(0), wrong = 0;
    long got = 0;
    pthread_t thread;
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends);
    far_end = ends[1];
    fcntl(far_end, F_SETFL, 0);
    for (int i = 0; i < LENGTH; i++) out[i] = i * 7 % 251;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET | EPOLLRDHUP};
    epoll_ctl(list, EPOLL_CTL_ADD, ends[0], &event);
    pthread_create(&thread, 0, send_all, 0);
    for (int ended = 0; !ended;) {
        if (epoll_wait(list, &event, 1, 10000) <= 0) break;
        char bytes[3000];
        ssize_t count;
        while ((count = read(ends[0], bytes, sizeof bytes)) > 0)
            for (ssize_t i = 0; i < count; i++, got++) wrong += bytes[i] != out[got];
        ended = count == 0;
    }
    pthread_join(thread, 0);
    printf("flood: %ld bytes, %d wrong\n", got, wrong);
    close(ends[0]), close(ends[1]), close(list);
}

int main(void) {
    char folder[] = "/tmp/socketsXXXXXX";
    chdir(mkdtemp(folder));
    pairs();
    servers("server", 0);
    servers("motet test of sockets", 1);
    looks();
    resets();
    floods();
    rmdir(folder);
    return 0;
}
