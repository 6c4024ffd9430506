//! The experiments of `motet bench`, which a program of its own runs (host/bench): their names, in one line what each is, and an example.

use clap::Args;

use super::ToolOptions;

const BENCH_HELP: &str = "\
Examples:
  ./motet bench all                 every experiment, recorded in docs/figures: two hours
  ./motet bench flick --quick       one of them, in minutes
  ./motet bench flick --help        its options and parts

docs/benchmarks.md says what each figure means.";

/// `motet bench`.
#[derive(Args, Debug)]
#[command(after_help = BENCH_HELP, subcommand_required = true, arg_required_else_help = true)]
pub struct BenchOptions {
    /// The experiment
    #[command(subcommand)]
    pub experiment: Experiment,
}

/// As `motet-bench` has them, which a test compares.
#[derive(clap::Subcommand, Debug)]
pub enum Experiment {
    /// Every experiment, its figures recorded in docs/figures with the commit and the computer that they come from
    #[command(after_help = "Examples:\n  ./motet bench all")]
    All(ToolOptions),
    /// Boot time, what system calls cost on each instruction set beside Linux, and pipes between islands
    #[command(after_help = "Examples:\n  ./motet bench boot --boots 3")]
    Boot(ToolOptions),
    /// How long `motet cc` takes for packages, beside the host's compiler
    #[command(after_help = "Examples:\n  ./motet bench compile --quick")]
    Compile(ToolOptions),
    /// Calls across instruction sets, beside Flick: null calls, pointer chasing, breadth-first search
    #[command(after_help = "Examples:\n  ./motet bench flick --report DIR")]
    Flick(ToolOptions),
    /// Threads that go to cores with vectors, beside Fast Thread Migration and Linux
    #[command(after_help = "Examples:\n  ./motet bench ftm --report DIR")]
    Ftm(ToolOptions),
    /// Operating-system services as hardware, beside hthreads: the queueing model
    #[command(after_help = "Examples:\n  ./motet bench hthreads --only model")]
    Hthreads(ToolOptions),
    /// Accelerators of an FPGA that clients share, beside Ker-ONE
    #[command(after_help = "Examples:\n  ./motet bench ker-one --report DIR")]
    KerOne(ToolOptions),
    /// What lmbench's operations cost, in instructions, beside Linux on the same QEMU and CPU
    #[command(after_help = "Examples:\n  ./motet bench os --report DIR")]
    Os(ToolOptions),
    /// How much simulated time depends on how far cores may be apart
    #[command(after_help = "Examples:\n  ./motet bench quantum --quick")]
    Quantum(ToolOptions),
    /// Numbers that documents quote otherwise than they are recorded
    #[command(after_help = "Examples:\n  ./motet bench quotes --write")]
    Quotes(ToolOptions),
    /// How much headline figures depend on the numbers of a machine file that no paper has
    #[command(after_help = "Examples:\n  ./motet bench sensitivity --quick")]
    Sensitivity(ToolOptions),
    /// Hits and misses of the simulator's caches, beside QEMU's contrib plugin `cache` and Valgrind's cachegrind
    #[command(after_help = "Examples:\n  ./motet bench sim-accuracy --quick")]
    SimAccuracy(ToolOptions),
    /// How fast the simulator is, beside QEMU alone and with the contrib plugin `cache`
    #[command(after_help = "Examples:\n  ./motet bench sim-speed --quick")]
    SimSpeed(ToolOptions),
    /// A thread that goes to another instruction set, on fused kernels and on kernels that exchange messages, beside Stramash
    #[command(after_help = "Examples:\n  ./motet bench stramash --report DIR")]
    Stramash(ToolOptions),
}
