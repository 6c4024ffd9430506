//! The system-call table: from a neutral name to its handler.

use motet_layout::sync::{AtomicU32, Ordering};

use motet_abi::{Errno, Syscall, own};
use motet_hal::Machine;

use crate::{
    attend::calls as signals,
    call::{Call, SysResult},
    crossing, extension, file, futex,
    mm::{advice, calls as memory, mremap, place},
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
        None => serve_own(call, number),
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
        own::DONE => extension::done(call),
        own::ISLAND => Ok(call.cpu.island().index() as u64),
        _ => {
            call.cpu.log(format_args!("no system call has the number {number} on {}", call.isa.name()));
            Err(Errno::ENOSYS.into())
        }
    }
}

// The table is one match, which compiles to a jump table; calls that Motet does not have share the last arm.
#[expect(clippy::wildcard_enum_match_arm, reason = "several hundred calls of Linux are not implemented")]
fn serve<M: Machine>(call: &Call<M>, name: Syscall) -> SysResult {
    use Syscall as S;
    match name {
        S::Brk => memory::brk(call),
        S::Mmap => memory::mmap(call, |fd, is_written| file::inode_for_mmap(call, fd, is_written)),
        S::Munmap => memory::munmap(call),
        S::Mprotect => memory::mprotect(call),
        S::Mremap => mremap::mremap(call),
        S::Madvise => advice::madvise(call),
        S::Mbind => place::mbind(call),
        S::MovePages => place::move_pages(call),
        S::Msync => advice::msync(call),
        S::Mlock => advice::mlock(call),
        S::Munlock => advice::munlock(call),
        S::Mlockall => advice::mlockall(call),
        S::Munlockall => advice::munlockall(call),
        S::Mlock2 => advice::mlock2(call),
        S::Mincore => advice::mincore(call),
        S::Fork => fork::fork(call),
        S::Vfork => fork::vfork(call),
        S::Clone => fork::clone(call),
        S::Clone3 => fork::clone3(call),
        S::Execve => exec::execve(call),
        S::Execveat => exec::execveat(call),
        S::Exit => exit::exit(call),
        S::ExitGroup => exit::exit_group(call),
        S::Wait4 => wait::wait4(call),
        S::Waitid => wait::waitid(call),
        S::Getpid => ids::getpid(call),
        S::Gettid => ids::gettid(call),
        S::Getppid => ids::getppid(call),
        S::SetTidAddress => ids::set_tid_address(call),
        S::Getpgid => ids::getpgid(call),
        S::Getpgrp => ids::getpgrp(call),
        S::Getsid => ids::getsid(call),
        S::Setpgid => ids::setpgid(call),
        S::Setsid => ids::setsid(call),
        S::Getuid => identity::getuid(call),
        S::Geteuid => identity::geteuid(call),
        S::Getgid => identity::getgid(call),
        S::Getegid => identity::getegid(call),
        S::Setuid => identity::setuid(call),
        S::Setgid => identity::setgid(call),
        S::Setreuid => identity::setreuid(call),
        S::Setregid => identity::setregid(call),
        S::Setresuid => identity::setresuid(call),
        S::Setresgid => identity::setresgid(call),
        S::Getresuid => identity::getresuid(call),
        S::Getresgid => identity::getresgid(call),
        S::Getgroups => identity::getgroups(call),
        S::Setgroups => identity::setgroups(call),
        S::Setfsuid => identity::setfsuid(call),
        S::Setfsgid => identity::setfsgid(call),
        S::Capget => identity::capget(call),
        S::Capset => identity::capset(call),
        S::Uname => system::uname(call),
        S::Sysinfo => system::sysinfo(call),
        S::Getrusage => usage::getrusage(call),
        S::Prlimit64 => limits::prlimit64(call),
        S::Getrlimit => limits::getrlimit(call),
        S::Setrlimit => limits::setrlimit(call),
        S::SchedGetaffinity => cores::sched_getaffinity(call),
        S::SchedSetaffinity => cores::sched_setaffinity(call),
        S::SchedGetscheduler => schedule::sched_getscheduler(call),
        S::SchedSetscheduler => schedule::sched_setscheduler(call),
        S::SchedGetparam => schedule::sched_getparam(call),
        S::SchedSetparam => schedule::sched_setparam(call),
        S::SchedSetattr => schedule::sched_setattr(call),
        S::SchedGetattr => schedule::sched_getattr(call),
        S::SchedRrGetInterval => schedule::sched_rr_get_interval(call),
        S::SchedGetPriorityMin => schedule::sched_get_priority_min(call),
        S::SchedGetPriorityMax => schedule::sched_get_priority_max(call),
        S::Getpriority => schedule::getpriority(call),
        S::Setpriority => schedule::setpriority(call),
        S::Getcpu => cores::getcpu(call),
        S::Prctl => prctl::prctl(call),
        S::ArchPrctl => isa::arch_prctl(call),
        S::Membarrier => memory::membarrier(call),
        S::RiscvFlushIcache => isa::riscv_flush_icache(call),
        S::RiscvHwprobe => isa::riscv_hwprobe(call),
        S::Futex => futex::futex(call),
        S::SetRobustList => futex::set_robust_list(call),
        S::GetRobustList => futex::get_robust_list(call),
        S::Getrandom => random::getrandom(call),
        S::SchedYield => schedule::sched_yield(call),
        S::RtSigaction => signals::rt_sigaction(call),
        S::RtSigprocmask => signals::rt_sigprocmask(call),
        S::RtSigpending => signals::rt_sigpending(call),
        S::RtSigsuspend => signals::rt_sigsuspend(call),
        S::RtSigtimedwait => signals::rt_sigtimedwait(call),
        S::RtSigreturn => signals::rt_sigreturn(call),
        S::Sigaltstack => signals::sigaltstack(call),
        S::Kill => signals::kill(call),
        S::Tkill => signals::tkill(call),
        S::Tgkill => signals::tgkill(call),
        S::RtSigqueueinfo => signals::rt_sigqueueinfo(call),
        S::RtTgsigqueueinfo => signals::rt_tgsigqueueinfo(call),
        S::ClockGettime => time::clock_gettime(call),
        S::ClockGetres => time::clock_getres(call),
        S::Gettimeofday => time::gettimeofday(call),
        S::Time => time::time(call),
        S::Nanosleep => time::nanosleep(call),
        S::ClockNanosleep => time::clock_nanosleep(call),
        S::Pause => time::pause(call),
        S::Alarm => time::alarm(call),
        S::Setitimer => time::setitimer(call),
        S::Getitimer => time::getitimer(call),
        S::Times => time::times(call),
        S::Read => file::read(call),
        S::Write => file::write(call),
        S::Pread64 => file::pread64(call),
        S::Pwrite64 => file::pwrite64(call),
        S::Readv => file::readv(call),
        S::Writev => file::writev(call),
        S::Preadv => file::preadv(call),
        S::Pwritev => file::pwritev(call),
        S::Preadv2 => file::preadv2(call),
        S::Pwritev2 => file::pwritev2(call),
        S::Open => file::open(call),
        S::Openat => file::openat(call),
        S::Openat2 => file::openat2(call),
        S::Creat => file::creat(call),
        S::Close => file::close(call),
        S::CloseRange => file::close_range(call),
        S::Lseek => file::lseek(call),
        S::Stat => file::stat(call),
        S::Lstat => file::lstat(call),
        S::Fstat => file::fstat(call),
        S::Newfstatat => file::newfstatat(call),
        S::Statx => file::statx(call),
        S::Access => file::access(call),
        S::Faccessat => file::faccessat(call),
        S::Faccessat2 => file::faccessat2(call),
        S::Getdents64 => file::getdents64(call),
        S::Getcwd => file::getcwd(call),
        S::Chdir => file::chdir(call),
        S::Fchdir => file::fchdir(call),
        S::Chroot => file::chroot(call),
        S::Mkdir => file::mkdir(call),
        S::Mkdirat => file::mkdirat(call),
        S::Rmdir => file::rmdir(call),
        S::Link => file::link(call),
        S::Linkat => file::linkat(call),
        S::Unlink => file::unlink(call),
        S::Unlinkat => file::unlinkat(call),
        S::Symlink => file::symlink(call),
        S::Symlinkat => file::symlinkat(call),
        S::Readlink => file::readlink(call),
        S::Readlinkat => file::readlinkat(call),
        S::Rename => file::rename(call),
        S::Renameat => file::renameat(call),
        S::Renameat2 => file::renameat2(call),
        S::Truncate => file::truncate(call),
        S::Ftruncate => file::ftruncate(call),
        S::Fallocate => file::fallocate(call),
        S::Chmod => file::chmod(call),
        S::Fchmod => file::fchmod(call),
        S::Fchmodat => file::fchmodat(call),
        S::Fchmodat2 => file::fchmodat2(call),
        S::Chown => file::chown(call),
        S::Lchown => file::lchown(call),
        S::Fchown => file::fchown(call),
        S::Fchownat => file::fchownat(call),
        S::Personality => places::personality(call),
        S::Umask => file::umask(call),
        S::Utimensat => file::utimensat(call),
        S::Utimes => file::utimes(call),
        S::Utime => file::utime(call),
        S::Futimesat => file::futimesat(call),
        S::Mknod => file::mknod(call),
        S::Mknodat => file::mknodat(call),
        S::Statfs => file::statfs(call),
        S::Fstatfs => file::fstatfs(call),
        S::Sync => file::sync(call),
        S::Fsync => file::fsync(call),
        S::Fdatasync => file::fdatasync(call),
        S::Syncfs => file::syncfs(call),
        S::Pipe => file::pipe(call),
        S::Pipe2 => file::pipe2(call),
        S::Dup => file::dup(call),
        S::Dup2 => file::dup2(call),
        S::Dup3 => file::dup3(call),
        S::Fcntl => file::fcntl(call),
        S::Flock => file::flock(call),
        S::Ioctl => file::ioctl(call),
        S::Poll => file::poll(call),
        S::Ppoll => file::ppoll(call),
        S::Select => file::select(call),
        S::Pselect6 => file::pselect6(call),
        S::Sendfile => file::sendfile(call),
        S::Splice => file::splice(call),
        S::Tee => file::tee(call),
        S::CopyFileRange => file::copy_file_range(call),
        S::Eventfd => file::eventfd(call),
        S::Eventfd2 => file::eventfd2(call),
        S::EpollCreate => file::epoll_create(call),
        S::EpollCreate1 => file::epoll_create1(call),
        S::EpollCtl => file::epoll_ctl(call),
        S::EpollWait => file::epoll_wait(call),
        S::EpollPwait => file::epoll_pwait(call),
        S::EpollPwait2 => file::epoll_pwait2(call),
        S::TimerfdCreate => file::timerfd_create(call),
        S::TimerfdSettime => file::timerfd_settime(call),
        S::Signalfd => file::signalfd(call),
        S::Signalfd4 => file::signalfd4(call),
        S::Socket => file::socket(call),
        S::Socketpair => file::socketpair(call),
        S::Bind => file::bind(call),
        S::Listen => file::listen(call),
        S::Connect => file::connect(call),
        S::Accept => file::accept(call),
        S::Accept4 => file::accept4(call),
        S::Shutdown => file::shutdown(call),
        S::Sendto => file::sendto(call),
        S::Sendmsg => file::sendmsg(call),
        S::Recvfrom => file::recvfrom(call),
        S::Recvmsg => file::recvmsg(call),
        S::Getsockname => file::getsockname(call),
        S::Getpeername => file::getpeername(call),
        S::Getsockopt => file::getsockopt(call),
        S::Setsockopt => file::setsockopt(call),
        S::TimerfdGettime => file::timerfd_gettime(call),
        S::MemfdCreate => file::memfd_create(call),
        S::Fadvise64 => file::fadvise64(call),
        S::SyncFileRange => file::sync_file_range(call),
        S::Unshare => fork::unshare(call),
        S::Readahead => file::readahead(call),
        S::Mount => file::mount(call),
        S::Umount2 => file::umount2(call),
        // No file system here keeps extended attributes.
        S::Getxattr
        | S::Lgetxattr
        | S::Fgetxattr
        | S::Setxattr
        | S::Lsetxattr
        | S::Fsetxattr
        | S::Listxattr
        | S::Llistxattr
        | S::Flistxattr
        | S::Removexattr
        | S::Lremovexattr
        | S::Fremovexattr => Err(Errno::EOPNOTSUPP.into()),
        unknown => not_implemented(call, unknown),
    }
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
