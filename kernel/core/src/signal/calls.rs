//! System calls about signals.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno, registers,
    signal::{
        self as abi, NSIG, SIGSET_SIZE, SS_DISABLE, SS_ONSTACK, SigAction, SigCause, SigInfo, SigStack, UNBLOCKABLE,
    },
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::THREAD_DEAD;
use motet_protocol::wait;

use super::{action_of, deliver, deliverable, living_thread, send_locked, send_to_matching, send_to_thread_locked};
use crate::{
    call::{Call, Stop, SysResult},
    process::{self, lock_tree},
    time,
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
        action.flags.set(new.flags);
        action.restorer.set(new.restorer);
        action.mask.set(new.mask);
        let ignores = new.handler == abi::SIG_IGN
            || new.handler == abi::SIG_DFL && matches!(abi::default_action(signal), abi::DefaultAction::Ignore);
        if ignores {
            call.process.pending.fetch_and(!abi::bit(signal), Ordering::SeqCst);
            call.thread.pending.fetch_and(!abi::bit(signal), Ordering::SeqCst);
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
    call.write_user(call.args[0], &blocked.to_le_bytes()[..call.args[1].min(8) as usize])?;
    Ok(0)
}

/// `rt_sigsuspend(mask, set_size)`.
pub fn rt_sigsuspend<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[1] != SIGSET_SIZE {
        return Err(Errno::EINVAL.into());
    }
    if call.thread.in_syscall.get() == 0 {
        let mask = call.read_user_u64(call.args[0])?;
        begin_temporary_mask(call, mask);
    }
    wait::prepare(call.thread);
    if deliverable(call.thread, call.process) != 0 {
        // Blocking fails at once, and the core looks at its signals first.
        call.thread.attention.store(1, Ordering::SeqCst);
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
    for pending in [&call.thread.pending, &call.process.pending] {
        let found = pending.load(Ordering::SeqCst) & set;
        if found != 0 {
            let signal = found.trailing_zeros() + 1;
            pending.fetch_and(!abi::bit(signal), Ordering::SeqCst);
            if info_at != 0 {
                let pid = call.thread.signal_sender.get(signal as usize - 1).map_or(0, |slot| slot.get());
                let info = SigInfo { signal, code: abi::SI_USER, cause: SigCause::Sender { pid, uid: 0 } };
                call.write_user(info_at, &info.to_bytes())?;
            }
            return Ok(u64::from(signal));
        }
    }
    if call.timed_out() {
        return Err(Errno::EAGAIN.into());
    }
    if timeout_at != 0 && call.thread.in_syscall.get() == 0 {
        let ns = time::read_timespec(call, timeout_at)?;
        if ns == 0 {
            return Err(Errno::EAGAIN.into());
        }
        call.thread.deadline_ns.set(time::deadline_from(call.cpu, ns, false, false));
    }
    // Senders look here to see whether a blocked signal is awaited.
    call.thread.scratch[3].set(set);
    wait::prepare(call.thread);
    let pending = call.thread.pending.load(Ordering::SeqCst) | call.process.pending.load(Ordering::SeqCst);
    if pending & set != 0 {
        wait::wake_thread(call.cpu, call.thread, motet_layout::WAKE_EVENT);
    }
    Err(Stop::Block)
}

/// `sigaltstack(new, old)`.
pub fn sigaltstack<M: Machine>(call: &Call<M>) -> SysResult {
    let [new_at, old_at, ..] = call.args;
    let mut old = deliver::alternate_stack(call.thread);
    let in_use = old.contains(registers::sp(&call.thread.frame));
    if new_at != 0 {
        let mut bytes = [0; 24];
        call.read_user(new_at, &mut bytes)?;
        let new = SigStack::take(&bytes);
        if in_use {
            return Err(Errno::EPERM.into());
        }
        if new.ss_flags & SS_DISABLE == 0 && new.ss_size < abi::min_alternate_stack(call.isa) {
            return Err(Errno::ENOMEM.into());
        }
        if new.ss_flags & !(SS_DISABLE | SS_ONSTACK | abi::SS_AUTODISARM) != 0 {
            return Err(Errno::EINVAL.into());
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
    let (cpu, sender) = (call.cpu, call.process.pid.get());
    let own_group = call.process.pgid.load(Ordering::Relaxed);
    let _tree = lock_tree(cpu);
    let any = match pid {
        -1 => send_to_matching(cpu, signal, sender, |process| process.pid.get() > 1 && process.pid.get() != sender),
        0 => send_to_matching(cpu, signal, sender, |process| process.pgid.load(Ordering::Relaxed) == own_group),
        group if group < 0 => {
            let group = group.unsigned_abs();
            send_to_matching(cpu, signal, sender, |process| process.pgid.load(Ordering::Relaxed) == group)
        }
        pid => match process::lookup(cpu, pid as u32) {
            Some(process) => {
                if signal != 0 {
                    send_locked(cpu, process, signal, sender);
                }
                true
            }
            None => false,
        },
    };
    if any { Ok(0) } else { Err(Errno::ESRCH.into()) }
}

/// `tkill(tid, signal)`.
pub fn tkill<M: Machine>(call: &Call<M>) -> SysResult {
    kill_thread(call, None, call.args[0] as u32, call.args[1])
}

/// `tgkill(pid, tid, signal)`.
pub fn tgkill<M: Machine>(call: &Call<M>) -> SysResult {
    kill_thread(call, Some(call.args[0] as u32), call.args[1] as u32, call.args[2])
}

/// `rt_sigqueueinfo(pid, signal, info)`: the word sent along is not kept.
pub fn rt_sigqueueinfo<M: Machine>(call: &Call<M>) -> SysResult {
    kill(call)
}

/// Changes the mask for the time of the call in progress (`sigsuspend`, `ppoll`, `pselect6`).
pub fn begin_temporary_mask<M: Machine>(call: &Call<M>, mask: u64) {
    call.thread.saved_mask.set(call.thread.signal_mask.load(Ordering::Relaxed));
    call.thread.restore_mask.set(1);
    set_mask(call, mask);
}

/// The call ends without a signal: the mask is what it was.
pub fn end_temporary_mask<M: Machine>(call: &Call<M>) {
    if call.thread.restore_mask.get() != 0 {
        call.thread.restore_mask.set(0);
        set_mask(call, call.thread.saved_mask.get());
    }
}

fn set_mask<M: Machine>(call: &Call<M>, mask: u64) {
    call.thread.signal_mask.store(mask & !UNBLOCKABLE, Ordering::SeqCst);
    if deliverable(call.thread, call.process) != 0 {
        call.thread.attention.store(1, Ordering::SeqCst);
    }
}

fn kill_thread<M: Machine>(call: &Call<M>, pid: Option<u32>, tid: u32, signal: u64) -> SysResult {
    if signal > u64::from(NSIG) || tid == 0 {
        return Err(Errno::EINVAL.into());
    }
    let _tree = lock_tree(call.cpu);
    let thread = living_thread(call.cpu, tid)
        .filter(|thread| thread.state.load(Ordering::Relaxed) != THREAD_DEAD)
        .filter(|thread| pid.is_none_or(|pid| process::process_of(call.cpu, thread).pid.get() == pid))
        .ok_or(Errno::ESRCH)?;
    if signal != 0 {
        send_to_thread_locked(call.cpu, thread, signal as u32, call.process.pid.get());
    }
    Ok(0)
}

fn valid_signal(signal: u64) -> Result<u32, Errno> {
    if signal == 0 || signal > u64::from(NSIG) { Err(Errno::EINVAL) } else { Ok(signal as u32) }
}
