//! What happens when a virtual CPU fetches instructions or accesses memory. This is where a timed run spends its time.

use std::cell::UnsafeCell;

use motet_coherence::{Core, Kind, LINE_SIZE};
use motet_qemu_plugin::{Access, PerVcpu, Physical, Sizes, VCPUS_MAX, Vcpu};

use crate::{ONE_LINE, Plugin, pages::Pages};

/// What a virtual CPU has once its time runs.
struct TimedCore {
    pages: Pages,
    sizes: Sizes,
    plugin: &'static Plugin,
    /// The core of the cache model that it is.
    caches: Core<'static>,
    /// The model's number for which [`crate::VcpuTime::recent_lines`] is right; `None`: for none.
    fetch_epoch: Option<u64>,
}

static CORES: PerVcpu<Option<Box<TimedCore>>> = PerVcpu::new([const { UnsafeCell::new(None) }; VCPUS_MAX]);

/// The core that a virtual CPU is, if its time runs.
#[inline(always)]
fn running(vcpu: &mut Vcpu) -> Option<&mut TimedCore> {
    CORES.get(vcpu)?.as_deref_mut().filter(|core| !core.plugin.timing.is_stopped())
}

/// A core goes on after a boundary.
///
/// Not earlier does it get its caches: whose first access comes first must not depend on who announced itself first.
pub fn begin_step(plugin: &'static Plugin, vcpu: &mut Vcpu, core_number: usize) {
    let Some(core) = CORES.get(vcpu) else { return };
    if core.is_none() {
        let caches = plugin.model.core(plugin.number(core_number));
        let timed = |caches| TimedCore { pages: Pages::new(), sizes: Sizes::new(), plugin, caches, fetch_epoch: None };
        *core = caches.map(|caches| Box::new(timed(caches)));
        // All cores have announced themselves, so QEMU makes no further virtual CPU.
        plugin.times.remember(vcpu);
    }
    forget_lost_lines(vcpu);
}

/// Forgets which lines were fetched last if L1I may have lost one: that one must be fetched again.
#[inline(always)]
fn forget_lost_lines(vcpu: &mut Vcpu) {
    let Some(Some(core)) = CORES.get(vcpu) else { return };
    let epoch = Some(core.caches.fetch_epoch());
    if epoch != core.fetch_epoch {
        core.fetch_epoch = epoch;
        let plugin = core.plugin;
        forget_lines(plugin, vcpu);
    }
}

#[cold]
fn forget_lines(plugin: &Plugin, vcpu: &mut Vcpu) {
    plugin.times.get(vcpu).recent_lines.fill(0);
}

/// A virtual CPU enters a line of instructions that is not the one fetched last in its set of L1I; `line`: its address.
///
/// Fetching the line that was fetched last in its set hits L1I, and no replacement policy changes its mind by it. So
/// translated code asks only whether it is that line, and counts a hit, whose cost it has added already; the result is
/// the same as if each fetch were reported. When L1I loses a line other than to a fetch, all lines are reported again: at
/// once if this core's own miss was the cause, otherwise when it misses the next time or comes to its next boundary.
pub fn fetched(vcpu: &mut Vcpu, line: usize) {
    forget_lost_lines(vcpu);
    let Some(core) = running(vcpu) else { return };
    let plugin = core.plugin;
    let cost_ps = core.caches.access(Kind::Fetch, line as u64, LINE_SIZE as u32).0;
    // What misses L2 as well makes room there, perhaps by a line of instructions.
    let made_room = cost_ps > plugin.costs.fetch_l2_ps;
    core.fetch_epoch = Some(core.caches.fetch_epoch()).filter(|_| !made_room);
    forget_lost_lines(vcpu);
    let time = plugin.times.get(vcpu);
    time.recent_lines[plugin.costs.recent(line as u64)] = line as u64 + 1;
    // It was counted as a hit.
    time.counts = time.counts.wrapping_sub(ONE_LINE);
    time.since_ps = time.since_ps.wrapping_add(cost_ps).wrapping_sub(plugin.costs.fetch_hit_ps);
    time.stall_ps += cost_ps;
}

/// A virtual CPU enters a line of instructions that L1I does not hold.
pub fn fetched_uncached(vcpu: &mut Vcpu, line: usize) {
    let Some(core) = running(vcpu) else { return };
    let plugin = core.plugin;
    let cost_ps = core.caches.access(Kind::Fetch, line as u64, LINE_SIZE as u32).0;
    charge(plugin, vcpu, cost_ps);
}

