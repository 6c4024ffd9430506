//! System calls about signals.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    process::{PIDFD_SIGNAL_PROCESS_GROUP, PIDFD_SIGNAL_THREAD, PIDFD_SIGNAL_THREAD_GROUP},
    signal::{self as abi, NSIG, SIGINFO_SIZE, SIGSET_SIZE, SS_DISABLE, SS_ONSTACK, SigAction, SigStack, UNBLOCKABLE},
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::{PROCESS_ALIVE, ProcessRecord, THREAD_DEAD};
use motet_protocol::{groups, threads, wait};

use super::deliver;
use crate::{
    call::{Call, Stop, SysResult, cost, deliverable},
    due, file, peers, permission,
    signal::{
        Origin, action_of, begin_temporary_mask, discard_everywhere, hold_no_longer, is_pending, send_locked,
        send_to_member, send_to_thread_locked, set_mask, take_pending, timers,
    },
    time,
    tree::{self, lock_tree},
};

pub use super::deliver::rt_sigreturn;

/// `rt_sigaction(signal, new, old, set_size)`.
pub fn rt_sigaction<M: Machine>(call: &Call<M>) -> SysResult {
    let [signal, new_at, old_at, set_size, ..] = call.args;
    let signal = valid_signal(signal)?;
    if set_size != SIGSET_SIZE {
        return Err(Errno::EINVAL.into());
    }
    if new_at != 0 && abi::bit(signal) & UNBLOCKABLE != 0 {
        return Err(Errno::EINVAL.into());
    }
    let action = action_of(call.cpu, call.process, signal);
    let size = SigAction::size(call.isa);
    if old_at != 0 {
        call.await_pages(old_at, size as u64)?;
    }
    let old = SigAction {
        handler: action.handler.get(),
        flags: action.flags.get(),
        restorer: action.restorer.get(),
        mask: action.mask.get(),
    };
    if new_at != 0 {
        let mut bytes = [0; 32];
        call.read_user(new_at, &mut bytes[..size])?;
        let new = SigAction::decode(call.isa, &bytes[..size]);
        action.handler.set(new.handler);
        // Flags that are not known are not kept, by which programs see what there is.
        action.flags.set(new.flags & abi::SA_KNOWN);
        action.restorer.set(new.restorer);
        action.mask.set(new.mask & !UNBLOCKABLE);
        let ignores = new.handler == abi::SIG_IGN
            || new.handler == abi::SIG_DFL && matches!(abi::default_action(signal), abi::DefaultAction::Ignore);
        if ignores {
            let _tree = lock_tree(call.cpu);
            discard_everywhere(call.cpu, call.process, abi::bit(signal));
        } else if new.handler == abi::SIG_DFL && peers::are_there(call.cpu) {
            hold_no_longer(call.cpu, call.process, signal);
        }
        if !ignores && call.process.timers.get() != 0 {
            let _tree = lock_tree(call.cpu);
            timers::resume(call.cpu, call.process, signal);
        }
    }
    if old_at != 0 {
        call.write_user(old_at, &old.encode(call.isa)[..size])?;
    }
    Ok(0)
}

/// `rt_sigprocmask(how, new, old, set_size)`.
pub fn rt_sigprocmask<M: Machine>(call: &Call<M>) -> SysResult {
    let [how, new_at, old_at, set_size, ..] = call.args;
    if set_size != SIGSET_SIZE {
        return Err(Errno::EINVAL.into());
    }
    let old = call.thread.signal_mask.load(Ordering::Relaxed);
    if old_at != 0 {
        call.await_pages(old_at, 8)?;
    }
    if new_at != 0 {
        let set = call.read_user_u64(new_at)?;
        let new = match how as u32 {
            abi::SIG_BLOCK => old | set,
            abi::SIG_UNBLOCK => old & !set,
            abi::SIG_SETMASK => set,
            _ => return Err(Errno::EINVAL.into()),
        };
        set_mask(call, new);
    }
    if old_at != 0 {
        call.write_user(old_at, &old.to_le_bytes())?;
    }
    Ok(0)
}

