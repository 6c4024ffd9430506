//! The FPGA of `machines/embedded.toml`: what allocations take by each path, how long they wait, and frames in hardware and software.

use std::{path::Path as FilePath, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::stats::{FpgaChangeStats, FpgaStats};
use motet_machine::{FpgaSpec, ManagerSpec};
use motet_wcet::{Analysis, Bound};

use super::{
    moments::Spread,
    paper::{ACCELERATORS, Accelerator, LOAD_US, OVERHEAD_US, PATHS, Path, WHOLE_BYTES, manager_us, operation_us},
};
use crate::{
    flick::machines::Bench as Machines,
    project::{self, Project},
    report::Measurement,
};

/// How far cores may be apart, in microseconds. There is one, whose interrupts are taken at that time at the latest.
const QUANTUM_US: &str = "1";
const AT_MOST: Duration = Duration::from_secs(900);
/// Stores by each path and accelerator; half of them with cold caches.
const ROUNDS: u32 = 26;
const QUICK_ROUNDS: u32 = 4;
/// Frames by software.
const FRAMES: u32 = 4;

/// A store that was an allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct Store {
    /// How it went.
    pub path: &'static Path,
    is_cold: bool,
    accelerator: String,
    /// From the store until it was executed, without reading the clock.
    latency_us: f64,
    /// Of it, until what was stopped had come to the end of its frame.
    wait_us: f64,
    /// The part of it that the reconfiguration took.
    load_us: f64,
    /// Of it, the manager.
    manager_us: f64,
    /// Of it, from the store until the FPGA has the request.
    request_us: f64,
    /// Of it, from the registers' being connected until the store is executed.
    resume_us: f64,
}

impl Store {
    /// One with warm caches, from one time to another, by what regions did meanwhile. `None`: it did not go this way.
    pub fn of(
        path: &'static Path,
        changes: &[&FpgaChangeStats],
        [from_us, to_us]: [f64; 2],
        fpga: &FpgaSpec,
    ) -> Option<Self> {
        let spent = |state: &str| time_in(changes, state);
        let manager = &fpga.manager;
        let solution_ns = if path.loads { manager.reconfigure_ns } else { manager.assign_ns };
        let wait_us = if path.stops { spent("preempt") - (manager.stop_ns + solution_ns) as f64 / 1e3 } else { 0.0 };
        let load_us = if path.loads { spent("reconfig") - manager.port_ns as f64 / 1e3 } else { 0.0 };
        let has_gone = [spent("preempt") > 0.0, spent("reconfig") > 0.0] == [path.stops, path.loads];
        if !has_gone || wait_us < 0.0 || load_us < 0.0 {
            return None;
        }
        let [request_us, resume_us] = match (changes.first(), changes.iter().rfind(|change| change.state == "hold")) {
            (Some(first), Some(last)) if path.stops || path.loads => {
                let asked_ns = manager.search_ns + if path.stops { manager.preempt_ns } else { manager.reconfigure_ns };
                [first.at_ps as f64 / 1e6 - asked_ns as f64 / 1e3 - from_us, to_us - last.at_ps as f64 / 1e6]
            }
            // The kernel's alone.
            _ => [0.0, to_us - from_us],
        };
        Some(Self {
            path,
            is_cold: false,
            accelerator: String::new(),
            latency_us: to_us - from_us,
            wait_us,
            load_us,
            manager_us: managed_ns(path, manager) as f64 / 1e3,
            request_us,
            resume_us,
        })
    }

    /// What it took without its waits.
    pub fn overhead_us(&self) -> f64 {
        self.latency_us - self.wait_us - self.load_us
    }
}

/// Latencies of several stores.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Overhead {
    /// Their mean.
    pub mean_us: f64,
    /// The longest one.
    pub max_us: f64,
}

/// A frame of an accelerator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Frame {
    /// From START to OVER.
    pub hardware_us: f64,
    /// By a program.
    pub software_us: f64,
}

/// All results of the experiment.
#[derive(Debug)]
pub struct Results {
    stores: Vec<Store>,
    fpga: FpgaSpec,
    bounds: Vec<Bound>,
    /// Reconfigurations, by region.
    loads_us: Vec<f64>,
    /// In the order of [`ACCELERATORS`].
    pub frames: Vec<Frame>,
    /// From the end of a frame until the program runs that waits for its interrupt, in microseconds.
    pub interrupts: Spread,
    machine: String,
}

