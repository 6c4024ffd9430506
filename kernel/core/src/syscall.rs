//! The system-call table: from a neutral name to its handler.

use motet_layout::sync::{AtomicU32, Ordering};

use motet_abi::{Errno, Syscall, own};
use motet_hal::Machine;

use crate::{
    attend::calls as signals,
    away,
    call::{Call, Stop, SysResult},
    crossing::{self, Awaited},
    extension, file, futex, ipc,
    mm::{advice, calls as memory, locked, mremap, place},
    peers,
    process::{cores, exec, exit, fork, identity, ids, isa, limits, places, prctl, schedule, system, usage, wait},
    random, time,
};

/// Serves system call `number` of the caller's ABI.
///
/// # Errors
/// See [`crate::call::Stop`].
#[inline]
pub fn dispatch<M: Machine>(call: &Call<M>, number: u64) -> SysResult {
    match Syscall::decode(M::ISA, number) {
        Some(name) => serve(call, name),
        // Threads that go from core to core call it each time.
        None if number == own::DONE => extension::done(call),
        None => serve_own(call, number),
    }
}

/// Serves a system call on a core to which its thread has not moved: one that only reads, nothing of it what the thread's own core keeps
/// (as its processor time), and never waits. `None`: it is none of these, or has to go on later; then nothing has been done.
pub fn serve_elsewhere<M: Machine>(call: &Call<M>, number: u64) -> Option<i64> {
    match serve_reading(call, Syscall::decode(M::ISA, number)?)? {
        Ok(value) => Some(value as i64),
        Err(Stop::Error(errno)) => Some(errno.result()),
        Err(Stop::Block | Stop::Page | Stop::Again | Stop::Replaced | Stop::Gone) => None,
    }
}

/// Serves a call that is Motet's own. Not part of [`dispatch`], whose every call would save the registers that these need.
#[inline(never)]
fn serve_own<M: Machine>(call: &Call<M>, number: u64) -> SysResult {
    match number {
        own::CALL_ON => crossing::call_on(call),
        own::CROSSINGS => crossing::set_policy(call),
        own::MIGRATE => crossing::migration::migrate(call),
        own::MIGRATE_BACK => crossing::migration::migrate_back(call),
        own::CALL_RETURN if crossing::is_return(call) => crossing::call_return(call),
        own::JUMP => crossing::jump(call),
        own::LEAVE => crossing::leave(call),
        own::NEED => extension::need(call),
        own::ISLAND if peers::are_there(call.cpu) => Ok(u64::from(peers::own_node(call.cpu))),
        own::ISLAND => Ok(call.cpu.island().index() as u64),
        own::AWAIT => await_other_half(call),
        _ => {
            call.cpu.log(format_args!("no system call has the number {number} on {}", call.isa.name()));
            Err(Errno::ENOSYS.into())
        }
    }
}

/// A half of a thread waits for the other one, in another kernel, and makes its system calls.
#[cold]
fn await_other_half<M: Machine>(call: &Call<M>) -> SysResult {
    let (name, args, isa, away) = match crossing::wait(call) {
        Awaited::Result(result) => return result,
        Awaited::Serve(name, args, isa, away) => (name, args, isa, away),
    };
    let result = match serve_for_remote(&Call { args, isa, ..*call }, name) {
        Ok(value) => value as i64,
        Err(Stop::Error(errno)) => errno.result(),
        Err(stop) => return Err(stop),
    };
    away::reply(call, away, result);
    Err(Stop::Again)
}

/// Serves a system call of a remote half: at home, but for those that are about crossing.
///
/// # Errors
/// See [`crate::call::Stop`].
pub fn dispatch_remote<M: Machine>(call: &Call<M>, number: u64) -> SysResult {
    match Syscall::decode(M::ISA, number) {
        // About registers and caches, which are here.
        Some(name @ (Syscall::ArchPrctl | Syscall::RiscvFlushIcache)) => serve_for_remote(call, name),
        Some(name) => away::forward(call, name),
        None => serve_own(call, number),
    }
}

