//! Requests of harts to each other: interrupts for the supervisor, and fences.
//!
//! Each hart has one request, which it writes and then announces to others by its bit in their words; it writes the next one
//! only when all bits are clear again. So there is no queue, and nothing that can be full. A hart that waits serves others.

use motet_layout::sync::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::hart::{HARTS_MAX, HartId, HartSet};

/// A fence on another hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fence {
    /// `fence.i`.
    Instructions,
    /// `sfence.vma` for a range.
    Addresses {
        /// First address.
        start: usize,
        /// Bytes; `usize::MAX` for all.
        len: usize,
        /// The address space; `None` for all.
        asid: Option<u16>,
    },
}

const INSTRUCTIONS: u64 = 0;
const ADDRESSES: u64 = 1;
const ADDRESSES_OF_SPACE: u64 = 2;

/// Everybody's mail.
#[derive(Debug)]
pub struct Mail([Slot; HARTS_MAX]);

#[derive(Debug)]
struct Slot {
    /// The supervisor is to be interrupted. Written by all, taken by the hart.
    interrupt: AtomicU32,
    /// Whose requests the hart has not served: a bit is set by that hart and cleared by this one.
    fences_from: AtomicU64,
    /// The hart's request to others, written by itself.
    kind: AtomicU64,
    start: AtomicU64,
    len: AtomicU64,
    asid: AtomicU64,
}

impl Mail {
    /// No mail.
    #[expect(clippy::new_without_default, reason = "needed in a constant")]
    pub const fn new() -> Self {
        Self(
            [const {
                Slot {
                    interrupt: AtomicU32::new(0),
                    fences_from: AtomicU64::new(0),
                    kind: AtomicU64::new(INSTRUCTIONS),
                    start: AtomicU64::new(0),
                    len: AtomicU64::new(0),
                    asid: AtomicU64::new(0),
                }
            }; HARTS_MAX],
        )
    }

    /// Asks for an interrupt of `to`'s supervisor; it has to be rung afterwards.
    pub fn post_interrupt(&self, to: HartId) {
        self.0[to.index()].interrupt.store(1, Release);
    }

    /// Whether the supervisor of the calling hart is to be interrupted. Asked once.
    pub fn take_interrupt(&self, own: HartId) -> bool {
        self.0[own.index()].interrupt.swap(0, AcqRel) != 0
    }

    /// Whether others ask the calling hart for anything.
    pub fn is_waiting(&self, own: HartId) -> bool {
        let slot = &self.0[own.index()];
        slot.interrupt.load(Acquire) != 0 || slot.fences_from.load(Acquire) != 0
    }

    /// Asks others for a fence; they have to be rung afterwards. The calling hart waits until each [has served](Self::is_served)
    /// it before it asks again.
    pub fn post_fence(&self, own: HartId, to: HartSet, fence: Fence) {
        let slot = &self.0[own.index()];
        let (kind, [start, len, asid]) = match fence {
            Fence::Instructions => (INSTRUCTIONS, [0; 3]),
            Fence::Addresses { start, len, asid: None } => (ADDRESSES, [start as u64, len as u64, 0]),
            Fence::Addresses { start, len, asid: Some(asid) } => {
                (ADDRESSES_OF_SPACE, [start as u64, len as u64, asid.into()])
            }
        };
        for (field, value) in [(&slot.kind, kind), (&slot.start, start), (&slot.len, len), (&slot.asid, asid)] {
            field.store(value, Relaxed);
        }
        for hart in to.iter() {
            self.0[hart.index()].fences_from.fetch_or(HartSet::default().with(own).0, Release);
        }
    }

    /// Whether `to` has done the fence that the calling hart asked for.
    pub fn is_served(&self, own: HartId, to: HartId) -> bool {
        !HartSet(self.0[to.index()].fences_from.load(Acquire)).contains(own)
    }

