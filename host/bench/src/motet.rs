//! Runs of Motet, through its command line: what is measured is what users get.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use motet_error::Result;
use motet_layout::Isa;
use motet_machine::MachineSpec;

use crate::{
    counts::{self, Costs},
    process,
    project::{ISAS, Project, file_error},
};

/// The first program is preceded by the C library.
const COMPILE_AT_MOST: Duration = Duration::from_secs(600);

/// A machine description, and the file that `motet run` reads it from.
#[derive(Clone, Debug)]
pub struct Described {
    /// The machine.
    pub machine: MachineSpec,
    /// The file.
    pub file: PathBuf,
}

/// Writes the description of a machine with these islands; each is called by its ISA's name.
///
/// # Errors
/// The file cannot be written.
pub fn describe(folder: &Path, islands: &[(Isa, usize)]) -> Result<Described> {
    let mut text = "[pool]\nsize = \"512MiB\"\n".to_owned();
    for (isa, cores) in islands {
        text += &format!("\n[[island]]\nname = \"{0}\"\nisa = \"{0}\"\ncores = {cores}\n", isa.name());
    }
    let file = folder.join("machine.toml");
    std::fs::write(&file, &text).map_err(file_error(&file))?;
    Ok(Described { machine: MachineSpec::parse(&text)?, file })
}

/// A folder `programs/ISA` with the guest programs, to be copied into a machine as `/in/programs`.
///
/// # Errors
/// They are not built, or cannot be copied.
pub fn collect_programs(project: &Project, folder: &Path) -> Result<PathBuf> {
    let programs = folder.join("programs");
    for isa in ISAS {
        let into = programs.join(isa.name());
        std::fs::create_dir_all(&into).map_err(file_error(&into))?;
        for name in ["calls", "stream"] {
            let from = project.guest_program(isa, name)?;
            std::fs::copy(&from, into.join(name)).map_err(file_error(&from))?;
        }
    }
    Ok(programs)
}

/// Runs a shell command in a machine; its standard output.
///
/// # Errors
/// The machine or the command fails, or takes longer than `at_most`.
pub fn run(
    project: &Project,
    machine: &Described,
    options: &[String],
    command: &str,
    at_most: Duration,
) -> Result<String> {
    let mut motet = Command::new(project.motet());
    motet.arg("run").arg("--verbose").arg("--machine").arg(&machine.file);
    process::expect(motet.args(options).args(["--", command]), at_most)
}

/// What the operations cost on the island of this ISA in a machine of these islands, which have one core each.
///
/// # Errors
/// As [`run`].
pub fn costs(project: &Project, isa: Isa, islands: &[Isa]) -> Result<(Described, Costs)> {
    let folder = project.scratch(&format!("calls-{}", isa.name()))?;
    let (machine, marks) = calls_under_plugin(project, isa, islands, &folder, "out")?;
    Ok((machine, counts::read(&marks)?))
}

/// Executes the operations on such an island, with the counting plugin in this mode: the file that it wrote.
///
/// # Errors
/// As [`run`].
pub fn calls_under_plugin(
    project: &Project,
    isa: Isa,
    islands: &[Isa],
    folder: &Path,
    mode: &str,
) -> Result<(Described, PathBuf)> {
    let islands: Vec<_> = islands.iter().map(|isa| (*isa, 1)).collect();
    let machine = describe(folder, &islands)?;
    let programs = collect_programs(project, folder)?;
    let written = folder.join("counted");
    let options = [
        "--qemu".to_owned(),
        format!("{}=-plugin {},{mode}={}", isa.name(), project.counting_plugin()?.display(), written.display()),
        "--in".to_owned(),
        programs.display().to_string(),
    ];
    // Where memory is placed at random, whether a page needs page tables of its own is random, too.
    let command = format!("echo 0 > /proc/sys/kernel/randomize_va_space; /in/programs/{}/calls", isa.name());
    run(project, &machine, &options, &command, Duration::from_secs(300))?;
    Ok((machine, written))
}

/// Compiles a program for an instruction set with `motet cc`; `arguments` are options and sources.
///
/// # Errors
/// It does not compile.
pub fn compile<I: AsRef<OsStr>>(
    project: &Project,
    isa: Isa,
    arguments: impl IntoIterator<Item = I>,
    into: &Path,
) -> Result<()> {
    let mut motet = Command::new(project.motet());
    motet.arg("cc").arg(format!("--isa={}", isa.name())).args(arguments);
    process::expect(motet.arg("-o").arg(into), COMPILE_AT_MOST).map(drop)
}
