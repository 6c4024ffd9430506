//! `motet package`: what is built, and what programs and people read, as a tar for other computers.
//!
//! The [contents] are copied to a folder as they are to lie below `/`; [programs](elf) lose what only debuggers read, and the names of folders of the
//! computer that built them. The installed `motet` then writes its manual pages and completions itself. The same commit and the same
//! programs make the same [archive].
#![forbid(unsafe_code)]

pub mod options;

#[cfg(feature = "run")]
mod archive;
#[cfg(feature = "run")]
mod contents;
#[cfg(feature = "run")]
mod elf;
#[cfg(feature = "run")]
mod facts;
#[cfg(feature = "run")]
mod licenses;
#[cfg(feature = "run")]
mod program;
#[cfg(feature = "run")]
mod tools;

#[cfg(feature = "run")]
pub use program::main;
