//! `motet cc` and its relatives: the toolchain's commands with the project's folders.

use std::ffi::OsString;

use motet_fabric::{Error, ErrorKind, Result};

use crate::project;

/// `motet cc ARGUMENTS`, or `motet c++`.
///
/// # Errors
/// See [`motet_toolchain::cc`].
pub fn cc(cxx: bool, arguments: &[OsString]) -> Result<u8> {
    let folder = project::target(&project::root()?).join("toolchain");
    motet_toolchain::cc(&folder, cxx, arguments).map_err(error)
}

fn error(error: motet_toolchain::Error) -> Error {
    let kind = match error.kind {
        motet_toolchain::ErrorKind::Usage => ErrorKind::Usage,
        motet_toolchain::ErrorKind::Data => ErrorKind::Data,
        motet_toolchain::ErrorKind::NoInput => ErrorKind::NoInput,
        motet_toolchain::ErrorKind::Unavailable => ErrorKind::Unavailable,
        motet_toolchain::ErrorKind::Software => ErrorKind::Software,
        motet_toolchain::ErrorKind::CantCreate => ErrorKind::CantCreate,
    };
    Error::new(kind, error.message)
}
