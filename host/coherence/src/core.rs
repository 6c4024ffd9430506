//! One core: the events that it reports, and the path of hits in its own caches.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::array::{Array, EXCLUSIVE, MODIFIED, Probe, SHARED, STATE_MASK, Set, TAG_SHIFT};
use crate::bandwidth::WORD_BYTES;
use crate::config::{Class, Policy, Segment, Timing};
use crate::counters::{Count, CounterWords, Together, bump};
use crate::keep::Keeping;
use crate::locks::{Guard, lock};
use crate::model::{CoreState, DomainState, Model, window};
use crate::tlb::Tlbs;
use crate::usual::Beside;
use crate::{LINE_SIZE, Picoseconds};

/// L2 tag word, beside the state: the line has been in L1I since it came, and may be there still.
pub(crate) const IN_L1I: u64 = 4;
/// The same of L1D.
pub(crate) const IN_L1D: u64 = 8;

/// What an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Instructions. Report one fetch for each line that control enters, not for each instruction.
    Fetch = 0,
    /// A load.
    Load = 1,
    /// A store.
    Store = 2,
    /// An atomic read-modify-write.
    Atomic = 3,
    /// A page-table entry read by the walker; like a load.
    Walk = 4,
}

impl Kind {
    /// Whether it needs the line for itself.
    #[inline(always)]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Store | Self::Atomic)
    }

    /// The least state of an L1 line that serves this access at once.
    #[inline(always)]
    const fn needs(self) -> u64 {
        if self.is_write() { MODIFIED } else { SHARED }
    }

    /// The flag of L2 that says that the L1 of this access may have the line.
    #[inline(always)]
    pub(crate) const fn inside(self) -> u64 {
        if matches!(self, Self::Fetch) { IN_L1I } else { IN_L1D }
    }

    #[inline(always)]
    const fn count(self) -> Count {
        match self {
            Self::Fetch => Count::fetches,
            Self::Load => Count::loads,
            Self::Store => Count::stores,
            Self::Atomic => Count::atomics,
            Self::Walk => Count::walks,
        }
    }
}

/// What L1 has of a line after an access to it, as long as no line is lost ([`Core::losses`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing.
    Nothing = 0,
    /// A copy: loads and fetches hit.
    Copy = 1,
    /// The only copy: a store needs [`Core::modify_recent`], and hits if that says so.
    Only = 2,
    /// A modified copy: stores hit, too.
    Modified = 3,
}

/// What a state means, or 0.
#[inline(always)]
pub(crate) const fn held(state: u64) -> Held {
    match state {
        MODIFIED => Held::Modified,
        EXCLUSIVE => Held::Only,
        SHARED => Held::Copy,
        _ => Held::Nothing,
    }
}

/// Who else there may be beside a core, and what its caches are like.
#[derive(Clone, Copy)]
pub(crate) struct Company {
    /// Others are in the model at the same time: locks are needed.
    pub(crate) threads: bool,
    /// Its L2 is its own directory ([`DomainState::solo`]).
    pub(crate) solo: bool,
    /// There is no other last-level cache.
    pub(crate) only_domain: bool,
    /// All its caches are of packed orders, L1s of up to eight ways, and lines of one set of L2 share a set of each L1.
    pub(crate) usual: bool,
}

impl Company {
    fn of(model: &Model<'_>, core: &CoreState<'_>, domain: &DomainState<'_>) -> Self {
        let (l1s, l2) = ([core.l1i, core.l1d], &core.l2);
        let usual = l2.is_packed() && l1s.iter().all(|l1| l1.is_narrow() && l1.sets() <= l2.sets());
        Self { threads: model.threads, solo: domain.solo, only_domain: model.domains.len() == 1, usual }
    }
}

/// An access that misses L1, or may not do in L1 what it wants.
pub(crate) struct Miss<'s, 'a> {
    pub(crate) kind: Kind,
    pub(crate) company: Company,
    pub(crate) probe: Probe,
    pub(crate) segment: &'s Segment,
    /// The line's set of the L1 that was asked, and of L2.
    pub(crate) l1: Set<'s, 'a>,
    pub(crate) l2: Set<'s, 'a>,
    /// Where L2 has the line; another core may have taken it since.
    pub(crate) held: Option<usize>,
    /// Where L1 has it, likewise.
    pub(crate) in_l1: Option<usize>,
}

