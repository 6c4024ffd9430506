//! What a timed run has measured.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use motet_coherence::{StalePage, interleaved::Step};
use motet_layout::CORES_PER_ISLAND_MAX;
use motet_machine::MachineSpec;
use motet_protocol::peer::MessageKind;
use motet_record::{Passage, Probe, Row, Snapshot};
use motet_timing::{MessageCounts, Settings, host};

use super::{
    Clocks,
    stats::{
        self, CoreStats, HostStats, IslandStats, KernelStats, MachineStats, MessageStats, RegionStats, Samples,
        StalePageStats, Stats,
    },
};
use crate::{
    HostPool, fpga,
    trace::{self, Recording},
};

/// What a timed run has measured, however it ended.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// What was counted.
    pub stats: Stats,
    /// The accesses that were kept one by one, in one order; `None`: that was not asked for.
    pub accesses: Option<Vec<Step>>,
    /// When cores came by points.
    pub passages: Vec<Passage>,
    /// How often that was not kept.
    pub passages_lost: u64,
}

impl Clocks {
    /// What was measured; `recording`: what was traced. The islands have ended.
    pub fn measured(
        &self,
        machine: &MachineSpec,
        pool: &HostPool,
        command: &str,
        recording: Option<&Recording>,
    ) -> Measured {
        let mut stats = self.stats(machine, command);
        stats.kernels = self.kernels(machine, pool);
        stats.fpga = fpga::stats(pool, machine, stats.time_ps);
        stats.guests = recording.and_then(|recording| trace::guests(&recording.events, stats.time_ps));
        let accesses = self.accesses.as_ref().map(|(accesses, _)| accesses.steps().collect());
        let (passages, passages_lost) = self.passages();
        Measured { stats, accesses, passages, passages_lost }
    }

    /// When cores came by points, and how often that was not kept.
    pub(super) fn passages(&self) -> (Vec<Passage>, u64) {
        self.points.as_ref().map_or((Vec::new(), 0), |points| (points.passages.kept(), points.passages.lost()))
    }

    /// What was counted.
    fn stats(&self, machine: &MachineSpec, command: &str) -> Stats {
        let settings = self.region.settings().expect("set up in create");
        let config = self.model.config();
        let islands = machine.islands.iter().enumerate().map(|(index, island)| IslandStats {
            name: island.name.clone(),
            isa: island.isa.name().into(),
            cores: island.cores,
            hidden_harts: island.hidden_harts,
            frequency_mhz: config.islands[index].timing.frequency_mhz(),
        });
        let time_ps = self.region.now_ps.load(Relaxed);
        let probe = Probe::new(self.region, &self.model);
        // Cores that sleep have slept until the end.
        let end = probe.at(time_ps);
        let cores = self.core_stats(&end.rows);
        let stale_read_addresses = self.stale_pages();
        let regions = self.regions(&end);
        let told = doubts(settings, &cores, &regions).into_iter();
        let told = told.chain(self.record.warnings().into_iter().map(|warning| warning.to_string()));
        let told = told.chain(link_errors(&cores)).chain(stale_pages_sentence(&stale_read_addresses)).collect();
        Stats {
            schema: stats::SCHEMA,
            motet: env!("CARGO_PKG_VERSION").into(),
            command: command.into(),
            machine: MachineStats {
                description: machine.text.clone(),
                islands: islands.collect(),
                quantum_ps: settings.quantum_ps,
                quantum_max_ps: settings.quantum_max_ps,
                quantum_least_ps: settings.quantum_least_ps,
                deterministic: settings.deterministic,
            },
            time_ps,
            out_of_turn: self.region.escapes.load(Relaxed),
            unsettled: self.region.unsettled.load(Relaxed),
            host: (!settings.deterministic).then(|| self.host_stats(&cores)).flatten(),
            cores,
            regions,
            samples: self.samples(&end),
            stale_read_addresses,
            warnings: told,
            kernels: Vec::new(),
            fpga: None,
            guests: None,
        }
    }

