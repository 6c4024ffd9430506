//! A fetch from an address that this island may not execute: how a call begins, and how one ends where the gate's page is missed.

use motet_hal::Machine;
use motet_layout::{ProcessRecord, SpaceRecord, ThreadRecord};
use motet_protocol::direct::Reach;

use super::{
    Fetch,
    call::{call_again, call_by_engine, call_noncoherent},
    choose::choose,
    gate, returns,
};
use crate::{cpu::Cpu, mm};

/// Handles a fetch from an address that this island may not execute: a call, a return, or neither.
pub fn fetch<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    address: u64,
) -> Fetch {
    let space = mm::space_of(cpu, process);
    let called = match cpu.crossing.reach() {
        Reach::Coherent => call_again(cpu, thread, process, space, Reach::Coherent),
        // It knows no function where there is an engine.
        Reach::Noncoherent | Reach::Engine => call_noncoherent(cpu, thread, process, space),
    };
    called.unwrap_or_else(|| first_fetch(cpu, thread, process, space, address))
}

/// As [`fetch`], when it is no call that has been made before.
#[cold]
#[inline(never)]
fn first_fetch<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    space: &'static SpaceRecord,
    address: u64,
) -> Fetch {
    if cpu.crossing.reach().has_engine()
        && let Some(fetch) = call_by_engine(cpu, thread, process, space)
    {
        return fetch;
    }
    if gate::is_missed::<M>(&thread.frame, address) {
        gate::pass(cpu, space, &thread.frame);
        return returns::come_back(cpu, thread, process);
    }
    choose(cpu, thread, process, space, address)
}
