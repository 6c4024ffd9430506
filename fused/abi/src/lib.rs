//! The Linux system-call ABI of every ISA, as data and pure code: numbers, registers, structures, signal frames.
//!
//! Everything is compiled into every kernel: an x86-64 kernel completes the system call of a RISC-V thread by the
//! RISC-V rules. Structures are written as bytes at stated offsets ([`wire`]), so nothing depends on the target's own
//! layout. Sources are the Linux UAPI headers (`include/uapi`, `arch/*/include/uapi`) and the psABI documents.
//!
//! Nothing here trusts user memory: decoders are total.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod accel;
pub mod attributes;
pub mod convention;
pub mod counters;
pub mod elf;
mod errno;
pub mod extension;
pub mod fat;
pub mod file;
pub mod gate;
pub mod hidden;
pub mod implemented;
pub mod inotify;
pub mod ipc;
pub mod migration;
pub mod own;
pub mod process;
pub mod property;
pub mod registers;
pub mod sigframe;
pub mod signal;
pub mod stubs;
mod syscall;
pub mod system;
#[rustfmt::skip]
mod tables;
pub mod terminal;
pub mod time;
pub mod visible;
pub mod vm;
pub mod wire;

pub use errno::Errno;
pub use syscall::Syscall;
