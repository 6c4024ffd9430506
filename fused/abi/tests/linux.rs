//! Numbers and layouts against the `libc` and `linux-raw-sys` crates (generated from Linux's headers) for x86-64, and
//! against what the AArch64 and RISC-V headers gave when compiled (`linux-libc-dev-*-cross` 6.1).
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::mem::{offset_of, size_of};

use linux_raw_sys::{auxvec, general, ioctl, system};
use motet_abi::wire::Wire;
use motet_abi::{Errno, elf, file, inotify, ipc, process, signal, system as sys, terminal, time};
use motet_layout::Isa;

/// Our structure has the size of theirs and each named field of it at the same place.
macro_rules! same_layout {
    ($ours:ty, $theirs:ty $(, $our_field:ident = $($their_field:ident).+)* $(,)?) => {
        assert_eq!(<$ours as Wire>::SIZE, size_of::<$theirs>(), stringify!($ours));
        $(
            let (_, offset, _) = *<$ours>::FIELDS.iter().find(|f| f.0 == stringify!($our_field)).unwrap();
            assert_eq!(offset, offset_of!($theirs, $($their_field).+), "{}.{}", stringify!($ours), stringify!($our_field));
        )*
    };
}

/// Our structure, and all fields by their own names.
macro_rules! same_fields {
    ($ours:ty, $theirs:ty: $($field:ident)*) => {
        same_layout!($ours, $theirs, $($field = $field),*);
        assert_eq!(<$ours>::FIELDS.len(), [$(stringify!($field)),*].len(), "not every field of {}", stringify!($ours));
    };
}

macro_rules! same_numbers {
    ($ours:path, $theirs:path: $($name:ident)*) => {{
        use $ours as ours;
        use $theirs as theirs;
        $(assert_eq!(ours::$name as i64, theirs::$name as i64, stringify!($name));)*
    }};
}

#[test]
fn errors() {
    // EDEADLOCK and EWOULDBLOCK are second names.
    for &errno in Errno::ALL {
        // SAFETY: strerrorname_np has no requirements; it returns a static string or null.
        let name = unsafe { strerrorname_np(errno as i32) };
        assert!(!name.is_null(), "{errno}");
        // SAFETY: not null, static, NUL-terminated.
        assert_eq!(unsafe { std::ffi::CStr::from_ptr(name) }.to_str().unwrap(), errno.name());
        assert_eq!(Errno::from_raw(errno as u32), Some(errno));
    }
    assert_eq!(Errno::ALL.len(), 131);
    assert_eq!(Errno::ENOSYS.result(), -38);
    assert_eq!(Errno::from_raw(0), None);
}

unsafe extern "C" {
    fn strerrorname_np(errno: i32) -> *const std::ffi::c_char;
}

#[test]
fn files() {
    same_layout!(
        file::StatX86_64,
        libc::stat,
        st_dev = st_dev,
        st_ino = st_ino,
        st_nlink = st_nlink,
        st_mode = st_mode,
        st_uid = st_uid,
        st_gid = st_gid,
        st_rdev = st_rdev,
        st_size = st_size,
        st_blksize = st_blksize,
        st_blocks = st_blocks,
        st_atime = st_atime,
        st_mtime = st_mtime,
        st_ctime = st_ctime,
    );
    same_fields!(file::Statx, general::statx: stx_mask stx_blksize stx_attributes stx_nlink stx_uid stx_gid stx_mode
        stx_ino stx_size stx_blocks stx_attributes_mask stx_atime stx_btime stx_ctime stx_mtime stx_rdev_major
        stx_rdev_minor stx_dev_major stx_dev_minor stx_mnt_id);
    same_fields!(file::StatxTimestamp, general::statx_timestamp: tv_sec tv_nsec);
    same_fields!(file::Statfs, general::statfs: f_type f_bsize f_blocks f_bfree f_bavail f_files f_ffree f_fsid f_namelen
        f_frsize f_flags);
    same_fields!(file::Flock, general::flock: l_type l_whence l_start l_len l_pid);
    same_fields!(file::Iovec, general::iovec: iov_base iov_len);
    same_numbers!(file, general: O_RDONLY O_WRONLY O_RDWR O_ACCMODE O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK
        O_DSYNC O_DIRECT O_LARGEFILE O_DIRECTORY O_NOFOLLOW O_NOATIME O_CLOEXEC O_SYNC O_PATH O_TMPFILE);
    same_numbers!(file, general: S_IFMT S_IFSOCK S_IFLNK S_IFREG S_IFBLK S_IFDIR S_IFCHR S_IFIFO S_ISUID S_ISGID S_ISVTX
        AT_FDCWD AT_SYMLINK_NOFOLLOW AT_REMOVEDIR AT_EACCESS AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH
        RENAME_NOREPLACE RENAME_EXCHANGE SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE F_DUPFD F_GETFD F_SETFD F_GETFL
        F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN F_SETSIG F_GETSIG F_SETOWN_EX F_GETOWN_EX F_OWNER_TID F_OWNER_PID F_OWNER_PGRP F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS
        F_GET_SEALS FD_CLOEXEC LOCK_SH LOCK_EX LOCK_NB LOCK_UN STATX_BASIC_STATS STATX_BTIME);
    same_numbers!(file, libc: CLOSE_RANGE_CLOEXEC F_OK R_OK W_OK X_OK PATH_MAX O_ASYNC TMPFS_MAGIC PROC_SUPER_MAGIC);
}

