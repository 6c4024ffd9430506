//! QEMU processes: how each ISA's machine is built, and starting and stopping it.
//!
//! What every QEMU must have (ARCHITECTURE.md): multi-threaded TCG and at least two virtual CPUs, because only then are
//! its atomics atomic for other processes; private memory first, the pool behind it.

use std::{
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use motet_layout::Isa;
use rustix::{
    fs::MemfdFlags,
    io::FdFlags,
    pipe::PipeFlags,
    process::{Signal, WaitId, WaitIdOptions},
};

use crate::{console::Console, qmp::Qmp};
use motet_error::{Context, Error, ErrorKind, Result};
use motet_machine::{IslandSpec, MachineSpec};

/// Oldest QEMU that is known to work, (major, minor).
pub const VERSION_MIN: (u64, u64) = (10, 0);

/// How QEMU builds the machine of an ISA.
#[derive(Clone, Copy, Debug)]
struct Board {
    /// The program.
    program: &'static str,
    /// Debian's package of it.
    package: &'static str,
    /// `-machine`, without the parts that depend on the island.
    machine: &'static str,
    /// Default `-cpu`.
    cpu: &'static str,
    /// Features that the kernel needs and that not every model has.
    needed: &'static [&'static str],
    /// Further arguments.
    extra: &'static [&'static str],
}

/// The board of an ISA; `None` for ISAs that QEMU does not run.
const fn board(isa: Isa) -> Option<Board> {
    Some(match isa {
        // qboot: SeaBIOS takes a third of a second longer. Devices that nobody uses are off.
        Isa::X86_64 => Board {
            program: "qemu-system-x86_64",
            package: "qemu-system-x86",
            machine: "q35,sata=off,smbus=off,usb=off,vmport=off,i8042=off,smm=off,graphics=off",
            cpu: "qemu64,+ssse3,+sse4.1,+sse4.2,+popcnt,+fsgsbase,+pdpe1gb",
            needed: &["fsgsbase", "pdpe1gb"],
            extra: &["-bios", "qboot.rom"],
        },
        Isa::AArch64 => Board {
            program: "qemu-system-aarch64",
            package: "qemu-system-arm",
            machine: "virt,gic-version=3",
            cpu: "cortex-a76",
            needed: &[],
            extra: &[],
        },
        Isa::RiscV64 => Board {
            program: "qemu-system-riscv64",
            package: "qemu-system-riscv (older Debian: qemu-system-misc)",
            machine: "virt,aia=aplic-imsic",
            cpu: "rv64",
            needed: &[],
            extra: &[],
        },
        Isa::Hosted => return None,
    })
}

/// The `-cpu` of an island whose description names one, or none: with what the kernel needs, unless that says something about it, and without
/// what it is not to have.
fn cpu(board: &Board, named: Option<&str>, without: &[&str]) -> String {
    let mut cpu = named.unwrap_or(board.cpu).to_owned();
    for feature in board.needed {
        if !cpu.contains(feature) {
            cpu += &format!(",+{feature}");
        }
    }
    without.iter().for_each(|feature| cpu += &format!(",-{feature}"));
    cpu
}

/// What x86-64's cores decode as something else without it, so that nobody notices: `lzcnt` is `bsr` then, and `tzcnt` is `bsf`.
const DECODED: [&str; 2] = ["abm", "bmi1"];

