//! Stores of programs to registers of the FPGA, served while the program's registers stay in the core ([`Machine::serve_stores`]). Such a store finds the
//! page read-only. A region that is offered is taken; otherwise the store is a request, and the core looks until it is decided.
//!
//! Whatever else is due, and all that has to wait, goes the way of all faults ([`fault`](super::fault)), which does the same from its beginning.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{PoolAddr, SpaceRecord, ThreadRecord, UserFrame};
use motet_protocol::{
    Context,
    fpga::{self as device, InterfaceId},
};

use crate::{
    cpu::{Causes, Cpu},
    fpga,
    kinds::accel,
    mm::{self, ToRegisters},
    registers::look::{Looked, look},
};

/// Serves a store, if that can be done here: then `true`, and the program goes on.
pub fn serve_quickly<M: Machine>(cpu: &Cpu<M>, frame: &'static UserFrame, address: u64) -> bool {
    let Some(device) = device::of(cpu.pool) else { return false };
    let current = cpu.pool.get::<ThreadRecord>(PoolAddr(cpu.own.current_thread.load(Ordering::Relaxed)));
    let Some(thread) = current.filter(|thread| core::ptr::eq(&raw const thread.frame, frame)) else { return false };
    let Some(space) = cpu.object::<SpaceRecord>(cpu.mm.active()) else { return false };
    if is_due(cpu, thread) {
        return false;
    }
    cpu.fpga.begin_request();
    // In a loop, so that its code is there once, and in the caches the second time.
    loop {
        let asks = (!cpu.fpga.is_request()).then_some(thread);
        match mm::store_to_registers::<M, true>(cpu, device, asks, space, address) {
            ToRegisters::Possible => {
                let served = &cpu.own.register_stores;
                served.set(served.get() + 1);
                return true;
            }
            ToRegisters::Asked(id) => {
                if !look_quickly(cpu, thread, id) {
                    return false;
                }
            }
            // Should they have been taken away while this core looked, the store is a request once more.
            ToRegisters::Unknown => return asks.is_none(),
        }
    }
}

/// Whether something is to be done before the thread goes on.
#[inline(always)]
fn is_due<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    thread.attention.load(Ordering::Relaxed) != 0 || cpu.is_due(Causes::SHOOTDOWN)
}

/// The store has become a request: looks until that is decided. `false`: something else is to be done first.
#[inline(never)]
fn look_quickly<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, id: InterfaceId) -> bool {
    cpu.fpga.has_asked();
    let looked = look_for_program(cpu, thread, id);
    if looked == Looked::Long {
        cpu.fpga.has_looked_long();
    }
    // Clients that were told may have been woken.
    looked == Looked::Decided && !is_due(cpu, thread) && !cpu.is_due(Causes::INTERRUPTS)
}

/// Looks until the request that a program's store has become is decided, and tells the FPGA's manager what it is to know.
pub fn look_for_program<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, id: InterfaceId) -> Looked {
    let looked = look(cpu, thread, id, u64::MAX);
    if accel::has_readers(cpu, id) {
        fpga::serve(cpu);
    }
    looked
}
