//! What misses a core's own caches, or needs ownership: the directory.
//!
//! A last-level cache is inclusive, so its tags are the directory of the cores under it: a tag word says whether any
//! other last-level cache has the line (`ALONE`), whether its only sharer may have modified it (`OWNED`), and whether
//! memory is out of date (`DIRTY`); a second word has a bit per core. Other last-level caches are found by looking at
//! their tags, so nothing can disagree with them.
//!
//! Locks: first the line's directory lock, then at most one core's L2 set lock at a time. Whoever holds the directory
//! lock may change the sets it covers in every L3, in its own L2, and, with that core's set lock, in another core's L2
//! and the L1 lines under it. The core itself may replace an L1 line at any time; so L1 words change by compare and swap.

use std::sync::atomic::Ordering::Relaxed;

use crate::array::{EXCLUSIVE, MODIFIED, SHARED, STATE_MASK, TAG_SHIFT, tag};
use crate::config::Segment;
use crate::core::{Core, Kind};
use crate::counters::Count;
use crate::model::{DomainState, lock, window};
use crate::resolve::SHARED_LINES;

/// L3 tag word: the line is here.
pub(crate) const PRESENT: u64 = 1;
/// L3 tag word: no other last-level cache has the line.
pub(crate) const ALONE: u64 = 2;
/// L3 tag word: the only sharer's L2 holds it exclusive or modified.
pub(crate) const OWNED: u64 = 4;
/// L3 tag word: memory is out of date.
pub(crate) const DIRTY: u64 = 8;

/// The cores of a sharers word, as machine-wide numbers.
pub(crate) fn cores_in(domain: &DomainState<'_>, mut sharers: u64) -> impl Iterator<Item = usize> {
    let first = domain.first_core;
    std::iter::from_fn(move || {
        let bit = (sharers != 0).then(|| sharers.trailing_zeros() as usize)?;
        sharers &= sharers - 1;
        Some(first + bit)
    })
}

/// A line's entry in an L3, read out; written back by [`Entry::store`].
struct Entry<'a, 'd> {
    domain: &'d DomainState<'a>,
    index: usize,
    flags: u64,
    sharers: u64,
}

impl<'a, 'd> Entry<'a, 'd> {
    fn find(domain: &'d DomainState<'a>, line: u64) -> Option<Self> {
        let (index, word) = domain.l3.find(line)?;
        Some(Self { domain, index, flags: word & ((1 << TAG_SHIFT) - 1), sharers: domain.sharers[index].load(Relaxed) })
    }

    fn store(&self, line: u64) {
        self.domain.l3.tags[self.index].store(tag(line, self.flags), Relaxed);
        self.domain.sharers[self.index].store(self.sharers, Relaxed);
    }

    fn remove(&self) {
        self.domain.l3.tags[self.index].store(0, Relaxed);
        self.domain.sharers[self.index].store(0, Relaxed);
    }

    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// What the directory has decided about an access.
struct Decision {
    /// State for the asking core's L2.
    grant: u64,
    /// Latency, stalls counted.
    cost: u64,
}

impl Core<'_> {
    /// An access that its own caches cannot serve. `upgrade`: they hold the line, but shared. Returns its latency.
    pub(crate) fn directory(&self, kind: Kind, line: u64, segment: &Segment, upgrade: bool) -> u64 {
        let _lines = self.model.lock_line(line, self.number);
        let l2 = self.state.l2;
        let mine = l2.find(line).map_or(0, |(_, word)| word & STATE_MASK);
        // Another core may have taken the line since the caller looked.
        let upgrade = upgrade && mine != 0;
        let instruction = kind == Kind::Fetch;
        if upgrade {
            self.count(Count::upgrades, 1);
        } else {
            self.count(if instruction { Count::l2i_misses } else { Count::l2d_misses }, 1);
        }
        let own = &self.model.domains[self.domain];
        let decision = match Entry::find(own, line) {
            Some(entry) if kind.is_write() => self.write_present(entry, line, segment, upgrade),
            Some(entry) => self.read_present(entry, line, segment, instruction),
            None => {
                self.count(if instruction { Count::l3i_misses } else { Count::l3d_misses }, 1);
                self.absent(kind, line, segment)
            }
        };
        let state = decision.grant.max(mine);
        self.fill_l2(line, state);
        self.fill_l1(kind, line, state);
        decision.cost
    }

