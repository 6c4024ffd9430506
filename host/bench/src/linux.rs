//! What the operations cost on Linux: Debian's kernel on the same QEMU and CPU, with the same program as its `/init`.
//!
//! Figures are kept in the folder of build results, and measured again when the kernel's package, QEMU, the CPU or the
//! program changes.

use std::{
    hash::{DefaultHasher, Hasher},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{initramfs, qemu};
use motet_layout::Isa;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    counts::{self, Costs},
    process,
    project::{Project, file_error, qemu_version},
};

/// How long Linux may take.
const AT_MOST: Duration = Duration::from_secs(900);

/// Linux's figures for one ISA.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference<C = Costs> {
    /// Costs of the operations, in instructions.
    pub costs: C,
    /// What they were measured on.
    pub source: String,
    /// Identifies all that the figures depend on.
    key: String,
}

/// What Linux is told at its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settings {
    /// What a user gets.
    Usual,
    /// Without measures against the processors' flaws, which Motet does not take either.
    MitigationsOff,
    /// Without all that can be left out at the start and Motet has nothing of.
    Lean,
}

impl Settings {
    /// All but the usual ones.
    pub const FURTHER: [Self; 2] = [Self::MitigationsOff, Self::Lean];

    /// Their part of metrics' names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usual => "linux",
            Self::MitigationsOff => "linux_mitigations_off",
            Self::Lean => "linux_lean",
        }
    }

    /// Linux's parameters (Documentation/admin-guide/kernel-parameters.txt).
    fn parameters(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::MitigationsOff => " mitigations=off",
            Self::Lean => {
                " mitigations=off randomize_kstack_offset=off hardened_usercopy=off init_on_alloc=0 init_on_free=0 audit=0 lsm= \
                 cgroup_disable=memory,pids,cpuset,io psi=0 nokaslr"
            }
        }
    }
}

/// How Linux is started on an ISA.
struct Board {
    /// Debian's name of the ISA.
    debian: &'static str,
    /// QEMU's machine, as Motet's islands have it.
    machine: &'static str,
    /// Name of the serial port.
    console: &'static str,
}

fn board(isa: Isa) -> Option<Board> {
    Some(match isa {
        Isa::X86_64 => Board { debian: "amd64", machine: "q35", console: "ttyS0" },
        Isa::AArch64 => Board { debian: "arm64", machine: "virt,gic-version=3", console: "ttyAMA0" },
        Isa::RiscV64 => Board { debian: "riscv64", machine: "virt,aia=aplic-imsic", console: "ttyS0" },
        Isa::Hosted => return None,
    })
}

#[cfg(test)]
impl<C> Reference<C> {
    /// Figures for tests.
    pub fn known(costs: C, source: &str) -> Self {
        Self { costs, source: source.into(), key: String::new() }
    }
}

/// A program whose figures are kept.
#[derive(Debug)]
pub struct Program<'a> {
    /// What the files with its figures are called.
    pub name: &'a str,
    /// The program.
    pub bytes: &'a [u8],
    /// Its arguments, in words.
    pub words: &'a str,
    /// What else is in its file system.
    pub files: &'a [(&'a str, &'a [u8])],
    /// What it prints at its end.
    pub says: &'a str,
}

impl Program<'_> {
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.bytes);
        for part in self.files.iter().map(|(_, contents)| *contents).chain([self.words.as_bytes()]) {
            hasher.write(part);
        }
        hasher.finish()
    }
}

/// Figures of `calls` on an ISA: kept ones if they still hold and `remeasure` does not ask for new ones.
///
/// # Errors
/// As [`figures`].
pub fn reference(project: &Project, isa: Isa, settings: Settings, remeasure: bool) -> Result<Reference> {
    let program = project.guest_program(isa, "calls")?;
    let bytes = std::fs::read(&program).map_err(file_error(&program))?;
    let program = Program { name: "calls", bytes: &bytes, words: "", files: &[], says: "calls: ok" };
    figures(project, isa, settings, remeasure, &program, counts::read)
}

