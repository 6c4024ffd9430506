//! A machine that another process of this host runs, as it is at a moment: islands, cores, processes, memory and counts, read from its pool. Nothing is
//! stopped, no lock is taken and nothing is stored: this process maps the pool to read it.
//!
//! What kernels have written is an allegation, and changes while it is read: any values give a [`Sample`].

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use motet_error::{Error, ErrorKind, Result};
use motet_layout::{
    AtomicByte, CORE_AWAKE, CORE_CALLED, CORE_CLAIMED, CORE_HANDED, CORE_IDLE, CORE_OFFLINE, CORE_OUT, CORE_POLLING,
    CORE_WAKING, CORES_PER_ISLAND_MAX, CoreId, CoreRecord, DISTANCES, FINGERPRINT, ISLAND_ABSENT, ISLAND_BOOTING,
    ISLAND_DEAD, ISLAND_FAILED, ISLAND_GONE, ISLAND_JOINED, ISLAND_RECLAIMING, ISLAND_REJOINING, ISLANDS_MAX, Isa,
    IslandId, IslandMemory, IslandRecord, PAGE_SIZE, POOL_MAGIC, PROCESS_ZOMBIE, Peers, Pool, PoolAddr, PoolHeader,
    ProcessRecord, SpaceRecord, THREAD_ENDING, THREAD_PREPARING, THREAD_RUNNING, THREAD_STOPPED, ThreadRecord,
    sync::{AtomicU64, Ordering},
};
use motet_machine::MachineSpec;
use motet_protocol::{peer::MessageKind, run_queue::is_ready};

use crate::{
    HostPool, control,
    pool::map_to_read,
    state::threads,
    timed::{CoreCounts, read_counts},
};

/// A running machine.
pub struct Watched {
    process: u32,
    names: Vec<String>,
    kernels: Vec<Kernel>,
    is_timed: bool,
    since: Instant,
}

/// A kernel's pool, and the machine's number of its first island.
#[derive(Debug)]
struct Kernel {
    pool: Pool,
    first: usize,
}

/// The machine at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When it was read, on a clock of this process's own.
    pub host: Duration,
    /// Simulated time in nanoseconds, of timed machines.
    pub simulated_ns: Option<u64>,
    /// Bytes of memory for all: in the pools, and free in them.
    pub memory: [u64; 2],
    /// Processes made since the machine was started.
    pub forks: u64,
    /// The islands, in the machine's order.
    pub islands: Vec<IslandSample>,
    /// Its processes, by number (and kernel).
    pub processes: Vec<ProcessSample>,
    /// Messages between kernels that were sent, by kind; nothing if there is one kernel.
    pub messages: Vec<(&'static str, u64)>,
}

/// An island.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IslandSample {
    /// As in the machine's description.
    pub name: String,
    /// Its instruction set's name.
    pub isa: &'static str,
    /// What it does, in a word.
    pub state: &'static str,
    /// What it has counted, in the order of [`COUNTERS`].
    pub counts: [u64; COUNTERS.len()],
    /// Its frames by distance: near to it, near to no island, near to others; how many it has, and how many of them are free.
    pub frames: [[u32; 2]; DISTANCES],
    /// Its cores.
    pub cores: Vec<CoreSample>,
}

/// A core.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreSample {
    /// What it does, in a word.
    pub state: &'static str,
    /// It is at work, or looks for some.
    pub is_awake: bool,
    /// Nanoseconds that it has accounted for as busy and as idle.
    pub accounted_ns: [u64; 2],
    /// Threads that wait for it.
    pub ready: u32,
    /// Whose thread it runs: process, thread, name.
    pub runs: Option<(u32, u32, String)>,
    /// What the simulator has counted, on timed machines.
    pub counts: Option<CoreCounts>,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessSample {
    /// The number in the machine of its kernel's first island; 0 if there is one kernel.
    pub kernel: usize,
    /// Its number.
    pub pid: u32,
    /// The effective user's number.
    pub user: u32,
    /// As `ps` has it: R, S, T, Z.
    pub state: char,
    /// The instruction set of its program.
    pub isa: &'static str,
    /// The islands on whose cores its threads run or ran last, a bit each, by number in the machine.
    pub islands: u32,
    /// Its threads.
    pub threads: u32,
    /// Of them, those in a function of another instruction set that was called.
    pub called: u32,
    /// Nanoseconds that its threads have run.
    pub time_ns: u64,
    /// Bytes of memory that it has.
    pub resident: u64,
    /// Its program's name.
    pub name: String,
}

