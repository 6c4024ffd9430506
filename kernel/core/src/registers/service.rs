//! The service core's registers as pages that are mapped. What is done by them is `kinds::service`'s.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{CoreId, Frame, InodeRecord, ServiceCore};
use motet_protocol::{
    Context,
    lock::lock,
    memory::share_frame,
    service::{
        self,
        clients::{self, Owner},
    },
};

use crate::cpu::Cpu;

/// Whether a file's pages are registers.
#[inline(always)]
pub fn has_registers(inode: &InodeRecord) -> bool {
    inode.service.get() != 0
}

/// The owner of the core's objects that an open file is.
pub fn owner(registers: &InodeRecord) -> Owner {
    Owner { number: registers.number.get() as u32, user: registers.uid.get() }
}

/// The frame of the registers for a core, with a reference added for the caller.
///
/// # Errors
/// `ENXIO`: the machine has no such core; `ENOSPC`: all pages of registers are in use.
pub fn frame<M: Machine>(cpu: &Cpu<M>, registers: &'static InodeRecord, index: u64) -> Result<Frame, Errno> {
    let core = service::of(cpu.pool).ok_or(Errno::ENXIO)?;
    let page = page(cpu, core, registers, index)?;
    let frame = clients::frame(cpu.pool, core, page);
    share_frame(cpu, frame);
    Ok(frame)
}

/// The page of registers for a core.
///
/// # Errors
/// As [`frame`].
pub fn page<M: Machine>(
    cpu: &Cpu<M>,
    core: &ServiceCore,
    registers: &'static InodeRecord,
    index: u64,
) -> Result<usize, Errno> {
    let header = cpu.pool.header();
    let exists = |id: &CoreId| {
        id.island().index() < cpu.islands.count()
            && id.index_in_island() < header.islands[id.island().index()].core_count.get() as usize
    };
    let id = u32::try_from(index).ok().and_then(CoreId::from_raw).filter(exists).ok_or(Errno::ENXIO)?;
    let guard = lock(cpu, &registers.lock);
    let page = clients::page(core, owner(registers), id, cpu.id);
    drop(guard);
    let page = page.ok_or(Errno::ENOSPC)?;
    if page.is_new {
        cpu.tell_service();
    }
    Ok(page.number)
}
