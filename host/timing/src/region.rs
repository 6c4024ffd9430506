//! The shared region: what every process sees of every core's time.

use motet_layout::{
    CORE_IDLE, CORES_MAX, MESSAGE_KINDS_MAX, NODES_MAX, Peers, PoolHeader,
    sync::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// First eight bytes of a region: "MOTETCK\x09".
pub const REGION_MAGIC: u64 = u64::from_le_bytes(*b"MOTETCK\x09");

/// How time is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Farthest that one running core may be ahead of another, in picoseconds.
    pub quantum_ps: u64,
    /// The same after islands have exchanged nothing for long; not less than `quantum_ps`, and equal to it in deterministic runs.
    pub quantum_max_ps: u64,
    /// The same while cores use the same lines out of turn; not more than `quantum_ps`.
    pub quantum_least_ps: u64,
    /// One core runs at a time.
    pub deterministic: bool,
}

impl Settings {
    /// How much time passes on a core between two boundaries, in picoseconds, unless the quantum is shorter for now.
    pub const fn step_ps(&self) -> u64 {
        self.step_of_ps(self.quantum_ps)
    }

    /// The same with a quantum of so many. Shorter than the quantum where cores run side by side: those that wait hear early of
    /// those that catch up.
    pub(crate) const fn step_of_ps(&self, quantum_ps: u64) -> u64 {
        // What has grown is short again after an eighth of what it was.
        let quantum_ps = if quantum_ps > self.quantum_ps { self.quantum_ps } else { quantum_ps };
        if self.deterministic || quantum_ps < 8 { quantum_ps } else { quantum_ps / 8 }
    }

    /// Whether the quantum grows while islands exchange nothing.
    pub const fn grows(&self) -> bool {
        self.quantum_max_ps > self.quantum_ps
    }

    /// Whether the quantum shrinks while cores use the same lines out of turn.
    pub const fn shrinks(&self) -> bool {
        self.quantum_least_ps < self.quantum_ps
    }
}

/// [`CoreClock::pace`]: not timed yet, or asleep.
pub const PACE_NONE: u32 = 0;
/// [`CoreClock::pace`]: runs.
pub const PACE_RUNS: u32 = 1;
/// [`CoreClock::pace`]: waits for others, and looks at them.
pub const PACE_WAITS: u32 = 2;
/// [`CoreClock::pace`]: waits for others in the host's kernel and must be woken.
pub const PACE_PARKED: u32 = 3;

/// A word in host cache lines of its own (processors fetch them in pairs): others next to it are looked at far more often
/// than it changes.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Apart<T>(T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// One core's time. Written by the thread that runs the core, except where said.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct CoreClock {
    /// Its time at its last boundary, in picoseconds.
    pub clock_ps: AtomicU64,
    /// `PACE_*`: whether its thread runs (a futex). Others move it from parked to waiting.
    pub pace: AtomicU32,
    /// 1 from when it falls asleep to its first boundary afterwards.
    pub halted: AtomicU32,
    /// Any core: the time of the alarm that this core was rung for while it slept, 0 none.
    pub wake_at_ps: AtomicU64,
    /// 1: it woke by itself (the host rang it) and waits for its turn.
    pub arrived: AtomicU32,
    /// Deterministic runs: 1 from where it takes its turn to where it ends it.
    pub running: AtomicU32,
    /// 1 when it has said that it is there.
    pub announced: AtomicU32,
    /// 1 + the number that its QEMU has for it; 0 not known yet.
    pub vcpu: AtomicU32,
    /// Others look at what comes before this again and again, and at what follows seldom.
    _apart: [u64; 11],
    /// Until when it may run without looking at the others: a quantum after the slowest that it has seen, in picoseconds.
    pub free_until_ps: AtomicU64,
    /// The last exchange that it knew of when it looked, as [`ClockRegion::exchanged_ps`].
    pub exchanged_ps: AtomicU64,
    /// Likewise [`ClockRegion::doubted_ps`].
    pub doubted_ps: AtomicU64,
    /// How much time passes on it between two boundaries, in picoseconds; 0: as usual.
    pub step_ps: AtomicU64,
    /// Deterministic runs: the doorbells rung for it that its QEMU has taken.
    pub rings_settled: AtomicU64,
    /// Doorbells that it has rung for other cores.
    pub rings_sent: AtomicU64,
    /// Instructions executed.
    pub instructions: AtomicU64,
    /// Time spent asleep, in picoseconds.
    pub idle_ps: AtomicU64,
    /// Time that memory added, in picoseconds.
    pub stall_ps: AtomicU64,
    /// Doorbells that it had rung for other cores at its last boundary.
    pub ipis_sent: AtomicU64,
    /// How often another core's doorbell woke it.
    pub ipis_received: AtomicU64,
    /// Descriptors that its migration engine has transferred.
    pub transfers: AtomicU64,
    /// 1: it is a hart that only the firmware has. Written before anybody else looks.
    pub hidden: AtomicU32,
}

const _: () = assert!(std::mem::offset_of!(CoreClock, free_until_ps) == 128);

