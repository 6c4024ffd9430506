//! The description of a hosted machine: islands, driver, faults, defects.

use std::time::Duration;

use crate::network::NetworkConfig;
use motet_layout::{CALLS_BY_FASTEST, Isa, IslandId, LockClass};

/// One hosted island.
#[derive(Clone, Debug)]
pub struct IslandConfig {
    /// The ISA it says it has.
    pub isa: Isa,
    /// Whose page-table format it uses; not [`Isa::Hosted`].
    pub paging: Isa,
    /// Cores.
    pub cores: usize,
    /// Where it sees the pool (its local physical address).
    pub local_base: u64,
    /// Pool offset (a multiple of the page size) from which on it sees the pool at 4 GiB + that offset instead, as q35
    /// splits its memory.
    pub split_at: Option<u64>,
    /// What `Machine::extensions` says.
    pub extensions: String,
    /// Bytes in its cores' vector registers, 0: they have none. For RISC-V alone.
    pub vector_bytes: u32,
    /// Harts that only the firmware has, with vector registers. For RISC-V alone.
    pub hidden_harts: usize,
    /// Bytes in these.
    pub hidden_vector_bytes: u32,
    /// How its counter differs from time.
    pub counter: Counter,
    /// For so long its idle cores look for work before they sleep, in nanoseconds.
    pub poll_ns: u64,
    /// Its network device. Under a seed.
    pub network: Option<NetworkConfig>,
}

/// How an island's counter differs from time. (All begin with different values, too.)
#[derive(Clone, Copy, Debug, Default)]
pub struct Counter {
    /// So many millionths too fast.
    pub fast_ppm: i64,
    /// Then it jumps, in nanoseconds of time.
    pub jumps_at_ns: u64,
    /// So far forward, in nanoseconds.
    pub jump_ns: u64,
}

impl Counter {
    /// What it shows.
    pub fn at(self, time_ns: u64) -> u64 {
        let more = i128::from(time_ns) * i128::from(self.fast_ppm) / 1_000_000;
        let jumped = if time_ns >= self.jumps_at_ns { self.jump_ns } else { 0 };
        time_ns.wrapping_add(more as u64).wrapping_add(jumped)
    }

    /// The first time when it shows `counter_ns` at least.
    pub fn time_at(self, counter_ns: u64) -> u64 {
        let Some(limit) = counter_ns.checked_mul(2).filter(|&limit| limit < u64::MAX / 2) else { return u64::MAX };
        let (mut early, mut late) = (0, limit);
        while early < late {
            let middle = early + (late - early) / 2;
            if self.at(middle) >= counter_ns {
                late = middle;
            } else {
                early = middle + 1;
            }
        }
        early
    }
}

impl IslandConfig {
    /// An island that says it is hosted, with that page-table format and number of cores.
    pub fn new(paging: Isa, cores: usize) -> Self {
        Self { isa: Isa::Hosted, ..Self::foreign(paging, cores) }
    }

    /// An island that says it has that (real) ISA, and its page-table format.
    pub fn foreign(isa: Isa, cores: usize) -> Self {
        let paging = isa;
        let local_base = match paging {
            Isa::X86_64 | Isa::Hosted => 0x400_0000,
            Isa::AArch64 => 0x4400_0000,
            Isa::RiscV64 => 0x8400_0000,
        };
        let (extensions, counter) = ("base".into(), Counter::default());
        Self {
            isa,
            paging,
            cores,
            local_base,
            split_at: None,
            extensions,
            vector_bytes: 0,
            hidden_harts: 0,
            hidden_vector_bytes: 0,
            counter,
            poll_ns: 0,
            network: None,
        }
    }

    /// A RISC-V island whose cores have vector registers of so many bytes, a multiple of 16.
    pub fn with_vectors(cores: usize, vector_bytes: u32) -> Self {
        Self { extensions: "rv64imafdcv".into(), vector_bytes, ..Self::foreign(Isa::RiscV64, cores) }
    }

    /// A RISC-V island whose cores have no vector registers, and so many hidden harts that have some of so many bytes.
    pub fn with_hidden(cores: usize, hidden_harts: usize, hidden_vector_bytes: u32) -> Self {
        Self { hidden_harts, hidden_vector_bytes, ..Self::foreign(Isa::RiscV64, cores) }
    }
}

/// Windows between islands that have a kernel each (`docs/protocols/messages.md`).
#[derive(Clone, Copy, Debug)]
pub struct WindowConfig {
    /// Slots of each ring, a power of two.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_len: u32,
    /// A message rings only a kernel that is not about to look.
    pub coalesces: bool,
    /// Pages behind one that is asked for that are wished for, too.
    pub prefetch: u32,
    /// Pages are read in place.
    pub by_reference: bool,
}

