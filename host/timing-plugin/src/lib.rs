//! The QEMU plugin that keeps a timed machine's time.
//!
//! The fabric loads it into every island of a timed machine, with inherited descriptors ([`PluginArguments`]). Translated code adds each block's time to a word of its virtual
//! CPU; when a step of time is full, [`boundary`] brings the core together with the others ([`motet_timing`]).
//!
//! A virtual CPU takes part from the moment its kernel announces which core it is ([`marks::CORE`]): booting
//! costs no simulated time.
#![deny(unsafe_code)]

mod atomics;
mod caches;
mod classes;
mod firmware;
mod fpga;
#[allow(unsafe_code)] // mappings and descriptors that the fabric hands over
mod memory;
mod noted;
mod operands;
mod pages;
mod points;
mod recent;
mod regions;
mod service;
mod tables;
mod translated;
mod translations;
mod traps;

use std::{
    mem::offset_of,
    os::fd::{BorrowedFd, RawFd},
    sync::{
        Mutex, OnceLock,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use memory::HostMap;
use motet_coherence::{Model, TrapEvent};
use motet_layout::{CORES_PER_ISLAND_MAX, Isa, Pool, marks};
use motet_machine::{Firmware, MachineSpec, PluginArguments, PointArguments, local_ranges};
use motet_plugin_api::{Guest, Instruction, Registration, Scoreboard, Sizes, VCPUS_MAX, Vcpu};
use motet_record::{Accesses, Passages, Probe, Record};
use motet_timing::{Bells, ClockRegion, Next, Records, Timing, host};
use recent::RecentLines;
use translated::{Ahead, Costs};
use traps::Handlers;

/// How often to look whether a doorbell has arrived, and how many times.
const SETTLE_LOOK: Duration = Duration::from_micros(20);
const SETTLE_LOOKS_MAX: u32 = 50_000;
/// Sets of L1I that [`VcpuTime::recent_lines`] tells apart.
const RECENT_LINES: usize = 64;
/// Pages of code that [`VcpuTime::recent_pages`] tells apart.
const RECENT_PAGES: usize = 16;

motet_plugin_api::plugin!("motet-timing-plugin", install);

/// What translated code and callbacks keep for each virtual CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VcpuTime {
    /// Time since `base_ps`; translated code adds to it, and calls [`boundary`] when it is the longest step or more.
    since_ps: u64,
    /// Instructions since the last boundary, plus 2^32 for each line of instructions entered without a call; translated code
    /// adds to it. They are booked before either part overflows: a quantum has at most 100 ms.
    counts: u64,
    /// Time at the last boundary, less what its step is shorter than the longest one (wrapping).
    base_ps: u64,
    /// What memory has added to `since_ps` since the last was booked, without hits that the model was not asked about.
    stall_ps: u64,
    /// Loads since then that hit lines of `recent_data`.
    loads: u64,
    /// Stores, likewise.
    stores: u64,
    /// The model's number ([`motet_coherence::Core::losses`]) for which `recent_data` and `recent_lines` are right.
    losses: u64,
    recent_data: RecentLines,
    /// Sizes of accesses.
    sizes: Sizes,
    /// By number of their set in L1I: 1 + the address of the line fetched last. See [`caches::fetched`].
    recent_lines: [u64; RECENT_LINES],
    /// What the model said last of exchanges with others ([`motet_coherence::Core::exchanges`]).
    exchanges: u64,
    /// The same of lines that others used out of turn, and of lines that came back ([`motet_coherence::Core::doubts`],
    /// [`motet_coherence::Core::lines_back`]).
    doubts: [u64; 2],
    /// 1 + the instructions in `counts` when the core's kernel last said that it is about to ring; 0: not since the last boundary.
    rung: u64,
    /// By number of pages: 1 + the address of a page of code that the core has entered, and whose translation it has since.
    recent_pages: [u64; RECENT_PAGES],
    /// 1 + the page of data that was translated last.
    data_page: u64,
    /// How often each of [`TrapEvent::ALL`] has happened since then.
    events: [u64; TrapEvent::COUNT],
    /// When that was: [`Plugin::account`].
    booked_ps: u64,
    /// Makes the size a power of two: translated code then shifts the number of its virtual CPU, and does not multiply it.
    _rest: [u64; 29],
}

const _: () = assert!(size_of::<VcpuTime>() == 2048);

/// One line, in [`VcpuTime::counts`].
const ONE_LINE: u64 = 1 << 32;
/// Within so many instructions after it has said so, a kernel rings.
const RINGING_INSTRUCTIONS: u64 = 128;

impl VcpuTime {
    /// Something has happened, once, that costs so much.
    fn happened(&mut self, event: TrapEvent, cost_ps: u64) {
        self.events[event as usize] += 1;
        self.since_ps = self.since_ps.wrapping_add(cost_ps);
    }

    /// Goes on at `now_ps`, as if part of the longest step had passed already.
    fn go_on(&mut self, now_ps: u64, passed_ps: u64) {
        (self.base_ps, self.since_ps) = (now_ps.wrapping_sub(passed_ps), passed_ps);
    }

    /// The core's time.
    fn now_ps(&self) -> u64 {
        self.base_ps.wrapping_add(self.since_ps)
    }

    /// Whether the core has said whom it rings, and may not have done so: others would wait for that, so it must not wait for them.
    fn is_ringing(&self) -> bool {
        self.rung != 0 && (self.counts % ONE_LINE + 1).wrapping_sub(self.rung) < RINGING_INSTRUCTIONS
    }
}

struct Plugin {
    isa: Isa,
    first_core: usize,
    timing: Timing<Doorbells>,
    clocks: &'static ClockRegion,
    model: Model<'static>,
    record: Record<'static>,
    /// Where accesses are noted, if the run is to have them.
    accesses: Option<Accesses<'static>>,
    /// Instructions whose moments are noted.
    points: Option<points::Points>,
    /// The island has no kernel of Motet, but a program on the bare board, whose time runs from the first step on.
    bare: bool,
    /// Guests may run on its cores, or a program for guests does.
    has_guests: bool,
    island: usize,
    host_map: Mutex<HostMap>,
    /// Local addresses of the machine's memory.
    pool: std::ops::Range<u64>,
    costs: Costs,
    /// The machine's memory, for page tables; empty if nobody reads them.
    pool_words: &'static [AtomicU64],
    /// The pool of the island's kernel, for its transfer engine.
    pool_bytes: Pool,
    /// Where that begins in the machine's memory.
    pool_start: u64,
    /// The pieces of the machine's memory in the island's physical memory: offset, local address, size.
    pool_pieces: Vec<(u64, u64, u64)>,
    /// Where traps go.
    handlers: Mutex<Handlers>,
    /// The machine's service core, if it has one.
    service: Option<service::Service>,
    /// The machine's FPGA, if it has one.
    fpga: Option<fpga::Registers>,
    /// The machine has only one.
    has_one_core: bool,
    /// Other cores may be in the model at the same time as one of this island's.
    meets_others: bool,
    times: Scoreboard<VcpuTime>,
    /// 1 + the core that each virtual CPU has announced to be; 0: none.
    cores: [AtomicU32; VCPUS_MAX],
    /// The virtual CPUs that are hidden harts; which core of the island each is, is its number.
    hidden: std::ops::Range<usize>,
    /// Where Motet's firmware lies, if the island has it.
    firmware: std::ops::Range<u64>,
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// The doorbells of all cores of the machine.
#[derive(Debug)]
struct Doorbells(Vec<(usize, BorrowedFd<'static>)>);

impl Doorbells {
    fn of(&self, core: usize) -> Option<BorrowedFd<'static>> {
        self.0.iter().find(|(owner, _)| *owner == core).map(|(_, bell)| *bell)
    }
}

impl Bells for Doorbells {
    fn ring(&self, core: usize) {
        if let Some(bell) = self.of(core) {
            // The counter can only be full when nobody ever takes rings; then one is pending already.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    fn settle(&self, core: usize) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(bell) = self.of(core) else { return true };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let untaken = || {
            let mut fds = [PollFd::from_borrowed_fd(bell, PollFlags::IN)];
            poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
        };
        // QEMU's main thread takes the ring and raises the interrupt without sleeping in between.
        for _ in 0..SETTLE_LOOKS_MAX {
            if !untaken() && main_thread_sleeps() {
                return true;
            }
            std::thread::sleep(SETTLE_LOOK);
        }
        false
    }

    fn wait(&self, word: &AtomicU32, expected: u32, at_most: Duration) {
        host::wait(word, expected, at_most);
    }

    fn wake(&self, word: &AtomicU32) {
        host::wake(word);
    }
}

/// Whether QEMU's main thread waits for something to do (third word of its `stat`, see proc(5)).
fn main_thread_sleeps() -> bool {
    let id = std::process::id();
    let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// QEMU has loaded the plugin.
///
/// # Errors
/// What is wrong with the arguments.
fn install(qemu: &Registration, isa: &str, arguments: &[String]) -> Result<(), String> {
    let given = PluginArguments::read(arguments)?;
    let isa = [Isa::X86_64, Isa::AArch64, Isa::RiscV64].into_iter().find(|known| known.name() == isa);
    let isa = isa.ok_or("unknown instruction set")?;
    let bells = Doorbells(given.bells.iter().map(|&(core, fd)| (core, memory::event(fd))).collect());
    let clocks = memory::clocks(given.clocks)?;
    let island = given.island;
    let path = format!("/proc/self/fd/{}", given.machine);
    let text = std::fs::read_to_string(path).map_err(|error| format!("machine: {error}"))?;
    let machine = MachineSpec::parse(&text).map_err(|error| error.to_string())?;
    let timing = Timing::new(clocks, records(given.pool, &machine)?, bells).ok_or("clocks: not set up")?;
    let config = machine.model_config().map_err(|error| error.to_string())?;
    let segments = &config.islands.get(island).ok_or("island: not in the machine")?.segments;
    let pool_local = local_ranges(machine.islands[island].isa, machine.islands[island].private, machine.pool.size)[0].1;
    let private_local = segments.first().map_or(0, |segment| segment.local);
    let pool = (pool_local, machine.pool.size as usize);
    let host_map = HostMap::new(pool, (private_local, machine.islands[island].private as usize));
    let costs = Costs::new(&config.islands[island]);
    let words = memory::words(given.model, Model::region_words(&config))?;
    let model = Model::attach(config, words).map_err(|error| error.to_string())?;
    let cores = model.config().core_count();
    let record = Record::attach(memory::words(given.record, Record::words(cores))?, cores);
    let translates = model.config().islands[island].tlbs.is_some();
    let pool_words = if translates { memory::pool_words(given.pool, machine.pool.size)? } else { &[] };
    let spec = &machine.islands[island];
    let (pool_start, pool_len) =
        machine.multikernel.map_or((0, machine.pool.size), |spec| (spec.start(island), spec.kernel_len));
    let pool_bytes = memory::pool(given.pool, pool_start, pool_len)?;
    let timing = timing.with_pool(pool_bytes);
    let bare = given.bare;
    let plugin = Plugin {
        fpga: fpga::Registers::of(pool_bytes, pool_local),
        service: machine.service.and_then(|spec| service::Service::new(pool_bytes, pool_local, &spec)),
        pool_words,
        pool_bytes,
        pool_start,
        pool_pieces: local_ranges(spec.isa, spec.private, machine.pool.size),
        isa,
        first_core: island * CORES_PER_ISLAND_MAX,
        island,
        record: record.map_err(|error| error.to_string())?,
        accesses: given.accesses.map(accesses).transpose()?,
        points: given.points.map(|points| watched(&points, island)).transpose()?,
        bare,
        has_guests: bare || spec.guests || isa == Isa::RiscV64 && spec.hidden_harts == 0,
        model,
        host_map: Mutex::new(host_map),
        pool: pool_local..pool_local + machine.pool.size,
        costs,
        handlers: Mutex::default(),
        has_one_core: cores == 1,
        meets_others: !timing.settings().deterministic && cores > 1,
        timing,
        clocks,
        times: Scoreboard::new(),
        hidden: spec.cores..spec.harts(),
        firmware: if spec.firmware == Firmware::Motet { firmware::memory(private_local) } else { 0..0 },
        cores: [const { AtomicU32::new(0) }; VCPUS_MAX],
    };
    PLUGIN.set(plugin).map_err(|_| "loaded twice")?;
    qemu.on_translation(translated::translated);
    if !bare {
        qemu.on_idle(fell_asleep);
    }
    Ok(())
}

/// The records of the machine's islands and cores, wherever their kernels have them.
fn records(pool: RawFd, machine: &MachineSpec) -> Result<Records, String> {
    let Some(spec) = machine.multikernel else { return Ok(memory::header(pool, 0)?.into()) };
    let headers = (0..spec.kernels).map(|kernel| memory::header(pool, spec.start(kernel)));
    Ok(Records::by_island(headers.collect::<Result<_, _>>()?))
}

/// The points of a list, and where passages are noted.
fn watched(points: &PointArguments, island: usize) -> Result<points::Points, String> {
    let path = format!("/proc/self/fd/{}", points.list);
    let text = std::fs::read_to_string(path).map_err(|error| format!("points: {error}"))?;
    let passages = Passages::new(memory::words(points.passages, Passages::words(points.room))?);
    points::Points::new(&text, island, passages)
}

/// Joins where accesses are noted: descriptor, and how many there is room for.
fn accesses((fd, room): (RawFd, usize)) -> Result<Accesses<'static>, String> {
    Accesses::attach(memory::words(fd, Accesses::words(room))?).map_err(|error| error.to_string())
}

impl Plugin {
    /// The core that a virtual CPU is, once its time runs.
    fn core(&self, vcpu: &Vcpu) -> Option<usize> {
        self.core_at(vcpu.index())
    }

    /// The core that the virtual CPU of this number is, once its time runs.
    fn core_at(&self, vcpu: usize) -> Option<usize> {
        self.cores.get(vcpu)?.load(Acquire).checked_sub(1).map(|core| core as usize)
    }

    /// A core has said that it rings: it does so in a moment.
    fn is_about_to_ring(&self, vcpu: &mut Vcpu) {
        let time = self.times.get(vcpu);
        time.rung = time.counts % ONE_LINE + 1;
    }

    /// Time of a core, now.
    fn now_ps(&self, vcpu: &mut Vcpu) -> u64 {
        self.times.get(vcpu).now_ps()
    }

    /// Books what has happened since the last boundary; the core's time.
    fn account(&self, vcpu: &mut Vcpu, core: usize) -> u64 {
        let now_ps = self.now_ps(vcpu);
        let time = self.times.get(vcpu);
        (time.base_ps, time.since_ps, time.booked_ps) = (now_ps, 0, now_ps);
        self.book(vcpu, core);
        now_ps
    }

    /// Books what has happened since it last was, apart from time.
    fn book(&self, vcpu: &mut Vcpu, core: usize) {
        let time = self.times.get(vcpu);
        time.rung = 0;
        let take = std::mem::take::<u64>;
        let (counts, stall_ps) = (take(&mut time.counts), take(&mut time.stall_ps));
        let (loads, stores) = (take(&mut time.loads), take(&mut time.stores));
        let events = std::mem::take(&mut time.events);
        if !self.timing.is_stopped() {
            let hits_ps = caches::count_hits(vcpu, counts / ONE_LINE, loads, stores);
            caches::count_events(vcpu, events);
            self.timing.book(core, counts % ONE_LINE, stall_ps + hits_ps);
        }
    }

    /// Tells others what time the core's clock shows, and whether it has met them since this was done last.
    fn note_met(&self, vcpu: &mut Vcpu, core: usize, now_ps: u64) {
        caches::note_clock(vcpu, now_ps);
        let settings = self.timing.settings();
        if settings.grows() && caches::has_exchanged(vcpu) {
            self.timing.note_exchange(now_ps);
        }
        if settings.shrinks() {
            match caches::has_doubted(vcpu) {
                [true, _] => self.timing.note_doubt(core, now_ps),
                [false, true] => self.timing.note_return(core, now_ps),
                [false, false] => {}
            }
        }
    }

    /// Goes on at `now_ps`, with a boundary after `step_ps`; nothing is left that has not been booked.
    fn resume(&self, vcpu: &mut Vcpu, now_ps: u64, step_ps: u64) {
        let time = self.times.get(vcpu);
        time.go_on(now_ps, self.timing.step_max_ps() - step_ps);
        (time.counts, time.stall_ps, time.loads, time.stores) = (0, 0, 0, 0);
        time.events = [0; TrapEvent::COUNT];
    }

    /// A word of the island's physical memory.
    fn read_word(&self, local: u64) -> Option<u64> {
        let piece = self.pool_pieces.iter().find(|&&(_, start, size)| local.wrapping_sub(start) < size);
        match piece {
            Some(&(offset, start, _)) => {
                Some(self.pool_words.get((offset + local - start) as usize / size_of::<u64>())?.load(Relaxed))
            }
            None => self.host_map.lock().unwrap_or_else(std::sync::PoisonError::into_inner).private_word(local),
        }
    }

    /// What an event of a core of this island costs, in picoseconds.
    fn event_ps(&self, event: TrapEvent) -> u64 {
        event.cost(&self.model.config().islands[self.island].timing.traps).0
    }

    /// Lets translated code count an event before an instruction, and charge it.
    fn charge_inline(&self, instruction: &Instruction<'_>, event: TrapEvent) {
        let word = offset_of!(VcpuTime, events) + event as usize * size_of::<u64>();
        instruction.add(self.times.word(word), 1);
        instruction.add(self.times.word(offset_of!(VcpuTime, since_ps)), self.event_ps(event));
    }

    /// Keeps a core's counts for a report over time, when it has not for a while.
    #[inline]
    fn sample(&self, core: usize, now_ps: u64) {
        let number = self.number(core);
        if self.record.is_due(number, now_ps) && !self.timing.is_stopped() {
            let mut row = Probe::new(self.clocks, &self.model).row(number);
            row[0] = now_ps;
            self.record.sample(number, &row);
        }
    }

    /// The number of one of this island's cores in the model.
    fn number(&self, core: usize) -> usize {
        self.model.core_number(self.island, core - self.first_core)
    }
}

/// A virtual CPU has run for a step, or is to look at once.
fn boundary(vcpu: &mut Vcpu, _data: usize) {
    let Some(plugin) = PLUGIN.get() else { return };
    let Some(core) = plugin.core(vcpu) else {
        if plugin.bare {
            announced(plugin, vcpu, plugin.first_core);
            return caches::begin_step(plugin, vcpu, plugin.first_core);
        }
        return plugin.resume(vcpu, 0, plugin.timing.step_max_ps());
    };
    if plugin.times.get(vcpu).is_ringing() {
        return; // it comes again before the next block
    }
    let (settings, now_ps) = (plugin.timing.settings(), plugin.now_ps(vcpu));
    plugin.note_met(vcpu, core, now_ps);
    let time = plugin.times.get(vcpu);
    let step_ps = plugin.timing.step_of_ps(core);
    if now_ps.wrapping_sub(time.booked_ps) + step_ps <= settings.quantum_ps && plugin.timing.passes(core, now_ps) {
        time.go_on(now_ps, settings.quantum_ps - step_ps);
        return caches::begin_step(plugin, vcpu, core);
    }
    plugin.account(vcpu, core);
    let Next { now_ps, step_ps, escaped, woke } = plugin.timing.boundary(core, now_ps);
    plugin.resume(vcpu, now_ps, if escaped { 0 } else { step_ps });
    if woke {
        plugin.times.get(vcpu).happened(TrapEvent::Wake, plugin.event_ps(TrapEvent::Wake));
    }
    plugin.sample(core, now_ps);
    caches::begin_step(plugin, vcpu, core);
}

/// A virtual CPU sleeps. QEMU's big lock is held: this must not wait.
fn fell_asleep(vcpu: &mut Vcpu) {
    let Some(plugin) = PLUGIN.get() else { return };
    let Some(core) = plugin.core(vcpu) else { return firmware::fell_asleep(plugin, vcpu) };
    let now_ps = plugin.account(vcpu, core);
    // Before others have their turn, who may take lines from this core.
    plugin.note_met(vcpu, core, now_ps);
    plugin.sample(core, now_ps);
    plugin.timing.sleep(core, now_ps);
    plugin.resume(vcpu, now_ps, 0);
}

/// A kernel says which core it is, on a machine whose cores translate: from here on it is known where its tables are.
fn announced_with_guest(vcpu: &mut Vcpu, guest: &Guest<'_>, mark: usize) {
    if let Some(plugin) = PLUGIN.get() {
        caches::note_roots(vcpu, tables::Roots::of(plugin.isa, guest));
    }
    mark_executed(vcpu, mark);
}

/// A kernel is executing a mark.
fn mark_executed(vcpu: &mut Vcpu, mark: usize) {
    let (Some(plugin), Ok(mark)) = (PLUGIN.get(), u8::try_from(mark)) else { return };
    if mark >= marks::CORE {
        return announced(plugin, vcpu, plugin.first_core + usize::from(mark - marks::CORE));
    }
    if mark == marks::HIDDEN {
        return firmware::hart_waits(plugin, vcpu);
    }
    let Some(core) = plugin.core(vcpu) else { return };
    let now_ps = plugin.now_ps(vcpu);
    match mark {
        marks::CLOCK => plugin.timing.publish(core, now_ps),
        marks::RING => {
            plugin.is_about_to_ring(vcpu);
            plugin.timing.note_ring(core, now_ps);
        }
        marks::WOKE => plugin.times.get(vcpu).since_ps += plugin.timing.catch_up(core, now_ps),
        marks::TRANSFER => {
            let start = plugin.pool_start;
            let moved = |from, to, bytes| caches::note_transfer(vcpu, start + from, start + to, bytes);
            plugin.timing.transfer(core, now_ps, |bytes| plugin.model.dma(bytes).0, moved);
            caches::count_engine_start(vcpu);
        }
        marks::ENGINE => {
            plugin.timing.serve_engine(
                plugin.pool_bytes,
                core,
                now_ps,
                |bytes| plugin.model.dma(bytes).0,
                |from, to, bytes| {
                    caches::note_transfer(vcpu, plugin.pool_start + from.0, plugin.pool_start + to.0, bytes);
                },
            );
            if let Some(service) = &plugin.service {
                plugin.timing.control_service(service.core, core, now_ps);
            }
            if plugin.fpga.is_some() {
                let managed_ps = plugin.timing.control_fpga(core, now_ps);
                plugin.times.get(vcpu).since_ps += managed_ps;
            }
            caches::count_doorbell_store(vcpu);
        }
        marks::FLUSH => caches::flush_frame(vcpu, plugin.pool_start + plugin.timing.flush_addr(core)),
        marks::WROTE => plugin.timing.note_write(core, now_ps),
        _ => {}
    }
}

/// A program marks the beginning of a region of interest. `ahead`: [`Ahead`], packed.
fn region_begins(vcpu: &mut Vcpu, guest: &Guest<'_>, ahead: usize) {
    region_marked(vcpu, guest, true, Ahead::unpack(ahead));
}

/// A program marks the end of a region of interest.
fn region_ends(vcpu: &mut Vcpu, guest: &Guest<'_>, ahead: usize) {
    region_marked(vcpu, guest, false, Ahead::unpack(ahead));
}

fn region_marked(vcpu: &mut Vcpu, guest: &Guest<'_>, begins: bool, ahead: Ahead) {
    let Some(plugin) = PLUGIN.get() else { return };
    if let Some(core) = plugin.core(vcpu) {
        regions::marked(plugin, vcpu, guest, core, begins, ahead);
    }
}

fn announced(plugin: &'static Plugin, vcpu: &mut Vcpu, core: usize) {
    if plugin.core(vcpu).is_none() && plugin.timing.announce(core) {
        takes_part(plugin, vcpu, core);
    }
}

/// A virtual CPU's time runs from here on.
fn takes_part(plugin: &'static Plugin, vcpu: &mut Vcpu, core: usize) {
    let Some(entry) = plugin.cores.get(vcpu.index()) else { return };
    plugin.record.set_began(host::monotonic_ns());
    plugin.clocks.cores[core].vcpu.store(vcpu.index() as u32 + 1, Relaxed);
    entry.store(core as u32 + 1, Release);
    plugin.resume(vcpu, motet_timing::PS_PER_NS, 0);
}
