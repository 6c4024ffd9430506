//! What happens when a virtual CPU fetches instructions or accesses memory. This is where a timed run spends its time.

use std::cell::UnsafeCell;

use motet_coherence::{Core, Kind, LINE_SIZE};
use motet_qemu_plugin::{Access, PerVcpu, Physical, VCPUS_MAX, Vcpu};

use crate::{ONE_LINE, PLUGIN, Plugin, pages::Pages};

/// What a virtual CPU has once its time runs.
struct TimedCore {
    plugin: &'static Plugin,
    /// The core of the cache model that it is.
    caches: Core<'static>,
    pages: Pages,
    /// The model's count of lines that L1I lost, as of when [`crate::VcpuTime::recent_lines`] was right.
    lines_lost: u64,
}

static CORES: PerVcpu<Option<Box<TimedCore>>> = PerVcpu::new([const { UnsafeCell::new(None) }; VCPUS_MAX]);

/// The core that a virtual CPU is, if its time runs.
#[inline(always)]
fn running(vcpu: &mut Vcpu) -> Option<&mut TimedCore> {
    CORES.get(vcpu)?.as_deref_mut().filter(|core| !core.plugin.timing.is_stopped())
}

/// A core begins a quantum.
///
/// Not earlier does it get its caches: whose first access comes first must not depend on who announced itself first.
pub fn begin_quantum(plugin: &'static Plugin, vcpu: &mut Vcpu, number: usize) {
    let Some(core) = CORES.get(vcpu) else { return };
    if core.is_none() {
        let caches = plugin.model.core(plugin.model.core_number(plugin.island, number - plugin.first_core));
        *core = caches.map(|caches| {
            let lines_lost = caches.instruction_lines_lost().wrapping_sub(1); // begins with nothing known
            Box::new(TimedCore { plugin, caches, pages: Pages::new(), lines_lost })
        });
        // All cores have announced themselves, so QEMU makes no further virtual CPU.
        plugin.times.remember(vcpu);
    }
    forget_lost_lines(vcpu);
}

/// Forgets which lines were fetched last if L1I has lost one: that one must be fetched again.
#[inline(always)]
fn forget_lost_lines(vcpu: &mut Vcpu) {
    let Some(Some(core)) = CORES.get(vcpu) else { return };
    let lost = core.caches.instruction_lines_lost();
    if lost != core.lines_lost {
        core.lines_lost = lost;
        let plugin = core.plugin;
        plugin.times.get(vcpu).recent_lines.fill(0);
    }
}

/// A virtual CPU enters a line of instructions that is not the one fetched last in its set of L1I; `line`: its address.
///
/// Fetching the line that was fetched last in its set hits L1I, and no replacement policy changes its mind by it. So
/// translated code asks only whether it is that line, and counts a hit, whose cost it has added already; the result is
/// the same as if each fetch were reported. When L1I loses a line without a fetch (to this core's own misses in L2, or to
/// other cores), all lines are reported again, in the first case at once, in the second from the core's next quantum on,
/// or earlier when it misses in a cache itself.
pub fn fetched(vcpu: &mut Vcpu, line: usize) {
    let Some(core) = running(vcpu) else { return };
    let plugin = core.plugin;
    let cost_ps = core.caches.access(Kind::Fetch, line as u64, LINE_SIZE as u32).0;
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
    let cost_ps = core.caches.access(Kind::Fetch, line as u64, LINE_SIZE as u32).0;
    charge(vcpu, cost_ps);
}

/// Tells the model of fetches that translated code counted as hits; their time.
pub fn count_fetch_hits(vcpu: &mut Vcpu, count: u64) -> u64 {
    let Some(Some(core)) = CORES.get(vcpu) else { return 0 };
    core.caches.fetch_hits(count).0
}

/// A virtual CPU drops translations of addresses.
pub fn translations_dropped(vcpu: &mut Vcpu, _data: usize) {
    if let Some(Some(core)) = CORES.get(vcpu) {
        core.pages.clear();
    }
}

/// A virtual CPU has loaded.
pub fn loaded(vcpu: &mut Vcpu, access: &Access<'_>) {
    accessed(Kind::Load, vcpu, access);
}

/// A virtual CPU has stored.
pub fn stored(vcpu: &mut Vcpu, access: &Access<'_>) {
    accessed(Kind::Store, vcpu, access);
}

/// A virtual CPU has done an atomic read-modify-write.
pub fn updated(vcpu: &mut Vcpu, access: &Access<'_>) {
    accessed(Kind::Atomic, vcpu, access);
}

/// Code that runs without translation has loaded.
pub fn loaded_untranslated(vcpu: &mut Vcpu, access: &Access<'_>) {
    if let Some(core) = running(vcpu) {
        let cost_ps = core.access_by_qemu(Kind::Load, access, false);
        charge(vcpu, cost_ps);
    }
}

/// Code that runs without translation has stored.
pub fn stored_untranslated(vcpu: &mut Vcpu, access: &Access<'_>) {
    if let Some(core) = running(vcpu) {
        let cost_ps = core.access_by_qemu(Kind::Store, access, false);
        charge(vcpu, cost_ps);
    }
}

#[inline(always)]
fn accessed(kind: Kind, vcpu: &mut Vcpu, access: &Access<'_>) {
    let Some(core) = running(vcpu) else { return };
    let store = matches!(kind, Kind::Store | Kind::Atomic);
    let cost_ps = match core.pages.find(access.address, store) {
        Some(physical) => core.access(kind, physical, access),
        None => core.access_by_qemu(kind, access, true),
    };
    if cost_ps != 0 {
        charge(vcpu, cost_ps);
        forget_lost_lines(vcpu);
    }
}

impl TimedCore {
    #[inline(always)]
    fn access(&mut self, kind: Kind, physical: u64, access: &Access<'_>) -> u64 {
        // How long it is matters only where it could reach into the next line.
        let inside = physical % LINE_SIZE <= LINE_SIZE - u64::from(Access::SIZE_MAX);
        self.caches.access(kind, physical, if inside { 1 } else { access.size() }).0
    }

    /// An access to a page that is not known: QEMU knows where it is.
    #[cold]
    #[inline(never)]
    fn access_by_qemu(&mut self, kind: Kind, access: &Access<'_>, remember: bool) -> u64 {
        match access.physical() {
            Some(Physical::Memory(physical)) => {
                if remember {
                    self.pages.learn(access.address, physical, matches!(kind, Kind::Store | Kind::Atomic));
                }
                self.access(kind, physical, access)
            }
            Some(Physical::Device) => self.caches.device_access().0,
            None => 0,
        }
    }
}

/// Adds to a core's time what memory costs.
#[inline(always)]
fn charge(vcpu: &mut Vcpu, cost_ps: u64) {
    let Some(plugin) = PLUGIN.get() else { return };
    let time = plugin.times.get(vcpu);
    time.since_ps += cost_ps;
    time.stall_ps += cost_ps;
}