/// Which features no core of x86-64 is to have, because some have not got them and would silently do something else. QEMU is asked, if
/// islands have different models.
///
/// # Errors
/// QEMU is not installed, or the host refuses resources.
pub fn unshared(machine: &MachineSpec) -> Result<Vec<&'static str>> {
    let Some(board) = board(Isa::X86_64) else { return Ok(Vec::new()) };
    let mut cpus: Vec<String> = Vec::new();
    for island in machine.islands.iter().filter(|island| island.isa == Isa::X86_64) {
        cpus.push(cpu(&board, island.cpu.as_deref(), &[]));
    }
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() < 2 {
        return Ok(Vec::new());
    }
    let (mut qmp, qmp_end) = Qmp::pair()?;
    let mut command = Command::new(locate(Isa::X86_64)?);
    command.args(["-machine", "none", "-nodefaults", "-no-user-config", "-display", "none"]);
    command.args([
        "-chardev",
        &format!("socket,id=qmp,fd={}", qmp_end.as_raw_fd()),
        "-mon",
        "chardev=qmp,mode=control",
    ]);
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    inherit(&mut command, &[qmp_end.as_fd()]);
    let mut child = command.spawn().context(ErrorKind::Unavailable, || format!("cannot start {}", board.program))?;
    // Of a model that QEMU does not know, it says so itself when the island starts.
    let known = cpus.iter().filter_map(|cpu| {
        let has = qmp.features_of(cpu.split(',').next()?, &DECODED)?;
        Some(DECODED.iter().zip(has).map(|(feature, has)| has_feature(cpu, feature, has)).collect())
    });
    let known: Vec<Vec<bool>> = known.collect();
    qmp.quit();
    let _ = child.kill();
    let _ = child.wait();
    let differs = |index: &usize| known.iter().any(|has| has[*index] != known[0][*index]);
    let mut without: Vec<_> = (0..DECODED.len()).filter(differs).map(|index| DECODED[index]).collect();
    if without.contains(&"bmi1") {
        // No processor has BMI2 without BMI1, and QEMU's would not know `bzhi` then.
        without.push("bmi2");
    }
    Ok(without)
}

/// Whether a `-cpu` has a feature that its model has or has not: QEMU takes what is assigned first, then what is added, then what is taken away.
fn has_feature(cpu: &str, feature: &str, of_model: bool) -> bool {
    let changes = || cpu.split(',').skip(1);
    if changes().any(|change| change.strip_prefix('-') == Some(feature)) {
        return false;
    }
    if changes().any(|change| change.strip_prefix('+') == Some(feature)) {
        return true;
    }
    let assigned = changes().filter_map(|change| change.strip_prefix(feature)?.strip_prefix('='));
    assigned.last().map_or(of_model, |value| matches!(value, "on" | "true" | "yes"))
}

/// The `-cpu` of islands whose description names none; `None` for ISAs that QEMU does not run.
pub fn default_cpu(isa: Isa) -> Option<&'static str> {
    board(isa).map(|board| board.cpu)
}

/// The `-cpu` of AArch64 islands whose guests have simulated time: theirs traps (FEAT_ECV), and extensions are as few as those of the other default.
const HIDES_TIME: &str = "max,pauth=off,sve=off,sme=off";

/// Descriptors that QEMU inherits, by the number they have here and there.
#[derive(Clone, Copy, Debug)]
struct Descriptors {
    pool: RawFd,
    kernel: RawFd,
    firmware: Option<RawFd>,
    doorbell: RawFd,
    qmp: RawFd,
}

/// What one island's QEMU is started with.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The island.
    pub island: &'a IslandSpec,
    /// Its id.
    pub index: usize,
    /// The kernel image, as QEMU wants it.
    pub kernel: BorrowedFd<'a>,
    /// What runs below the kernel, if it is not what QEMU comes with.
    pub firmware: Option<BorrowedFd<'a>>,
    /// `mode=` for the kernel.
    pub mode: &'a str,
    /// The pool's memory file.
    pub pool: BorrowedFd<'a>,
    /// Its number in its kernel's table of islands.
    pub number: usize,
    /// Where it sees its kernel's pool: a local physical address.
    pub pool_phys: u64,
    /// Bytes of the memory file to map.
    pub map_len: u64,
    /// The doorbell device's server socket.
    pub doorbell: OwnedFd,
    /// Vectors of the doorbell device.
    pub vectors: usize,
    /// The plugin that keeps the time of a timed machine.
    pub plugin: Option<&'a crate::timed::PluginLaunch<'a>>,
    /// Features that cores of x86-64 are not to have ([`unshared`]).
    pub without: &'a [&'static str],
    /// Its network device, as arguments.
    pub network: &'a [String],
    /// Arguments behind all others.
    pub further: &'a [String],
}

/// A running QEMU.
#[derive(Debug)]
pub struct Qemu {
    child: Child,
    /// Becomes readable when the process ends.
    pidfd: OwnedFd,
    /// The island's diagnostic console and QEMU's own messages.
    pub console: Console,
    /// Its control socket.
    pub qmp: Qmp,
}

