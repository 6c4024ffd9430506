//! Null calls there and back: what they take, on what they spend it, and what the machine would allow.

use std::{fmt::Write, time::Duration};

use motet_coherence::{Config, Kind, Model, Picoseconds, Sharing, allocate};
use motet_error::{Error, ErrorKind, Result};
use motet_fabric::stats::CoreStats;
use motet_layout::{Descriptor, Isa};
use motet_machine::{Crossing, MachineSpec, local_ranges};

use super::{
    machines::{Bench, FLICK_QUANTUM_US, POLLING_QUANTUM_US, Protocol, QUANTUM_US, island_of, sum},
    paper,
};
use crate::{
    motet::Described,
    project::{self, ISAS},
    report::{Measurement, number},
};

/// Targets in microseconds, on coherent machines: with sleeping and with polling cores.
pub const COHERENT_TARGET_US: f64 = 6.0;
pub const POLLING_TARGET_US: f64 = 2.5;
/// The same on the Flick machine.
pub const LINK_TARGET_US: f64 = 12.0;
const AT_MOST: Duration = Duration::from_secs(600);
/// The machines of Stramash's memory models.
const STRAMASH: [&str; 3] = ["separated", "shared", "fully-shared"];

/// Metrics of null calls on the Flick machine, of this kernel and of Flick's protocol, begin with these ...
const NULL_CALL: &str = "null_call_";
const PROTOCOL: &str = Protocol::Flick.prefix();
/// ... and end with these.
pub const WAYS: [&str; 2] = ["host_nxp_host_us", "nxp_host_nxp_us"];
/// How much faster a call has to be than Flick's protocol on the same machine.
pub const OVER_PROTOCOL_TARGET: f64 = 1.7;

/// Calls from one instruction set to another and back.
#[derive(Clone, Debug)]
pub struct NullCall {
    /// The metric.
    pub metric: String,
    /// The machine's file name, and how its cores are idle.
    pub machine: String,
    /// Caller and callee.
    pub isas: [Isa; 2],
    /// Microseconds of a call.
    pub us: f64,
    /// Microseconds that a system call of the caller takes that does next to nothing.
    pub system_call_us: f64,
    /// A doorbell to each that does not poll, and the fewest lines that must move.
    pub limit_us: f64,
    /// Where the time goes.
    pub parts: Parts,
    /// What the paper says.
    pub reference: Option<f64>,
    /// What it is to reach.
    pub target: Option<f64>,
    described: String,
}

/// On what the cores of both islands spend a call, in microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// By [`PARTS`], of the caller's island and of the callee's.
    pub cores: Vec<[f64; 2]>,
    /// Instructions of both.
    pub instructions: [f64; 2],
    /// L1 misses of both.
    pub misses: [f64; 2],
    /// How often either rang the other.
    pub rings: [f64; 2],
    /// What hardware would not have done so, by [`ERRORS`], of both.
    pub errors: [[f64; 2]; 2],
    /// Waiting for doorbells.
    pub doorbells_us: f64,
    /// Polling for what is under way over a link.
    pub transit_us: f64,
    /// Counted twice above: both cores were busy, or one while the doorbell was under way. 0 where cores poll.
    pub overlap_us: f64,
}

/// Parts of a core's time: names, and the counters of stalls in them. The first is what no stall is.
pub const PARTS: [(&str, &[&str]); 7] = [
    ("instructions", &[]),
    ("caches", &["stall_l1_ps", "stall_l2_ps", "stall_l3_ps", "stall_tlb_ps"]),
    ("memory", &["stall_near_ps", "stall_far_ps"]),
    ("coherence", &["stall_coherence_ps"]),
    ("uncached", &["stall_uncached_ps", "stall_link_ps"]),
    ("devices", &["stall_device_ps"]),
    ("traps", &["trap_ps"]),
];

