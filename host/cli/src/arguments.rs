//! The commands and options of `motet`.

mod experiments;
mod project;
mod tools;

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use motet_fabric::network::Published;
use motet_package::options::PackageOptions;
use motet_sweep::options::SweepOptions;
use motet_top::options::TopOptions;

pub use self::{
    experiments::BenchOptions,
    project::{BuildOptions, CompletionsOptions, GuestsOptions, ManOptions, TestOptions},
    tools::{Addr2lineOptions, ObjdumpOptions, ToolOptions},
};

/// One operating system over cores of several instruction sets.
#[derive(Parser, Debug)]
#[command(
    name = "motet",
    version,
    about = "One operating system over x86-64, AArch64 and RISC-V cores that share one memory",
    disable_help_subcommand = true
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Subcommand,
}

/// The commands. [`crate::help`] has their groups; the first example of each is what `motet --help` shows.
#[derive(clap::Subcommand, Debug)]
pub enum Subcommand {
    /// Boot a machine and run a command in it, or a shell
    Run(Box<RunOptions>),
    /// Start an island again that has died, in a machine that goes on without it (`motet run --survive`)
    Restart(RestartOptions),
    /// Show what a machine that runs is doing: its islands, cores, threads, and who holds its locks
    State(StateOptions),
    /// Watch a machine that runs: its islands, cores, processes, memory, and what they count
    Top(TopOptions),
    /// Run virtual machines on a machine's cores, and use those that run
    Vm(Box<VmOptions>),
    /// Build the guests of virtual machines, and print where they are (docs/guests.md)
    Guests(GuestsOptions),
    /// Compile and link a C program for every instruction set at once; takes the arguments of any C compiler
    #[command(after_help = tools::CC_HELP)]
    Cc(ToolOptions),
    /// Compile and link a C++ program for every instruction set at once
    #[command(name = "c++", after_help = tools::CXX_HELP)]
    Cxx(ToolOptions),
    /// Link what `motet cc -c` has made; takes the options of linkers
    #[command(after_help = tools::LD_HELP)]
    Ld(ToolOptions),
    /// Make an archive of objects of `motet cc -c`; takes the options of `ar`
    #[command(after_help = tools::AR_HELP)]
    Ar(ToolOptions),
    /// Write an archive's table of symbols; takes the options of `ranlib`
    #[command(after_help = tools::RANLIB_HELP)]
    Ranlib(ToolOptions),
    /// Show a program of `motet cc`: its instruction sets, and for each function its pin and sizes
    Objdump(ObjdumpOptions),
    /// Show function, file and line of addresses in a program of `motet cc`, for each instruction set
    #[command(name = "addr2line")]
    Addr2line(Addr2lineOptions),
    /// Run the checks of Motet, side by side: all that CI runs, a step of them, or single tests
    Test(TestOptions),
    /// Run the hardware conformance suite on every island of a machine
    Conformance(ConformanceOptions),
    /// Measure what docs/figures.md records, beside the systems that Motet is compared with
    Bench(BenchOptions),
    /// Run a study: machines × programs × seeds, any key of a machine file or argument as an axis
    Sweep(SweepOptions),
    /// Compute how long allocations of the FPGA take at worst, from a machine description
    Wcet(WcetOptions),
    /// Say what is installed and what is missing; change nothing
    #[command(after_help = project::DOCTOR_HELP)]
    Doctor,
    /// Set up and build, without running anything
    Build(BuildOptions),
    /// Make a tar of Motet's programs, kernels, machine files and documents, to be unpacked on other computers
    Package(PackageOptions),
    /// Make a book of the documents that can be searched, and show it at an address of this computer
    Docs(DocsOptions),
    /// Print what completes this command line in a shell
    Completions(CompletionsOptions),
    /// Write the manual pages of all commands
    Man(ManOptions),
}

const DOCS_HELP: &str = "\
Examples:
  ./motet docs                      http://127.0.0.1:3000/, until it is interrupted
  ./motet docs --build-only --out book   the same pages as files in book/

The first call builds mdBook (some minutes).";

