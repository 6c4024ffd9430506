//! Failures of the host's programs: what `motet` says, and the exit status that it ends with. [`output`] has the files that results go to.
#![forbid(unsafe_code)]

pub mod output;

use std::{
    fmt,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

/// What kind of failure; decides the exit status (the numbers of `sysexits.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ErrorKind {
    /// The command was used wrongly.
    Usage = 64,
    /// The program or an object is wrong: an undefined symbol, a datum that differs between ISAs, an impossible pin.
    Data = 65,
    /// An input file is missing or unreadable.
    NoInput = 66,
    /// Something Motet needs is not installed or not built.
    Unavailable = 69,
    /// An island failed, hung or died; a tool failed that should not.
    Software = 70,
    /// An output file cannot be created.
    CantCreate = 73,
    /// Reading or writing failed.
    Io = 74,
    /// The host refuses a resource now; trying again may help.
    Temporary = 75,
    /// The machine description is wrong.
    Config = 78,
}

/// A failure of Motet itself (never of the guest's command).
#[derive(Clone, Debug)]
pub struct Error {
    /// Decides the exit status.
    pub kind: ErrorKind,
    /// What happened, where, and what to do; may have several lines.
    pub message: String,
}

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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The result of host-side operations.
pub type Result<T> = std::result::Result<T, Error>;

/// What messages call standard output.
pub const STDOUT: &str = "standard output";

/// Writes a program's result to standard output.
///
/// # Errors
/// It does not arrive: standard output is closed or full, or its reader has gone.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context(ErrorKind::Io, || STDOUT.into())
}

/// How a program ends: with its status, or with what has failed said on standard error, behind `name`.
pub fn end(name: &str, outcome: Result<u8>) -> ExitCode {
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            // Standard error may be closed; the status still tells.
            let _ = writeln!(io::stderr(), "{name}: {error}");
            ExitCode::from(error.exit_status())
        }
    }
}

/// Says what was being done when the system refused.
pub trait Context<T> {
    /// Turns a system error into an [`Error`] that begins with `what`.
    ///
    /// # Errors
    /// There was one.
    fn context(self, kind: ErrorKind, what: impl FnOnce() -> String) -> Result<T>;

    /// [`Context::context`] for host resources (descriptors, memory, processes).
    ///
    /// # Errors
    /// There was one.
    fn host(self, what: &str) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, kind: ErrorKind, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::new(kind, format!("{}: {error}", what())))
    }

    fn host(self, what: &str) -> Result<T> {
        self.context(ErrorKind::Temporary, || format!("the host refuses {what}"))
    }
}