    /// What kernels have exchanged until nothing counted any more, or until now; nothing if there is one for all islands.
    fn kernels(&self, machine: &MachineSpec, pool: &HostPool) -> Vec<KernelStats> {
        let count = machine.multikernel.map_or(0, |spec| spec.kernels);
        if self.region.stopped.load(Relaxed) == 0 {
            let kernels = pool.kernels().take(count).zip(&self.region.messages);
            kernels.for_each(|(kernel, counts)| counts.copy(&kernel.header().peers));
        }
        let islands = machine.islands.iter().take(count).zip(&self.region.messages);
        islands.map(|(island, counts)| KernelStats::of(island.name.clone(), counts)).collect()
    }

    /// Where the first stale reads were.
    fn stale_pages(&self) -> Vec<StalePageStats> {
        let config = self.model.config();
        let named = |page: StalePage| {
            let island = &config.islands[config.island_of(page.core)];
            let range = config.ranges.iter().find(|range| (range.start..range.end).contains(&page.address));
            StalePageStats {
                island: island.name.clone(),
                core: page.core - island.first_core,
                address: page.address,
                range: range.map(|range| range.name.clone()).unwrap_or_default(),
                reads: page.reads,
            }
        };
        self.model.stale_pages().into_iter().map(named).collect()
    }

    fn host_stats(&self, cores: &[CoreStats]) -> Option<HostStats> {
        let took_ns =
            self.ended_ns.get().copied().unwrap_or_else(host::monotonic_ns).saturating_sub(self.record.began()?);
        let instructions = cores.iter().map(|core| core.instructions).sum::<u64>() as f64;
        Some(HostStats { seconds: took_ns as f64 / 1e9, mips: instructions * 1e3 / took_ns.max(1) as f64 })
    }

    fn regions(&self, end: &Snapshot) -> Vec<RegionStats> {
        let region = |region: motet_record::Region| RegionStats {
            name: region.name.as_str().into(),
            entries: region.entries,
            open: region.open.into(),
            time_ps: region.time_ps,
            skew_ps: region.skew_ps,
            cores: self.core_stats(&region.cores),
        };
        self.record.regions(end).into_iter().map(region).collect()
    }

    fn samples(&self, end: &Snapshot) -> Samples {
        let samples = self.record.samples(&end.rows);
        Samples {
            interval_ps: samples.interval_ps,
            columns: motet_record::sampled_names().iter().map(|&name| name.to_owned()).collect(),
            cores: samples.cores,
        }
    }

    /// Whether a core of an island is a hart that only the firmware has.
    fn is_hidden(&self, island: usize, core: usize) -> bool {
        self.region.cores[island * CORES_PER_ISLAND_MAX + core].hidden.load(Relaxed) != 0
    }

    /// Counts by core, from those of all cores in the model's order.
    pub(super) fn core_stats(&self, rows: &[Row]) -> Vec<CoreStats> {
        let config = self.model.config();
        let one = |(number, row): (usize, &Row)| {
            let island = &config.islands[config.island_of(number)];
            let clock = motet_record::ClockCounts::of(row);
            let names = motet_coherence::counter_names().iter().map(|&name| name.to_owned());
            let awake_ps = clock.time_ps.saturating_sub(clock.idle_ps);
            CoreStats {
                island: island.name.clone(),
                core: number - island.first_core,
                hidden: self.is_hidden(config.island_of(number), number - island.first_core).into(),
                time_ps: clock.time_ps,
                idle_ps: clock.idle_ps,
                stall_ps: clock.stall_ps,
                cycles: (u128::from(awake_ps) * 1000 / u128::from(island.timing.cycle_fs.max(1))) as u64,
                instructions: clock.instructions,
                ipis_sent: clock.ipis_sent,
                ipis_received: clock.ipis_received,
                transfers: clock.transfers,
                memory: names.zip(motet_record::memory_counts(row).iter().copied()).collect(),
            }
        };
        rows.iter().enumerate().map(one).collect()
    }
}

