//! gem5's Ruby with the protocol `MESI_Three_Level`: what several cores that share memory do to caches, beside the model.
//!
//! Traces are of two origins: patterns from a seed, and programs on the machine itself. `host/bench/gem5/replay.py` builds the
//! machine in gem5 and replays a trace there, one access after the other.

mod patterns;
mod recorded;

use std::{
    fs::File,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use flate2::{Compression, GzBuilder};
use motet_coherence::{
    Config, Island, ModelTable, Piece, Shape, Target,
    interleaved::{self, Step, Tally},
};
use motet_error::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use self::{patterns::PATTERNS, recorded::PROGRAMS};
use crate::{
    process,
    project::{Project, file_error},
    report::Measurement,
};

const AT_MOST: Duration = Duration::from_secs(1800);
const MEMORY_BYTES: u64 = 16 << 20;

/// Where the traces and gem5's counts are.
const TESTDATA: &str = "host/coherence/testdata";

/// Where traces come from. Those of one origin have a machine in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// [`PATTERNS`].
    Patterns,
    /// [`PROGRAMS`].
    Programs,
}

impl Origin {
    const ALL: [Self; 2] = [Self::Patterns, Self::Programs];

    /// What its files' names begin with.
    fn name(self) -> &'static str {
        match self {
            Self::Patterns => "sharing",
            Self::Programs => "recorded",
        }
    }

    fn file(self, project: &Project, rest: &str) -> PathBuf {
        project.root.join(TESTDATA).join(format!("{}{rest}", self.name()))
    }

    /// The `[model]` table of the machine.
    fn model(self, project: &Project) -> Result<String> {
        let path = self.file(project, ".toml");
        std::fs::read_to_string(&path).map_err(file_error(&path))
    }

    /// Its traces. `record`: programs run anew.
    fn traces(self, project: &Project, folder: &Path, record: bool) -> Result<Vec<Trace>> {
        let trace = |name, cores, steps| Trace { origin: self, name, cores, steps };
        match self {
            Self::Patterns => {
                Ok(PATTERNS.iter().map(|pattern| trace(pattern.name, pattern.cores, pattern.steps())).collect())
            }
            Self::Programs if record => {
                let (model, guests) = (self.model(project)?, recorded::guests(project, folder)?);
                let record = |program: &recorded::Program| {
                    let steps = program.record(project, folder, &model, &guests)?;
                    Ok(trace(program.name, program.cores, steps))
                };
                PROGRAMS.iter().map(record).collect()
            }
            Self::Programs => {
                let read = |program: &recorded::Program| {
                    let steps = recorded::read(&self.file(project, &format!("-{}.trace.gz", program.name)))?;
                    Ok(trace(program.name, program.cores, steps))
                };
                PROGRAMS.iter().map(read).collect()
            }
        }
    }
}

/// Accesses of several cores in one order.
#[derive(Debug)]
struct Trace {
    origin: Origin,
    name: &'static str,
    cores: usize,
    steps: Vec<Step>,
}

/// What gem5 counted for a trace, in the order of [`Tally::NAMES`].
struct Counted {
    trace: Trace,
    theirs: Vec<u64>,
}

/// The model beside gem5's counts that are kept.
///
/// # Errors
/// They cannot be read.
pub fn compare_kept(project: &Project) -> Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for origin in Origin::ALL {
        let path = origin.file(project, ".gem5.txt");
        if !path.exists() {
            eprintln!("motet: gem5 has not counted {}-*.trace.gz; --gem5 PATH --record lets it", origin.name());
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
        for trace in origin.traces(project, Path::new(""), false)? {
            let line = text.lines().find(|line| line.split(' ').next() == Some(trace.name)).unwrap_or_default();
            let theirs: Option<Vec<u64>> = line.split(' ').skip(2).map(|word| word.parse().ok()).collect();
            let theirs = theirs.filter(|theirs| theirs.len() == Tally::NAMES.len());
            let unknown = || software(format!("{}: no line of gem5's counts of {}", path.display(), trace.name));
            measurements.extend(beside(project, &Counted { theirs: theirs.ok_or_else(unknown)?, trace })?);
        }
    }
    Ok(measurements)
}

