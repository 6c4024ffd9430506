//! The migration engine of a core: transfers a descriptor to another core's memory, as Flick's DMA controller does (ISCA '20,
//! section IV-B).
//!
//! A core writes a descriptor into its own record (`dma_out`), says which of the receiver's two places it is for, and starts the
//! engine. That copies the descriptor and then sets the receiver's status to the time at which it arrives; the receiver
//! clears the status once it has read it. A place that is not clear takes none, so no descriptor is lost or overwritten.
//!
//! On timed machines the simulator is the engine: copying costs no core anything, and the time is that of `[model.dma]`. On others, the
//! sender's core copies.
//!
//! | word | written by | when |
//! |---|---|---|
//! | `dma_out` | the sender | before it starts the engine |
//! | `dma_place` | the sender: none → place; the engine: place → none | before the thread is the receiver's; after it has copied |
//! | `dma_in[place]` | the engine | while it has claimed the status |
//! | `dma_arrives_ns[place]` | the engine: 0 → claimed by the sender → time; the receiver: time → 0 | |
//! | `dma_taken` | the engine | before the sender goes on |
//!
//! Protocol page: `docs/protocols/migration.md`.

use motet_layout::sync::Ordering;

use motet_layout::{CoreId, CoreRecord, DMA_NONE, Descriptor};

/// A status from here on says who copies: nothing has arrived.
const CLAIMED: u64 = u64::MAX - 0xff;

/// The status while the engine of a core copies.
pub const fn claimed_by(sender: CoreId) -> u64 {
    CLAIMED + sender.0 as u64
}

/// The engine of `sender`, whose record is `from`, transfers its descriptor to `to`, where it arrives at `arrives_ns`. `false`: there is no room.
pub fn transfer(sender: CoreId, from: &CoreRecord, to: &CoreRecord, arrives_ns: u64) -> bool {
    let place = from.dma_place.get() as usize % to.dma_in.len();
    let status = &to.dma_arrives_ns[place];
    // Acquire: what the receiver has read before it cleared the status is not overwritten before that.
    let is_free = status.compare_exchange(0, claimed_by(sender), Ordering::Acquire, Ordering::Relaxed).is_ok();
    if is_free {
        for (word, from) in to.dma_in[place].words.iter().zip(&from.dma_out) {
            word.set(from.get());
        }
        // Before it has arrived: the sender may die, and what is under way then is nobody's (`lost`).
        from.dma_place.set(DMA_NONE);
        status.store(arrives_ns.clamp(1, CLAIMED - 1), Ordering::SeqCst);
    }
    from.dma_taken.set(is_free.into());
    is_free
}

/// The descriptor in one of a core's own places, and when it arrives or has arrived.
#[inline(always)]
pub fn arrival(own: &'static CoreRecord, place: u32) -> Option<(&'static Descriptor, u64)> {
    let arrives_ns = own.dma_arrives_ns[place as usize].load(Ordering::Acquire);
    (arrives_ns != 0 && arrives_ns < CLAIMED).then(|| (&own.dma_in[place as usize], arrives_ns))
}

/// The core has read its descriptor: there is room for another one.
pub fn clear(own: &CoreRecord, place: u32) {
    own.dma_arrives_ns[place as usize].store(0, Ordering::Release);
}
