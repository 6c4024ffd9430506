//! Files of the toolchain, with errors that name them.

use std::{io::Write, path::Path};

pub use motet_error::{Error, ErrorKind, Result};

/// The bytes of a file.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Error::read(path, error))
}

/// Fills a file.
///
/// # Errors
/// It cannot be written. Nothing is left of it then.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    motet_error::output::write(path, bytes).map_err(|error| Error::write(path, error))
}

/// Fills a file, or prints where there is none or it is `-`.
///
/// # Errors
/// It cannot be written.
pub fn write_or_print(file: Option<&Path>, bytes: &[u8]) -> Result<()> {
    match file.filter(|file| file.as_os_str() != "-") {
        Some(file) => write(file, bytes),
        None => std::io::stdout().write_all(bytes).map_err(|error| Error::write(Path::new("standard output"), error)),
    }
}

/// Makes a folder and those above it.
///
/// # Errors
/// It cannot be made.
pub fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::write(path, error))
}