/// Makes the functions of the table: of each row, the call, who serves it, and whether ([`serve_elsewhere`]) a core may serve it to which the thread has not
/// moved. Each is one match, which compiles to a jump table; calls that Motet does not have share the last arm.
macro_rules! table {
    ($call:ident: $($($name:ident)|+ => $serve:expr $(, $elsewhere:ident $(if $condition:expr)?)?;)*) => {
        fn serve<M: Machine>($call: &Call<M>, name: Syscall) -> SysResult {
            match name {
                $($(Syscall::$name)|+ => $serve,)*
                unknown => not_implemented($call, unknown),
            }
        }

        // Functions of their own: as a second caller of the first one it would make every other call slower.
        #[cold]
        fn serve_for_remote<M: Machine>($call: &Call<M>, name: Syscall) -> SysResult {
            match name {
                $($(Syscall::$name)|+ => $serve,)*
                unknown => not_implemented($call, unknown),
            }
        }

        fn serve_reading<M: Machine>($call: &Call<M>, name: Syscall) -> Option<SysResult> {
            match name {
                $($(Syscall::$name)|+ => table!(@row ($serve) $($elsewhere $(if $condition)?)?),)*
                _ => None,
            }
        }
    };
    (@row ($serve:expr)) => {
        None
    };
    (@row ($serve:expr) elsewhere) => {
        Some($serve)
    };
    (@row ($serve:expr) elsewhere if $condition:expr) => {
        if $condition { Some($serve) } else { None }
    };
}

