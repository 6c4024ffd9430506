//! The program `motet-sweep`, which `motet sweep` runs in its place.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use motet_error::{Error, ErrorKind, Result};
use motet_fabric::place::Place;

use crate::{
    diff,
    options::{SweepOptions, SweepSubcommand},
    point, sweep,
};

#[derive(Parser, Debug)]
#[command(name = "motet sweep", bin_name = "./motet sweep", about = "Run a study: machines × programs × seeds")]
struct Arguments {
    #[command(flatten)]
    options: SweepOptions,
}

/// Does what the command line says; gives the exit status.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let status = if error.use_stderr() { ErrorKind::Usage as u8 } else { 0 };
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    motet_error::end("motet", run(&arguments.options))
}

/// # Errors
/// A study is wrong, Snakemake cannot be had, a point has failed (of those that Snakemake starts), or the host refuses.
fn run(options: &SweepOptions) -> Result<u8> {
    if let Some(SweepSubcommand::Diff(options)) = &options.command {
        return diff::diff(options);
    }
    let place = Place::find()?;
    match &options.command {
        Some(SweepSubcommand::Point(options)) => point::run(&place, &options.folder, &options.id),
        Some(SweepSubcommand::Diff(_)) | None => sweep::sweep(options, &place),
    }
}

/// The program `motet`, which lies beside this one.
///
/// # Errors
/// It is not there.
pub fn motet() -> Result<PathBuf> {
    let unavailable = |why: String| Error::new(ErrorKind::Unavailable, why);
    let this = std::env::current_exe().map_err(|error| unavailable(error.to_string()))?;
    let program = this.parent().unwrap_or(Path::new("/")).join("motet");
    if program.is_file() { Ok(program) } else { Err(unavailable(format!("{} is not built", program.display()))) }
}
