//! What misses a core's own caches, or needs ownership: the directory.
//!
//! A last-level cache is inclusive, so its tags are the directory of the cores under it: a tag word says whether any
//! other last-level cache has the line (`ALONE`), whether its only sharer may have modified it (`OWNED`), and whether
//! memory is out of date (`DIRTY`); its link has a bit per core. Other last-level caches are found by looking at
//! their tags, so nothing can disagree with them.
//!
//! Locks: first the line's directory lock, or those of all directories that have ever asked for it (`locks.rs`), then at
//! most one core's L2 set lock at a time; of an L2 that is its own directory, the two are one. Whoever holds a directory's
//! lock may change the sets it covers in that L3, in its own L2, and, with that core's set lock, in the L2 of another core
//! under that L3, and the L1 lines under it. The core itself may replace an L1 line at any time; so others change L1 words by
//! compare and swap. Where only one thread at a time is in the model ([`Sharing::OneAtATime`](crate::Sharing)), nothing is locked.

use crate::array::{Array, EXCLUSIVE, FLAGS, MODIFIED, Probe, Replaced, SHARED, STATE_MASK, Set, TAG_SHIFT};
use crate::config::Segment;
use crate::core::{Core, IN_L1D, IN_L1I, Kind, Miss};
use crate::counters::{Count, Together, bump_shared};
use crate::keep::Inside;
use crate::locks::{Guard, lock, numbers};
use crate::model::{DomainState, window};

/// L3 tag word: the line is here.
pub(crate) const PRESENT: u64 = 1;
/// L3 tag word: no other last-level cache has the line.
pub(crate) const ALONE: u64 = 2;
/// L3 tag word: the only sharer's L2 holds it exclusive or modified.
pub(crate) const OWNED: u64 = 4;
/// L3 tag word: memory is out of date.
pub(crate) const DIRTY: u64 = 8;

/// The cores of a sharers word, as machine-wide numbers.
pub(crate) fn cores_in(domain: &DomainState<'_>, sharers: u64) -> impl Iterator<Item = usize> {
    let first = domain.first_core;
    numbers(sharers).map(move |bit| first + bit)
}

/// A line's entry in an L3, read out; written back by [`Entry::store`].
pub(crate) struct Entry<'a, 'd> {
    domain: &'d DomainState<'a>,
    index: usize,
    flags: u64,
    pub(crate) sharers: u64,
}

impl<'a, 'd> Entry<'a, 'd> {
    #[inline(always)]
    pub(crate) fn find(domain: &'d DomainState<'a>, probe: Probe) -> Option<Self> {
        let (index, word) = domain.l3.find(probe)?;
        Some(Self::at(domain, index, word))
    }

    #[inline(always)]
    fn at(domain: &'d DomainState<'a>, index: usize, word: u64) -> Self {
        let link = domain.l3.link(index);
        let (flags, sharers) = if domain.solo { (link, 1) } else { (word & FLAGS, link) };
        Self { domain, index, flags, sharers }
    }

    #[inline(always)]
    fn store(&self, line: u64) {
        if self.domain.solo {
            return self.domain.l3.set_link(self.index, self.flags);
        }
        self.domain.l3.set_link(self.index, self.sharers);
        self.domain.l3.set_word(self.index, line << TAG_SHIFT | self.flags);
    }

    fn remove(&self, line: u64) {
        if self.domain.solo {
            return; // Its core has lost the line already, and that is where it was.
        }
        self.domain.l3.set_link(self.index, 0);
        self.domain.l3.set(line).clear(self.index);
    }

    /// What the link of an L2 that has the line is to be.
    #[inline(always)]
    fn link(&self) -> u64 {
        if self.domain.solo { self.flags } else { self.index as u64 }
    }

    fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// Whether the L1 for an access of this kind may have a line. `known`: the line's set of the L1 for this kind.
#[inline(always)]
fn may_have(l1: &Array<'_>, kind: Kind, probe: Probe, known: Option<(Kind, Set<'_, '_>)>) -> bool {
    match known {
        Some((known, set)) if known.inside() == kind.inside() => set.may_have(probe),
        Some(_) | None => l1.set_of(probe.line, known.is_some()).narrow(known.is_some()).may_have(probe),
    }
}

/// What the directory has decided about an access.
struct Decision {
    /// State for the asking core's L2.
    grant: u64,
    /// Latency, stalls counted.
    cost: u64,
    /// The link for its L2: where the last level has the line.
    link: u64,
}

impl<'a> Core<'a> {
    /// An access that its own caches cannot serve: its latency, and the state of L1's copy. `own_lock`: that of its own
    /// directory, if it is held; `inside`: the core keeps it.
    #[inline(always)]
    pub(crate) fn directory(
        &self,
        miss: &Miss<'_, '_>,
        own_lock: Option<Guard<'a>>,
        inside: Option<Inside<'a>>,
    ) -> (u64, u64) {
        let (line, company) = (miss.probe.line, miss.company);
        let own_lock = own_lock.or_else(|| self.model.lock_directory(self.domain, line, self.number, company.threads));
        if company.only_domain || self.model.askers.others(line, self.domain) == 0 {
            window();
            return self.decide(miss, 0);
        }
        drop(own_lock);
        drop(inside);
        self.directory_of_many(miss)
    }

    /// The same of a line that other last-level caches may have.
    #[inline(never)]
    fn directory_of_many(&self, miss: &Miss<'_, '_>) -> (u64, u64) {
        let (_locks, others) = self.model.lock_askers(self.domain, miss.probe.line, self.number);
        let (cost, state) = self.decide(miss, others);
        self.has_met_others(miss.probe.line, cost);
        (cost, state)
    }

    /// Decides about an access, and does what was decided. `others`: a bit for each of the other last-level caches that may
    /// have the line. All their locks are held.
    #[inline(always)]
    fn decide(&self, miss: &Miss<'_, '_>, others: u64) -> (u64, u64) {
        let (kind, probe, segment) = (miss.kind, miss.probe, miss.segment);
        let l2 = &self.l2;
        // Another core may have taken the line since the caller looked; nobody can have given it one.
        let held = miss.held.map(|index| (index, l2.word(index))).filter(|(_, word)| probe.is(*word));
        // Without an L2, the other L1 may have it; that is no upgrade.
        let upgrade = held.is_some() && (miss.company.solo || self.has_l2 || miss.in_l1.is_some());
        let instruction = kind == Kind::Fetch;
        if upgrade {
            self.count(Count::upgrades, 1);
        } else {
            self.count(if instruction { Count::l2i_misses } else { Count::l2d_misses }, 1);
        }
        let found = if miss.company.solo { held } else { self.own.l3.find(probe) };
        let decision = match found.map(|(index, word)| Entry::at(self.own, index, word)) {
            Some(entry) if kind.is_write() => self.write_present(entry, probe, segment, upgrade, others),
            Some(entry) => self.read_present(entry, probe, segment, instruction),
            None => {
                self.count(if instruction { Count::l3i_misses } else { Count::l3d_misses }, 1);
                self.absent(miss, others)
            }
        };
        let (state, l2_index) = match held {
            Some((index, word)) => {
                let state = decision.grant.max(word & STATE_MASK);
                l2.set_word(index, word & !STATE_MASK | state | kind.inside());
                l2.set_link(index, decision.link);
                (state, index)
            }
            None => (decision.grant, self.fill_l2(miss, decision.grant | kind.inside(), decision.link)),
        };
        (decision.cost, self.fill_l1(miss, state, l2_index))
    }

