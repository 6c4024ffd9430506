//! The kernel: generic over the machine, the same source on every island.
//!
//! A core's life is [`life::core_loop`]: pick a thread, run it by [`motet_hal::Machine::run_user`] until it traps, serve
//! the trap, repeat. Everything that is shared, and almost everything is, lies in the pool and is described in
//! `motet_layout`; the algorithms over it are in `motet_protocol`. Nothing here allocates from a heap, and nothing waits
//! on a kernel stack: a system call that must wait is dispatched again (see [`call`]).
#![no_std]
#![forbid(unsafe_code)]

mod ability;
mod alarm;
mod attend;
mod away;
mod balance;
pub mod call;
mod chain;
mod console;
pub mod cpu;
mod cputime;
mod crossing;
mod cursor;
mod death;
mod description;
mod due;
mod extension;
mod file;
mod fpga;
mod futex;
mod handover;
mod hotplug;
mod ipc;
mod kinds;
mod life;
mod mm;
mod net;
mod peers;
mod permission;
mod process;
mod random;
mod realtime;
mod recover;
mod registers;
mod signal;
mod syscall;
mod time;
mod trace;
mod tree;
mod turn;
mod vm;

pub use life::boot::run;