/// Runs all measurements.
///
/// # Errors
/// The program does not compile, or a run fails.
pub fn measure(quick: bool) -> Result<Results> {
    let project = Project::find()?;
    let folder = project.scratch("ker-one")?;
    let machines = Machines { project, folder };
    let program = machines.compile(FilePath::new("user/ker-one/accelerators.c"))?;
    let machine = machines.machine("embedded")?;
    let run = |words: &str| {
        let command = format!("/in/accelerators {words}");
        machines.run_with(&machine, QUANTUM_US, &["--deterministic"], &[&program], &command, AT_MOST)
    };
    let rounds = if quick { QUICK_ROUNDS } else { ROUNDS };
    let allocated = run(&format!("allocate {rounds}"))?;
    let fpga = machine.machine.fpga.clone().ok_or_else(|| damaged("the machine has no FPGA"))?;
    let stats = allocated.stats.fpga.as_ref().ok_or_else(|| damaged("no statistics of the FPGA"))?;
    let stores = stores(&allocated.output, stats, &fpga)?;
    let interrupted = run(&format!("interrupts {rounds}"))?;
    let history = interrupted.stats.fpga.as_ref().ok_or_else(|| damaged("no statistics of the FPGA"))?;
    let interrupts = Spread::of(&interrupts_us(&interrupted.output, history)?);
    let times = |words: &str| frame_times(&run(words)?.output);
    let (hardware, software) = (times("hardware")?, times(&format!("software {FRAMES}"))?);
    let frames = hardware.into_iter().zip(software);
    Ok(Results {
        stores,
        bounds: Analysis::new(&machine.machine, None)?.bounds(false),
        loads_us: loads(stats, &fpga),
        fpga,
        frames: frames.map(|(hardware_us, software_us)| Frame { hardware_us, software_us }).collect(),
        interrupts,
        machine: project::describe(&machine.machine)?,
    })
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Software, format!("the run of `accelerators` has not said what it should: {what}"))
}

/// What `allocate` has printed, with the waits that the FPGA's history has.
fn stores(output: &str, stats: &FpgaStats, fpga: &FpgaSpec) -> Result<Vec<Store>> {
    let mut reading_ns = 0;
    let mut stores = Vec::new();
    for line in output.lines() {
        let bad = || damaged(line);
        let [name, accelerator, before, after]: [&str; 4] =
            line.split(' ').collect::<Vec<_>>().try_into().map_err(|_| bad())?;
        let [before_ns, after_ns] = [before, after].map(str::parse::<u64>);
        let (before_ns, after_ns) = (before_ns.map_err(|_| bad())?, after_ns.map_err(|_| bad())?);
        let is_cold = name.ends_with("-cold");
        let name = name.trim_end_matches("-cold");
        let Some(path) = PATHS.iter().find(|path| path.name == name) else {
            if name == "reading" {
                reading_ns = after_ns - before_ns;
            }
            continue;
        };
        let within = |change: &&FpgaChangeStats| (before_ns * 1000..after_ns * 1000).contains(&change.at_ps);
        let changes: Vec<&FpgaChangeStats> = stats.changes.iter().filter(within).collect();
        let times_us = [before_ns, after_ns - reading_ns].map(|at_ns| at_ns as f64 / 1e3);
        let store = Store::of(path, &changes, times_us, fpga);
        let store = store.ok_or_else(|| damaged(&format!("`{line}` went another way")))?;
        stores.push(Store { is_cold, accelerator: accelerator.into(), ..store });
    }
    Ok(stores)
}

/// What `interrupts` has printed: from when the FPGA's history has the end of the frame until the program has read the clock, less that reading.
fn interrupts_us(output: &str, stats: &FpgaStats) -> Result<Vec<f64>> {
    let (mut reading_ns, mut all) = (0, Vec::new());
    for line in output.lines() {
        let bad = || damaged(line);
        let [name, _, before, after]: [&str; 4] = line.split(' ').collect::<Vec<_>>().try_into().map_err(|_| bad())?;
        let [before_ns, after_ns] = [before, after].map(|word| word.parse::<u64>().map_err(|_| bad()));
        let (before_ns, after_ns) = (before_ns?, after_ns?);
        if name == "reading" {
            reading_ns = after_ns.saturating_sub(before_ns);
            continue;
        }
        let within = |change: &&FpgaChangeStats| (before_ns * 1000..after_ns * 1000).contains(&change.at_ps);
        let end = stats.changes.iter().filter(within).find(|change| change.state == "idle").ok_or_else(bad)?;
        all.push((after_ns as f64 - reading_ns as f64) / 1e3 - end.at_ps as f64 / 1e6);
    }
    if all.is_empty() { Err(damaged(output)) } else { Ok(all) }
}

