//! The parts of the monitor of virtual machines that make no system calls: images, device trees, options, devices.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod aarch64;
pub mod image;
pub mod options;
pub mod pl011;
pub mod plic;
pub mod tree;
pub mod uart;

/// The addresses of areas of memory that a machine shares with others.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// First address of the first one's memory.
    pub memory: u64,
    /// First address of its registers.
    pub registers: u64,
    /// Its interrupt, as the interrupt controller numbers them.
    pub interrupt: usize,
}

impl Shares {
    /// Areas of a machine at most.
    pub const MAX: usize = 4;
    /// Bytes of the largest area, and the distance from one to the next.
    pub const MEMORY_BYTES: u64 = 16 << 20;
    /// Bytes of one's registers.
    pub const REGISTER_BYTES: u64 = 0x1000;

    /// Where an area is.
    pub const fn memory_of(&self, index: usize) -> u64 {
        self.memory + index as u64 * Self::MEMORY_BYTES
    }

    /// Where its registers are.
    pub const fn registers_of(&self, index: usize) -> u64 {
        self.registers + index as u64 * Self::REGISTER_BYTES
    }
}

/// Addresses in a RISC-V machine, which is a part of QEMU's `virt` board.
pub mod board {
    /// First address of its memory.
    pub const MEMORY: u64 = 0x8000_0000;
    /// Where images without an address begin. On bare machines the firmware is below.
    pub const IMAGE: u64 = 0x8020_0000;
    /// Registers of the serial port.
    pub const UART: u64 = 0x1000_0000;
    /// Bytes of them.
    pub const UART_BYTES: u64 = 0x100;
    /// The serial port's source at the interrupt controller.
    pub const UART_SOURCE: usize = 10;
    /// Registers of the interrupt controller.
    pub const PLIC: u64 = 0x0c00_0000;
    /// Bytes of them.
    pub const PLIC_BYTES: u64 = 0x60_0000;
    /// Where areas that it shares are.
    pub const SHARES: crate::Shares = crate::Shares { memory: 0x6000_0000, registers: 0x5fff_0000, interrupt: 32 };
    /// Names of the FPGA's accelerators. Each has the same address in all machines, of both instruction sets.
    pub const ACCELERATORS: [&str; 7] = ["qam16", "qam64", "fft512", "fft1024", "aes128", "sha256", "fir"];
    /// The first accelerator's interface: a page of registers, followed by the data section.
    pub const ACCELERATOR: u64 = 0x1800_0000;
    /// The distance to the next interface, and the largest size of one.
    pub const ACCELERATOR_BYTES: u64 = 0x0100_0000;
    /// The first accelerator's source at the interrupt controller. The others follow in the same order.
    pub const ACCELERATOR_SOURCE: usize = 48;
    /// Ticks a second.
    pub const TIMEBASE_HZ: u32 = 10_000_000;
}