#[test]
fn stat_of_the_generic_isas() {
    let offset = |name| file::StatGeneric::FIELDS.iter().find(|f| f.0 == name).unwrap().1;
    let expected =
        [("st_rdev", 32), ("st_size", 48), ("st_blksize", 56), ("st_blocks", 64), ("st_atime", 72), ("st_ctime", 104)];
    expected.into_iter().for_each(|(name, at)| assert_eq!(offset(name), at, "{name}"));
    assert_eq!(file::stat_size(Isa::AArch64), 128);
    assert_eq!(file::stat_size(Isa::RiscV64), 128);
    let (bytes, len) = file::Stat { mode: 0o100644, links: 3, size: 77, ..Default::default() }.encode(Isa::RiscV64);
    let back = file::StatGeneric::take(&bytes[..len]);
    assert_eq!((back.st_mode, back.st_nlink, back.st_size), (0o100644, 3, 77));
}

#[test]
fn devices_encode_as_libc_makes_them() {
    for (major, minor) in [(0, 0), (1, 3), (5, 1), (136, 700), (4095, 0xf_ffff)] {
        let device = file::Device { major, minor };
        assert_eq!(u64::from(device.encode()), libc::makedev(major, minor));
        assert_eq!(file::Device::decode(device.encode()), device);
    }
}

#[test]
fn open_flags_move_on_aarch64_only() {
    let all =
        file::O_DIRECTORY | file::O_NOFOLLOW | file::O_DIRECT | file::O_LARGEFILE | file::O_CLOEXEC | file::O_RDWR;
    let values = [
        (file::O_DIRECTORY, 0o40000),
        (file::O_NOFOLLOW, 0o100000),
        (file::O_DIRECT, 0o200000),
        (file::O_LARGEFILE, 0o400000),
    ];
    for (neutral, aarch64) in values {
        assert_eq!(file::open_flags(Isa::AArch64, aarch64), neutral);
        assert_eq!(file::open_flags_for(Isa::AArch64, neutral), aarch64);
    }
    for isa in Isa::ALL {
        assert_eq!(file::open_flags(isa, file::open_flags_for(isa, all)), all);
    }
    assert_eq!(file::open_flags(Isa::RiscV64, all), all);
}

#[test]
fn directory_entries_read_back() {
    let mut buffer = [0xff; 64];
    assert_eq!(file::dirent64(&mut buffer, 7, 9, file::S_IFDIR | 0o755, b"hello"), Some(32));
    assert_eq!(offset_of!(general::linux_dirent64, d_name), 19);
    assert_eq!(offset_of!(general::linux_dirent64, d_type), 18);
    assert_eq!((u64::take(&buffer), i64::take(&buffer[8..]), u16::take(&buffer[16..])), (7, 9, 32));
    assert_eq!(buffer[18], libc::DT_DIR);
    assert_eq!(&buffer[19..32], b"hello\0\0\0\0\0\0\0\0");
    assert_eq!(file::dirent64(&mut buffer[..31], 7, 9, 0, b"hello"), None);
    assert_eq!(file::dirent64(&mut [0; file::DIRENT_MAX], 7, 9, 0, &[b'x'; 300]), Some(file::DIRENT_MAX));
}