    /// A read of a line that this last-level cache has.
    #[inline(never)]
    fn read_present(&self, mut entry: Entry<'_, '_>, probe: Probe, segment: &Segment, instruction: bool) -> Decision {
        let others = entry.sharers & !self.bit;
        let mut cost = 0;
        if entry.has(OWNED) && others != 0 {
            self.count(Count::peer_data, 1);
            if cores_in(entry.domain, others)
                .fold(false, |dirty, core| dirty | self.take(entry.domain, core, probe, SHARED))
            {
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
            cost += self.served_by_memory(segment, instruction);
        }
        if others != 0 {
            self.has_met_others(probe.line, cost);
        }
        entry.sharers |= self.bit;
        let exclusive = others == 0 && entry.has(ALONE) && !instruction;
        if exclusive {
            entry.flags |= OWNED;
        }
        entry.domain.l3.set(probe.line).touch(entry.index);
        entry.store(probe.line);
        Decision { grant: if exclusive { EXCLUSIVE } else { SHARED }, cost, link: entry.link() }
    }

    /// A write to a line that this last-level cache has.
    #[inline(never)]
    fn write_present(
        &self,
        mut entry: Entry<'_, '_>,
        probe: Probe,
        segment: &Segment,
        upgrade: bool,
        others: u64,
    ) -> Decision {
        let peers = entry.sharers & !self.bit;
        let mut cost = 0;
        if peers != 0 {
            self.count(Count::peer_invalidates, u64::from(peers.count_ones()));
            if cores_in(entry.domain, peers).fold(false, |dirty, core| dirty | self.take(entry.domain, core, probe, 0))
            {
                self.l2_write_back(&mut entry);
            }
            cost += self.coherence(self.timing.peer_ps);
        }
        if !entry.has(ALONE) {
            cost += self.snoop_others(probe, true, others).1;
        }
        cost += match (entry.domain.real, upgrade) {
            (true, true) => self.coherence(self.timing.l3_ps),
            (true, false) => self.served_by_l3(),
            // Another core handed it over, or nothing but the permission was missing.
            (false, _) if upgrade || entry.has(OWNED) && peers != 0 => 0,
            (false, _) => {
                self.count(Count::l3d_misses, 1);
                self.served_by_memory(segment, false)
            }
        };
        if peers != 0 {
            self.has_met_others(probe.line, cost);
        }
        entry.flags |= ALONE | OWNED;
        entry.sharers = self.bit;
        if !upgrade {
            entry.domain.l3.set(probe.line).touch(entry.index);
        }
        entry.store(probe.line);
        Decision { grant: MODIFIED, cost, link: entry.link() }
    }

    /// A line that this last-level cache does not have: from memory, after other last-level caches were asked.
    #[inline(always)]
    fn absent(&self, miss: &Miss<'_, '_>, others: u64) -> Decision {
        let (kind, probe, segment) = (miss.kind, miss.probe, miss.segment);
        let (alone, snoop_cost) = self.snoop_others(probe, kind.is_write(), others);
        let mut cost = snoop_cost + self.served_by_memory(segment, kind == Kind::Fetch);
        let grant = if kind.is_write() {
            MODIFIED
        } else if alone && kind != Kind::Fetch {
            EXCLUSIVE
        } else {
            SHARED
        };
        let flags = PRESENT | if alone { ALONE } else { 0 } | if grant == SHARED { 0 } else { OWNED };
        if miss.company.solo {
            return Decision { grant, cost, link: flags };
        }
        let old = self.own.l3.set(probe.line).insert(probe, flags, self.bit, true);
        if old.word != 0 {
            cost += self.evict_l3(old);
        }
        Decision { grant, cost, link: old.index as u64 }
    }

    /// Asks the other last-level caches to share a line, or to drop it. True if none keeps it; and the latency.
    #[inline(always)]
    fn snoop_others(&self, probe: Probe, drop_it: bool, others: u64) -> (bool, u64) {
        if others == 0 { (true, 0) } else { self.ask_others(probe, drop_it, others) }
    }

    #[inline(never)]
    fn ask_others(&self, probe: Probe, drop_it: bool, others: u64) -> (bool, u64) {
        let (mut alone, mut slowest) = (true, 0);
        for number in numbers(others) {
            if let Some(entry) = Entry::find(&self.model.domains[number], probe) {
                alone = false;
                self.snoop(entry, number, probe, drop_it, &mut slowest);
            }
        }
        (alone || drop_it, self.coherence(slowest))
    }

    /// Asks one other last-level cache that has the line. `slowest`: the slowest answer so far.
    #[inline(never)]
    pub(crate) fn snoop(
        &self,
        mut entry: Entry<'_, '_>,
        number: usize,
        probe: Probe,
        drop_it: bool,
        slowest: &mut u64,
    ) {
        let link = &self.model.config.links[self.state.island][self.model.config.domains[number].island];
        if drop_it {
            self.count(Count::snoop_invalidates, 1);
            *slowest = link.snoop_invalidate_ps.max(*slowest);
            *slowest += self.drop_entry(entry, probe);
        } else if entry.has(ALONE) {
            self.count(Count::snoop_data, 1);
            *slowest = link.snoop_data_ps.max(*slowest);
            if entry.has(OWNED) {
                for core in cores_in(entry.domain, entry.sharers) {
                    entry.flags |= if self.take(entry.domain, core, probe, SHARED) { DIRTY } else { 0 };
                }
            }
            *slowest += self.write_back_if_dirty(&entry);
            entry.flags = PRESENT;
            entry.store(probe.line);
        }
    }

    /// A line leaves a last-level cache and the cores under it: what writing it back costs.
    pub(crate) fn drop_entry(&self, mut entry: Entry<'_, '_>, probe: Probe) -> u64 {
        for core in cores_in(entry.domain, entry.sharers) {
            entry.flags |= if self.take(entry.domain, core, probe, 0) { DIRTY } else { 0 };
        }
        let cost = self.write_back_if_dirty(&entry);
        entry.remove(probe.line);
        cost
    }

    /// The last-level cache has lost a line to another: the cores under it lose it, too.
    #[inline(never)]
    fn evict_l3(&self, old: Replaced) -> u64 {
        let (line, flags) = (old.word >> TAG_SHIFT, old.word & FLAGS);
        let mut entry = Entry { domain: self.own, index: old.index, flags, sharers: old.link };
        let mut cost = 0;
        if entry.sharers != 0 {
            self.count(Count::back_invalidates, u64::from(entry.sharers.count_ones()));
            let probe = Probe::new(line);
            for core in cores_in(self.own, entry.sharers) {
                if self.take(entry.domain, core, probe, 0) {
                    self.l2_write_back(&mut entry);
                }
                // Nobody has asked for it.
                self.model.cores[core].doubt.forget(line);
            }
            cost += self.model.config.back_invalidate_ps;
        }
        cost += self.write_back_if_dirty(&entry);
        self.coherence(cost)
    }

    /// Gives this core's L2 a line that it has not got, and that the directory knows already; where it is now.
    #[inline(always)]
    fn fill_l2(&self, miss: &Miss<'_, '_>, flags: u64, link: u64) -> usize {
        let old = miss.l2.insert(miss.probe, flags, link, !miss.company.solo);
        if old.word != 0 {
            let l1 = miss.company.usual.then_some((miss.kind, miss.l1));
            self.evict_l2(old.probe(), old.word, old.link, miss.company.solo, l1);
        }
        old.index
    }

    /// This core's L2 has lost a line to another: its L1s and the directory forget it as well. `link`: its place there;
    /// `l1`: the line's set of one L1, if that is known.
    #[inline(always)]
    fn evict_l2(&self, probe: Probe, word: u64, link: u64, solo: bool, l1: Option<(Kind, Set<'_, '_>)>) {
        self.evict_l1(probe, word, l1);
        let state = word & STATE_MASK;
        if solo {
            if state == MODIFIED {
                Together::WriteBacks.count(self.counters);
            }
            return;
        }
        self.leave_l3(probe.line, state, link as usize);
    }

    /// The directory forgets that this core has a line.
    #[inline(never)]
    fn leave_l3(&self, line: u64, state: u64, l3_index: usize) {
        let l3_word = self.own.l3.word(l3_index);
        if l3_word >> TAG_SHIFT != line {
            return;
        }
        let mut entry = Entry::at(self.own, l3_index, l3_word);
        entry.sharers &= !self.bit;
        entry.flags &= if state >= EXCLUSIVE { !OWNED } else { !0 };
        if state == MODIFIED {
            self.l2_write_back(&mut entry);
        }
        if entry.domain.real || entry.sharers != 0 {
            entry.store(line);
        } else {
            entry.remove(line);
        }
    }

    /// This core's L1s lose a line that L2 loses. `l2_word`: L2's tag word of it; `l1`: as of [`Core::evict_l2`].
    #[inline(always)]
    fn evict_l1(&self, probe: Probe, l2_word: u64, l1: Option<(Kind, Set<'_, '_>)>) {
        let in_l1d = l2_word & IN_L1D != 0 && may_have(&self.data.l1, Kind::Load, probe, l1);
        if in_l1d || (l2_word & IN_L1I != 0 && may_have(&self.fetch.l1, Kind::Fetch, probe, l1)) {
            self.evict_l1_held(probe);
        }
    }

    #[cold]
    fn evict_l1_held(&self, probe: Probe) {
        if self.state.l1i.set(probe.line).change(probe, 0, false).is_some() {
            self.lose_line();
        }
        if let Some(word) = self.state.l1d.set(probe.line).change(probe, 0, false) {
            self.lose_line();
            if word & STATE_MASK == MODIFIED {
                self.count(Count::l1_write_backs, 1);
            }
        }
    }

    /// Without an L2, a line that left one L1 and is not in the other is held no more. `index`: where it was held.
    #[cold]
    pub(crate) fn forget_unless_held(&self, line: u64, index: usize) {
        let (probe, l2) = (Probe::new(line), &self.state.l2);
        let word = l2.word(index);
        let held = self.state.l1i.find(probe).is_some() || self.state.l1d.find(probe).is_some();
        if !held && probe.is(word) {
            l2.set(line).clear(index);
            self.evict_l2(probe, word, l2.link(index), self.own.solo, None);
        }
    }

    /// Takes a line away from a core of a domain (`state` 0) or makes it share it; whether the core had modified it.
    fn take(&self, domain: &DomainState<'_>, core: usize, probe: Probe, state: u64) -> bool {
        let other = &self.model.cores[core];
        let foreign = core != self.number;
        let racing = foreign && self.model.threads;
        let set = other.l2.set(probe.line);
        // That of an L2 that is its own directory is held.
        let set_lock = (racing && !domain.solo).then(|| lock(set.lock(), self.number));
        window();
        // L2's words change under locks only.
        let word = set.change(probe, state, false).unwrap_or(0);
        if !foreign {
            self.evict_l1(probe, word, None);
            return word & STATE_MASK == MODIFIED;
        }
        if word & IN_L1D != 0 {
            other.l1d.set(probe.line).change(probe, state, racing);
        }
        if word & IN_L1I != 0 && state == 0 {
            other.l1i.set(probe.line).change(probe, 0, racing);
        }
        drop(set_lock);
        other.doubt.lose(probe.line, self.state.doubt.now_ps());
        let received = if state == 0 { Count::invalidations_received } else { Count::downgrades_received };
        bump_shared(other.counters, received, racing);
        Together::LostLines.count_shared(other.counters, racing);
        word & STATE_MASK == MODIFIED
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

    #[inline(always)]
    pub(crate) fn served_by_l3(&self) -> u64 {
        self.count(Count::stall_l3_ps, self.timing.l3_ps);
        self.timing.l3_ps
    }

    #[inline(always)]
    fn served_by_memory(&self, segment: &Segment, instruction: bool) -> u64 {
        let latency_ps = segment.read_ps(instruction);
        let (reads, stall) = if segment.far {
            (Count::far_reads, Count::stall_far_ps)
        } else {
            (Count::near_reads, Count::stall_near_ps)
        };
        self.count(reads, 1);
        self.count(stall, latency_ps);
        let wait_ps = segment.queue.map_or(0, |queue| self.wait_for_line(queue, latency_ps));
        latency_ps + wait_ps
    }

    #[inline(always)]
    pub(crate) fn coherence(&self, cost: u64) -> u64 {
        if cost != 0 {
            self.count(Count::stall_coherence_ps, cost);
        }
        cost
    }
}
