//! What the monitor of virtual machines knows without asking anybody: images, device trees, options, devices.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod image;
pub mod options;
pub mod tree;
pub mod uart;

/// Where things are in a RISC-V machine: a part of QEMU's `virt` board.
pub mod board {
    /// First address of its memory.
    pub const MEMORY: u64 = 0x8000_0000;
    /// Where images begin that do not say where: what is below is the firmware's on bare machines.
    pub const IMAGE: u64 = 0x8020_0000;
    /// Registers of the serial port.
    pub const UART: u64 = 0x1000_0000;
    /// Bytes of them.
    pub const UART_BYTES: u64 = 0x100;
    /// Ticks a second.
    pub const TIMEBASE_HZ: u32 = 10_000_000;
}