/// `rt_sigpending(set, set_size)`.
pub fn rt_sigpending<M: Machine>(call: &Call<M>) -> SysResult {
    let pending = call.thread.pending.load(Ordering::SeqCst) | call.process.pending.load(Ordering::SeqCst);
    let blocked = pending & call.thread.signal_mask.load(Ordering::Relaxed);
    if call.args[1] > SIGSET_SIZE {
        return Err(Errno::EINVAL.into());
    }
    call.write_user(call.args[0], &blocked.to_le_bytes()[..call.args[1] as usize])?;
    Ok(0)
}

/// `rt_sigsuspend(mask, set_size)`.
pub fn rt_sigsuspend<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[1] != SIGSET_SIZE {
        return Err(Errno::EINVAL.into());
    }
    if call.begins() {
        let mask = call.read_user_u64(call.args[0])?;
        begin_temporary_mask(call, mask);
    }
    wait::prepare(call.thread);
    if deliverable(call.thread, call.process) != 0 {
        // Blocking fails at once, and the core looks at its signals first.
        call.thread.attention.store(1, Ordering::Release);
        wait::wake_thread(call.cpu, call.thread, motet_layout::WAKE_SIGNAL);
    }
    Err(Stop::Block)
}

/// `rt_sigtimedwait(set, info, timeout, set_size)`.
pub fn rt_sigtimedwait<M: Machine>(call: &Call<M>) -> SysResult {
    let [set_at, info_at, timeout_at, set_size, ..] = call.args;
    if set_size != SIGSET_SIZE {
        return Err(Errno::EINVAL.into());
    }
    let set = call.read_user_u64(set_at)? & !UNBLOCKABLE;
    if info_at != 0 {
        call.await_pages(info_at, SIGINFO_SIZE as u64)?;
    }
    if let Some((signal, origin)) = take_pending(call, set) {
        if info_at != 0 {
            call.write_user(info_at, &origin.info(signal).to_bytes())?;
        }
        return Ok(u64::from(signal));
    }
    if call.timed_out() {
        return Err(Errno::EAGAIN.into());
    }
    if timeout_at != 0 && call.begins() {
        let ns = time::read_timespec(call, timeout_at)?;
        if ns == 0 {
            return Err(Errno::EAGAIN.into());
        }
        call.thread.deadline_ns.set(time::deadline_from(call.cpu, ns, false, false));
    }
    // Senders look here to see whether a blocked signal is awaited.
    call.thread.scratch[3].set(set);
    wait::prepare(call.thread);
    if is_pending(call, set) {
        wait::wake_thread(call.cpu, call.thread, motet_layout::WAKE_EVENT);
    }
    Err(Stop::Block)
}

/// `sigaltstack(new, old)`.
pub fn sigaltstack<M: Machine>(call: &Call<M>) -> SysResult {
    let [new_at, old_at, ..] = call.args;
    let mut old = deliver::alternate_stack(call.thread);
    if old_at != 0 {
        call.await_pages(old_at, 24)?;
    }
    let in_use = deliver::is_in_use(call.cpu, call.thread, &old);
    if new_at != 0 {
        let mut bytes = [0; 24];
        call.read_user(new_at, &mut bytes)?;
        let new = SigStack::take(&bytes);
        if in_use {
            return Err(Errno::EPERM.into());
        }
        if !matches!(new.ss_flags & !abi::SS_AUTODISARM, 0 | SS_DISABLE | SS_ONSTACK) {
            return Err(Errno::EINVAL.into());
        }
        if new.ss_flags & SS_DISABLE == 0 && new.ss_size < abi::min_alternate_stack(call.isa) {
            return Err(Errno::ENOMEM.into());
        }
        deliver::set_alternate_stack(call.thread, &new);
    }
    if old_at != 0 {
        if in_use {
            old.ss_flags |= SS_ONSTACK;
        }
        call.write_user(old_at, &old.to_bytes())?;
    }
    Ok(0)
}

