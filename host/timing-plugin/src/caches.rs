//! What happens when a virtual CPU fetches instructions or accesses memory. This is where a timed run spends its time.

use std::sync::{Mutex, PoisonError};

use motet_coherence::{Core, Held, Kind, LINE_SIZE, Picoseconds, Side, TrapEvent};
use motet_plugin_api::{Access, Guest, PerVcpu, Physical, VCPUS_MAX, Vcpu};

use motet_layout::Isa;

use crate::{
    ONE_LINE, PLUGIN, Plugin, RECENT_PAGES, VcpuTime,
    fpga::Registers,
    operands,
    pages::{PAGE, Pages},
    service::Service,
    tables::{self, Roots},
    translated::{DataCosts, page_slot},
    traps::LOCAL_APIC_END_OF_INTERRUPT,
};

/// What a virtual CPU has once its time runs.
struct TimedCore {
    /// The core of the cache model that it is.
    caches: Core<'static>,
    costs: DataCosts,
    plugin: &'static Plugin,
    pages: Pages,
    roots: Roots,
}

/// Where virtual CPUs' tables were when they announced themselves.
static FIRST_ROOTS: [Mutex<Roots>; VCPUS_MAX] = [const { Mutex::new(Roots::UNKNOWN) }; VCPUS_MAX];

static CORES: PerVcpu<TimedCore, VcpuTime> = PerVcpu::new();

/// The core that a virtual CPU is, once its time runs and until nothing counts any more.
#[inline(always)]
fn counting(vcpu: &mut Vcpu) -> Option<(&mut TimedCore, &mut VcpuTime)> {
    CORES.get(vcpu).filter(|(core, _)| !core.plugin.timing.is_stopped())
}

/// A core goes on after a boundary.
///
/// Not earlier does it get its caches: whose first access comes first must not depend on who announced itself first.
pub fn begin_step(plugin: &'static Plugin, vcpu: &mut Vcpu, core_number: usize) {
    if CORES.get(vcpu).is_none() {
        let Some(caches) = plugin.model.core(plugin.number(core_number)) else { return };
        let roots = *first_roots(vcpu).lock().unwrap_or_else(PoisonError::into_inner);
        let core = TimedCore { caches, costs: plugin.costs.data, plugin, pages: Pages::new(), roots };
        // All cores have announced themselves, so QEMU makes no further virtual CPU.
        CORES.put(vcpu, core, &plugin.times);
    }
    let Some((core, time)) = CORES.get(vcpu) else { return };
    core.caches.set_now(time.now_ps());
    core.caches.note_clock(time.now_ps());
    core.caches.settle();
    if core.caches.losses() != time.losses {
        time.forget_lost(&core.caches);
    }
    if plugin.timing.is_stopped() {
        // So that nothing counts any more.
        core.pages.clear();
        time.recent_data.clear();
    }
}

/// A core's clock shows this time, and others may look at it.
pub fn note_clock(vcpu: &mut Vcpu, now_ps: u64) {
    if let Some((core, _)) = CORES.get(vcpu) {
        core.caches.note_clock(now_ps);
    }
}

/// Whether a core has exchanged something with others since this was asked.
pub fn has_exchanged(vcpu: &mut Vcpu) -> bool {
    let Some((core, time)) = CORES.get(vcpu) else { return false };
    let exchanges = core.caches.exchanges();
    std::mem::replace(&mut time.exchanges, exchanges) != exchanges
}

/// Whether others have used a core's lines out of turn since this was asked, and whether lines came back that others had taken.
pub fn has_doubted(vcpu: &mut Vcpu) -> [bool; 2] {
    let Some((core, time)) = CORES.get(vcpu) else { return [false; 2] };
    let counts = [core.caches.doubts(), core.caches.lines_back()];
    let before = std::mem::replace(&mut time.doubts, counts);
    [counts[0] != before[0], counts[1] != before[1]]
}

