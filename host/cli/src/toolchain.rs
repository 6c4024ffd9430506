//! `motet cc` and its relatives: the toolchain's commands with the project's folders.

use std::{ffi::OsString, path::PathBuf};

use motet_error::Result;
use motet_fabric::place::Place;

use crate::{
    arguments::{Addr2lineOptions, ObjdumpOptions},
    help,
};

/// Questions of build systems, and what answers them: below the project's folder.
const SHIPPED: [(&str, &str); 6] = [
    ("--print-bin-dir", "host/toolchain/bin"),
    ("--print-cmake-toolchain", "host/toolchain/share/motet.cmake"),
    ("--print-meson-cross", "host/toolchain/share/motet.ini"),
    // libtool asks the linker whether it makes shared libraries.
    ("-print-prog-name=ld", "host/toolchain/bin/motet-ld"),
    ("-print-prog-name=ar", "host/toolchain/bin/motet-ar"),
    ("-print-prog-name=ranlib", "host/toolchain/bin/motet-ranlib"),
];

/// `motet cc ARGUMENTS`, or `motet c++`.
///
/// # Errors
/// See [`motet_toolchain::cc`].
pub fn cc(cxx: bool, arguments: &[OsString]) -> Result<u8> {
    let place = Place::find()?;
    match SHIPPED.iter().find(|(question, _)| arguments.iter().any(|word| word == question)) {
        Some((_, path)) => motet_error::print(&format!("{}\n", place.root.join(path).display())).map(|()| 0),
        None => motet_toolchain::cc(&folder(&place)?, cxx, arguments),
    }
}

/// `motet ld ARGUMENTS`.
///
/// # Errors
/// See [`motet_toolchain::ld`].
pub fn ld(arguments: &[OsString]) -> Result<u8> {
    motet_toolchain::ld(&folder(&Place::find()?)?, arguments)
}

/// `motet ar ARGUMENTS`, or another of the archiver's programs.
///
/// # Errors
/// See [`motet_toolchain::archiver`].
pub fn archiver(program: &str, arguments: &[OsString]) -> Result<u8> {
    if arguments.first().is_some_and(|word| word == "--help") {
        // Before its own, which `configure` may look at.
        help::explain(program)?;
    }
    motet_toolchain::archiver(&folder(&Place::find()?)?, program, arguments)
}

fn folder(place: &Place) -> Result<PathBuf> {
    Ok(place.cache()?.join("toolchain"))
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