/// What memory beyond a link does not dependably do: the names, and the counters.
pub const ERRORS: [(&str, &str); 2] =
    [("reads of stale copies", "stale_reads"), ("atomics over the link", "far_atomics")];

/// What is to be measured.
struct Wanted<'a> {
    metric: String,
    machine: &'a Described,
    quantum_us: &'a str,
    polls: bool,
    isas: [Isa; 2],
    reference: Option<f64>,
    target: Option<f64>,
}

/// Measures all pairs that are wanted.
///
/// # Errors
/// A run fails, or a function did not run where it should.
pub fn measure(bench: &Bench, count: u64, quick: bool) -> Result<Vec<NullCall>> {
    let program = bench.program("calls")?;
    let mut calls = Vec::new();
    let mut add = |wanted: &Wanted<'_>| -> Result<()> {
        let call = one(bench, &program, count, wanted)?;
        eprintln!(
            "motet: null call {} -> {} -> {0} on {}: {} us",
            call.isas[0].name(),
            call.isas[1].name(),
            call.machine,
            number(call.us)
        );
        calls.push(call);
        Ok(())
    };
    let flick = bench.machine("flick")?;
    let migrating = bench.migrating(&flick)?;
    let (host, nxp) = (Isa::X86_64, Isa::RiscV64);
    for (machine, start, target) in [(&flick, NULL_CALL, Some(LINK_TARGET_US)), (&migrating, PROTOCOL, None)] {
        for (way, isas, reference) in
            [(WAYS[0], [host, nxp], paper::HOST_NXP_HOST_US), (WAYS[1], [nxp, host], paper::NXP_HOST_NXP_US)]
        {
            let (metric, reference) = (format!("{start}{way}"), Some(reference));
            add(&Wanted { metric, machine, quantum_us: FLICK_QUANTUM_US, polls: false, isas, reference, target })?;
        }
    }
    let coherent = bench.machine("default")?;
    let mut machines = vec![(coherent, String::new(), pairs(&ISAS))];
    for model in STRAMASH.iter().filter(|_| !quick) {
        let name = format!("stramash-{model}");
        let pairs = pairs(&[Isa::X86_64, Isa::AArch64]);
        machines.push((bench.machine(&name)?, format!("_{}", name.replace('-', "_")), pairs));
    }
    for (sleeping, name, pairs) in &machines {
        let polling = bench.polling(sleeping)?;
        for isas in pairs {
            for (machine, how, quantum_us, target_us) in [
                (sleeping, "", QUANTUM_US, COHERENT_TARGET_US),
                (&polling, "_polling", POLLING_QUANTUM_US, POLLING_TARGET_US),
            ] {
                let metric = format!("null_call_coherent{how}_us{name}_{}_{}", isas[0].name(), isas[1].name());
                let (polls, isas, target) = (!how.is_empty(), *isas, Some(target_us));
                add(&Wanted { metric, machine, quantum_us, polls, isas, reference: None, target })?;
            }
        }
    }
    Ok(calls)
}

/// Microseconds of a call on a machine that another experiment describes, whose cores poll or do not. Its doorbells may be faster
/// than those of the shipped machines, so quanta are short whether cores poll or not.
///
/// # Errors
/// As [`measure`].
pub fn us_on(bench: &Bench, machine: &Described, polls: bool, isas: [Isa; 2], count: u64) -> Result<f64> {
    let (quantum_us, metric) = (POLLING_QUANTUM_US, String::new());
    let wanted = Wanted { metric, machine, quantum_us, polls, isas, reference: None, target: None };
    one(bench, &bench.program("calls")?, count, &wanted).map(|call| call.us)
}

/// All ordered pairs.
fn pairs(isas: &[Isa]) -> Vec<[Isa; 2]> {
    let others = |from: &Isa| isas.iter().filter(|to| *to != from).map(|to| [*from, *to]).collect::<Vec<_>>();
    isas.iter().flat_map(others).collect()
}

