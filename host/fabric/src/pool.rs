//! The pool on the host: a sparse memfd that every QEMU maps, and the header that kernels find in it.
//!
//! Invariants:
//! - The mapping lives as long as the process: references to pool structures are `'static`, and no file is left behind.
//! - Everything the host writes here is written before the first QEMU starts, except atomic protocol words.
//! - Firmware never writes to the pool. What QEMU puts near the end of RAM must not lie in it, see [`local_ranges`].

use std::{
    ops::Range,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::Ordering,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use motet_coherence::RangeConfig;
use motet_layout::{
    CONSOLE_TERMINAL, CORES_PER_ISLAND_MAX, CoreId, CoreRecord, FINGERPRINT, HostStream, ISLAND_BOOTING, Isa,
    IslandRecord, NEAR_HOST, PAGE_SIZE, POOL_MAGIC, POOL_VERSION, Peers, Pool, PoolAddr, PoolHeader,
};
use rustix::{fs::MemfdFlags, mm};

use motet_protocol::{Context, format::format, memory::set_near, peer::bell_of, trace::Scope};

use crate::{fpga, service, trace};
use motet_error::{Context as _, Error, ErrorKind, Result};
use motet_machine::{
    IslandSpec, LocalRange, MachineSpec, MultikernelSpec, Policy, Queue, TREE_SIZE, TextPlace, local_ranges,
};
use motet_timing::Records;

/// Bytes each console stream can hold.
pub const STREAM_SIZE: u64 = 256 << 10;
/// Longest command with its environment, in bytes.
const COMMAND_LEN_MAX: usize = 1 << 20;
/// What a machine is to run, as it stands in the pool header.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// Argument strings; the first is the program's path.
    pub args: Vec<String>,
    /// Environment strings, `NAME=value`.
    pub env: Vec<String>,
    /// Whether standard input and output are a terminal.
    pub terminal: bool,
    /// Rows and columns of that terminal.
    pub terminal_size: (u16, u16),
    /// What the cores write down.
    pub trace: Scope,
}

/// The pool of one machine, or of the first of its kernels.
#[derive(Debug)]
pub struct HostPool {
    pool: Pool,
    /// Where it begins in the machine's memory.
    start: u64,
    /// The machine's islands that its kernel has.
    islands: Range<usize>,
    memory: OwnedFd,
    started: Instant,
    map_lens: Vec<u64>,
    /// By island: its number for its kernel, and where it sees that one's pool.
    places: Vec<(usize, u64)>,
    texts: Vec<TextPlace>,
    /// Those of the other kernels, if each island has one of its own.
    others: Vec<HostPool>,
}

