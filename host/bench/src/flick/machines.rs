//! The machines of this experiment, its programs, and how they are run.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::stats::{CoreStats, RegionStats, Stats};
use motet_layout::Isa;
use motet_machine::MachineSpec;

use crate::{
    motet::Described,
    process,
    project::{Project, file_error},
    sim::machine::read_stats,
};

/// How long islands may differ in time, in microseconds. Sleeping cores wake when they are rung plus the doorbell's latency; with less
/// than that latency, whoever rings sleeps before the answer, as it would, and who has answered sleeps before it is called again.
pub const QUANTUM_US: &str = "1";
/// Polling cores see what others wrote up to a quantum late.
pub const POLLING_QUANTUM_US: &str = "0.25";
/// The Flick machine.
pub const FLICK_QUANTUM_US: &str = "1";
/// The Flick machine in a long run.
pub const FLICK_SEARCH_QUANTUM_US: &str = "20";
/// How long idle cores poll, in microseconds: as long as there is.
const POLL_US: u32 = 1000;
/// The first call of the compiler builds a C library.
const COMPILE_AT_MOST: Duration = Duration::from_secs(1800);

/// How threads go from one instruction set to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// As Flick does it, on this kernel.
    Flick,
    /// As this kernel does it.
    Motet,
}

impl Protocol {
    /// In the order of the columns, which those of the paper precede.
    pub const BOTH: [Self; 2] = [Self::Flick, Self::Motet];

    /// What metrics begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Flick => "flick_protocol_",
            Self::Motet => "",
        }
    }

    /// Its name in tables and on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flick => "Flick's protocol",
            Self::Motet => "Motet",
        }
    }
}

/// What the parts of the experiment share.
#[derive(Debug)]
pub struct Bench {
    /// The project.
    pub project: Project,
    /// A folder of files.
    pub folder: PathBuf,
}

/// What a run said and counted.
#[derive(Debug)]
pub struct Run {
    /// Standard output.
    pub output: String,
    /// What was counted.
    pub stats: Stats,
}

impl Run {
    /// A region by its name.
    ///
    /// # Errors
    /// The program did not come to its end.
    pub fn region(&self, name: &str) -> Result<&RegionStats> {
        let found = self.stats.regions.iter().find(|region| region.name == name && region.open == 0);
        found.ok_or_else(|| Error::new(ErrorKind::Software, format!("the region `{name}` was not measured")))
    }

    /// How often a thread went from one island to another and came back, from `/proc/self/crossings`.
    ///
    /// # Errors
    /// The program's output has no counts, or functions ran on islands that they are not pinned to.
    pub fn crossings(&self, from: usize, to: usize) -> Result<u64> {
        let bad = || Error::new(ErrorKind::Software, format!("no count of crossings in the output:\n{}", self.output));
        let rows = self.output.lines().skip_while(|line| *line != "from to calls").skip(1);
        let start = format!("{from} {to} ");
        let count = rows.clone().find_map(|line| line.strip_prefix(&start)?.parse().ok());
        let mut local =
            rows.clone().filter_map(|line| line.split_once("_run_locally ")?.1.parse::<u64>().ok()).peekable();
        local.peek().ok_or_else(bad)?;
        if local.any(|count| count != 0) {
            return Err(Error::new(ErrorKind::Software, "pinned functions ran where they were called"));
        }
        count.ok_or_else(bad)
    }
}

/// Sums of the cores of an island.
pub fn sum(cores: &[CoreStats], island: &str, of: impl Fn(&CoreStats) -> u64) -> u64 {
    cores.iter().filter(|core| core.island == island).map(of).sum()
}

