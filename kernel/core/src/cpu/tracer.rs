//! What a core keeps in mind of its trace; `trace` writes it.

use core::cell::Cell;

use motet_layout::{CoreId, Pool, TraceRing};
use motet_protocol::trace::{End, is_for_all, ring_of};

/// What a core needs to write its trace.
pub struct Tracer {
    ring: Option<&'static TraceRing>,
    guests: Option<&'static TraceRing>,
    /// The thread whose run is open in the trace (pool address), and its id.
    running: Cell<(u64, u32)>,
    /// Why that one is about to leave the core.
    end: Cell<End>,
}

impl Tracer {
    /// The tracer of core `id`.
    pub fn new(pool: Pool, id: CoreId) -> Self {
        let guests = ring_of(pool, id);
        let ring = guests.filter(|ring| is_for_all(ring));
        Self { ring, guests, running: Cell::new((0, 0)), end: Cell::new(End::Ended) }
    }

    /// Where the trace is written, if anybody wants to know.
    #[inline(always)]
    pub fn ring(&self) -> Option<&'static TraceRing> {
        self.ring
    }

    /// Where this core writes when virtual machines run, which is all that a report wants.
    #[inline(always)]
    pub fn guests(&self) -> Option<&'static TraceRing> {
        self.guests
    }

    /// The run of a thread (pool address, id) begins in the trace. Unless it is said otherwise, it will leave the core because it ends.
    #[inline(always)]
    pub fn begin(&self, thread: u64, tid: u32) {
        self.running.set((thread, tid));
        self.end.set(End::Ended);
    }

    /// Says why the running thread is about to leave the core.
    #[inline(always)]
    pub fn will_end(&self, end: End) {
        self.end.set(end);
    }

    /// Whether it is this thread's run (pool address) that is open.
    #[inline(always)]
    pub fn is_running(&self, thread: u64) -> bool {
        self.running.get().0 == thread
    }

    /// The run that is open, if any, ends: the thread's id, and why.
    #[inline(always)]
    pub fn stop(&self) -> Option<(u32, End)> {
        match self.running.replace((0, 0)) {
            (0, _) => None,
            (_, tid) => Some((tid, self.end.get())),
        }
    }
}