impl Qemu {
    /// Starts an island. The process dies with the calling *thread*, so call it from one that lives as long as the run.
    ///
    /// # Errors
    /// QEMU is not installed, or the host refuses resources.
    pub fn start(launch: Launch<'_>) -> Result<Self> {
        let name = &launch.island.name;
        let program = locate(launch.island.isa)?;
        let (output, console_end) =
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC).host("a pipe for an island's console")?;
        let (qmp, qmp_end) = Qmp::pair()?;
        let descriptors = Descriptors {
            pool: launch.pool.as_raw_fd(),
            kernel: launch.kernel.as_raw_fd(),
            firmware: launch.firmware.map(|firmware| firmware.as_raw_fd()),
            doorbell: launch.doorbell.as_raw_fd(),
            qmp: qmp_end.as_raw_fd(),
        };
        let mut command = Command::new(&program);
        command.args(arguments(&launch, descriptors)).process_group(0).stdin(Stdio::null());
        command.stderr(Stdio::from(console_end.try_clone().host("descriptors")?)).stdout(Stdio::from(console_end));
        let mut inherited = vec![launch.pool, launch.kernel, launch.doorbell.as_fd(), qmp_end.as_fd()];
        inherited.extend(launch.firmware);
        inherited.extend(launch.plugin.iter().flat_map(|plugin| plugin.descriptors.iter().copied()));
        inherit(&mut command, &inherited);
        let child = command
            .spawn()
            .context(ErrorKind::Unavailable, || format!("island {name}: cannot start {}", program.display()))?;
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).host("a descriptor")?;
        Ok(Self { child, pidfd, console: Console::new(output)?, qmp })
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Readable when the process has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether a signal has stopped the process (SIGSTOP).
    pub fn is_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), options).is_ok_and(|status| status.is_some())
    }

    /// How the process ended, if it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Kills the process at once and reaps it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until the process ends by itself; tells whether it did.
    pub fn wait(&mut self, at_most: Duration) -> bool {
        let timeout = rustix::event::Timespec::try_from(at_most).ok();
        let mut fds = [rustix::event::PollFd::new(&self.pidfd, rustix::event::PollFlags::IN)];
        let ended = matches!(rustix::event::poll(&mut fds, timeout.as_ref()), Ok(n) if n > 0);
        ended && self.child.wait().is_ok()
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What an exit status of QEMU means.
pub fn describe_exit(status: ExitStatus) -> String {
    match status.code() {
        Some(0) => "QEMU ended: the island reset or powered itself off (a triple fault resets)".into(),
        Some(code) => format!("QEMU ended with status {code}"),
        None => format!("QEMU was killed ({status})"),
    }
}

/// Finds the QEMU of an ISA on `PATH`.
///
/// # Errors
/// What to install.
pub fn locate(isa: Isa) -> Result<PathBuf> {
    let Some(board) = board(isa) else {
        return Err(Error::new(ErrorKind::Config, format!("QEMU does not run {} islands", isa.name())));
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(board.program)).find(|file| file.is_file());
    found.ok_or_else(|| {
        let message = format!(
            "{} is not installed; install QEMU {}.{} or later (Debian: apt install {})",
            board.program, VERSION_MIN.0, VERSION_MIN.1, board.package
        );
        Error::new(ErrorKind::Unavailable, message)
    })
}

/// The version of a QEMU program, and whether it is recent enough.
///
/// # Errors
/// The program does not run or does not tell.
pub fn version(program: &Path) -> Result<((u64, u64), bool)> {
    let what = || format!("cannot run {} --version", program.display());
    let output = Command::new(program).arg("--version").output().context(ErrorKind::Unavailable, what)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers =
        text.split("version ").nth(1).unwrap_or_default().split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok(((major, minor), (major, minor) >= VERSION_MIN)),
        _ => Err(Error::new(ErrorKind::Unavailable, format!("{} does not tell its version", program.display()))),
    }
}