impl HostPool {
    /// Creates the pools of `machine`'s kernels and fills in their headers. Island i's peer id is i.
    ///
    /// # Errors
    /// The host refuses memory, or the command is too long.
    pub fn create(machine: &MachineSpec, command: &Command, host_peer: u32, verbose: bool) -> Result<Self> {
        let len = machine.pool.size;
        let view = View::of(machine, 0);
        let mut mapped = len;
        let map_lens = machine
            .islands
            .iter()
            .map(|island| match island.isa {
                Isa::RiscV64 => {
                    mapped += TREE_SIZE;
                    mapped
                }
                Isa::X86_64 | Isa::AArch64 | Isa::Hosted => len,
            })
            .collect();
        let memory = rustix::fs::memfd_create("motet-pool", MemfdFlags::CLOEXEC).host("a memory file")?;
        rustix::fs::ftruncate(&memory, mapped).host("memory for the pool")?;
        let (started, realtime) = (Instant::now(), SystemTime::now());
        let texts = machine.text_places(&machine.model_config()?);
        let pool = map(&memory, view.start, view.own_len)?;
        let places = (0..machine.islands.len()).map(|index| place(machine, index)).collect();
        let (start, islands) = (view.start, view.numbers());
        let mut this = Self { pool, start, islands, memory, started, map_lens, places, texts, others: Vec::new() };
        let fill = |pool: &Self, view: &View<'_>, command: &Command| {
            pool.write_header(view, host_peer, realtime, verbose)?;
            pool.lay_out(view, command)
        };
        fill(&this, &view, command)?;
        for kernel in 1..machine.multikernel.map_or(1, |spec| spec.kernels) {
            let view = View::of(machine, kernel);
            let other = this.beside(&view)?;
            let nothing = Command { args: Vec::new(), env: Vec::new(), terminal: false, ..command.clone() };
            fill(&other, &view, &nothing)?;
            this.others.push(other);
        }
        Ok(this)
    }

    /// The pool of another kernel of the machine, which runs no command: not filled in.
    fn beside(&self, view: &View<'_>) -> Result<Self> {
        let memory = self.memory.try_clone().host("a descriptor")?;
        let pool = map(&memory, view.start, view.own_len)?;
        let (start, islands, started) = (view.start, view.numbers(), self.started);
        let (map_lens, places, texts, others) = Default::default();
        Ok(Self { pool, start, islands, memory, started, map_lens, places, texts, others })
    }

    /// The pools of all kernels: one, if all islands have the same.
    pub fn kernels(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// The machine's islands that this kernel has.
    pub fn islands(&self) -> Range<usize> {
        self.islands.clone()
    }

    /// Where this kernel's pool begins in the machine's memory.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// To which of this kernel's islands something is near, or the like, that is so to these of the machine's, a bit each.
    pub(crate) fn own_islands(&self, islands: u32) -> u32 {
        own(&self.islands, islands)
    }

    /// The records of the machine's cores and islands, wherever its kernels have them.
    pub(crate) fn records(&self) -> Records {
        match self.others[..] {
            [] => self.header().into(),
            _ => Records::by_island(self.kernels().map(Self::header).collect()),
        }
    }

    /// The number in the machine of this kernel's first core: its cores follow in the order that it has them in.
    pub(crate) fn first_core(&self) -> usize {
        self.islands.start * CORES_PER_ISLAND_MAX
    }

    /// The records of all cores, in their kernels' pools, with the cores' numbers in the machine.
    pub(crate) fn core_records(&self) -> impl Iterator<Item = (usize, &'static CoreRecord)> {
        self.kernels().flat_map(|kernel| {
            let records = &kernel.header().cores[..kernel.islands.len() * CORES_PER_ISLAND_MAX];
            (kernel.first_core()..).zip(records)
        })
    }

    /// The record of island `index`, in its kernel's pool.
    pub fn island(&self, index: usize) -> &'static IslandRecord {
        match self.others.get(index.wrapping_sub(1)) {
            Some(other) => &other.header().islands[0],
            None => &self.header().islands[index],
        }
    }

    /// The number that island `index` has for its kernel, and where it sees that one's pool (a local physical address): as the machine's description says,
    /// whatever a kernel has written meanwhile.
    pub fn place(&self, index: usize) -> (usize, u64) {
        self.places[index]
    }

    /// The pool's header.
    pub fn header(&self) -> &'static PoolHeader {
        self.pool.header()
    }

    /// The memory file that holds the pool, for QEMU.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Bytes of the memory file that island `index` maps: the pool, and for a RISC-V island the place for its device
    /// tree, which no other island uses.
    pub fn map_len(&self, index: usize) -> u64 {
        self.map_lens[index]
    }

    /// A function that brings the machine's clock in its kernels' headers up to date.
    pub fn ticker(&self) -> impl Fn() + Send + 'static {
        let headers: Vec<_> = self.kernels().map(Self::header).collect();
        let started = self.started;
        move || {
            let now_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
            headers.iter().for_each(|header| header.host_clock_ns.store(now_ns, Ordering::Release));
        }
    }

    fn write_header(&self, view: &View<'_>, host_peer: u32, realtime: SystemTime, verbose: bool) -> Result<()> {
        let (header, machine) = (self.header(), view.machine);
        header.version.set(POOL_VERSION);
        header.island_count.set(view.islands.len() as u32);
        header.fingerprint.set(FINGERPRINT);
        header.pool_len.set(view.own_len);
        header.host_peer.set(host_peer);
        header.crossing.set(machine.crossing.code());
        header.calls_by.set(machine.calls.code());
        header.adapts.set((machine.policy == Policy::Adaptive).into());
        header.verbose.set(u32::from(verbose));
        let realtime = realtime.duration_since(UNIX_EPOCH).unwrap_or_default();
        header.realtime_at_zero_ns.set(u64::try_from(realtime.as_nanos()).unwrap_or(0));
        let mut seed = [0u8; 32];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).host("random numbers")?;
        for (word, bytes) in header.seed.iter().zip(seed.chunks_exact(8)) {
            word.set(u64::from_le_bytes(bytes.try_into().expect("chunks of 8")));
        }
        for (record, island) in header.islands.iter().zip(view.islands) {
            record.isa.set(island.isa as u32);
            record.paging.set(island.isa as u32);
            record.core_count.set(island.cores as u32);
            for (place, slot) in (0..).zip(&record.doorbell_peers) {
                slot.set(view.bell(place));
            }
            record.private_len.set(island.private);
            record.poll_ns.set(u64::from(island.poll_us) * 1000);
            let ranges = view.ranges(island);
            for (slot, (offset, phys, len)) in record.ranges.iter().zip(ranges) {
                slot.pool_offset.set(offset);
                slot.local_phys.set(phys);
                slot.len.set(len);
            }
            record.state.store(ISLAND_BOOTING, Ordering::Relaxed);
        }
        for (island, cores) in view.islands.iter().zip(header.cores.chunks(CORES_PER_ISLAND_MAX)) {
            cores.iter().for_each(|core| core.first_come.set((island.queue == Queue::Fifo).into()));
            for (core, extensions) in cores.iter().zip(&island.extensions) {
                core.withheld.set(extensions.withheld.bits());
                core.claimed.set(extensions.claimed.bits());
            }
        }
        if let Some(spec) = &machine.multikernel {
            write_peers(&header.peers, spec, view.kernel);
        }
        header.magic.set(POOL_MAGIC);
        Ok(())
    }

    /// Lays out the memory allocator's tables, and the streams and the command behind them.
    fn lay_out(&self, view: &View<'_>, command: &Command) -> Result<()> {
        let (header, machine) = (self.header(), view.machine);
        let mut bytes = Vec::new();
        for text in command.args.iter().chain(&command.env) {
            if text.contains('\0') {
                return Err(Error::new(ErrorKind::Usage, "the command contains a NUL character"));
            }
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
        if bytes.len() > COMMAND_LEN_MAX {
            return Err(Error::new(ErrorKind::Usage, "the command is longer than 1 MiB"));
        }
        let block_frames = (machine.pool.block / PAGE_SIZE) as u32;
        let trace_len = if command.trace == Scope::Nothing { 0 } else { trace::room(view.islands) };
        let service_len = if machine.service.is_some() { service::LEN } else { 0 };
        let fpga_len = machine.fpga.as_ref().map_or(0, fpga::len);
        let extra = service_len + fpga_len + 3 * STREAM_SIZE + trace_len + bytes.len() as u64;
        let mut at = format(self.pool, block_frames, extra)
            .map_err(|error| Error::new(ErrorKind::Config, format!("the pool cannot be laid out: {error:?}")))?;
        self.set_near_blocks(view, &machine.model_config()?.ranges);
        if let Some(spec) = &machine.service {
            service::lay_out(self.pool, spec, &machine.hardware, machine.islands.len(), at);
            at = at.add(service_len);
        }
        if let Some(spec) = &machine.fpga {
            fpga::lay_out(self.pool, spec, at);
            at = at.add(fpga_len);
        }
        for stream in [&header.console_in, &header.console_out, &header.console_err] {
            set_up_stream(stream, at);
            at = at.add(STREAM_SIZE);
        }
        if command.trace != Scope::Nothing {
            trace::lay_out(self, view.islands, at, command.trace);
            at = at.add(trace_len);
        }
        self.pool.write(at, &bytes);
        header.command.set(at.0);
        header.command_args.set(command.args.len() as u32);
        header.command_env.set(command.env.len() as u32);
        header.interactive.set(if command.terminal { CONSOLE_TERMINAL } else { 0 });
        let (rows, columns) = command.terminal_size;
        header.terminal_size.store(u32::from(rows) << 16 | u32::from(columns), Ordering::Relaxed);
        Ok(())
    }

    /// Tells the block allocator which islands each block is near to: those that all ranges it lies in are near to. What
    /// the host makes (tables, the root file system but for programs) goes into the first range.
    fn set_near_blocks(&self, view: &View<'_>, ranges: &[RangeConfig]) {
        let state = &self.header().memory;
        let block_len = u64::from(state.block_frames.get()) * PAGE_SIZE;
        for index in 0..state.block_count.get() {
            let start = view.start + u64::from(index) * block_len;
            let within = ranges.iter().filter(|range| range.start < start + block_len && start < range.end);
            let near = within.fold(u32::MAX, |near, range| near & range.near);
            let host = if ranges.first().is_some_and(|first| start < first.end) { NEAR_HOST } else { 0 };
            set_near(self.pool, index, view.near(near) | host);
        }
    }
}

