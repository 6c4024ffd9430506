//! Machine descriptions: one TOML file says what islands a machine has.
//!
//! A file that is accepted can be booted: everything QEMU, the pool layout or a kernel would refuse later is refused
//! here, with the key's name and its place in the file.

mod extensions;
mod fpga;
mod hardware;
mod service;
mod text;

use std::{fs::File, io::Read, mem::offset_of, ops::Range, path::Path};

use motet_coherence::{Bytes, Config, Key, ModelTable, Piece, Shape, Step, Target, TrapCycles};
use motet_layout::{CORES_PER_ISLAND_MAX, CoreRecord, DmaEngine, ISLANDS_MAX, Isa, IslandRecord, PoolHeader};
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

pub use extensions::CoreExtensions;
use extensions::{CoreTable, by_core};
pub use fpga::{AcceleratorSpec, FpgaSpec, ManagerSpec};
pub use hardware::HardwareSpec;
pub use service::ServiceSpec;
pub use text::TextPlace;

use crate::pool::local_ranges;
use motet_error::{Context, Error, ErrorKind, Result};

/// Smallest pool: kernels' shared objects, the root file system and a few programs.
pub const POOL_SIZE_MIN: u64 = motet_protocol::memory::POOL_LEN_MIN;
/// Largest pool: every island can address this much physical memory, and a frame number has 32 bits.
pub const POOL_SIZE_MAX: u64 = 256 << 30;
/// Default size of a block, the unit in which islands take memory from the pool.
pub const BLOCK_SIZE_DEFAULT: u64 = motet_protocol::memory::BLOCK_FRAMES_DEFAULT as u64 * motet_layout::PAGE_SIZE;

/// A machine: what `machines/*.toml` describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The shared memory.
    pub pool: PoolSpec,
    /// The islands, in the order of their ids.
    pub islands: Vec<IslandSpec>,
    /// How calls cross instruction sets.
    pub crossing: Crossing,
    /// How calls go over links.
    pub calls: Calls,
    /// `[[service]]`: the service core, if there is one.
    pub service: Option<ServiceSpec>,
    /// `[[hardware_thread]]`: devices that compute as threads.
    pub hardware: Vec<HardwareSpec>,
    /// `[fpga]`: the FPGA, if there is one.
    pub fpga: Option<FpgaSpec>,
    /// `[model]`: caches and latencies of timed runs.
    pub model: ModelTable,
    /// The description as it was written.
    pub text: String,
}

/// How calls cross instruction sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crossing {
    /// As docs/protocols/crossing.md says.
    Direct,
    /// As Flick does, for comparison (docs/protocols/migration.md).
    Flick,
}

impl Crossing {
    /// Its code in the pool's header.
    pub const fn code(self) -> u32 {
        match self {
            Self::Direct => motet_layout::CROSSING_DIRECT,
            Self::Flick => motet_layout::CROSSING_FLICK,
        }
    }
}

/// How calls go to islands whose memory the caller does not cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Calls {
    /// Each message by stores or by an engine, whichever is faster.
    #[default]
    Fastest,
    /// By stores.
    Stores,
    /// By engines.
    Dma,
}

impl Calls {
    /// Its code in the pool's header.
    pub const fn code(self) -> u32 {
        match self {
            Self::Fastest => motet_layout::CALLS_BY_FASTEST,
            Self::Stores => motet_layout::CALLS_BY_STORES,
            Self::Dma => motet_layout::CALLS_BY_DMA,
        }
    }
}

/// The shared memory of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Bytes in the pool, a multiple of `block`.
    pub size: u64,
    /// Bytes in a block, a power of two.
    pub block: u64,
}

