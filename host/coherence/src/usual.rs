//! What a core does most that has its directory to itself: compiled without calls, so that it costs few instructions of the
//! host. The result is that of the general way (`core.rs`, `directory.rs`), which does all that this does not.

use crate::array::{EXCLUSIVE, MODIFIED, Oldest, Probe, SHARED, STATE_MASK, Set, TAG_SHIFT};
use crate::config::IslandConfig;
use crate::core::{Company, Core, Held, IN_L1D, IN_L1I, held};
use crate::counters::{Count, Together};
use crate::directory::{ALONE, DIRTY, OWNED, PRESENT};
use crate::keep::Inside;
use crate::model::{DomainState, Model, window};
use crate::{LINE_SIZE, Picoseconds};

/// Who is in the model beside a core that has a last-level cache for itself, and whose caches are of the usual kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nobody, and no link with a bandwidth.
    Nobody,
    /// Other islands, in turns.
    InTurns,
    /// Other islands at the same time: it must keep its directory (`keep.rs`).
    AtOnce,
}

impl Beside {
    /// `None`: the core does nothing in the usual way.
    pub(crate) fn of(
        model: &Model<'_>,
        island: &IslandConfig,
        domain: &DomainState<'_>,
        company: Company,
    ) -> Option<Self> {
        let over_links = island.segments.iter().any(|segment| segment.queue.is_some());
        let has_usual_directory = domain.solo || domain.real && domain.single && domain.l3.is_packed();
        (company.usual && has_usual_directory).then_some(match (model.threads, company.only_domain && !over_links) {
            (true, _) => Self::AtOnce,
            (false, false) => Self::InTurns,
            (false, true) => Self::Nobody,
        })
    }
}

/// A line that is about to come into L1D, and the sets that it comes to.
struct Coming<'s, 'a> {
    probe: Probe,
    store: bool,
    l1: Set<'s, 'a>,
    l2: Set<'s, 'a>,
}

impl<'a> Core<'a> {
    /// A load or store of bytes within one line, if it is of a usual kind: its latency, and what L1D has of the line now.
    /// [`Core::losses`] is what it was. `None`: nothing has happened.
    ///
    /// It hits L1D or L2 and needs no permission; or no other last-level cache has ever been asked for the line, no set has
    /// a free way, and what leaves a cache has left those above it before.
    #[inline(always)]
    pub fn access_usual(&mut self, store: bool, address: u64) -> Option<(Picoseconds, Held)> {
        let port = &self.data;
        if address.wrapping_sub(port.base) >= port.limit {
            return None;
        }
        let beside = self.beside?;
        let probe = Probe::new(address.wrapping_add(port.delta) / LINE_SIZE);
        let l1 = port.l1.set_of(probe.line, true).narrow(true);
        if let Some((index, word)) = l1.find(probe) {
            return self.hit_usual(beside, store, l1, index, word);
        }
        if !l1.is_full() {
            return None;
        }
        let _inside = self.enter_usual(beside)?;
        let l2 = self.l2.set_of(probe.line, true).wide();
        let coming = Coming { probe, store, l1, l2 };
        if let Some((index, word)) = l2.find(probe) {
            return self.hit_l2_usual(coming, index, word);
        }
        if beside != Beside::Nobody && self.is_wanted_elsewhere(probe) {
            return None;
        }
        self.miss_usual(coming)
    }