/// Options of `motet docs`, which the front door reads (scripts/docs.sh).
#[derive(Args, Debug)]
#[command(after_help = DOCS_HELP)]
pub struct DocsOptions {
    /// Make the book and show it nowhere
    #[arg(long)]
    pub build_only: bool,
    /// Copy the book to this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The port of 127.0.0.1
    #[arg(long, value_name = "N", default_value_t = 3000)]
    pub port: u16,
}

const WCET_HELP: &str = "\
Examples:
  ./motet wcet --machine machines/embedded.toml
  ./motet wcet --machine machines/embedded.toml --queue --json bounds.json
  ./motet wcet --machine machines/embedded.toml --client qam16:0:50 --client fft512:20:500 --client fft1024:20:500

The columns are the longest wait for what is stopped (stop), the longest reconfiguration (load), the four paths of an allocation, waits for others'
reconfigurations (queue) and for clients that are as urgent or more (rivals), and the worst of all. Without --client there is a line for the most urgent
client of each accelerator, whom nobody goes before, and one for the least urgent, who stops nobody and finds a region idle.
docs/wcet.md has the equations.";

/// Options of `motet wcet`.
#[derive(Args, Debug)]
#[command(after_help = WCET_HELP)]
pub struct WcetOptions {
    /// Machine description [default: machines/default.toml]
    #[arg(long, value_name = "FILE")]
    pub machine: Option<PathBuf>,
    /// The island that clients run on [default: the slowest one]
    #[arg(long, value_name = "NAME")]
    pub island: Option<String>,
    /// Others ask at the same time: their reconfigurations go first
    #[arg(long)]
    pub queue: bool,
    /// A client: its accelerator, its priority (0 is the most urgent, 39 the least) and for how many microseconds it computes. Those that are named
    /// (may be repeated) are all that there are
    #[arg(long = "client", value_name = "ACCELERATOR:PRIORITY:JOB_US")]
    pub clients: Vec<String>,
    /// Write the bounds to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Options of machines that run.
#[derive(Args, Debug)]
pub struct MachineOptions {
    /// Machine description [default: machines/default.toml]
    #[arg(long, value_name = "FILE")]
    pub machine: Option<PathBuf>,
    /// Show the islands' diagnostic consoles, each line after its island's name
    #[arg(long, short)]
    pub verbose: bool,
    /// Give up when an island has not joined (`conformance`: when no island has reported anything) for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub boot_timeout: f64,
    /// Give up (with --survive: on that island) when a core has shown no progress for this many seconds although it should
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    pub hang_timeout: f64,
    /// Further arguments, separated by spaces, for the QEMU of the island with this name (may be repeated)
    #[arg(long = "qemu", value_name = "ISLAND=ARGUMENTS", value_parser = qemu_arguments)]
    pub qemu_arguments: Vec<(String, Vec<String>)>,
}

/// Options of the network to the outside.
#[derive(Args, Debug, Default)]
pub struct NetworkOptions {
    /// The network to the outside: user: by QEMU's user network, through the islands whose description says network = true, or the first one;
    /// none: there is none, whatever the description says [default: user if it says so of an island, or with --publish]
    #[arg(long, value_name = "KIND")]
    pub net: Option<Net>,
    /// Lead connections to a port of this host, of 127.0.0.1 alone, to one of the machine's (may be repeated)
    #[arg(long = "publish", value_name = "HOST_PORT:GUEST_PORT[/udp]")]
    pub published: Vec<Published>,
}

/// Which network to the outside.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Net {
    /// None
    None,
    /// QEMU's user network, which needs no rights
    User,
}

/// Options of timed runs. Whatever conflicts with `--timed` has to conflict with each: where it does, none requires `--timed` any more.
const TIMED: [&str; 10] = [
    "timed",
    "deterministic",
    "quantum",
    "stats",
    "report",
    "accesses",
    "accesses_skip",
    "accesses_max",
    "points",
    "passages",
];