/// One island of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IslandSpec {
    /// Its name in messages; unique in the machine.
    pub name: String,
    /// Its instruction set.
    pub isa: Isa,
    /// Cores that run threads.
    pub cores: usize,
    /// QEMU's `-cpu`, when not the default of the ISA.
    pub cpu: Option<String>,
    /// Bytes of private memory. Host memory is used only for what the kernel touches.
    pub private: u64,
    /// By core: what the file says of its extensions.
    pub extensions: Vec<CoreExtensions>,
    /// How long an idle core looks for work before it waits for an interrupt, in microseconds.
    pub poll_us: u32,
    /// The range of the pool in which the text of its ISA's programs lies, as far as the host places it.
    pub text: Option<String>,
    /// What runs below its kernel, on a RISC-V island.
    pub firmware: Firmware,
    /// Harts with vector registers that only its firmware has.
    pub hidden_harts: usize,
    /// In which order its cores' ready threads run.
    pub queue: Queue,
    /// Its cores can run guests, if that takes more than cores of its ISA have anyway.
    pub guests: bool,
}

impl IslandSpec {
    /// What the model of time has as its cores: those that run threads, and behind them the firmware's hidden harts.
    pub fn harts(&self) -> usize {
        self.cores + self.hidden_harts
    }
}

/// In which order the ready threads of a core run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Queue {
    /// Users share the core fairly, and one user's threads run by nice value, in slices.
    #[default]
    Fair,
    /// Who comes first runs first, until it waits, ends or leaves.
    Fifo,
}

/// What runs below the kernel of a RISC-V island.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Firmware {
    /// What QEMU comes with: OpenSBI.
    OpenSbi,
    /// Motet's own (docs/firmware.md).
    Motet,
}

/// Longest time that idle cores may poll. They take no interrupts meanwhile.
const POLL_US_MAX: i64 = 1000;

/// Most bytes of a machine description.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The text of a regular file, read without waiting for anybody.
fn read_text(path: &Path) -> Result<String> {
    let what = || format!("machine file {}", path.display());
    let wrong = |kind, why: &str| Err(Error::new(kind, format!("{}: {why}", what())));
    // Opening a named pipe would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).context(ErrorKind::NoInput, what)?);
    let metadata = file.metadata().context(ErrorKind::NoInput, what)?;
    if metadata.is_dir() {
        return wrong(ErrorKind::NoInput, "is a folder; a file is needed");
    }
    if !metadata.is_file() {
        return wrong(ErrorKind::NoInput, "is a pipe, socket or device; a regular file is needed");
    }
    let mut bytes = Vec::new();
    // Not the size that is shown: some files show none, and files grow.
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).context(ErrorKind::NoInput, what)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return wrong(ErrorKind::Config, "is larger than 1 MiB; a machine description has some lines");
    }
    String::from_utf8(bytes).or_else(|error| {
        wrong(ErrorKind::Config, &format!("is not text: byte {} is not UTF-8", error.utf8_error().valid_up_to()))
    })
}

impl Machine {
    /// Reads a machine description.
    ///
    /// # Errors
    /// A file that cannot be read, that is no text file of reasonable size, or that is not a machine: with line, column and key.
    pub fn load(path: &Path) -> Result<Self> {
        let text = read_text(path)?;
        Self::parse(&text).map_err(|error| Error::new(error.kind, format!("{}:{}", path.display(), error.message)))
    }

