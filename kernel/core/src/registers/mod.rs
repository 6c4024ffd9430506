//! Devices as address spaces know them: pages that are registers, and memory that devices use.

pub mod fpga;
mod late;
pub mod look;
pub mod service;

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{DmaList, Frame, HardwareTable, InodeRecord, PoolAddr, SpaceRecord};
use motet_protocol::{Context, engine, service::hardware};

use crate::cpu::Cpu;

/// What a page of a device's file is.
pub enum DevicePage {
    /// This frame, with a reference added for the caller. It is never memory of one process.
    Frame(Frame),
    /// A page as any file has.
    OfFile,
    /// It comes later: the core has noted which page that is.
    Later,
}

/// What a fault on the page at `fault.1` gets of a device's file, whose page `index` is mapped there. The space is locked.
///
/// # Errors
/// `ENXIO`: there is no such page; `ENOSPC`: there is no room for it.
#[cold]
pub fn page<M: Machine>(
    cpu: &Cpu<M>,
    fault: (&'static SpaceRecord, u64, Access),
    inode: &'static InodeRecord,
    index: u64,
) -> Result<DevicePage, Errno> {
    if fpga::is_interface(inode) {
        return fpga::data_frame(cpu, inode, index).map(DevicePage::Frame);
    }
    if service::has_registers(inode) {
        return service::frame(cpu, inode, index).map(DevicePage::Frame);
    }
    Ok(if late::has_arrived(cpu, fault, inode, index)? { DevicePage::OfFile } else { DevicePage::Later })
}

/// Whether an engine reads or writes a space's memory, whose lock is held.
pub fn has_transfers<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord) -> bool {
    let header = cpu.pool.header();
    let space = cpu.raw(space);
    let is_its = |id: u64| cpu.pool.get::<DmaList>(PoolAddr(id)).is_some_and(|list| list.space.get() == space);
    let mut engines = header.dma.iter().take(header.island_count.get() as usize);
    engines.any(|engine| engine::has_work(engine) && engine::has_under_way(cpu, engine, is_its))
}

/// Whether a device uses a space's memory, whose lock is held.
pub fn has_devices<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord) -> bool {
    let space = cpu.raw(space);
    let is_its = |table: &HardwareTable| table.space.get() == space;
    motet_protocol::service::of(cpu.pool).is_some_and(|core| {
        hardware::is_any_busy(core)
            && hardware::tables(core).any(|table| cpu.object::<HardwareTable>(table).is_some_and(is_its))
    })
}
