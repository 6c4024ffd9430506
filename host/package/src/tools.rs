//! Other programs' output, and files.

use std::{fs, path::Path, process::Command};

use motet_error::{Error, ErrorKind, Result};

/// What a program prints.
///
/// # Errors
/// It is not there, or says that it has failed.
pub fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let unavailable = |why: String| Error::new(ErrorKind::Unavailable, format!("{name}: {why}"));
    let output = command.output().map_err(|error| unavailable(error.to_string()))?;
    if !output.status.success() {
        return Err(unavailable(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes a file, in a folder that is made if it is missing.
///
/// # Errors
/// The host refuses.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    folder_of(path)?;
    fs::write(path, bytes).map_err(|error| Error::write(path, error))
}

/// Copies a file with its permissions.
///
/// # Errors
/// It is not there, or the host refuses.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    folder_of(to)?;
    fs::copy(from, to).map_err(|error| Error::read(from, error)).map(drop)
}

/// Makes a symbolic link.
///
/// # Errors
/// The host refuses.
pub fn link(target: &str, path: &Path) -> Result<()> {
    folder_of(path)?;
    std::os::unix::fs::symlink(target, path).map_err(|error| Error::write(path, error))
}

fn folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| Error::write(folder, error))
}