impl Context for HostPool {
    fn core(&self) -> CoreId {
        CoreId::HOST
    }

    fn pool(&self) -> Pool {
        self.pool
    }

    fn relax(&self) {
        std::thread::yield_now();
    }

    /// The host rings through [`Doorbells`](crate::Doorbells), and wakes no threads.
    fn ring(&self, _target: CoreId) {}
}

/// The pool, for putting things into it that one island uses: they take memory that this island would take.
#[derive(Debug)]
pub(crate) struct Near<'a> {
    pool: &'a HostPool,
    memory_index: usize,
    blocks: Option<Range<u32>>,
}

impl HostPool {
    /// Where the programs of an ISA belong: with the first island that runs them; with the host's things if none does.
    pub(crate) fn near(&self, isa: Option<Isa>) -> Near<'_> {
        let island = isa.and_then(|isa| self.header().islands.iter().position(|island| island.isa.get() == isa as u32));
        Near { pool: self, memory_index: island.unwrap_or(self.memory_index()), blocks: None }
    }

    /// Where the machine file says that the text of an ISA lies.
    pub(crate) fn near_text(&self, isa: Isa) -> Option<Near<'_>> {
        let place = self.texts.iter().find(|place| place.isa == isa)?;
        let memory_index = place.island.unwrap_or(self.memory_index());
        Some(Near { pool: self, memory_index, blocks: Some(place.blocks.clone()) })
    }
}