type Counter = fn(&IslandRecord) -> &AtomicU64;

/// What islands count, by name.
pub const COUNTERS: [(&str, Counter); 14] = [
    ("syscalls", |island| &island.counters.syscalls),
    ("page_faults", |island| &island.counters.page_faults),
    ("context_switches", |island| &island.counters.context_switches),
    ("doorbells_rung", |island| &island.counters.doorbells_rung),
    ("doorbells_taken", |island| &island.counters.doorbells_taken),
    ("arrivals", |island| &island.counters.arrivals),
    ("foreign_wakeups", |island| &island.counters.foreign_wakeups),
    ("remote_pte_edits", |island| &island.counters.remote_pte_edits),
    ("shootdowns", |island| &island.counters.shootdowns),
    ("shootdowns_foreign", |island| &island.counters.shootdowns_foreign),
    ("icache_syncs", |island| &island.counters.icache_syncs),
    ("pages_moved", |island| &island.pages_moved),
    ("pages_replicated", |island| &island.pages_replicated),
    ("regions_followed", |island| &island.regions_followed),
];

impl Watched {
    /// The machine that a process runs.
    ///
    /// # Errors
    /// It has gone, or refuses, or its kernels were made from another source.
    pub fn attach(process: u32) -> Result<Self> {
        let (text, memory) = control::ask_for_memory(process, "watch")?;
        let strange = |what: &str| {
            Error::new(ErrorKind::Software, format!("the machine of process {process} is strange: {what}"))
        };
        let memory = memory.ok_or_else(|| strange("it shows no memory"))?;
        let about = About::read(&text).ok_or_else(|| strange(&text))?;
        let kernels = about.kernels.iter().map(|&[start, len, first]| Kernel::map(&memory, start, len, first as usize));
        let kernels = kernels.collect::<Option<Vec<_>>>().ok_or_else(|| strange("its memory is no pool"))?;
        if kernels.iter().any(|kernel| kernel.pool.header().fingerprint.get() != FINGERPRINT) {
            let message = format!(
                "the machine of process {process} was made from another source than this program: start it again, or build again (./motet build)"
            );
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(Self { process, names: about.names, kernels, is_timed: about.is_timed, since: Instant::now() })
    }

    /// The process that runs it.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Whether a simulator keeps its time.
    pub fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// It as it is now. `None`: it has ended.
    pub fn sample(&self) -> Option<Sample> {
        let headers = self.kernels.iter().map(|kernel| kernel.pool.header());
        if headers.clone().all(|header| header.exit.load(Ordering::Acquire) != 0) {
            return None;
        }
        // Answers only while it goes on: its process may have been killed.
        let counts = if self.is_timed { read_counts(&control::ask(self.process, "counts").ok()?) } else { None };
        if counts.is_none() && !control::is_running(self.process) {
            return None;
        }
        let mut sample = sample_of(&self.kernels, &self.names);
        sample.host = self.since.elapsed();
        sample.simulated_ns = counts.as_ref().map(|counts| counts.time_ps / 1000);
        for (island, core, of_core) in counts.iter().flat_map(|counts| &counts.cores) {
            if let Some(core) = sample.islands.get_mut(*island).and_then(|island| island.cores.get_mut(*core)) {
                core.counts = Some(*of_core);
            }
        }
        Some(sample)
    }
}

impl Kernel {
    fn map(memory: &OwnedFd, start: u64, len: u64, first: usize) -> Option<Self> {
        let pool = map_to_read(memory, start, len)?;
        (pool.header().magic.get() == POOL_MAGIC && first < ISLANDS_MAX).then_some(Self { pool, first })
    }
}

/// What a machine says of itself to who watches it, as [`Watched::attach`] reads it.
pub(crate) fn about(pool: &HostPool, machine: &MachineSpec, is_timed: bool) -> String {
    let mut text = String::new();
    for kernel in pool.kernels() {
        let len = kernel.header().pool_len.get();
        let _ = writeln!(text, "kernel {} {len} {}", kernel.start(), kernel.islands().start);
    }
    for island in &machine.islands {
        let _ = writeln!(text, "island {}", island.name);
    }
    if is_timed { text + "timed\n" } else { text }
}

/// What a machine says of itself to who watches it.
#[derive(Default, PartialEq, Debug)]
struct About {
    /// By kernel: where its pool begins in the memory, its length, the number of its first island.
    kernels: Vec<[u64; 3]>,
    /// The islands' names.
    names: Vec<String>,
    is_timed: bool,
}

impl About {
    fn read(text: &str) -> Option<Self> {
        let mut about = Self::default();
        for line in text.lines() {
            match line.split_once(' ') {
                None if line == "timed" => about.is_timed = true,
                Some(("island", name)) if about.names.len() < ISLANDS_MAX => about.names.push(name.to_owned()),
                Some(("kernel", numbers)) if about.kernels.len() < ISLANDS_MAX => {
                    let numbers = numbers.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
                    about.kernels.push(numbers.try_into().ok()?);
                }
                _ => return None,
            }
        }
        (!about.kernels.is_empty()).then_some(about)
    }
}

fn sample_of(kernels: &[Kernel], names: &[String]) -> Sample {
    let mut sample = Sample::default();
    for kernel in kernels {
        let header = kernel.pool.header();
        let state = &header.memory;
        let free = u64::from(state.free_blocks.load(Ordering::Relaxed))
            .saturating_mul(u64::from(state.block_frames.get()))
            .saturating_add(
                state.islands.iter().map(|share| u64::from(share.free_frames.load(Ordering::Relaxed))).sum(),
            );
        let len = kernel.pool.len();
        sample.memory[0] += len;
        sample.memory[1] += free.saturating_mul(PAGE_SIZE).min(len);
        sample.forks = sample.forks.wrapping_add(header.forks.load(Ordering::Relaxed));
        let count = header.island_count.get().min(ISLANDS_MAX as u32);
        for island in (0..count).filter_map(IslandId::from_raw) {
            let name = names.get(kernel.first + island.index()).cloned();
            let name = name.unwrap_or_else(|| format!("island{}", kernel.first + island.index()));
            sample.islands.push(island_of(kernel.pool, header, island, name));
        }
        sample.processes.extend(processes_of(kernel));
        add_messages(&header.peers, &mut sample.messages);
    }
    sample
}

fn island_of(pool: Pool, header: &PoolHeader, id: IslandId, name: String) -> IslandSample {
    let record = &header.islands[id.index()];
    let cores = (record.core_count.get() as usize).min(CORES_PER_ISLAND_MAX);
    IslandSample {
        name,
        isa: isa_name(record.isa.get()),
        state: island_word(record.state.load(Ordering::Relaxed)),
        counts: COUNTERS.map(|(_, counter)| counter(record).load(Ordering::Relaxed)),
        frames: frames_of(&header.memory.islands[id.index()]),
        cores: (0..cores).map(|index| core_of(pool, &header.cores[CoreId::new(id, index).index()])).collect(),
    }
}

fn frames_of(share: &IslandMemory) -> [[u32; 2]; DISTANCES] {
    std::array::from_fn(|distance| [share.owned_by_distance[distance].get(), share.free_by_distance[distance].get()])
}

fn core_of(pool: Pool, record: &CoreRecord) -> CoreSample {
    let (state, is_awake) = core_word(record.state.load(Ordering::Relaxed));
    CoreSample {
        state,
        is_awake,
        accounted_ns: [record.busy_ns.get(), record.idle_ns.get()],
        ready: record.ready_count.load(Ordering::Relaxed),
        runs: running(pool, PoolAddr(record.current_thread.load(Ordering::Relaxed))),
        counts: None,
    }
}

fn running(pool: Pool, thread: PoolAddr) -> Option<(u32, u32, String)> {
    let thread = pool.get::<ThreadRecord>(thread)?;
    let process = process_of(pool, thread)?;
    Some((process.pid.get(), thread.tid.get(), text(&process.name)))
}

fn process_of(pool: Pool, thread: &ThreadRecord) -> Option<&'static ProcessRecord> {
    pool.get(PoolAddr(thread.process.load(Ordering::Relaxed)))
}