/// Figures of a program on an ISA, which `read` takes from what the plugin wrote: kept ones if they still hold and `remeasure` does not ask for new ones.
///
/// # Errors
/// The kernel cannot be fetched, or Linux does not run the program to its end.
pub fn figures<C: Serialize + DeserializeOwned>(
    project: &Project,
    isa: Isa,
    settings: Settings,
    remeasure: bool,
    program: &Program<'_>,
    read: impl FnOnce(&Path) -> Result<C>,
) -> Result<Reference<C>> {
    let folder = project.target.join("linux").join(isa.name());
    let unknown = || Error::new(ErrorKind::Software, format!("no Linux for {}", isa.name()));
    let board = board(isa).ok_or_else(unknown)?;
    let cpu = qemu::default_cpu(isa).ok_or_else(unknown)?;
    let package = kernel(project, &board, &folder)?;
    let source = format!("Linux{}: Debian {package}, QEMU {}, -cpu {cpu}", settings.parameters(), qemu_version(isa)?);
    let key = format!("{source}, program {:016x}", program.hash());
    let kept = folder.join(match settings {
        Settings::Usual => format!("{}.json", program.name),
        Settings::MitigationsOff | Settings::Lean => format!("{}-{}.json", program.name, settings.name()),
    });
    if !remeasure {
        let reference = std::fs::read(&kept).ok().and_then(|text| serde_json::from_slice::<Reference<C>>(&text).ok());
        if let Some(reference) = reference.filter(|reference| reference.key == key) {
            return Ok(reference);
        }
    }
    eprintln!("motet: measuring Linux{} on {} (once, a minute or two)", settings.parameters(), isa.name());
    // One CPU, as the island has one core. Its clock follows its instructions, so that Linux has few timer ticks however
    // slow or busy the host is. (QEMU 10.0 crashes when it counts like this for two CPUs and a plugin.)
    let further = ["-smp", "1", "-icount", "shift=0,sleep=off"].map(str::to_owned);
    let &Program { words, files, says, .. } = program;
    let started = Started { cpu, settings, further: &further, words, files, says, counts: "out" };
    let costs = read(&count(project, isa, &started, &folder, program.bytes)?)?;
    let reference = Reference { costs, source, key };
    let text = serde_json::to_string_pretty(&reference).expect("numbers and strings");
    std::fs::write(&kept, text).map_err(file_error(&kept))?;
    Ok(reference)
}

/// How Linux is started.
#[derive(Debug)]
pub struct Started<'a> {
    /// QEMU's `-cpu`.
    pub cpu: &'a str,
    /// What Linux is told.
    pub settings: Settings,
    /// Further arguments of QEMU.
    pub further: &'a [String],
    /// Arguments of the program, in words.
    pub words: &'a str,
    /// What else is in its file system.
    pub files: &'a [(&'a str, &'a [u8])],
    /// What the program prints at its end.
    pub says: &'a str,
    /// The counting plugin's word for what it is to write (`host/counting-plugin`).
    pub counts: &'a str,
}

impl Started<'_> {
    /// What runs here, for people.
    ///
    /// # Errors
    /// The kernel cannot be fetched, or QEMU is missing.
    pub fn describe(&self, project: &Project, isa: Isa) -> Result<String> {
        let board =
            board(isa).ok_or_else(|| Error::new(ErrorKind::Software, format!("no Linux for {}", isa.name())))?;
        let package = kernel(project, &board, &project.target.join("linux").join(isa.name()))?;
        Ok(format!("Debian {package}, QEMU {}, -cpu {} {}", qemu_version(isa)?, self.cpu, self.further.join(" ")))
    }
}

/// Debian's kernel for an instruction set, which is fetched unless it is there.
///
/// # Errors
/// There is none, or it cannot be fetched.
pub fn image(project: &Project, isa: Isa) -> Result<PathBuf> {
    let board = board(isa).ok_or_else(|| Error::new(ErrorKind::Software, format!("no Linux for {}", isa.name())))?;
    let folder = project.target.join("linux").join(isa.name());
    kernel(project, &board, &folder)?;
    Ok(folder.join("vmlinuz"))
}