/// A virtual CPU enters a line of instructions that is not the one fetched last in its set of L1I; `line`: its address.
///
/// Fetching the line that was fetched last in its set hits L1I, and no replacement policy changes its mind by it. So
/// translated code asks only whether it is that line, and counts a hit, whose cost it has added already; the result is
/// the same as if each fetch were reported. When L1I loses a line other than to a fetch, all lines are reported again: at
/// once if this core's own miss was the cause, otherwise when it misses the next time or comes to its next boundary.
pub fn fetched(vcpu: &mut Vcpu, line: usize) {
    let Some((core, time)) = counting(vcpu) else { return };
    let costs = &core.plugin.costs;
    core.caches.note_clock(time.now_ps());
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
    let Some((core, time)) = counting(vcpu) else { return };
    time.charge(core.caches.access_at(time.now_ps(), Kind::Fetch, line as u64, LINE_SIZE as u32).0);
}

/// Tells the model of hits that it was not asked about: lines of instructions, loads, and stores; their time.
pub fn count_hits(vcpu: &mut Vcpu, lines: u64, loads: u64, stores: u64) -> u64 {
    let Some((core, _)) = CORES.get(vcpu) else { return 0 };
    (core.caches.fetched_again(lines) + core.caches.accessed_again(loads, stores)).0
}

/// Tells the model how often each of [`TrapEvent::ALL`] has happened.
pub fn count_events(vcpu: &mut Vcpu, events: [u64; TrapEvent::COUNT]) {
    let Some((core, _)) = CORES.get(vcpu) else { return };
    for (event, times) in TrapEvent::ALL.into_iter().zip(events).filter(|(_, times)| *times != 0) {
        core.caches.trapped(event, times);
    }
}

/// Charges the stores to device registers that start a migration engine: what to transfer, whereto, and that it is to begin.
pub fn count_engine_start(vcpu: &mut Vcpu) {
    let Some((core, time)) = counting(vcpu) else { return };
    for _ in 0..motet_layout::DMA_REGISTERS {
        time.charge(core.caches.device_access(Kind::Store).0);
    }
}

/// Charges the store to the register that starts a transfer engine.
pub fn count_doorbell_store(vcpu: &mut Vcpu) {
    let Some((core, time)) = counting(vcpu) else { return };
    time.charge(core.caches.device_access(Kind::Store).0);
}

/// The transfer engine of the island has copied bytes within the pool.
pub fn note_transfer(vcpu: &mut Vcpu, from: u64, to: u64, bytes: u64) {
    let Some((core, time)) = counting(vcpu) else { return };
    core.caches.engine_copies(from, to, bytes);
    if core.caches.losses() != time.losses {
        time.forget_lost(&core.caches);
    }
}

/// A core's kernel has a frame of the pool leave its island's caches.
pub fn flush_frame(vcpu: &mut Vcpu, start: u64) {
    let Some((core, time)) = counting(vcpu) else { return };
    let [instructions, stall] = core.caches.flush_lines(start, motet_layout::PAGE_SIZE);
    time.since_ps += instructions.0;
    time.charge(stall.0);
    if core.caches.losses() != time.losses {
        time.forget_lost(&core.caches);
    }
}

fn first_roots(vcpu: &Vcpu) -> &'static Mutex<Roots> {
    &FIRST_ROOTS[vcpu.index() % VCPUS_MAX]
}

/// A virtual CPU's tables are there, before its time runs.
pub fn note_roots(vcpu: &mut Vcpu, roots: Roots) {
    *first_roots(vcpu).lock().unwrap_or_else(PoisonError::into_inner) = roots;
}

/// A virtual CPU whose core has TLBs switches tables, or drops translations of addresses, by the instruction at a site.
pub fn tables_changed(vcpu: &mut Vcpu, guest: &Guest<'_>, site: usize) {
    let Some(isa) = PLUGIN.get().map(|plugin| plugin.isa) else { return };
    let (address, code) = operands::at(site);
    if let Some((core, time)) = CORES.get(vcpu) {
        let flush = tables::changed(isa, &mut core.roots, guest, address, &code);
        core.pages.clear();
        time.recent_data.clear();
        (time.recent_pages, time.data_page) = ([0; RECENT_PAGES], 0);
        if let Some(flush) = flush.filter(|_| !core.plugin.timing.is_stopped()) {
            core.caches.flush(flush);
        }
    } else {
        let mut roots = first_roots(vcpu).lock().unwrap_or_else(PoisonError::into_inner);
        tables::changed(isa, &mut roots, guest, address, &code);
    }
}