fn one(bench: &Bench, program: &std::path::PathBuf, count: u64, wanted: &Wanted<'_>) -> Result<NullCall> {
    let [from, to] = wanted.isas;
    let machine = wanted.machine;
    let islands = [island_of(machine, from)?, island_of(machine, to)?];
    let command = format!("/in/calls {} {} {count}", from.name(), to.name());
    let run = bench.run(machine, wanted.quantum_us, &[program], &command, AT_MOST)?;
    let crossed = run.crossings(islands[0], islands[1])?;
    if crossed != count + 1 {
        let message = format!("{command}: {crossed} calls crossed, and {} should have", count + 1);
        return Err(Error::new(ErrorKind::Software, message));
    }
    let calls = run.region("calls")?;
    let names = islands.map(|island| machine.machine.islands[island].name.as_str());
    let us = calls.time_ps as f64 / 1e6 / count as f64;
    Ok(NullCall {
        metric: wanted.metric.clone(),
        machine: machine.file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        isas: wanted.isas,
        us,
        system_call_us: run.region("kernel")?.time_ps as f64 / 1e6 / count as f64,
        limit_us: limit_us(&machine.machine, islands)?,
        parts: parts(&calls.cores, names, count, us, signals(&machine.machine, islands)?, wanted.polls),
        reference: wanted.reference,
        target: wanted.target,
        described: project::describe(&machine.machine)?,
    })
}

/// How one core tells another that there is something for it, and what that takes; by Flick's protocol with the transfer before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// It rings it.
    Doorbell { latency_ps: u64 },
    /// It stores what the other one, which polls, looks at.
    Store { transit_ps: u64 },
}

impl Signal {
    fn doorbell_ps(self) -> u64 {
        if let Self::Doorbell { latency_ps } = self { latency_ps } else { 0 }
    }

    fn transit_ps(self) -> u64 {
        if let Self::Store { transit_ps } = self { transit_ps } else { 0 }
    }
}

/// The signals there and back.
fn signals(machine: &MachineSpec, [from, to]: [usize; 2]) -> Result<[Signal; 2]> {
    let config = machine.model_config()?;
    let transfer_ps = match machine.crossing {
        Crossing::Direct => None,
        Crossing::Flick => Some(config.dma_ps(size_of::<Descriptor>() as u64)),
    };
    Ok([(from, to), (to, from)].map(|(from, to)| {
        let link = &config.links[from][to];
        match machine.islands[to].poll_us {
            0 => Signal::Doorbell { latency_ps: link.doorbell_ps + transfer_ps.unwrap_or(0) },
            _ => Signal::Store { transit_ps: transfer_ps.unwrap_or(link.transit_ps) },
        }
    }))
}

fn parts(cores: &[CoreStats], islands: [&str; 2], count: u64, us: f64, signals: [Signal; 2], polls: bool) -> Parts {
    let per_call = |sum: u64| sum as f64 / count as f64;
    let us_of = |of: &dyn Fn(&CoreStats) -> u64| islands.map(|island| per_call(sum(cores, island, of)) / 1e6);
    let counts = |of: &dyn Fn(&CoreStats) -> u64| islands.map(|island| per_call(sum(cores, island, of)));
    let parts = PARTS.map(|(name, counters)| match name {
        "instructions" => {
            us_of(&|core| core.time_ps.saturating_sub(core.idle_ps + core.stall_ps + core.count("trap_ps")))
        }
        _ => us_of(&|core| counters.iter().map(|counter| core.count(counter)).sum()),
    });
    let rings = counts(&|core| core.ipis_received);
    // Who was woken is who waited for it.
    let doorbells_ps = signals.map(|signal| signal.doorbell_ps() as f64);
    let doorbells_us = (rings[1] * doorbells_ps[0] + rings[0] * doorbells_ps[1]) / 1e6;
    let transit_us = signals.map(Signal::transit_ps).iter().sum::<u64>() as f64 / 1e6;
    let busy_us: f64 = parts.iter().flatten().sum();
    Parts {
        cores: parts.into(),
        instructions: counts(&|core| core.instructions),
        misses: counts(&|core| core.count("l1i_misses") + core.count("l1d_misses")),
        rings,
        errors: ERRORS.map(|(_, counter)| counts(&|core| core.count(counter))),
        doorbells_us,
        transit_us,
        overlap_us: if polls { 0.0 } else { (busy_us + doorbells_us + transit_us - us).max(0.0) },
    }
}

