//! `motet bench`: one experiment for each published table or figure, and experiments that check Motet's own claims.
//!
//! An experiment prints a table to standard output and progress to standard error, and writes its measurements as JSON
//! on request. docs/benchmarks.md says what each metric means.
#![forbid(unsafe_code)]

mod all;
mod bomb;
mod boot;
mod compile;
mod counts;
mod figures;
mod flick;
mod ftm;
mod hthreads;
mod ker_one;
mod linux;
mod masked;
mod motet;
mod os;
mod output;
mod page;
mod process;
mod profile;
mod project;
mod prompt;
mod quantum;
mod report;
mod sensitivity;
mod sim;
mod stramash;
mod symbols;
mod system_calls;

use std::{io::Write, process::ExitCode};

use clap::Parser;
use motet_error::ErrorKind;

/// Run an experiment
#[derive(Parser, Debug)]
#[command(name = "motet bench", version, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(clap::Subcommand, Debug)]
enum Experiment {
    /// Every experiment, its figures recorded in docs/figures with the commit and the computer that they come from
    All(all::Options),
    /// Boot time, what system calls cost on each instruction set beside Linux, and pipes between islands
    Boot(boot::Options),
    /// How long `motet cc` takes for packages, beside the host's compiler
    Compile(compile::Options),
    /// Calls across instruction sets, beside Flick: null calls, pointer chasing, breadth-first search
    Flick(flick::Options),
    /// Threads that go to cores with vectors, beside Fast Thread Migration and Linux
    Ftm(ftm::Options),
    /// Operating-system services as hardware, beside hthreads: the queueing model
    Hthreads(hthreads::Options),
    /// Accelerators of an FPGA that clients share, beside Ker-ONE
    KerOne(ker_one::Options),
    /// What lmbench's operations cost, in instructions, beside Linux on the same QEMU and CPU
    Os(os::Options),
    /// How much simulated time depends on how far cores may be apart
    Quantum(quantum::Options),
    /// Numbers that documents quote otherwise than they are recorded
    Quotes(all::QuoteOptions),
    /// How much headline figures depend on the numbers of a machine file that no paper has
    Sensitivity(sensitivity::Options),
    /// Hits and misses of the simulator's caches, beside QEMU's contrib plugin `cache` and Valgrind's cachegrind
    SimAccuracy(sim::accuracy::Options),
    /// How fast the simulator is, beside QEMU alone and with the contrib plugin `cache`
    SimSpeed(sim::speed::Options),
    /// A thread that goes to another instruction set, on fused kernels and on kernels that exchange messages, beside Stramash
    Stramash(stramash::Options),
}

/// The command line.
pub fn command() -> clap::Command {
    <Arguments as clap::CommandFactory>::command()
}

/// Runs the experiment that the command line names.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let status = if error.use_stderr() { ErrorKind::Usage as u8 } else { 0 };
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    let outcome = match arguments.experiment {
        Experiment::All(options) => all::run(&options),
        Experiment::Boot(options) => boot::run(&options),
        Experiment::Compile(options) => compile::run(&options),
        Experiment::Flick(options) => flick::run(&options),
        Experiment::Ftm(options) => ftm::run(&options),
        Experiment::Hthreads(options) => hthreads::run(&options),
        Experiment::KerOne(options) => ker_one::run(&options),
        Experiment::Os(options) => os::run(&options),
        Experiment::Quantum(options) => quantum::run(&options),
        Experiment::Quotes(options) => all::quotes(&options),
        Experiment::Sensitivity(options) => sensitivity::run(&options),
        Experiment::SimAccuracy(options) => sim::accuracy::run(&options),
        Experiment::SimSpeed(options) => sim::speed::run(&options),
        Experiment::Stramash(options) => stramash::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the status still tells.
            let _ = writeln!(std::io::stderr(), "motet: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}