#[test]
fn times_and_limits() {
    same_fields!(time::Timespec, libc::timespec: tv_sec tv_nsec);
    same_fields!(time::Timeval, libc::timeval: tv_sec tv_usec);
    same_fields!(time::Itimerval, libc::itimerval: it_interval it_value);
    same_fields!(time::Itimerspec, libc::itimerspec: it_interval it_value);
    same_fields!(time::Tms, libc::tms: tms_utime tms_stime tms_cutime tms_cstime);
    same_fields!(time::Timezone, general::timezone: tz_minuteswest tz_dsttime);
    same_fields!(time::Rusage, libc::rusage: ru_utime ru_stime ru_maxrss ru_minflt ru_majflt ru_inblock ru_oublock ru_nvcsw
        ru_nivcsw);
    same_fields!(time::Rlimit, libc::rlimit: rlim_cur rlim_max);
    same_numbers!(time, libc: CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID
        CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME CLOCK_TAI TIMER_ABSTIME
        RUSAGE_SELF RUSAGE_CHILDREN RUSAGE_THREAD RLIM_INFINITY RLIMIT_CPU RLIMIT_FSIZE RLIMIT_DATA
        RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS RLIMIT_NPROC RLIMIT_NOFILE RLIMIT_MEMLOCK RLIMIT_AS ITIMER_REAL
        ITIMER_VIRTUAL ITIMER_PROF);
    assert_eq!(time::RLIM_NLIMITS, general::RLIM_NLIMITS as usize);
    assert_eq!((time::Timespec::UTIME_NOW, time::Timespec::UTIME_OMIT), (libc::UTIME_NOW, libc::UTIME_OMIT));
    assert_eq!(time::Timespec::from_ns(1_500_000_001).to_ns(), Some(1_500_000_001));
    assert_eq!(time::Timespec { tv_sec: 1, tv_nsec: 1_000_000_000 }.to_ns(), None);
    assert_eq!(time::Timespec { tv_sec: -1, tv_nsec: 0 }.to_ns(), None);
    assert_eq!(time::Timespec { tv_sec: i64::MAX, tv_nsec: 5 }.to_ns(), Some(u64::MAX));
    assert_eq!(time::Timeval { tv_sec: 2, tv_usec: 999_999 }.to_ns(), Some(2_999_999_000));
}

#[test]
fn the_system() {
    same_fields!(sys::Sysinfo, system::sysinfo: uptime loads totalram freeram sharedram bufferram totalswap freeswap procs
        totalhigh freehigh mem_unit);
    assert_eq!(sys::UTSNAME_SIZE, size_of::<system::new_utsname>());
    let name = sys::utsname(Isa::RiscV64, "motet", "6.12.0", &"x".repeat(100));
    assert_eq!(&name[..6], b"Linux\0");
    assert_eq!(&name[4 * 65..4 * 65 + 8], b"riscv64\0");
    assert_eq!(name[4 * 65 - 1], 0);
}