/// Replays every trace in gem5 and in the model. `record`: programs' traces are recorded anew, and all traces and gem5's counts are
/// written where the model's tests find them.
///
/// # Errors
/// `gem5` is no program, is one without the protocol, or fails; a machine fails; the files cannot be written.
pub fn compare(project: &Project, gem5: &Path, record: bool) -> Result<Vec<Measurement>> {
    check(gem5)?;
    let folder = project.scratch("gem5")?;
    let mut measurements = Vec::new();
    for origin in Origin::ALL {
        let mut counted = Vec::new();
        for trace in origin.traces(project, &folder, record)? {
            eprintln!("motet: {} ({}) in gem5", trace.name, origin.name());
            let theirs = replay(project, gem5, &folder, &trace)?;
            counted.push(Counted { trace, theirs });
        }
        if record {
            self::record(project, origin, &counted)?;
        }
        for counted in &counted {
            measurements.extend(beside(project, counted)?);
        }
    }
    Ok(measurements)
}

fn beside(project: &Project, Counted { trace, theirs }: &Counted) -> Result<Vec<Measurement>> {
    let ours = interleaved::replay(machine(project, trace)?, &trace.steps).map_err(software)?;
    let name = match trace.origin {
        Origin::Patterns => trace.name.replace('-', "_"),
        Origin::Programs => format!("recorded_{}", trace.name),
    };
    let counts = Tally::NAMES.iter().zip(ours.values()).zip(theirs);
    let measurement = |((count, ours), theirs): ((&&str, u64), &u64)| Measurement {
        metric: format!("gem5_{count}_{name}"),
        value: ours as f64,
        unit: if *count == "latency_ps" { "ps" } else { "1" },
        machine: format!("{TESTDATA}/{}.toml, {} core(s)", trace.origin.name(), trace.cores),
        reference: Some(*theirs as f64),
        target: None,
        source: "the model; reference: gem5's Ruby, MESI_Three_Level".into(),
    };
    Ok(counts.map(measurement).collect())
}

fn record(project: &Project, origin: Origin, counted: &[Counted]) -> Result<()> {
    let mut text = format!(
        "# What gem5's Ruby (24.0.0.1, MESI_Three_Level) counted for {0}-*.trace.gz on the machine of {0}.toml\n\
         # (./motet bench sim-accuracy --gem5 PATH --record): trace, cores, {1}\n",
        origin.name(),
        Tally::NAMES.join(", ")
    );
    for Counted { trace, theirs } in counted {
        write_trace(&origin.file(project, &format!("-{}.trace.gz", trace.name)), &trace.steps)?;
        let counts: Vec<String> = theirs.iter().map(u64::to_string).collect();
        text += &format!("{} {} {}\n", trace.name, trace.cores, counts.join(" "));
    }
    let path = origin.file(project, ".gem5.txt");
    std::fs::write(&path, text).map_err(file_error(&path))
}

/// That it can be run.
fn check(gem5: &Path) -> Result<()> {
    let refuse = |why: &str| {
        let message = format!("--gem5 {}: {why}; give the path of a gem5.opt with MESI_Three_Level", gem5.display());
        Err(Error::new(ErrorKind::Usage, message))
    };
    match gem5.metadata() {
        Err(error) => refuse(&error.to_string()),
        Ok(found) if !found.is_file() => refuse("not a file"),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => refuse("not executable"),
        Ok(_) => Ok(()),
    }
}

/// One island with so many cores, of the machine file of these traces.
fn machine(project: &Project, trace: &Trace) -> Result<Config> {
    let table: ModelTable = toml::from_str(&trace.origin.model(project)?).map_err(software)?;
    let memory = vec![Piece { local: 0, size: MEMORY_BYTES, target: Target::Pool(0) }];
    let island = Island { name: "a".into(), cores: trace.cores, memory, traps: Default::default() };
    table.resolve(&Shape { pool: MEMORY_BYTES, islands: vec![island], own: Vec::new() }).map_err(software)
}

