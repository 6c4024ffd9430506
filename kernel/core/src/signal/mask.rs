//! Signal masks: signals that a thread blocks, and signals that it takes itself (`sigwait`).

use core::sync::atomic::Ordering;

use motet_abi::signal::UNBLOCKABLE;
use motet_hal::Machine;
use motet_layout::handshake::then_look;

use super::{Origin, Pending};
use crate::call::{Call, deliverable};

/// Whether a signal of a set is pending for the caller.
pub fn is_pending<M: Machine>(call: &Call<M>, set: u64) -> bool {
    (call.thread.pending.load(Ordering::SeqCst) | call.process.pending.load(Ordering::SeqCst)) & set != 0
}

/// Takes the first pending signal of a set that was sent to the caller, or else to its process.
pub fn take_pending<M: Machine>(call: &Call<M>, set: u64) -> Option<(u32, Origin)> {
    [Pending::of_thread(call.thread), Pending::of_process(call.process)].into_iter().find_map(|pending| {
        let found = pending.set.load(Ordering::SeqCst) & set;
        let first = found & found.wrapping_neg();
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
    call.thread.signal_mask.store(mask & !UNBLOCKABLE, Ordering::Release);
    then_look(); // a sender marks the signal, then looks whether it is blocked
    if deliverable(call.thread, call.process) != 0 {
        call.thread.attention.store(1, Ordering::Release);
    }
}
