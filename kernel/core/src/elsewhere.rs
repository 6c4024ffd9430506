//! System calls of a called function that the callee's core serves, although the thread has not become one of its own.

use motet_abi::Syscall;
use motet_hal::Machine;

use crate::{
    call::{Call, Stop},
    process::{cores, identity, ids, system},
    time,
};

/// Serves a system call on a core to which its thread has not moved: one that only reads, nothing of it what the thread's own core keeps
/// (as its processor time), and never waits. `None`: it is none of these, or has to go on later; then nothing has been done.
pub fn serve_elsewhere<M: Machine>(call: &Call<M>, number: u64) -> Option<i64> {
    use Syscall as S;
    let of_machine = || time::is_of_machine(call.args[0]);
    // A table of its own: as a second caller of the whole one it would make every other call slower.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other calls need their thread")]
    let result = match Syscall::decode(M::ISA, number)? {
        S::Getpid => ids::getpid(call),
        S::Gettid => ids::gettid(call),
        S::Getppid => ids::getppid(call),
        S::Getpgid => ids::getpgid(call),
        S::Getpgrp => ids::getpgrp(call),
        S::Getsid => ids::getsid(call),
        S::Getuid => identity::getuid(call),
        S::Geteuid => identity::geteuid(call),
        S::Getgid => identity::getgid(call),
        S::Getegid => identity::getegid(call),
        S::Getresuid => identity::getresuid(call),
        S::Getresgid => identity::getresgid(call),
        S::Uname => system::uname(call),
        S::Getcpu => cores::getcpu(call),
        S::Gettimeofday => time::gettimeofday(call),
        S::Time => time::time(call),
        S::ClockGettime if of_machine() => time::clock_gettime(call),
        S::ClockGetres if of_machine() => time::clock_getres(call),
        _ => return None,
    };
    match result {
        Ok(value) => Some(value as i64),
        Err(Stop::Error(errno)) => Some(errno.result()),
        Err(Stop::Block | Stop::Page | Stop::Again | Stop::Replaced | Stop::Gone) => None,
    }
}