/// `kill(pid, signal)`.
pub fn kill<M: Machine>(call: &Call<M>) -> SysResult {
    let pid = call.args[0] as i32;
    let signal = call.args[1] as u32;
    if signal > NSIG {
        return Err(Errno::EINVAL.into());
    }
    let (cpu, own_pid) = (call.cpu, call.process.pid.get());
    let sender = Origin::sent_by(abi::SI_USER, call.process);
    let own_group = call.process.pgid.load(Ordering::Relaxed);
    let _tree = lock_tree(cpu);
    match pid {
        // As on Linux, that it may signal none of them is no error.
        -1 => {
            let others = |each: &mut dyn FnMut(&'static ProcessRecord)| {
                tree::for_each(cpu, |process| {
                    if process.pid.get() > 1 && process.pid.get() != own_pid {
                        each(process);
                    }
                });
            };
            match kill_several(call, signal, others) {
                Err(Stop::Error(Errno::EPERM)) => Ok(0),
                result => result,
            }
        }
        0 => kill_several(call, signal, |each| groups::for_each(cpu, own_group, each)),
        group if group < 0 => kill_several(call, signal, |each| groups::for_each(cpu, group.unsigned_abs(), each)),
        pid => {
            // Any of its threads names a process.
            let process = tree::with_thread(cpu, pid as u32).ok_or(Errno::ESRCH)?;
            permission::may_signal(call.process, process, signal)?;
            if signal != 0 {
                send_locked(cpu, process, signal, sender);
            }
            Ok(0)
        }
    }
}

/// Sends a signal (0: none) to those of several processes to which the caller may. The tree lock is held.
///
/// # Errors
/// `ESRCH`: there are none; `EPERM`: there are, and the caller may signal none of them.
fn kill_several<M: Machine>(
    call: &Call<M>,
    signal: u32,
    for_each: impl FnOnce(&mut dyn FnMut(&'static ProcessRecord)),
) -> SysResult {
    let sender = Origin::sent_by(abi::SI_USER, call.process);
    let mut result = Err(Errno::ESRCH.into());
    // A zombie is a member like any other.
    for_each(&mut |process| {
        due::spend_locked(call.cpu, cost::OBJECT);
        match permission::may_signal(call.process, process, signal) {
            Ok(()) => {
                result = Ok(0);
                if signal != 0 {
                    send_to_member(call.cpu, process, signal, sender);
                }
            }
            Err(errno) if result.is_err() => result = Err(errno.into()),
            Err(_) => {}
        }
    });
    result
}

/// `tkill(tid, signal)`.
pub fn tkill<M: Machine>(call: &Call<M>) -> SysResult {
    kill_thread(call, None, call.args[0] as u32, call.args[1])
}

/// `tgkill(pid, tid, signal)`.
pub fn tgkill<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[0] as i32 <= 0 {
        return Err(Errno::EINVAL.into());
    }
    kill_thread(call, Some(call.args[0] as u32), call.args[1] as u32, call.args[2])
}

/// `rt_sigqueueinfo(pid, signal, info)`.
///
/// # Errors
/// `EAGAIN`: too many signals wait for the process; `EPERM`: the information claims that the kernel or `kill` sent it;
/// `EINVAL`, `ESRCH`, `EFAULT`.
pub fn rt_sigqueueinfo<M: Machine>(call: &Call<M>) -> SysResult {
    let [pid, signal, info, ..] = call.args;
    let signal = signal_or_none(signal)?;
    let origin = read_origin(call, info, pid as u32)?;
    let _tree = lock_tree(call.cpu);
    let process = tree::with_thread(call.cpu, pid as u32).ok_or(Errno::ESRCH)?;
    permission::may_signal(call.process, process, signal.unwrap_or(0))?;
    let kept = signal.is_none_or(|signal| send_locked(call.cpu, process, signal, origin));
    if kept { Ok(0) } else { Err(Errno::EAGAIN.into()) }
}

/// `rt_tgsigqueueinfo(pid, tid, signal, info)`.
///
/// # Errors
/// As [`rt_sigqueueinfo`].
pub fn rt_tgsigqueueinfo<M: Machine>(call: &Call<M>) -> SysResult {
    let [pid, tid, signal, info, ..] = call.args;
    if pid as i32 <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let origin = read_origin(call, info, tid as u32)?;
    send_to_one(call, Some(pid as u32), tid as u32, signal, origin)
}

/// `pidfd_send_signal(pidfd, signal, info, flags)`.
///
/// # Errors
/// As [`rt_sigqueueinfo`]; `EBADF`: that is no descriptor of a process; `ESRCH`: the process was reaped.
pub fn pidfd_send_signal<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, signal, info, flags, ..] = call.args;
    let flags = flags as u32;
    if !matches!(flags, 0 | PIDFD_SIGNAL_THREAD | PIDFD_SIGNAL_THREAD_GROUP | PIDFD_SIGNAL_PROCESS_GROUP) {
        return Err(Errno::EINVAL.into());
    }
    let (pidfd, _) = file::pidfd::of_descriptor(call, fd as i32)?;
    let origin = if info == 0 {
        let code = if flags == PIDFD_SIGNAL_THREAD { abi::SI_TKILL } else { abi::SI_USER };
        Origin::sent_by(code, call.process)
    } else {
        let mut number = [0; 4];
        call.read_user(info, &mut number)?;
        if u32::from_le_bytes(number) != signal as u32 {
            return Err(Errno::EINVAL.into());
        }
        read_origin(call, info, pidfd.pid)?
    };
    let _tree = lock_tree(call.cpu);
    let process = pidfd.process(call.cpu).ok_or(Errno::ESRCH)?;
    let signal = signal_or_none(u64::from(signal as u32))?;
    if flags == PIDFD_SIGNAL_PROCESS_GROUP {
        return kill_several(call, signal.unwrap_or(0), |each| groups::for_each(call.cpu, pidfd.pid, each));
    }
    permission::may_signal(call.process, process, signal.unwrap_or(0))?;
    let Some(signal) = signal else { return Ok(0) };
    let kept = match threads::lookup(call.cpu, pidfd.pid).filter(|_| flags == PIDFD_SIGNAL_THREAD) {
        Some(thread) if thread.state.load(Ordering::Relaxed) == THREAD_DEAD => true,
        Some(thread) => send_to_thread_locked(call.cpu, thread, signal, origin),
        None => send_locked(call.cpu, process, signal, origin),
    };
    if kept { Ok(0) } else { Err(Errno::EAGAIN.into()) }
}

