//! Files for results. They are made before a long run, so that a wrong path is reported at once.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use motet_error::{Error, ErrorKind, Result};

/// The file that an option names.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    option: &'static str,
    path: PathBuf,
}

impl OutputFile {
    /// Makes an empty file.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(option: &'static str, path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|error| failed(ErrorKind::CantCreate, option, path, &error))?;
        Ok(Self { file, option, path: path.into() })
    }

    /// Writes what `contents` writes.
    ///
    /// # Errors
    /// The file does not take it.
    pub fn write(&self, contents: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let mut out = BufWriter::new(&self.file);
        let written = contents(&mut out).and_then(|()| out.flush());
        written.map_err(|error| failed(ErrorKind::Io, self.option, &self.path, &error))
    }
}

fn failed(kind: ErrorKind, option: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(kind, format!("{option} {}: {error}", path.display()))
}