/// Tells the model of fetches that translated code counted as hits; their time.
pub fn count_fetches_again(vcpu: &mut Vcpu, lines: u64) -> u64 {
    let Some(Some(core)) = CORES.get(vcpu) else { return 0 };
    core.caches.fetched_again(lines).0
}

/// A virtual CPU drops translations of addresses.
pub fn translations_dropped(vcpu: &mut Vcpu, _data: usize) {
    if let Some(Some(core)) = CORES.get(vcpu) {
        core.pages.clear();
    }
}

/// A virtual CPU has loaded.
pub fn loaded(vcpu: &mut Vcpu, access: &Access<'_>) {
    accessed(Kind::Load, vcpu, access, missed_load);
}

/// A virtual CPU has stored.
pub fn stored(vcpu: &mut Vcpu, access: &Access<'_>) {
    accessed(Kind::Store, vcpu, access, missed_store);
}

/// A virtual CPU has done an atomic read-modify-write.
pub fn updated(vcpu: &mut Vcpu, access: &Access<'_>) {
    accessed(Kind::Atomic, vcpu, access, |vcpu, physical| missed(Kind::Atomic, vcpu, physical));
}

/// Code that runs without translation has loaded.
pub fn loaded_untranslated(vcpu: &mut Vcpu, access: &Access<'_>) {
    accessed_slowly(Kind::Load, vcpu, access, false);
}

/// Code that runs without translation has stored.
pub fn stored_untranslated(vcpu: &mut Vcpu, access: &Access<'_>) {
    accessed_slowly(Kind::Store, vcpu, access, false);
}

/// The quick path makes no call, so it needs to save no registers. `otherwise`: [`missed`].
#[inline(always)]
fn accessed(kind: Kind, vcpu: &mut Vcpu, access: &Access<'_>, otherwise: impl FnOnce(&mut Vcpu, u64)) {
    let Some(core) = running(vcpu) else { return };
    if let Some(physical) = core.pages.find(access.address, kind.is_write())
        && core.is_within_line(physical, access)
    {
        if let Some(cost) = core.caches.hit(kind, physical) {
            let plugin = core.plugin;
            charge(plugin, vcpu, cost.0);
        } else {
            otherwise(vcpu, physical);
        }
    } else {
        accessed_slowly(kind, vcpu, access, true);
    }
}

#[inline(never)]
fn missed_load(vcpu: &mut Vcpu, physical: u64) {
    missed(Kind::Load, vcpu, physical);
}

#[inline(never)]
fn missed_store(vcpu: &mut Vcpu, physical: u64) {
    missed(Kind::Store, vcpu, physical);
}

/// An access within a line that does not hit the line used last.
#[inline(always)]
fn missed(kind: Kind, vcpu: &mut Vcpu, physical: u64) {
    let Some(Some(core)) = CORES.get(vcpu) else { return };
    let plugin = core.plugin;
    let cost_ps = core.caches.no_hit(kind, physical).0;
    charge(plugin, vcpu, cost_ps);
    forget_lost_lines(vcpu);
}

/// `translated`: the address is translated in the way that [`Pages`] remembers.
#[inline(never)]
fn accessed_slowly(kind: Kind, vcpu: &mut Vcpu, access: &Access<'_>, translated: bool) {
    let Some(core) = running(vcpu) else { return };
    let plugin = core.plugin;
    let known = core.pages.find(access.address, kind.is_write()).filter(|_| translated);
    let place = known.map(Physical::Memory).or_else(|| access.physical());
    let cost_ps = match place {
        Some(Physical::Memory(physical)) => {
            if translated && known.is_none() {
                core.pages.learn(access.address, physical, kind.is_write());
            }
            let known = access.known_size(&core.sizes);
            let size = known.unwrap_or_else(|| access.learn_size(&mut core.sizes));
            core.caches.access(kind, physical, size).0
        }
        Some(Physical::Device) => core.caches.device_access(kind).0,
        None => 0,
    };
    charge(plugin, vcpu, cost_ps);
    forget_lost_lines(vcpu);
}

impl TimedCore {
    /// Whether it is known without a call that an access ends in the line in which it begins.
    #[inline(always)]
    fn is_within_line(&self, physical: u64, access: &Access<'_>) -> bool {
        let left = LINE_SIZE - physical % LINE_SIZE;
        left >= u64::from(Access::SIZE_MAX)
            || access.known_size(&self.sizes).is_some_and(|size| u64::from(size) <= left)
    }
}

/// Adds to a core's time what memory costs.
#[inline(always)]
fn charge(plugin: &Plugin, vcpu: &mut Vcpu, cost_ps: u64) {
    let time = plugin.times.get(vcpu);
    time.since_ps += cost_ps;
    time.stall_ps += cost_ps;
}
