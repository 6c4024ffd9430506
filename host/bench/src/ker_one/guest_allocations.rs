//! Allocations by a real-time guest of `machines/ker-one.toml`, which has the FPGA of `machines/embedded.toml` for them: from the guest's store that
//! traps until it is executed. Nobody else is ready on the core meanwhile: programs that have the regions sleep.

use std::{
    path::{Path as FilePath, PathBuf},
    time::Duration,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{run::guest_path, stats::FpgaChangeStats, timed::Passage};
use motet_layout::Isa;
use motet_machine::FpgaSpec;

use super::{
    accelerators::Store,
    build_guests,
    image::Image,
    paper::{OVERHEAD_US, PATHS, Path},
    vms::{QUANTUM_US, passage},
};
use crate::{
    flick::machines::Bench as Machines,
    motet::Described,
    project::{self, Project, file_error},
    report::Measurement,
};

const AT_MOST: Duration = Duration::from_secs(900);
/// The guest's rounds in each run.
const ROUNDS: u32 = 26;
const QUICK_ROUNDS: u32 = 6;
/// Stores that have not trapped take less.
const TRAPS_US: f64 = 0.5;

/// Stores of each run that are not counted, as they touch memory for the first time.
const FIRST: usize = 4;

/// The guest's accelerators, and who is beside it: a run for each path.
const RUNS: [(&str, &str); 4] = [
    // One that comes and goes has had the smaller region, and the other one is in use.
    ("--accel qam16", "compute fft512 120 0 & /in/accelerators compute qam16 1 700"),
    ("--accel qam16 --accel qam64", ""),
    ("--accel qam16", "compute qam16 52 0 & /in/accelerators compute qam16 52 0"),
    ("--accel qam16", "compute qam64 80 0 & /in/accelerators compute qam64 80 0"),
];

/// What was measured.
#[derive(Debug)]
pub struct Results {
    stores: Vec<Store>,
    /// Stores that took regions in a way that is none of the paper's.
    others: usize,
    machine: String,
}

struct Bench {
    machines: Machines,
    machine: Described,
    /// The guest's image and the program beside it.
    files: [PathBuf; 2],
    fpga: FpgaSpec,
}

/// Runs all measurements.
///
/// # Errors
/// Images are not built, or a run fails.
pub fn measure(quick: bool) -> Result<Results> {
    let project = Project::find()?;
    let folder = project.scratch("ker-one-guests")?;
    build_guests(&project)?;
    let machines = Machines { project, folder };
    let embedded = machines.machine("embedded")?;
    let fpga = embedded.machine.fpga.clone().ok_or_else(|| damaged("no FPGA"))?;
    let text = std::fs::read_to_string(&embedded.file).map_err(file_error(&embedded.file))?;
    let its = text.split_once("\n[fpga]\n").and_then(|(_, rest)| rest.split_once("\n[model]\n"));
    let (its, _) = its.ok_or_else(|| damaged("no FPGA"))?;
    let with = format!("\n[fpga]\n{its}\n[model]\n");
    let machine = machines.changed(&machines.machine("ker-one")?, "fpga", &[("\n[model]\n", &with)])?;
    let guest = machines.project.target.join(guest_path(Isa::RiscV64, "accelerated"));
    let program = machines.compile(FilePath::new("user/ker-one/accelerators.c"))?;
    let described = project::describe(&machine.machine)?;
    let bench = Bench { machines, machine, files: [guest, program], fpga };
    let (mut stores, mut others) = (Vec::new(), 0);
    for (accelerators, beside) in RUNS {
        let (found, other) = bench.run(accelerators, beside, if quick { QUICK_ROUNDS } else { ROUNDS })?;
        stores.extend(found);
        others += other;
    }
    match PATHS.iter().find(|path| !stores.iter().any(|store| store.path == *path)) {
        Some(path) => Err(damaged(&format!("no store went by the path `{}`", path.name))),
        None => Ok(Results { stores, others, machine: described }),
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Software, format!("the run of the guest `accelerated` has not said what it should: {what}"))
}

impl Bench {
    /// All of the guest's stores that were allocations, as [`stores`].
    fn run(&self, accelerators: &str, beside: &str, rounds: u32) -> Result<(Vec<Store>, usize)> {
        let [list, passages] = ["points", "passages"].map(|name| self.machines.folder.join(name));
        let store = Image::read(&self.files[0])?.symbol("motet_guest_store")?;
        let island = &self.machine.machine.islands[0].name;
        // A compressed store, and what follows it.
        std::fs::write(&list, format!("{island} {store:#x}\n{island} {:#x}\n", store + 2))
            .map_err(file_error(&list))?;
        let [list_text, passages_text] = [&list, &passages].map(|path| path.to_string_lossy().into_owned());
        let options = ["--deterministic", "--points", &list_text, "--passages", &passages_text];
        let beside = if beside.is_empty() { String::new() } else { format!("/in/accelerators {beside} & sleep 1; ") };
        let guest = format!("part=allocations rounds={rounds}");
        let command = format!(
            "echo -1 >/proc/sys/kernel/sched_rt_runtime_us; {beside}\
             vm run --real-time 50 {accelerators} --append '{guest}' /in/guest-accelerated"
        );
        let files: Vec<&PathBuf> = self.files.iter().collect();
        let run = self.machines.run_with(&self.machine, QUANTUM_US, &options, &files, &command, AT_MOST)?;
        if !run.output.contains(&format!("passed {rounds}")) {
            return Err(damaged(&run.output));
        }
        let text = std::fs::read_to_string(&passages).map_err(file_error(&passages))?;
        let passages: Option<Vec<Passage>> = text.lines().map(passage).collect();
        let stats = run.stats.fpga.as_ref().ok_or_else(|| damaged("no statistics of the FPGA"))?;
        Ok(stores(&passages.ok_or_else(|| damaged("passages"))?, &stats.changes, &self.fpga))
    }
}

/// Stores that have taken long, each from its first passage to that behind it; but the first ones of all, of pages that nobody has used before. And how
/// many went by none of the [`PATHS`].
fn stores(passages: &[Passage], changes: &[FpgaChangeStats], fpga: &FpgaSpec) -> (Vec<Store>, usize) {
    let (mut begun_ps, mut all, mut others) = (None, Vec::new(), 0);
    for passage in passages {
        if passage.point == 0 {
            begun_ps.get_or_insert(passage.at_ps);
            continue;
        }
        let Some(from_ps) = begun_ps.take() else { continue };
        let times_us = [from_ps, passage.at_ps].map(|at_ps| at_ps as f64 / 1e6);
        if times_us[1] - times_us[0] < TRAPS_US {
            continue;
        }
        let within = |change: &&FpgaChangeStats| (from_ps..passage.at_ps).contains(&change.at_ps);
        let changes: Vec<&FpgaChangeStats> = changes.iter().filter(within).collect();
        match PATHS.iter().find_map(|path| Store::of(path, &changes, times_us, fpga)) {
            Some(store) => all.push(store),
            None => others += 1,
        }
    }
    all.drain(..all.len().min(FIRST));
    (all, others)
}

impl Results {
    /// All figures.
    pub fn measurements(&self) -> Vec<Measurement> {
        PATHS.iter().zip(OVERHEAD_US).flat_map(|(path, published)| self.of(path, published)).collect()
    }

    fn of(&self, path: &Path, published_us: f64) -> [Measurement; 2] {
        let overheads = self.stores.iter().filter(|store| store.path == path).map(Store::overhead_us);
        let all: Vec<f64> = overheads.collect();
        let name = path.metric.replace("allocate_", "guest_allocate_");
        let source = format!(
            "from a real-time guest's store that traps until it is executed, without waits; {} samples ({} of all stores went another way). Reference: equation 6",
            all.len(),
            self.others
        );
        let one = |metric: String, value: f64| Measurement {
            metric,
            value,
            unit: "us",
            machine: self.machine.clone(),
            reference: Some(published_us),
            target: None,
            source: source.clone(),
        };
        let mean_us = all.iter().sum::<f64>() / all.len() as f64;
        let max_us = all.iter().copied().fold(f64::NAN, f64::max);
        [
            Measurement { target: Some(published_us), ..one(name.clone(), mean_us) },
            one(name.replace("_us", "_max_us"), max_us),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_executed_twice_if_it_traps() {
        let machine = motet_machine::MachineSpec::parse(include_str!("../../../../machines/embedded.toml")).unwrap();
        let fpga = machine.fpga.unwrap();
        let at = |point: usize, at_us: u64| Passage { point, core: 0, at_ps: at_us * 1_000_000, value: 0 };
        let mut passages = Vec::new();
        // One that does not trap, and some that do.
        for round in 1..=5 {
            passages.extend([at(0, 1000 * round), at(1, 1000 * round)]);
            passages.extend([at(0, 1000 * round + 10), at(0, 1000 * round + 13), at(1, 1000 * round + 13)]);
        }
        let (found, others) = stores(&passages, &[], &fpga);
        assert!(
            others == 0
                && found.len() == 1
                && found[0].path.name == "direct"
                && (found[0].overhead_us() - 3.0).abs() < 1e-9
        );
        // The same, while a region was reconfigured.
        let change = |at_us: u64, state: &str| FpgaChangeStats {
            at_ps: at_us * 1_000_000,
            state: state.into(),
            ..FpgaChangeStats::default()
        };
        let changes = [change(5011, "reconfig"), change(5012, "hold")];
        let (found, others) = stores(&passages, &changes, &fpga);
        assert!(others == 0 && found.len() == 1 && found[0].path.name == "reconfigure", "{found:?}");
    }
}
