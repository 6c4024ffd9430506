//! What a timed run measured: the content of `--stats FILE`, and all that reports are made of.
//!
//! docs/stats.md describes the file. Times are simulated picoseconds. In a deterministic run everything here is the same
//! each time, bit for bit; therefore [`Stats::host`] is absent from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// [`Stats::schema`]: grows when a field changes its meaning or goes away; new fields do not change it.
pub const SCHEMA: u32 = 1;

/// A timed run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Motet's version.
    pub motet: String,
    /// The command that the machine ran.
    pub command: String,
    /// The machine.
    pub machine: MachineStats,
    /// Simulated time that all cores had reached when the command ended.
    pub time_ps: u64,
    /// How often a core went on although it was not its turn.
    pub out_of_turn: u64,
    /// Deterministic runs: how often a core began its turn although nobody could tell whether its doorbells had reached it.
    #[serde(default)]
    pub unsettled: u64,
    /// The whole run, by core.
    pub cores: Vec<CoreStats>,
    /// Regions of interest, in order of their first beginning.
    pub regions: Vec<RegionStats>,
    /// Counts over time, by core; empty when none were taken.
    pub samples: Samples,
    /// What programs did wrong, and that the command had not ended, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The first pages of the pool in which a read might have been answered by an old copy, by core.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale_read_addresses: Vec<StalePageStats>,
    /// The kernels, where islands have one each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelStats>,
    /// The FPGA; absent from machines without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fpga: Option<FpgaStats>,
    /// Virtual machines; absent where none has run, and unless the run was for a report or a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guests: Option<GuestStats>,
    /// What depends on the host; absent from deterministic runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostStats>,
}

impl Stats {
    /// What the host, being busy, has made of the order of cores, in sentences: times may be wrong, and a deterministic run may
    /// differ from others.
    pub fn disorders(&self) -> Vec<String> {
        let counts = [
            (self.out_of_turn, "a core went on out of turn"),
            (self.unsettled, "a core began its turn before it was known that its doorbells had arrived"),
        ];
        let told = counts.into_iter().filter(|&(count, _)| count != 0);
        told.map(|(count, what)| format!("{count} times {what}, because the host was busy; times may be wrong"))
            .collect()
    }
}

/// What the kernel of an island has exchanged with others, from its first message to the command's end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelStats {
    /// Its island's name.
    pub island: String,
    /// By kind of message (`docs/protocols/messages.md`), those that were neither sent nor taken included.
    pub messages: BTreeMap<String, MessageStats>,
    /// Bytes of messages that it has sent, headers included.
    pub bytes_sent: u64,
    /// Bytes of messages that it has taken.
    pub bytes_taken: u64,
    /// Doorbells that it has rung for messages.
    pub doorbells: u64,
    /// What it has taken that was no message.
    pub refused: u64,
}

/// Messages of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageStats {
    /// How many the kernel has sent.
    pub sent: u64,
    /// How many it has taken.
    pub taken: u64,
}

/// When virtual machines ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestStats {
    /// By time: the last ones.
    pub runs: Vec<GuestRunStats>,
    /// How many earlier ones are not there.
    pub runs_lost: u64,
}

/// A core of a virtual machine runs on a core, from its dispatch until it stops there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestRunStats {
    /// The machine's number (`vm list`).
    pub machine: u32,
    /// Its core's, from 0.
    pub vcpu: u32,
    /// The island, in the machine file's order.
    pub island: usize,
    /// The core there.
    pub core: usize,
    /// From when.
    pub from_ps: u64,
    /// Until when.
    pub to_ps: u64,
}

/// What the FPGA did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FpgaStats {
    /// Requests for a region.
    pub requests: u64,
    /// Of the solutions, those that stopped what a region computed.
    pub preemptions: u64,
    /// Bitstreams that were loaded.
    pub loads: u64,
    /// Requests that failed: the port did, or a bitstream was wrong.
    pub load_errors: u64,
    /// The regions, in the machine file's order.
    pub regions: Vec<FpgaRegionStats>,
    /// What regions were, in the order of happening: the last ones.
    pub changes: Vec<FpgaChangeStats>,
    /// How many earlier ones are not there.
    pub changes_lost: u64,
}

/// What a region of the FPGA did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FpgaRegionStats {
    /// Frames computed.
    pub frames: u64,
    /// Bitstreams loaded.
    pub loads: u64,
    /// For how long it was in each state.
    pub state_ps: BTreeMap<String, u64>,
}

/// What a region of the FPGA is from a moment on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FpgaChangeStats {
    /// The moment.
    pub at_ps: u64,
    /// The region's index.
    pub region: usize,
    /// What it does.
    pub state: String,
    /// The accelerator that it is; absent while it is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<String>,
    /// The process whose client has it; absent if it is nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