/// Of those that have a number.
fn processes_of(kernel: &Kernel) -> Vec<ProcessSample> {
    let pool = kernel.pool;
    let mut found: BTreeMap<u32, ProcessSample> = BTreeMap::new();
    for thread in threads(pool) {
        let Some(process) = process_of(pool, thread) else { continue };
        let pid = process.pid.get();
        let sample = found.entry(pid).or_insert_with(|| new_process(kernel, process));
        sample.threads = sample.threads.saturating_add(1);
        sample.called = sample.called.saturating_add(u32::from(thread.crossing.get() != 0));
        let ran_ns = thread.user_ns.get().saturating_add(thread.system_ns.get());
        sample.time_ns = sample.time_ns.saturating_add(ran_ns);
        sample.islands |= CoreId::from_raw(thread.core.load(Ordering::Relaxed))
            .map_or(0, |core| 1u32.wrapping_shl((kernel.first + core.island().index()) as u32));
        sample.state = busier(sample.state, thread_letter(thread.state.load(Ordering::Relaxed)));
    }
    found.into_values().collect()
}

fn new_process(kernel: &Kernel, process: &'static ProcessRecord) -> ProcessSample {
    let space = kernel.pool.get::<SpaceRecord>(PoolAddr(process.space.load(Ordering::Relaxed)));
    let is_zombie = process.state.load(Ordering::Relaxed) == PROCESS_ZOMBIE;
    ProcessSample {
        kernel: kernel.first,
        pid: process.pid.get(),
        user: process.credentials.users[1].get(),
        state: if is_zombie { 'Z' } else { 'S' },
        isa: isa_name(process.isa.load(Ordering::Relaxed)),
        time_ns: process.times_ns[0].get().saturating_add(process.times_ns[1].get()),
        resident: space.map_or(0, |space| u64::from(space.resident.load(Ordering::Relaxed)) * PAGE_SIZE),
        name: text(&process.name),
        ..ProcessSample::default()
    }
}

