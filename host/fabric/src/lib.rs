//! One machine out of several QEMU processes.
//!
//! The fabric creates the pool, starts one unmodified QEMU per island, connects their doorbells, pumps the console, and
//! watches over all of it. It is a peer of the islands: it rings and is rung, and what happened is in the pool.
//!
//! Nothing outlives a run: shared memory and kernels' images are memfds, sockets have no names, and every QEMU dies
//! with this process, whatever ends it.
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod console;
pub mod control;
mod device_thread;
mod engine;
pub mod fpga;
pub mod image;
pub mod initramfs;
mod ivshmem;
pub mod network;
pub mod place;
#[allow(unsafe_code)] // the mapping of the pool
mod pool;
#[allow(unsafe_code)] // descriptors and the death signal of child processes
pub mod qemu;
mod qmp;
mod registers;
mod results;
pub mod rootfs;
pub mod run;
pub mod service;
mod signals;
mod state;
mod streams;
pub mod terminal;
pub mod timed;
pub mod trace;
pub mod vm_console;
pub mod watched;

pub use ivshmem::Doorbells;
pub use pool::{Command, HostPool, STREAM_SIZE};
pub use results::Results;
pub use timed::stats;
