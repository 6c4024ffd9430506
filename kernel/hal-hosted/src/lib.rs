//! Islands as host code: several fused kernels in one process, over one region of bytes. Or kernels that share nothing but windows
//! ([`Config::windows`]): then each has a region of its own, and an island of the driver is a kernel.
//!
//! Every core of every island runs the kernel's entry point against a [`Hosted`] machine, as a thread or a coroutine of the host. User code
//! is interpreted ([`isa`], [`asm`]). What real hardware may keep too long is really kept here: each core caches
//! translations ([`Config::check_stale`] reports a stale one that is used although nobody is changing the space), each
//! island caches instructions until `sync_instructions`. An island's page tables are in any of the formats the real
//! ISAs use, so that kernels edit each other's foreign tables.
//!
//! Two drivers: [`Driver::Threads`] lets all cores run at once; [`Driver::Seeded`] passes a baton, so that one core
//! runs at a time, time is virtual, and a seed decides who goes on at every point where the HAL is called (with
//! `--cfg motet_model` at every atomic operation on the pool too), which doorbells are late, and which island stalls or
//! dies. A seed reproduces its run exactly.
//!
//! The odd thing: kernels never return, so a run ends by unwinding every core out of its next call into the HAL.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod asm;
mod baton;
mod config;
mod damage;
pub mod elf;
mod gate;
mod hart;
mod hidden;
pub mod isa;
mod kernels;
mod machine;
mod migration;
pub mod network;
#[allow(unsafe_code)]
mod region;
#[allow(unsafe_code)]
mod turns;
mod world;

pub use baton::ENDLESS_WALK;
pub use config::{Config, Counter, Defect, Driver, Faults, IslandConfig, WindowConfig};
pub use machine::{Flavour, Hosted, HostedMachine};
pub use world::{Failure, Host, Kernel, NoHost, Outcome, run, run_kernels, run_seeds};
