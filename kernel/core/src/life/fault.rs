//! Page faults of user code: each is a call to another instruction set, a store to registers of the FPGA (a request), or an access to memory.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{ProcessRecord, Stage, ThreadRecord};
use motet_protocol::fpga::InterfaceId;

use super::{
    block::block,
    call::pause_outside,
    page,
    scarce::{Scarce, make_room},
    stores::look_for_program,
};
use crate::{
    call::Stop,
    cpu::Cpu,
    crossing::{self, Fetch},
    handover,
    kinds::accel,
    mm::{self, ToRegisters},
    registers::look::Looked,
    signal, trace,
};

#[inline(always)]
pub fn serve_fault<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    address: u64,
    access: Access,
) -> Option<()> {
    if access == Access::Execute {
        match crossing::fetch(cpu, thread, process, address) {
            Fetch::Fault => {}
            Fetch::Run => {
                trace::run(cpu, thread, process);
                return Some(());
            }
            // The system call in which it waits comes next.
            Fetch::Waits => return Some(()),
            Fetch::Gone => return None,
            Fetch::Page => return page::wait_to_execute(cpu, thread, process),
        }
    }
    let space = mm::space_of(cpu, process);
    if access == Access::Write {
        if cpu.due.has_deferred() {
            // The core has looked for registers already (`stores`), and what has come meanwhile is served first: the store is executed again.
            return pause_outside(cpu, thread);
        }
        match mm::serve_store_to_registers(cpu, Some(thread), space, address) {
            ToRegisters::Possible => return Some(()),
            ToRegisters::Asked(id) => return look_for_registers(cpu, thread, process, address, id),
            ToRegisters::Unknown => {}
        }
    }
    match mm::serve_fault(cpu, space, address, access) {
        Ok(()) => Some(()),
        Err(Stop::Page) => page::wait_to_execute(cpu, thread, process),
        Err(Stop::Error(Errno::EAGAIN)) => match mm::serve_store_to_registers(cpu, Some(thread), space, address) {
            ToRegisters::Possible => Some(()),
            ToRegisters::Asked(id) => look_for_registers(cpu, thread, process, address, id),
            ToRegisters::Unknown => wait_to_store(cpu, thread, process, address),
        },
        Err(Stop::Error(Errno::ENOMEM)) => match make_room(cpu, process) {
            // Who ends may be on this core.
            Scarce::Again => {
                handover::yield_core(cpu, thread);
                None
            }
            Scarce::Ends => Some(()),
        },
        Err(stop) => {
            signal::memory_fault(cpu, thread, address, stop.unless_waiting());
            Some(())
        }
    }
}

/// A store to registers of the FPGA's is a request, and this core has nothing else to do: looks until it can be executed. `None`: the thread no
/// longer belongs to this core.
fn look_for_registers<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    address: u64,
    id: InterfaceId,
) -> Option<()> {
    match look_for_program(cpu, thread, id) {
        Looked::Decided => {
            // Should they have been taken away meanwhile, the store is a request once more.
            mm::serve_store_to_registers(cpu, None, mm::space_of(cpu, process), address);
            Some(())
        }
        Looked::Due => pause_outside(cpu, thread),
        Looked::Long => wait_to_store(cpu, thread, process, address),
    }
}

/// A store to registers of the FPGA's that are not connected: it is executed again when they may be. `None`: the thread no longer belongs to this core.
#[cold]
fn wait_to_store<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    address: u64,
) -> Option<()> {
    match accel::ask(cpu, thread, mm::space_of(cpu, process), address) {
        Ok(true) => block(cpu, thread, Stage::INSTRUCTION),
        Ok(false) => Some(()),
        Err(errno) => {
            signal::memory_fault(cpu, thread, address, errno);
            Some(())
        }
    }
}
