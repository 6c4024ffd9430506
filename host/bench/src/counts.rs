//! What the counting plugin wrote, as costs of operations.

use std::path::Path;

pub use motet_calls::counted::Costs;
use motet_calls::{
    Operation,
    counted::{costs, medians},
};
use motet_error::{Error, ErrorKind, Result};

/// Reads the plugin's file.
///
/// # Errors
/// It is missing, or the guest did not get to the end.
pub fn read(path: &Path) -> Result<Costs> {
    understood(path, costs)
}

/// Reads the plugin's file about these operations.
///
/// # Errors
/// As [`read`].
pub fn read_of(path: &Path, operations: &[Operation]) -> Result<Vec<f64>> {
    understood(path, |text| medians(text, operations))
}

fn understood<C>(path: &Path, costs: impl FnOnce(&str) -> Option<C>) -> Result<C> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::new(ErrorKind::Software, format!("{}: {error}", path.display())))?;
    costs(&text).ok_or_else(|| {
        let message = format!("{}: marks are missing; the guest did not execute all operations", path.display());
        Error::new(ErrorKind::Software, message)
    })
}