impl FpgaChangeStats {
    /// For people: what it is, whose, and what it does.
    pub fn title(&self) -> String {
        let is = self.accelerator.as_deref();
        match (is, self.process) {
            (Some(is), Some(process)) if self.state != "idle" => format!("{is} of {process}: {}", self.state),
            (Some(is), _) => format!("{is}: {}", self.state),
            (None, _) => self.state.clone(),
        }
    }
}

/// A page with `stale_reads`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StalePageStats {
    /// The reader's island.
    pub island: String,
    /// The reader, within the island.
    pub core: usize,
    /// The page's offset into the pool.
    pub address: u64,
    /// The range of the pool that it is in.
    pub range: String,
    /// Such reads in it.
    pub reads: u64,
}

/// The machine that was simulated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineStats {
    /// Its description, in TOML.
    pub description: String,
    /// The islands, in order.
    pub islands: Vec<IslandStats>,
    /// Farthest that one running core may be ahead of another.
    pub quantum_ps: u64,
    /// The same after islands have exchanged nothing for long.
    pub quantum_max_ps: u64,
    /// The same while cores use the same lines out of turn.
    #[serde(default)]
    pub quantum_least_ps: u64,
    /// One core ran at a time.
    pub deterministic: bool,
}

/// An island.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IslandStats {
    /// Its name.
    pub name: String,
    /// Its instruction set.
    pub isa: String,
    /// Cores that run.
    pub cores: usize,
    /// Harts that only its firmware has, which are cores in [`Stats::cores`], too.
    #[serde(default)]
    pub hidden_harts: usize,
    /// Its cores' clock frequency.
    pub frequency_mhz: u64,
}

/// What one core did in the whole run or in a region. Ratios are derived, not stored: see the methods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreStats {
    /// Its island's name.
    pub island: String,
    /// Its index in the island.
    pub core: usize,
    /// 1: it is a hart that only the firmware has; those come behind the others.
    #[serde(default)]
    pub hidden: u64,
    /// Time that passed on its clock.
    pub time_ps: u64,
    /// Of it, asleep.
    pub idle_ps: u64,
    /// Of it, waiting for memory.
    pub stall_ps: u64,
    /// Cycles that it was awake.
    pub cycles: u64,
    /// Instructions executed.
    pub instructions: u64,
    /// Doorbells that it rang for other cores.
    pub ipis_sent: u64,
    /// Times that another core's doorbell woke it.
    pub ipis_received: u64,
    /// Descriptors that its migration engine has transferred.
    #[serde(default)]
    pub transfers: u64,
    /// What its caches did, by the names of [`motet_coherence::counter_names`].
    pub memory: BTreeMap<String, u64>,
}

/// A region of interest: what the machine did between `motet_roi_begin` and `motet_roi_end`, all entries added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionStats {
    /// Its name.
    pub name: String,
    /// How often it was entered; while the machine is in it, further entries do not count.
    pub entries: u64,
    /// 1 when the command ended inside it.
    pub open: u64,
    /// Time in it, on the clocks of the cores that began and ended it.
    pub time_ps: u64,
    /// Largest distance between the clocks of running cores when it began or ended: how exact the cores' shares are.
    pub skew_ps: u64,
    /// By core, in the order of [`Stats::cores`].
    pub cores: Vec<CoreStats>,
}

/// Counts over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Time between samples.
    pub interval_ps: u64,
    /// Names of the columns: `time_ps` first; each counts from the beginning of the run.
    pub columns: Vec<String>,
    /// For each core, in the order of [`Stats::cores`]: rows.
    pub cores: Vec<Vec<Vec<u64>>>,
}

/// What depends on the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostStats {
    /// Seconds from when time began to the command's end.
    pub seconds: f64,
    /// Million instructions per second, all cores.
    pub mips: f64,
}

impl CoreStats {
    /// What it is called in tables and plots: a hidden hart has an `h`.
    pub fn label(&self) -> String {
        format!("{}.{}{}", self.island, self.core, if self.hidden == 0 { "" } else { "h" })
    }

    /// A count of its caches; 0 when there is none of that name.
    pub fn count(&self, name: &str) -> u64 {
        self.memory.get(name).copied().unwrap_or(0)
    }

    /// Instructions per cycle while awake.
    pub fn instructions_per_cycle(&self) -> f64 {
        self.instructions as f64 / self.cycles.max(1) as f64
    }

    /// Part of the time awake in which others were out of turn with lines that it used, in percent.
    pub fn doubt_percent(&self) -> f64 {
        let awake_ps = self.time_ps.saturating_sub(self.idle_ps).max(1);
        self.count("doubtful_ps") as f64 * 100.0 / awake_ps as f64
    }

    /// Share of the time awake that memory took, 0 to 1.
    pub fn stall_share(&self) -> f64 {
        self.stall_ps as f64 / self.time_ps.saturating_sub(self.idle_ps).max(1) as f64
    }
}