#[test]
fn processes_and_memory() {
    same_fields!(process::Clone3, general::clone_args: flags pidfd child_tid parent_tid exit_signal stack stack_size tls
        set_tid set_tid_size cgroup);
    same_fields!(process::RobustListHead, general::robust_list_head: list futex_offset list_op_pending);
    same_numbers!(process, general: CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PIDFD CLONE_VFORK CLONE_PARENT
        CLONE_THREAD CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID CLONE_CHILD_CLEARTID CLONE_DETACHED
        CLONE_CHILD_SETTID CLONE_CLEAR_SIGHAND CSIGNAL CLONE_ARGS_SIZE_VER0 WNOHANG WUNTRACED WSTOPPED WEXITED WCONTINUED
        WNOWAIT __WALL P_ALL P_PID P_PGID PROT_READ PROT_WRITE PROT_EXEC PROT_GROWSDOWN MAP_SHARED MAP_PRIVATE
        MAP_SHARED_VALIDATE MAP_TYPE MAP_FIXED MAP_ANONYMOUS MAP_32BIT MAP_GROWSDOWN MAP_DENYWRITE MAP_LOCKED
        MAP_NORESERVE MAP_POPULATE MAP_STACK MAP_HUGETLB MAP_FIXED_NOREPLACE MREMAP_MAYMOVE MREMAP_FIXED
        MREMAP_DONTUNMAP MADV_DONTNEED MADV_FREE FUTEX_PRIVATE_FLAG FUTEX_CLOCK_REALTIME FUTEX_WAIT FUTEX_WAKE
        FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP FUTEX_LOCK_PI FUTEX_UNLOCK_PI FUTEX_TRYLOCK_PI FUTEX_WAIT_BITSET
        FUTEX_WAKE_BITSET FUTEX_WAITERS FUTEX_OWNER_DIED FUTEX_TID_MASK FUTEX_BITSET_MATCH_ANY GRND_NONBLOCK GRND_RANDOM
        MFD_CLOEXEC);
    same_numbers!(process, libc: SCHED_OTHER SCHED_FIFO SCHED_RR SCHED_BATCH SCHED_IDLE
        SCHED_DEADLINE SCHED_RESET_ON_FORK PR_SET_PDEATHSIG PR_GET_PDEATHSIG PR_GET_DUMPABLE
        PR_SET_DUMPABLE PR_SET_NAME PR_GET_NAME PR_SET_CHILD_SUBREAPER PR_SET_NO_NEW_PRIVS PR_GET_NO_NEW_PRIVS PR_SET_VMA
        MEMBARRIER_CMD_QUERY MEMBARRIER_CMD_GLOBAL MEMBARRIER_CMD_PRIVATE_EXPEDITED
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

#[test]
fn wait_statuses_are_what_libc_decodes() {
    use process::WaitStatus;
    let exited = WaitStatus::Exited(77).encode() as i32;
    assert!(libc::WIFEXITED(exited) && libc::WEXITSTATUS(exited) == 77);
    let killed = WaitStatus::Signaled(11, true).encode() as i32;
    assert!(libc::WIFSIGNALED(killed) && libc::WTERMSIG(killed) == 11 && libc::WCOREDUMP(killed));
    let stopped = WaitStatus::Stopped(20).encode() as i32;
    assert!(libc::WIFSTOPPED(stopped) && libc::WSTOPSIG(stopped) == 20);
    assert!(libc::WIFCONTINUED(WaitStatus::Continued.encode() as i32));
    for status in [
        WaitStatus::Exited(0),
        WaitStatus::Exited(255),
        WaitStatus::Signaled(9, false),
        WaitStatus::Signaled(6, true),
        WaitStatus::Stopped(19),
        WaitStatus::Continued,
    ] {
        assert_eq!(WaitStatus::decode(status.encode()), status);
    }
    let codes = [
        WaitStatus::Exited(0),
        WaitStatus::Signaled(9, false),
        WaitStatus::Signaled(6, true),
        WaitStatus::Stopped(19),
        WaitStatus::Continued,
    ]
    .map(WaitStatus::cld_code);
    assert_eq!(codes, [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED, libc::CLD_STOPPED, libc::CLD_CONTINUED]);
}

#[test]
fn signals() {
    same_numbers!(signal, libc: SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2
        SIGPIPE SIGALRM SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM
        SIGPROF SIGWINCH SIGIO SIGPWR SIGSYS SIG_BLOCK SIG_UNBLOCK SIG_SETMASK SIG_DFL SIG_IGN SI_USER SI_KERNEL SI_QUEUE
        SI_TIMER SI_TKILL SI_SIGIO BUS_ADRALN BUS_ADRERR TRAP_BRKPT SIGEV_SIGNAL SIGEV_NONE SIGEV_THREAD SIGEV_THREAD_ID);
    same_numbers!(signal, general: SA_NOCLDSTOP SA_NOCLDWAIT SA_SIGINFO SA_RESTORER SA_ONSTACK SA_RESTART SA_NODEFER
        SA_RESETHAND POLL_IN POLL_OUT SS_ONSTACK SS_DISABLE SS_AUTODISARM SEGV_MAPERR SEGV_ACCERR ILL_ILLOPC ILL_ILLOPN FPE_INTDIV);
    same_fields!(signal::SigStack, libc::stack_t: ss_sp ss_flags ss_size);
    assert_eq!(signal::SigAction::size(Isa::X86_64), size_of::<general::kernel_sigaction>());
    assert_eq!(Isa::ALL.map(signal::SigAction::size), [32, 32, 24, 32]);
    assert_eq!(signal::SIGINFO_SIZE, size_of::<libc::siginfo_t>());
    for (signal, action) in [
        (2, signal::DefaultAction::Terminate),
        (11, signal::DefaultAction::Core),
        (17, signal::DefaultAction::Ignore),
        (18, signal::DefaultAction::Continue),
        (19, signal::DefaultAction::Stop),
        (64, signal::DefaultAction::Terminate),
    ] {
        assert_eq!(signal::default_action(signal), action);
    }
}

#[test]
fn sigactions_survive() {
    let action =
        signal::SigAction { handler: 0x1234, flags: signal::SA_RESTART, restorer: 0x5678, mask: 0x8000_0000_0000_0001 };
    for isa in Isa::ALL {
        let bytes = action.encode(isa);
        let back = signal::SigAction::decode(isa, &bytes[..signal::SigAction::size(isa)]);
        assert_eq!(back, signal::SigAction { restorer: back.restorer, ..action });
        assert_eq!(back.restorer, if isa == Isa::RiscV64 { 0 } else { 0x5678 });
    }
    let all = signal::SigAction { mask: u64::MAX, ..action };
    assert_eq!(signal::SigAction::decode(Isa::X86_64, &all.encode(Isa::X86_64)).mask, !0x4_0100);
}

#[test]
fn siginfo_is_where_libc_looks() {
    let info = |cause| {
        let bytes = signal::SigInfo { signal: 17, code: 1, cause }.to_bytes();
        // SAFETY: siginfo_t is plain data of this size.
        unsafe { std::mem::transmute::<[u8; 128], libc::siginfo_t>(bytes) }
    };
    let child = info(signal::SigCause::Child { pid: 5, uid: 6, status: 7, user_time: 8, system_time: 9 });
    assert_eq!((child.si_signo, child.si_errno, child.si_code), (17, 0, 1));
    // SAFETY: the accessors read the bytes that belong to the cause.
    unsafe {
        assert_eq!((child.si_pid(), child.si_uid(), child.si_status()), (5, 6, 7));
        assert_eq!((child.si_utime(), child.si_stime()), (8, 9));
        assert_eq!(info(signal::SigCause::Fault { address: 0x1234 }).si_addr() as usize, 0x1234);
        let queued = info(signal::SigCause::Queued { pid: 1, uid: 2, value: 0x99 });
        assert_eq!((queued.si_pid(), queued.si_uid(), queued.si_value().sival_ptr as usize), (1, 2, 0x99));
        let sender = info(signal::SigCause::Sender { pid: 3, uid: 4 });
        assert_eq!((sender.si_pid(), sender.si_uid()), (3, 4));
    }
}

#[test]
fn terminals_and_polling() {
    same_fields!(terminal::Termios, general::termios: c_iflag c_oflag c_cflag c_lflag c_line c_cc);
    same_fields!(terminal::Winsize, general::winsize: ws_row ws_col ws_xpixel ws_ypixel);
    same_fields!(terminal::Pollfd, general::pollfd: fd events revents);
    same_numbers!(terminal, ioctl: TCGETS TCSETS TCSETSW TCSETSF TCSBRK TCXONC TCFLSH TIOCSCTTY TIOCGPGRP TIOCSPGRP TIOCOUTQ
        TIOCGWINSZ TIOCSWINSZ FIONREAD FIONBIO FIOASYNC FIOSETOWN SIOCSPGRP FIOGETOWN SIOCGPGRP TIOCNOTTY TIOCGSID FIONCLEX FIOCLEX TIOCEXCL TIOCNXCL TIOCSTI TIOCPKT
        TIOCSETD TIOCGETD TIOCGPTN TIOCSPTLCK TIOCGPTLCK TIOCGPKT TIOCGEXCL TIOCGPTPEER TIOCGDEV
        TIOCGLCKTRMIOS);
    same_numbers!(terminal, general: BRKINT IGNCR ICRNL INLCR ISTRIP IXON IXANY IMAXBEL IUTF8 OPOST ONLCR OCRNL B38400 CS8
        CREAD ISIG ICANON ECHO ECHOE ECHOK ECHONL NOFLSH TOSTOP ECHOCTL ECHOKE IEXTEN VINTR VQUIT VERASE VKILL VEOF VTIME
        VMIN VSTART VSTOP VSUSP VEOL VREPRINT VWERASE VLNEXT VEOL2 POLLIN POLLPRI POLLOUT POLLERR POLLHUP POLLNVAL
        POLLRDNORM POLLRDBAND POLLWRNORM POLLWRBAND POLLRDHUP EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD);
    same_numbers!(terminal, libc: FD_SETSIZE);
    assert_eq!(terminal::EPOLLET, libc::EPOLLET as u32);
    assert_eq!(terminal::EPOLLONESHOT, libc::EPOLLONESHOT as u32);
    assert_eq!(terminal::EpollEvent::size(Isa::X86_64), size_of::<libc::epoll_event>());
    assert_eq!(Isa::ALL.map(terminal::EpollEvent::size), [12, 16, 16, 16]);
    let event = terminal::EpollEvent { events: 5, data: u64::MAX - 7 };
    for isa in Isa::ALL {
        assert_eq!(terminal::EpollEvent::decode(isa, &event.encode(isa)), event);
    }
}

#[test]
fn executables_and_the_first_stack() {
    same_numbers!(elf, auxvec: AT_NULL AT_PHDR AT_PHENT AT_PHNUM AT_PAGESZ AT_BASE AT_FLAGS AT_ENTRY AT_UID AT_EUID AT_GID
        AT_EGID AT_PLATFORM AT_HWCAP AT_CLKTCK AT_SECURE AT_RANDOM AT_HWCAP2 AT_EXECFN AT_SYSINFO_EHDR AT_MINSIGSTKSZ);
    same_numbers!(elf, libc: EM_X86_64 EM_AARCH64 EM_RISCV);
    for isa in Isa::ALL {
        assert_eq!(elf::isa_of_machine(elf::machine_of_isa(isa)), Some(isa));
    }
    assert_eq!(elf::isa_of_machine(40), None);
}

#[test]
fn capabilities() {
    assert_eq!(sys::hwcap(Isa::X86_64, "fpu tsc sse sse2 nonsense fsgsbase"), (1 | 1 << 4 | 3 << 25, 2));
    // HWCAP_FP, HWCAP_ASIMD, HWCAP_ATOMICS, HWCAP_SSBS, HWCAP_PACG; HWCAP2_BTI.
    let aarch64 = (1 | 2 | 0x100 | 0x1000_0000 | 0x8000_0000, 0x2_0000);
    assert_eq!(sys::hwcap(Isa::AArch64, "fp asimd atomics ssbs pacg bti"), aarch64);
    let imafdc = 0x112d; // as in Linux's documentation of AT_HWCAP for rv64imafdc
    assert_eq!(sys::hwcap(Isa::RiscV64, "rv64imafdc_zicsr_zba"), (imafdc, 0));
    assert_eq!(sys::hwcap(Isa::RiscV64, "rv64imafdcvh_zba").0, imafdc | 1 << 21);
    assert_eq!(sys::riscv_hwprobe(3, sys::riscv_extensions("rv64imafdc")), Some(1));
    assert_eq!(sys::riscv_hwprobe(4, sys::riscv_extensions("rv64imafdcv_zba_zicsr_zbs")), Some(0b10_1111));
    assert_eq!(sys::riscv_hwprobe(99, sys::riscv_extensions("rv64imafdc")), None);
}

#[test]
fn ipc_of_system_v() {
    same_layout!(
        ipc::IpcPerm,
        libc::ipc_perm,
        key = __key,
        uid = uid,
        gid = gid,
        cuid = cuid,
        cgid = cgid,
        mode = mode,
        seq = __seq
    );
    same_layout!(
        ipc::ShmidDs,
        libc::shmid_ds,
        shm_perm = shm_perm,
        shm_segsz = shm_segsz,
        shm_atime = shm_atime,
        shm_dtime = shm_dtime,
        shm_ctime = shm_ctime,
        shm_cpid = shm_cpid,
        shm_lpid = shm_lpid,
        shm_nattch = shm_nattch
    );
    same_layout!(
        ipc::SemidX86_64,
        libc::semid_ds,
        sem_perm = sem_perm,
        sem_otime = sem_otime,
        sem_ctime = sem_ctime,
        sem_nsems = sem_nsems
    );
    same_layout!(
        ipc::MsqidDs,
        libc::msqid_ds,
        msg_perm = msg_perm,
        msg_stime = msg_stime,
        msg_rtime = msg_rtime,
        msg_ctime = msg_ctime,
        msg_cbytes = __msg_cbytes,
        msg_qnum = msg_qnum,
        msg_qbytes = msg_qbytes,
        msg_lspid = msg_lspid,
        msg_lrpid = msg_lrpid
    );
    same_fields!(inotify::InotifyEvent, libc::inotify_event: wd mask cookie len);
    same_numbers!(inotify, libc: IN_ACCESS IN_MODIFY IN_ATTRIB IN_CLOSE_WRITE IN_CLOSE_NOWRITE IN_OPEN IN_MOVED_FROM
        IN_MOVED_TO IN_CREATE IN_DELETE IN_DELETE_SELF IN_MOVE_SELF IN_UNMOUNT IN_Q_OVERFLOW IN_IGNORED IN_ONLYDIR
        IN_DONT_FOLLOW IN_EXCL_UNLINK IN_MASK_CREATE IN_MASK_ADD IN_ISDIR IN_ONESHOT IN_ALL_EVENTS);
    same_fields!(ipc::Sembuf, libc::sembuf: sem_num sem_op sem_flg);
    same_fields!(ipc::Seminfo, libc::seminfo: semmap semmni semmns semmnu semmsl semopm semume semusz semvmx semaem);
    same_fields!(ipc::Msginfo, libc::msginfo: msgpool msgmap msgmax msgmnb msgmni msgssz msgtql msgseg);
    same_numbers!(ipc, libc: IPC_PRIVATE IPC_CREAT IPC_EXCL IPC_NOWAIT IPC_RMID IPC_SET IPC_STAT IPC_INFO SHM_HUGETLB
        SHM_NORESERVE SHM_RDONLY SHM_RND SHM_REMAP SHM_EXEC SHM_LOCK SHM_UNLOCK SEM_UNDO GETPID GETVAL GETALL GETNCNT
        GETZCNT SETVAL SETALL SEM_STAT SEM_INFO SEM_STAT_ANY MSG_STAT MSG_INFO MSG_NOERROR MSG_EXCEPT MSG_COPY);
    assert_eq!((ipc::MSG_STAT_ANY, ipc::SHM_STAT, ipc::SHM_INFO, ipc::SHM_STAT_ANY), (13, 13, 14, 15)); // which `libc` has not
}

/// As `linux-libc-dev-arm64-cross` and `-riscv64-cross` have it: the times of a set of semaphores are one word each.
#[test]
fn sets_of_semaphores_of_the_generic_isas() {
    let set = ipc::SemidDs { otime: 1, ctime: 2, nsems: 3, ..Default::default() };
    for (isa, size, places) in
        [(Isa::X86_64, 104, [48, 64, 80]), (Isa::AArch64, 88, [48, 56, 64]), (Isa::RiscV64, 88, [48, 56, 64])]
    {
        let (bytes, len) = set.encode(isa);
        assert_eq!(len, size);
        assert_eq!(places.map(|at: usize| bytes[at]), [1, 2, 3]);
    }
}