/// What two cores need that do nothing but tell each other: a fault of the caller, a system call of the callee, a return on each, a doorbell to each that does not poll,
/// which must tell its interrupt controller that it came, a store's way to each that does, and a line each way that one writes and the other reads, wherever in
/// the pool that takes least.
fn limit_us(machine: &MachineSpec, [from, to]: [usize; 2]) -> Result<f64> {
    let config = machine.model_config()?;
    let cores = [from, to].map(|island| config.islands[island].first_core);
    // The first piece of the pool, which begins with its first byte.
    let pieces = [from, to].map(|island| {
        let spec = &machine.islands[island];
        local_ranges(spec.isa, spec.private, machine.pool.size)
            .first()
            .map_or((0, 0), |&(_, local, size)| (local, size))
    });
    let bases = pieces.map(|(local, _)| local);
    let in_both = pieces[0].1.min(pieces[1].1);
    let places = places(&config, [from, to], bases, in_both);
    let region = allocate(Model::region_words(&config));
    let failed = |what: &str| Error::new(ErrorKind::Software, format!("the model of {what} cannot be made"));
    let model = Model::create(config.clone(), &region, Sharing::OneAtATime).map_err(|_| failed("the machine"))?;
    let (Some(caller), Some(callee)) = (model.core(cores[0]), model.core(cores[1])) else {
        return Err(failed("the cores"));
    };
    let mut both = [caller, callee];
    let least = |both: &mut [motet_coherence::Core<'_>; 2], writer: usize, line: u64| {
        let costs = places.iter().map(|place| {
            let mut last = 0;
            // Until it costs the same each time.
            for _ in 0..4 {
                let at = place + line;
                let Picoseconds(write) = both[writer].access(Kind::Store, bases[writer] + at, 8);
                let Picoseconds(read) = both[1 - writer].access(Kind::Load, bases[1 - writer] + at, 8);
                last = write + read;
            }
            last
        });
        costs.min().unwrap_or(0)
    };
    let lines = least(&mut both, 0, 0) + least(&mut both, 1, 64);
    let signals = signals(machine, [from, to])?.map(|signal| signal.doorbell_ps() + signal.transit_ps());
    let traps = [(from, true), (to, false)].map(|(island, faults)| {
        let traps = &config.islands[island].timing.traps;
        let entry_ps = if faults { traps.entry_ps } else { traps.syscall_entry_ps };
        let polls = machine.islands[island].poll_us != 0;
        entry_ps + traps.syscall_exit_ps + if polls { 0 } else { traps.end_of_interrupt_ps }
    });
    Ok((lines + signals.iter().chain(&traps).sum::<u64>()) as f64 / 1e6)
}

/// Offsets below `end` in the pool of one line of each kind of memory there: where segments of one of the islands begin.
fn places(config: &Config, islands: [usize; 2], bases: [u64; 2], end: u64) -> Vec<u64> {
    let of = |(island, base): (usize, u64)| {
        let starts = config.islands[island].segments.iter().map(move |segment| segment.local.wrapping_sub(base));
        starts.filter(move |&offset| offset < end)
    };
    islands.into_iter().zip(bases).flat_map(of).collect()
}