/// Checks that a QEMU program is recent enough for timed runs and was built with plugins.
///
/// # Errors
/// What it lacks.
pub fn check_plugins(isa: Isa) -> Result<()> {
    let program = locate(isa)?;
    let ((major, minor), recent) = version(&program)?;
    let name = program.display();
    if !recent {
        let message = format!(
            "{name} is version {major}.{minor}; timed runs need QEMU {}.{} or later (plugin interface version 4)",
            VERSION_MIN.0, VERSION_MIN.1
        );
        return Err(Error::new(ErrorKind::Unavailable, message));
    }
    let what = || format!("cannot run {name} --help");
    let help = Command::new(&program).arg("--help").output().context(ErrorKind::Unavailable, what)?;
    if String::from_utf8_lossy(&help.stdout).lines().any(|line| line.starts_with("-plugin")) {
        return Ok(());
    }
    let message = format!("{name} (version {major}.{minor}) was built without plugins, which timed runs need");
    Err(Error::new(ErrorKind::Unavailable, message))
}

/// A memfd that holds an image for QEMU to load.
///
/// # Errors
/// The host refuses memory.
pub fn memory_file(bytes: &[u8]) -> Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("motet-kernel", MemfdFlags::CLOEXEC).host("a memory file")?;
    let mut file = std::fs::File::from(fd);
    std::io::Write::write_all(&mut file, bytes).host("memory for a kernel image")?;
    Ok(file.into())
}

/// Virtual CPUs of an island: its cores, and a parked spare where that is needed. Two at least make QEMU's atomics real;
/// a RISC-V machine wants a hart in each memory node, and the pool's node gets the spare.
fn vcpus(island: &IslandSpec) -> usize {
    match island.isa {
        Isa::RiscV64 => island.cores + island.hidden_harts.max(1),
        Isa::X86_64 | Isa::AArch64 | Isa::Hosted => island.cores.max(2),
    }
}

fn arguments(launch: &Launch<'_>, fds: Descriptors) -> Vec<String> {
    let island = launch.island;
    let Some(board) = board(island.isa) else { return Vec::new() };
    let vcpus = vcpus(island);
    let machine = match island.isa {
        Isa::X86_64 => format!("{},max-ram-below-4g={}", board.machine, island.private),
        // Their kernels begin in EL2 then.
        Isa::AArch64 if island.guests => format!("{},virtualization=on", board.machine),
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => board.machine.into(),
    };
    let (own_cpus, pool_cpus) = match island.isa {
        Isa::RiscV64 => (format!(",cpus=0-{}", vcpus - 2), format!(",cpus={}", vcpus - 1)),
        Isa::X86_64 | Isa::AArch64 | Isa::Hosted => (format!(",cpus=0-{}", vcpus - 1), String::new()),
    };
    let mut arguments: Vec<String> = Vec::new();
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    option("-name", format!("motet-{},debug-threads=on", island.name));
    option("-machine", machine);
    // All harts have what the hidden ones need; the firmware takes it away from the others.
    let vectors = (island.hidden_harts > 0).then(|| format!("{},v=true", board.cpu));
    let keeps_time = island.isa == Isa::AArch64 && island.guests && launch.plugin.is_some();
    let own = vectors.as_deref().or(keeps_time.then_some(HIDES_TIME));
    let without = if island.isa == Isa::X86_64 { launch.without } else { &[] };
    option("-cpu", cpu(&board, island.cpu.as_deref().or(own), without));
    option("-accel", "tcg,thread=multi".into());
    option("-smp", vcpus.to_string());
    option("-m", format!("{}M", (island.private + launch.map_len) >> 20));
    option("-object", format!("memory-backend-ram,id=private,size={},reserve=off", island.private));
    let pool = fds.pool;
    option(
        "-object",
        format!("memory-backend-file,id=pool,share=on,size={},mem-path=/proc/self/fd/{pool}", launch.map_len),
    );
    option("-numa", format!("node,nodeid=0,memdev=private{own_cpus}"));
    option("-numa", format!("node,nodeid=1,memdev=pool{pool_cpus}"));
    option("-kernel", format!("/proc/self/fd/{}", fds.kernel));
    if let Some(firmware) = fds.firmware {
        option("-bios", format!("/proc/self/fd/{firmware}"));
    }
    if island.hidden_harts > 0 {
        option("-fw_cfg", format!("name=opt/org.motet/hidden-harts,string={}", island.hidden_harts));
    }
    option("-append", format!("island={} pool={:#x} mode={}", launch.number, launch.pool_phys, launch.mode));
    option("-chardev", format!("socket,id=doorbell,fd={}", fds.doorbell));
    option("-device", format!("ivshmem-doorbell,chardev=doorbell,vectors={}", launch.vectors));
    option("-chardev", format!("socket,id=qmp,fd={}", fds.qmp));
    option("-mon", "chardev=qmp,mode=control".into());
    option("-chardev", "stdio,id=console,signal=off".into());
    option("-serial", "chardev:console".into());
    if let Some(plugin) = launch.plugin {
        option("-plugin", plugin.argument(launch.index));
    }
    option("-display", "none".into());
    arguments.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned));
    arguments.extend(board.extra.iter().map(|&word| word.to_owned()));
    arguments.extend_from_slice(launch.network);
    arguments.extend_from_slice(launch.further);
    arguments
}

