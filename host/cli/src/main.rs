//! `motet`: the command line of Motet.
//!
//! Exit status: the guest command's own, or 64 and up (sysexits) for Motet's errors. Everything that is not the guest's
//! goes to standard error. A status of 0 says that all output has gone where it should.
#![forbid(unsafe_code)]

mod accesses;
mod arguments;
mod build;
mod completions;
mod conformance;
mod debugger;
mod doctor;
mod guests;
mod help;
mod live;
mod messages;
mod output;
mod points;
mod progress;
mod project;
mod report;
mod restart;
mod run;
mod stats;
mod toolchain;
mod trace;
mod vm;
mod vm_control;
mod wcet;

use std::{io::Write, process::ExitCode};

use arguments::{Arguments, Subcommand, VmSubcommand};
use clap::FromArgMatches;
use motet_error::{Context, ErrorKind, Result, STDOUT};

fn main() -> ExitCode {
    let parsed = help::command().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let outcome = match parsed {
        Ok(arguments) => dispatch(arguments.command),
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            return ExitCode::from(ErrorKind::Usage as u8);
        }
        Err(version) if version.kind() == clap::error::ErrorKind::DisplayVersion => help::print_version().map(|()| 0),
        Err(help) => {
            help.print().and_then(|()| std::io::stdout().flush()).context(ErrorKind::Io, || STDOUT.into()).map(|()| 0)
        }
    };
    match outcome {
        Ok(0) if progress::has_lost_lines() => ExitCode::from(ErrorKind::Io as u8),
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            // What the toolchain says of its arguments names its program: `motet cc: ...`.
            let prefix = if error.message.starts_with("motet ") { "" } else { "motet: " };
            // Standard error may be closed; the status still tells.
            let _ = writeln!(std::io::stderr(), "{prefix}{error}");
            ExitCode::from(error.exit_status())
        }
    }
}

fn dispatch(command: Subcommand) -> Result<u8> {
    match command {
        Subcommand::Run(options) => run::run(&options),
        Subcommand::Restart(options) => restart::restart(&options),
        Subcommand::State(options) => restart::state(&options),
        Subcommand::Top(_) => project::run_sibling("motet-top"),
        Subcommand::Vm(options) => match options.command {
            VmSubcommand::Run(options) => vm::run(*options),
            VmSubcommand::List => vm_control::list(),
            VmSubcommand::Kill(options) => vm_control::kill(&options),
            VmSubcommand::Console(options) => vm_control::console(&options),
        },
        Subcommand::Test(_) => project::run_script("test"),
        Subcommand::Docs(_) => project::run_script("docs"),
        Subcommand::Package(_) => project::run_on_source("package", "motet-package"),
        Subcommand::Conformance(options) => conformance::conformance(&options),
        Subcommand::Build(options) if options.tests => project::run_script("build"),
        Subcommand::Build(options) => build::build(&options),
        Subcommand::Guests(options) => guests::guests(&options),
        Subcommand::Wcet(options) => wcet::wcet(&options),
        Subcommand::Sweep(_) => project::run_sibling("motet-sweep"),
        Subcommand::Bench(_) => project::run_on_source("bench", "motet-bench"),
        Subcommand::Cc(options) => toolchain::cc(false, &options.arguments),
        Subcommand::Cxx(options) => toolchain::cc(true, &options.arguments),
        Subcommand::Ld(options) => toolchain::ld(&options.arguments),
        Subcommand::Ar(options) => toolchain::archiver("ar", &options.arguments),
        Subcommand::Ranlib(options) => toolchain::archiver("ranlib", &options.arguments),
        Subcommand::Objdump(options) => toolchain::objdump(&options),
        Subcommand::Addr2line(options) => toolchain::addr2line(&options),
        Subcommand::Doctor => doctor::doctor(),
        Subcommand::Completions(options) => completions::completions(&options),
        Subcommand::Man(options) => completions::man(&options),
    }
}
