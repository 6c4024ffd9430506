//! Page faults: a call to another instruction set, a store that is a request, or memory.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{ProcessRecord, STORE_WAITED, ThreadRecord};

use super::call::block;
use crate::{
    cpu::Cpu,
    crossing::{self, Fetch},
    kinds::accel,
    mm, signal, trace,
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
            Fetch::Gone => return None,
        }
    }
    let space = mm::space_of(cpu, process);
    if access == Access::Write && mm::serve_store_to_registers(cpu, space, address) {
        return Some(());
    }
    match mm::serve_fault(cpu, space, address, access) {
        Ok(()) => Some(()),
        Err(Errno::EAGAIN) => wait_to_store(cpu, thread, process, address),
        Err(errno) => {
            signal::memory_fault(cpu, thread, address, errno);
            Some(())
        }
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
        Ok(true) => block(cpu, thread, STORE_WAITED),
        Ok(false) => Some(()),
        Err(errno) => {
            signal::memory_fault(cpu, thread, address, errno);
            Some(())
        }
    }
}
