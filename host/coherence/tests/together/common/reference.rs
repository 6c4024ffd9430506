//! A slow model with the same rules, written for clearness: lists in order of use, and searches instead of a directory.
//!
//! Sets are lists, most recently used first. Nothing is remembered that can be found out by looking, so a mistake in the
//! model's directory cannot be here, too. Coherent memory only; L3 may be missing: then its cache only lists what cores hold.

use std::collections::HashSet;

use motet_coherence::config::Geometry;
use motet_coherence::{Config, Counters, Kind, Replacement};

use crate::common::{POOL, PRIVATE, pool_base};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum State {
    Shared,
    Exclusive,
    Modified,
}
use State::{Exclusive, Modified, Shared};

/// A set: its lines, most recently used first, and what the other policies need.
struct Set<T> {
    lines: Vec<(u64, T)>,
    /// The line in each way.
    ways: Vec<Option<u64>>,
    /// A tree in a heap's order; true: the next victim is to the right.
    tree: Vec<bool>,
    generator: u64,
}

struct Cache<T> {
    sets: Vec<Set<T>>,
    replacement: Replacement,
}

/// SplitMix64.
fn step(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl<T: Copy> Cache<T> {
    /// `number`: of the core or the last level; `place`: 1 L1I, 2 L1D, 3 L2, 4 last level.
    fn new(geometry: &Geometry, seed: u64, number: usize, place: u64) -> Self {
        let set = |set: usize| Set {
            lines: Vec::new(),
            ways: vec![None; geometry.ways],
            tree: vec![false; geometry.ways],
            generator: step(seed ^ ((number as u64) << 48) ^ (place << 40) ^ ((set as u64) << 20)) | 1,
        };
        Self { sets: (0..geometry.sets).map(set).collect(), replacement: geometry.replacement }
    }
    fn set(&mut self, line: u64) -> &mut Set<T> {
        let count = self.sets.len() as u64;
        &mut self.sets[(line % count) as usize]
    }
    fn get(&mut self, line: u64) -> Option<&mut T> {
        self.set(line).lines.iter_mut().find(|entry| entry.0 == line).map(|entry| &mut entry.1)
    }
    fn remove(&mut self, line: u64) -> Option<T> {
        let set = self.set(line);
        let at = set.lines.iter().position(|entry| entry.0 == line)?;
        *set.ways.iter_mut().find(|way| **way == Some(line)).expect("every line has a way") = None;
        Some(set.lines.remove(at).1)
    }
    fn touch(&mut self, line: u64) {
        let set = self.set(line);
        let at = set.lines.iter().position(|entry| entry.0 == line).expect("touched lines are there");
        let entry = set.lines.remove(at);
        set.lines.insert(0, entry);
        // From the way up to the root: every node points to the side that the way is not on.
        let mut node = set.ways.len() - 1 + set.ways.iter().position(|way| *way == Some(line)).expect("it has a way");
        while node > 0 {
            let is_left = node % 2 == 1;
            node = (node - 1) / 2;
            set.tree[node] = is_left;
        }
    }
    /// The line that must go before another can come.
    fn oldest_if_full(&mut self, line: u64) -> Option<(u64, T)> {
        let replacement = self.replacement;
        let set = self.set(line);
        if set.ways.contains(&None) {
            return None;
        }
        let way = match replacement {
            Replacement::Lru => return set.lines.last().copied(),
            Replacement::TreePlru => {
                let mut node = 0;
                while node < set.ways.len() - 1 {
                    node = 2 * node + if set.tree[node] { 2 } else { 1 };
                }
                node - (set.ways.len() - 1)
            }
            Replacement::Random => {
                set.generator = step(set.generator);
                (set.generator % set.ways.len() as u64) as usize
            }
        };
        set.lines.iter().find(|entry| Some(entry.0) == set.ways[way]).copied()
    }
    fn insert(&mut self, line: u64, value: T) {
        let set = self.set(line);
        *set.ways.iter_mut().find(|way| way.is_none()).expect("room was made") = Some(line);
        set.lines.insert(0, (line, value));
        self.touch(line);
    }
}

struct Core {
    island: usize,
    domain: usize,
    l1i: Cache<State>,
    l1d: Cache<State>,
    l2: Cache<State>,
}

/// An L3's line remembers only whether memory is out of date, and whether the line was granted to this L3 alone.
#[derive(Clone, Copy)]
struct Last {
    dirty: bool,
    alone: bool,
}

pub struct Reference {
    config: Config,
    cores: Vec<Core>,
    last: Vec<Cache<Last>>,
    pub counters: Vec<Counters>,
    /// What gem5 would still take to be shared, if this goes by its rules.
    shared_in_gem5: Option<HashSet<u64>>,
}

impl Reference {
    pub fn new(config: &Config) -> Self {
        let mut cores = Vec::new();
        for (number, island) in config.islands.iter().enumerate() {
            for _ in 0..island.cores {
                cores.push(Core {
                    island: number,
                    domain: island.domain,
                    l1i: Cache::new(&island.l1i, config.seed, cores.len(), 1),
                    l1d: Cache::new(&island.l1d, config.seed, cores.len(), 2),
                    l2: Cache::new(&island.l2, config.seed, cores.len(), 3),
                });
            }
        }
        let last = config.domains.iter().enumerate();
        let last = last.map(|(number, domain)| Cache::new(&domain.l3, config.seed, number, 4)).collect();
        let counters = vec![Counters::default(); cores.len()];
        Self { config: config.clone(), cores, last, counters, shared_in_gem5: None }
    }

    /// One that does three things as gem5's MESI_Three_Level does: a line that no other core has, is a fetching core's own, too; a
    /// read by another core takes a line out of its owner's L1; and cores drop shared lines without telling, so such a line
    /// counts as shared until somebody writes.
    #[allow(dead_code, reason = "one test program uses it")]
    pub fn with_rules_of_gem5(config: &Config) -> Self {
        Self { shared_in_gem5: Some(HashSet::new()), ..Self::new(config) }
    }

    /// The latency of an access.
    pub fn access(&mut self, core: usize, kind: Kind, address: u64, size: u32) -> u64 {
        let (first, end) = (address / 64, (address + u64::from(size.max(1)) - 1) / 64);
        self.counters[core].straddles += u64::from(first != end);
        (first..=end).map(|line| self.one(core, kind, line * 64)).sum()
    }

    fn one(&mut self, me: usize, kind: Kind, local: u64) -> u64 {
        let island = self.cores[me].island;
        let base = pool_base(island);
        let (line, near) = if local < PRIVATE {
            ((1 << 60) + ((island as u64) << 50) + local / 64, true)
        } else if (base..base + POOL).contains(&local) {
            ((local - base) / 64, island == 0 && local - base < POOL / 2)
        } else {
            self.counters[me].device_accesses += 1;
            let store = kind == Kind::Store;
            let cost = if store { self.config.device_store_ps } else { self.config.device_ps };
            self.counters[me].stall_device_ps += cost;
            return cost;
        };
        let count = &mut self.counters[me];
        match kind {
            Kind::Fetch => count.fetches += 1,
            Kind::Load => count.loads += 1,
            Kind::Store => count.stores += 1,
            Kind::Atomic => count.atomics += 1,
            Kind::Walk => count.walks += 1,
        }
        let timing = self.config.islands[island].timing;
        let extra = if kind == Kind::Atomic { timing.atomic_ps } else { 0 };
        self.counters[me].stall_l1_ps += extra;
        extra + self.through_l1(me, kind, line, near)
    }

    fn through_l1(&mut self, me: usize, kind: Kind, line: u64, near: bool) -> u64 {
        let timing = self.config.islands[self.cores[me].island].timing;
        let (fetch, write) = (kind == Kind::Fetch, matches!(kind, Kind::Store | Kind::Atomic));
        let hit_ps = if fetch { timing.l1i_ps } else { timing.l1d_ps };
        let core = &mut self.cores[me];
        let l1 = if fetch { &mut core.l1i } else { &mut core.l1d };
        if let Some(state) = l1.get(line).copied() {
            l1.touch(line);
            self.counters[me].stall_l1_ps += hit_ps;
            if !write || state == Modified {
                return hit_ps;
            }
            if state == Exclusive {
                *core.l1d.get(line).unwrap() = Modified;
                *core.l2.get(line).unwrap() = Modified;
                return hit_ps;
            }
            return hit_ps + self.upgrade(me, line);
        }
        *(if fetch { &mut self.counters[me].l1i_misses } else { &mut self.counters[me].l1d_misses }) += 1;
        if let Some(state) = core.l2.get(line).copied() {
            core.l2.touch(line);
            self.counters[me].stall_l2_ps += timing.l2_ps;
            let mut cost = timing.l2_ps;
            if write && state == Shared {
                cost += self.upgrade(me, line);
            } else if write {
                *core.l2.get(line).unwrap() = Modified;
            }
            self.fill_l1(me, kind, line);
            return cost;
        }
        *(if fetch { &mut self.counters[me].l2i_misses } else { &mut self.counters[me].l2d_misses }) += 1;
        let cost = self.through_l3(me, kind, line, near);
        self.fill_l1(me, kind, line);
        cost
    }

    /// The line is in L2; L1 gets a copy.
    fn fill_l1(&mut self, me: usize, kind: Kind, line: u64) {
        let core = &mut self.cores[me];
        let l2_state = *core.l2.get(line).expect("L2 includes L1");
        let (l1, state) = match kind {
            Kind::Fetch => (&mut core.l1i, Shared),
            Kind::Store | Kind::Atomic => (&mut core.l1d, Modified),
            Kind::Load | Kind::Walk => (&mut core.l1d, l2_state.min(Exclusive)),
        };
        if l1.get(line).is_some() {
            return *l1.get(line).unwrap() = state;
        }
        if let Some((old, old_state)) = l1.oldest_if_full(line) {
            l1.remove(old);
            self.counters[me].l1_write_backs += u64::from(old_state == Modified);
        }
        l1.insert(line, state);
    }

    fn sharers(&mut self, line: u64, domain: usize) -> Vec<usize> {
        let holds = |core: &mut Core| core.domain == domain && core.l2.get(line).is_some();
        (0..self.cores.len()).filter(|&core| holds(&mut self.cores[core])).collect()
    }

    /// Takes a line from a core; whether it was modified.
    fn invalidate(&mut self, me: usize, core: usize, line: u64) -> bool {
        let other = &mut self.cores[core];
        other.l1i.remove(line);
        let l1d = other.l1d.remove(line);
        let state = other.l2.remove(line);
        if core == me {
            self.counters[me].l1_write_backs += u64::from(l1d == Some(Modified));
        } else {
            self.counters[core].invalidations_received += 1;
        }
        state == Some(Modified)
    }

    /// Makes an exclusive core share; whether it had modified.
    fn downgrade(&mut self, core: usize, line: u64) -> bool {
        let other = &mut self.cores[core];
        if let Some(shared) = &mut self.shared_in_gem5 {
            shared.insert(line);
            other.l1i.remove(line);
            other.l1d.remove(line);
        }
        if let Some(state) = other.l1d.get(line) {
            *state = Shared;
        }
        let state = std::mem::replace(other.l2.get(line).unwrap(), Shared);
        self.counters[core].downgrades_received += 1;
        state == Modified
    }

    fn upgrade(&mut self, me: usize, line: u64) -> u64 {
        let timing = self.config.islands[self.cores[me].island].timing;
        self.counters[me].upgrades += 1;
        let l3_ps = if self.has_l3(self.cores[me].domain) { timing.l3_ps } else { 0 };
        let cost = l3_ps + self.own(me, line);
        self.counters[me].stall_coherence_ps += l3_ps;
        *self.cores[me].l2.get(line).unwrap() = Modified;
        if let Some(state) = self.cores[me].l1d.get(line) {
            *state = Modified;
        }
        cost
    }

    /// Takes the line from everyone else; this core's L3 has it. The extra latency.
    fn own(&mut self, me: usize, line: u64) -> u64 {
        if let Some(shared) = &mut self.shared_in_gem5 {
            shared.remove(&line);
        }
        let (domain, island) = (self.cores[me].domain, self.cores[me].island);
        let timing = self.config.islands[island].timing;
        let mut cost = 0;
        let peers: Vec<usize> = self.sharers(line, domain).into_iter().filter(|&core| core != me).collect();
        for &peer in &peers {
            self.counters[me].peer_invalidates += 1;
            if self.invalidate(me, peer, line) {
                self.write_back(me, domain, line);
            }
        }
        if !peers.is_empty() {
            cost += timing.peer_ps;
        }
        cost += self.take_from_others(me, line);
        self.last[domain].get(line).unwrap().alone = true;
        self.counters[me].stall_coherence_ps += cost;
        cost
    }

    /// Other L3s lose the line. The latency, not counted.
    fn take_from_others(&mut self, me: usize, line: u64) -> u64 {
        let (domain, island) = (self.cores[me].domain, self.cores[me].island);
        let (mut slowest, mut write_backs) = (0, 0);
        for other in (0..self.last.len()).filter(|&other| other != domain) {
            if self.last[other].get(line).is_none() {
                continue;
            }
            self.counters[me].snoop_invalidates += 1;
            let mut dirty = false;
            for core in self.sharers(line, other) {
                dirty |= self.invalidate(me, core, line);
            }
            dirty |= self.last[other].remove(line).unwrap().dirty;
            self.counters[me].memory_write_backs += u64::from(dirty);
            write_backs += if dirty { self.config.write_back_ps } else { 0 };
            slowest = slowest.max(self.config.links[island][self.config.domains[other].island].snoop_invalidate_ps);
        }
        slowest + write_backs
    }

    /// Other L3s that are alone share the line: whether any has it, and the latency, not counted.
    fn share_with_others(&mut self, me: usize, line: u64) -> (bool, u64) {
        let (domain, island) = (self.cores[me].domain, self.cores[me].island);
        let (mut found, mut cost) = (false, 0);
        for other in (0..self.last.len()).filter(|&other| other != domain) {
            let Some(last) = self.last[other].get(line).copied() else { continue };
            found = true;
            if !last.alone {
                continue;
            }
            self.counters[me].snoop_data += 1;
            let mut dirty = last.dirty;
            for core in self.sharers(line, other) {
                if *self.cores[core].l2.get(line).unwrap() >= Exclusive {
                    dirty |= self.downgrade(core, line);
                }
            }
            *self.last[other].get(line).unwrap() = Last { dirty: false, alone: false };
            self.counters[me].memory_write_backs += u64::from(dirty);
            cost += if dirty { self.config.write_back_ps } else { 0 };
            cost += self.config.links[island][self.config.domains[other].island].snoop_data_ps;
        }
        (found, cost)
    }

    fn through_l3(&mut self, me: usize, kind: Kind, line: u64, near: bool) -> u64 {
        let (domain, island) = (self.cores[me].domain, self.cores[me].island);
        let timing = self.config.islands[island].timing;
        let (fetch, write) = (kind == Kind::Fetch, matches!(kind, Kind::Store | Kind::Atomic));
        if self.last[domain].get(line).is_none() {
            return self.through_memory(me, kind, line, near);
        }
        self.last[domain].touch(line);
        let peers = self.sharers(line, domain);
        let owned = peers.iter().any(|&peer| *self.cores[peer].l2.get(line).unwrap() >= Exclusive);
        let mut cost = match (self.has_l3(domain), owned) {
            (true, _) => {
                self.counters[me].stall_l3_ps += timing.l3_ps;
                timing.l3_ps
            }
            // The owner hands it over.
            (false, true) => 0,
            (false, false) => self.read_memory(me, kind, near),
        };
        let state = if write {
            cost += self.own(me, line);
            Modified
        } else {
            for &peer in &peers {
                if *self.cores[peer].l2.get(line).unwrap() >= Exclusive {
                    self.counters[me].peer_data += 1;
                    self.counters[me].stall_coherence_ps += timing.peer_ps;
                    cost += timing.peer_ps;
                    if self.downgrade(peer, line) {
                        self.write_back(me, domain, line);
                    }
                }
            }
            let may_be_own = self.shared_in_gem5.as_ref().map_or(!fetch, |shared| !shared.contains(&line));
            let exclusive = peers.is_empty() && self.last[domain].get(line).unwrap().alone && may_be_own;
            if exclusive { Exclusive } else { Shared }
        };
        self.fill_l2(me, line, state);
        cost
    }

    fn has_l3(&self, domain: usize) -> bool {
        self.config.domains[domain].l3.real
    }

    /// A modified line goes from an L2 to the L3, or to memory if there is none.
    fn write_back(&mut self, me: usize, domain: usize, line: u64) {
        self.counters[me].l2_write_backs += 1;
        if self.has_l3(domain) {
            self.last[domain].get(line).expect("L3 includes L2").dirty = true;
        } else {
            self.counters[me].memory_write_backs += 1;
        }
    }

    fn read_memory(&mut self, me: usize, kind: Kind, near: bool) -> u64 {
        let cycle_ps = self.config.islands[self.cores[me].island].timing.cycle_fs / 1000;
        let memory = if near { 300 * cycle_ps } else { 640 * cycle_ps };
        let count = &mut self.counters[me];
        *(if kind == Kind::Fetch { &mut count.l3i_misses } else { &mut count.l3d_misses }) += 1;
        *(if near { &mut count.near_reads } else { &mut count.far_reads }) += 1;
        *(if near { &mut count.stall_near_ps } else { &mut count.stall_far_ps }) += memory;
        memory
    }

    fn through_memory(&mut self, me: usize, kind: Kind, line: u64, near: bool) -> u64 {
        let domain = self.cores[me].domain;
        let (fetch, write) = (kind == Kind::Fetch, matches!(kind, Kind::Store | Kind::Atomic));
        let (found, mut extra) =
            if write { (false, self.take_from_others(me, line)) } else { self.share_with_others(me, line) };
        let memory = self.read_memory(me, kind, near);
        if let Some((old, mut last)) = self.last[domain].oldest_if_full(line) {
            let holders = self.sharers(old, domain);
            for &core in &holders {
                self.counters[me].back_invalidates += 1;
                if self.invalidate(me, core, old) {
                    self.counters[me].l2_write_backs += 1;
                    last.dirty = true;
                }
            }
            extra += if holders.is_empty() { 0 } else { self.config.back_invalidate_ps };
            extra += if last.dirty { self.config.write_back_ps } else { 0 };
            self.counters[me].memory_write_backs += u64::from(last.dirty);
            self.last[domain].remove(old);
        }
        self.last[domain].insert(line, Last { dirty: false, alone: !found });
        self.counters[me].stall_coherence_ps += extra;
        let state = match (write, found || fetch && self.shared_in_gem5.is_none()) {
            (true, _) => Modified,
            (false, true) => Shared,
            (false, false) => Exclusive,
        };
        self.fill_l2(me, line, state);
        memory + extra
    }

    fn fill_l2(&mut self, me: usize, line: u64, state: State) {
        let domain = self.cores[me].domain;
        let core = &mut self.cores[me];
        if let Some((old, old_state)) = core.l2.oldest_if_full(line) {
            core.l2.remove(old);
            core.l1i.remove(old);
            let l1d = core.l1d.remove(old);
            self.counters[me].l1_write_backs += u64::from(l1d == Some(Modified));
            if old_state == Modified {
                self.write_back(me, domain, old);
            }
            if !self.has_l3(domain) && self.sharers(old, domain).is_empty() {
                self.last[domain].remove(old);
            }
        }
        self.cores[me].l2.insert(line, state);
    }
}
