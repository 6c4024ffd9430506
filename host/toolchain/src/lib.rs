//! Compiling and linking programs for every instruction set at once.
//!
//! A program is compiled once for each ISA, by the same compiler and against the same C library; then it is linked so
//! that each function and each datum has one address on all of them. [`cc`] behaves like any C compiler; the format of
//! what it makes is in [`format`] and `docs/toolchain.md`.
#![forbid(unsafe_code)]

pub mod arguments;
mod builtins;
mod constants;
mod dependencies;
mod differing;
mod driver;
mod error;
mod fat_object;
pub mod format;
mod headers;
mod hthreads;
mod inspect;
mod isa;
mod libc;
mod libcxx;
mod library;
pub mod link;
mod linker_arguments;
mod listed;
mod mentions;
mod options;
mod pins;
mod preprocessed;
mod sequential;
mod text;
mod tools;
mod wide;

pub use driver::{archiver, cc, ld};
pub use error::{Error, ErrorKind, Result};
pub use inspect::{addr2line, objdump};
pub use tools::Tools;
