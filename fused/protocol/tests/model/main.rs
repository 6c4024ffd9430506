//! Models: the protocols' own code on a real pool, under a scheduler that explores interleavings.
//!
//! `RUSTFLAGS="--cfg motet_model" cargo test -p motet-protocol --test model` (without the flag this file is empty).
//! Every atomic operation on the pool is a scheduling point (see `motet_layout::sync`). A failing schedule is printed;
//! `shuttle::replay` repeats it. Each model also has a twin with a step of the protocol left out or reordered, and the
//! twin must be caught: a model that cannot fail proves nothing.
#![cfg(motet_model)]

mod allocator;
mod clock;
mod death;
mod direct;
mod engine;
mod engine_calls;
mod fpga;
mod fpga_guest;
mod hand;
mod handed;
mod harness;
mod hotplug;
mod idle;
mod inbox;
mod locks;
mod migration;
mod nested;
mod noncoherent;
mod owner;
mod private;
mod rejoin;
mod residency;
mod ring;
mod runs;
mod service;
mod shoot_down;
mod slabs;
mod stacked;
mod stamp;
mod taken;
mod timers;
mod trace;
mod transfer_death;
mod wake_up;
mod watch;
