//! What the counting plugin wrote, as costs of operations.

use std::path::Path;

pub use motet_calls::counted::Costs;
use motet_calls::counted::costs;
use motet_error::{Error, ErrorKind, Result};

/// Reads the plugin's file.
///
/// # Errors
/// It is missing, or the guest did not get to the end.
pub fn read(path: &Path) -> Result<Costs> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::new(ErrorKind::Software, format!("{}: {error}", path.display())))?;
    costs(&text).ok_or_else(|| {
        let message = format!("{}: marks are missing; the guest did not execute all operations", path.display());
        Error::new(ErrorKind::Software, message)
    })
}