/// What L2 has done about a miss.
enum Served {
    /// All that was asked; the state of L1's copy.
    Here(u64),
    /// It has the line, but shared, and this is a store.
    Shared,
    /// Nothing: another core has just taken the line.
    Gone,
}

/// The way into the caches for instructions or for data, with the memory segment that was used last.
pub(crate) struct Port<'a> {
    /// The segment's first local address.
    pub(crate) base: u64,
    /// Its size if it is cached, else 0: so one comparison says whether the quick path is open.
    pub(crate) limit: u64,
    /// Local address plus this is the global address.
    pub(crate) delta: u64,
    hit_ps: u64,
    pub(crate) segment: &'a Segment,
    pub(crate) l1: Array<'a>,
}

/// No segment.
static NOWHERE: Segment = Segment {
    local: 0,
    size: 0,
    data_delta: 0,
    fetch_delta: 0,
    data: Policy::Uncached,
    fetch: Policy::Uncached,
    load_ps: 0,
    fetch_ps: 0,
    store_ps: 0,
    far: false,
    coherent_elsewhere: 0,
    private_elsewhere: 0,
    queue: None,
    unusual: false,
};

impl Port<'_> {
    /// Whether the way used last serves an access at once. Such a hit needs no `touch`: no policy would change its mind.
    #[inline(always)]
    fn hits(&self, line: u64, needs: u64) -> bool {
        (self.l1.set(line).recent().1 ^ line << TAG_SHIFT).wrapping_sub(needs) <= MODIFIED - needs
    }
}

/// A core, claimed by one thread. It has no interior mutability: the compiler may keep what it has read of it while words of
/// the region change. Dropping it releases the claim and keeps the caches' contents.
pub struct Core<'a> {
    pub(crate) model: &'a Model<'a>,
    pub(crate) state: &'a CoreState<'a>,
    pub(crate) own: &'a DomainState<'a>,
    pub(crate) number: usize,
    pub(crate) domain: usize,
    pub(crate) bit: u64,
    pub(crate) has_l2: bool,
    pub(crate) counters: &'a CounterWords,
    pub(crate) l2: Array<'a>,
    company: Company,
    /// `None`: it does nothing in the usual way.
    pub(crate) beside: Option<Beside>,
    pub(crate) keeping: Keeping,
    pub(crate) timing: Timing,
    pub(crate) fetch: Port<'a>,
    pub(crate) data: Port<'a>,
    segments: &'a [Segment],
    /// Part of an instruction's time below a picosecond, not reported yet.
    rest_fs: u64,
    /// Of the access under way, if it is known how many.
    pub(crate) bytes: u64,
    pub(crate) tlbs: Option<Tlbs>,
    pub(crate) l2_tlb_ps: u64,
}

impl Drop for Core<'_> {
    fn drop(&mut self) {
        self.stop_keeping();
        self.state.claim.store(0, Release);
    }
}

impl<'a> Core<'a> {
    pub(crate) fn new(model: &'a Model<'a>, number: usize) -> Self {
        let state = &model.cores[number];
        let island = &model.config.islands[state.island];
        let own = &model.domains[island.domain];
        let company = Company::of(model, state, own);
        let port = |l1, hit_ps| Port { base: 0, limit: 0, delta: 0, hit_ps, segment: &NOWHERE, l1 };
        Self {
            model,
            state,
            own,
            number,
            domain: island.domain,
            bit: 1 << (number - own.first_core),
            has_l2: island.l2.real,
            counters: state.counters,
            l2: state.l2,
            company,
            beside: Beside::of(model, island, own, company),
            keeping: Keeping::new(),
            timing: island.timing,
            fetch: port(state.l1i, island.timing.l1i_ps),
            data: port(state.l1d, island.timing.l1d_ps),
            segments: &island.segments,
            rest_fs: 0,
            bytes: WORD_BYTES,
            tlbs: island.tlbs.as_ref().map(Tlbs::new),
            l2_tlb_ps: island.tlbs.as_ref().map_or(0, |tlbs| tlbs.l2_ps),
        }
    }

