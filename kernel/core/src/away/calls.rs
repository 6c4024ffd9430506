//! System calls of remotes: home makes them, by its half of the thread, with its files and signals.

use motet_abi::{Errno, Syscall};
use motet_hal::Machine;
use motet_layout::{
    AWAY_END, AWAY_RESULT, AWAY_SYSTEM_CALL, AwayRecord, Isa, ProcessRecord, Stage, ThreadRecord, sync::Ordering,
};
use motet_protocol::peer::{Malformed, bodies::CallResult};

use super::{
    carriers::{self, Wanted},
    give, half, home, take,
};
use crate::{
    call::{self, Call, SysResult},
    cpu::Cpu,
    peers, signal,
    tree::lock_tree,
};

/// Makes a remote's system call at home, and waits for its result.
///
/// # Errors
/// [`Stop::Block`](crate::call::Stop::Block); `EOPNOTSUPP`: it would make or replace what has only one half; `EIO`.
pub fn forward<M: Machine>(call: &Call<M>, name: Syscall) -> SysResult {
    let away = home(call.cpu, call.thread).ok_or(Errno::EIO)?;
    if needs_both_halves(name) {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if away.in_call.get() == 0 {
        peers::hold_no_longer(call.cpu);
        carriers::send(call.cpu, away.node.get(), away.peer.load(Ordering::Acquire), name, call.args)?;
        away.in_call.set(1);
    }
    let came = || Ok((away.came.load(Ordering::Acquire) == AWAY_RESULT).then(|| away.words[0].get()));
    let result = call.wait_for(&away.waiters, came)?;
    away.in_call.set(0);
    take(away);
    Ok(result)
}

/// Calls that are about registers, which are not at home.
fn needs_both_halves(name: Syscall) -> bool {
    use Syscall::{ArchPrctl, Clone, Clone3, Execve, Execveat, Fork, RtSigreturn, Vfork};
    matches!(name, ArchPrctl | Clone | Clone3 | Execve | Execveat | Fork | RtSigreturn | Vfork)
}

/// A remote wants a system call. The tree lock is held.
///
/// # Errors
/// It is none of a thread of this kernel, or none that such a message carries.
pub fn wanted<M: Machine>(cpu: &Cpu<M>, node: u32, wanted: &Wanted) -> Result<(), Malformed> {
    let Some(away) = half(cpu, node, wanted.tid)? else { return Ok(()) };
    let carries = |name| !needs_both_halves(name) && carriers::carrier(name) == wanted.carrier;
    let is_possible = Syscall::from_index(wanted.call).is_some_and(carries);
    if away.is_remote.get() != 0 || away.in_call.get() != 0 || !is_possible {
        return Err(Malformed::Unasked);
    }
    give(cpu, away, AWAY_SYSTEM_CALL, core::iter::once(u64::from(wanted.call)).chain(wanted.args))
}

/// A remote's system call has come: home's half is in the middle of it from now on. `false`: the remote has ended meanwhile.
pub fn take_call<M: Machine>(call: &Call<M>, away: &AwayRecord) -> bool {
    let _tree = lock_tree(call.cpu);
    if away.came.load(Ordering::Acquire) != AWAY_SYSTEM_CALL {
        return false;
    }
    take(away);
    away.in_call.set(1);
    // In the middle of a call, but not one that has waited.
    call.thread.stage.set(Stage::CALL_BEGINS);
    true
}

/// A remote's system call has been taken: the call that home's half makes, from its beginning or where it waited.
pub fn begin_call<M: Machine>(call: &Call<M>, away: &AwayRecord) -> Option<(Syscall, [u64; 6], Isa)> {
    if call.begins() {
        call::begin_call(call.thread);
    }
    let (name, made) = call_of(call.cpu, call.thread, call.process, away)?;
    Some((name, made.args, made.isa))
}

/// The call that home's half makes for a remote.
pub fn call_of<'c, M: Machine>(
    cpu: &'c Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    away: &AwayRecord,
) -> Option<(Syscall, Call<'c, M>)> {
    let isa = peers::isa_of(cpu, away.node.get())?;
    let args = core::array::from_fn(|index| away.words[1 + index].get());
    Some((Syscall::from_index(away.words[0].get() as u32)?, Call { cpu, thread, process, args, isa }))
}

/// The call has ended: the remote is told, and home's half waits on.
pub fn reply<M: Machine>(call: &Call<M>, away: &AwayRecord, result: i64) {
    // What the answer is to is read before the other kernel may send something else.
    let (tid, name) = (away.peer.load(Ordering::Acquire), Syscall::from_index(away.words[0].get() as u32));
    away.in_call.set(0);
    call::end_call(call.thread);
    call::begin_call(call.thread);
    if carriers::send_back(call.cpu, away.node.get(), tid, name, result).is_err() {
        // Its kernel has died.
        away.words[0].set(u64::from(signal::SIGKILL));
        away.came.store(AWAY_END, Ordering::Release);
    }
}

/// The result of a remote's call. The tree lock is held.
///
/// # Errors
/// The remote has made none.
pub fn result_came<M: Machine>(cpu: &Cpu<M>, node: u32, body: &CallResult) -> Result<(), Malformed> {
    match half(cpu, node, body.tid.get())? {
        Some(away) if away.is_remote.get() != 0 => give(cpu, away, AWAY_RESULT, core::iter::once(body.result.get())),
        Some(_) => Err(Malformed::Unasked),
        None => Ok(()),
    }
}
