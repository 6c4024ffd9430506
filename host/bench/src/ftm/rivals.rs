//! How threads get to vectors, the machines that they do it on, and runs of the programs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;
use motet_toolchain::Tools;

use crate::{
    flick::machines::Bench as Machines,
    linux::{self, Settings, Started},
    motet::Described,
    process,
    project::{Project, file_error},
};

/// How far cores may be apart, in microseconds. A doorbell takes no time here, so as little as is bearable.
pub const QUANTUM_US: &str = "1";
/// The same where things take many milliseconds.
pub const LONG_QUANTUM_US: &str = "50";
const AT_MOST: Duration = Duration::from_secs(1800);
/// Linux's first hart is where a thread begins, the second one has vectors, or is hidden. The plugin sums what both execute.
const LINUX_HARTS: [&str; 2] = ["-smp", "2"];
/// What Linux has left to do when its first program runs would be counted as the program's.
const SETTLE_S: u32 = 15;
const LINUX_CPU: &str = "rv64,v=true,vlen=128";

/// Who brings threads to vectors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rival {
    /// Motet's kernels: the thread runs on at the other core.
    Fused,
    /// This project's firmware under Motet: the other hart is hidden, whatever the thread asks brings it home.
    Firmware,
    /// The program itself pins its thread, on Motet.
    Pinned,
    /// This project's firmware under Linux, which knows nothing of it.
    LinuxFirmware,
    /// The program itself pins its thread, on Linux.
    LinuxPinned,
}

impl Rival {
    /// Its name in metrics.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Fused => "fused",
            Self::Firmware => "firmware",
            Self::Pinned => "pinned",
            Self::LinuxFirmware => "linux_firmware",
            Self::LinuxPinned => "linux_pinned",
        }
    }

    /// Its name in tables and on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fused => "Motet, fused",
            Self::Firmware => "Motet, firmware",
            Self::Pinned => "Motet, pinned",
            Self::LinuxFirmware => "Linux, firmware",
            Self::LinuxPinned => "Linux, pinned",
        }
    }

    /// The program's word for it.
    pub const fn way(self) -> &'static str {
        match self {
            Self::Fused => "trap",
            Self::Firmware | Self::LinuxFirmware => "firmware",
            Self::Pinned | Self::LinuxPinned => "pin",
        }
    }
}

/// A machine that a thread finds vectors on.
#[derive(Debug)]
pub struct Accelerated {
    /// Its name in tables and on the page.
    pub title: &'static str,
    /// At the end of metrics' names.
    pub suffix: &'static str,
    /// The file in `machines/`, and the core with vectors.
    pub visible: (&'static str, u32),
    /// The file of the machine whose vector hart is hidden.
    pub hidden: Option<&'static str>,
}

/// The first one is where the headline figures come from.
pub const MACHINES: [Accelerated; 3] = [
    Accelerated {
        title: "an instruction a cycle, two kernels",
        suffix: "",
        visible: ("ftm", 16),
        hidden: Some("ftm-firmware"),
    },
    Accelerated {
        title: "an instruction a cycle, one kernel",
        suffix: "_one_kernel",
        visible: ("ftm-one-kernel", 1),
        hidden: None,
    },
    Accelerated { title: "with caches, two kernels", suffix: "_caches", visible: ("ftm-caches", 16), hidden: None },
];

/// What one entry of a region cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Of simulated time; on Linux as many as instructions.
    pub cycles: f64,
    /// Sums over all cores.
    pub instructions: f64,
}

/// By a region's name.
pub type Costs = BTreeMap<String, Cost>;

/// The cost of a region.
///
/// # Errors
/// It was not measured.
pub fn cost(costs: &Costs, region: &str) -> Result<Cost> {
    let missing = || Error::new(ErrorKind::Software, format!("the region `{region}` was not measured"));
    costs.get(region).copied().ok_or_else(missing)
}

/// What the parts of the experiment share.
#[derive(Debug)]
pub struct Bench {
    /// Runs of timed machines.
    pub machines: Machines,
    program: PathBuf,
}

impl Bench {
    /// Compiles the program.
    ///
    /// # Errors
    /// The compiler cannot be fetched, or refuses.
    pub fn new() -> Result<Self> {
        let project = Project::find()?;
        let folder = project.scratch("ftm")?;
        let program = folder.join("ftm");
        let tools = Tools::find(&project.target.join("toolchain"))?;
        let mut compiler = tools.command("cc");
        compiler.args(["-target", "riscv64-linux-musl", "-static", "-O2", "-Wall", "-Werror", "-I"]);
        compiler.arg(project.root.join("user/include")).arg(project.root.join("user/ftm/ftm.c"));
        compiler.arg("-o").arg(&program).env("ZIG_GLOBAL_CACHE_DIR", project.target.join("toolchain/zig-cache"));
        eprintln!("motet: compiling the guest program `ftm`");
        process::expect(&mut compiler, AT_MOST)?;
        Ok(Self { machines: Machines { project, folder }, program })
    }

