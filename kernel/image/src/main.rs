//! The kernel, for the instruction set that it is built for: `build.rs` names its HAL.
#![no_std]
#![no_main]

include!(concat!(env!("OUT_DIR"), "/entry.rs"));
