//! Bytes between files and programs, and between files.

pub mod rw;
pub mod splice;