    /// Goes where nobody else changes this core's caches and directory. `None`: it is not sure that nobody does.
    #[inline(always)]
    fn enter_usual(&self, beside: Beside) -> Option<Option<Inside<'a>>> {
        if beside == Beside::AtOnce { self.enter().map(Some) } else { Some(None) }
    }

    /// Whether others may have a line that L2 has not got, or a link be in use that it comes over.
    #[inline(always)]
    fn is_wanted_elsewhere(&self, probe: Probe) -> bool {
        self.model.askers.others(probe.line, self.domain) != 0 || self.data.segment.unusual
    }

    /// What L1D has, at an index of the line's set. `None`: a store that L2 must be told of, and may not be.
    #[inline(always)]
    fn hit_usual(
        &self,
        beside: Beside,
        store: bool,
        l1: Set<'_, '_>,
        index: usize,
        word: u64,
    ) -> Option<(Picoseconds, Held)> {
        let state = word & STATE_MASK;
        if store && state != MODIFIED {
            if state != EXCLUSIVE {
                return None;
            }
            let _inside = self.enter_usual(beside)?;
            window();
            // Until here nobody has asked for the directory.
            debug_assert_eq!(l1.word(index), word);
            self.modify_at(l1, index, word);
        }
        l1.touch(index);
        self.count(if store { Count::stores } else { Count::loads }, 1);
        Some((Picoseconds(self.timing.l1d_ps), if store { Held::Modified } else { held(state) }))
    }

    /// What L2 has, at an index.
    #[inline(always)]
    fn hit_l2_usual(&self, coming: Coming<'_, '_>, index: usize, word: u64) -> Option<(Picoseconds, Held)> {
        let state = word & STATE_MASK;
        if coming.store && state == SHARED {
            return None;
        }
        window();
        coming.l2.touch(index);
        coming.l2.set_word(index, word | IN_L1D | if coming.store { MODIFIED } else { 0 });
        self.count(Count::l1d_misses, 1);
        self.count(Count::stall_l2_ps, self.timing.l2_ps);
        // Only the first store makes L1's copy differ from what L2 knows.
        let state = if coming.store { MODIFIED } else { state.min(EXCLUSIVE) };
        Some((Picoseconds(self.timing.l2_ps), self.fill_usual(&coming, state, index)))
    }

    /// A line that L2 has not got, and no other last-level cache.
    #[inline(always)]
    fn miss_usual(&self, coming: Coming<'_, '_>) -> Option<(Picoseconds, Held)> {
        if !coming.l2.is_full() {
            return None;
        }
        let gone = coming.l2.oldest();
        if gone.word & IN_L1I != 0 || coming.l1.may_have(gone.probe()) {
            return None;
        }
        if !self.own.solo {
            return self.miss_usual_with_l3(coming, gone);
        }
        window();
        if gone.word & STATE_MASK == MODIFIED {
            Together::WriteBacks.count(self.counters);
        }
        let cost = self.read_memory();
        Some((Picoseconds(cost), self.fill_both_usual(&coming, gone, PRESENT | ALONE | OWNED)))
    }

    /// The same where there is an L3.
    #[inline(always)]
    fn miss_usual_with_l3(&self, coming: Coming<'_, '_>, gone: Oldest) -> Option<(Picoseconds, Held)> {
        let probe = coming.probe;
        let l3 = self.own.l3.set_of(probe.line, true).wide();
        let found = l3.find(probe);
        let old = l3.oldest();
        // What it would replace, no other cache may have.
        if found.is_none() && (!l3.is_full() || l3.link_of(old) != 0) {
            return None;
        }
        debug_assert!(found.is_none_or(|(_, word)| word & ALONE != 0), "nobody else has ever asked");
        window();
        self.leave_l3_usual(gone, coming.l2.link_of(gone) as usize);
        let (cost, index) = match found {
            Some((index, word)) => (self.hit_l3_usual(l3, index, word), index),
            None => (self.miss_l3_usual(l3, probe, old), l3.index(old.way)),
        };
        Some((Picoseconds(cost), self.fill_both_usual(&coming, gone, index as u64)))
    }

    /// L3 has the line at an index, and L2 gets it for itself: the latency.
    #[inline(always)]
    fn hit_l3_usual(&self, l3: Set<'_, '_>, index: usize, word: u64) -> u64 {
        l3.touch(index);
        l3.set_link(index, self.bit);
        l3.set_word(index, word | OWNED);
        Together::DataFromL3.count(self.counters);
        self.served_by_l3()
    }

    /// The line comes from memory into L3, too, in the place of an old one: the latency.
    #[inline(always)]
    fn miss_l3_usual(&self, l3: Set<'_, '_>, probe: Probe, old: Oldest) -> u64 {
        l3.replace(old, probe, PRESENT | ALONE | OWNED, self.bit);
        let cost = self.read_memory();
        if old.word & DIRTY == 0 {
            return cost;
        }
        self.count(Count::memory_write_backs, 1);
        cost + self.coherence(self.model.config.write_back_ps)
    }

    /// Memory serves a line that no cache has: the latency. The misses of all levels are counted with it.
    #[inline(always)]
    fn read_memory(&self) -> u64 {
        let segment = self.data.segment;
        let (served, stall) = if segment.far {
            (Together::DataFromFar, Count::stall_far_ps)
        } else {
            (Together::DataFromNear, Count::stall_near_ps)
        };
        served.count(self.counters);
        self.count(stall, segment.load_ps);
        segment.load_ps
    }

    /// L3 learns that L2 is about to lose a line; `index`: where L3 has it.
    #[inline(always)]
    fn leave_l3_usual(&self, gone: Oldest, index: usize) {
        let (l3, state) = (&self.own.l3, gone.word & STATE_MASK);
        let word = l3.word(index);
        debug_assert_eq!(word >> TAG_SHIFT, gone.word >> TAG_SHIFT);
        l3.set_link(index, 0);
        let dirty = if state == MODIFIED { DIRTY } else { 0 };
        l3.set_word(index, word & if state >= EXCLUSIVE { !OWNED } else { !0 } | dirty);
        if state == MODIFIED {
            self.count(Count::l2_write_backs, 1);
        }
    }

    /// Puts a line for this core alone into L2, in the place of an old one, and into L1D; `link`: of L2. What L1D has of it now.
    #[inline(always)]
    fn fill_both_usual(&self, coming: &Coming<'_, '_>, gone: Oldest, link: u64) -> Held {
        let state = if coming.store { MODIFIED } else { EXCLUSIVE };
        coming.l2.replace(gone, coming.probe, state | IN_L1D, link);
        self.fill_usual(coming, state, coming.l2.index(gone.way))
    }

    /// Puts a line into L1D, which is full; `l2_index`: where L2 has it. What L1D has of it now.
    #[inline(always)]
    fn fill_usual(&self, coming: &Coming<'_, '_>, state: u64, l2_index: usize) -> Held {
        let old = coming.l1.oldest();
        coming.l1.replace(old, coming.probe, state, l2_index as u64);
        if old.word & STATE_MASK == MODIFIED {
            self.count(Count::l1_write_backs, 1);
        }
        self.count(if coming.store { Count::stores } else { Count::loads }, 1);
        held(state)
    }

    /// The first store to the line that was used last in its set of L1D, which was [`Held::Only`]: done, and not counted yet
    /// ([`Core::accessed_again`] does). `address`: one of the line's, or any in the same set. False: another core has just taken
    /// the line, and nothing has happened.
    #[inline(always)]
    pub fn modify_recent(&mut self, address: u64) -> bool {
        let line = address.wrapping_add(self.data.delta) / LINE_SIZE;
        let Some(_inside) = self.beside.and_then(|beside| self.enter_usual(beside)) else {
            return self.modify_recent_in_company(line);
        };
        let l1 = self.data.l1.set_of(line, true);
        let (index, word) = l1.recent();
        if word & STATE_MASK != EXCLUSIVE {
            return false;
        }
        window();
        self.modify_at(l1, index, word);
        true
    }

    #[inline(never)]
    fn modify_recent_in_company(&self, line: u64) -> bool {
        let l1 = self.data.l1.set(line);
        let (index, word) = l1.recent();
        word & STATE_MASK == EXCLUSIVE && self.modify(word >> TAG_SHIFT, l1, index)
    }

    /// The line at an index of L1D, exclusive until now, becomes modified there and in L2.
    #[inline(always)]
    fn modify_at(&self, l1: Set<'_, '_>, index: usize, word: u64) {
        l1.set_word(index, word | MODIFIED);
        let place = l1.link(index) as usize;
        self.l2.set_word(place, self.l2.word(place) | MODIFIED);
    }
}