/// Faults for the seeded driver to inject.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Doorbells arrive up to this much later (and so merge with later ones).
    pub bell_delay_ns_max: u64,
    /// About every so many steps an island stalls; 0: never.
    pub stall_every: u64,
    /// Longest stall.
    pub stall_ns_max: u64,
    /// An island that stops for good at that step. A kernel of its own, if it has one: then the others go on without being told.
    pub death: Option<(IslandId, u64)>,
    /// That step is counted among those at which a core of that island is about to change a word of the pool with a lock of this class. In builds for
    /// models.
    pub death_with: Option<LockClass>,
    /// The host says that the island has died, and the machine goes on. It dies when all have joined, at the earliest.
    pub survives: bool,
    /// How often the dead island is started again, as soon as it may be. Between, it dies again.
    pub rejoins: u32,
    /// That is within so many steps after it was started, at a random one.
    pub dies_again_within: u64,
    /// From that step on, once, as soon as there is one: a word of what belongs to a call across instruction sets changes (a
    /// record, a message, a register).
    pub damage: Option<u64>,
    /// From that step on, once: a word changes that links the kernels' records.
    pub damaged_link: Option<u64>,
    /// A kernel of its own that, when all have joined, writes now and then into its windows what it never should.
    pub nonsense: Option<IslandId>,
}

/// A HAL that is wrong on purpose: shows that a test can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// `flush_page` does nothing.
    FlushPage,
    /// `flush_user` does nothing.
    FlushUser,
    /// `activate_space` keeps older translations.
    ActivateSpace,
    /// `sync_instructions` does nothing.
    SyncInstructions,
    /// `load_ext` leaves what is loaded.
    LoadExt,
    /// `set_timer` does nothing.
    SetTimer,
    /// Rings of cores of other islands do nothing.
    ForeignRing,
    /// Interrupts that were taken stay pending.
    Acknowledge,
    /// A doorbell that is there together with the timer is forgotten.
    HideDoorbell,
    /// The program counter of a system-call trap is the call's.
    SyscallPc,
    /// All faults look like reads.
    FaultKind,
    /// `bring_home` does nothing. Not in [`ALL`](Self::ALL): it needs hidden harts.
    BringHome,
    /// Not the HAL's: what a lock of this class protects is not repaired when a dead core held it. In builds for models.
    Unrepaired(LockClass),
}

impl Defect {
    /// Every defect of cores.
    pub const ALL: [Self; 11] = [
        Self::FlushPage,
        Self::FlushUser,
        Self::ActivateSpace,
        Self::SyncInstructions,
        Self::LoadExt,
        Self::SetTimer,
        Self::ForeignRing,
        Self::Acknowledge,
        Self::HideDoorbell,
        Self::SyscallPc,
        Self::FaultKind,
    ];
}

/// Who decides which core runs.
#[derive(Clone, Copy, Debug)]
pub enum Driver {
    /// All at once, each on its host thread, in real time.
    Threads,
    /// One at a time, in virtual time; the seed decides everything.
    Seeded(u64),
}

/// A machine to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes in the pool, or in each kernel's.
    pub pool_len: u64,
    /// The islands.
    pub islands: Vec<IslandConfig>,
    /// Each island has a kernel of its own, and these windows to the others. `None`: they have one together.
    pub windows: Option<WindowConfig>,
    /// `mode=` of the kernels' command line.
    pub mode: &'static str,
    /// The driver.
    pub driver: Driver,
    /// Most user instructions between two points of the seeded driver.
    pub quantum: u64,
    /// Panic when a stale translation or instruction is used although nobody is changing the space or the frame.
    pub check_stale: bool,
    /// Steps after which a seeded run counts as endless.
    pub steps_max: u64,
    /// Real time after which a threaded run counts as endless.
    pub time_max: Duration,
    /// Faults for the seeded driver.
    pub faults: Faults,
    /// Whether the islands are told that they do not cache each other's memory.
    pub uncached: bool,
    /// How calls go between such islands: `CALLS_BY_*`.
    pub calls_by: u32,
    /// What all islands do wrong.
    pub defect: Option<Defect>,
    /// Copy the islands' logs to standard error as they appear.
    pub echo_log: bool,
}

impl Config {
    /// A machine of these islands with a 64 MiB pool.
    pub fn new(driver: Driver, islands: Vec<IslandConfig>) -> Self {
        Self {
            pool_len: 64 << 20,
            islands,
            windows: None,
            mode: "run",
            driver,
            quantum: 64,
            check_stale: matches!(driver, Driver::Seeded(_)),
            steps_max: 20_000_000,
            time_max: Duration::from_secs(120),
            faults: Faults::default(),
            uncached: false,
            calls_by: CALLS_BY_FASTEST,
            defect: None,
            echo_log: std::env::var_os("MOTET_ECHO").is_some(),
        }
    }
}