/// The figures of all calls, and the slowest of each kind.
pub fn measurements(calls: &[NullCall], count: u64) -> Vec<Measurement> {
    let measurement = |metric: String, value: f64, call: &NullCall, what: &str| Measurement {
        metric,
        value,
        unit: "us",
        machine: call.described.clone(),
        reference: None,
        target: None,
        source: format!("machines/{}.toml, {count} calls; {what}", call.machine),
    };
    let mut all = Vec::new();
    for (start, metric) in [
        ("null_call_coherent_us_", "null_call_coherent_us"),
        ("null_call_coherent_polling_us_", "null_call_coherent_polling_us"),
    ] {
        let of = calls.iter().filter(|call| call.metric.starts_with(start) && !call.metric.contains("stramash"));
        if let Some(slowest) = of.max_by(|a, b| a.us.total_cmp(&b.us)) {
            let what = "the slowest pair of instruction sets";
            all.push(Measurement { target: slowest.target, ..measurement(metric.into(), slowest.us, slowest, what) });
        }
    }
    all.extend(over_protocol(calls));
    for call in calls {
        let on_flick = call.machine.starts_with("flick");
        let what = if on_flick { "reference: Flick, Table III" } else { "there and back" };
        let (reference, target) = (call.reference, call.target);
        all.push(Measurement { reference, target, ..measurement(call.metric.clone(), call.us, call, what) });
        if !on_flick {
            continue;
        }
        let name = call.metric.trim_end_matches("_us");
        let limit = "traps, doorbells to who sleeps, and a line each way at the model's latencies";
        all.push(measurement(format!("{name}_limit_us"), call.limit_us, call, limit));
        let parts = &call.parts;
        for ((part, _), [caller, callee]) in PARTS.iter().zip(&parts.cores) {
            for (who, us) in [("caller", caller), ("callee", callee)] {
                all.push(measurement(format!("{name}_{who}_{part}_us"), *us, call, "part of the call"));
            }
        }
        let shared = [("doorbells", parts.doorbells_us), ("transit", parts.transit_us), ("overlap", parts.overlap_us)];
        for (part, us) in shared {
            all.push(measurement(format!("{name}_{part}_us"), us, call, "part of the call"));
        }
        for ((_, counter), both) in ERRORS.iter().zip(parts.errors) {
            let what = "in a call: what the link's memory does not dependably do";
            let sum = both.iter().sum();
            all.push(Measurement { unit: "1", ..measurement(format!("{name}_{counter}"), sum, call, what) });
        }
    }
    all
}

/// Calls that were measured both by Flick's protocol and by this kernel's, on the same machine.
fn by_both_protocols(calls: &[NullCall]) -> impl Iterator<Item = [&NullCall; 2]> {
    let of = |start: &str, way: &str| calls.iter().find(|call| call.metric == format!("{start}{way}"));
    WAYS.into_iter().filter_map(move |way| Some([of(PROTOCOL, way)?, of(NULL_CALL, way)?]))
}

/// How much faster calls are than by Flick's protocol: the smaller ratio of both ways.
fn over_protocol(calls: &[NullCall]) -> Option<Measurement> {
    let ratios = by_both_protocols(calls).map(|[flick, call]| (flick.us / call.us, call));
    let (ratio, call) = ratios.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
    Some(Measurement {
        metric: "null_call_over_flick_protocol".into(),
        value: ratio,
        unit: "Flick's time / ours",
        machine: call.described.clone(),
        reference: None,
        target: Some(OVER_PROTOCOL_TARGET),
        source: "machines/flick.toml with crossing = \"flick\" and without, the smaller of both ways".into(),
    })
}

/// The headings of [`columns`].
pub const COLUMNS: [&str; 5] =
    ["us", "Flick's paper", "its protocol, on this machine", "Motet", "Flick's time / Motet's"];

