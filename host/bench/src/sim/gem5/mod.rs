//! gem5's Ruby with the protocol `MESI_Three_Level`: what several cores that share memory do to caches, beside the model.
//!
//! `host/bench/gem5/replay.py` builds the machine in gem5 and replays a trace there, one access after the other.

mod patterns;

use std::{fs::File, io::Write, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use flate2::{Compression, GzBuilder};
use motet_coherence::{
    Config, Island, ModelTable, Piece, Shape, Target,
    interleaved::{self, Step, Tally},
};
use motet_fabric::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use self::patterns::{PATTERNS, Pattern};
use crate::{
    process,
    project::{Project, file_error},
    report::Measurement,
};

const AT_MOST: Duration = Duration::from_secs(600);
const MEMORY_BYTES: u64 = 16 << 20;

/// Where the recorded traces and gem5's counts are.
const TESTDATA: &str = "host/coherence/testdata";

/// What gem5 counted for a trace.
struct Counted {
    pattern: Pattern,
    /// In the order of [`Tally::NAMES`].
    theirs: Vec<u64>,
}

/// The model beside gem5's recorded counts.
///
/// # Errors
/// They cannot be read.
pub fn compare_recorded(project: &Project) -> Result<Vec<Measurement>> {
    let path = project.root.join(TESTDATA).join("sharing.gem5.txt");
    let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let counted = lines.map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next();
        let pattern = PATTERNS.into_iter().find(|pattern| Some(pattern.name) == name);
        let theirs: Option<Vec<u64>> = words.skip(1).map(|word| word.parse().ok()).collect();
        let unknown = || software(format!("{}: not a pattern and gem5's counts: {line}", path.display()));
        Ok(Counted { pattern: pattern.ok_or_else(unknown)?, theirs: theirs.ok_or_else(unknown)? })
    });
    beside(project, &counted.collect::<Result<Vec<_>>>()?)
}

/// Replays every trace in gem5 and in the model. `record`: writes the traces and gem5's counts where the model's tests find them.
///
/// # Errors
/// `gem5` is no program, is one without the protocol, or fails; the files cannot be written.
pub fn compare(project: &Project, gem5: &Path, record: bool) -> Result<Vec<Measurement>> {
    check(gem5)?;
    let folder = project.scratch("gem5")?;
    let mut counted = Vec::new();
    for pattern in PATTERNS {
        eprintln!("motet: {} in gem5", pattern.name);
        let (config, steps) = (machine(project, pattern.cores)?, pattern.steps());
        counted.push(Counted { pattern, theirs: replay(project, gem5, &folder, pattern, &config, &steps)? });
    }
    if record {
        self::record(project, &counted)?;
    }
    beside(project, &counted)
}

fn beside(project: &Project, counted: &[Counted]) -> Result<Vec<Measurement>> {
    let mut measurements = Vec::new();
    for Counted { pattern, theirs } in counted {
        let ours = interleaved::replay(machine(project, pattern.cores)?, &pattern.steps()).map_err(software)?;
        for ((name, ours), theirs) in Tally::NAMES.iter().zip(ours.values()).zip(theirs) {
            measurements.push(Measurement {
                metric: format!("gem5_{name}_{}", pattern.name.replace('-', "_")),
                value: ours as f64,
                unit: if *name == "latency_ps" { "ps" } else { "1" },
                machine: format!("{TESTDATA}/sharing.toml, {} core(s)", pattern.cores),
                reference: Some(*theirs as f64),
                target: None,
                source: "the model; reference: gem5's Ruby, MESI_Three_Level".into(),
            });
        }
    }
    Ok(measurements)
}

fn record(project: &Project, counted: &[Counted]) -> Result<()> {
    let folder = project.root.join(TESTDATA);
    let mut text = format!(
        "# What gem5's Ruby (24.0.0.1, MESI_Three_Level) counted for sharing-*.trace.gz on the machine of sharing.toml\n\
         # (./motet bench sim-accuracy --gem5 PATH --record): trace, cores, {}\n",
        Tally::NAMES.join(", ")
    );
    for Counted { pattern, theirs } in counted {
        write_trace(&folder.join(format!("sharing-{}.trace.gz", pattern.name)), &pattern.steps())?;
        let counts: Vec<String> = theirs.iter().map(u64::to_string).collect();
        text += &format!("{} {} {}\n", pattern.name, pattern.cores, counts.join(" "));
    }
    let path = folder.join("sharing.gem5.txt");
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
fn machine(project: &Project, cores: usize) -> Result<Config> {
    let path = project.root.join("host/coherence/testdata/sharing.toml");
    let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
    let table: ModelTable = toml::from_str(&text).map_err(software)?;
    let memory = vec![Piece { local: 0, size: MEMORY_BYTES, target: Target::Pool(0) }];
    let island = Island { name: "a".into(), cores, memory, traps: Default::default() };
    table.resolve(&Shape { pool: MEMORY_BYTES, islands: vec![island], own: Vec::new() }).map_err(software)
}

/// What gem5 counts, in the order of [`Tally::NAMES`].
fn replay(
    project: &Project,
    gem5: &Path,
    folder: &Path,
    pattern: Pattern,
    config: &Config,
    steps: &[Step],
) -> Result<Vec<u64>> {
    let (described, trace) = (folder.join("machine.json"), folder.join(format!("{}.trace.gz", pattern.name)));
    std::fs::write(&described, describe(config).to_string()).map_err(file_error(&described))?;
    write_trace(&trace, steps)?;
    let mut command = Command::new(gem5);
    command.arg("-d").arg(folder.join(pattern.name)).arg(project.root.join("host/bench/gem5/replay.py"));
    let said = process::expect(command.arg(&described).arg(&trace), AT_MOST)?;
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

    fn tally(name: &str) -> Tally {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let project = Project { target: root.join("target"), root };
        let pattern = PATTERNS.into_iter().find(|pattern| pattern.name == name).unwrap();
        interleaved::replay(machine(&project, pattern.cores).unwrap(), &pattern.steps()).unwrap()
    }

    #[test]
    fn patterns_do_to_caches_what_they_are_for() {
        let alone = tally("alone");
        assert_eq!(alone.downgrades, 0);
        assert!(alone.memory_reads > 1000 && alone.memory_write_backs > 100, "{alone:?}");
        for name in ["producer-consumer", "migratory", "false-sharing", "lock", "mixture"] {
            let shared = tally(name);
            assert!(shared.downgrades > 500 && shared.invalidations > 500, "{name}: {shared:?}");
        }
        // What all read comes to all, and little of it is taken away again.
        let read = tally("read-mostly");
        assert!(read.invalidations > 100 && read.invalidations < read.data / 20, "{read:?}");
        // Nothing is shared: what cores lose, the last level takes from them to make room. It has 1024 lines and LRU, and 5000
        // go through it: each of the 24 lines that a core uses all the time goes four times.
        let full = tally("capacity");
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