/// `motet run`.
#[derive(Args, Debug)]
#[command(after_help = RUN_HELP)]
pub struct RunOptions {
    #[command(flatten)]
    pub machine: MachineOptions,
    #[command(flatten)]
    pub network: NetworkOptions,
    /// Copy a file or folder into the machine as /in/NAME, as `cp -a` does (may be repeated)
    #[arg(long = "in", value_name = "PATH")]
    pub inputs: Vec<PathBuf>,
    /// Lay what a folder holds over the machine's root: unpacked packages of a distribution, for instance (may be repeated)
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<PathBuf>,
    /// When the command has ended, copy what is in the machine's /out to this folder, with modes and times, and as root with owners
    #[arg(long = "out", value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Simulate the machine's time: every core has a clock that its instructions and memory accesses advance
    #[arg(long)]
    pub timed: bool,
    /// Run one core at a time, so that two runs are the same (with --timed)
    #[arg(long, requires = "timed")]
    pub deterministic: bool,
    /// Farthest that one running core may be ahead of another, in simulated microseconds; auto: 10, and down to 0.1 while cores
    /// use the same lines out of turn; LEAST:MOST, such as 10:1000, lets it grow while islands exchange nothing (with --timed)
    #[arg(long, value_name = "US", default_value = "auto", value_parser = quantum, requires = "timed")]
    pub quantum: Quantum,
    /// Write what was simulated to this file, as JSON, which docs/stats.md describes (with --timed)
    #[arg(long, value_name = "FILE", requires = "timed")]
    pub stats: Option<PathBuf>,
    /// Write what was simulated to this folder, as a page with plots for a browser (with --timed)
    #[arg(long, value_name = "DIR", requires = "timed")]
    pub report: Option<PathBuf>,
    /// Write what every core ran when, and who woke whom, to this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write what all cores fetch, load and store in regions of interest to this file, in order, a line each: core, f, l, s or a
    /// (atomic), and address (with --timed --deterministic)
    #[arg(long, value_name = "FILE", requires = "deterministic")]
    pub accesses: Option<PathBuf>,
    /// Leave out so many of the first accesses (with --accesses)
    #[arg(long, value_name = "COUNT", default_value_t = 0, requires = "accesses")]
    pub accesses_skip: u64,
    /// Write so many accesses at most (with --accesses)
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=ACCESSES_MAX),
        requires = "accesses")]
    pub accesses_max: u64,
    /// Note when cores come by the instructions of this file, a line each: the island, the virtual address (0x...), and perhaps a register
    /// (with --timed and --passages)
    #[arg(long, value_name = "FILE", requires_all = ["timed", "passages"])]
    pub points: Option<PathBuf>,
    /// Write that to this file, a line each: the point's number from 0 on, the core, picoseconds, the register's value (with --points)
    #[arg(long, value_name = "FILE", requires = "points")]
    pub passages: Option<PathBuf>,
    /// When an island other than the first dies, or hangs (--hang-timeout), end the processes that were on it and go on without it
    #[arg(long, conflicts_with_all = TIMED)]
    pub survive: bool,
    /// Let gdb attach to every island: shows the command for each. A stopped island does not end the run
    #[arg(long, conflicts_with_all = TIMED, conflicts_with = "quiet")]
    pub gdb: bool,
    /// Say nothing on standard error but errors: no progress, no table
    #[arg(long, short, conflicts_with = "verbose")]
    pub quiet: bool,
    /// The command: its words, joined with spaces, go to the machine's `sh -c`. Without it: an interactive shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What is kept of them in memory is some hundred megabytes then.
const ACCESSES_MAX: u64 = 10_000_000;

const RUN_HELP: &str = "\
Examples:
  ./motet run -- 'on aarch64 uname -m | on riscv64 cat'
  ./motet run                                                          a shell on the default machine
  ./motet run --in data.csv --out results -- 'sort /in/data.csv > /out/sorted'
  ./motet run --machine machines/quad.toml --verbose
  ./motet run --timed --report results -- 'echo a | on aarch64 cat'    then open results/index.html
  ./motet run --trace trace.json -- 'echo a | on riscv64 cat'          then open it in ui.perfetto.dev
  ./motet run --timed --deterministic --accesses accesses.txt -- 'motet roi all ls'
  ./motet run --net user -- 'wget -O - http://example.org/'            the machine reaches what this computer reaches
  ./motet run --publish 8080:80 -- 'httpd -f -h /in'                   then open http://127.0.0.1:8080/

