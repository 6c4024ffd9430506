//! What a core keeps in mind of its trace; `trace` writes it.

use core::cell::Cell;

use motet_layout::{CoreId, Pool, TraceRing};
use motet_protocol::trace::{End, is_for_all, ring_of};

/// What a core needs to write its trace.
pub struct Tracer {
    /// Where it is written, if anybody wants to know.
    pub ring: Option<&'static TraceRing>,
    /// Where it writes when virtual machines run, which is all that a report wants.
    pub guests: Option<&'static TraceRing>,
    /// The thread whose run is open in the trace (pool address), and its id.
    pub running: Cell<(u64, u32)>,
    /// Why that one is about to leave the core.
    pub end: Cell<End>,
}

impl Tracer {
    /// The tracer of core `id`.
    pub fn new(pool: Pool, id: CoreId) -> Self {
        let guests = ring_of(pool, id);
        let ring = guests.filter(|ring| is_for_all(ring));
        Self { ring, guests, running: Cell::new((0, 0)), end: Cell::new(End::Ended) }
    }

    /// Says why the running thread is about to leave the core.
    #[inline(always)]
    pub fn will_end(&self, end: End) {
        self.end.set(end);
    }
}