/// What the manager takes for an allocation (equation 6).
fn managed_ns(path: &Path, manager: &ManagerSpec) -> u64 {
    let solution_ns = if path.loads { manager.reconfigure_ns } else { manager.assign_ns };
    let stop_ns = if path.stops { manager.preempt_ns + manager.stop_ns } else { 0 };
    let load_ns = if path.loads { manager.port_ns } else { 0 };
    // An offer has no manager.
    if path.stops || path.loads { manager.search_ns + solution_ns + stop_ns + load_ns } else { 0 }
}

/// How long regions were in a state, in microseconds, until the next change of each.
fn time_in(changes: &[&FpgaChangeStats], state: &str) -> f64 {
    let ends = changes.iter().enumerate().filter(|(_, change)| change.state == state).map(|(at, change)| {
        let end = changes[at..].iter().find(|other| other.region == change.region && other.at_ps > change.at_ps);
        end.map_or(0, |end| end.at_ps - change.at_ps) as f64 / 1e6
    });
    ends.sum()
}

/// The longest reconfiguration of each region.
fn loads(stats: &FpgaStats, fpga: &FpgaSpec) -> Vec<f64> {
    let changes: Vec<&FpgaChangeStats> = stats.changes.iter().collect();
    let of = |region: usize| {
        let own: Vec<&FpgaChangeStats> = changes.iter().copied().filter(|change| change.region == region).collect();
        let pairs = own.windows(2).filter(|pair| pair[0].state == "reconfig");
        let longest = pairs.map(|pair| pair[1].at_ps - pair[0].at_ps).max().unwrap_or(0);
        longest as f64 / 1e6 - fpga.manager.port_ns as f64 / 1e3
    };
    (0..fpga.regions.len()).map(of).collect()
}

/// Lines of an accelerator and nanoseconds, in microseconds, in the paper's order.
fn frame_times(output: &str) -> Result<Vec<f64>> {
    let of = |name: &str| {
        let found = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok());
        Ok(found.ok_or_else(|| damaged(output))? / 1e3)
    };
    ACCELERATORS.iter().map(|accelerator| of(accelerator.name)).collect()
}

impl Results {
    /// What allocations by a path take without their waits.
    pub fn overhead(&self, path: &Path, is_cold: bool) -> Overhead {
        let chosen = self.stores.iter().filter(|store| store.path == path && store.is_cold == is_cold);
        let all: Vec<f64> = chosen.map(Store::overhead_us).collect();
        let mean_us = all.iter().sum::<f64>() / all.len() as f64;
        Overhead { mean_us, max_us: all.iter().copied().fold(f64::NAN, f64::max) }
    }

    /// All figures.
    pub fn measurements(&self) -> Vec<Measurement> {
        let mut all = self.allocations();
        all.extend(self.waits());
        all.extend(self.frames());
        all.extend(self.interrupts());
        all
    }

    fn measured(
        &self,
        metric: String,
        value: f64,
        unit: &'static str,
        reference: Option<f64>,
        source: &str,
    ) -> Measurement {
        let (machine, source) = (self.machine.clone(), source.to_owned());
        // What the paper has is to be reached; by allocations with cold caches, its longest way.
        let target = match metric.as_str() {
            name if name.ends_with("_cold_max_us") => OVERHEAD_US.into_iter().reduce(f64::max),
            name if name.starts_with("wcet_us_") => self.published_bound_us(name.trim_start_matches("wcet_us_")),
            name if name.starts_with("software_frame_us_") => None,
            _ => reference,
        };
        Measurement { metric, value, unit, machine, reference, target, source }
    }

    /// The paper's longest way (equations 5 to 7): of an accelerator's regions, the longest reconfiguration and wait for one that may be there.
    fn published_bound_us(&self, name: &str) -> Option<f64> {
        let spec = self.fpga.accelerators.iter().find(|spec| spec.kind.name() == name)?;
        let may_be_in = |other: &&Accelerator, region: usize| {
            let mut specs = self.fpga.accelerators.iter();
            specs.any(|spec| spec.kind.name() == other.name && spec.regions.contains(&region))
        };
        let in_region = |&region: &usize| {
            let others = ACCELERATORS.iter().filter(|other| may_be_in(other, region));
            Some(LOAD_US.get(region)? + others.map(|other| other.stop_us).reduce(f64::max)?)
        };
        Some(OVERHEAD_US.into_iter().reduce(f64::max)? + spec.regions.iter().filter_map(in_region).reduce(f64::max)?)
    }

