//! What happens when a virtual CPU fetches instructions or accesses memory. This is where a timed run spends its time.

use std::cell::UnsafeCell;

use motet_coherence::{Core, Kind, LINE_SIZE};
use motet_qemu_plugin::{Access, PerVcpu, Physical, VCPUS_MAX, Vcpu};

use crate::{ONE_LINE, PLUGIN, Plugin, VcpuTime, pages::Pages, translated::Costs};

/// What a virtual CPU has once its time runs.
struct TimedCore {
    pages: Pages,
    plugin: &'static Plugin,
    /// The core of the cache model that it is.
    caches: Core<'static>,
}

static CORES: PerVcpu<Option<Box<TimedCore>>> = PerVcpu::new([const { UnsafeCell::new(None) }; VCPUS_MAX]);

/// The core that a virtual CPU is, once its time runs; until nothing counts any more if `counts`.
#[inline(always)]
fn core(vcpu: &mut Vcpu, counts: bool) -> Option<(&mut TimedCore, &mut VcpuTime)> {
    let plugin = PLUGIN.get().filter(|plugin| !counts || !plugin.timing.is_stopped())?;
    let (core, time) = CORES.get_with(vcpu, &plugin.times)?;
    Some((core.as_deref_mut()?, time))
}

/// A core goes on after a boundary.
///
/// Not earlier does it get its caches: whose first access comes first must not depend on who announced itself first.
pub fn begin_step(plugin: &'static Plugin, vcpu: &mut Vcpu, core_number: usize) {
    let Some(own) = CORES.get(vcpu) else { return };
    if own.is_none() {
        let caches = plugin.model.core(plugin.number(core_number));
        *own = caches.map(|caches| Box::new(TimedCore { pages: Pages::new(), plugin, caches }));
        // All cores have announced themselves, so QEMU makes no further virtual CPU.
        plugin.times.remember(vcpu);
    }
    let Some((core, time)) = core(vcpu, false) else { return };
    if core.caches.losses() != time.losses {
        time.forget_lost(&core.caches);
    }
    if plugin.timing.is_stopped() {
        // So that nothing counts any more.
        time.recent_data.clear();
    }
}

/// A virtual CPU enters a line of instructions that is not the one fetched last in its set of L1I; `line`: its address.
///
/// Fetching the line that was fetched last in its set hits L1I, and no replacement policy changes its mind by it. So
/// translated code asks only whether it is that line, and counts a hit, whose cost it has added already; the result is
/// the same as if each fetch were reported. When L1I loses a line other than to a fetch, all lines are reported again: at
/// once if this core's own miss was the cause, otherwise when it misses the next time or comes to its next boundary.
pub fn fetched(vcpu: &mut Vcpu, line: usize) {
    let Some((core, time)) = core(vcpu, true) else { return };
    let costs = &core.plugin.costs;
    let cost_ps = core.caches.access(Kind::Fetch, line as u64, LINE_SIZE as u32).0;
    if core.caches.losses() == time.losses {
        time.recent_lines[costs.recent(line as u64)] = line as u64 + 1;
    } else {
        // Perhaps this very line is lost again.
        time.forget_lost(&core.caches);
    }
    // It was counted as a hit.
    time.counts = time.counts.wrapping_sub(ONE_LINE);
    time.since_ps = time.since_ps.wrapping_add(cost_ps).wrapping_sub(costs.fetch_hit_ps);
    time.stall_ps += cost_ps;
}

/// A virtual CPU enters a line of instructions that L1I does not hold.
pub fn fetched_uncached(vcpu: &mut Vcpu, line: usize) {
    let Some((core, time)) = core(vcpu, true) else { return };
    time.charge(core.caches.access(Kind::Fetch, line as u64, LINE_SIZE as u32).0);
}

/// Tells the model of hits that it was not asked about: lines of instructions, loads, and stores; their time.
pub fn count_hits(vcpu: &mut Vcpu, lines: u64, loads: u64, stores: u64) -> u64 {
    let Some(Some(core)) = CORES.get(vcpu) else { return 0 };
    (core.caches.fetched_again(lines) + core.caches.accessed_again(loads, stores)).0
}

/// A virtual CPU drops translations of addresses.
pub fn translations_dropped(vcpu: &mut Vcpu, _data: usize) {
    if let Some((core, time)) = core(vcpu, false) {
        core.pages.clear();
        time.recent_data.clear();
    }
}

/// A virtual CPU has loaded.
pub fn loaded(mut vcpu: Vcpu, access: Access<'_>) {
    if !accessed_quickly(&mut vcpu, &access, false) {
        loaded_other(vcpu, access);
    }
}

/// A virtual CPU has stored.
pub fn stored(mut vcpu: Vcpu, access: Access<'_>) {
    if !accessed_quickly(&mut vcpu, &access, true) {
        stored_other(vcpu, access);
    }
}

/// A virtual CPU has done an atomic read-modify-write.
pub fn updated(mut vcpu: Vcpu, access: Access<'_>) {
    accessed(Kind::Atomic, &mut vcpu, &access);
}

/// Code that runs without translation has loaded.
pub fn loaded_untranslated(mut vcpu: Vcpu, access: Access<'_>) {
    accessed_slowly(Kind::Load, &mut vcpu, &access, false);
}

/// Code that runs without translation has stored.
pub fn stored_untranslated(mut vcpu: Vcpu, access: Access<'_>) {
    accessed_slowly(Kind::Store, &mut vcpu, &access, false);
}

