/* Descriptors: copies, flags, locks, pipes, and files that only descriptors name. */
#include "conform.h"

static int both[2];
static struct flock whole = {.l_type = F_WRLCK}, none = {.l_type = F_UNLCK}, shared = {.l_type = F_RDLCK}, odd = {.l_type = 9}, backwards = {.l_type = F_RDLCK, .l_start = -5};

static void copies(void) {
    E(show_open(), dup, RW)
    C(dup, CLOSED)
    C(dup, -1)
    E(show_open(), dup2, RW, 40)
    C(dup2, RW, RW)
    C(dup2, CLOSED, CLOSED)
    C(dup2, CLOSED, RW)
    C(dup2, RW, -1)
    C(dup2, RW, 256)
    C(dup2, RW, 100000)
    E(show_open(), dup3, RW, 40, O_CLOEXEC)
    E(show_open(), dup3, RW, PIPE_R, 0)
    C(dup3, RW, RW, 0)
    C(dup3, RW, 40, O_NONBLOCK)
    C(dup3, CLOSED, 40, 0)
    C(dup3, RW, 256, 0)
    C(dup3, RW, -1, 0)
    E(show_open(), close, RW)
    C(close, CLOSED)
    C(close, -1)
    E(show_open(), close_range, PIPE_R, ~0U, 0)
    E(show_open(), close_range, RW, RO, CLOSE_RANGE_CLOEXEC)
    E(show_open(), close_range, RW, RO, CLOSE_RANGE_UNSHARE)
    E(show_open(), close_range, 100, 200, 0)
    C(close_range, RO, RW, 0)
    C(close_range, RW, RO, 1 << 20)
    E(show_open(), fcntl, RW, F_DUPFD, 40)
    E(show_open(), fcntl, RW, F_DUPFD_CLOEXEC, 40)
    C(fcntl, RW, F_DUPFD, -1)
    C(fcntl, RW, F_DUPFD, 256)
    C(fcntl, CLOSED, F_DUPFD, 0)
    C(fcntl, RW, F_GETFD)
    C(fcntl, CLOSED, F_GETFD)
    E(show_flags(RW), fcntl, RW, F_SETFD, FD_CLOEXEC)
    E(show_flags(RW), fcntl, RW, F_SETFD, 0xfe)
    E(show_flags(RW), fcntl, RW, F_SETFL, O_APPEND | O_NONBLOCK)
    E(show_flags(RW), fcntl, RW, F_SETFL, O_WRONLY | O_TRUNC | O_SYNC)
    E(show_flags(RW), fcntl, RW, F_SETFL, O_ASYNC)
    E(show_flags(RW), fcntl, RW, F_SETFL, O_DIRECT)
    E(show_flags(RW), fcntl, RW, F_SETFL, O_NOATIME)
    E(show_flags(PIPE_R), fcntl, PIPE_R, F_SETFL, O_NONBLOCK)
    E(show_flags(PIPE_R), fcntl, PIPE_R, F_SETFL, O_ASYNC)
    E(show_flags(EVENT), fcntl, EVENT, F_SETFL, 0)
    C(fcntl, PATH_FD, F_SETFL, O_NONBLOCK)
    C(fcntl, PATH_FD, F_GETLK, &whole)
    E(show_flags(3), fcntl, PATH_FD, F_DUPFD, 0)
    C(fcntl, RW, F_GETLK, &whole)
    C(fcntl, RW, F_SETLK, &whole)
    C(fcntl, RO, F_SETLK, &whole)
    C(fcntl, WO, F_SETLK, &shared)
    C(fcntl, RW, F_SETLK, &odd)
    C(fcntl, RW, F_SETLK, &backwards)
    C(fcntl, RW, F_SETLK, BAD)
    C(fcntl, PIPE_R, F_SETLK, &shared)
    C(fcntl, RW, F_SETLK, &none)
    C(fcntl, RW, F_SETLKW, &whole)
    C(fcntl, RW, F_SETLKW, &none)
    C(fcntl, RO, F_SETLKW, &whole)
    C(fcntl, RW, F_OFD_SETLKW, &whole)
    T(fcntl, "another process's lock", {
        int status;
        fcntl(RW, F_SETLK, &whole);
        if (fork() == 0) {
            int fd = open("file", O_RDWR);
            struct flock asked = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 1};
            result(fcntl(fd, F_SETLK, &asked));
            result(fcntl(fd, F_GETLK, &asked));
            say(" | %s of %ld from %ld by %s", asked.l_type == F_WRLCK ? "write" : "other", (long)asked.l_len, (long)asked.l_start,
                asked.l_pid == getppid() ? "the parent" : "another");
            end();
        }
        wait(&status);
        _exit(0);
    })
    C(fcntl, RW, F_OFD_SETLK, &whole)
    C(fcntl, RW, F_OFD_GETLK, &shared)
    C(fcntl, RW, F_GETOWN)
    C(fcntl, SOCK, F_GETOWN)
    C(fcntl, RW, F_SETOWN, 0)
    T(fcntl, "F_SETOWN, then F_GETOWN", { result(fcntl(PIPE_R, F_SETOWN, getpid())); say(fcntl(PIPE_R, F_GETOWN) == getpid() ? " | own" : " | other"); })
    C(fcntl, PIPE_R, F_SETOWN, 999999)
    C(fcntl, PIPE_R, F_GETSIG)
    C(fcntl, PIPE_R, F_SETSIG, SIGUSR1)
    C(fcntl, PIPE_R, F_SETSIG, 100)
    C(fcntl, PIPE_R, F_GETOWN_EX, buffer)
    C(fcntl, RW, F_GETLEASE)
    C(fcntl, RW, F_SETLEASE, F_RDLCK)
    C(fcntl, DIR_FD, F_NOTIFY, DN_CREATE)
    C(fcntl, RW, F_NOTIFY, DN_CREATE)
    C(fcntl, PIPE_R, F_GETPIPE_SZ)
    C(fcntl, PIPE_R, F_SETPIPE_SZ, 4096)
    C(fcntl, PIPE_R, F_SETPIPE_SZ, 65536)
    C(fcntl, PIPE_R, F_SETPIPE_SZ, 1 << 30)
    C(fcntl, PIPE_R, F_SETPIPE_SZ, 0)
    C(fcntl, RW, F_GETPIPE_SZ)
    C(fcntl, RW, F_SETPIPE_SZ, 4096)
    C(fcntl, MEMFD, F_GET_RW_HINT, buffer)
    C(fcntl, RW, 9999)
    T(fcntl, "F_SETFL O_ASYNC sends SIGIO", {
        sigset_t set;
        siginfo_t info = {0};
        sigemptyset(&set);
        sigaddset(&set, SIGIO);
        sigprocmask(SIG_BLOCK, &set, 0);
        fcntl(SOCK, F_SETOWN, getpid());
        result(fcntl(SOCK, F_SETFL, O_ASYNC));
        struct timespec second = {1, 0};
        if (fcntl(SOCK, F_GETFL) & O_ASYNC && write(PEER, "x", 1) == 1)
            some(CALL(rt_sigtimedwait, &set, &info, &second, 8));
    })
    C(flock, RW, LOCK_SH)
    C(flock, RW, LOCK_EX | LOCK_NB)
    C(flock, RW, LOCK_UN)
    C(flock, RW, 0)
    C(flock, RW, 64)
    C(flock, PATH_FD, LOCK_SH)
    C(flock, PIPE_R, LOCK_SH)
    C(flock, CLOSED, LOCK_SH)
    T(flock, "another's lock", { flock(RW, LOCK_EX); result(flock(RO, LOCK_SH | LOCK_NB)); })
    C(ioctl, RW, FIOCLEX)
    E(show_flags(RW), ioctl, RW, FIONBIO, &both)
    E(show_flags(RW), ioctl, RW, FIONBIO, &whole)
    C(ioctl, RW, FIONBIO, BAD)
    E(show_bytes(buffer, 4), ioctl, RW, FIONREAD, buffer)
    E(show_bytes(buffer, 4), ioctl, PIPE_R, FIONREAD, buffer)
    E(show_bytes(buffer, 4), ioctl, SOCK, FIONREAD, buffer)
    C(ioctl, EVENT, FIONREAD, buffer)
    C(ioctl, NULL_FD, FIONREAD, buffer)
    C(ioctl, PIPE_R, FIONREAD, BAD)
    E(show_flags(RW), ioctl, RW, FIONCLEX)
    C(ioctl, RW, TCGETS, buffer)
    C(ioctl, PIPE_R, TCSETS, buffer)
    C(ioctl, PIPE_R, TCSETSW, buffer)
    C(ioctl, NULL_FD, TCSETSF, buffer)
    C(ioctl, PIPE_R, TCSBRK, 1)
    C(ioctl, PIPE_R, TCXONC, 0)
    C(ioctl, PIPE_R, TCGETS2, buffer)
    C(ioctl, NULL_FD, TCSETS2, buffer)
    C(ioctl, NULL_FD, TCSETSW2, buffer)
    C(ioctl, NULL_FD, TCSETSF2, buffer)
    C(ioctl, PIPE_R, TCFLSH, 0)
    C(ioctl, PIPE_R, TIOCSCTTY, 0)
    C(ioctl, RW, TIOCGWINSZ, buffer)
    C(ioctl, RW, TIOCSWINSZ, buffer)
    C(ioctl, PIPE_R, TIOCGPGRP, buffer)
    C(ioctl, PIPE_R, TIOCSPGRP, buffer)
    C(ioctl, NULL_FD, TIOCGSID, buffer)
    C(ioctl, PIPE_R, TIOCNOTTY)
    C(ioctl, PIPE_R, TIOCOUTQ, buffer)
    C(ioctl, RW, FIOASYNC, &whole)
    C(ioctl, RW, 0x12345678, buffer)
    C(ioctl, PATH_FD, FIONREAD, buffer)
    C(ioctl, CLOSED, FIOCLEX)
}

