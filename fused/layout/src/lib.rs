//! Every byte that two kernels may both touch.
//!
//! The pool is read and written at the same time by kernels of several instruction sets and by the host. Its
//! structures are therefore described here once, with explicit offsets and named padding, asserted at compile time on
//! every target ([`pool_struct!`]), and listed in [`LAYOUTS`], whose hash ([`FINGERPRINT`]) stands in the pool header.
//!
//! Invariants:
//! - Everything in the pool is [`PoolSafe`]: fixed-width integers inside atomics. No pointer, reference, vtable,
//!   `usize`, `bool` or `enum` can be a field; the compiler refuses it.
//! - Because every field is atomic, a shared reference to a pool structure is sound whatever another island writes.
//!   Fields that a lock or a single writer protects use [`Cell32`] / [`Cell64`] (relaxed accesses, plain moves on every
//!   ISA); fields that carry a protocol name their orderings where they are used.
//! - What another kernel wrote is an allegation: raw values become ids and enums through total decoders.
#![no_std]
#![deny(unsafe_code)]
#![deny(missing_docs)]

mod address;
mod bits;
mod core_record;
mod crossing;
mod dma;
mod files;
mod fingerprint;
mod fpga;
mod frame;
mod guest;
pub mod handshake;
mod header;
mod ids;
mod ipc;
mod island;
mod lock;
#[macro_use]
mod macros;
mod marker;
pub mod marks;
mod memory;
mod messages;
mod notify;
mod objects;
#[allow(unsafe_code)]
mod pool;
mod service;
mod sockets;
mod space;
mod stage;
mod stream;
pub mod sync;
mod terminal;
mod trace;
mod vectors;

pub use address::*;
pub use bits::ones;
pub use core_record::*;
pub use crossing::*;
pub use dma::*;
pub use files::*;
pub use fingerprint::*;
pub use fpga::*;
pub use frame::*;
pub use guest::*;
pub use header::*;
pub use ids::*;
pub use ipc::*;
pub use island::*;
pub use lock::*;
pub use marker::*;
pub use memory::*;
pub use messages::*;
pub use notify::*;
pub use objects::*;
pub use pool::{Pool, Windows};
pub use service::*;
pub use sockets::*;
pub use space::*;
pub use stage::*;
pub use stream::*;
pub use terminal::*;
pub use trace::*;
pub use vectors::*;