    /// The core's number in the machine.
    pub fn number(&self) -> usize {
        self.number
    }

    /// An access to `size` bytes at a local physical address: its latency. Where no memory is, a device is meant.
    #[inline(always)]
    pub fn access(&mut self, kind: Kind, address: u64, size: u32) -> Picoseconds {
        let inside = address % LINE_SIZE + u64::from(size) <= LINE_SIZE;
        if inside && let Some(cost) = self.hit(kind, address) {
            return cost;
        }
        if inside { self.access_inside(kind, address) } else { self.access_lines(kind, address, size) }
    }

    /// An access to bytes within one line that is not likely to hit the line used last in its set: its latency, and what L1 has
    /// of the line now.
    #[inline(always)]
    pub fn access_other(&mut self, kind: Kind, address: u64) -> (Picoseconds, Held) {
        let port = if matches!(kind, Kind::Fetch) { &self.fetch } else { &self.data };
        if address.wrapping_sub(port.base) >= port.limit {
            return self.access_elsewhere(kind, address);
        }
        let line = address.wrapping_add(port.delta) / LINE_SIZE;
        let (cost, state) = self.cached(kind, line, port.segment);
        (Picoseconds(cost), held(state))
    }

    /// The same where the segment used last is not.
    #[cold]
    fn access_elsewhere(&mut self, kind: Kind, address: u64) -> (Picoseconds, Held) {
        let (cost, state) = self.access_line(kind, address);
        (Picoseconds(cost), held(state))
    }

    #[inline(never)]
    fn access_inside(&mut self, kind: Kind, address: u64) -> Picoseconds {
        self.access_other(kind, address).0
    }

    /// An access to bytes within one line, if it is one of the cheapest kind: it hits L1, in the way that was used last in its
    /// set, and no other core is asked. Otherwise nothing has happened yet.
    #[inline(always)]
    fn hit(&mut self, kind: Kind, address: u64) -> Option<Picoseconds> {
        let port = if matches!(kind, Kind::Fetch) { &self.fetch } else { &self.data };
        let line = address.wrapping_add(port.delta) / LINE_SIZE;
        if address.wrapping_sub(port.base) >= port.limit || !port.hits(line, kind.needs()) {
            return None;
        }
        bump(self.counters, kind.count(), 1);
        let extra = if matches!(kind, Kind::Atomic) { self.timing.atomic_ps } else { 0 };
        Some(Picoseconds(port.hit_ps + extra))
    }

    /// Counts fetches that are known to be hits without consequences ([`Core::losses`]): their latency.
    #[inline]
    pub fn fetched_again(&mut self, lines: u64) -> Picoseconds {
        bump(self.counters, Count::fetches, lines);
        Picoseconds(lines * self.fetch.hit_ps)
    }

    /// How often something else than an access to the same set has taken a line, or the right to write it, from L1I or L1D.
    /// As long as it is the same number, each set still has the line that this core used last in it, in the state that the
    /// access left it in. So a fetch or a load of that line, and a store if the last access was one, would cost a hit and
    /// change nothing but a count; [`Core::fetched_again`] and [`Core::accessed_again`] then do the same. (With
    /// [`Sharing::Threads`](crate::Sharing), what another core does at the same time counts as after the access.)
    #[inline(always)]
    pub fn losses(&self) -> u64 {
        Together::LostLines.word(self.counters).load(Relaxed)
    }

    /// How often this core has taken something from another one, lost something to one, or gone around the caches, where others may
    /// have written: a number to be compared with an earlier one.
    pub fn exchanges(&self) -> u64 {
        let counts = [
            Count::snoop_data,
            Count::snoop_invalidates,
            Count::invalidations_received,
            Count::downgrades_received,
            Count::uncached_reads,
            Count::uncached_writes,
        ];
        counts.iter().fold(0, |sum, &count| sum.wrapping_add(self.counters[count as usize].load(Relaxed)))
    }

    /// Counts loads and stores that are known to be hits without consequences ([`Core::losses`]): their latency.
    #[inline]
    pub fn accessed_again(&mut self, loads: u64, stores: u64) -> Picoseconds {
        bump(self.counters, Count::loads, loads);
        bump(self.counters, Count::stores, stores);
        Picoseconds((loads + stores) * self.data.hit_ps)
    }