    /// A read of a line that this last-level cache has.
    fn read_present(&self, mut entry: Entry<'_, '_>, line: u64, segment: &Segment, instruction: bool) -> Decision {
        let others = entry.sharers & !self.bit;
        let mut cost = 0;
        if entry.has(OWNED) && others != 0 {
            self.count(Count::peer_data, 1);
            if cores_in(entry.domain, others).fold(false, |dirty, core| dirty | self.take(core, line, SHARED)) {
                self.l2_write_back(&mut entry);
            }
            entry.flags &= !OWNED;
            cost += self.coherence(self.timing.peer_ps);
            if entry.domain.real {
                cost += self.served_by_l3();
            }
        } else if entry.domain.real {
            cost += self.served_by_l3();
        } else {
            self.count(if instruction { Count::l3i_misses } else { Count::l3d_misses }, 1);
            cost += self.served_by_memory(segment);
        }
        entry.sharers |= self.bit;
        let exclusive = others == 0 && entry.has(ALONE) && !instruction;
        if exclusive {
            entry.flags |= OWNED;
        }
        entry.domain.l3.touch(line, entry.index);
        entry.store(line);
        Decision { grant: if exclusive { EXCLUSIVE } else { SHARED }, cost }
    }

    /// A write to a line that this last-level cache has.
    fn write_present(&self, mut entry: Entry<'_, '_>, line: u64, segment: &Segment, upgrade: bool) -> Decision {
        let others = entry.sharers & !self.bit;
        let mut cost = 0;
        if others != 0 {
            self.count(Count::peer_invalidates, u64::from(others.count_ones()));
            if cores_in(entry.domain, others).fold(false, |dirty, core| dirty | self.take(core, line, 0)) {
                self.l2_write_back(&mut entry);
            }
            cost += self.coherence(self.timing.peer_ps);
        }
        if !entry.has(ALONE) {
            cost += self.snoop_others(line, true).1;
        }
        cost += match (entry.domain.real, upgrade) {
            (true, true) => self.coherence(self.timing.l3_ps),
            (true, false) => self.served_by_l3(),
            // Another core handed it over, or nothing but the permission was missing.
            (false, _) if upgrade || entry.has(OWNED) && others != 0 => 0,
            (false, _) => {
                self.count(Count::l3d_misses, 1);
                self.served_by_memory(segment)
            }
        };
        entry.flags |= ALONE | OWNED;
        entry.sharers = self.bit;
        if !upgrade {
            entry.domain.l3.touch(line, entry.index);
        }
        entry.store(line);
        Decision { grant: MODIFIED, cost }
    }

    /// A line that this last-level cache does not have: from memory, after other last-level caches were asked.
    fn absent(&self, kind: Kind, line: u64, segment: &Segment) -> Decision {
        let (alone, snoop_cost) = self.snoop_others(line, kind.is_write());
        let mut cost = snoop_cost + self.served_by_memory(segment);
        let own = &self.model.domains[self.domain];
        let (index, old) = own.l3.victim(line);
        if old != 0 {
            cost += self.evict_l3(own, index, old >> TAG_SHIFT);
        }
        let mut flags = PRESENT;
        if alone {
            flags |= ALONE;
        }
        let grant = match kind {
            Kind::Store | Kind::Atomic => MODIFIED,
            Kind::Load | Kind::Walk if alone => EXCLUSIVE,
            Kind::Load | Kind::Walk | Kind::Fetch => SHARED,
        };
        if grant != SHARED {
            flags |= OWNED;
        }
        own.l3.touch(line, index);
        Entry { domain: own, index, flags, sharers: self.bit }.store(line);
        Decision { grant, cost }
    }

    /// Asks the other last-level caches to share a line, or to drop it. True if none keeps it; and the latency.
    fn snoop_others(&self, line: u64, drop_it: bool) -> (bool, u64) {
        let (mut alone, mut slowest) = (true, 0);
        if line >= SHARED_LINES {
            return (true, 0);
        }
        for (number, domain) in self.model.domains.iter().enumerate().filter(|(number, _)| *number != self.domain) {
            let Some(mut entry) = Entry::find(domain, line) else { continue };
            let link = &self.model.config.links[self.state.island][self.model.config.domains[number].island];
            if drop_it {
                self.count(Count::snoop_invalidates, 1);
                slowest = slowest.max(link.snoop_invalidate_ps);
                for core in cores_in(domain, entry.sharers) {
                    entry.flags |= if self.take(core, line, 0) { DIRTY } else { 0 };
                }
                slowest += self.write_back_if_dirty(&entry);
                entry.remove();
                continue;
            }
            alone = false;
            if entry.has(ALONE) {
                self.count(Count::snoop_data, 1);
                slowest = slowest.max(link.snoop_data_ps);
                if entry.has(OWNED) {
                    for core in cores_in(domain, entry.sharers) {
                        entry.flags |= if self.take(core, line, SHARED) { DIRTY } else { 0 };
                    }
                }
                slowest += self.write_back_if_dirty(&entry);
                entry.flags = PRESENT;
                entry.store(line);
            }
        }
        (alone, self.coherence(slowest))
    }

