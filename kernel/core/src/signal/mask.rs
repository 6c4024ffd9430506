//! Signal masks: signals that a thread blocks, and signals that it takes itself (`sigwait`).

use core::sync::atomic::Ordering;

use motet_abi::signal::{self as abi, UNBLOCKABLE, bit};
use motet_hal::Machine;
use motet_layout::{ProcessRecord, ThreadRecord, handshake::then_look};

use super::{Origin, Pending, notify, retarget};
use crate::{
    call::{Call, deliverable},
    cpu::Cpu,
    tree::{for_each_thread, lock_tree},
};

/// Signals of what a thread itself has just done: they go before others, so that a handler is told of the instruction that
/// caused them, and not of the first one of another handler.
const SYNCHRONOUS: u64 =
    bit(abi::SIGSEGV) | bit(abi::SIGBUS) | bit(abi::SIGILL) | bit(abi::SIGTRAP) | bit(abi::SIGFPE) | bit(abi::SIGSYS);

/// Of a set of signals, the one that is taken first: the fatal one, then faults, then the lowest.
pub fn first_of(signals: u64) -> u64 {
    let of = [bit(abi::SIGKILL), SYNCHRONOUS, u64::MAX].map(|kind| signals & kind);
    let of = of.into_iter().find(|&some| some != 0).unwrap_or(0);
    of & of.wrapping_neg()
}

/// Whether a signal of a set is pending for the caller.
pub fn is_pending<M: Machine>(call: &Call<M>, set: u64) -> bool {
    (call.thread.pending.load(Ordering::SeqCst) | call.process.pending.load(Ordering::SeqCst)) & set != 0
}

/// Takes the first pending signal of a set that was sent to the caller, or else to its process.
pub fn take_pending<M: Machine>(call: &Call<M>, set: u64) -> Option<(u32, Origin)> {
    [Pending::of_thread(call.thread), Pending::of_process(call.process)].into_iter().find_map(|pending| {
        let found = pending.set.load(Ordering::SeqCst) & set;
        let first = first_of(found);
        // Another thread may have taken it meanwhile.
        if pending.set.fetch_and(!first, Ordering::SeqCst) & first == 0 {
            return None;
        }
        let signal = first.trailing_zeros() + 1;
        Some((signal, pending.take(call.cpu, signal, false)))
    })
}

/// Changes the mask for the time of the call in progress (`sigsuspend`, `ppoll`, `pselect6`).
pub fn begin_temporary_mask<M: Machine>(call: &Call<M>, mask: u64) {
    call.thread.saved_mask.set(call.thread.signal_mask.load(Ordering::Relaxed));
    call.thread.restore_mask.set(1);
    set_mask(call, mask);
}

/// Restores the mask, at the end of a call that ends without a signal.
pub fn end_temporary_mask<M: Machine>(call: &Call<M>) {
    if call.thread.restore_mask.get() != 0 {
        call.thread.restore_mask.set(0);
        set_mask(call, call.thread.saved_mask.get());
    }
}

/// Sets the signals that the caller blocks.
pub fn set_mask<M: Machine>(call: &Call<M>, mask: u64) {
    let before = call.thread.signal_mask.swap(mask & !UNBLOCKABLE, Ordering::AcqRel);
    then_look(); // a sender marks the signal, then looks whether it is blocked
    if deliverable(call.thread, call.process) != 0 {
        call.thread.attention.store(1, Ordering::Release);
    }
    mask_has_changed(call.cpu, call.thread, call.process, before);
}

/// A function that the running thread has called runs in another kernel from now on, and with it the thread's registers: handlers wait. Other threads are told of
/// signals of the process for which this one was chosen.
pub fn hold_handlers<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord) {
    thread.is_elsewhere.store(1, Ordering::Release);
    then_look(); // a sender marks the signal, then looks where the thread is
    let pending = process.pending.load(Ordering::SeqCst) & !thread.signal_mask.load(Ordering::Relaxed);
    if pending != 0 && process.thread_count.load(Ordering::Relaxed) > 1 {
        let _tree = lock_tree(cpu);
        retarget(cpu, process, pending);
    }
}

/// A signal of the process has no handler any more: threads that have kept it for one, because their registers are in another kernel, act on it now.
#[cold]
pub fn hold_no_longer<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, signal: u32) {
    let _tree = lock_tree(cpu);
    for_each_thread(cpu, process, |thread| {
        let is_elsewhere = thread.is_elsewhere.load(Ordering::SeqCst) != 0;
        if is_elsewhere && deliverable(thread, process) & bit(signal) != 0 {
            notify(cpu, thread, signal);
        }
    });
}

/// The running thread's registers are here again.
pub fn release_handlers(thread: &ThreadRecord, process: &ProcessRecord) {
    thread.is_elsewhere.store(0, Ordering::Release);
    if deliverable(thread, process) != 0 {
        thread.attention.store(1, Ordering::Release);
    }
}

/// The running thread, whose mask was `before`, may not take signals of its process any more for which it was chosen:
/// other threads are told of them.
#[inline]
pub fn mask_has_changed<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord, before: u64) {
    let more = thread.signal_mask.load(Ordering::Relaxed) & !before;
    if more & process.pending.load(Ordering::SeqCst) != 0 && process.thread_count.load(Ordering::Relaxed) > 1 {
        let _tree = lock_tree(cpu);
        retarget(cpu, process, more);
    }
}