/// Starts a program for guests on the bare board of RISC-V, alone on one core, under the timing plugin; what it prints is standard output.
/// Instructions take so many nanoseconds of the board's own time that it is 2 to the power of `shift`. It dies with the calling *thread*.
///
/// # Errors
/// QEMU is not installed, or the host refuses resources.
pub fn start_bare(
    island: &IslandSpec,
    image: &Path,
    append: &str,
    shift: u32,
    plugin: &crate::timed::PluginLaunch<'_>,
) -> Result<Child> {
    let program = locate(island.isa)?;
    let mut command = Command::new(&program);
    let size = island.private;
    let arguments = [
        ("-machine", "virt,memory-backend=private".to_owned()),
        ("-cpu", cpu(&board(island.isa).expect("located"), island.cpu.as_deref(), &[])),
        ("-icount", format!("shift={shift},sleep=off")),
        ("-m", format!("{}M", size >> 20)),
        ("-object", format!("memory-backend-ram,id=private,size={size},reserve=off")),
        ("-kernel", image.display().to_string()),
        ("-append", append.to_owned()),
        ("-plugin", plugin.bare_argument()),
        ("-display", "none".into()),
        ("-serial", "stdio".into()),
    ];
    for (name, value) in arguments {
        command.arg(name).arg(value);
    }
    command.args(["-nodefaults", "-no-user-config", "-no-reboot"]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    inherit(&mut command, &plugin.descriptors);
    command.spawn().context(ErrorKind::Unavailable, || format!("cannot start {}", program.display()))
}

/// Lets the child keep `fds`, and makes the kernel kill it when this thread ends.
fn inherit(command: &mut Command, fds: &[BorrowedFd<'_>]) {
    let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let parent = rustix::process::getpid();
    let prepare = move || {
        for &number in &numbers {
            // SAFETY: the caller holds these descriptors open until after `spawn`, and the child has copies of them.
            rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::empty())?;
        }
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the line above.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec, `prepare` makes system calls only: no allocation, no locks.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn models_get_what_the_kernel_needs_unless_they_speak_of_it() {
        let cpu = |isa: &str, cpu: &str| {
            let line = line(&format!("isa = \"{isa}\"\ncores = 1\ncpu = \"{cpu}\"\n"));
            line.split(' ').skip_while(|word| *word != "-cpu").nth(1).map(str::to_owned).unwrap()
        };
        assert_eq!(cpu("x86_64", "Haswell"), "Haswell,+fsgsbase,+pdpe1gb,-abm");
        assert_eq!(cpu("x86_64", "max,-pdpe1gb"), "max,-pdpe1gb,+fsgsbase,-abm", "the kernel says what is missing");
        assert_eq!(cpu("aarch64", "max"), "max");
    }

    #[test]
    fn features_are_found_in_a_model_with_changes() {
        for (cpu, of_model, has) in [
            ("Haswell", true, true),
            ("Haswell,-abm", true, false),
            ("Nehalem,+abm", false, true),
            ("Nehalem,+abm,-abm", false, false),
            ("Nehalem,abm=on", false, true),
            ("max,abm=on,abm=off,-abmx", true, false),
        ] {
            assert_eq!(has_feature(cpu, "abm", of_model), has, "{cpu}");
        }
    }

    fn line(toml: &str) -> String {
        line_with(toml, None)
    }

    fn line_with(toml: &str, firmware: Option<RawFd>) -> String {
        let migration = if toml.contains("hidden_harts") { "migration = \"firmware\"\n" } else { "" };
        let machine =
            MachineSpec::parse(&format!("{migration}[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\n{toml}"))
                .unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let island = &machine.islands[0];
        let launch = Launch {
            island,
            index: 3,
            number: 3,
            pool_phys: motet_machine::local_ranges(island.isa, island.private, 64 << 20)[0].1,
            kernel: null.as_fd(),
            firmware: None,
            mode: "run",
            pool: null.as_fd(),
            map_len: 66 << 20,
            doorbell: null.try_clone().unwrap().into(),
            vectors: 2,
            plugin: None,
            without: &["abm"],
            network: &[],
            further: &[],
        };
        arguments(&launch, Descriptors { pool: 10, kernel: 11, firmware, doorbell: 12, qmp: 13 }).join(" ")
    }

    #[test]
    fn every_island_has_real_atomics() {
        for (isa, smp) in [("x86_64", 2), ("aarch64", 2), ("riscv64", 2)] {
            let line = line(&format!("isa = \"{isa}\"\ncores = 1"));
            assert!(line.contains(&format!("-smp {smp} ")) && line.contains("tcg,thread=multi"), "{line}");
            assert!(!line.contains("icount"));
        }
        assert!(line("isa = \"riscv64\"\ncores = 2").contains("-smp 3 "));
    }

    #[test]
    fn kernels_are_told_where_the_pool_is() {
        let x86 = line("isa = \"x86_64\"\ncores = 4");
        assert!(x86.contains("max-ram-below-4g=67108864"), "{x86}");
        assert!(x86.contains("-append island=3 pool=0x100000000 mode=run"));
        let arm = line("isa = \"aarch64\"\ncores = 1\ncpu = \"max\"");
        assert!(arm.contains("pool=0x50000000") && arm.contains("-cpu max ") && arm.contains("-m 322M"), "{arm}");
        let riscv = line("isa = \"riscv64\"\ncores = 2");
        assert!(riscv.contains("memdev=private,cpus=0-1") && riscv.contains("memdev=pool,cpus=2"), "{riscv}");
    }

    #[test]
    fn firmware_replaces_what_qemu_comes_with() {
        let riscv = "isa = \"riscv64\"\ncores = 1";
        assert!(line_with(riscv, Some(14)).contains(" -kernel /proc/self/fd/11 -bios /proc/self/fd/14 "));
        assert!(!line(riscv).contains("-bios"));
    }

    #[test]
    fn hidden_harts_are_further_ones_and_all_have_vectors() {
        let hidden = "isa = \"riscv64\"\ncores = 2\nfirmware = \"motet\"\nhidden_harts = 3";
        let text = line_with(hidden, Some(14));
        assert!(text.contains("-smp 5 ") && text.contains("-cpu rv64,v=true "), "{text}");
        assert!(text.contains(" -fw_cfg name=opt/org.motet/hidden-harts,string=3 "), "{text}");
        assert!(!line("isa = \"riscv64\"\ncores = 2").contains("-fw_cfg"));
    }

    #[test]
    fn islands_of_aarch64_have_guests_if_they_are_asked_for() {
        let arm = "isa = \"aarch64\"\ncores = 1\nguests = ";
        assert!(line(&format!("{arm}true")).contains(" virt,gic-version=3,virtualization=on "));
        assert!(!line(&format!("{arm}false")).contains("virtualization"));
        assert!(!line("isa = \"riscv64\"\ncores = 1\nguests = true").contains("virtualization"));
    }

    #[test]
    fn exits_are_described() {
        assert!(describe_exit(ExitStatus::from_raw(9)).contains("SIGKILL"));
        assert!(describe_exit(ExitStatus::from_raw(0x100)).contains("status 1"));
        assert!(describe_exit(ExitStatus::from_raw(0)).contains("triple fault"));
    }
}