    fn allocations(&self) -> Vec<Measurement> {
        let mut all = Vec::new();
        for (path, published) in PATHS.iter().zip(OVERHEAD_US) {
            let [warm, cold] = [false, true].map(|is_cold| self.overhead(path, is_cold));
            let waits = match (path.stops, path.loads) {
                (false, false) => "",
                (true, false) => ", without the wait for the end of a frame",
                (false, true) => ", without the reconfiguration",
                (true, true) => ", without the wait for the end of a frame and the reconfiguration",
            };
            let source = format!("from the store that traps until it is executed{waits}; mean. Reference: equation 6");
            all.push(self.measured(path.metric.into(), warm.mean_us, "us", Some(published), &source));
            let source = format!("the same with cold caches{waits}; the longest");
            let metric = path.metric.replace("_us", "_cold_max_us");
            all.push(self.measured(metric, cold.max_us.max(warm.max_us), "us", None, &source));
            if path.stops || path.loads {
                all.extend(self.parts(path, manager_us(path)));
            }
        }
        for accelerator in ACCELERATORS {
            let own = self.stores.iter().filter(|store| store.accelerator == accelerator.name);
            let longest = own.map(|store| store.latency_us).fold(f64::NAN, f64::max);
            let bound = self.bounds.iter().find(|bound| bound.accelerator == accelerator.name && bound.priority == 0);
            let bound_us = bound.map_or(f64::NAN, |bound| bound.worst_ps as f64 / 1e6);
            let source = "`motet wcet` for the most urgent client. Reference: the longest allocation that was measured";
            all.push(self.measured(format!("wcet_us_{}", accelerator.name), bound_us, "us", Some(longest), source));
        }
        all
    }

    /// What an overhead consists of, and what it were with the manager's times of the paper.
    fn parts(&self, path: &Path, published_us: f64) -> Vec<Measurement> {
        let chosen: Vec<&Store> = self.stores.iter().filter(|store| store.path == path && !store.is_cold).collect();
        let mean = |of: fn(&Store) -> f64| chosen.iter().map(|store| of(store)).sum::<f64>() / chosen.len() as f64;
        let rows = [
            (
                "request",
                mean(|store| store.request_us),
                None,
                "from the store that traps until the FPGA has the request",
            ),
            (
                "manager",
                mean(|store| store.manager_us),
                Some(published_us),
                "the manager, as the machine file has it. Reference: Table 4",
            ),
            (
                "resume",
                mean(|store| store.resume_us),
                None,
                "from the registers' being connected until the store is executed",
            ),
            (
                "with_published_manager",
                mean(|store| store.overhead_us() - store.manager_us) + published_us,
                None,
                "the overhead, if the manager took what Table 4 has",
            ),
        ];
        let row = |(name, value, reference, source): (&str, f64, Option<f64>, &str)| {
            let metric = path.metric.replace("overhead_us", &format!("{name}_us"));
            Measurement { target: None, ..self.measured(metric, value, "us", reference, source) }
        };
        rows.map(row).into()
    }

    fn waits(&self) -> Vec<Measurement> {
        let stopped = |name: &str| {
            // What is stopped is the same accelerator on this path.
            let all = self.stores.iter().filter(|store| store.path.name == "preempt" && store.accelerator == name);
            all.map(|store| store.wait_us).fold(f64::NAN, f64::max)
        };
        let source = "the longest wait until it was stopped. Reference: Table 5";
        let stops = ACCELERATORS.iter().map(|one| {
            let metric = format!("preempt_wait_max_us_{}", one.name);
            self.measured(metric, stopped(one.name), "us", Some(one.stop_us), source)
        });
        let source = "the configuration port at 145 MB/s, and bitstreams chosen so that the reference comes out. Reference: Table 5";
        let loads = self.loads_us.iter().zip(LOAD_US).zip(1..).map(|((load_us, published), region)| {
            self.measured(format!("reconfigure_us_region{region}"), *load_us, "us", Some(published), source)
        });
        stops.chain(loads).collect()
    }

    /// Table 4: an interrupt of the FPGA. The paper's goes to its manager; here that is logic, and completions go to clients.
    fn interrupts(&self) -> [Measurement; 3] {
        let (spread, published) = (&self.interrupts, operation_us("pl_irq"));
        let source = format!(
            "from the end of a frame until the program runs that waits for its interrupt, while another one computes; {} samples. Reference: Table 4",
            spread.count
        );
        // No target: the paper's interrupt goes to its manager, which runs already.
        let one = |end: &str, value, reference| {
            self.measured(format!("table4_pl_irq_{end}us"), value, "us", reference, &source)
        };
        [one("", spread.mean, Some(published)), one("min_", spread.min, None), one("max_", spread.max, None)]
    }