    /// Does the fences that others ask the calling hart for.
    pub fn serve(&self, own: HartId, mut run: impl FnMut(Fence)) {
        let asking = &self.0[own.index()].fences_from;
        loop {
            let from = HartSet(asking.load(Acquire));
            let Some(hart) = from.iter().next() else { return };
            run(self.0[hart.index()].request());
            asking.fetch_and(!HartSet::default().with(hart).0, Release);
        }
    }
}

impl Slot {
    fn request(&self) -> Fence {
        let [kind, start, len, asid] =
            [&self.kind, &self.start, &self.len, &self.asid].map(|field| field.load(Relaxed));
        match kind {
            ADDRESSES => Fence::Addresses { start: start as usize, len: len as usize, asid: None },
            ADDRESSES_OF_SPACE => {
                Fence::Addresses { start: start as usize, len: len as usize, asid: Some(asid as u16) }
            }
            _ => Fence::Instructions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn hart(id: usize) -> HartId {
        HartId::new(id).unwrap()
    }

    #[test]
    fn interrupts_are_taken_once() {
        let mail = Mail::new();
        mail.post_interrupt(hart(1));
        mail.post_interrupt(hart(1));
        assert!(mail.is_waiting(hart(1)) && !mail.is_waiting(hart(0)));
        assert!(mail.take_interrupt(hart(1)) && !mail.take_interrupt(hart(1)) && !mail.take_interrupt(hart(0)));
    }

    #[test]
    fn fences_arrive_as_they_were_asked_for() {
        let mail = Mail::new();
        let ranges = [None, Some(3)].map(|asid| Fence::Addresses { start: 4096, len: 8192, asid });
        for fence in [ranges[0], ranges[1], Fence::Instructions] {
            let to = HartSet(0b10_0100);
            mail.post_fence(hart(0), to, fence);
            for target in to.iter() {
                assert!(!mail.is_served(hart(0), target) && mail.is_waiting(target));
                let mut seen = Vec::new();
                mail.serve(target, |fence| seen.push(fence));
                assert_eq!(seen, [fence]);
                assert!(mail.is_served(hart(0), target) && !mail.is_waiting(target));
            }
            mail.serve(hart(1), |fence| panic!("{fence:?} was for others"));
        }
    }

    /// Each of four harts asks all others for a thousand fences at once, and serves them while it waits: the fence that a
    /// hart does is the one that its asker waits for, and it is done before the asker goes on.
    #[test]
    fn harts_that_ask_each_other_all_get_their_fences() {
        const HARTS: usize = 4;
        const ROUNDS: usize = 1000;
        let mail = Mail::new();
        let done: [[AtomicUsize; HARTS]; HARTS] = Default::default();
        let finished = AtomicU32::new(0);
        let serve = |own: usize| {
            mail.serve(hart(own), |fence| match fence {
                Fence::Addresses { start, len, asid: None } => {
                    assert_eq!(done[own][start].swap(len, Relaxed) + 1, len, "hart {start} asked hart {own}");
                }
                other @ (Fence::Instructions | Fence::Addresses { .. }) => panic!("{other:?}"),
            });
        };
        std::thread::scope(|scope| {
            for own in 0..HARTS {
                let (mail, done, finished, serve) = (&mail, &done, &finished, &serve);
                scope.spawn(move || {
                    let others = HartSet((1 << HARTS) - 1).without(hart(own));
                    for round in 1..=ROUNDS {
                        mail.post_fence(hart(own), others, Fence::Addresses { start: own, len: round, asid: None });
                        for other in others.iter() {
                            while !mail.is_served(hart(own), other) {
                                serve(own);
                                std::thread::yield_now();
                            }
                            assert_eq!(done[other.index()][own].load(Relaxed), round);
                        }
                    }
                    finished.fetch_add(1, Release);
                    while finished.load(Acquire) < HARTS as u32 {
                        serve(own);
                        std::thread::yield_now();
                    }
                });
            }
        });
    }
}
