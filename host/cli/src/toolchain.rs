//! `motet cc` and its relatives: the toolchain's commands with the project's folders.

use std::{ffi::OsString, io::Write};

use motet_fabric::{Error, ErrorKind, Result};

use crate::{
    arguments::{Addr2lineOptions, ObjdumpOptions},
    project,
};

/// `motet cc ARGUMENTS`, or `motet c++`.
///
/// # Errors
/// See [`motet_toolchain::cc`].
pub fn cc(cxx: bool, arguments: &[OsString]) -> Result<u8> {
    let folder = project::target(&project::root()?).join("toolchain");
    motet_toolchain::cc(&folder, cxx, arguments).map_err(error)
}

/// `motet ld ARGUMENTS`.
///
/// # Errors
/// See [`motet_toolchain::ld`].
pub fn ld(arguments: &[OsString]) -> Result<u8> {
    let folder = project::target(&project::root()?).join("toolchain");
    motet_toolchain::ld(&folder, arguments).map_err(error)
}

/// `motet objdump PROGRAM`.
///
/// # Errors
/// See [`motet_toolchain::objdump`].
pub fn objdump(options: &ObjdumpOptions) -> Result<u8> {
    print(&motet_toolchain::objdump(&options.program).map_err(error)?)
}

/// `motet addr2line PROGRAM ADDRESS...`.
///
/// # Errors
/// See [`motet_toolchain::addr2line`].
pub fn addr2line(options: &Addr2lineOptions) -> Result<u8> {
    print(&motet_toolchain::addr2line(&options.program, &options.addresses).map_err(error)?)
}

fn print(text: &str) -> Result<u8> {
    // Whoever reads may have seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(0)
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
