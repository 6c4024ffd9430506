//! `motet cc` and its relatives: the toolchain's commands with the project's folders.

use std::ffi::OsString;

use motet_error::Result;

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
    motet_toolchain::cc(&folder, cxx, arguments)
}

/// `motet ld ARGUMENTS`.
///
/// # Errors
/// See [`motet_toolchain::ld`].
pub fn ld(arguments: &[OsString]) -> Result<u8> {
    let folder = project::target(&project::root()?).join("toolchain");
    motet_toolchain::ld(&folder, arguments)
}

/// `motet objdump PROGRAM`.
///
/// # Errors
/// See [`motet_toolchain::objdump`].
pub fn objdump(options: &ObjdumpOptions) -> Result<u8> {
    motet_error::print(&motet_toolchain::objdump(&options.program)?).map(|()| 0)
}

/// `motet addr2line PROGRAM ADDRESS...`.
///
/// # Errors
/// See [`motet_toolchain::addr2line`].
pub fn addr2line(options: &Addr2lineOptions) -> Result<u8> {
    motet_error::print(&motet_toolchain::addr2line(&options.program, &options.addresses)?).map(|()| 0)
}
