//! Devices as address spaces know them: pages that are registers, and memory that devices use.

pub mod fpga;
pub mod look;
pub mod service;

use motet_hal::Machine;
use motet_layout::{DmaList, HardwareTable, PoolAddr, SpaceRecord};
use motet_protocol::{Context, engine, service::hardware};

use crate::cpu::Cpu;

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