impl KernelStats {
    fn of(island: String, counts: &MessageCounts) -> Self {
        let load = |word: &AtomicU64| word.load(Relaxed);
        let of_kind = |kind: &MessageKind| {
            let [sent, taken] = [&counts.sent, &counts.taken].map(|words| load(&words[*kind as usize]));
            (kind.name().into(), MessageStats { sent, taken })
        };
        Self {
            island,
            messages: MessageKind::ALL.iter().map(of_kind).collect(),
            bytes_sent: load(&counts.bytes_sent),
            bytes_taken: load(&counts.bytes_taken),
            doorbells: load(&counts.doorbells),
            refused: load(&counts.refused),
        }
    }
}

/// Cores that exchanged lines out of turn for so much of their time awake are told, in percent.
const DOUBT_PERCENT_MIN: f64 = 2.0;
/// The shortest quantum that users can have, in microseconds.
const SHORTEST_US: f64 = 0.1;
/// So few exchanges are not: threads that begin, or meet once, make some.
const DOUBTS_MIN: u64 = 10;

/// Where the order in which cores shared lines was not the machine's, in the whole run and in regions.
fn doubts(settings: Settings, cores: &[CoreStats], regions: &[RegionStats]) -> Vec<String> {
    let us = |ps: u64| ps as f64 / 1e6;
    let (least_us, quantum_us) = (us(settings.quantum_least_ps), us(settings.quantum_ps));
    let quantum = if settings.shrinks() { format!("{least_us} to {quantum_us}") } else { quantum_us.to_string() };
    let advice =
        if least_us > SHORTEST_US { "--quantum auto is closer to the truth" } else { "a quantum cannot be shorter" };
    let of = |what: String, cores: &[CoreStats]| {
        let is_doubtful = |core: &&CoreStats| {
            core.doubt_percent() >= DOUBT_PERCENT_MIN && core.count("doubtful_exchanges") >= DOUBTS_MIN
        };
        let doubtful = cores.iter().filter(is_doubtful);
        let of_core = |core: &CoreStats| {
            let (percent, exchanges) = (core.doubt_percent(), core.count("doubtful_exchanges"));
            format!("{} for {percent:.0} % of its time ({exchanges} exchanges)", core.label())
        };
        let all: Vec<String> = doubtful.map(of_core).collect();
        (!all.is_empty()).then(|| {
            format!(
                "TIMES CANNOT BE TRUSTED{what}: within a quantum of {quantum} us, cores used the same lines in an order that is not the \
                 machine's: {}. Results may differ by a multiple of that; {advice}",
                all.join(", ")
            )
        })
    };
    let of_regions = regions.iter().map(|region| of(format!(" in region {}", region.name), &region.cores));
    std::iter::once(of(String::new(), cores)).chain(of_regions).flatten().collect()
}

/// What the software of each core did that hardware does not do dependably where islands do not cache each other's memory.
fn link_errors(cores: &[CoreStats]) -> Vec<String> {
    let of = |core: &CoreStats| {
        let kinds = [
            ("far_atomics", "atomic operations over a link, which need not be whole there"),
            ("stale_reads", "reads that old copies in private caches might have answered"),
        ];
        let counted =
            kinds.map(|(counter, what)| (core.count(counter), what)).into_iter().filter(|(times, _)| *times != 0);
        let name = core.label();
        counted.map(|(times, what)| format!("{name}: {times} {what}")).collect::<Vec<_>>()
    };
    cores.iter().flat_map(of).collect()
}

/// Where old copies might have been read, for those who look for the reason.
fn stale_pages_sentence(pages: &[StalePageStats]) -> Option<String> {
    let words =
        |page: &StalePageStats| format!("{:#x} ({}, by {}.{})", page.address, page.range, page.island, page.core);
    let all: Vec<String> = pages.iter().map(words).collect();
    (!all.is_empty()).then(|| format!("such reads were in these pages of the pool: {}", all.join(", ")))
}