    /// `count` instructions of a class: their time without memory stalls.
    #[inline]
    pub fn instructions(&mut self, class: Class, count: u64) -> Picoseconds {
        let femtoseconds = self.rest_fs + count * self.timing.instruction_fs[class as usize];
        self.rest_fs = femtoseconds % 1000;
        let picoseconds = femtoseconds / 1000;
        bump(self.counters, Count::instructions, count);
        bump(self.counters, Count::instruction_ps, picoseconds);
        Picoseconds(picoseconds)
    }

    /// An access to a device register, when the caller knows that it is one.
    pub fn device_access(&mut self, kind: Kind) -> Picoseconds {
        self.device_access_that_waits(kind, Picoseconds(0))
    }

    /// As [`device_access`](Self::device_access), to a device that answers later.
    pub fn device_access_that_waits(&mut self, kind: Kind, wait: Picoseconds) -> Picoseconds {
        let config = &self.model.config;
        let cost = wait.0 + if kind == Kind::Store { config.device_store_ps } else { config.device_ps };
        self.count(Count::device_accesses, 1);
        self.count(Count::stall_device_ps, cost);
        Picoseconds(cost + self.send_combined())
    }

    /// An access to a register of a device that says itself what it costs.
    pub fn register_access(&mut self, cost: Picoseconds) -> Picoseconds {
        self.count(Count::device_accesses, 1);
        self.count(Count::stall_device_ps, cost.0);
        Picoseconds(cost.0 + self.send_combined())
    }

    /// Counts an access to two lines, each of which is reported as an access of its own.
    pub fn count_straddle(&mut self) {
        self.count(Count::straddles, 1);
    }

    #[cold]
    fn access_lines(&mut self, kind: Kind, address: u64, size: u32) -> Picoseconds {
        let last = address.saturating_add(u64::from(size.max(1)) - 1);
        let (first_line, last_line) = (address / LINE_SIZE, last / LINE_SIZE);
        if first_line != last_line {
            self.count(Count::straddles, 1);
        }
        let mut cost = Picoseconds(0);
        for line in first_line..=last_line {
            let start = address.max(line * LINE_SIZE);
            self.bytes = last.min(line * LINE_SIZE | (LINE_SIZE - 1)) - start + 1;
            cost += Picoseconds(self.access_line(kind, start).0);
        }
        self.bytes = WORD_BYTES;
        cost
    }

