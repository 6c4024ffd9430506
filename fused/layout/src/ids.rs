//! Identifiers that kernels exchange. Decoders are total: a raw value from the pool becomes an id or `None`.

/// Most islands a machine can have.
pub const ISLANDS_MAX: usize = 8;
/// Most cores an island can have.
pub const CORES_PER_ISLAND_MAX: usize = 16;
/// Most cores a machine can have.
pub const CORES_MAX: usize = ISLANDS_MAX * CORES_PER_ISLAND_MAX;

/// An instruction set. `Hosted` is the interpreter of `hal-hosted`, on which kernels run inside a test process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Isa {
    /// x86-64 (System V ABI).
    X86_64 = 1,
    /// AArch64 (little-endian).
    AArch64 = 2,
    /// RISC-V RV64GC.
    RiscV64 = 3,
    /// The test interpreter.
    Hosted = 4,
}

impl Isa {
    /// Every ISA, in order of its code.
    pub const ALL: [Self; 4] = [Self::X86_64, Self::AArch64, Self::RiscV64, Self::Hosted];

    /// Decodes the value stored in the pool.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            1 => Some(Self::X86_64),
            2 => Some(Self::AArch64),
            3 => Some(Self::RiscV64),
            4 => Some(Self::Hosted),
            _ => None,
        }
    }

    /// The name used in machine files, `uname -m`, paths and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::AArch64 => "aarch64",
            Self::RiscV64 => "riscv64",
            Self::Hosted => "hosted",
        }
    }

    /// The ISA of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }
}

/// An island: the cores of one kernel instance. Index into the island table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct IslandId(pub u8);

impl IslandId {
    /// Decodes an island index.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        if (raw as usize) < ISLANDS_MAX { Some(Self(raw as u8)) } else { None }
    }

    /// Index into the island table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A core of the machine: its island and its index there. Index into the core table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct CoreId(pub u8);

impl CoreId {
    /// The host, when it acts on the pool as a peer (it has no core; used as a lock holder only).
    pub const HOST: Self = Self(CORES_MAX as u8);

    /// Core `index` of `island`.
    pub const fn new(island: IslandId, index: usize) -> Self {
        Self(island.0 * CORES_PER_ISLAND_MAX as u8 + index as u8)
    }

    /// Decodes a core index.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        if (raw as usize) < CORES_MAX { Some(Self(raw as u8)) } else { None }
    }

    /// The core's island.
    pub const fn island(self) -> IslandId {
        IslandId(self.0 / CORES_PER_ISLAND_MAX as u8)
    }

    /// Its index within the island, which is also the doorbell vector that wakes it.
    pub const fn index_in_island(self) -> usize {
        self.0 as usize % CORES_PER_ISLAND_MAX
    }

    /// Index into the core table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