fn thread_letter(state: u32) -> char {
    match state {
        THREAD_RUNNING | THREAD_PREPARING | THREAD_ENDING => 'R',
        state if is_ready(state) => 'R',
        THREAD_STOPPED => 'T',
        _ => 'S',
    }
}

/// The letter of a process with two threads of these.
fn busier(one: char, other: char) -> char {
    match (one, other) {
        ('Z', _) => 'Z',
        ('R', _) | (_, 'R') => 'R',
        ('T', _) | (_, 'T') => 'T',
        _ => 'S',
    }
}

fn add_messages(peers: &Peers, messages: &mut Vec<(&'static str, u64)>) {
    if peers.count.get() == 0 {
        return;
    }
    messages.resize(MessageKind::ALL.len(), ("", 0));
    for (of_kind, &kind) in messages.iter_mut().zip(MessageKind::ALL) {
        let sent = peers.sent[kind as usize].load(Ordering::Relaxed);
        *of_kind = (kind.name(), of_kind.1.wrapping_add(sent));
    }
}

/// What is no character that can be shown is a dot: a name is a program's to choose, and it goes to a terminal.
fn text(name: &[AtomicByte; 16]) -> String {
    let bytes: Vec<u8> = name.iter().map(|byte| byte.load(Ordering::Relaxed)).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).chars().map(|c| if c.is_control() { '.' } else { c }).collect()
}