table! {
    call:
    Brk => memory::brk(call);
    Mmap => memory::mmap(call, |fd, is_written| file::inode_for_mmap(call, fd, is_written));
    Munmap => memory::munmap(call);
    Mprotect => memory::mprotect(call);
    Mremap => mremap::mremap(call);
    Shmget => ipc::shmget(call);
    Shmat => ipc::shmat(call);
    Shmdt => ipc::shmdt(call);
    Shmctl => ipc::shmctl(call);
    Semget => ipc::semget(call);
    Semop => ipc::semop(call);
    Semtimedop => ipc::semtimedop(call);
    Semctl => ipc::semctl(call);
    Msgget => ipc::msgget(call);
    Msgsnd => ipc::msgsnd(call);
    Msgrcv => ipc::msgrcv(call);
    Msgctl => ipc::msgctl(call);
    Madvise => advice::madvise(call);
    Mbind => place::mbind(call);
    SetMempolicy => place::set_mempolicy(call);
    GetMempolicy => place::get_mempolicy(call);
    MigratePages => place::migrate_pages(call);
    MovePages => place::move_pages(call);
    Msync => advice::msync(call);
    Mlock => locked::mlock(call);
    Munlock => locked::munlock(call);
    Mlockall => locked::mlockall(call);
    Munlockall => locked::munlockall(call);
    Mlock2 => locked::mlock2(call);
    Mincore => advice::mincore(call);
    Fork => fork::fork(call);
    Vfork => fork::vfork(call);
    Clone => fork::clone(call);
    Clone3 => fork::clone3(call);
    Execve => exec::execve(call);
    Execveat => exec::execveat(call);
    Exit => exit::exit(call);
    ExitGroup => exit::exit_group(call);
    Wait4 => wait::wait4(call);
    Waitid => wait::waitid(call);
    Getpid => ids::getpid(call), elsewhere;
    Gettid => ids::gettid(call), elsewhere;
    Getppid => ids::getppid(call), elsewhere;
    SetTidAddress => ids::set_tid_address(call);
    Getpgid => ids::getpgid(call), elsewhere;
    Getpgrp => ids::getpgrp(call), elsewhere;
    Getsid => ids::getsid(call), elsewhere;
    Setpgid => ids::setpgid(call);
    Setsid => ids::setsid(call);
    Getuid => identity::getuid(call), elsewhere;
    Geteuid => identity::geteuid(call), elsewhere;
    Getgid => identity::getgid(call), elsewhere;
    Getegid => identity::getegid(call), elsewhere;
    Setuid => identity::setuid(call);
    Setgid => identity::setgid(call);
    Setreuid => identity::setreuid(call);
    Setregid => identity::setregid(call);
    Setresuid => identity::setresuid(call);
    Setresgid => identity::setresgid(call);
    Getresuid => identity::getresuid(call), elsewhere;
    Getresgid => identity::getresgid(call), elsewhere;
    Getgroups => identity::getgroups(call);
    Setgroups => identity::setgroups(call);
    Setfsuid => identity::setfsuid(call);
    Setfsgid => identity::setfsgid(call);
    Capget => identity::capget(call);
    Capset => identity::capset(call);
    Uname => system::uname(call), elsewhere;
    Sysinfo => system::sysinfo(call);
    Getrusage => usage::getrusage(call);
    Prlimit64 => limits::prlimit64(call);
    Getrlimit => limits::getrlimit(call);
    Setrlimit => limits::setrlimit(call);
    SchedGetaffinity => cores::sched_getaffinity(call);
    SchedSetaffinity => cores::sched_setaffinity(call);
    SchedGetscheduler => schedule::sched_getscheduler(call);
    SchedSetscheduler => schedule::sched_setscheduler(call);
    SchedGetparam => schedule::sched_getparam(call);
    SchedSetparam => schedule::sched_setparam(call);
    SchedSetattr => schedule::sched_setattr(call);
    SchedGetattr => schedule::sched_getattr(call);
    SchedRrGetInterval => schedule::sched_rr_get_interval(call);
    SchedGetPriorityMin => schedule::sched_get_priority_min(call);
    SchedGetPriorityMax => schedule::sched_get_priority_max(call);
    Getpriority => schedule::getpriority(call);
    Setpriority => schedule::setpriority(call);
    Getcpu => cores::getcpu(call), elsewhere;
    Prctl => prctl::prctl(call);
    ArchPrctl => isa::arch_prctl(call);
    Membarrier => memory::membarrier(call);
    RiscvFlushIcache => isa::riscv_flush_icache(call);
    RiscvHwprobe => isa::riscv_hwprobe(call);
    Futex => futex::futex(call);
    SetRobustList => futex::set_robust_list(call);
    GetRobustList => futex::get_robust_list(call);
    Getrandom => random::getrandom(call);
    SchedYield => schedule::sched_yield(call);
    RtSigaction => signals::rt_sigaction(call);
    RtSigprocmask => signals::rt_sigprocmask(call);
    RtSigpending => signals::rt_sigpending(call);
    RtSigsuspend => signals::rt_sigsuspend(call);
    RtSigtimedwait => signals::rt_sigtimedwait(call);
    RtSigreturn => signals::rt_sigreturn(call);
    Sigaltstack => signals::sigaltstack(call);
    Kill => signals::kill(call);
    Tkill => signals::tkill(call);
    Tgkill => signals::tgkill(call);
    RtSigqueueinfo => signals::rt_sigqueueinfo(call);
    RtTgsigqueueinfo => signals::rt_tgsigqueueinfo(call);
    ClockGettime => time::clock_gettime(call), elsewhere if time::is_of_machine(call.args[0]);
    ClockGetres => time::clock_getres(call), elsewhere if time::is_of_machine(call.args[0]);
    Gettimeofday => time::gettimeofday(call), elsewhere;
    Time => time::time(call), elsewhere;
    Nanosleep => time::nanosleep(call);
    ClockNanosleep => time::clock_nanosleep(call);
    Pause => time::pause(call);
    Alarm => time::alarm(call);
    Setitimer => time::setitimer(call);
    Getitimer => time::getitimer(call);
    TimerCreate => time::timer_create(call);
    TimerSettime => time::timer_settime(call);
    TimerGettime => time::timer_gettime(call);
    TimerGetoverrun => time::timer_getoverrun(call);
    TimerDelete => time::timer_delete(call);
    Times => time::times(call);
    Read => file::read(call);
    Write => file::write(call);
    Pread64 => file::pread64(call);
    Pwrite64 => file::pwrite64(call);
    Readv => file::readv(call);
    Writev => file::writev(call);
    Preadv => file::preadv(call);
    Pwritev => file::pwritev(call);
    Preadv2 => file::preadv2(call);
    Pwritev2 => file::pwritev2(call);
    Open => file::open(call);
    Openat => file::openat(call);
    Openat2 => file::openat2(call);
    Creat => file::creat(call);
    Close => file::close(call);
    CloseRange => file::close_range(call);
    Lseek => file::lseek(call);
    Stat => file::stat(call);
    Lstat => file::lstat(call);
    Fstat => file::fstat(call);
    Newfstatat => file::newfstatat(call);
    Statx => file::statx(call);
    Access => file::access(call);
    Faccessat => file::faccessat(call);
    Faccessat2 => file::faccessat2(call);
    Getdents64 => file::getdents64(call);
    Getcwd => file::getcwd(call);
    Chdir => file::chdir(call);
    Fchdir => file::fchdir(call);
    Chroot => file::chroot(call);
    Mkdir => file::mkdir(call);
    Mkdirat => file::mkdirat(call);
    Rmdir => file::rmdir(call);
    Link => file::link(call);
    Linkat => file::linkat(call);
    Unlink => file::unlink(call);
    Unlinkat => file::unlinkat(call);
    Symlink => file::symlink(call);
    Symlinkat => file::symlinkat(call);
    Readlink => file::readlink(call);
    Readlinkat => file::readlinkat(call);
    Rename => file::rename(call);
    Renameat => file::renameat(call);
    Renameat2 => file::renameat2(call);
    Truncate => file::truncate(call);
    Ftruncate => file::ftruncate(call);
    Fallocate => file::fallocate(call);
    Chmod => file::chmod(call);
    Fchmod => file::fchmod(call);
    Fchmodat => file::fchmodat(call);
    Fchmodat2 => file::fchmodat2(call);
    Chown => file::chown(call);
    Lchown => file::lchown(call);
    Fchown => file::fchown(call);
    Fchownat => file::fchownat(call);
    Personality => places::personality(call);
    Umask => file::umask(call);
    Utimensat => file::utimensat(call);
    Utimes => file::utimes(call);
    Utime => file::utime(call);
    Futimesat => file::futimesat(call);
    Mknod => file::mknod(call);
    Mknodat => file::mknodat(call);
    Statfs => file::statfs(call);
    Fstatfs => file::fstatfs(call);
    Sync => file::sync(call);
    Fsync => file::fsync(call);
    Fdatasync => file::fdatasync(call);
    Syncfs => file::syncfs(call);
    Pipe => file::pipe(call);
    Pipe2 => file::pipe2(call);
    Dup => file::dup(call);
    Dup2 => file::dup2(call);
    Dup3 => file::dup3(call);
    Fcntl => file::fcntl(call);
    Flock => file::flock(call);
    Ioctl => file::ioctl(call);
    Poll => file::poll(call);
    Ppoll => file::ppoll(call);
    Select => file::select(call);
    Pselect6 => file::pselect6(call);
    Sendfile => file::sendfile(call);
    Splice => file::splice(call);
    Tee => file::tee(call);
    CopyFileRange => file::copy_file_range(call);
    Eventfd => file::eventfd(call);
    Eventfd2 => file::eventfd2(call);
    EpollCreate => file::epoll_create(call);
    EpollCreate1 => file::epoll_create1(call);
    EpollCtl => file::epoll_ctl(call);
    EpollWait => file::epoll_wait(call);
    EpollPwait => file::epoll_pwait(call);
    EpollPwait2 => file::epoll_pwait2(call);
    TimerfdCreate => file::timerfd_create(call);
    TimerfdSettime => file::timerfd_settime(call);
    InotifyInit => file::inotify_init(call);
    InotifyInit1 => file::inotify_init1(call);
    MqOpen => file::mq_open(call);
    MqUnlink => file::mq_unlink(call);
    MqTimedsend => file::mq_timedsend(call);
    MqTimedreceive => file::mq_timedreceive(call);
    MqNotify => file::mq_notify(call);
    MqGetsetattr => file::mq_getsetattr(call);
    InotifyAddWatch => file::inotify_add_watch(call);
    InotifyRmWatch => file::inotify_rm_watch(call);
    PidfdOpen => file::pidfd_open(call);
    PidfdGetfd => file::pidfd_getfd(call);
    PidfdSendSignal => signals::pidfd_send_signal(call);
    Signalfd => file::signalfd(call);
    Signalfd4 => file::signalfd4(call);
    Socket => file::socket(call);
    Socketpair => file::socketpair(call);
    Bind => file::bind(call);
    Listen => file::listen(call);
    Connect => file::connect(call);
    Accept => file::accept(call);
    Accept4 => file::accept4(call);
    Shutdown => file::shutdown(call);
    Sendto => file::sendto(call);
    Sendmsg => file::sendmsg(call);
    Recvfrom => file::recvfrom(call);
    Sendmmsg => file::sendmmsg(call);
    Recvmmsg => file::recvmmsg(call);
    Recvmsg => file::recvmsg(call);
    Getsockname => file::getsockname(call);
    Getpeername => file::getpeername(call);
    Getsockopt => file::getsockopt(call);
    Setsockopt => file::setsockopt(call);
    TimerfdGettime => file::timerfd_gettime(call);
    MemfdCreate => file::memfd_create(call);
    Fadvise64 => file::fadvise64(call);
    SyncFileRange => file::sync_file_range(call);
    Unshare => fork::unshare(call);
    Readahead => file::readahead(call);
    Mount => file::mount(call);
    Umount2 => file::umount2(call);
    // No file system here keeps extended attributes.
    Getxattr
    | Lgetxattr
    | Fgetxattr
    | Setxattr
    | Lsetxattr
    | Fsetxattr
    | Listxattr
    | Llistxattr
    | Flistxattr
    | Removexattr
    | Lremovexattr
    | Fremovexattr => Err(Errno::EOPNOTSUPP.into());
}

/// Calls that programs try and do without.
fn not_implemented<M: Machine>(call: &Call<M>, name: Syscall) -> SysResult {
    /// Calls already reported by this island, a bit each.
    static REPORTED: [AtomicU32; 16] = [const { AtomicU32::new(0) }; 16];
    let (word, bit) = (name as usize / 32, 1 << (name as usize % 32));
    let seen = REPORTED.get(word).map_or(0, |reported| reported.fetch_or(bit, Ordering::Relaxed));
    if seen & bit == 0 {
        call.cpu.log(format_args!("system call {} ({}) is not implemented", name.name(), call.isa.name()));
    }
    Err(Errno::ENOSYS.into())
}