The command's output and error output arrive on standard output and standard error; its exit status is that of
`motet run` (128 + N when signal N killed it); 64 and up (sysexits.h) are Motet's own errors, 74 when output was lost: docs/setup.md lists them.
Quote what the machine's shell is to interpret.

In an interactive shell every key goes into the machine, Ctrl-C too. Typing Ctrl-] three times within a second ends
the run. Results of an interrupted run are not copied to --out.";

/// `motet restart`.
#[derive(Args, Debug)]
#[command(after_help = RESTART_HELP)]
pub struct RestartOptions {
    /// Its name, as in the machine's description
    #[arg(value_name = "ISLAND")]
    pub island: String,
    /// The process that runs its machine, if several run
    #[arg(long, value_name = "PROCESS")]
    pub run: Option<u32>,
}

const RESTART_HELP: &str = "\
Examples, beside `./motet run --survive` in another terminal:
  ./motet restart arm
  ./motet restart arm --run 4711     of several machines, that of process 4711

The island boots and joins the machine as that is: what was there before its death stays ended, and new threads are placed there again.
The command waits until it has joined. The first island cannot be started again: the machine ends with it.";

/// `motet state`.
#[derive(Args, Debug)]
#[command(after_help = STATE_HELP)]
pub struct StateOptions {
    /// The process that runs the machine, if several run
    #[arg(long, value_name = "PROCESS")]
    pub run: Option<u32>,
}

const STATE_HELP: &str = "\
Examples, beside `./motet run` in another terminal:
  ./motet state
  ./motet state --run 4711     of several machines, that of process 4711

For who finds out why a machine does not go on: words of its memory as they are, without stopping it. Numbers of states are those of fused/layout.";

const VMS_HELP: &str = "\
Examples:
  ./motet vm run --general guest.elf
  ./motet vm run --help";

/// `motet vm`.
#[derive(Args, Debug)]
#[command(after_help = VMS_HELP)]
pub struct VmOptions {
    /// What to do
    #[command(subcommand)]
    pub command: VmSubcommand,
}

/// Its commands.
#[derive(clap::Subcommand, Debug)]
pub enum VmSubcommand {
    /// Run images, each in a virtual machine on cores of its instruction set (RISC-V or AArch64), until all have ended
    Run(Box<VmRunOptions>),
    /// Show the virtual machines that run in this user's machines on this host
    #[command(after_help = LIST_HELP)]
    List,
    /// End one of them
    Kill(VmKillOptions),
    /// Use the console (serial port) of one of them: see what it has shown last and shows from now on, and type to it
    Console(VmConsoleOptions),
}

const LIST_HELP: &str = "\
Examples:
  ./motet vm list";

/// `motet vm console`.
#[derive(Args, Debug)]
#[command(after_help = CONSOLE_HELP)]
pub struct VmConsoleOptions {
    /// Its number, as `motet vm list` shows it; not needed if there is one alone
    #[arg(value_name = "ID")]
    pub id: Option<u32>,
    /// The process that runs its machine, if several run
    #[arg(long, value_name = "PROCESS")]
    pub run: Option<u32>,
}

const CONSOLE_HELP: &str = "\
Examples:
  ./motet vm console               the only virtual machine's
  ./motet vm console 2 --run 4711  that of number 2 of process 4711
  echo reboot | ./motet vm console 2; ./motet vm console 2 </dev/null >log

On a terminal, Ctrl-] leaves the console, and the virtual machine goes on. Otherwise it is in use until the virtual machine has ended,
or a signal comes. One at a time uses it; the run's own output has everything as before, and its input goes to the guest, too.";

const KILL_HELP: &str = "\
Examples:
  ./motet vm kill 2
  ./motet vm kill 2 --run 4711     of several machines, in that of process 4711";

/// `motet vm kill`.
#[derive(Args, Debug)]
#[command(after_help = KILL_HELP)]
pub struct VmKillOptions {
    /// Its number, as `motet vm list` shows it
    #[arg(value_name = "ID")]
    pub id: u32,
    /// The process that runs its machine, if several run
    #[arg(long, value_name = "PROCESS")]
    pub run: Option<u32>,
}

