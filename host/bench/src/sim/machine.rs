//! Runs of the guest programs in `user/kernels`, in machines with caches of a given shape.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::stats::Stats;
use motet_layout::Isa;
use motet_machine::MachineSpec;

use super::Geometry;
use crate::{
    motet::Described,
    project::{ISAS, Project, file_error},
};

/// What a guest program computes, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in metrics.
    pub name: &'static str,
    /// What comes before the count: `cg S`.
    pub arguments: &'static str,
    /// Iterations.
    pub count: u64,
}

impl Program {
    /// The same program, with another count.
    pub const fn with(self, count: u64) -> Self {
        Self { count, ..self }
    }

    /// The shell command in the machine.
    pub fn command(&self, isa: Isa) -> String {
        format!("/in/{}/kernels {} {}", isa.name(), self.arguments, self.count)
    }
}

/// Describes a machine of islands with one core each, called by their ISAs.
///
/// # Errors
/// The file cannot be written.
pub fn describe(folder: &Path, islands: &[Isa], geometry: &Geometry) -> Result<Described> {
    describe_with(folder, islands, geometry, "")
}

/// The same; `more`: further lines of `[[model.core]]`.
///
/// # Errors
/// As [`describe`].
pub fn describe_with(folder: &Path, islands: &[Isa], geometry: &Geometry, more: &str) -> Result<Described> {
    let cache = |name: &str, cache: super::Cache, cycles: u64| {
        format!("{name} = {{ size = {}, ways = {}, cycles = {cycles} }}\n", cache.size, cache.ways)
    };
    let mut text = "[pool]\nsize = \"512MiB\"\n".to_owned();
    for isa in islands {
        text += &format!("\n[[island]]\nname = \"{0}\"\nisa = \"{0}\"\ncores = 1\n", isa.name());
    }
    text += "\n[[model.core]]\nfrequency_mhz = 2000\nmemory_cycles = 300\n";
    text += &cache("l1i", geometry.l1i, 0);
    text += &cache("l1d", geometry.l1d, 4);
    text += &geometry.l2.map_or(String::new(), |l2| cache("l2", l2, 14));
    text += more;
    let file = folder.join("machine.toml");
    std::fs::write(&file, &text).map_err(file_error(&file))?;
    Ok(Described { machine: MachineSpec::parse(&text)?, file })
}

/// Copies the programs to folders `ISA/kernels`, for `--in`.
///
/// # Errors
/// They are not built, or cannot be copied.
pub fn programs(project: &Project, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for isa in ISAS {
        let into = folder.join(isa.name());
        std::fs::create_dir_all(&into).map_err(file_error(&into))?;
        let from = project.float_program(isa, "kernels")?;
        std::fs::copy(&from, into.join("kernels")).map_err(file_error(&from))?;
        folders.push(into);
    }
    Ok(folders)
}

/// `motet run` of a shell command with these programs and options.
pub fn run(project: &Project, machine: &Described, programs: &[PathBuf], options: &[String], command: &str) -> Command {
    let mut motet = Command::new(project.motet());
    motet.arg("run").arg("--machine").arg(&machine.file).args(options);
    for program in programs {
        motet.arg("--in").arg(program);
    }
    motet.args(["--", command]);
    motet
}

/// Reads what a timed run wrote.
///
/// # Errors
/// It is missing, or of another version.
pub fn read_stats(file: &Path) -> Result<Stats> {
    let text = std::fs::read(file).map_err(file_error(file))?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::new(ErrorKind::Software, format!("{}: {error}", file.display())))
}