/// Runs a program as Linux's first one, under the counting plugin: the file of marks that this wrote into `folder`.
///
/// # Errors
/// The kernel cannot be fetched, or Linux does not run the program to its end.
pub fn count(project: &Project, isa: Isa, started: &Started<'_>, folder: &Path, program: &[u8]) -> Result<PathBuf> {
    let board = board(isa).ok_or_else(|| Error::new(ErrorKind::Software, format!("no Linux for {}", isa.name())))?;
    let of_isa = project.target.join("linux").join(isa.name());
    kernel(project, &board, &of_isa)?;
    let (initramfs, marks) = (folder.join("initramfs"), folder.join("marks"));
    let folders: Vec<&str> = started.files.iter().filter_map(|(name, _)| Some(name.rsplit_once('/')?.0)).collect();
    let programs = [&[("init", program)][..], started.files].concat();
    std::fs::write(&initramfs, initramfs::archive(&folders, &programs)).map_err(file_error(&initramfs))?;
    let mut command = Command::new(qemu::locate(isa)?);
    command.args(["-machine", board.machine, "-cpu", started.cpu, "-m", "512M"]).args(started.further);
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"]);
    command.arg("-kernel").arg(of_isa.join("vmlinuz")).arg("-initrd").arg(&initramfs);
    // A panic ends QEMU. What follows the dashes goes to the program.
    let parameters = started.settings.parameters();
    let line = format!("console={} quiet panic=-1{parameters} -- {}", board.console, started.words);
    command.args(["-append", &line]);
    let plugin = format!("{},{}={}", project.counting_plugin()?.display(), started.counts, marks.display());
    command.args(["-plugin", &plugin]);
    let text = process::expect(&mut command, AT_MOST)?;
    if !text.contains(started.says) {
        let message = format!("Linux did not run the program to its end\n{}", process::tail(&text, ""));
        return Err(Error::new(ErrorKind::Software, message));
    }
    Ok(marks)
}

/// Fetches Debian's kernel unless it is there; its package and version.
fn kernel(project: &Project, board: &Board, folder: &Path) -> Result<String> {
    let (image, package) = (folder.join("vmlinuz"), folder.join("package"));
    if let (true, Ok(text)) = (image.is_file(), std::fs::read_to_string(&package)) {
        return Ok(text.trim().to_owned());
    }
    let work = project.scratch(&format!("fetch-{}", board.debian))?;
    std::fs::create_dir_all(folder).map_err(file_error(folder))?;
    let name = format!("linux-image-{0}:{0}", board.debian);
    eprintln!("motet: fetching Debian's {name}");
    let mut fetch = Command::new(project.root.join("scripts/setup.sh"));
    process::expect(fetch.arg("--fetch").arg(&work).arg(&name), Duration::from_secs(900))?;
    let deb = only_file(&work)?;
    unpack_image(&deb, &image)?;
    let fields = process::expect(
        Command::new("dpkg-deb").args(["--show", "--showformat", "${Package} ${Version}"]).arg(&deb),
        Duration::from_secs(60),
    )?;
    // Last, because it says that the image is complete.
    std::fs::write(&package, &fields).map_err(file_error(&package))?;
    let _ = std::fs::remove_dir_all(&work);
    Ok(fields)
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let entry = std::fs::read_dir(folder).map_err(file_error(folder))?.next();
    let entry = entry.ok_or_else(|| Error::new(ErrorKind::Unavailable, "apt downloaded nothing"))?;
    Ok(entry.map_err(file_error(folder))?.path())
}

/// How long it may take to unpack a package.
const UNPACK_WITHIN: Duration = Duration::from_secs(60);

/// Writes the kernel of a package to `image`, without unpacking its thousands of modules.
fn unpack_image(deb: &Path, image: &Path) -> Result<()> {
    let failed = |what: &str| Error::new(ErrorKind::Unavailable, format!("{}: {what}", deb.display()));
    let file = std::fs::File::create(image).map_err(file_error(image))?;
    let mut archive = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(deb)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&format!("dpkg-deb: {error}")))?;
    let tar = Command::new("tar")
        .args(["-x", "-O", "--wildcards", "./boot/vmlinu*"])
        .stdin(archive.stdout.take().map_or_else(Stdio::null, Stdio::from))
        .stdout(file)
        .spawn();
    let unpacked = tar.is_ok_and(|mut tar| process::wait(&mut tar, UNPACK_WITHIN) == Some(true));
    if process::wait(&mut archive, UNPACK_WITHIN) != Some(true) || !unpacked {
        return Err(failed("has no kernel"));
    }
    Ok(())
}