/// The region. Zeroed memory, then [`ClockRegion::set_up`].
#[repr(C, align(128))]
#[derive(Debug)]
pub struct ClockRegion {
    /// [`REGION_MAGIC`].
    pub magic: AtomicU64,
    quantum_ps: AtomicU64,
    quantum_max_ps: AtomicU64,
    quantum_least_ps: AtomicU64,
    deterministic: AtomicU32,
    /// Cores of the machine that take part.
    pub expected: AtomicU32,
    /// Cores that have announced themselves.
    pub announced: AtomicU32,
    /// 1 once time runs (a futex).
    pub started: AtomicU32,
    /// 1 once the machine's command has ended and the last quantum is over: nothing counts any more.
    pub stopped: AtomicU32,
    /// No running core is behind this, in picoseconds.
    pub now_ps: Apart<AtomicU64>,
    /// If the quantum grows: the latest time at which a core has exchanged something with another island.
    pub exchanged_ps: Apart<AtomicU64>,
    /// If the quantum shrinks: the latest time at which a core has found that another one had used the same line out of turn.
    pub doubted_ps: Apart<AtomicU64>,
    /// How often a core went on although it was not its turn, so that its QEMU could serve another core.
    pub escapes: Apart<AtomicU64>,
    /// Deterministic runs: how often a core began its turn although it could not be told whether its doorbells had reached it.
    pub unsettled: Apart<AtomicU64>,
    /// Deterministic runs: 1 + the core whose turn it is; 0: nobody's.
    pub turn: Apart<AtomicU32>,
    /// By [`motet_layout::CoreId`].
    pub cores: [CoreClock; CORES_MAX],
    /// By kernel, where islands have one each: what it had exchanged with the others when nothing counted any more.
    pub messages: [MessageCounts; NODES_MAX],
}

/// What a kernel has exchanged with others.
#[repr(C)]
#[derive(Debug, Default)]
pub struct MessageCounts {
    /// By kind of message: those that it has sent.
    pub sent: [AtomicU64; MESSAGE_KINDS_MAX],
    /// By kind of message: those that it has taken.
    pub taken: [AtomicU64; MESSAGE_KINDS_MAX],
    /// Bytes of those that it has sent.
    pub bytes_sent: AtomicU64,
    /// Bytes of those that it has taken.
    pub bytes_taken: AtomicU64,
    /// Doorbells that it has rung for messages.
    pub doorbells: AtomicU64,
    /// What it has taken that was no message.
    pub refused: AtomicU64,
}

impl MessageCounts {
    /// Takes over what a kernel has counted.
    pub fn copy(&self, peers: &Peers) {
        let copy = |to: &AtomicU64, from: &AtomicU64| to.store(from.load(Relaxed), Relaxed);
        self.sent.iter().zip(&peers.sent).for_each(|(to, from)| copy(to, from));
        self.taken.iter().zip(&peers.taken).for_each(|(to, from)| copy(to, from));
        copy(&self.bytes_sent, &peers.bytes_sent);
        copy(&self.bytes_taken, &peers.bytes_taken);
        copy(&self.doorbells, &peers.doorbells);
        self.refused.store(peers.refused.iter().map(|of| of.load(Relaxed)).sum(), Relaxed);
    }
}

impl Default for ClockRegion {
    fn default() -> Self {
        Self {
            magic: AtomicU64::default(),
            quantum_ps: AtomicU64::default(),
            quantum_max_ps: AtomicU64::default(),
            quantum_least_ps: AtomicU64::default(),
            deterministic: AtomicU32::default(),
            expected: AtomicU32::default(),
            announced: AtomicU32::default(),
            started: AtomicU32::default(),
            now_ps: Apart::default(),
            exchanged_ps: Apart::default(),
            doubted_ps: Apart::default(),
            turn: Apart::default(),
            stopped: AtomicU32::default(),
            escapes: Apart::default(),
            unsettled: Apart::default(),
            cores: std::array::from_fn(|_| CoreClock::default()),
            messages: std::array::from_fn(|_| MessageCounts::default()),
        }
    }
}

impl ClockRegion {
    /// Describes a machine with `expected` cores in zeroed memory, before anybody else looks.
    pub fn set_up(&self, settings: Settings, expected: usize) {
        self.quantum_ps.store(settings.quantum_ps, Relaxed);
        self.quantum_max_ps.store(settings.quantum_max_ps, Relaxed);
        self.quantum_least_ps.store(settings.quantum_least_ps, Relaxed);
        self.deterministic.store(u32::from(settings.deterministic), Relaxed);
        self.expected.store(expected as u32, Relaxed);
        self.magic.store(REGION_MAGIC, Release);
    }

    /// Adds a hart that only the firmware has, as [`set_up`](Self::set_up). Kernels do not know its record, which says that it sleeps, and has no alarm.
    pub fn add_hidden(&self, header: &PoolHeader, core: usize) {
        self.cores[core].hidden.store(1, Relaxed);
        header.cores[core].state.store(CORE_IDLE, Relaxed);
        header.cores[core].alarm_ns.store(u64::MAX, Relaxed);
    }

    /// What it was set up with; `None` when it was not.
    pub fn settings(&self) -> Option<Settings> {
        (self.magic.load(Acquire) == REGION_MAGIC).then(|| Settings {
            quantum_ps: self.quantum_ps.load(Relaxed),
            quantum_max_ps: self.quantum_max_ps.load(Relaxed),
            quantum_least_ps: self.quantum_least_ps.load(Relaxed),
            deterministic: self.deterministic.load(Relaxed) != 0,
        })
    }
}