/// What a `siginfo_t` of a program says. Only to itself a thread may say that it comes from the kernel, `kill` or `tgkill`.
fn read_origin<M: Machine>(call: &Call<M>, info: u64, target: u32) -> Result<Origin, Stop> {
    let mut bytes = [0; SIGINFO_SIZE];
    call.read_user(info, &mut bytes)?;
    let code = u32::take(&bytes[8..]).cast_signed();
    let origin = Origin { code, fields: core::array::from_fn(|word| u64::take(&bytes[16 + 8 * word..])) };
    let pretends = code >= 0 || code == abi::SI_TKILL;
    if pretends && target != call.thread.tid.get() { Err(Errno::EPERM.into()) } else { Ok(origin) }
}

fn kill_thread<M: Machine>(call: &Call<M>, pid: Option<u32>, tid: u32, signal: u64) -> SysResult {
    send_to_one(call, pid, tid, signal, Origin::sent_by(abi::SI_TKILL, call.process))
}

fn send_to_one<M: Machine>(call: &Call<M>, pid: Option<u32>, tid: u32, signal: u64, origin: Origin) -> SysResult {
    let signal = signal_or_none(signal)?;
    if tid.cast_signed() <= 0 {
        return Err(Errno::EINVAL.into());
    }
    let _tree = lock_tree(call.cpu);
    let thread = threads::lookup(call.cpu, tid)
        .filter(|thread| pid.is_none_or(|pid| tree::process_of(call.cpu, thread).pid.get() == pid))
        .ok_or(Errno::ESRCH)?;
    let process = tree::process_of(call.cpu, thread);
    permission::may_signal(call.process, process, signal.unwrap_or(0))?;
    // A process's first thread is there until its process is reaped, but takes no signals.
    let is_alive =
        process.state.load(Ordering::Acquire) == PROCESS_ALIVE && thread.state.load(Ordering::Relaxed) != THREAD_DEAD;
    let kept = signal.is_none_or(|signal| !is_alive || send_to_thread_locked(call.cpu, thread, signal, origin));
    // That a signal of `tgkill` has come is all that is promised.
    if kept || origin.code == abi::SI_TKILL { Ok(0) } else { Err(Errno::EAGAIN.into()) }
}

/// A signal's number; `None` for 0, which only asks whether there is somebody to send it to.
fn signal_or_none(signal: u64) -> Result<Option<u32>, Errno> {
    if signal == 0 { Ok(None) } else { valid_signal(signal).map(Some) }
}

fn valid_signal(signal: u64) -> Result<u32, Errno> {
    if signal == 0 || signal > u64::from(NSIG) { Err(Errno::EINVAL) } else { Ok(signal as u32) }
}