impl Context for Near<'_> {
    fn core(&self) -> CoreId {
        self.pool.core()
    }

    fn pool(&self) -> Pool {
        self.pool.pool()
    }

    fn relax(&self) {
        self.pool.relax();
    }

    fn ring(&self, target: CoreId) {
        self.pool.ring(target);
    }

    fn memory_index(&self) -> usize {
        self.memory_index
    }

    fn blocks(&self) -> Option<Range<u32>> {
        self.blocks.clone()
    }
}

fn set_up_stream(stream: &HostStream, at: PoolAddr) {
    stream.data.set(at.0);
    stream.capacity.set(STREAM_SIZE);
}

/// What a kernel is told of the machine: all of it, or its own part.
struct View<'a> {
    machine: &'a MachineSpec,
    /// The number of the kernel; 0: of all islands, or of the first.
    kernel: usize,
    /// Its islands.
    islands: &'a [IslandSpec],
    /// Where its pool begins in the machine's memory.
    start: u64,
    /// Bytes of its pool.
    own_len: u64,
}

impl<'a> View<'a> {
    fn of(machine: &'a MachineSpec, kernel: usize) -> Self {
        match &machine.multikernel {
            None => {
                let len = machine.pool.size;
                Self { machine, kernel, islands: &machine.islands, start: 0, own_len: len }
            }
            Some(spec) => Self {
                machine,
                kernel,
                islands: std::slice::from_ref(&machine.islands[kernel]),
                start: spec.start(kernel),
                own_len: spec.kernel_len,
            },
        }
    }

    /// Where an island of it sees the pool, and the windows behind it.
    fn ranges(&self, island: &IslandSpec) -> Vec<LocalRange> {
        match &self.machine.multikernel {
            None => local_ranges(island.isa, island.private, self.own_len),
            Some(spec) => spec.ranges(self.machine, self.kernel),
        }
    }

    /// The doorbell in a place of its records: of an island, or of another kernel ([`bell_of`]).
    fn bell(&self, place: u32) -> u32 {
        let kernels = self.machine.multikernel.map_or(0, |spec| spec.kernels as u32);
        let own = self.kernel as u32;
        (0..kernels).find(|&node| bell_of(own, node).island().0 == place as u8).unwrap_or(place)
    }

    /// Their numbers in the machine.
    fn numbers(&self) -> Range<usize> {
        self.kernel..self.kernel + self.islands.len()
    }

    /// To which of its islands a block is near that is near to these of the machine's, a bit each.
    fn near(&self, islands: u32) -> u32 {
        if islands == u32::MAX { islands } else { own(&self.numbers(), islands) }
    }
}

/// Of a bit for each island of the machine, those of these islands.
fn own(numbers: &Range<usize>, islands: u32) -> u32 {
    islands >> numbers.start & u32::MAX >> (u32::BITS - numbers.len() as u32)
}

/// The number that an island has for its kernel, and where it sees that one's pool.
fn place(machine: &MachineSpec, index: usize) -> (usize, u64) {
    let (kernel, number) = if machine.multikernel.is_some() { (index, 0) } else { (0, index) };
    (number, View::of(machine, kernel).ranges(&machine.islands[index])[0].1)
}

