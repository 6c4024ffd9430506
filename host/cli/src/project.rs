//! Where Motet's own files are.

use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use motet_error::{Error, ErrorKind, Result};

/// The project's folder: `MOTET_ROOT`, or the nearest folder above the program or the current folder that has one.
///
/// # Errors
/// It is nowhere.
pub fn root() -> Result<PathBuf> {
    if let Some(root) = std::env::var_os("MOTET_ROOT") {
        let root = PathBuf::from(root);
        return if is_root(&root) { Ok(root) } else { Err(missing(&format!("MOTET_ROOT={}", root.display()))) };
    }
    let program = std::env::current_exe().ok();
    let folder = std::env::current_dir().ok();
    let found = program.iter().chain(&folder).flat_map(|start| start.ancestors()).find(|path| is_root(path));
    found.map(Path::to_owned).ok_or_else(|| missing("neither the program nor the current folder is inside it"))
}

/// The folder of build results.
pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

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

/// Runs the front door instead of this program, with the same arguments: what only it does.
///
/// # Errors
/// It cannot be run.
pub fn run_script() -> Result<u8> {
    run_instead(&root()?.join("motet"), 1)
}

fn run_instead(program: &Path, skipped: usize) -> Result<u8> {
    let error = Command::new(program).args(std::env::args_os().skip(skipped)).exec();
    Err(Error::new(ErrorKind::Unavailable, format!("{}: {error}", program.display())))
}

fn is_root(path: &Path) -> bool {
    path.join("machines/default.toml").is_file() && path.join("Cargo.toml").is_file()
}

fn missing(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot find Motet's project folder: {why}; set MOTET_ROOT"))
}