/// A virtual CPU says whether its next return is to a guest, by the instruction at a site.
pub fn guest_chosen(vcpu: &mut Vcpu, guest: &Guest<'_>, site: usize) {
    let (Some(plugin), Some((core, time))) = (PLUGIN.get(), CORES.get(vcpu)) else { return };
    let (_, code) = operands::at(site);
    core.roots.choose_guest(plugin.isa, operands::register(plugin.isa, guest, &code).unwrap_or(0));
    // Where what is remembered without the model's knowledge was translated otherwise.
    (time.recent_pages, time.data_page) = ([0; RECENT_PAGES], 0);
}

/// A virtual CPU enters a page of code that is not the one entered last among those of its slot.
pub fn page_entered(vcpu: &mut Vcpu, page: usize) {
    let Some((core, time)) = counting(vcpu) else { return };
    core.translate(time, Side::Fetch, page as u64);
    time.recent_pages[page_slot(page as u64)] = page as u64 + 1;
}

/// A virtual CPU drops translations of addresses.
pub fn translations_dropped(vcpu: &mut Vcpu, _data: usize) {
    if let Some((core, time)) = CORES.get(vcpu) {
        core.pages.clear();
        time.recent_data.clear();
    }
}

/// A virtual CPU has loaded. `SOLE`: the machine has no other core.
pub fn loaded<const SOLE: bool>(mut vcpu: Vcpu, access: Access<'_>) {
    if !accessed_quickly::<SOLE>(&mut vcpu, &access, false) {
        loaded_other(vcpu, access);
    }
}