/// `motet vm run`.
#[derive(Args, Debug)]
#[command(after_help = VM_HELP)]
pub struct VmRunOptions {
    #[command(flatten)]
    pub machine: MachineOptions,
    /// An ELF file or a Linux kernel, to be run as an ordinary program is (may be repeated)
    #[arg(long, value_name = "IMAGE")]
    pub general: Vec<PathBuf>,
    /// A real-time system, which comes before all that is ordinary (may be repeated)
    #[arg(long, value_name = "IMAGE")]
    pub rtos: Vec<PathBuf>,
    /// Real-time systems get all of a core that they want; otherwise 95 % of it, while others wait
    #[arg(long, requires = "rtos")]
    pub strict: bool,
    /// Memory of each virtual machine, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub memory: u32,
    /// Cores of each
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub cpus: u32,
    /// A ram disk for each to begin with
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// The command line of each
    #[arg(long, value_name = "TEXT")]
    pub append: Option<String>,
    /// Memory with doorbells that all of them share, of 4 KiB or as many as are said (may be repeated)
    #[arg(long, value_name = "NAME[:KIB]")]
    pub share: Vec<String>,
    /// An accelerator of the machine's FPGA for each, or for one image (may be repeated)
    #[arg(long, value_name = "[IMAGE=]NAME[:US]")]
    pub accel: Vec<String>,
    /// Simulate the machine's time
    #[arg(long)]
    pub timed: bool,
    /// Say nothing on standard error but errors
    #[arg(long, short, conflicts_with = "verbose")]
    pub quiet: bool,
}

const VM_HELP: &str = "\
Examples:
  ./motet vm run --general guest.elf
  ./motet vm run --rtos control.elf --general vmlinuz --initrd initrd --append console=ttyS0 --memory 256
  ./motet vm run --machine machines/accelerators.toml --rtos radio.elf --general guest.elf --accel radio.elf=qam16 --accel fft512

One image has standard input and output as its console. Of several, each line has the image's name in front. The exit status is
0 if all have shut their machines down, otherwise that of the first one that has not. docs/vms.md says what an image finds.
AArch64's images need a machine whose file says guests = true, as machines/guests.toml; --accel one with an FPGA, as
machines/accelerators.toml. --accel NAME is for all images; with IMAGE=, an image's file name, for that one alone;
:US is its deadline.";

const CONFORMANCE_HELP: &str = "\
Examples:
  ./motet conformance
  ./motet conformance --machine machines/quad.toml --verbose
  ./motet conformance --net user                                           asks the network, too
  ./motet conformance --machine machines/multikernel.toml --stray above    ends with a fault, as it must";

/// `motet conformance`.
#[derive(Args, Debug)]
#[command(after_help = CONFORMANCE_HELP)]
pub struct ConformanceOptions {
    #[command(flatten)]
    pub machine: MachineOptions,
    /// With or without network devices, as for `motet run`
    #[arg(long, value_name = "KIND")]
    pub net: Option<Net>,
    /// Instead, a kernel of a machine whose islands have one each reads memory that is not its own, which must end the machine with a fault
    #[arg(long, value_name = "WHERE")]
    pub stray: Option<Stray>,
}

/// Where a kernel goes astray.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum Stray {
    /// The first kernel, behind its own memory and its windows
    Behind,
    /// The first kernel, in the second one's memory, by its physical address
    Above,
    /// The last kernel, in the memory of the one before it, by its physical address
    Below,
    /// The last kernel, in the first one's memory, as if it were a device
    Device,
}

fn qemu_arguments(text: &str) -> Result<(String, Vec<String>), String> {
    let (island, arguments) = text.split_once('=').ok_or("ISLAND=ARGUMENTS, for instance arm=-s")?;
    Ok((island.into(), arguments.split_ascii_whitespace().map(str::to_owned).collect()))
}

/// How far running cores may be apart, in simulated microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantum {
    /// While cores use the same lines out of turn.
    pub shortest_us: f64,
    /// While islands exchange something.
    pub least_us: f64,
    /// When they have not for long.
    pub most_us: f64,
}