fn isa_name(raw: u32) -> &'static str {
    Isa::from_raw(raw).map_or("?", Isa::name)
}

fn island_word(state: u32) -> &'static str {
    match state {
        ISLAND_ABSENT => "absent",
        ISLAND_BOOTING => "boots",
        ISLAND_JOINED => "runs",
        ISLAND_FAILED => "failed",
        ISLAND_DEAD | ISLAND_RECLAIMING => "died",
        ISLAND_GONE => "gone",
        ISLAND_REJOINING => "rejoins",
        _ => "?",
    }
}

/// A word for its state, and whether it is at work.
fn core_word(state: u32) -> (&'static str, bool) {
    match state & 0xff {
        CORE_OFFLINE => ("off", false),
        CORE_AWAKE | CORE_WAKING => ("runs", true),
        CORE_CALLED | CORE_CLAIMED => ("called", true),
        CORE_HANDED => ("runs", true),
        CORE_POLLING => ("polls", false),
        CORE_IDLE => ("idle", false),
        CORE_OUT => ("out", false),
        _ => ("?", false),
    }
}

#[cfg(test)]
mod tests {
    use motet_protocol::Context as _;

    use super::*;
    use crate::Command;

    const ISLANDS: &str = "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 2\n\
        [[island]]\nname = \"b\"\nisa = \"riscv64\"\ncores = 1\n";

    fn machine() -> (MachineSpec, HostPool) {
        let machine = MachineSpec::parse(ISLANDS).unwrap();
        let pool = HostPool::create(&machine, &Command::default(), 2, false).unwrap();
        (machine, pool)
    }

    fn sample(pool: &HostPool) -> Sample {
        sample_of(&[Kernel { pool: pool.pool(), first: 0 }], &["a".into(), "b".into()])
    }

