//! Machine descriptions: one TOML file says which islands a machine has ([`MachineSpec`]), and how its memory and caches are
//! modelled in timed runs ([`MachineSpec::model_config`]).
//!
//! A file that is accepted can be booted: everything QEMU, the pool layout or a kernel would refuse later is refused
//! here, with the key's name and its position in the file.
//!
//! The fabric, which starts the machine, and the timing plugin in each QEMU read the same description with this crate, so
//! both have the same model.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod extensions;
mod fault;
mod file;
mod fpga;
mod hardware;
mod island;
mod memory;
mod model;
mod multikernel;
mod plugin_arguments;
mod service;
mod text;

use std::{fs::File, io::Read, path::Path};

use motet_coherence::ModelTable;
use motet_error::{Context, Error, ErrorKind, Result};
use motet_layout::Isa;
use rustix::fs::{Mode, OFlags};

pub use extensions::CoreExtensions;
pub use fpga::{AcceleratorSpec, FpgaSpec, ManagerSpec};
pub use hardware::HardwareSpec;
pub use memory::{BLOCK_SIZE_DEFAULT, LocalRange, POOL_SIZE_MAX, POOL_SIZE_MIN, TREE_SIZE, local_ranges, private_size};
pub use multikernel::MultikernelSpec;
pub use plugin_arguments::{PluginArguments, PointArguments};
pub use service::ServiceSpec;
pub use text::TextPlace;

/// A machine: what `machines/*.toml` describes.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
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
    /// `os = "multikernel"`: each island has a kernel of its own.
    pub multikernel: Option<MultikernelSpec>,
    /// Where pages of programs lie.
    pub policy: Policy,
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

/// Where pages of programs lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Near the island that first touches them.
    #[default]
    FirstTouch,
    /// They follow the islands that use them (docs/protocols/residency.md).
    Adaptive,
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
    /// It has a network device, in runs that have a network.
    pub network: bool,
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

impl MachineSpec {
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
        file::read(text)
    }

    /// Cores of the whole machine.
    pub fn core_count(&self) -> usize {
        self.islands.iter().map(|island| island.cores).sum()
    }
}

#[cfg(test)]
mod tests;
