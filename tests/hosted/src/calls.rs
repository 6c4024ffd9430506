//! System-call numbers that the programs use, per ISA.

use motet_layout::Isa;

macro_rules! calls {
    ($($(#[$meta:meta])* $name:ident $x86_64:literal $generic:literal;)*) => {
        /// A system call.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Sys { $($(#[$meta])* $name,)* }

        impl Sys {
            /// Its number on `isa` (hosted islands use the generic table).
            pub const fn number(self, isa: Isa) -> u64 {
                let (x86_64, generic) = match self { $(Self::$name => ($x86_64, $generic),)* };
                match isa {
                    Isa::X86_64 => x86_64,
                    Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => generic,
                }
            }
        }
    };
}
calls! {
    /// `read`
    Read 0 63;
    /// `write`
    Write 1 64;
    /// `lseek`
    Lseek 8 62;
    /// `mremap`
    Mremap 25 216;
    /// `chdir`
    Chdir 80 49;
    /// `chroot`
    Chroot 161 51;
    /// `getcwd`
    Getcwd 79 17;
    /// `pread64`
    Pread64 17 67;
    /// `pwrite64`
    Pwrite64 18 68;
    /// `ftruncate`
    Ftruncate 77 46;
    /// `epoll_create1`
    EpollCreate1 291 20;
    /// `epoll_ctl`
    EpollCtl 233 21;
    /// `epoll_pwait`
    EpollPwait 281 22;
    /// `inotify_init1`
    InotifyInit1 294 26;
    /// `inotify_add_watch`
    InotifyAddWatch 254 27;
    /// `inotify_rm_watch`
    InotifyRmWatch 255 28;
    /// `pidfd_send_signal`
    PidfdSendSignal 424 424;
    /// `pidfd_open`
    PidfdOpen 434 434;
    /// `pidfd_getfd`
    PidfdGetfd 438 438;
    /// `waitid`
    Waitid 247 95;
    /// `timer_create`
    TimerCreate 222 107;
    /// `timer_settime`
    TimerSettime 223 110;
    /// `timer_gettime`
    TimerGettime 224 108;
    /// `timer_getoverrun`
    TimerGetoverrun 225 109;
    /// `timer_delete`
    TimerDelete 226 111;
    /// `setitimer`
    Setitimer 38 103;
    /// `rt_sigprocmask`
    RtSigprocmask 14 135;
    /// `rt_sigtimedwait`
    RtSigtimedwait 128 137;
    /// `timerfd_create`
    TimerfdCreate 283 85;
    /// `timerfd_settime`
    TimerfdSettime 286 86;
    /// `timerfd_gettime`
    TimerfdGettime 287 87;
    /// `socket`
    Socket 41 198;
    /// `socketpair`
    Socketpair 53 199;
    /// `sendmsg`
    Sendmsg 46 211;
    /// `recvmsg`
    Recvmsg 47 212;
    /// `sendmmsg`
    Sendmmsg 307 269;
    /// `sendto`
    Sendto 44 206;
    /// `recvfrom`
    Recvfrom 45 207;
    /// `shutdown`
    Shutdown 48 210;
    /// `getsockname`
    Getsockname 51 204;
    /// `getpeername`
    Getpeername 52 205;
    /// `setsockopt`
    Setsockopt 54 208;
    /// `getsockopt`
    Getsockopt 55 209;
    /// `bind`
    Bind 49 200;
    /// `listen`
    Listen 50 201;
    /// `connect`
    Connect 42 203;
    /// `accept4`
    Accept4 288 242;
    /// `clock_gettime`
    ClockGettime 228 113;
    /// `ppoll`
    Ppoll 271 73;
    /// `close`
    Close 3 57;
    /// `mkdirat`
    Mkdirat 258 34;
    /// `mknodat`
    Mknodat 259 33;
    /// `unlinkat`
    Unlinkat 263 35;
    /// `renameat2`
    Renameat2 316 276;
    /// `dup3`
    Dup3 292 24;
    /// `pipe2`
    Pipe2 293 59;
    /// `mmap`
    Mmap 9 222;
    /// `mbind`
    Mbind 237 235;
    /// `ioctl`
    Ioctl 16 29;
    /// `openat`
    Openat 257 56;
    /// `mprotect`
    Mprotect 10 226;
    /// `munmap`
    Munmap 11 215;
    /// `sched_yield`
    SchedYield 24 124;
    /// `sched_setaffinity`
    SchedSetaffinity 203 122;
    /// `nanosleep`
    Nanosleep 35 101;
    /// `clone`
    Clone 56 220;
    /// `setresuid`
    Setresuid 117 147;
    /// `prlimit64`
    Prlimit64 302 261;
    /// `execve`
    Execve 59 221;
    /// `exit`
    Exit 60 93;
    /// `wait4`
    Wait4 61 260;
    /// `futex`
    Futex 202 98;
    /// `exit_group`
    ExitGroup 231 94;
    /// `getcpu`
    Getcpu 309 168;
    /// `getpid`
    Getpid 39 172;
    /// `fcntl`
    Fcntl 72 25;
    /// `kill`
    Kill 62 129;
    /// `setpgid`
    Setpgid 109 154;
    /// `rt_sigaction`
    RtSigaction 13 134;
    /// `shmget`
    Shmget 29 194;
    /// `shmat`
    Shmat 30 196;
    /// `shmctl`
    Shmctl 31 195;
    /// `shmdt`
    Shmdt 67 197;
    /// `semget`
    Semget 64 190;
    /// `semop`
    Semop 65 193;
    /// `semctl`
    Semctl 66 191;
    /// `semtimedop`
    Semtimedop 220 192;
    /// `msgget`
    Msgget 68 186;
    /// `umask`
    Umask 95 166;
    /// `mq_open`
    MqOpen 240 180;
    /// `mq_unlink`
    MqUnlink 241 181;
    /// `mq_timedsend`
    MqTimedsend 242 182;
    /// `mq_timedreceive`
    MqTimedreceive 243 183;
    /// `mq_notify`
    MqNotify 244 184;
    /// `msgsnd`
    Msgsnd 69 189;
    /// `msgrcv`
    Msgrcv 70 188;
    /// `msgctl`
    Msgctl 71 187;
    /// `rt_sigreturn`
    RtSigreturn 15 139;
    /// Motet's `call_on`
    CallOn 0x4d00 0x4d00;
    /// Motet's `island`
    Island 0x4d01 0x4d01;
    /// `crossings(busy, missing)`.
    Crossings 0x4d02 0x4d02;
    /// Of the gate alone.
    CallReturn 0x4d05 0x4d05;
    /// `jump(isa, sp, function, first, second)`.
    Jump 0x4d08 0x4d08;
    /// `leave(function, argument)`.
    Leave 0x4d09 0x4d09;
}