/// Microseconds of null calls on the Flick machine: the paper's, those of its protocol on this machine, and Motet's.
pub fn columns(calls: &[NullCall]) -> Vec<[String; 5]> {
    let row = |[flick, ours]: [&NullCall; 2]| {
        let [from, to] = ours.isas.map(Isa::name);
        let paper = ours.reference.map_or("–".into(), number);
        [format!("{from} to {to}"), paper, number(flick.us), number(ours.us), number(flick.us / ours.us)]
    };
    by_both_protocols(calls).map(row).collect()
}

/// Rows of a call's break-down: what, the caller's microseconds, the callee's.
pub fn rows(call: &NullCall) -> Vec<[String; 3]> {
    let parts = &call.parts;
    let mut rows: Vec<[String; 3]> = PARTS
        .iter()
        .zip(&parts.cores)
        .map(|((name, _), us)| [format!("{name}, us"), number(us[0]), number(us[1])])
        .collect();
    let both = |what: &str, values: [f64; 2]| [what.to_owned(), number(values[0]), number(values[1])];
    rows.push(both("instructions executed", parts.instructions));
    rows.push(both("L1 misses", parts.misses));
    rows.push(both("woken by doorbells", parts.rings));
    for ((what, _), values) in ERRORS.iter().zip(parts.errors) {
        rows.push(both(what, values));
    }
    let one = |what: &str, us: f64| [what.to_owned(), number(us), String::new()];
    rows.push(one("doorbells, us", parts.doorbells_us));
    rows.push(one("stores under way, us", parts.transit_us));
    rows.push(one("at the same time, us", -parts.overlap_us));
    rows.push(one("whole call, us", call.us));
    rows.push(one("physical limit, us", call.limit_us));
    rows.push(one("a system call, us", call.system_call_us));
    rows
}

