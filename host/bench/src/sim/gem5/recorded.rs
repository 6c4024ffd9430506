//! Traces of programs on the machine itself: what its cores do in user programs and in the kernel.

use std::{
    collections::HashMap,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use flate2::read::GzDecoder;
use motet_coherence::interleaved::{self, Step};
use motet_error::Result;
use motet_layout::{Isa, PAGE_SIZE};

use crate::{
    motet, process,
    project::{Project, file_error},
};

const ISA: Isa = Isa::X86_64;
const SOURCE: &str = "user/sharing/sharing.c";
const AT_MOST: Duration = Duration::from_secs(120);
/// Accesses of a trace.
const COUNT: u64 = 60_000;
/// Microseconds for which a core has its turn: short, or cores would hardly meet in a trace.
const QUANTUM_US: &str = "0.5";

/// A program, and the part of its accesses that is a trace.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, which the files have, too.
    pub name: &'static str,
    /// Cores of the machine, which is one island.
    pub cores: usize,
    command: &'static str,
    skip: u64,
}

/// All of them.
pub const PROGRAMS: [Program; 5] = [
    Program { name: "cg", cores: 1, command: "motet roi cg /in/kernels cg S 1", skip: 1_000_000 },
    Program { name: "is", cores: 1, command: "motet roi is /in/kernels is S 10", skip: 2_000_000 },
    Program { name: "pipe", cores: 2, command: "/in/sharing pipe 400", skip: 100_000 },
    Program { name: "queue", cores: 2, command: "/in/sharing queue 1000", skip: 50_000 },
    Program { name: "lock", cores: 4, command: "/in/sharing lock 400", skip: 50_000 },
];

/// The guest programs, for `--in`.
///
/// # Errors
/// One is not built, or does not compile.
pub fn guests(project: &Project, folder: &Path) -> Result<[PathBuf; 2]> {
    let sharing = folder.join("sharing");
    let include = project.root.join("user/include");
    let arguments = ["-O2".into(), "-I".into(), include, project.root.join(SOURCE)];
    motet::compile(project, ISA, arguments, &sharing)?;
    Ok([sharing, project.float_program(ISA, "kernels")?])
}

impl Program {
    /// Runs it, on a machine with caches as `model`, a `[model]` table, has them; what its cores did.
    ///
    /// # Errors
    /// The machine or the program fails, or a file cannot be written.
    pub fn record(&self, project: &Project, folder: &Path, model: &str, guests: &[PathBuf]) -> Result<Vec<Step>> {
        eprintln!("motet: recording {}", self.name);
        let (machine, accesses) = (folder.join("machine.toml"), folder.join(format!("{}.txt", self.name)));
        let island = format!("[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"a\"\nisa = \"{}\"\n", ISA.name());
        let text = format!("{island}cores = {}\n{}", self.cores, model.replace("[[core]]", "[[model.core]]"));
        std::fs::write(&machine, text).map_err(file_error(&machine))?;
        let mut motet = Command::new(project.motet());
        motet.args(["run", "--quiet", "--timed", "--deterministic", "--quantum", QUANTUM_US, "--machine"]);
        motet.arg(&machine).arg("--accesses").arg(&accesses);
        motet.args(["--accesses-skip", &self.skip.to_string(), "--accesses-max", &COUNT.to_string()]);
        for guest in guests {
            motet.arg("--in").arg(guest);
        }
        process::expect(motet.args(["--", self.command]), AT_MOST)?;
        let file = File::open(&accesses).map_err(file_error(&accesses))?;
        Ok(compact(interleaved::read(BufReader::new(file)).map_err(file_error(&accesses))?))
    }
}

/// Reads a trace that is kept.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<Vec<Step>> {
    let file = File::open(path).map_err(file_error(path))?;
    interleaved::read(BufReader::new(GzDecoder::new(file))).map_err(file_error(path))
}

/// The same accesses in a small memory: frames get numbers in the order of their first use. That is another allocation of frames;
/// what is in one frame stays together.
fn compact(mut steps: Vec<Step>) -> Vec<Step> {
    let mut frames = HashMap::new();
    for step in &mut steps {
        let next = frames.len() as u64;
        let frame = *frames.entry(step.address / PAGE_SIZE).or_insert(next);
        step.address = frame * PAGE_SIZE + step.address % PAGE_SIZE;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_numbered_by_first_use_and_keep_what_is_in_them() {
        let text = "0 f 100000123040\n1 l 5008\n0 s 100000123ff8\n1 a 5000\n0 l 4000\n";
        let compacted: Vec<String> =
            compact(interleaved::read(text.as_bytes()).unwrap()).iter().map(Step::to_string).collect();
        assert_eq!(compacted, ["0 f 40", "1 l 1008", "0 s ff8", "1 a 1000", "0 l 2000"]);
    }
}
