//! Guests: programs that run in virtual machines of Motet and, unmodified, on QEMU's `virt` boards by themselves. Each program is a
//! file of `bin`; here is what puts real-time kernels on the board. `docs/guests.md` says how to build and run them.
#![no_std]
#![deny(unsafe_code)]

pub mod accelerated;
#[cfg(feature = "freertos")]
pub mod freertos;
pub mod heartbeat;
pub mod hostile;
pub mod rtos;
pub mod serial;
pub mod share;
pub mod times;
