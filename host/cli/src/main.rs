//! `motet`: the command line of Motet.
//!
//! Exit status: the guest command's own, or 64 and up (sysexits) for Motet's errors. Everything that is not the guest's
//! goes to standard error.
#![forbid(unsafe_code)]

mod arguments;
mod build;
mod debugger;
mod doctor;
mod live;
mod output;
mod progress;
mod project;
mod report;
mod run;
mod stats;
mod test;
mod toolchain;
mod trace;

use std::{io::Write, process::ExitCode};

use arguments::{Arguments, Subcommand};
use clap::Parser;
use motet_fabric::{ErrorKind, Result};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let status = if error.use_stderr() { ErrorKind::Usage as u8 } else { 0 };
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    match dispatch(arguments.command) {
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
        Subcommand::Test(options) => test::test(&options),
        Subcommand::Build(options) => build::build(&options),
        Subcommand::Bench(options) => project::run_sibling("motet-bench", &options.arguments),
        Subcommand::Cc(options) => toolchain::cc(false, &options.arguments),
        Subcommand::Cxx(options) => toolchain::cc(true, &options.arguments),
        Subcommand::Ld(options) => toolchain::ld(&options.arguments),
        Subcommand::Objdump(options) => toolchain::objdump(&options),
        Subcommand::Addr2line(options) => toolchain::addr2line(&options),
        Subcommand::Doctor => doctor::doctor(),
    }
}