    /// Makes room in the last-level cache, taking the line back from the cores under it.
    fn evict_l3(&self, domain: &DomainState<'_>, index: usize, line: u64) -> u64 {
        let sharers = domain.sharers[index].load(Relaxed);
        let flags = domain.l3.tags[index].load(Relaxed) & DIRTY;
        let mut entry = Entry { domain, index, flags, sharers };
        let mut cost = 0;
        if sharers != 0 {
            self.count(Count::back_invalidates, u64::from(sharers.count_ones()));
            for core in cores_in(domain, sharers) {
                if self.take(core, line, 0) {
                    self.l2_write_back(&mut entry);
                }
            }
            cost += self.model.config.back_invalidate_ps;
        }
        cost += self.write_back_if_dirty(&entry);
        entry.remove();
        self.coherence(cost)
    }

    /// Gives this core's L2 a line, in a state. The directory knows already.
    fn fill_l2(&self, line: u64, state: u64) {
        let l2 = self.state.l2;
        if let Some((index, _)) = l2.find(line) {
            l2.tags[index].store(tag(line, state), Relaxed);
            return;
        }
        let (index, old) = l2.victim(line);
        if old != 0 {
            self.evict_l2(old);
        }
        l2.tags[index].store(tag(line, state), Relaxed);
        l2.touch(line, index);
    }

    /// Makes room in this core's L2: its L1s and the directory forget the line as well.
    fn evict_l2(&self, word: u64) {
        let line = word >> TAG_SHIFT;
        self.state.drop_instructions(line);
        if self.state.l1d.change(line, |_| 0).is_some_and(|word| word & STATE_MASK == MODIFIED) {
            self.count(Count::l1_write_backs, 1);
        }
        self.state.l2.change(line, |_| 0);
        let Some(mut entry) = Entry::find(&self.model.domains[self.domain], line) else { return };
        entry.sharers &= !self.bit;
        entry.flags &= if word & STATE_MASK >= EXCLUSIVE { !OWNED } else { !0 };
        if word & STATE_MASK == MODIFIED {
            self.l2_write_back(&mut entry);
        }
        if entry.domain.real || entry.sharers != 0 {
            entry.store(line);
        } else {
            entry.remove();
        }
    }

    /// Without an L2, a line that left one L1 and is not in the other is held no more.
    pub(crate) fn forget_unless_held(&self, line: u64) {
        let held = self.state.l1i.find(line).is_some() || self.state.l1d.find(line).is_some();
        let known = self.state.l2.find(line).filter(|_| !held);
        if let Some((_, word)) = known {
            self.evict_l2(word);
        }
    }

    /// Takes a line away from a core (`state` 0) or makes it share it; whether the core had modified it.
    fn take(&self, core: usize, line: u64, state: u64) -> bool {
        let other = &self.model.cores[core];
        let set_lock = (core != self.number).then(|| lock(&other.locks[other.l2.set(line)], self.number));
        window();
        let change = |word: u64| if state == 0 { 0 } else { word & !STATE_MASK | state };
        let before = other.l2.change(line, change).unwrap_or(0) & STATE_MASK;
        let l1d = other.l1d.change(line, change).unwrap_or(0) & STATE_MASK;
        if state == 0 {
            other.drop_instructions(line);
        }
        drop(set_lock);
        if l1d == MODIFIED && core == self.number {
            self.count(Count::l1_write_backs, 1);
        }
        if core != self.number {
            let received = if state == 0 { Count::invalidations_received } else { Count::downgrades_received };
            // The one kind of counter that several threads write.
            self.counters_of(core)[received as usize].fetch_add(1, Relaxed);
        }
        before == MODIFIED
    }

    /// An L2's modified line arrives in the last level; where that is only a directory, in memory.
    fn l2_write_back(&self, entry: &mut Entry<'_, '_>) {
        if self.has_l2 {
            self.count(Count::l2_write_backs, 1);
        }
        if entry.domain.real {
            entry.flags |= DIRTY;
        } else {
            self.count(Count::memory_write_backs, 1);
        }
    }

    fn write_back_if_dirty(&self, entry: &Entry<'_, '_>) -> u64 {
        if !entry.has(DIRTY) {
            return 0;
        }
        self.count(Count::memory_write_backs, 1);
        self.model.config.write_back_ps
    }

    fn served_by_l3(&self) -> u64 {
        self.count(Count::stall_l3_ps, self.timing.l3_ps);
        self.timing.l3_ps
    }

    fn served_by_memory(&self, segment: &Segment) -> u64 {
        let (reads, stall) = if segment.far {
            (Count::far_reads, Count::stall_far_ps)
        } else {
            (Count::near_reads, Count::stall_near_ps)
        };
        self.count(reads, 1);
        self.count(stall, segment.load_ps);
        segment.load_ps
    }

    fn coherence(&self, cost: u64) -> u64 {
        self.count(Count::stall_coherence_ps, cost);
        cost
    }
}
