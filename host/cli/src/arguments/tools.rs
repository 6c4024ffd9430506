//! Commands of the toolchain.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

/// `motet cc` and its relatives, and the experiments of `motet bench`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct ToolOptions {
    /// Its own arguments; --help explains them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

pub const CC_HELP: &str = "\
Examples:
  ./motet cc -O2 a.c -o app
  make CC='./motet cc'";

pub const CXX_HELP: &str = "\
Examples:
  ./motet c++ -O2 a.cc -o app";

pub const LD_HELP: &str = "\
Examples:
  ./motet ld a.o b.o -o app";

pub const AR_HELP: &str = "\
Examples:
  ./motet ar rcs libapp.a a.o b.o";

pub const RANLIB_HELP: &str = "\
Examples:
  ./motet ranlib libapp.a";

const OBJDUMP_HELP: &str = "\
Examples:
  ./motet objdump app";

/// Options of `motet objdump`.
#[derive(Args, Debug)]
#[command(after_help = OBJDUMP_HELP)]
pub struct ObjdumpOptions {
    /// The program
    pub program: PathBuf,
}

const ADDR2LINE_HELP: &str = "\
Examples:
  ./motet addr2line app 0x401234";

/// Options of `motet addr2line`.
#[derive(Args, Debug)]
#[command(after_help = ADDR2LINE_HELP)]
pub struct Addr2lineOptions {
    /// The program; files and lines are known if it was compiled with -g
    pub program: PathBuf,
    /// Hexadecimal addresses
    #[arg(required = true, value_name = "ADDRESS")]
    pub addresses: Vec<String>,
}