    /// Parses a machine description; messages begin with `LINE:COLUMN: `.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Self> {
        let file: MachineFile = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            fault(text, span.clone(), &misfit(text, span, error.message()))
        })?;
        file.check(text)
    }

    /// Everything that the cache and coherence model of a timed run needs to know.
    ///
    /// # Errors
    /// A `[model]` that does not fit the machine: with line, column and key.
    pub fn model_config(&self) -> Result<Config> {
        let islands = self.islands.iter().map(|island| {
            let base = match island.isa {
                Isa::X86_64 => 0,
                Isa::AArch64 => 1 << 30,
                Isa::RiscV64 | Isa::Hosted => 2 << 30,
            };
            let pool = local_ranges(island.isa, island.private, self.pool.size).into_iter();
            let mut memory = vec![Piece { local: base, size: island.private, target: Target::Private(0) }];
            memory.extend(pool.map(|(offset, local, size)| Piece { local, size, target: Target::Pool(offset) }));
            let traps = trap_cycles(island.isa);
            motet_coherence::Island { name: island.name.clone(), cores: island.harts(), memory, traps }
        });
        let shape = Shape { pool: self.pool.size, islands: islands.collect(), own: own_records(self.islands.len()) };
        self.model
            .resolve(&shape)
            .map_err(|error| fault(&self.text, place(&self.text, &error.key).unwrap_or(0..0), &error.to_string()))
    }

    /// That there are calls over links to choose a way for.
    fn check_calls(&self, config: &Config) -> std::result::Result<(), String> {
        if self.crossing == Crossing::Flick {
            return Err("calls: with crossing = \"flick\", all calls go by engines; leave one of the two out".into());
        }
        match config.has_uncached_links() {
            true => Ok(()),
            false => {
                Err("calls: no [[model.access]] has data = \"uncached\", or no island has a data cache, so no call goes over a link; leave it out"
                    .into())
            }
        }
    }

    /// Cores of the whole machine.
    pub fn core_count(&self) -> usize {
        self.islands.iter().map(|island| island.cores).sum()
    }
}

/// Where the records of islands and their cores are in the pool: pages of their own, which are near the island.
fn own_records(islands: usize) -> Vec<(u64, u64, usize)> {
    let cores_len = CORES_PER_ISLAND_MAX * size_of::<CoreRecord>();
    let of = |at: usize, len: usize, index: usize| ((at + index * len) as u64, (at + (index + 1) * len) as u64, index);
    let records = (0..islands).map(|index| of(offset_of!(PoolHeader, islands), size_of::<IslandRecord>(), index));
    let cores = (0..islands).map(|index| of(offset_of!(PoolHeader, cores), cores_len, index));
    let engines = (0..islands).map(|index| of(offset_of!(PoolHeader, dma), size_of::<DmaEngine>(), index));
    records.chain(cores).chain(engines).collect()
}

/// What traps take on an ISA's cores, unless the file says so. Measured by others, on hardware:
///
/// - x86-64: a page fault to its handler 715 cycles and `iretq` 330, on a Haswell (Torvalds, "One of the things I end up
///   doing", Google+, April 2014). `syscall` 79 and `sysret` 71, on a Nehalem (Soares and Stumm, FlexSC, OSDI '10, section 2.1).
/// - AArch64: 76 cycles up an exception level (68 to 76 were measured) and 65 down, on an X-Gene (Lim et al., NEVE, SOSP '17,
///   section 5). The end of an interrupt by the GIC's CPU interface takes 71 there (Dall et al., ISCA '16, Table II).
/// - RISC-V: 4 cycles from an interrupt to the fetch of its handler (SiFive E31 and FE310 manuals, "Interrupt Latency").
/// - Waking: Linux's exit latencies of the lightest idle state, 2 us for x86-64 (`intel_idle`, C1 since Haswell) and 1 us for
///   the others (`cpuidle-psci`, `cpuidle-riscv-sbi`: WFI), at 2 GHz.
///
/// For what nobody has measured stands what is most like it: AArch64's end of an interrupt for x86-64's, and RISC-V's entry
/// for its exit and for its end of an interrupt, all of which empty the same pipeline.
const fn trap_cycles(isa: Isa) -> TrapCycles {
    match isa {
        Isa::X86_64 => TrapCycles { entry: 715, exit: 330, syscall: Some([79, 71]), end_of_interrupt: 71, wake: 4000 },
        Isa::AArch64 => TrapCycles { entry: 76, exit: 65, syscall: None, end_of_interrupt: 71, wake: 2000 },
        Isa::RiscV64 | Isa::Hosted => TrapCycles { entry: 4, exit: 4, syscall: None, end_of_interrupt: 4, wake: 2000 },
    }
}