    /// Runs experiments of the program on Motet, in simulated time. `words`: what follows the way and the accelerator.
    ///
    /// # Errors
    /// The run fails, or a thread found vectors in another way.
    pub fn run(
        &self,
        machine: &Described,
        quantum_us: &str,
        rival: Rival,
        accelerator: u32,
        words: &str,
    ) -> Result<Costs> {
        let command = format!("/in/ftm {} {accelerator} {words}", rival.way());
        let run =
            self.machines.run_with(machine, quantum_us, &["--deterministic"], &[&self.program], &command, AT_MOST)?;
        expect_end(&run.output)?;
        let mhz = run.stats.machine.islands.first().map_or(1000, |island| island.frequency_mhz) as f64;
        let mut costs = Costs::new();
        for region in &run.stats.regions {
            let per = |sum: f64| sum / region.entries.max(1) as f64;
            let instructions = region.cores.iter().map(|core| core.instructions).sum::<u64>();
            let cycles = per(region.time_ps as f64 * mhz / 1e6);
            costs.insert(region.name.clone(), Cost { cycles, instructions: per(instructions as f64) });
        }
        Ok(costs)
    }

    /// Runs experiments of the program on Linux. Its timer follows the host's clock, so that how many ticks an entry has depends on the
    /// host: each cost is the least of all entries. `marks`: names by the program's marks.
    ///
    /// # Errors
    /// The run fails.
    pub fn run_linux(&self, rival: Rival, words: &str, marks: &[(usize, &str)]) -> Result<Costs> {
        let project = &self.machines.project;
        let further = self.linux_arguments(rival);
        let words = format!("{} 1 settle {SETTLE_S} {words}", rival.way());
        let started = Started { words: &words, ..started(&further) };
        let program = std::fs::read(&self.program).map_err(file_error(&self.program))?;
        let file = linux::count(project, Isa::RiscV64, &started, &self.machines.folder, &program)?;
        let text = std::fs::read_to_string(&file).map_err(file_error(&file))?;
        Ok(marks
            .iter()
            .filter_map(|&(mark, name)| {
                let counts = counted(&text, mark);
                let instructions = counts.into_iter().min_by(f64::total_cmp)?;
                Some((name.to_owned(), Cost { cycles: instructions, instructions }))
            })
            .collect())
    }

    /// What Linux runs on.
    ///
    /// # Errors
    /// The kernel cannot be fetched.
    pub fn describe_linux(&self, rival: Rival) -> Result<String> {
        let further = self.linux_arguments(rival);
        let further: Vec<String> = further.into_iter().map(|word| short(&word)).collect();
        started(&further).describe(&self.machines.project, Isa::RiscV64)
    }

    fn linux_arguments(&self, rival: Rival) -> Vec<String> {
        let mut further = LINUX_HARTS.map(str::to_owned).to_vec();
        if rival == Rival::LinuxFirmware {
            let firmware = self.machines.project.target.join(motet_fabric::run::firmware_path());
            further.extend(["-bios".into(), firmware.display().to_string(), "-fw_cfg".into()]);
            further.push("name=opt/org.motet/hidden-harts,string=1".into());
        }
        further
    }
}

fn started(further: &[String]) -> Started<'_> {
    Started {
        cpu: LINUX_CPU,
        settings: Settings::Usual,
        further,
        words: "",
        files: &[],
        says: "ftm: ok",
        counts: "out",
    }
}

/// A path's last part: paths of the computer are nobody's business.
fn short(word: &str) -> String {
    let path = Path::new(word);
    if path.is_absolute() { path.file_name().unwrap_or_default().to_string_lossy().into_owned() } else { word.into() }
}

fn expect_end(output: &str) -> Result<()> {
    if output.lines().any(|line| line == "ftm: ok") {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Software, format!("the program did not come to its end:\n{}", process::tail(output, ""))))
}

/// Instructions between the two marks of a number, each time.
fn counted(text: &str, mark: usize) -> Vec<f64> {
    let mut begin = None;
    let mut counts = Vec::new();
    for line in text.lines() {
        let Some((at, count)) = line.split_once(' ') else { continue };
        let (Ok(at), Ok(count)) = (at.parse::<usize>(), count.parse::<u64>()) else { continue };
        if at == 2 * mark {
            begin = Some(count);
        } else if at == 2 * mark + 1
            && let Some(begin) = begin.take()
        {
            counts.push((count - begin) as f64);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_between_the_marks_of_one_number() {
        let text = "16 5\n0 10\n70 11\n1 30\n0 40\n2 41\n3 43\n1 70\n0 80\n";
        assert_eq!(counted(text, 0), [20.0, 30.0]);
        assert_eq!(counted(text, 1), [2.0]);
        assert_eq!(counted(text, 8), [0.0; 0]);
    }

    #[test]
    fn paths_of_the_computer_are_not_told() {
        assert_eq!(short("/a/b/motet-firmware"), "motet-firmware");
        assert_eq!(short("name=opt/org.motet/x,string=1"), "name=opt/org.motet/x,string=1");
    }
}
