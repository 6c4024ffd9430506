//! Other programs of Motet's, run in place of this one.

use std::{os::unix::process::CommandExt, path::Path, process::Command};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::place::Place;

/// Runs another of the project's programs, which lies beside this one, instead of this one, with what stands behind the command.
///
/// # Errors
/// It is not built.
pub fn run_sibling(name: &str) -> Result<u8> {
    let program = std::env::current_exe().ok().and_then(|this| Some(this.parent()?.join(name)));
    let Some(program) = program.filter(|program| program.is_file()) else {
        let message = format!("{name} is not built (run `cargo build --release` in the project's folder)");
        return Err(Error::new(ErrorKind::Unavailable, message));
    };
    run_instead(&program, 2)
}

/// The same for a program that works on the source tree.
///
/// # Errors
/// There is none, or the program is not built.
pub fn run_on_source(command: &str, name: &str) -> Result<u8> {
    Place::find()?.needs_source(command)?;
    run_sibling(name)
}

/// Runs the front door instead of this program, with the same arguments: what only it does.
///
/// # Errors
/// It is not there, or cannot be run.
pub fn run_script(command: &str) -> Result<u8> {
    let place = Place::find()?;
    place.needs_source(command)?;
    run_instead(&place.root.join("motet"), 1)
}

fn run_instead(program: &Path, skipped: usize) -> Result<u8> {
    let error = Command::new(program).args(std::env::args_os().skip(skipped)).exec();
    Err(Error::new(ErrorKind::Unavailable, format!("{}: {error}", program.display())))
}
