//! Files for results. They are made before a long run, so that a wrong path is reported at once.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use motet_error::{Error, ErrorKind, Result, output::Output};

/// The file that an option names.
#[derive(Debug)]
pub struct OutputFile {
    output: Output,
    option: &'static str,
    path: PathBuf,
}

impl OutputFile {
    /// Makes an empty file.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(option: &'static str, path: &Path) -> Result<Self> {
        let output = Output::create(path).map_err(|error| failed(ErrorKind::CantCreate, option, path, &error))?;
        Ok(Self { output, option, path: path.into() })
    }

    /// Writes what `contents` writes.
    ///
    /// # Errors
    /// The file does not take it. Then there is none.
    pub fn write(&self, contents: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        self.output.write(contents).map_err(|error| failed(ErrorKind::Io, self.option, &self.path, &error))
    }
}

fn failed(kind: ErrorKind, option: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(kind, format!("{option} {}: {error}", path.display()))
}