/// What gem5 counts, in the order of [`Tally::NAMES`].
fn replay(project: &Project, gem5: &Path, folder: &Path, trace: &Trace) -> Result<Vec<u64>> {
    let name = format!("{}-{}", trace.origin.name(), trace.name);
    let (described, packed) = (folder.join("machine.json"), folder.join(format!("{name}.trace.gz")));
    let config = machine(project, trace)?;
    std::fs::write(&described, describe(&config).to_string()).map_err(file_error(&described))?;
    write_trace(&packed, &trace.steps)?;
    let mut command = Command::new(gem5);
    command.arg("-d").arg(folder.join(name)).arg(project.root.join("host/bench/gem5/replay.py"));
    let said = process::expect(command.arg(&described).arg(&packed), AT_MOST)?;
    let counts = said.lines().find_map(|line| line.strip_prefix("motet: "));
    let counts: Value = counts.and_then(|counts| serde_json::from_str(counts).ok()).unwrap_or_default();
    let count = |name: &&str| counts[*name].as_u64().ok_or_else(|| software(format!("gem5 did not count {name}")));
    Tally::NAMES.iter().map(count).collect()
}

/// The machine for replay.py.
fn describe(config: &Config) -> Value {
    let (island, l3) = (&config.islands[0], config.domains[0].l3);
    let cache = |sets: usize, ways: usize| json!({ "sets": sets, "ways": ways });
    let timing = island.timing;
    json!({
        "cores": island.cores,
        "memory_bytes": MEMORY_BYTES,
        "l1i": cache(island.l1i.sets, island.l1i.ways),
        "l1d": cache(island.l1d.sets, island.l1d.ways),
        "l2": cache(island.l2.sets, island.l2.ways),
        "l3": cache(l3.sets, l3.ways),
        "cycles": {
            "l1": timing.l1d_ps / 1000,
            "l2": timing.l2_ps / 1000,
            "l3": timing.l3_ps / 1000,
            "memory": island.segments[0].load_ps / 1000,
        },
    })
}

fn write_trace(path: &Path, steps: &[Step]) -> Result<()> {
    let file = File::create(path).map_err(file_error(path))?;
    let mut packer = GzBuilder::new().write(file, Compression::best());
    let text: String = steps.iter().map(|step| format!("{step}\n")).collect();
    packer.write_all(text.as_bytes()).and_then(|()| packer.finish()).map_err(file_error(path))?;
    Ok(())
}

fn software(error: impl ToString) -> Error {
    Error::new(ErrorKind::Software, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn tallies(origin: Origin) -> HashMap<&'static str, Tally> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let project = Project { target: root.join("target"), root };
        let traces = origin.traces(&project, Path::new(""), false).unwrap();
        let replayed = |trace: &Trace| interleaved::replay(machine(&project, trace).unwrap(), &trace.steps).unwrap();
        traces.iter().map(|trace| (trace.name, replayed(trace))).collect()
    }

    #[test]
    fn patterns_do_to_caches_what_they_are_for() {
        let tallies = tallies(Origin::Patterns);
        let alone = tallies["alone"];
        assert_eq!(alone.downgrades, 0);
        assert!(alone.memory_reads > 1000 && alone.memory_write_backs > 100, "{alone:?}");
        for name in ["producer-consumer", "migratory", "false-sharing", "lock", "mixture"] {
            let shared = tallies[name];
            assert!(shared.downgrades > 500 && shared.invalidations > 500, "{name}: {shared:?}");
        }
        // What all read comes to all, and little of it is taken away again.
        let read = tallies["read-mostly"];
        assert!(read.invalidations > 100 && read.invalidations < read.data / 20, "{read:?}");
        // Nothing is shared: what cores lose, the last level takes from them to make room. It has 1024 lines and LRU, and 5000
        // go through it: each of the 24 lines that a core uses all the time goes four times.
        let full = tallies["capacity"];
        assert_eq!((full.downgrades, full.invalidations), (0, 24 * 4), "{full:?}");
    }

    #[test]
    fn what_is_no_program_is_refused_with_what_to_do() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (path, why) in [("none", "No such file"), ("src", "not a file"), ("Cargo.toml", "not executable")] {
            let error = check(&here.join(path)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Usage);
            let text = error.to_string();
            assert!(text.contains(why) && text.contains("give the path of a gem5.opt"), "{text}");
        }
    }
}
