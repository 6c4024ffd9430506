//! What the kernel implements; `docs/syscalls.md` is generated from this list.

use crate::Syscall;
use crate::Syscall as S;

/// The system calls the kernel answers with more than `ENOSYS`.
#[rustfmt::skip]
pub const IMPLEMENTED: &[Syscall] = &[
    S::Accept, S::Accept4, S::Access, S::Alarm, S::ArchPrctl, S::Bind, S::Brk, S::Capget, S::Capset, S::Chdir, S::Chmod, S::Chown,
    S::Chroot, S::ClockGetres, S::ClockGettime, S::ClockNanosleep, S::Clone, S::Clone3, S::Close, S::CloseRange,
    S::Connect, S::CopyFileRange, S::Creat, S::Dup, S::Dup2, S::Dup3, S::EpollCreate, S::EpollCreate1, S::EpollCtl,
    S::EpollPwait, S::EpollPwait2, S::EpollWait, S::Eventfd, S::Eventfd2, S::Execve, S::Execveat, S::Exit,
    S::ExitGroup, S::Faccessat, S::Faccessat2, S::Fadvise64, S::Fallocate, S::Fchdir, S::Fchmod, S::Fchmodat,
    S::Fchmodat2, S::Fchown, S::Fchownat, S::Fcntl, S::Fdatasync, S::Flock, S::Fork, S::Fstat, S::Fstatfs, S::Fsync,
    S::Ftruncate, S::Futex, S::Futimesat, S::GetMempolicy, S::GetRobustList, S::Getcpu, S::Getcwd, S::Getdents64, S::Getegid,
    S::Geteuid, S::Getgid, S::Getgroups, S::Getitimer, S::Getpeername, S::Getpgid, S::Getpgrp, S::Getpid, S::Getppid,
    S::Getpriority, S::Getrandom, S::Getresgid, S::Getresuid, S::Getrlimit, S::Getrusage, S::Getsid, S::Getsockname,
    S::Getsockopt, S::Gettid, S::Gettimeofday, S::Getuid, S::InotifyAddWatch, S::InotifyInit, S::InotifyInit1, S::InotifyRmWatch,
    S::Ioctl, S::Kill, S::Lchown, S::Link, S::Linkat, S::Listen,
    S::Lseek, S::Lstat, S::Madvise, S::Mbind, S::Membarrier, S::MemfdCreate, S::MigratePages, S::Mincore, S::Mkdir, S::Mkdirat,
    S::Mknod, S::Mknodat, S::Mlock, S::Mlock2, S::Mlockall, S::Mmap, S::Mount, S::MovePages, S::Mprotect, S::Mremap,
    S::MqGetsetattr, S::MqNotify, S::MqOpen, S::MqTimedreceive, S::MqTimedsend, S::MqUnlink, S::Msgctl, S::Msgget, S::Msgrcv, S::Msgsnd, S::Msync, S::Munlock, S::Munlockall, S::Munmap, S::Nanosleep,
    S::Newfstatat, S::Open, S::Openat, S::Openat2, S::Pause, S::Personality, S::PidfdGetfd, S::PidfdOpen,
    S::PidfdSendSignal, S::Pipe, S::Pipe2, S::Poll, S::Ppoll, S::Prctl, S::Pread64, S::Preadv, S::Preadv2,
    S::Prlimit64,
    S::Pselect6, S::Pwrite64, S::Pwritev, S::Pwritev2, S::Read, S::Readahead, S::Readlink, S::Readlinkat, S::Readv,
    S::Recvfrom, S::Recvmmsg, S::Recvmsg, S::Rename, S::Renameat, S::Renameat2, S::RiscvFlushIcache, S::RiscvHwprobe, S::Rmdir,
    S::RtSigaction, S::RtSigpending, S::RtSigprocmask, S::RtSigqueueinfo, S::RtSigreturn, S::RtSigsuspend,
    S::RtSigtimedwait, S::RtTgsigqueueinfo, S::SchedGetPriorityMax, S::SchedGetPriorityMin, S::SchedGetaffinity,
    S::SchedGetattr, S::SchedGetparam, S::SchedGetscheduler, S::SchedRrGetInterval, S::SchedSetaffinity, S::SchedSetattr,
    S::SchedSetparam, S::SchedSetscheduler, S::SchedYield, S::Select, S::Semctl, S::Semget, S::Semop, S::Semtimedop,
    S::Sendfile, S::Sendmmsg, S::Sendmsg, S::Sendto, S::SetMempolicy, S::SetRobustList, S::SetTidAddress, S::Setfsgid, S::Setfsuid, S::Setgid, S::Setgroups, S::Setitimer,
    S::Setpgid, S::Setpriority, S::Setregid, S::Setresgid, S::Setresuid, S::Setreuid, S::Setrlimit, S::Setsid,
    S::Setsockopt, S::Setuid, S::Shmat, S::Shmctl, S::Shmdt, S::Shmget, S::Shutdown, S::Sigaltstack, S::Signalfd,
    S::Signalfd4, S::Socket, S::Socketpair, S::Splice, S::Stat, S::Statfs, S::Statx, S::Symlink, S::Symlinkat,
    S::Sync, S::SyncFileRange, S::Syncfs, S::Sysinfo, S::Tee, S::Tgkill, S::Time, S::TimerCreate, S::TimerDelete,
    S::TimerGetoverrun, S::TimerGettime, S::TimerSettime, S::TimerfdCreate,
    S::TimerfdGettime, S::TimerfdSettime, S::Times, S::Tkill, S::Truncate, S::Umask, S::Umount2, S::Uname, S::Unlink,
    S::Unlinkat, S::Unshare, S::Utime, S::Utimensat, S::Utimes, S::Vfork, S::Wait4, S::Waitid, S::Write, S::Writev,
];