fn write_peers(peers: &Peers, spec: &MultikernelSpec, kernel: usize) {
    peers.node.set(kernel as u32);
    peers.count.set(spec.kernels as u32);
    peers.slots.set(spec.slots);
    peers.slot_len.set(spec.slot_len);
    peers.coalesces.set(spec.coalesces.into());
    peers.prefetch.set(spec.prefetch);
    peers.by_reference.set(spec.by_reference.into());
    peers.windows_len.set(spec.windows_len());
    for (other, window) in peers.windows.iter().enumerate() {
        window.set(spec.window(kernel, other).unwrap_or(0));
    }
}

/// Maps a part of the machine's memory for the rest of the process's life.
fn map(memory: &OwnedFd, start: u64, len: u64) -> Result<Pool> {
    map_as(mm::ProtFlags::READ | mm::ProtFlags::WRITE, memory, start, len)
}

/// The same of a machine that another process runs, to be read only: whoever stores to it all the same is ended by the host (SIGSEGV). `None`: what is to be mapped is
/// no pool in that memory.
pub(crate) fn map_to_read(memory: &OwnedFd, start: u64, len: u64) -> Option<Pool> {
    let size = u64::try_from(rustix::fs::fstat(memory).ok()?.st_size).ok()?;
    let is_inside = start.checked_add(len).is_some_and(|end| end <= size) && start % PAGE_SIZE == 0;
    (is_inside && len >= size_of::<PoolHeader>() as u64)
        .then(|| map_as(mm::ProtFlags::READ, memory, start, len).ok())?
}

fn map_as(protection: mm::ProtFlags, memory: &OwnedFd, start: u64, len: u64) -> Result<Pool> {
    let bytes = usize::try_from(len).host("a pool of this size")?;
    // SAFETY: a fresh shared mapping at an address the system chooses; nothing else refers to it.
    let base = unsafe { mm::mmap(std::ptr::null_mut(), bytes, protection, mm::MapFlags::SHARED, memory, start) }
        .host("address space for the pool")?;
    // SAFETY: `base` is page-aligned, and `len` bytes from it are mapped and never unmapped: readable, and writable but for who only reads, whose stores
    // end the process and so reach nothing.
    Ok(unsafe { Pool::new(base.cast(), len) })
}

#[cfg(test)]
mod tests {
    use motet_abi::extension::ExtensionSet;
    use motet_layout::Cell32;

    use super::*;

    fn machine() -> MachineSpec {
        let text = "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 2\n\
            [[island]]\nname = \"b\"\nisa = \"riscv64\"\ncores = 1\nextensions = [\"-v\"]\n\
            [[island]]\nname = \"c\"\nisa = \"aarch64\"\ncores = 1\n[[island]]\nname = \"d\"\nisa = \"riscv64\"\ncores = 1\n";
        MachineSpec::parse(text).unwrap()
    }

    #[test]
    fn kernels_without_shared_memory_have_a_pool_each() {
        let text = "os = \"multikernel\"\n[messages]\nslots = 2\nslot = \"8KiB\"\n[pool]\nsize = \"128MiB\"\n[[island]]\nname = \"a\"\n\
            isa = \"x86_64\"\ncores = 2\n[[island]]\nname = \"b\"\nisa = \"riscv64\"\ncores = 1\n[[island]]\nname = \"c\"\nisa = \"aarch64\"\n\
            cores = 1\n";
        let machine = MachineSpec::parse(text).unwrap();
        let spec = machine.multikernel.unwrap();
        let command = Command { args: vec!["/bin/sh".into()], ..Command::default() };
        let pool = HostPool::create(&machine, &command, 3, false).unwrap();
        let clock = pool.ticker();
        clock();
        for (kernel, own) in pool.kernels().enumerate() {
            let (header, record) = (own.header(), pool.island(kernel));
            assert!(std::ptr::eq(record, &header.islands[0]));
            assert_eq!((header.magic.get(), header.island_count.get()), (POOL_MAGIC, 1));
            assert_eq!(
                (record.isa.get(), record.core_count.get()),
                (machine.islands[kernel].isa as u32, [2, 1, 1][kernel])
            );
            // Objects of a kernel lie in its own part; windows are behind it.
            assert_eq!((header.pool_len.get(), own.pool.len()), (spec.kernel_len, spec.kernel_len));
            let frames = u64::from(header.memory.block_count.get()) * u64::from(header.memory.block_frames.get());
            assert!(frames * PAGE_SIZE <= spec.kernel_len);
            let mapped: u64 = record.ranges.iter().map(|range| range.len.get()).sum();
            assert_eq!(mapped, spec.kernel_len + header.peers.windows_len.get());
            assert_eq!(pool.place(kernel), (0, record.ranges[0].local_phys.get()));
            let bells: Vec<u32> = record.doorbell_peers[..3].iter().map(Cell32::get).collect();
            assert_eq!(bells, [[0, 1, 2], [1, 0, 2], [2, 0, 1]][kernel]);
            assert_eq!(header.command_args.get(), u32::from(kernel == 0));
            assert_eq!((header.peers.node.get(), header.peers.count.get()), (kernel as u32, 3));
            assert_ne!(header.host_clock_ns.load(Ordering::Relaxed), 0);
            assert_eq!(header.realtime_at_zero_ns.get(), pool.header().realtime_at_zero_ns.get());
        }
        // What both have at the end of memory would be the same bytes.
        let [first, second] = [0, 1].map(|kernel| pool.kernels().nth(kernel).unwrap().pool);
        first.write(PoolAddr(spec.kernel_len - 8), &[7; 8]);
        let mut bytes = [0; 8];
        second.read(PoolAddr(spec.kernel_len - 8), &mut bytes);
        assert_eq!(bytes, [0; 8]);
    }

