//! One core: the events that it reports, and the path of hits in its own caches.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

use crate::array::{Array, EXCLUSIVE, MODIFIED, SHARED, STATE_MASK, TAG_SHIFT, tag};
use crate::config::{Class, Policy, Segment, Timing};
use crate::counters::{Count, bump};
use crate::model::{CoreState, Model, lock, window};
use crate::{LINE_SIZE, Picoseconds};

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

/// The way into the caches for instructions or for data, with the memory segment that was used last.
struct Port<'a> {
    /// The segment's first local address.
    base: u64,
    /// Its size if it is cached, else 0: so one comparison says whether the quick path is open.
    limit: u64,
    /// Local address plus this is the global address.
    delta: u64,
    hit_ps: u64,
    segment: Option<&'a Segment>,
    l1: Array<'a>,
}

/// A core, claimed by one thread. Dropping it releases the claim and keeps the caches' contents.
pub struct Core<'a> {
    pub(crate) model: &'a Model<'a>,
    pub(crate) state: &'a CoreState<'a>,
    pub(crate) number: usize,
    pub(crate) domain: usize,
    pub(crate) bit: u64,
    pub(crate) has_l2: bool,
    pub(crate) timing: Timing,
    fetch: Port<'a>,
    data: Port<'a>,
    segments: &'a [Segment],
    /// Part of an instruction's time below a picosecond, not reported yet.
    rest_fs: u64,
}

impl Drop for Core<'_> {
    fn drop(&mut self) {
        self.state.claim.store(0, Release);
    }
}