/// The private memory an ISA's island has by default, in bytes, and the least it can have.
///
/// AArch64: QEMU puts the device tree 128 MiB above the start of RAM, and it must not lie in the pool.
pub const fn private_size(isa: Isa) -> (u64, u64) {
    match isa {
        Isa::X86_64 | Isa::RiscV64 | Isa::Hosted => (64 << 20, 32 << 20),
        Isa::AArch64 => (256 << 20, 160 << 20),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    crossing: Option<Spanned<String>>,
    calls: Option<Spanned<String>>,
    migration: Option<Spanned<String>>,
    pool: Spanned<PoolTable>,
    island: Spanned<Vec<IslandTable>>,
    #[serde(default)]
    service: Vec<Spanned<service::ServiceTable>>,
    fpga: Option<Spanned<fpga::FpgaTable>>,
    #[serde(default)]
    hardware_thread: Vec<Spanned<hardware::HardwareTable>>,
    #[serde(default)]
    model: ModelTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolTable {
    size: Spanned<Bytes>,
    block: Option<Spanned<Bytes>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IslandTable {
    name: Spanned<String>,
    isa: Spanned<String>,
    cores: Spanned<i64>,
    cpu: Option<Spanned<String>>,
    private: Option<Spanned<Bytes>>,
    #[serde(default)]
    extensions: Vec<Spanned<String>>,
    #[serde(default)]
    core: Vec<CoreTable>,
    poll_us: Option<Spanned<i64>>,
    text: Option<Spanned<String>>,
    firmware: Option<Spanned<String>>,
    queue: Option<Spanned<String>>,
    hidden_harts: Option<Spanned<i64>>,
    guests: Option<Spanned<bool>>,
}

impl MachineFile {
    fn check(self, text: &str) -> Result<Machine> {
        let crossing = match &self.crossing {
            None => Crossing::Direct,
            Some(name) => match name.get_ref().as_str() {
                "direct" => Crossing::Direct,
                "flick" => Crossing::Flick,
                other => {
                    let message = format!("crossing: unknown way \"{other}\"; known: direct, flick");
                    return Err(fault(text, name.span(), &message));
                }
            },
        };
        let calls = match self.calls.as_ref().map(|name| name.get_ref().as_str()) {
            None | Some("fastest") => Calls::Fastest,
            Some("stores") => Calls::Stores,
            Some("dma") => Calls::Dma,
            Some(other) => {
                let message = format!("calls: unknown way \"{other}\"; known: fastest, stores, dma");
                return Err(fault(text, span_of(self.calls.as_ref()), &message));
            }
        };
        let pool = self.pool.into_inner().check(text)?;
        let span = self.island.span();
        let tables = self.island.into_inner();
        if tables.is_empty() || tables.len() > ISLANDS_MAX {
            return Err(fault(
                text,
                span,
                &format!("island: {} islands, a machine has 1 to {ISLANDS_MAX}", tables.len()),
            ));
        }
        let mut islands: Vec<IslandSpec> = Vec::new();
        let mut texts = Vec::new();
        for table in tables {
            let name = table.name.span();
            texts.push(table.text.as_ref().map_or(0..0, Spanned::span));
            let island = table.check(text)?;
            if islands.iter().any(|other| other.name == island.name) {
                return Err(fault(text, name, &format!("name: two islands are called \"{}\"", island.name)));
            }
            islands.push(island);
        }
        check_migration(text, self.migration.as_ref(), &islands)?;
        let service = service::check(text, self.service)?;
        let hardware = hardware::check(text, self.hardware_thread, service.is_some())?;
        let fpga = fpga::check(text, self.fpga)?;
        let machine =
            Machine { pool, islands, crossing, calls, service, hardware, fpga, model: self.model, text: text.into() };
        let config = machine.model_config()?;
        machine.check_texts(&config, &texts)?;
        if calls != Calls::Fastest {
            machine.check_calls(&config).map_err(|why| fault(text, span_of(self.calls.as_ref()), &why))?;
        }
        Ok(machine)
    }
}

fn span_of(value: Option<&Spanned<String>>) -> Range<usize> {
    value.map_or(0..0, Spanned::span)
}

impl PoolTable {
    fn check(self, text: &str) -> Result<PoolSpec> {
        let size = self.size.get_ref().0;
        let (block, block_span) = match &self.block {
            Some(block) => (block.get_ref().0, block.span()),
            None => (BLOCK_SIZE_DEFAULT, self.size.span()),
        };
        if !(256 << 10..=4 << 20).contains(&block) || !block.is_power_of_two() {
            return Err(fault(text, block_span, "block: must be a power of two from 256KiB to 4MiB"));
        }
        if size < POOL_SIZE_MIN {
            let message = format!("size: pool too small: {}, the minimum is {}", Bytes(size), Bytes(POOL_SIZE_MIN));
            return Err(fault(text, self.size.span(), &message));
        }
        if size > POOL_SIZE_MAX {
            let message = format!("size: pool too large: {}, the maximum is {}", Bytes(size), Bytes(POOL_SIZE_MAX));
            return Err(fault(text, self.size.span(), &message));
        }
        // 2 MiB: QEMU places the RISC-V device tree after the pool at this alignment.
        let unit = block.max(2 << 20);
        if size % unit != 0 {
            return Err(fault(text, self.size.span(), &format!("size: must be a multiple of {}", Bytes(unit))));
        }
        Ok(PoolSpec { size, block })
    }
}

impl IslandTable {
    fn check(self, text: &str) -> Result<IslandSpec> {
        let name = self.name.get_ref();
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 31 || !name.chars().all(valid) {
            let message = "name: 1 to 31 letters, digits, '-' or '_'";
            return Err(fault(text, self.name.span(), message));
        }
        let isa = match Isa::from_name(self.isa.get_ref()) {
            Some(isa @ (Isa::X86_64 | Isa::AArch64 | Isa::RiscV64)) => isa,
            Some(Isa::Hosted) | None => {
                let message =
                    format!("isa: unknown instruction set \"{}\"; known: x86_64, aarch64, riscv64", self.isa.get_ref());
                return Err(fault(text, self.isa.span(), &message));
            }
        };
        let cores = usize::try_from(*self.cores.get_ref()).unwrap_or(0);
        if !(1..=CORES_PER_ISLAND_MAX).contains(&cores) {
            let message = format!("cores: {}, an island has 1 to {CORES_PER_ISLAND_MAX}", self.cores.get_ref());
            return Err(fault(text, self.cores.span(), &message));
        }
        if let Some(cpu) = &self.cpu {
            let valid = |c: char| c.is_ascii_alphanumeric() || "-_.+=,".contains(c);
            if cpu.get_ref().is_empty() || !cpu.get_ref().chars().all(valid) {
                return Err(fault(text, cpu.span(), "cpu: letters, digits and -_.+=, only"));
            }
        }
        let extensions = by_core(text, isa, cores, &self.extensions, &self.core)?;
        let poll_us = match &self.poll_us {
            Some(poll_us) if !(0..=POLL_US_MAX).contains(poll_us.get_ref()) => {
                let message = format!("poll_us: {}, an idle core polls for 0 to {POLL_US_MAX} us", poll_us.get_ref());
                return Err(fault(text, poll_us.span(), &message));
            }
            poll_us => poll_us.as_ref().map_or(0, |poll_us| *poll_us.get_ref() as u32),
        };
        let firmware = firmware(text, isa, self.firmware)?;
        let queue = queue(text, self.queue)?;
        let hidden_harts = hidden_harts(text, firmware, self.hidden_harts)?;
        let guests = guests(text, isa, hidden_harts, self.guests)?;
        let private = private_memory(text, isa, self.private)?;
        let (name, text) = (self.name.into_inner(), self.text.map(Spanned::into_inner));
        let cpu = self.cpu.map(Spanned::into_inner);
        Ok(IslandSpec {
            name,
            isa,
            cores,
            cpu,
            private,
            extensions,
            poll_us,
            text,
            firmware,
            hidden_harts,
            queue,
            guests,
        })
    }
}

fn firmware(text: &str, isa: Isa, given: Option<Spanned<String>>) -> Result<Firmware> {
    let Some(given) = given else { return Ok(Firmware::OpenSbi) };
    match (isa, given.get_ref().as_str()) {
        (Isa::RiscV64, "opensbi") => Ok(Firmware::OpenSbi),
        (Isa::RiscV64, "motet") => Ok(Firmware::Motet),
        (Isa::RiscV64, other) => {
            let message = format!("firmware: unknown firmware \"{other}\"; known: opensbi, motet");
            Err(fault(text, given.span(), &message))
        }
        (Isa::X86_64 | Isa::AArch64 | Isa::Hosted, _) => {
            let message = format!("firmware: an island of {} has none to choose; riscv64 has", isa.name());
            Err(fault(text, given.span(), &message))
        }
    }
}

fn queue(text: &str, given: Option<Spanned<String>>) -> Result<Queue> {
    let Some(given) = given else { return Ok(Queue::Fair) };
    match given.get_ref().as_str() {
        "fair" => Ok(Queue::Fair),
        "fifo" => Ok(Queue::Fifo),
        other => {
            let message = format!("queue: unknown order \"{other}\"; known: fair, fifo");
            Err(fault(text, given.span(), &message))
        }
    }
}

/// Most hidden harts of an island.
const HIDDEN_HARTS_MAX: i64 = 16;

fn hidden_harts(text: &str, firmware: Firmware, given: Option<Spanned<i64>>) -> Result<usize> {
    let Some(given) = given else { return Ok(0) };
    if !(0..=HIDDEN_HARTS_MAX).contains(given.get_ref()) {
        let message = format!("hidden_harts: {}, an island has 0 to {HIDDEN_HARTS_MAX}", given.get_ref());
        return Err(fault(text, given.span(), &message));
    }
    if *given.get_ref() > 0 && firmware != Firmware::Motet {
        return Err(fault(text, given.span(), "hidden_harts: only firmware = \"motet\" has some"));
    }
    Ok(*given.get_ref() as usize)
}

fn guests(text: &str, isa: Isa, hidden_harts: usize, given: Option<Spanned<bool>>) -> Result<bool> {
    let Some(given) = given.filter(|given| *given.get_ref()) else { return Ok(false) };
    let why = match isa {
        Isa::AArch64 | Isa::RiscV64 if hidden_harts == 0 => return Ok(true),
        Isa::AArch64 | Isa::RiscV64 => "guests: an island with hidden_harts has none".into(),
        Isa::X86_64 | Isa::Hosted => format!("guests: an island of {} has none; aarch64 and riscv64 can", isa.name()),
    };
    Err(fault(text, given.span(), &why))
}

/// Whether threads go to hidden harts for their vector instructions, or to other cores, as hidden harts are there for that.
fn check_migration(text: &str, given: Option<&Spanned<String>>, islands: &[IslandSpec]) -> Result<()> {
    let has_hidden = islands.iter().any(|island| island.hidden_harts > 0);
    let why = match (given.map(|name| name.get_ref().as_str()), has_hidden) {
        (None | Some("fused"), false) | (Some("firmware"), true) => return Ok(()),
        (None | Some("fused"), true) => {
            "migration: an island has hidden_harts; that needs migration = \"firmware\"".into()
        }
        (Some("firmware"), false) => {
            "migration: by firmware, some island needs hidden_harts, and firmware = \"motet\"".into()
        }
        (Some(other), _) => format!("migration: unknown way \"{other}\"; known: fused, firmware"),
    };
    Err(fault(text, span_of(given), &why))
}

fn private_memory(text: &str, isa: Isa, given: Option<Spanned<Bytes>>) -> Result<u64> {
    let (default, least) = private_size(isa);
    let Some(given) = given else { return Ok(default) };
    let size = given.get_ref().0;
    if size < least || size > 1 << 30 || size % (2 << 20) != 0 {
        let message = format!(
            "private: {} for {}; must be a multiple of 2MiB from {} to 1GiB",
            Bytes(size),
            isa.name(),
            Bytes(least)
        );
        return Err(fault(text, given.span(), &message));
    }
    Ok(size)
}

/// Where an entry of the file stands; if it is not there, where the table stands that lacks it.
fn place(text: &str, key: &Key) -> Option<Range<usize>> {
    let file = DeTable::parse(text).ok()?;
    let (mut table, mut values, mut found) = (Some(file.get_ref()), None, None);
    for step in key.steps() {
        let value: Option<&Spanned<DeValue<'_>>> = match step {
            Step::Name(name) => table.and_then(|table| table.get(*name)),
            Step::Index(index) => values.and_then(|values: &[_]| values.get(*index)),
        };
        let Some(value) = value else { break };
        found = Some(value.span());
        table = value.get_ref().as_table();
        values = value.get_ref().as_array().map(|array| &array[..]);
    }
    found
}

/// What is wrong with a value, in the words of who writes the file, after its key; messages about keys name them already.
fn misfit(text: &str, span: Range<usize>, message: &str) -> String {
    const WORDS: [(&str, &str); 13] = [
        ("expected struct TlbTable", "expected { entries, ways }"),
        ("expected struct SecondTlbTable", "expected { entries, ways, cycles }"),
        ("expected struct CacheTable with 4 elements", "expected { size, ways, cycles }"),
        ("expected struct CacheTable", "expected { size, ways, cycles }"),
        ("expected struct", "expected a table"),
        ("expected a sequence", "expected an array"),
        ("expected usize", "expected a whole number, not negative"),
        ("expected u64", "expected a whole number, not negative"),
        ("expected u32", "expected a whole number, not negative"),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("` as i128", "`"),
        ("wanted string or table", "expected a string"),
    ];
    let message = message.trim_end().replace('\n', "; ");
    let message = WORDS.iter().fold(message, |message, (from, to)| message.replace(from, to));
    if message == "duplicate key" {
        return format!("{message} `{}`", text.get(span).unwrap_or_default());
    }
    let names_key = ["missing field", "unknown field"].iter().any(|beginning| message.starts_with(beginning));
    match key_before(text, span.start) {
        Some(key) if !names_key => format!("{key}: {message}"),
        Some(_) | None => message,
    }
}

/// The key whose value is at this place, after the table that it is in: `model.core.l1d.ways`.
fn key_before(text: &str, at: usize) -> Option<String> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let before = text.get(..at)?;
    let header = |line: &str| {
        let name = line.trim().strip_prefix('[')?.trim_start_matches('[').split(']').next()?.trim();
        (!name.is_empty() && name.chars().all(is_key)).then(|| name.to_owned())
    };
    let line = before.rsplit('\n').next()?;
    let mut keys: Vec<&str> =
        line.split('=').map(|part| part.trim_end().rsplit(|c| !is_key(c)).next()).collect::<Option<_>>()?;
    keys.pop();
    let table = before.lines().rev().find_map(header);
    let inner = keys.last().filter(|_| keys.len() > 1 && line.contains('{')).map(|key| (*key).to_owned());
    let parts = [table, Some((*keys.first()?).to_owned()), inner];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("."))
}

/// An error at a place of the file.
fn fault(text: &str, span: Range<usize>, message: &str) -> Error {
    let before = &text[..span.start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    Error::new(ErrorKind::Config, format!("{line}:{column}: {message}"))
}

#[cfg(test)]
mod tests;