    #[test]
    fn header_describes_the_machine() {
        let command =
            Command { args: vec!["/bin/sh".into(), "-c".into()], env: vec!["A=b".into()], ..Command::default() };
        let pool = HostPool::create(&machine(), &command, 4, false).unwrap();
        let header = pool.header();
        assert_eq!((header.magic.get(), header.fingerprint.get()), (POOL_MAGIC, FINGERPRINT));
        assert_eq!((header.island_count.get(), header.host_peer.get()), (4, 4));
        assert_eq!(header.islands[1].isa.get(), Isa::RiscV64 as u32);
        assert_eq!(header.islands[4].isa.get(), 0);
        assert_eq!(header.islands[1].ranges[1].len.get(), 0);
        let v = ExtensionSet::all(Isa::RiscV64).difference(ExtensionSet::all(Isa::RiscV64).edited(["-v"]).unwrap());
        assert_eq!(header.cores[CORES_PER_ISLAND_MAX].withheld.get(), v.bits());
        assert_eq!((v.is_empty(), header.cores[0].withheld.get()), (false, 0));
        let mut text = [0; 15];
        pool.pool().read(PoolAddr(header.command.get()), &mut text);
        assert_eq!(&text, b"/bin/sh\0-c\0A=b\0");
        assert!(header.seed.iter().any(|word| word.get() != 0));
    }

    #[test]
    fn blocks_know_which_islands_they_are_near_to() {
        let near = |model: &str| {
            let text = format!(
                "[pool]\nsize = \"64MiB\"\nblock = \"4MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n\
                 [[island]]\nname = \"b\"\nisa = \"x86_64\"\ncores = 1\n{model}"
            );
            let pool = HostPool::create(&MachineSpec::parse(&text).unwrap(), &Command::default(), 2, false).unwrap();
            (0..16).map(|index| motet_protocol::memory::block(pool.pool(), index).near.get()).collect::<Vec<u32>>()
        };
        assert_eq!(near(""), [0b11 | NEAR_HOST; 16]);
        let far = "[[model.range]]\nname = \"far\"\n";
        assert_eq!(near(far), [NEAR_HOST; 16]);
        let [first, second] =
            ["a", "b"].map(|name| format!("[[model.range]]\nname = \"{name}\"\nnear = [\"{name}\"]\n"));
        // The third block lies in both ranges.
        let parts = near(&format!("{first}end = \"10MiB\"\n{second}"));
        assert_eq!(parts[..4], [0b01 | NEAR_HOST, 0b01 | NEAR_HOST, NEAR_HOST, 0b10]);
        assert_eq!(parts[4..], [0b10; 12]);
    }

    #[test]
    fn each_riscv_island_has_its_own_place_for_the_device_tree() {
        let pool = HostPool::create(&machine(), &Command::default(), 4, false).unwrap();
        let lens: Vec<u64> = (0..4).map(|island| pool.map_len(island)).collect();
        assert_eq!(lens, [64 << 20, 66 << 20, 64 << 20, 68 << 20]);
    }
}