impl Bench {
    /// Compiles a program of `user/flick` for all instruction sets, once.
    ///
    /// # Errors
    /// The compiler cannot be fetched, or refuses.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        self.compile(&Path::new("user/flick").join(name).with_extension("c"))
    }

    /// Compiles a source file of the project for all instruction sets, once.
    ///
    /// # Errors
    /// As [`Self::program`].
    pub fn compile(&self, source: &Path) -> Result<PathBuf> {
        let name = source.file_stem().unwrap_or_default();
        let output = self.folder.join(name);
        if output.exists() {
            return Ok(output);
        }
        eprintln!("motet: compiling the guest program `{}` for every instruction set", name.display());
        let mut motet = Command::new(self.project.motet());
        motet.args(["cc", "-O2", "-I"]).arg(self.project.root.join("user/include"));
        motet.arg(self.project.root.join(source)).arg("-o").arg(&output);
        process::expect(&mut motet, COMPILE_AT_MOST)?;
        Ok(output)
    }

    /// A machine of `machines/`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn machine(&self, name: &str) -> Result<Described> {
        let file = self.project.root.join("machines").join(name).with_extension("toml");
        Ok(Described { machine: MachineSpec::load(&file)?, file })
    }

    /// The same machine with cores that poll before they sleep.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn polling(&self, machine: &Described) -> Result<Described> {
        let island = format!("[[island]]\npoll_us = {POLL_US}\n");
        self.changed(machine, "polling", &[("[[island]]\n", &island)])
    }

    /// The same machine with 2 GiB of host memory and 4 GiB of board memory, as Flick's board has.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn large(&self, machine: &Described) -> Result<Described> {
        let changes = [("size = \"1GiB\"", "size = \"6GiB\""), ("end = \"512MiB\"", "end = \"2GiB\"")];
        self.changed(machine, "large", &changes)
    }

    /// The same machine whose threads cross by a protocol.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn crossing(&self, machine: Described, protocol: Protocol) -> Result<Described> {
        match protocol {
            Protocol::Flick => self.migrating(&machine),
            Protocol::Motet => Ok(machine),
        }
    }

    /// The same machine whose calls are made as Flick does.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn migrating(&self, machine: &Described) -> Result<Described> {
        self.written(machine, "protocol", &format!("crossing = \"flick\"\n\n{}", machine.machine.text))
    }

    /// The Flick machine with stores over the link that take so long, and calls by `way` (`calls` in the file).
    ///
    /// # Errors
    /// The file cannot be written, or is another machine's.
    pub fn with_stores(&self, machine: &Described, store_ns: u64, way: &str) -> Result<Described> {
        let store = format!("\nstore_ns = {store_ns}\n");
        let calls = format!("calls = \"{way}\"\n\n[pool]\n");
        let changes = [("\nstore_ns = 4\n", &*store), ("\nstore_ns = 0\n", &*store), ("[pool]\n", &*calls)];
        self.changed(machine, &format!("{way}-{store_ns}"), &changes)
    }

    /// The same machine whose cores do not poll.
    ///
    /// # Errors
    /// The file cannot be written, or nothing polls.
    pub fn unpolled(&self, machine: &Described) -> Result<Described> {
        self.changed(machine, "unpolled", &[("poll_us = 1000\n", "poll_us = 0\n")])
    }

    /// The same machine, in whose file these texts are replaced; `how`: a word for the new file's name.
    ///
    /// # Errors
    /// The file has no such text, or the new one cannot be written.
    pub fn changed(&self, machine: &Described, how: &str, changes: &[(&str, &str)]) -> Result<Described> {
        let mut text = machine.machine.text.clone();
        for (from, to) in changes {
            if !text.contains(from) {
                let message = format!("{}: has no `{}`", machine.file.display(), from.trim());
                return Err(Error::new(ErrorKind::Data, message));
            }
            text = text.replace(from, to);
        }
        self.written(machine, how, &text)
    }

    fn written(&self, machine: &Described, how: &str, text: &str) -> Result<Described> {
        let stem = machine.file.file_stem().unwrap_or_default().to_string_lossy();
        let file = self.folder.join(format!("{stem}-{how}.toml"));
        std::fs::write(&file, text).map_err(file_error(&file))?;
        Ok(Described { machine: MachineSpec::parse(text)?, file })
    }

    /// A timed run of a shell command, with files in `/in`.
    ///
    /// # Errors
    /// The run fails, or takes longer than `at_most`.
    pub fn run(
        &self,
        machine: &Described,
        quantum_us: &str,
        files: &[&PathBuf],
        command: &str,
        at_most: Duration,
    ) -> Result<Run> {
        self.run_with(machine, quantum_us, &[], files, command, at_most)
    }

    /// The same, with further options of `motet run`.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_with(
        &self,
        machine: &Described,
        quantum_us: &str,
        options: &[&str],
        files: &[&PathBuf],
        command: &str,
        at_most: Duration,
    ) -> Result<Run> {
        let file = self.folder.join("stats.json");
        let mut motet = Command::new(self.project.motet());
        motet.env("CARGO_TARGET_DIR", &self.project.target);
        motet.args(["run", "--timed", "--quiet", "--quantum", quantum_us, "--machine"]).arg(&machine.file);
        motet.args(options).arg("--stats").arg(&file);
        for file in files {
            motet.arg("--in").arg(file);
        }
        let output = process::expect(motet.args(["--", command]), at_most)?;
        let stats = read_stats(&file)?;
        stats.disorders().iter().for_each(|disorder| eprintln!("motet: {command}: {disorder}"));
        Ok(Run { output, stats })
    }
}

/// The number of the first island of an instruction set.
///
/// # Errors
/// There is none.
pub fn island_of(machine: &Described, isa: Isa) -> Result<usize> {
    let found = machine.machine.islands.iter().position(|island| island.isa == isa);
    found.ok_or_else(|| {
        let message = format!("{} has no island of {}", machine.file.display(), isa.name());
        Error::new(ErrorKind::Data, message)
    })
}

#[cfg(test)]
mod tests {
    use motet_machine::Crossing;

    use super::*;

    fn run(output: &str) -> Run {
        Run { output: output.into(), stats: Stats::default() }
    }

    #[test]
    fn flicks_protocol_is_a_key_of_the_machine_and_of_no_table_in_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = std::env::temp_dir();
        let bench = Bench { project: Project { target: root.join("target"), root }, folder };
        let flick = bench.machine("flick").unwrap();
        // Also where [pool] is not the first table.
        let sorted = flick.machine.text.parse::<toml::Table>().unwrap().to_string();
        let sorted =
            Described { machine: MachineSpec::parse(&sorted).unwrap(), file: "motet-crossing-test.toml".into() };
        for (protocol, crossing) in Protocol::BOTH.into_iter().zip([Crossing::Flick, Crossing::Direct]) {
            assert_eq!(bench.crossing(sorted.clone(), protocol).unwrap().machine.crossing, crossing);
        }
        std::fs::remove_file(bench.folder.join("motet-crossing-test-protocol.toml")).unwrap();
    }

    #[test]
    fn crossings_are_read_and_local_ones_refused() {
        let good = run("nxp 5 4\nfrom to calls\n0 1 1\n1 0 10001\npages_run_locally 0\ncalls_run_locally 0\n");
        assert_eq!(good.crossings(1, 0).unwrap(), 10001);
        assert!(good.crossings(0, 2).is_err());
        assert!(run("from to calls\n0 1 1\npages_run_locally 2\n").crossings(0, 1).is_err());
        assert!(run("from to calls\n0 1 1\npages_run_locally 0\ncalls_run_locally 1\n").crossings(0, 1).is_err());
        assert!(run("from to calls\n0 1 1\n").crossings(0, 1).is_err());
        assert!(run("0 1 1\n").crossings(0, 1).is_err());
    }
}
