//! Precompiled headers. One compiler's is of no use to the others', so none is made: the file names the header, and each source that uses it reads
//! the header itself. Build systems find the file that they wait for, and programs are the same.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use crate::error::{Error, Result, read, write};

/// The file's first line; the paths of headers follow, each with a zero behind it.
const MARK: &[u8] = b"motet cc reads these headers themselves:\n";

/// Writes the file for headers that compile.
///
/// # Errors
/// The file cannot be written.
pub fn mark(output: &Path, headers: &[&Path]) -> Result<()> {
    let mut text = MARK.to_vec();
    for header in headers {
        let path = std::path::absolute(header).map_err(|error| Error::read(header, error))?;
        text.extend([path.as_os_str().as_bytes(), b"\0"].concat());
    }
    write(output, &text)
}

/// The headers that a file of [`mark`] stands for.
///
/// # Errors
/// It is another file.
pub fn of(file: &Path) -> Result<Vec<OsString>> {
    let text = read(file)?;
    let Some(paths) = text.strip_prefix(MARK) else {
        let message = "another compiler has made this precompiled header; make it with `motet cc -x c-header`";
        return Err(Error::data(format!("{}: {message}", file.display())));
    };
    let paths = paths.split(|&byte| byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| OsString::from_vec(path.to_vec())).collect())
}