static void pipes_and_others(void) {
    E({ show_flags(both[0]); show_flags(both[1]); }, pipe, both)
    C(pipe, BAD)
    E({ show_flags(both[0]); show_flags(both[1]); }, pipe2, both, O_CLOEXEC | O_NONBLOCK)
    E({ show_flags(both[0]); show_flags(both[1]); }, pipe2, both, O_DIRECT)
    C(pipe2, both, O_APPEND)
    C(pipe2, both, 1 << 30)
    E(show_open(), pipe2, BAD, 0)
    T(pipe2, "O_DIRECT keeps messages apart", {
        result(pipe2(both, O_DIRECT));
        if (write(both[1], "ab", 2) == 2 && write(both[1], "cd", 2) == 2)
            say(" | %d", (int)read(both[0], buffer, 100));
    })
    E(show_flags(3), eventfd, 5)
    E(show_flags(3), eventfd2, 5, EFD_CLOEXEC | EFD_NONBLOCK)
    E(show_flags(3), eventfd2, 5, EFD_SEMAPHORE)
    C(eventfd2, 5, 1 << 20)
    C(eventfd2, 5, O_APPEND)
    T(eventfd2, "a semaphore", {
        int fd = eventfd(5, EFD_SEMAPHORE);
        result(read(fd, buffer, 8));
        show_bytes(buffer, 8);
    })
    E(show_flags(3), memfd_create, "name", 0)
    E(show_flags(3), memfd_create, "name", MFD_CLOEXEC)
    E(say(" | %d", fcntl(3, F_GET_SEALS)), memfd_create, "name", 0)
    E(say(" | %d", fcntl(3, F_GET_SEALS)), memfd_create, "name", MFD_ALLOW_SEALING)
    E(say(" | %d", fcntl(3, F_GET_SEALS)), memfd_create, "name", MFD_NOEXEC_SEAL)
    E(say(" | %d", fcntl(3, F_GET_SEALS)), memfd_create, "name", MFD_EXEC)
    C(memfd_create, "name", MFD_EXEC | MFD_NOEXEC_SEAL)
    C(memfd_create, "name", 1 << 9)
    C(memfd_create, "name", 1U << 31)
    C(memfd_create, BAD, 0)
    T(memfd_create, "a name that is too long", {
        char name[300];
        memset(name, 'n', 299);
        name[299] = 0;
        result(CALL(memfd_create, name, 0));
    })
    C(fcntl, MEMFD, F_GET_SEALS)
    C(fcntl, RW, F_GET_SEALS)
    C(fcntl, PIPE_R, F_GET_SEALS)
    E(say(" | %d", fcntl(MEMFD, F_GET_SEALS)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_SEAL)
    E(say(" | %d", ftruncate(MEMFD, 4096)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_SHRINK)
    E(say(" | %d", ftruncate(MEMFD, 16384)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_SHRINK)
    E(say(" | %d", ftruncate(MEMFD, 16384)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_GROW)
    E(say(" | %d", ftruncate(MEMFD, 4096)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_GROW)
    E(say(" | %d", (int)pwrite(MEMFD, "x", 1, 9000)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_GROW)
    E(say(" | %d", (int)pwrite(MEMFD, "xyz", 3, 8190)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_GROW)
    E(say(" | %d", fallocate(MEMFD, 0, 0, 16384)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_GROW)
    E(say(" | %d", fallocate(MEMFD, FALLOC_FL_KEEP_SIZE, 0, 16384)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_GROW)
    E(say(" | %s", write(MEMFD, "x", 1) < 0 ? errno_name(errno) : "written"), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_WRITE)
    E(say(" | %d", fallocate(MEMFD, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_WRITE)
    E(say(" | %s", write(MEMFD, "x", 1) < 0 ? errno_name(errno) : "written"), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_FUTURE_WRITE)
    E(say(" | %s", mmap(0, 4096, PROT_WRITE, MAP_SHARED, MEMFD, 0) == MAP_FAILED ? errno_name(errno) : "mapped"), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_WRITE)
    E(say(" | %s", mmap(0, 4096, PROT_WRITE, MAP_SHARED, MEMFD, 0) == MAP_FAILED ? errno_name(errno) : "mapped"), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_FUTURE_WRITE)
    E(say(" | %s", mmap(0, 4096, PROT_WRITE, MAP_PRIVATE, MEMFD, 0) == MAP_FAILED ? errno_name(errno) : "mapped"), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_WRITE)
    T(fcntl, "a sealed memfd cannot be made writable by mprotect", {
        fcntl(MEMFD, F_ADD_SEALS, F_SEAL_WRITE);
        void *at = mmap(0, 4096, PROT_READ, MAP_SHARED, MEMFD, 0);
        some((long)at);
        say(" | %s", mprotect(at, 4096, PROT_READ | PROT_WRITE) ? errno_name(errno) : "writable");
    })
    T(fcntl, "F_SEAL_WRITE while a mapping may write", {
        mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, 0);
        result(fcntl(MEMFD, F_ADD_SEALS, F_SEAL_WRITE));
        say(" | %d", fcntl(MEMFD, F_GET_SEALS));
    })
    T(fcntl, "F_SEAL_WRITE while a mapping reads and may come to write", {
        mmap(0, 4096, PROT_READ, MAP_SHARED, MEMFD, 0);
        result(fcntl(MEMFD, F_ADD_SEALS, F_SEAL_WRITE));
    })
    T(fcntl, "F_SEAL_WRITE while a private mapping writes", {
        mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, MEMFD, 0);
        result(fcntl(MEMFD, F_ADD_SEALS, F_SEAL_WRITE));
    })
    T(fcntl, "F_SEAL_FUTURE_WRITE leaves earlier mappings", {
        char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, 0);
        result(fcntl(MEMFD, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
        *at = 'x';
        say(" | %d", (int)pread(MEMFD, buffer, 1, 0));
        show_bytes(buffer, 1);
    })
    T(fcntl, "F_SEAL_WRITE in a process that mapped it, after a fork", {
        char *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, MEMFD, 0);
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        munmap(at, 4096);
        result(fcntl(MEMFD, F_ADD_SEALS, F_SEAL_WRITE));
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
        result(fcntl(MEMFD, F_ADD_SEALS, F_SEAL_WRITE));
    })
    T(fcntl, "seals of a descriptor opened for reading", {
        int fd = open("/proc/self/fd/24", O_RDONLY);
        result(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
    })
    E(say(" | %d", fcntl(MEMFD, F_ADD_SEALS, F_SEAL_SHRINK)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_GROW)
    C(fcntl, MEMFD, F_ADD_SEALS, 1 << 20)
    E(say(" | %d", fcntl(MEMFD, F_GET_SEALS)), fcntl, MEMFD, F_ADD_SEALS, F_SEAL_EXEC)
    C(fcntl, RW, F_ADD_SEALS, F_SEAL_SHRINK)
    C(fcntl, CLOSED, F_ADD_SEALS, F_SEAL_SHRINK)
}

static void moving(void) {
    static long at = 2, beyond = 100, wrong = -1;
    C(sendfile, PIPE_W, RW, 0, 5)
    E(say(" | %ld", at), sendfile, PIPE_W, RW, &at, 5)
    C(sendfile, PIPE_W, RW, &beyond, 5)
    C(sendfile, PIPE_W, RW, &wrong, 5)
    C(sendfile, PIPE_W, RW, BAD, 5)
    C(sendfile, RO, RW, 0, 5)
    C(sendfile, PIPE_W, WO, 0, 5)
    C(sendfile, PIPE_W, PIPE_R, 0, 5)
    C(sendfile, APPEND, RW, 0, 5)
    C(sendfile, CLOSED, RW, 0, 5)
    C(splice, PIPE_R, 0, RW, 0, 4, 0)
    C(splice, RW, 0, PIPE_W, 0, 4, 0)
    E(say(" | %ld", at), splice, RW, &at, PIPE_W, 0, 4, SPLICE_F_MOVE | SPLICE_F_MORE)
    C(splice, PIPE_R, 0, PIPE_W, 0, 4, 0)
    C(splice, PIPE_R, &at, RW, 0, 4, 0)
    C(splice, RW, 0, WO, 0, 4, 0)
    C(splice, PIPE_R, 0, RW, 0, 4, 1 << 20)
    C(splice, PIPE_R, 0, APPEND, 0, 4, 0)
    C(splice, PIPE_R, 0, RO, 0, 4, 0)
    C(splice, PIPE_R, 0, RW, 0, 0, 0)
    C(splice, CLOSED, 0, RW, 0, 4, 0)
    T(splice, "SPLICE_F_NONBLOCK of an empty pipe", { pipe(both); result(splice(both[0], 0, RW, 0, 4, SPLICE_F_NONBLOCK)); })
    T(tee, "to another pipe", { pipe(both); result(tee(PIPE_R, both[1], 4, 0)); say(" | %d", (int)read(PIPE_R, buffer, 9)); })
    C(tee, PIPE_R, PIPE_W, 4, 0)
    C(tee, PIPE_R, RW, 4, 0)
    C(tee, PIPE_R, PIPE_W, 4, 1 << 20)
    C(tee, CLOSED, PIPE_W, 4, 0)
    T(copy_file_range, "to another file", { int fd = open("new", O_RDWR | O_CREAT, 0600); result(copy_file_range(RW, 0, fd, 0, 100, 0)); show_path("new"); })
    C(copy_file_range, RW, 0, WO, 0, 4, 0)
    C(copy_file_range, RW, 0, WO, &beyond, 4, 0)
    C(copy_file_range, RW, 0, WO, &beyond, 4, 1)
    C(copy_file_range, RW, 0, APPEND, &beyond, 4, 0)
    C(copy_file_range, RW, 0, RO, &beyond, 4, 0)
    C(copy_file_range, WO, 0, RW, &beyond, 4, 0)
    C(copy_file_range, DIR_FD, 0, RW, 0, 4, 0)
    C(copy_file_range, PIPE_R, 0, RW, 0, 4, 0)
    C(copy_file_range, CLOSED, 0, RW, 0, 4, 0)
}

static void limits(void) {
#define LIMITED(resource, value) ({ struct rlimit one = {value, value}; setrlimit(resource, &one); })
    T(open, "RLIMIT_NOFILE", { LIMITED(RLIMIT_NOFILE, 28); int last = 0; for (int fd; (fd = open("file", O_RDONLY)) >= 0;) last = fd; say(" | last %d %s", last, errno_name(errno)); })
    T(eventfd, "RLIMIT_NOFILE", { LIMITED(RLIMIT_NOFILE, 3); result(CALL(eventfd, 5)); })
    T(dup2, "RLIMIT_NOFILE", { LIMITED(RLIMIT_NOFILE, 28); result(dup2(RW, 28)); result(dup2(RW, 27)); result(fcntl(RW, F_DUPFD, 28)); })
    T(write, "RLIMIT_FSIZE ends with SIGXFSZ", { LIMITED(RLIMIT_FSIZE, 10); result(pwrite(RW, "0123456789", 10, 16)); })
    T(write, "RLIMIT_FSIZE, SIGXFSZ ignored", {
        signal(SIGXFSZ, SIG_IGN);
        ftruncate(RW, 0);
        LIMITED(RLIMIT_FSIZE, 10);
        result(write(RW, "0123456", 7));
        result(write(RW, "0123456", 7));
        result(write(RW, "0123456", 7));
        show_file(RW);
    })
    T(ftruncate, "RLIMIT_FSIZE", {
        signal(SIGXFSZ, SIG_IGN);
        LIMITED(RLIMIT_FSIZE, 10);
        result(ftruncate(RW, 11));
        result(ftruncate(RW, 10));
        result(ftruncate(RW, 12));
    })
    T(fallocate, "RLIMIT_FSIZE", { signal(SIGXFSZ, SIG_IGN); LIMITED(RLIMIT_FSIZE, 10); result(fallocate(RW, 0, 0, 100)); })
    T(sendfile, "RLIMIT_FSIZE", { signal(SIGXFSZ, SIG_IGN); LIMITED(RLIMIT_FSIZE, 4); int fd = open("empty", O_WRONLY); result(sendfile(fd, RW, 0, 10)); result(sendfile(fd, RW, 0, 10)); })
    T(write, "RLIMIT_FSIZE does not concern pipes", { LIMITED(RLIMIT_FSIZE, 1); result(write(PIPE_W, "0123456", 7)); })
    T(write, "RLIMIT_FSIZE and a memfd", { signal(SIGXFSZ, SIG_IGN); LIMITED(RLIMIT_FSIZE, 4096); result(pwrite(MEMFD, "0123456", 7, 8192)); })
}

void descriptors(void) {
    copies();
    pipes_and_others();
    moving();
    limits();
}
