//! What can go wrong, and the exit status that tells.

use std::{fmt, path::Path};

/// Decides the exit status (sysexits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The command was used wrongly.
    Usage = 64,
    /// The program or an object is wrong: an undefined symbol, a datum that differs between ISAs, an impossible pin.
    Data = 65,
    /// An input file is missing or unreadable.
    NoInput = 66,
    /// Something that is needed is not installed.
    Unavailable = 69,
    /// A tool failed that should not.
    Software = 70,
    /// An output file cannot be created.
    CantCreate = 73,
}

/// A failure, with what to do about it.
#[derive(Clone, Debug)]
pub struct Error {
    /// Decides the exit status.
    pub kind: ErrorKind,
    /// What happened, where, and what to do; may have several lines.
    pub message: String,
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The command was used wrongly.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// The program or an object is wrong.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Data, message)
    }

    /// `path` cannot be read.
    pub fn read(path: &Path, error: impl fmt::Display) -> Self {
        Self::new(ErrorKind::NoInput, format!("{}: {error}", path.display()))
    }

    /// `path` cannot be written.
    pub fn write(path: &Path, error: impl fmt::Display) -> Self {
        Self::new(ErrorKind::CantCreate, format!("{}: {error}", path.display()))
    }

    /// The exit status of a command that ends with this error.
    pub fn exit_status(&self) -> u8 {
        self.kind as u8
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The bytes of a file.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| Error::read(path, error))
}

/// Replaces a file.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).map_err(|error| Error::write(path, error))
}

/// Makes a folder and those above it.
///
/// # Errors
/// It cannot be made.
pub fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::write(path, error))
}