    /// The segment that a local address is in.
    pub(crate) fn segment_at(&self, local: u64) -> Option<&'a Segment> {
        let after = self.segments.partition_point(|segment| segment.local <= local);
        let segment = after.checked_sub(1).map(|index| &self.segments[index]);
        segment.filter(|segment| local - segment.local < segment.size)
    }

    /// An access within a line, at a local address: its latency, and the state of L1's copy.
    fn access_line(&mut self, kind: Kind, local: u64) -> (u64, u64) {
        let segment = self.segment_at(local);
        let (policy, delta) = match (segment, kind) {
            (None, _) => (Policy::Uncached, 0),
            (Some(segment), Kind::Fetch) => (segment.fetch, segment.fetch_delta),
            (Some(segment), Kind::Load | Kind::Store | Kind::Atomic | Kind::Walk) => (segment.data, segment.data_delta),
        };
        let Some(segment) = segment else { return (self.device_access(kind).0, 0) };
        if policy == Policy::Uncached {
            return (self.uncached(kind, segment, local, local.wrapping_add(delta) / LINE_SIZE), 0);
        }
        let port = if kind == Kind::Fetch { &mut self.fetch } else { &mut self.data };
        (port.base, port.limit, port.delta) = (segment.local, segment.size, delta);
        port.segment = segment;
        self.cached(kind, local.wrapping_add(delta) / LINE_SIZE, segment)
    }

    fn uncached(&self, kind: Kind, segment: &Segment, local: u64, line: u64) -> u64 {
        let (count, mut cost) = match kind {
            Kind::Fetch => (Count::uncached_fetches, segment.fetch_ps),
            Kind::Load | Kind::Walk => (Count::uncached_reads, segment.load_ps),
            Kind::Store => (Count::uncached_writes, segment.store_ps),
            Kind::Atomic => (Count::uncached_writes, segment.load_ps),
        };
        if kind == Kind::Atomic {
            cost += self.timing.atomic_ps;
            self.count(Count::far_atomics, u64::from(segment.far));
        }
        if segment.is_mixed() {
            self.meet_elsewhere(kind, segment, line);
        }
        self.count(count, 1);
        self.count(Count::stall_uncached_ps, cost);
        cost + self.wait_uncached(kind, segment, local, cost)
    }

    // From here on, what an access is answered with is its latency, and the state of L1's copy.

    /// A cached access within a line, unless it hits the way used last.
    #[inline(always)]
    fn cached(&self, kind: Kind, line: u64, segment: &Segment) -> (u64, u64) {
        self.count(kind.count(), 1);
        let extra = if kind == Kind::Atomic { self.timing.atomic_ps } else { 0 };
        let (cost, state) = match kind {
            Kind::Fetch => self.fetch_line(line, segment),
            Kind::Load | Kind::Walk => self.load_line(line, segment),
            Kind::Store | Kind::Atomic => self.store_line(line, segment),
        };
        (extra + cost, state)
    }

    /// What a program has loaded, it often stores to next: whether this is such a store. It is done then.
    #[inline(always)]
    fn modify_loaded(&self, line: u64) -> bool {
        let l1 = self.data.l1.set_of(line, self.company.usual);
        let (index, word) = l1.recent();
        word == line << TAG_SHIFT | EXCLUSIVE && self.modify(line, l1, index)
    }

    // The same code, compiled for each of the three things that an access can mean to the caches.

    #[inline(never)]
    fn fetch_line(&self, line: u64, segment: &Segment) -> (u64, u64) {
        self.line(Kind::Fetch, line, segment)
    }

    #[inline(never)]
    fn load_line(&self, line: u64, segment: &Segment) -> (u64, u64) {
        self.line(Kind::Load, line, segment)
    }

    #[inline(never)]
    fn store_line(&self, line: u64, segment: &Segment) -> (u64, u64) {
        if self.modify_loaded(line) {
            return (self.data.hit_ps, MODIFIED);
        }
        self.line(Kind::Store, line, segment)
    }

    #[inline(always)]
    fn line(&self, kind: Kind, line: u64, segment: &Segment) -> (u64, u64) {
        let usual = self.company.usual;
        let port = if kind == Kind::Fetch { &self.fetch } else { &self.data };
        let probe = Probe::new(line);
        let l1 = port.l1.set_of(line, usual).narrow(usual);
        let Some((index, word)) = l1.find(probe) else {
            return self.beyond_l1(kind, probe, segment, l1, None);
        };
        let state = word & STATE_MASK;
        l1.touch(index);
        if state >= kind.needs() {
            return (port.hit_ps, state);
        }
        if state == EXCLUSIVE && self.modify(line, l1, index) {
            return (port.hit_ps, MODIFIED);
        }
        // Shared, or exclusive until another core wanted it a moment ago.
        let (cost, state) = self.beyond_l1(kind, probe, segment, l1, Some(index));
        (port.hit_ps + cost, state)
    }

    /// The first store to a line that this core holds exclusively; false if another core has just taken it away.
    #[inline(always)]
    pub(crate) fn modify(&self, line: u64, l1: Set<'_, 'a>, l1_index: usize) -> bool {
        let (l2, threads) = (&self.l2, self.model.threads);
        let inside = if threads { self.enter() } else { None };
        let _own = self.lock_own(line, threads && inside.is_none());
        let index = l1.link(l1_index) as usize;
        let word = l2.word(index);
        if threads && (word >> TAG_SHIFT != line || word & STATE_MASK < EXCLUSIVE) {
            return false;
        }
        window();
        // While L2 has it, so has L1.
        l2.set_word(index, word | MODIFIED);
        l1.set_word(l1_index, line << TAG_SHIFT | MODIFIED);
        true
    }

    /// What L1 does not serve. `in_l1`: where it has the line nevertheless, but shared.
    #[inline(always)]
    fn beyond_l1(
        &self,
        kind: Kind,
        probe: Probe,
        segment: &Segment,
        l1: Set<'_, 'a>,
        in_l1: Option<usize>,
    ) -> (u64, u64) {
        let company = self.company;
        let l2 = self.l2.set_of(probe.line, company.usual).wide();
        let inside = if company.threads { self.enter() } else { None };
        let company = Company { threads: company.threads && inside.is_none(), ..company };
        // What is its own directory has one lock for both.
        let own_lock = (company.threads && company.solo).then(|| lock(l2.lock(), self.number));
        // That L2 has not got a line needs no lock: nobody else puts lines there.
        let held = match in_l1 {
            Some(index) => Some(l1.link(index) as usize),
            None => l2.find(probe).map(|(index, _)| index),
        };
        let miss = Miss { kind, company, probe, segment, l1, l2, held, in_l1 };
        if in_l1.is_none() {
            self.count(if kind == Kind::Fetch { Count::l1i_misses } else { Count::l1d_misses }, 1);
        }
        let mut cost = 0;
        if let (Some(index), None, true) = (held, in_l1, company.solo || self.has_l2) {
            match self.second_level(&miss, index) {
                Served::Here(state) => return (self.timing.l2_ps, state),
                Served::Shared => cost = self.timing.l2_ps,
                Served::Gone => {}
            }
        }
        let (beyond, state) = self.directory(&miss, own_lock, inside);
        if segment.is_mixed() {
            self.meet_elsewhere(kind, segment, probe.line);
        }
        (cost + beyond, state)
    }

    /// What L2 seems to have, at an index. The lock (the caller's, if L2 is its own directory) keeps snoops of the line out
    /// until L1 has it, too.
    #[inline(always)]
    fn second_level(&self, miss: &Miss<'_, '_>, index: usize) -> Served {
        let (kind, probe) = (miss.kind, miss.probe);
        let _own = self.lock_own(probe.line, miss.company.threads && !miss.company.solo);
        let word = self.l2.word(index);
        if !probe.is(word) {
            return Served::Gone;
        }
        miss.l2.touch(index);
        self.count(Count::stall_l2_ps, self.timing.l2_ps);
        window();
        if kind.is_write() && word & STATE_MASK == SHARED {
            return Served::Shared;
        }
        self.l2.set_word(index, word | kind.inside() | if kind.is_write() { MODIFIED } else { 0 });
        Served::Here(self.fill_l1(miss, word & STATE_MASK, index))
    }

    /// Puts a line into the L1 that asked, in the state that L2 has and the access makes, which is returned. `l2_index`: where
    /// L2 has it.
    #[inline(always)]
    pub(crate) fn fill_l1(&self, miss: &Miss<'_, '_>, l2_state: u64, l2_index: usize) -> u64 {
        let (kind, probe) = (miss.kind, miss.probe);
        let state = if kind.is_write() {
            MODIFIED
        } else if kind == Kind::Fetch {
            SHARED
        } else {
            // Modified in L2, but not by L1: only the first store makes L1's copy differ.
            l2_state.min(EXCLUSIVE)
        };
        if let Some(index) = miss.in_l1 {
            miss.l1.put_again(probe, index, state, l2_index as u64);
            return state;
        }
        // Who takes the old line away just now compares before he swaps.
        let old = miss.l1.insert(probe, state, l2_index as u64, !miss.company.solo);
        if old.word & STATE_MASK == MODIFIED {
            self.count(Count::l1_write_backs, 1);
        }
        if old.word != 0 && !miss.company.solo && !self.has_l2 {
            self.forget_unless_held(old.word >> TAG_SHIFT, old.link as usize);
        }
        state
    }

    /// Locks the set of this core's L2 that a line belongs to, if threads may meet.
    #[inline(always)]
    fn lock_own(&self, line: u64, threads: bool) -> Option<Guard<'a>> {
        if threads { Some(lock(self.l2.set(line).lock(), self.number)) } else { None }
    }

    /// L1I or L1D has lost a line to this core's need for room in another cache ([`Core::losses`]).
    pub(crate) fn lose_line(&self) {
        Together::LostLines.count_shared(self.counters, self.model.threads);
    }

    #[inline(always)]
    pub(crate) fn count(&self, count: Count, by: u64) {
        bump(self.counters, count, by);
    }
}
