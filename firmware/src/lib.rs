//! The decisions of the machine-mode firmware, free of hardware: built for the bare target and tested on the host.
//!
//! The program (`main.rs` and `machine/`) is the hardware's side: registers, devices, entry and exit of traps. It asks this
//! library what a call means ([`calls`]), which states harts have ([`state`]), what harts request of each other ([`mail`]), and
//! how a trap is forwarded ([`forward`]).
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod board;
pub mod calls;
pub mod dynamic;
pub mod forward;
pub mod hart;
pub mod mail;
pub mod migrate;
pub mod option;
pub mod state;
pub mod traveller;
pub mod tree;
pub mod trips;
pub mod vault;
pub mod vector;

use board::Range;

/// The firmware's memory, closed to everybody else. QEMU loads it here and the kernel behind it.
pub const FIRMWARE: Range = Range { start: 0x8000_0000, len: 0x20_0000 };