    /// A process whose only thread runs on a core.
    fn add_process(pool: &HostPool, tid: u32, core: CoreId) -> &'static ThreadRecord {
        let (pool, header) = (pool.pool(), pool.header());
        let at = |place: u64| PoolAddr((32 << 20) + u64::from(tid) * 16384 + place);
        let (thread, process) = (pool.at::<ThreadRecord>(at(0)), pool.at::<ProcessRecord>(at(8192)));
        process.pid.set(tid);
        process.isa.store(Isa::RiscV64 as u32, Ordering::Relaxed);
        process.credentials.users[1].set(1000);
        process.space.store(at(12288).0, Ordering::Relaxed);
        pool.at::<SpaceRecord>(at(12288)).resident.store(3, Ordering::Relaxed);
        process.name.iter().zip(b"c\x1bt").for_each(|(to, &from)| to.store(from, Ordering::Relaxed));
        thread.tid.set(tid);
        thread.process.store(at(8192).0, Ordering::Relaxed);
        thread.state.store(THREAD_RUNNING, Ordering::Relaxed);
        thread.core.store(core.0.into(), Ordering::Relaxed);
        thread.user_ns.set(5_000_000_000);
        pool.at::<AtomicU64>(PoolAddr(header.threads.get() + u64::from(tid) * 8)).store(at(0).0, Ordering::Relaxed);
        header.threads_high.fetch_max(tid + 1, Ordering::Relaxed);
        header.cores[core.index()].current_thread.store(at(0).0, Ordering::Relaxed);
        thread
    }

    #[test]
    fn islands_cores_and_processes_are_shown() {
        let (_, pool) = machine();
        let core = CoreId::new(IslandId(1), 0);
        let header = pool.header();
        header.islands[1].state.store(ISLAND_JOINED, Ordering::Relaxed);
        header.islands[1].counters.page_faults.store(7, Ordering::Relaxed);
        header.cores[core.index()].state.store(CORE_AWAKE, Ordering::Relaxed);
        let thread = add_process(&pool, 9, core);
        let seen = sample(&pool);
        assert_eq!(seen.islands.len(), 2);
        let [a, b] = &seen.islands[..] else { panic!("two islands") };
        assert_eq!((&*a.name, a.isa, a.state, a.cores.len()), ("a", "x86_64", "boots", 2));
        assert_eq!((&*b.name, b.isa, b.state, b.counts[1]), ("b", "riscv64", "runs", 7));
        assert_eq!(b.cores[0].runs, Some((9, 9, "c.t".into())), "what is no character is not shown");
        assert!(b.cores[0].is_awake && !a.cores[0].is_awake);
        let [process] = &seen.processes[..] else { panic!("one process: {:?}", seen.processes) };
        assert_eq!((process.pid, process.user, process.state, process.isa), (9, 1000, 'R', "riscv64"));
        assert_eq!((process.islands, process.threads, process.called), (0b10, 1, 0));
        assert_eq!((process.time_ns, process.resident), (5_000_000_000, 3 * PAGE_SIZE));
        assert!(seen.memory[0] == 64 << 20 && seen.memory[1] > 32 << 20 && seen.memory[1] < 64 << 20);
        assert!(seen.messages.is_empty());
        thread.crossing.set(64);
        assert_eq!(sample(&pool).processes[0].called, 1);
    }

    #[test]
    fn any_words_give_a_sample() {
        let (_, pool) = machine();
        add_process(&pool, 9, CoreId(0));
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let words = size_of::<PoolHeader>() as u64 / 8 + 40_000;
        for round in 0..60 {
            for index in 0..words {
                // Some are what they were, some are addresses, some are anything.
                let word = match (random() % 8, round) {
                    (0, _) => random(),
                    (1, _) => random() % (64 << 20) & !63,
                    (2, _) => u64::MAX,
                    (_, 0..30) => continue,
                    _ => 0,
                };
                pool.pool().write(PoolAddr(index * 8), &word.to_le_bytes());
            }
            let seen = sample(&pool);
            assert!(seen.islands.len() <= ISLANDS_MAX && seen.processes.len() <= 32768, "round {round}");
            // `motet state` reads the same.
            assert!(!crate::state::describe(pool.pool()).is_empty(), "round {round}");
        }
    }

    #[test]
    fn what_a_machine_tells_of_itself_is_read_and_anything_else_is_refused() {
        let (machine, pool) = machine();
        let told = About::read(&about(&pool, &machine, true)).unwrap();
        assert_eq!(told.kernels, [[0, 64 << 20, 0]]);
        assert_eq!((told.names, told.is_timed), (vec!["a".to_owned(), "b".to_owned()], true));
        for wrong in
            ["", "timed\n", "kernel 1 2\n", "kernel 1 2 x\n", "kernel 1 2 3 4\n", "what\n", "kernel 0 0 0\nx y\n"]
        {
            assert_eq!(About::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_a_pool_is_mapped_and_only_to_be_read() {
        let (_, pool) = machine();
        let memory = || pool.memory().try_clone_to_owned().unwrap();
        let kernel = Kernel::map(&memory(), 0, 64 << 20, 0).unwrap();
        assert_eq!(kernel.pool.header().fingerprint.get(), FINGERPRINT);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let modes = maps.lines().filter(|line| line.contains("motet-pool")).map(|line| line.split(' ').nth(1));
        assert!(modes.clone().any(|mode| mode == Some("r--s")), "{:?}", modes.collect::<Vec<_>>());
        for (start, len) in [(0, 67 << 20), (4096, 66 << 20), (1, 4096), (0, 4096), (u64::MAX, 64 << 20), (0, u64::MAX)]
        {
            assert!(Kernel::map(&memory(), start, len, 0).is_none(), "{start} {len}");
        }
        assert!(Kernel::map(&memory(), 4096, 32 << 20, 0).is_none(), "no header");
        assert!(Kernel::map(&memory(), 0, 64 << 20, ISLANDS_MAX).is_none());
    }
}