/// A load or a store in the usual case; false: nothing has happened yet. Only what it ends with is called, so it saves no
/// registers.
#[inline(always)]
fn accessed_quickly(vcpu: &mut Vcpu, access: &Access<'_>, store: bool) -> bool {
    let Some(plugin) = PLUGIN.get() else { return true };
    // Before the core's time runs, nothing is counted.
    let Some((Some(core), time)) = CORES.get_with(vcpu, &plugin.times) else { return true };
    // Others may have taken a line just now; where they only run in turns, a boundary has looked.
    if (plugin.meets_others && core.caches.losses() != time.losses) || !time.is_within_line(access) {
        return false;
    }
    let (costs, address) = (&plugin.costs, access.address);
    let place = costs.data_place(address);
    if !time.recent_data.has(place, address, store) {
        let Some(physical) = core.pages.find(address, store) else { return false };
        if plugin.timing.is_stopped() {
            return true;
        }
        if !store {
            load(core, time, address, physical);
            return true;
        }
        if !core.caches.store_to_loaded(physical) {
            self::store(core, time, address, physical);
            return true;
        }
        time.used(costs, address, true, true);
    }
    time.since_ps = time.since_ps.wrapping_add(costs.data_hit_ps);
    *if store { &mut time.stores } else { &mut time.loads } += 1;
    true
}

#[inline(never)]
fn load(core: &mut TimedCore, time: &mut VcpuTime, address: u64, physical: u64) {
    core.access(time, Kind::Load, address, physical);
}

#[inline(never)]
fn store(core: &mut TimedCore, time: &mut VcpuTime, address: u64, physical: u64) {
    core.access(time, Kind::Store, address, physical);
}

#[inline(never)]
fn loaded_other(mut vcpu: Vcpu, access: Access<'_>) {
    accessed(Kind::Load, &mut vcpu, &access);
}

#[inline(never)]
fn stored_other(mut vcpu: Vcpu, access: Access<'_>) {
    accessed(Kind::Store, &mut vcpu, &access);
}

/// An access that the model must be told of.
#[inline(always)]
fn accessed(kind: Kind, vcpu: &mut Vcpu, access: &Access<'_>) {
    let Some((core, time)) = core(vcpu, true) else { return };
    match core.pages.find(access.address, kind.is_write()).filter(|_| time.is_within_line(access)) {
        Some(physical) if kind == Kind::Load => load(core, time, access.address, physical),
        Some(physical) if kind == Kind::Store => store(core, time, access.address, physical),
        Some(physical) => core.access(time, kind, access.address, physical),
        None => accessed_slowly(kind, vcpu, access, true),
    }
}

/// `translated`: the address is translated in the way that [`Pages`] remembers.
#[inline(never)]
fn accessed_slowly(kind: Kind, vcpu: &mut Vcpu, access: &Access<'_>, translated: bool) {
    let Some((core, time)) = core(vcpu, true) else { return };
    let size = access.known_size(&time.sizes).unwrap_or_else(|| access.learn_size(&mut time.sizes));
    for byte in [access.address, access.address.wrapping_add(u64::from(size) - 1)] {
        time.recent_data.forget(core.plugin.costs.data_place(byte));
    }
    let known = core.pages.find(access.address, kind.is_write()).filter(|_| translated);
    let cost = match known.map(Physical::Memory).or_else(|| access.physical()) {
        Some(Physical::Memory(physical)) => {
            if translated && known.is_none() {
                // It may replace what was known of another page, or of this one.
                core.pages.learn(access.address, physical, kind.is_write());
                time.recent_data.clear();
            }
            core.caches.access(kind, physical, size)
        }
        Some(Physical::Device) => core.caches.device_access(kind),
        None => return,
    };
    time.charge(cost.0);
    if core.caches.losses() != time.losses {
        time.forget_lost(&core.caches);
    }
}

impl TimedCore {
    /// The model is told of an access within a line.
    #[inline(always)]
    fn access(&mut self, time: &mut VcpuTime, kind: Kind, address: u64, physical: u64) {
        let (cost, cached) = self.caches.access_other(kind, physical);
        time.charge(cost.0);
        if self.caches.losses() == time.losses {
            time.used(&self.plugin.costs, address, kind.is_write(), cached);
        } else {
            // Perhaps this very line is lost again.
            time.forget_lost(&self.caches);
        }
    }
}

impl VcpuTime {
    /// Whether it is known without a call that an access ends in the line in which it begins.
    #[inline(always)]
    fn is_within_line(&self, access: &Access<'_>) -> bool {
        let left = LINE_SIZE - access.address % LINE_SIZE;
        left >= u64::from(Access::SIZE_MAX)
            || access.known_size(&self.sizes).is_some_and(|size| u64::from(size) <= left)
    }

    /// Adds what memory costs.
    #[inline(always)]
    fn charge(&mut self, cost_ps: u64) {
        self.since_ps = self.since_ps.wrapping_add(cost_ps);
        self.stall_ps += cost_ps;
    }

    /// A line is the one used last in its set of L1D. `cached`: whether L1D can hold it.
    #[inline(always)]
    fn used(&mut self, costs: &Costs, address: u64, store: bool, cached: bool) {
        let place = costs.data_place(address);
        if cached && costs.remembers_data {
            self.recent_data.remember(place, address, store);
        } else {
            self.recent_data.forget(place);
        }
    }

    /// L1I or L1D has lost a line: any that was used last in its set may be the one.
    #[cold]
    fn forget_lost(&mut self, caches: &Core<'_>) {
        self.losses = caches.losses();
        self.recent_data.clear();
        self.recent_lines.fill(0);
    }
}
