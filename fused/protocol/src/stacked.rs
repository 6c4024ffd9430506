//! A thread that waits on its core, and in no queue: its guest waits for an interrupt, and another thread's guest runs in the core meanwhile.
//!
//! To whoever wants something of the guest, it is in the core (`VcpuRecord::in_guest`): they ring. Whoever wants the thread itself stores why (its attention
//! word), and then looks here; the core stores here, and then looks at the attention word. So one of the two sees the other. A core that is rung ends the state
//! before it does anything else: the thread waits as any other, or is ready.
//!
//! Protocol page: `docs/protocols/wake-up.md`.

use motet_layout::{CoreId, CoreRecord, ThreadRecord, handshake::then_look, sync::Ordering};

use crate::{Context, cores::core_record};

/// The thread waits in this core from now on, unless it is wanted already: then `false`, and it does not.
#[inline(always)]
#[must_use = "a thread that is wanted does not wait"]
pub fn begin(context: &impl Context, thread: &'static ThreadRecord) -> bool {
    let record = context.own_record();
    record.stacked.store(context.raw(thread), Ordering::Relaxed);
    then_look(); // at the attention word: whoever sets it looks whom to ring afterwards
    let is_wanted = thread.attention.load(Ordering::Relaxed) != 0;
    if is_wanted {
        end(record);
    }
    !is_wanted
}

/// No thread waits in this core any more.
#[inline(always)]
pub fn end(record: &CoreRecord) {
    record.stacked.store(0, Ordering::Release);
}

/// Whether a thread waits in `core`, so that it is to be rung by whoever has set the thread's attention word.
pub fn waits_in(context: &impl Context, core: CoreId, thread: &'static ThreadRecord) -> bool {
    core_record(context, core).stacked.load(Ordering::SeqCst) == context.raw(thread)
}

/// Whether a thread waits in the core that it is on.
pub fn waits(context: &impl Context, thread: &'static ThreadRecord) -> bool {
    CoreId::from_raw(thread.core.load(Ordering::Relaxed)).is_some_and(|core| waits_in(context, core, thread))
}