impl<'a> Core<'a> {
    pub(crate) fn new(model: &'a Model<'a>, number: usize) -> Self {
        let state = &model.cores[number];
        let island = &model.config.islands[state.island];
        let port = |l1, hit_ps| Port { base: 0, limit: 0, delta: 0, hit_ps, segment: None, l1 };
        Self {
            model,
            state,
            number,
            domain: island.domain,
            bit: 1 << (number - model.domains[island.domain].first_core),
            has_l2: island.l2.real,
            timing: island.timing,
            fetch: port(state.l1i, island.timing.l1i_ps),
            data: port(state.l1d, island.timing.l1d_ps),
            segments: &island.segments,
            rest_fs: 0,
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
        let hit = if inside { self.hit(kind, address) } else { None };
        hit.unwrap_or_else(|| self.access_lines(kind, address, size))
    }

    /// An access to bytes within one line, if it is one of the cheapest kind: it hits L1, in the way that was used last in its
    /// set, and no other core is asked. Otherwise nothing has happened yet. For callers to whom even a call is dear.
    #[inline(always)]
    pub fn hit(&mut self, kind: Kind, address: u64) -> Option<Picoseconds> {
        let port = if matches!(kind, Kind::Fetch) { &self.fetch } else { &self.data };
        if address.wrapping_sub(port.base) >= port.limit {
            return None;
        }
        let line = address.wrapping_add(port.delta) / LINE_SIZE;
        let set = port.l1.set(line);
        let index = set * port.l1.ways + port.l1.recent.get(set)?.load(Relaxed) as usize;
        let word = port.l1.tags.get(index)?.load(Relaxed);
        // The way used last needs no `touch`: no policy would change its mind.
        if word >> TAG_SHIFT != line || word & STATE_MASK < kind.needs() {
            return None;
        }
        bump(self.state.counters, kind.count(), 1);
        let extra = if matches!(kind, Kind::Atomic) { self.timing.atomic_ps } else { 0 };
        Some(Picoseconds(port.hit_ps + extra))
    }

    /// A number that changes when L1I loses a line other than to make room for a fetch. While it stays the same, fetching again
    /// the line that was fetched last in its set of L1I hits, and changes nothing but counts ([`Core::fetched_again`]).
    #[inline(always)]
    pub fn fetch_epoch(&self) -> u64 {
        self.state.instruction_lines_lost.load(Relaxed)
    }

    /// Counts fetches of lines that [`Core::fetch_epoch`] says are hits without consequences: their latency.
    pub fn fetched_again(&mut self, lines: u64) -> Picoseconds {
        bump(self.state.counters, Count::fetches, lines);
        Picoseconds(lines * self.fetch.hit_ps)
    }

    /// `count` instructions of a class: their time without memory stalls.
    #[inline]
    pub fn instructions(&mut self, class: Class, count: u64) -> Picoseconds {
        let femtoseconds = self.rest_fs + count * self.timing.instruction_fs[class as usize];
        self.rest_fs = femtoseconds % 1000;
        let picoseconds = femtoseconds / 1000;
        bump(self.state.counters, Count::instructions, count);
        bump(self.state.counters, Count::instruction_ps, picoseconds);
        Picoseconds(picoseconds)
    }

    /// An access to a device register, when the caller knows that it is one.
    pub fn device_access(&mut self) -> Picoseconds {
        self.count(Count::device_accesses, 1);
        self.count(Count::stall_device_ps, self.model.config.device_ps);
        Picoseconds(self.model.config.device_ps)
    }

    /// What [`Core::hit`] does not serve.
    #[inline(never)]
    fn access_lines(&mut self, kind: Kind, address: u64, size: u32) -> Picoseconds {
        let port = if kind == Kind::Fetch { &self.fetch } else { &self.data };
        let inside = address % LINE_SIZE + u64::from(size) <= LINE_SIZE;
        if let Some(segment) = port.segment.filter(|_| inside && address.wrapping_sub(port.base) < port.limit) {
            return self.cached(kind, address.wrapping_add(port.delta) / LINE_SIZE, segment);
        }
        let last = address.saturating_add(u64::from(size.max(1)) - 1);
        let (first_line, last_line) = (address / LINE_SIZE, last / LINE_SIZE);
        if first_line != last_line {
            self.count(Count::straddles, 1);
        }
        (first_line..=last_line).map(|line| self.access_line(kind, line * LINE_SIZE)).sum()
    }

    /// An access within the line at a local address.
    fn access_line(&mut self, kind: Kind, local: u64) -> Picoseconds {
        let after = self.segments.partition_point(|segment| segment.local <= local);
        let segment = after.checked_sub(1).map(|index| &self.segments[index]);
        let Some(segment) = segment.filter(|segment| local - segment.local < segment.size) else {
            return self.device_access();
        };
        let (policy, delta) = match kind {
            Kind::Fetch => (segment.fetch, segment.fetch_delta),
            Kind::Load | Kind::Store | Kind::Atomic | Kind::Walk => (segment.data, segment.data_delta),
        };
        if policy == Policy::Uncached {
            return self.uncached(kind, segment);
        }
        let port = if kind == Kind::Fetch { &mut self.fetch } else { &mut self.data };
        (port.base, port.limit, port.delta) = (segment.local, segment.size, delta);
        port.segment = Some(segment);
        self.cached(kind, local.wrapping_add(delta) / LINE_SIZE, segment)
    }

    fn uncached(&self, kind: Kind, segment: &Segment) -> Picoseconds {
        let (count, mut cost) = match kind {
            Kind::Fetch => (Count::uncached_fetches, segment.load_ps),
            Kind::Load | Kind::Walk => (Count::uncached_reads, segment.load_ps),
            Kind::Store => (Count::uncached_writes, segment.store_ps),
            Kind::Atomic => (Count::uncached_writes, segment.load_ps),
        };
        if kind == Kind::Atomic {
            cost += self.timing.atomic_ps;
        }
        self.count(count, 1);
        self.count(Count::stall_uncached_ps, cost);
        Picoseconds(cost)
    }

    /// A cached access within a line.
    #[inline(never)]
    fn cached(&self, kind: Kind, line: u64, segment: &Segment) -> Picoseconds {
        self.count(kind.count(), 1);
        let port = if kind == Kind::Fetch { &self.fetch } else { &self.data };
        let extra = if kind == Kind::Atomic { self.timing.atomic_ps } else { 0 };
        if let Some((index, word)) = port.l1.find(line) {
            let state = word & STATE_MASK;
            if state >= kind.needs() || (state == EXCLUSIVE && self.modify(line)) {
                port.l1.touch(line, index);
                return Picoseconds(extra + port.hit_ps);
            }
            if state == SHARED {
                port.l1.touch(line, index);
                return Picoseconds(extra + port.hit_ps + self.directory(kind, line, segment, true));
            }
        }
        self.count(if kind == Kind::Fetch { Count::l1i_misses } else { Count::l1d_misses }, 1);
        let missed = if self.has_l2 {
            self.second_level(kind, line, segment)
        } else {
            self.directory(kind, line, segment, false)
        };
        Picoseconds(extra + missed)
    }

    /// The first store to a line that this core holds exclusively; false if another core has just taken it away.
    fn modify(&self, line: u64) -> bool {
        let _own = lock(&self.state.locks[self.state.l2.set(line)], self.number);
        let to_modified = |word: u64| word | MODIFIED;
        match self.state.l2.find(line) {
            Some((_, word)) if word & STATE_MASK >= EXCLUSIVE => {
                self.state.l2.change(line, to_modified);
                self.state.l1d.change(line, to_modified).is_some()
            }
            _ => false,
        }
    }

    /// What missed L1. The lock keeps snoops of the line out until L1 has it, too.
    fn second_level(&self, kind: Kind, line: u64, segment: &Segment) -> u64 {
        let l2 = self.state.l2;
        let own = lock(&self.state.locks[l2.set(line)], self.number);
        let Some((index, word)) = l2.find(line) else {
            drop(own);
            return self.directory(kind, line, segment, false);
        };
        l2.touch(line, index);
        self.count(Count::stall_l2_ps, self.timing.l2_ps);
        window();
        let state = word & STATE_MASK;
        if kind.is_write() && state == SHARED {
            drop(own);
            return self.timing.l2_ps + self.directory(kind, line, segment, true);
        }
        if kind.is_write() {
            l2.tags[index].store(tag(line, MODIFIED), Relaxed);
        }
        self.fill_l1(kind, line, state);
        self.timing.l2_ps
    }

    /// Puts a line into the L1 that asked, in the state that L2 has and the access makes.
    pub(crate) fn fill_l1(&self, kind: Kind, line: u64, l2_state: u64) {
        let (l1, state) = match kind {
            Kind::Fetch => (self.state.l1i, SHARED),
            Kind::Store | Kind::Atomic => (self.state.l1d, MODIFIED),
            // Modified in L2, but not by L1: only the first store makes L1's copy differ.
            Kind::Load | Kind::Walk => (self.state.l1d, l2_state.min(EXCLUSIVE)),
        };
        let index = l1.find(line).map_or_else(|| l1.victim(line).0, |(index, _)| index);
        window();
        let old = l1.tags[index].swap(tag(line, state), Relaxed);
        l1.touch(line, index);
        if old == 0 || old >> TAG_SHIFT == line {
            return;
        }
        if old & STATE_MASK == MODIFIED {
            self.count(Count::l1_write_backs, 1);
        }
        if !self.has_l2 {
            self.forget_unless_held(old >> TAG_SHIFT);
        }
    }

    #[inline]
    pub(crate) fn count(&self, count: Count, by: u64) {
        bump(self.state.counters, count, by);
    }

    pub(crate) fn counters_of(&self, core: usize) -> &'a [AtomicU64] {
        self.model.cores[core].counters
    }
}