    fn frames(&self) -> Vec<Measurement> {
        let mut all = Vec::new();
        for (frame, published) in self.frames.iter().zip(ACCELERATORS) {
            let name = published.name;
            let source = "18,800 bits, or 4,700 symbols, from START to OVER. Reference: Table 6";
            let (hardware, software) = (Some(published.frame_us[0]), Some(published.frame_us[1]));
            all.push(self.measured(format!("hardware_frame_us_{name}"), frame.hardware_us, "us", hardware, source));
            let source = "the same by a C program, whose results are the accelerator's. Reference: Table 6, whose programs the paper does not describe";
            all.push(self.measured(format!("software_frame_us_{name}"), frame.software_us, "us", software, source));
            let ratio = published.frame_us[1] / published.frame_us[0];
            let source = "software over accelerator. Reference: by Table 6";
            let value = frame.software_us / frame.hardware_us;
            all.push(self.measured(format!("speedup_{name}"), value, "ratio", Some(ratio), source));
            let spec = self.fpga.accelerators.iter().find(|spec| spec.kind.name() == name);
            let regions = spec.into_iter().flat_map(|spec| &spec.regions);
            let bytes = regions.map(|region| self.fpga.regions[*region]).min().unwrap_or(0) as f64;
            let source = "the bitstream of the smallest region that it fits into, over that of a whole Zynq 7020. Reference: Table 6, by resources";
            let (metric, share) = (format!("fabric_share_percent_{name}"), Some(published.share_percent));
            all.push(self.measured(metric, 100.0 * bytes / WHOLE_BYTES, "percent", share, source));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(at_us: u64, region: usize, state: &str) -> FpgaChangeStats {
        FpgaChangeStats { at_ps: at_us * 1_000_000, region, state: state.into(), ..FpgaChangeStats::default() }
    }

    #[test]
    fn waits_are_taken_off_what_stores_took() {
        let machine = motet_machine::MachineSpec::parse(include_str!("../../../../machines/embedded.toml")).unwrap();
        let fpga = machine.fpga.unwrap();
        let changes =
            vec![change(1, 0, "busy"), change(12, 0, "preempt"), change(40, 0, "reconfig"), change(300, 0, "hold")];
        let stats = FpgaStats { changes, ..FpgaStats::default() };
        let output = "reading - 0 500\nboth-cold qam16 10000 310000\n";
        let found = stores(output, &stats, &fpga).unwrap();
        assert!(found.len() == 1 && found[0].is_cold && found[0].path.name == "both");
        let [wait_us, load_us] = [28.0 - 0.1 - 0.5, 260.0 - 0.2];
        assert!((found[0].wait_us - wait_us).abs() < 1e-9 && (found[0].load_us - load_us).abs() < 1e-9);
        assert!((found[0].overhead_us() - (300.0 - 0.5 - wait_us - load_us)).abs() < 1e-9);
        assert!((loads(&stats, &fpga)[0] - load_us).abs() < 1e-9);
        // The parts are all that there is: the store until the request, the manager, and from the connection on.
        let parts = [found[0].request_us, found[0].manager_us, found[0].resume_us];
        let want = [2.0 - 0.15, 0.1 + 0.05 + 0.1 + 0.5 + 0.2, 10.0 - 0.5];
        assert!(parts.iter().zip(want).all(|(part, want)| (part - want).abs() < 1e-9), "{parts:?}");
        assert!((parts.iter().sum::<f64>() - found[0].overhead_us()).abs() < 1e-9);
        for wrong in ["direct qam16 10000 310000\n", "preempt qam16 500000 510000\n", "direct qam16\n"] {
            assert!(stores(wrong, &stats, &fpga).is_err(), "{wrong}");
        }
    }

    #[test]
    fn interrupts_are_from_the_end_of_a_frame() {
        let changes = vec![change(1, 0, "busy"), change(48, 0, "idle"), change(60, 0, "busy"), change(107, 0, "idle")];
        let stats = FpgaStats { changes, ..FpgaStats::default() };
        let found =
            interrupts_us("reading - 0 500\ninterrupt qam16 2000 58500\ninterrupt qam16 61000 119500\n", &stats);
        assert_eq!(found.unwrap(), [10.0, 12.0]);
        for wrong in ["", "interrupt qam16 2000 40000\n", "interrupt qam16\n", "reading - 0 500\n"] {
            assert!(interrupts_us(wrong, &stats).is_err(), "{wrong}");
        }
    }

    #[test]
    fn frames_are_in_the_papers_order() {
        let output = "fft1024 4000\nqam16 1000\nqam64 2000\nfft512 3000\n";
        assert_eq!(frame_times(output).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert!(frame_times("qam16 1\n").is_err());
    }
}