/// The break-downs, for people.
pub fn table(calls: &[NullCall]) -> String {
    let mut text = String::new();
    let columns = columns(calls);
    for [call, paper, protocol, ours, ratio] in
        (!columns.is_empty()).then(|| COLUMNS.map(str::to_owned)).iter().chain(&columns)
    {
        let _ = writeln!(text, "  {call:<18}{paper:>14}{protocol:>32}{ours:>10}{ratio:>25}");
    }
    for call in calls.iter().filter(|call| call.machine.starts_with("flick") || call.machine == "default") {
        let [from, to] = call.isas.map(Isa::name);
        let _ = writeln!(text, "\nnull call {from} -> {to} -> {from} on {}", call.machine);
        let _ = writeln!(text, "  {:<24}{:>12}{:>12}", "", "caller", "callee");
        for [what, caller, callee] in rows(call) {
            let _ = writeln!(text, "  {:<24}{:>12}{:>12}", what, caller, callee);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str) -> MachineSpec {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        MachineSpec::load(&root.join("machines").join(name)).unwrap()
    }

    #[test]
    fn limits_are_traps_doorbells_and_two_lines() {
        // Only the host is rung; each reads its own memory, where the other's store has left
        // no copy of. A fault or a system call, a return and the end of an interrupt on the host, and 8 cycles of 200 MHz.
        for (islands, entry) in [([0, 1], 715.0), ([1, 0], 79.0)] {
            let traps = (entry + 71.0 + 71.0) / 2400.0 + 8.0 / 200.0;
            let flick = limit_us(&machine("flick.toml"), islands).unwrap();
            // A doorbell, half of a load's 825 ns to the board, which polls, 300 cycles of the host's memory, and the board's record;
            // and the link takes 4 ns for the host's store.
            assert!((flick - traps - (2.0 + 0.412 + 0.125 + 0.040 + 0.004)).abs() < 0.001, "{flick}");
        }
        // Stramash's Shared: a write that takes the line from the other island, and a read that gets it, twice.
        let mut shared = machine("stramash-shared.toml");
        let sleeping = limit_us(&shared, [0, 1]).unwrap();
        shared.islands.iter_mut().for_each(|island| island.poll_us = 50);
        let polling = limit_us(&shared, [0, 1]).unwrap();
        let traps = (715.0 + 71.0) / 2100.0 + 141.0 / 2000.0;
        assert!((0.6..1.5).contains(&(polling - traps)), "{polling}");
        let ends = 71.0 / 2100.0 + 71.0 / 2000.0;
        assert!((sleeping - polling - 4.0 - ends).abs() < 1e-5, "{sleeping}");
    }

    #[test]
    fn a_transfer_is_before_what_tells_of_it() {
        let mut flick = machine("flick.toml");
        let direct = [Signal::Store { transit_ps: 412_000 }, Signal::Doorbell { latency_ps: 2_000_000 }];
        assert_eq!(signals(&flick, [0, 1]).unwrap(), direct);
        flick.crossing = Crossing::Flick;
        // 1000 ns, and 160 bytes at 130 ns a KiB.
        let transferred = [Signal::Store { transit_ps: 1_020_313 }, Signal::Doorbell { latency_ps: 3_020_313 }];
        assert_eq!(signals(&flick, [0, 1]).unwrap(), transferred);
    }

    fn call(start: &str, way: &str, us: f64) -> NullCall {
        NullCall {
            metric: format!("{start}{way}"),
            machine: "flick".into(),
            isas: [Isa::X86_64, Isa::RiscV64],
            us,
            system_call_us: 0.0,
            limit_us: 0.0,
            parts: Parts::default(),
            reference: Some(18.3),
            target: None,
            described: String::new(),
        }
    }

    #[test]
    fn both_protocols_stand_side_by_side() {
        let [one, other] = WAYS;
        let mut calls = vec![call(NULL_CALL, one, 9.0), call(NULL_CALL, other, 10.0), call(PROTOCOL, one, 18.0)];
        assert_eq!(columns(&calls), [["x86_64 to riscv64", "18.30", "18.00", "9.000", "2.000"].map(str::to_owned)]);
        calls.push(call(PROTOCOL, other, 16.0));
        let smaller = over_protocol(&calls).unwrap();
        assert_eq!((smaller.metric.as_str(), smaller.value), ("null_call_over_flick_protocol", 1.6));
        assert_eq!(over_protocol(&calls[..2]).map(|measurement| measurement.value), None);
        assert!(table(&calls).contains("Flick's paper") && !table(&calls[..2]).contains("Flick's paper"));
    }

    #[test]
    fn every_ordered_pair_is_measured() {
        let pairs = pairs(&ISAS);
        assert_eq!(pairs.len(), 6);
        assert!(pairs.iter().all(|[from, to]| from != to));
    }

    fn core(island: &str, time_ps: u64, idle_ps: u64, stall_ps: u64) -> CoreStats {
        let memory = [("stall_far_ps".to_owned(), stall_ps), ("l1d_misses".to_owned(), 4)].into();
        CoreStats {
            island: island.into(),
            time_ps,
            idle_ps,
            stall_ps,
            instructions: 100,
            ipis_received: 2,
            memory,
            ..CoreStats::default()
        }
    }

    #[test]
    fn parts_add_up_to_the_call() {
        // Two calls of 10 us: 3 us on the caller's core, 4 us on the callee's, two doorbells of 2 us, 1 us at the same time.
        let cores = [core("a", 20_000_000, 14_000_000, 2_000_000), core("b", 20_000_000, 12_000_000, 6_000_000)];
        let doorbell = Signal::Doorbell { latency_ps: 2_000_000 };
        let parts = parts(&cores, ["a", "b"], 2, 10.0, [doorbell; 2], false);
        assert_eq!(parts.cores[0], [2.0, 1.0]);
        assert_eq!(parts.cores[2], [1.0, 3.0]);
        assert_eq!((parts.instructions, parts.misses), ([50.0, 50.0], [2.0, 2.0]));
        assert_eq!(parts.doorbells_us, 4.0);
        assert!((parts.overlap_us - 1.0).abs() < 1e-9, "{parts:?}");
    }
}
