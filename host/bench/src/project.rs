//! Where the project's files are, and how this host is described in results.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{qemu, run::target_of};
use motet_layout::Isa;
use motet_machine::MachineSpec;

use crate::process;

/// The instruction sets of the experiments.
pub const ISAS: [Isa; 3] = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];

/// The project, as the front door built it.
#[derive(Clone, Debug)]
pub struct Project {
    /// The project's folder.
    pub root: PathBuf,
    /// The folder of build results.
    pub target: PathBuf,
}

impl Project {
    /// Finds it by the variables that the front door sets.
    ///
    /// # Errors
    /// It was not the front door that started this program.
    pub fn find() -> Result<Self> {
        let variable = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .ok_or_else(|| Error::new(ErrorKind::Unavailable, format!("{name} is not set; use ./motet bench")))
        };
        let root = variable("MOTET_ROOT")?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Ok(Self { root, target })
    }

    /// The program `motet`.
    pub fn motet(&self) -> PathBuf {
        self.target.join("release/motet")
    }

    /// A guest program of an ISA.
    ///
    /// # Errors
    /// It is not built.
    pub fn guest_program(&self, isa: Isa, name: &str) -> Result<PathBuf> {
        built(self.target.join(target_of(isa)).join("release").join(name))
    }

    /// A guest program of an ISA that computes with floating point.
    ///
    /// # Errors
    /// It is not built.
    pub fn float_program(&self, isa: Isa, name: &str) -> Result<PathBuf> {
        let target = match isa {
            Isa::X86_64 => "x86_64-unknown-linux-gnu",
            Isa::AArch64 => "aarch64-unknown-none",
            Isa::RiscV64 => "riscv64gc-unknown-none-elf",
            Isa::Hosted => return Err(Error::new(ErrorKind::Software, "no guest programs for hosted islands")),
        };
        built(self.target.join(target).join("release").join(name))
    }

    /// The plugin that counts instructions.
    ///
    /// # Errors
    /// It is not built.
    pub fn counting_plugin(&self) -> Result<PathBuf> {
        built(self.target.join("release/libmotet_counting_plugin.so"))
    }

    /// An empty folder for files of an experiment.
    ///
    /// # Errors
    /// The host refuses.
    pub fn scratch(&self, name: &str) -> Result<PathBuf> {
        let folder = self.target.join("bench").join(name);
        let failed = |error| Error::new(ErrorKind::CantCreate, format!("{}: {error}", folder.display()));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(failed)?;
        }
        std::fs::create_dir_all(&folder).map_err(failed)?;
        Ok(folder)
    }
}

fn built(path: PathBuf) -> Result<PathBuf> {
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::new(ErrorKind::Unavailable, format!("{} is not built; use ./motet bench", path.display())))
}

/// A failure to read or write a file of an experiment.
pub fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.display().to_string();
    move |error| Error::new(ErrorKind::Io, format!("{path}: {error}"))
}

/// QEMU's version, all of it: `10.0.2 (Debian 1:10.0.2+ds-2)`.
///
/// # Errors
/// It is not installed.
pub fn qemu_version(isa: Isa) -> Result<String> {
    let program = qemu::locate(isa)?;
    let text = process::expect(Command::new(program).arg("--version"), Duration::from_secs(20))?;
    let line = text.lines().next().unwrap_or_default();
    Ok(line.split_once("version ").map_or(line, |(_, version)| version).trim().to_owned())
}

/// Describes a machine and its host: `x86_64 x1 + riscv64 x2, QEMU 10.0.2, host 2 x PROCESSOR`.
///
/// # Errors
/// QEMU is not installed.
pub fn describe(machine: &MachineSpec) -> Result<String> {
    let islands: Vec<String> =
        machine.islands.iter().map(|island| format!("{} x{}", island.isa.name(), island.cores)).collect();
    let isa = machine.islands.first().map_or(Isa::X86_64, |island| island.isa);
    let version = qemu_version(isa)?;
    let number = version.split_whitespace().next().unwrap_or_default();
    Ok(format!("{}, QEMU {number}, {}", islands.join(" + "), host()))
}

/// The host's processors.
pub fn host() -> String {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    format!("host {count} x {}", model.unwrap_or(std::env::consts::ARCH))
}
