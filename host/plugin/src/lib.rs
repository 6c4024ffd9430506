//! The QEMU plugin that keeps a timed machine's time.
//!
//! `-plugin libmotet_plugin.so,island=N,clocks=FD,pool=FD,model=FD,record=FD,machine=FD,bells=CORE:FD/CORE:FD...`: loaded into every island of a timed
//! machine by the fabric, with inherited descriptors. Translated code adds each block's time to a word of its virtual
//! CPU; when a step of time is full, [`boundary`] brings the core together with the others ([`motet_timing`]).
//!
//! A virtual CPU takes part from the moment its kernel announces which core it is ([`marks::CORE`]): booting
//! costs no simulated time.
#![deny(unsafe_code)]

mod atomics;
#[allow(unsafe_code)] // QEMU's interface
mod guest;
#[allow(unsafe_code)] // mappings and descriptors that the fabric hands over
mod memory;
#[allow(unsafe_code)] // QEMU's interface
mod qemu;
mod regions;

use std::{
    cell::RefCell,
    os::fd::BorrowedFd,
    sync::{
        OnceLock,
        atomic::{
            AtomicU32,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::Duration,
};

use memory::HostMap;
use motet_coherence::{Class, Core, Kind, LINE_SIZE, Model, Picoseconds};
use motet_fabric::{Machine, local_ranges};
use motet_layout::{CORES_PER_ISLAND_MAX, Isa, marks};
use motet_record::{Probe, Record};
use motet_timing::{Bells, ClockRegion, Next, Timing, futex};
use qemu::{Access, Block, Times, Vcpu};

/// Virtual CPUs that one QEMU may have: the island's cores and spare ones.
const VCPUS_MAX: usize = 64;
/// Bytes in a cache line.
const LINE: usize = LINE_SIZE as usize;
/// How often to look whether a doorbell has arrived, and how many times.
const SETTLE_LOOK: Duration = Duration::from_micros(20);
const SETTLE_LOOKS_MAX: u32 = 50_000;

/// What translated code and callbacks keep for each virtual CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VcpuTime {
    /// Time since `base_ps`; translated code adds to it, and calls [`boundary`] when it is a step or more.
    since_ps: u64,
    /// Instructions since the last boundary; translated code adds to it.
    instructions: u64,
    /// Time at the last boundary (wrapping: less than 0 when `since_ps` was set to force a boundary).
    base_ps: u64,
    /// What memory has added to `since_ps` since the last boundary.
    stall_ps: u64,
}

struct Plugin {
    isa: Isa,
    first_core: usize,
    timing: Timing<Doorbells>,
    clocks: &'static ClockRegion,
    model: Model<'static>,
    record: Record<'static>,
    island: usize,
    /// Where QEMU has pool and private memory, and how long they are: local address and bytes.
    pieces: [(u64, usize); 2],
    host_map: OnceLock<HostMap>,
    times: Times,
    /// 1 + the core that each virtual CPU has announced to be; 0: none.
    cores: [AtomicU32; VCPUS_MAX],
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

    fn settle(&self, core: usize) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(bell) = self.of(core) else { return };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let untaken = || {
            let mut fds = [PollFd::from_borrowed_fd(bell, PollFlags::IN)];
            poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
        };
        // QEMU's main thread takes the ring and raises the interrupt without sleeping in between.
        for _ in 0..SETTLE_LOOKS_MAX {
            if !untaken() && main_thread_sleeps() {
                return;
            }
            std::thread::sleep(SETTLE_LOOK);
        }
    }

    fn wait(&self, word: &AtomicU32, expected: u32, at_most: Duration) {
        futex::wait(word, expected, at_most);
    }

    fn wake(&self, word: &AtomicU32) {
        futex::wake(word);
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
fn install(isa: &str, arguments: &[String]) -> Result<(), String> {
    let value = |name: &str| {
        let found = arguments.iter().find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='));
        found.ok_or_else(|| format!("{name}= is missing; only the fabric loads this plugin"))
    };
    let number = |name: &str| value(name)?.parse::<i32>().map_err(|error| format!("{name}: {error}"));
    let isa = [Isa::X86_64, Isa::AArch64, Isa::RiscV64].into_iter().find(|known| known.name() == isa);
    let isa = isa.ok_or("unknown instruction set")?;
    let bells = value("bells")?.split('/').map(|bell| {
        let (core, fd) = bell.split_once(':')?;
        Some((core.parse().ok()?, memory::event(fd.parse().ok()?)))
    });
    let bells = Doorbells(bells.collect::<Option<_>>().ok_or("bells: not CORE:FD/CORE:FD...")?);
    let clocks = memory::clocks(number("clocks")?)?;
    let timing = Timing::new(clocks, memory::header(number("pool")?)?, bells).ok_or("clocks: not set up")?;
    let island = number("island")? as usize;
    let path = format!("/proc/self/fd/{}", number("machine")?);
    let text = std::fs::read_to_string(path).map_err(|error| format!("machine: {error}"))?;
    let machine = Machine::parse(&text).map_err(|error| error.to_string())?;
    let config = machine.model_config().map_err(|error| error.to_string())?;
    let segments = &config.islands.get(island).ok_or("island: not in the machine")?.segments;
    let pool_local = local_ranges(machine.islands[island].isa, machine.islands[island].private, machine.pool.size)[0].1;
    let private_local = segments.first().map_or(0, |segment| segment.local);
    let pieces = [(pool_local, machine.pool.size as usize), (private_local, machine.islands[island].private as usize)];
    let words = memory::words(number("model")?, Model::region_words(&config))?;
    let model = Model::attach(config, words).map_err(|error| error.to_string())?;
    let cores = model.config().core_count();
    let record = Record::attach(memory::words(number("record")?, Record::words(cores))?, cores);
    let plugin = Plugin {
        isa,
        first_core: island * CORES_PER_ISLAND_MAX,
        island,
        record: record.map_err(|error| error.to_string())?,
        model,
        pieces,
        host_map: OnceLock::new(),
        timing,
        clocks,
        times: Times::new(),
        cores: [const { AtomicU32::new(0) }; VCPUS_MAX],
    };
    PLUGIN.set(plugin).map_err(|_| "loaded twice".into())
}

impl Plugin {
    /// The core that a virtual CPU is, once its time runs.
    fn core(&self, vcpu: Vcpu) -> Option<usize> {
        self.cores.get(vcpu.0 as usize)?.load(Acquire).checked_sub(1).map(|core| core as usize)
    }

    /// Time of a core, now.
    fn now_ps(&self, vcpu: Vcpu) -> u64 {
        self.times.update(vcpu, |time| time.base_ps.wrapping_add(time.since_ps))
    }

    /// Books what has happened since the last boundary; the core's time.
    fn account(&self, vcpu: Vcpu, core: usize) -> u64 {
        let (now_ps, instructions, stall_ps) = self.times.update(vcpu, |time| {
            let now_ps = time.base_ps.wrapping_add(time.since_ps);
            let counted = (now_ps, time.instructions, time.stall_ps);
            *time = VcpuTime { base_ps: now_ps, since_ps: 0, instructions: 0, stall_ps: 0 };
            counted
        });
        self.timing.book(core, instructions, stall_ps);
        now_ps
    }

    /// Goes on at `now_ps`; `soon`: with a boundary before the next block.
    fn resume(&self, vcpu: Vcpu, now_ps: u64, soon: bool) {
        let since_ps = if soon { self.timing.settings().step_ps() } else { 0 };
        let base_ps = now_ps.wrapping_sub(since_ps);
        self.times.update(vcpu, |time| *time = VcpuTime { base_ps, since_ps, instructions: 0, stall_ps: 0 });
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

    /// Time of a block's instructions, without memory.
    fn block_ps(&self, instructions: u64) -> u64 {
        let instruction_fs = self.model.config().islands[self.island].timing.instruction_fs[Class::Integer as usize];
        (instructions * instruction_fs + 500) / 1000
    }
}

/// QEMU is translating a block.
fn translated(block: &Block<'_>) {
    let Some(plugin) = PLUGIN.get() else { return };
    let (mut count, mut bytes, mut start) = (0, 0, 0);
    let instructions = block.instructions();
    let total = instructions.len();
    for (index, instruction) in instructions.enumerate() {
        let (at, len) = instruction.place();
        if count == 0 {
            start = at;
        }
        count += 1;
        bytes += len;
        let mut buffer = [0; 16];
        let code = instruction.bytes(&mut buffer);
        if let Some(mark) = marks::decode(plugin.isa, code) {
            instruction.report_mark(mark, total - index);
        }
        instruction.report_accesses(atomics::is_atomic(plugin.isa, code));
    }
    block.add_time(&plugin.times, plugin.timing.settings().step_ps(), plugin.block_ps(count), count);
    if start != 0 {
        let lines = (start + bytes).div_ceil(LINE) - start / LINE;
        block.report_fetch(start / LINE * LINE + lines.min(LINE - 1));
    }
}

/// A virtual CPU has run for a step, or is to look at once.
fn boundary(vcpu: Vcpu) {
    let Some(plugin) = PLUGIN.get() else { return };
    let Some(core) = plugin.core(vcpu) else { return plugin.resume(vcpu, 0, false) };
    let now_ps = plugin.account(vcpu, core);
    let Next { now_ps, escaped } = plugin.timing.boundary(core, now_ps);
    plugin.resume(vcpu, now_ps, escaped);
    plugin.sample(core, now_ps);
    // Not earlier: whose first access comes first must not depend on who announced itself first.
    CACHES.with_borrow_mut(|caches| {
        if caches.is_none() {
            *caches = plugin.model.core(plugin.number(core));
        }
    });
}

/// A virtual CPU sleeps. QEMU's big lock is held: this must not wait.
fn fell_asleep(vcpu: Vcpu) {
    let Some(plugin) = PLUGIN.get() else { return };
    let Some(core) = plugin.core(vcpu) else { return };
    let now_ps = plugin.account(vcpu, core);
    // Before others have their turn, who may take lines from this core.
    plugin.sample(core, now_ps);
    plugin.timing.sleep(core, now_ps);
    plugin.resume(vcpu, now_ps, true);
}

/// A virtual CPU is executing a mark. `ahead`: instructions from it on that are counted already.
fn mark_executed(vcpu: Vcpu, mark: u8, ahead: u64) {
    let Some(plugin) = PLUGIN.get() else { return };
    if mark >= marks::CORE {
        return announced(plugin, vcpu, plugin.first_core + usize::from(mark - marks::CORE));
    }
    let Some(core) = plugin.core(vcpu) else { return };
    match mark {
        marks::CLOCK => plugin.timing.publish(core, plugin.now_ps(vcpu)),
        marks::ROI_BEGIN | marks::ROI_END => regions::marked(plugin, vcpu, core, mark == marks::ROI_BEGIN, ahead),
        // Other plugins'.
        _ => {}
    }
}

/// The host's monotonic clock, which all its processes share.
fn host_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn announced(plugin: &'static Plugin, vcpu: Vcpu, core: usize) {
    if plugin.core(vcpu).is_none()
        && plugin.timing.announce(core)
        && let Some(entry) = plugin.cores.get(vcpu.0 as usize)
    {
        plugin.record.set_began(host_ns());
        plugin.clocks.cores[core].vcpu.store(vcpu.0 + 1, Relaxed);
        entry.store(core as u32 + 1, Release);
        plugin.resume(vcpu, motet_timing::PS_PER_NS, true);
    }
}

thread_local! {
    /// The core of the cache model that this thread's virtual CPU is.
    static CACHES: RefCell<Option<Core<'static>>> = const { RefCell::new(None) };
}

/// A virtual CPU enters a block. `block`: host address of its first line, plus its number of lines.
fn fetched(vcpu: Vcpu, block: usize) {
    let Some(plugin) = PLUGIN.get() else { return };
    let first = block / LINE * LINE;
    charge(plugin, vcpu, |core| {
        let map = plugin.host_map.get_or_init(|| HostMap::find(first, plugin.pieces[0], plugin.pieces[1]));
        let fetch = |line| core.access(Kind::Fetch, map.local(first + line * LINE), LINE as u32);
        (0..block % LINE).map(fetch).sum()
    });
}

/// A virtual CPU accesses memory.
fn accessed(vcpu: Vcpu, access: Access) {
    let Some(plugin) = PLUGIN.get() else { return };
    let kind = match (access.atomic, access.store) {
        (true, false) => return, // its store is reported, too
        (true, true) => Kind::Atomic,
        (false, true) => Kind::Store,
        (false, false) => Kind::Load,
    };
    charge(plugin, vcpu, |core| {
        if access.device { core.device_access() } else { core.access(kind, access.physical, access.size) }
    });
}

/// Adds what `use_memory` costs to a core's time, if the core is timed.
#[inline]
fn charge(plugin: &'static Plugin, vcpu: Vcpu, use_memory: impl FnOnce(&mut Core<'static>) -> Picoseconds) {
    CACHES.with_borrow_mut(|caches| {
        if let Some(core) = caches
            && !plugin.timing.is_stopped()
        {
            let cost_ps = use_memory(core).0;
            if cost_ps != 0 {
                plugin.times.update(vcpu, |time| {
                    time.since_ps += cost_ps;
                    time.stall_ps += cost_ps;
                });
            }
        }
    });
}