/// A virtual CPU has stored. `SOLE`: the machine has no other core.
pub fn stored<const SOLE: bool>(mut vcpu: Vcpu, access: Access<'_>) {
    if !accessed_quickly::<SOLE>(&mut vcpu, &access, true) {
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
fn accessed_quickly<const SOLE: bool>(vcpu: &mut Vcpu, access: &Access<'_>, store: bool) -> bool {
    // Before the core's time runs, nothing is counted.
    let Some((core, time)) = CORES.get(vcpu) else { return true };
    // Others may have taken a line just now; where they only run in turns, a boundary has looked.
    if (!SOLE && core.plugin.meets_others && core.caches.losses() != time.losses) || !time.is_within_line(access) {
        return false;
    }
    let (costs, address) = (core.costs, access.address);
    let slot = costs.slot(address);
    let is_known = if store {
        time.recent_data.has_for_store(slot, address, Held::Modified)
    } else {
        time.recent_data.has(slot, address)
    };
    if !is_known {
        if store && time.recent_data.has_for_store(slot, address, Held::Only) {
            if !core.caches.modify_recent(address) {
                return false;
            }
            time.recent_data.remember(slot, address, Held::Modified, true);
        } else {
            let Some((physical, stored)) = core.pages.find_page(address) else { return false };
            // A core without others stops at its own boundary, and forgets all pages there.
            if !SOLE && core.plugin.timing.is_stopped() {
                return true;
            }
            if costs.translates && (!store || stored) {
                core.translate_data(time, address);
            }
            if !store {
                load(core, time, address, physical, stored);
                return true;
            }
            if stored {
                self::store(core, time, address, physical);
            }
            return stored;
        }
    }
    time.since_ps = time.since_ps.wrapping_add(costs.hit_ps);
    *if store { &mut time.stores } else { &mut time.loads } += 1;
    true
}

/// Another load than that of a line used last. What is not usual is in a function of its own, so that this one saves few registers.
#[inline(never)]
fn load(core: &mut TimedCore, time: &mut VcpuTime, address: u64, physical: u64, stored: bool) {
    let stored = stored && core.costs.slots_are_sets;
    let Some((cost, held)) = core.caches.access_usual(false, physical) else {
        return load_unusual(core, time, address, physical, stored);
    };
    core.used(time, address, cost, held, stored);
}

#[inline(never)]
fn load_unusual(core: &mut TimedCore, time: &mut VcpuTime, address: u64, physical: u64, stored: bool) {
    core.access(time, Kind::Load, address, physical, stored);
}

/// The same of a store.
#[inline(never)]
fn store(core: &mut TimedCore, time: &mut VcpuTime, address: u64, physical: u64) {
    let Some((cost, held)) = core.caches.access_usual(true, physical) else {
        return store_unusual(core, time, address, physical);
    };
    core.used(time, address, cost, held, true);
}

#[inline(never)]
fn store_unusual(core: &mut TimedCore, time: &mut VcpuTime, address: u64, physical: u64) {
    core.access(time, Kind::Store, address, physical, true);
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
    let Some((core, time)) = counting(vcpu) else { return };
    if core.costs.translates {
        core.translate_data(time, access.address);
    }
    match core.pages.find_page(access.address).filter(|_| time.is_within_line(access)) {
        Some((physical, stored)) if kind == Kind::Load => load(core, time, access.address, physical, stored),
        Some((physical, true)) if kind == Kind::Store => store(core, time, access.address, physical),
        Some((physical, true)) => core.access(time, kind, access.address, physical, true),
        Some((_, false)) | None if !straddled(kind, core, time, access) => accessed_slowly(kind, vcpu, access, true),
        Some((_, false)) | None => {}
    }
}

/// A load or store of two lines of a page that is known; false: it is another access, and nothing has happened. It is what accesses
/// to each of the lines are.
fn straddled(kind: Kind, core: &mut TimedCore, time: &mut VcpuTime, access: &Access<'_>) -> bool {
    let address = access.address;
    let (Some((physical, stored)), Some(size)) = (core.pages.find_page(address), access.known_size(&time.sizes)) else {
        return false;
    };
    let second = (address | (LINE_SIZE - 1)) + 1;
    let is_plain = kind == Kind::Load || kind == Kind::Store && stored;
    if !is_plain || second & !PAGE == 0 || address + u64::from(size) <= second {
        return false;
    }
    core.caches.count_straddle();
    for (address, physical) in [(address, physical), (second, physical + (second - address))] {
        if kind == Kind::Load {
            load(core, time, address, physical, stored);
        } else {
            store(core, time, address, physical);
        }
    }
    // Whether lines are remembered decides what the TLBs are asked; so such an access never has.
    time.recent_data.forget(core.costs.slot(address));
    time.recent_data.forget(core.costs.slot(second));
    true
}

/// What links with a bandwidth need to know, time and size, the model is told only here; so [`Pages`] keeps memory beyond them apart,
/// and others' accesses take no longer for it. `translated`: the address is translated in the way that [`Pages`] remembers.
#[inline(never)]
fn accessed_slowly(kind: Kind, vcpu: &mut Vcpu, access: &Access<'_>, translated: bool) {
    let index = vcpu.index();
    let Some((core, time)) = counting(vcpu) else { return };
    let size = access.known_size(&time.sizes).unwrap_or_else(|| access.learn_size(&mut time.sizes));
    for byte in [access.address, access.address.wrapping_add(u64::from(size) - 1)] {
        if translated && core.costs.translates {
            core.translate_data(time, byte);
        }
        time.recent_data.forget(core.costs.slot(byte));
    }
    let find = || {
        let (address, store) = (access.address, kind.is_write());
        core.pages.find(address, store).or_else(|| core.pages.find_apart(address, store))
    };
    let known = if translated { find() } else { None };
    let cost = match known.map(Physical::Memory).or_else(|| access.physical()) {
        Some(Physical::Memory(physical)) => {
            let service = core.plugin.service.as_ref().filter(|service| service.has(physical));
            let fpga = core.plugin.fpga.as_ref().filter(|fpga| fpga.has(physical));
            if translated && known.is_none() {
                // It may replace what was known of another page, or of this one.
                if service.is_some() || fpga.is_some() || core.caches.is_over_link(physical) {
                    core.pages.learn_apart(access.address, physical, kind.is_write());
                } else {
                    core.pages.learn(access.address, physical, kind.is_write());
                }
                time.recent_data.clear();
            }
            match (service, fpga) {
                (Some(service), _) => core.access_service(service, index, kind, physical, time.now_ps()),
                (None, Some(fpga)) => core.access_fpga(fpga, index, kind, physical, time.now_ps()),
                (None, None) => {
                    core.caches.note_clock(time.now_ps());
                    core.caches.access_at(time.now_ps(), kind, physical, size)
                }
            }
        }
        Some(Physical::Device(register)) => {
            let plugin = core.plugin;
            if plugin.isa == Isa::X86_64 && register == LOCAL_APIC_END_OF_INTERRUPT && kind.is_write() {
                time.happened(TrapEvent::EndOfInterrupt, plugin.event_ps(TrapEvent::EndOfInterrupt));
            }
            core.caches.set_now(time.now_ps());
            core.caches.device_access(kind)
        }
        None => return,
    };
    time.charge(cost.0);
    if core.caches.losses() != time.losses {
        time.forget_lost(&core.caches);
    }
}

impl TimedCore {
    /// Accesses a register of the service core.
    #[cold]
    fn access_service(
        &mut self,
        service: &Service,
        index: usize,
        kind: Kind,
        physical: u64,
        now_ps: u64,
    ) -> Picoseconds {
        let Some(number) = self.plugin.core_at(index) else { return Picoseconds(0) };
        let cost_ps = service.access(self.plugin, number, kind, physical, now_ps);
        self.caches.set_now(now_ps);
        self.caches.register_access(Picoseconds(cost_ps))
    }

    /// Accesses a register of the FPGA's, which is a device.
    #[cold]
    fn access_fpga(
        &mut self,
        registers: &Registers,
        index: usize,
        kind: Kind,
        physical: u64,
        now_ps: u64,
    ) -> Picoseconds {
        let Some(number) = self.plugin.core_at(index) else { return Picoseconds(0) };
        let wait_ps = registers.access(self.plugin, number, kind, physical, now_ps);
        self.caches.set_now(now_ps);
        self.caches.device_access_that_waits(kind, Picoseconds(wait_ps))
    }

    /// Translates the address of a load or a store, unless it is in the page that was translated last.
    #[inline(always)]
    fn translate_data(&mut self, time: &mut VcpuTime, address: u64) {
        if time.data_page != (address & PAGE) + 1 {
            time.data_page = (address & PAGE) + 1;
            if !self.caches.has_translated(Side::Data, address, self.roots.space_of(address)) {
                self.translate(time, Side::Data, address);
            }
        }
    }

    /// Asks the core's TLBs for an address, and charges what they miss.
    ///
    /// A line of data or a page of code used last is not looked up: it is the more recent use of a translation that is there, or
    /// it would have been forgotten here. (So the order of use is that of the look-ups.)
    #[inline(never)]
    fn translate(&mut self, time: &mut VcpuTime, side: Side, address: u64) {
        let (plugin, roots) = (self.plugin, self.roots);
        let walk = || roots.walk(plugin.isa, address, |local| plugin.read_word(local));
        let translated = self.caches.translate(side, address, roots.space_of(address), walk);
        time.charge(translated.cost.0);
        if let Some(walk) = translated.read {
            for entry in &walk.entries[..walk.count] {
                time.recent_data.forget(self.costs.slot(*entry));
            }
            self.caches.settle();
            if self.caches.losses() != time.losses {
                time.forget_lost(&self.caches);
            }
        }
        let Some(gone) = translated.gone else { return };
        match side {
            Side::Data => time.recent_data.forget_page(gone.address, gone.shift),
            Side::Fetch => {
                for page in time.recent_pages.iter_mut().filter(|page| (**page ^ gone.address) >> gone.shift == 0) {
                    *page = 0;
                }
            }
        }
    }

    /// The model is told of an access within a line. `stored`: its page is known for stores.
    #[inline(always)]
    fn access(&mut self, time: &mut VcpuTime, kind: Kind, address: u64, physical: u64, stored: bool) {
        self.caches.note_clock(time.now_ps());
        let (cost, held) = self.caches.access_other(kind, physical);
        self.caches.settle();
        if self.caches.losses() == time.losses {
            self.used(time, address, cost, held, stored);
        } else {
            // Perhaps this very line is lost again.
            time.charge(cost.0);
            time.forget_lost(&self.caches);
        }
    }

    /// A line was the last one used in its set of L1D, which has it so.
    #[inline(always)]
    fn used(&self, time: &mut VcpuTime, address: u64, cost: Picoseconds, held: Held, stored: bool) {
        time.charge(cost.0);
        let (slot, held) = (self.costs.slot(address), if self.costs.remembers { held } else { Held::Nothing });
        time.recent_data.remember(slot, address, held, stored);
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

    /// L1I or L1D has lost a line: any that was used last in its set may be the one.
    #[cold]
    fn forget_lost(&mut self, caches: &Core<'_>) {
        self.losses = caches.losses();
        self.recent_data.clear();
        self.recent_lines.fill(0);
    }
}