impl Quantum {
    /// As short as what is exchanged makes necessary.
    pub const AUTO: Self = Self { shortest_us: 0.1, least_us: 10.0, most_us: 10.0 };
}

fn quantum(text: &str) -> Result<Quantum, String> {
    if text == "auto" {
        return Ok(Quantum::AUTO);
    }
    let (least, most) = text.split_once(':').unwrap_or((text, text));
    let microseconds = |text: &str| text.parse::<f64>().ok().filter(|value| (0.1..=100_000.0).contains(value));
    match (microseconds(least), microseconds(most)) {
        (Some(least_us), Some(most_us)) if least_us <= most_us => {
            Ok(Quantum { shortest_us: least_us, least_us, most_us })
        }
        (Some(_), Some(_)) => Err("LEAST:MOST, and LEAST is more than MOST".into()),
        _ => Err("auto, a number of microseconds from 0.1 to 100000, or two of them: LEAST:MOST".into()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.1..=86400.0).contains(&value) => Ok(value),
        Ok(_) | Err(_) => Err("a number of seconds from 0.1 to 86400".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn words_after_two_dashes_are_the_command() {
        let arguments =
            Arguments::try_parse_from(["motet", "run", "--in", "a", "--in", "b", "--", "ls", "-l"]).unwrap();
        let Subcommand::Run(options) = arguments.command else { panic!("not run") };
        assert_eq!(options.command, ["ls", "-l"]);
        assert_eq!(options.inputs.len(), 2);
        assert!(Arguments::try_parse_from(["motet", "run", "ls"]).is_err());
        assert!(Arguments::try_parse_from(["motet", "run", "--boot-timeout", "-1"]).is_err());
    }

    #[test]
    fn options_of_timed_runs_are_not_passed_over() {
        let runs = |options: &[&str]| Arguments::try_parse_from(["motet", "run"].iter().chain(options)).is_ok();
        assert!(runs(&["--survive"]) && runs(&["--gdb"]) && runs(&["--timed", "--stats", "x"]));
        for option in [
            &["--deterministic"][..],
            &["--quantum", "10"],
            &["--stats", "x"],
            &["--report", "x"],
            &["--accesses", "x"],
            &["--accesses-skip", "1"],
            &["--accesses-max", "1"],
            &["--points", "x"],
            &["--passages", "x"],
        ] {
            for other in ["--survive", "--gdb"] {
                assert!(!runs(&[&[other], option].concat()), "{other} {option:?}");
            }
        }
    }

    #[test]
    fn networks_and_ports_are_read() {
        let run = |options: &[&str]| match Arguments::try_parse_from(["motet", "run"].iter().chain(options))
            .map(|arguments| arguments.command)
        {
            Ok(Subcommand::Run(options)) => Ok((options.network.net, options.network.published)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        };
        let both = ["8080:80".parse().unwrap(), "53:53/udp".parse().unwrap()];
        assert_eq!(run(&["--publish", "8080:80", "--publish", "53:53/udp"]), Ok((None, both.into())));
        assert_eq!(run(&["--net", "user"]), Ok((Some(Net::User), vec![])));
        assert!(run(&["--net", "tap"]).unwrap_err().contains("none, user"));
        assert!(run(&["--publish", "0:80"]).unwrap_err().contains("there is no port 0"));
        assert!(run(&["--publish", "8080"]).unwrap_err().contains("HOST_PORT:GUEST_PORT"));
    }

    #[test]
    fn a_quantum_is_fixed_or_grows() {
        assert_eq!(quantum("2.5"), Ok(Quantum { shortest_us: 2.5, least_us: 2.5, most_us: 2.5 }));
        assert_eq!(quantum("10:1000"), Ok(Quantum { shortest_us: 10.0, least_us: 10.0, most_us: 1000.0 }));
        assert_eq!(quantum("auto"), Ok(Quantum::AUTO));
        for wrong in ["", "0", "1e9", "10:", ":10", "10:9", "10:1000:2", "10:x", "-1", "nan", "10:inf"] {
            assert!(quantum(wrong).is_err(), "{wrong}");
        }
    }
}
