//! The shared region: what every process sees of every core's time.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use motet_layout::CORES_MAX;

/// First eight bytes of a region: "MOTETCK\x01".
pub const REGION_MAGIC: u64 = u64::from_le_bytes(*b"MOTETCK\x01");

/// How time is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Farthest that one running core may be ahead of another, in picoseconds.
    pub quantum_ps: u64,
    /// From ringing a sleeping core to its first instruction, in picoseconds.
    pub doorbell_ps: u64,
    /// One core runs at a time.
    pub deterministic: bool,
}

/// One core's time. Written by the thread that runs the core, except where said.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct CoreClock {
    /// Its time at its last boundary, in picoseconds.
    pub clock_ps: AtomicU64,
    /// 1 from when it falls asleep to its first boundary afterwards.
    pub halted: AtomicU32,
    /// 1 when it has said that it is there.
    pub announced: AtomicU32,
    /// Any core: the time of the alarm that this core was rung for while it slept, 0 none.
    pub wake_at_ps: AtomicU64,
    /// 1: it woke by itself (the host rang it) and waits for its turn.
    pub arrived: AtomicU32,
    /// Deterministic runs: 1 from where it takes its turn to where it ends it.
    pub running: AtomicU32,
    /// Instructions executed.
    pub instructions: AtomicU64,
    /// Time spent asleep, in picoseconds.
    pub idle_ps: AtomicU64,
    /// Time that memory added, in picoseconds.
    pub stall_ps: AtomicU64,
    /// Doorbells that it rang for other cores.
    pub ipis_sent: AtomicU64,
    /// Times that another core's doorbell woke it.
    pub ipis_received: AtomicU64,
}

/// The region. Zeroed memory, then [`ClockRegion::set_up`].
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ClockRegion {
    /// [`REGION_MAGIC`].
    pub magic: AtomicU64,
    quantum_ps: AtomicU64,
    doorbell_ps: AtomicU64,
    deterministic: AtomicU32,
    /// Cores of the machine that take part.
    pub expected: AtomicU32,
    /// Cores that have announced themselves.
    pub announced: AtomicU32,
    /// 1 once time runs.
    pub started: AtomicU32,
    /// No running core is behind this, in picoseconds.
    pub now_ps: AtomicU64,
    /// Advances whenever a waiting core should look again (a futex).
    pub sequence: AtomicU32,
    /// Cores that wait on `sequence`.
    pub waiters: AtomicU32,
    /// Deterministic runs: 1 + the core whose turn it is; 0: nobody's.
    pub turn: AtomicU32,
    /// 1 once the machine's command has ended and the last quantum is over: nothing counts any more.
    pub stopped: AtomicU32,
    /// How often a core went on although it was not its turn, so that its QEMU could serve another core.
    pub escapes: AtomicU64,
    /// By [`motet_layout::CoreId`].
    pub cores: [CoreClock; CORES_MAX],
}

impl Default for ClockRegion {
    fn default() -> Self {
        Self {
            magic: AtomicU64::default(),
            quantum_ps: AtomicU64::default(),
            doorbell_ps: AtomicU64::default(),
            deterministic: AtomicU32::default(),
            expected: AtomicU32::default(),
            announced: AtomicU32::default(),
            started: AtomicU32::default(),
            now_ps: AtomicU64::default(),
            sequence: AtomicU32::default(),
            waiters: AtomicU32::default(),
            turn: AtomicU32::default(),
            stopped: AtomicU32::default(),
            escapes: AtomicU64::default(),
            cores: std::array::from_fn(|_| CoreClock::default()),
        }
    }
}

impl ClockRegion {
    /// Describes a machine with `expected` cores in zeroed memory, before anybody else looks.
    pub fn set_up(&self, settings: Settings, expected: usize) {
        self.quantum_ps.store(settings.quantum_ps, Relaxed);
        self.doorbell_ps.store(settings.doorbell_ps, Relaxed);
        self.deterministic.store(u32::from(settings.deterministic), Relaxed);
        self.expected.store(expected as u32, Relaxed);
        self.magic.store(REGION_MAGIC, Release);
    }

    /// What it was set up with; `None` when it was not.
    pub fn settings(&self) -> Option<Settings> {
        (self.magic.load(Acquire) == REGION_MAGIC).then(|| Settings {
            quantum_ps: self.quantum_ps.load(Relaxed),
            doorbell_ps: self.doorbell_ps.load(Relaxed),
            deterministic: self.deterministic.load(Relaxed) != 0,
        })
    }
}
