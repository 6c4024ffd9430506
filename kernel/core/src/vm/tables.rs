//! Second-stage tables of virtual machines, and the pieces of memory that they map.
//!
//! Each island has a table of its own for a machine, made when it first runs it.

use motet_abi::Errno;
use motet_hal::{Machine, Stage2};
use motet_layout::{Frame, IslandId, PAGE_SIZE, VmRecord, VmRegion, sync::Ordering};
use motet_paging::{Attr, Table};
use motet_protocol::{
    Context,
    fpga::{InterfaceId, guest},
    lock::lock,
    memory::{alloc_run, alloc_zeroed_frame_on, release_frame},
    shootdown,
};

use crate::{call::cost, cpu::Cpu, due};

/// What a table costs whose entries are looked at.
const TABLE: u64 = 5 * cost::FRAME;

/// Pieces of memory of a machine, in ascending order of addresses.
pub fn regions(vm: &VmRecord) -> &[VmRegion] {
    &vm.regions[..(vm.region_count.get() as usize).min(vm.regions.len())]
}

/// The piece in which an address is. The space's lock is held.
pub fn region_at(vm: &VmRecord, address: u64) -> Option<&VmRegion> {
    regions(vm).iter().find(|region| (region.start.get()..region.end.get()).contains(&address))
}

/// Bytes of memory that a machine has been given.
pub fn bytes(vm: &VmRecord) -> u64 {
    regions(vm).iter().map(|region| region.end.get().saturating_sub(region.start.get())).sum()
}

/// What a guest's fault is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Memory, which the guest now has.
    Memory,
    /// No memory.
    Nothing,
    /// Memory, but there is none left for it.
    Exhausted,
    /// Registers that are not connected, and a store to them: a request.
    Unconnected(InterfaceId),
    /// What is there does not do this.
    Refused,
}

/// The root of this island's table of a machine that this core is about to run. Makes the table if there is none.
///
/// # Errors
/// `ENOMEM`.
#[inline(always)]
pub fn root<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord, format: Stage2) -> Result<Frame, Errno> {
    let (island, own_bit) = (cpu.island().index(), 1 << cpu.id.index_in_island());
    // Set the bit, then translate: a core that ends the machine asks those with a bit to drop translations.
    if vm.space.active[island].load(Ordering::Relaxed) & own_bit == 0 {
        vm.space.active[island].fetch_or(own_bit, Ordering::SeqCst);
    }
    match Frame(vm.space.roots[island].load(Ordering::Acquire)) {
        Frame::NONE => make_root(cpu, vm, format).ok_or(Errno::ENOMEM),
        root => Ok(root),
    }
}

#[cold]
fn make_root<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord, format: Stage2) -> Option<Frame> {
    let slot = &vm.space.roots[cpu.island().index()];
    let _guard = lock(cpu, &vm.space.lock);
    let known = Frame(slot.load(Ordering::Relaxed));
    if !known.is_none() {
        return Some(known);
    }
    let frames = (format.root_bytes() / PAGE_SIZE) as u32;
    due::spend_locked(cpu, cost::STEP);
    let root = alloc_run(cpu, frames, frames).ok()?;
    for frame in root.0..root.0 + frames {
        cpu.zero_frame(Frame(frame));
        due::spend_locked(cpu, cost::STEP);
    }
    let code = Stage2::ALL.iter().position(|known| *known == format)?;
    vm.formats[cpu.island().index()].store(code as u8 + 1, Ordering::Relaxed);
    slot.store(root.0, Ordering::Release);
    Some(root)
}

/// A table of the second stage, by its root.
#[inline(always)]
pub fn table<M: Machine>(cpu: &Cpu<M>, (root, format): (Frame, Stage2)) -> Table<'_, Stage2> {
    Table { pool: cpu.pool, root, format, map: cpu.mm.map() }
}

/// The tables of a machine, of all islands that have run it.
pub fn tables<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) -> impl Iterator<Item = Table<'static, Stage2>> {
    let islands = (0..vm.space.roots.len() as u32).filter_map(IslandId::from_raw);
    islands.filter_map(|island| guest::table_of(cpu.pool, vm, island))
}

/// Enters a page in a table, with the caller's reference to it. `false`: there is no memory for that, and the reference is released.
pub fn enter<M: Machine>(
    cpu: &Cpu<M>,
    vm: &VmRecord,
    table: &Table<'_, Stage2>,
    (page, frame): (u64, Frame),
    allow: Attr,
) -> bool {
    let mut allocate = || {
        let table = alloc_zeroed_frame_on(cpu, cpu.island().index());
        due::spend_locked(cpu, cost::STEP);
        table
    };
    if table.map(page, frame, allow, &mut allocate).is_err() {
        release_frame(cpu, frame);
        return false;
    }
    vm.space.resident.fetch_add(1, Ordering::Relaxed);
    cpu.machine.page_table_fence();
    true
}

/// Takes a table apart that nobody uses any more, and releases what it had.
pub fn dismantle<M: Machine>(
    cpu: &Cpu<M>,
    vm: &'static VmRecord,
    table: &Table<'_, Stage2>,
    unused: &shootdown::Unused,
) {
    table.dismantle(
        regions(vm).iter().map(|region| region.start.get()..region.end.get()),
        unused,
        |leaf| {
            release_frame(cpu, leaf.frame.named());
            due::spend_locked(cpu, cost::FRAME);
        },
        |table| {
            release_frame(cpu, table);
            due::spend_locked(cpu, TABLE);
        },
    );
}
