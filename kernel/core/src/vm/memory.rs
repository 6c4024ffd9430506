//! Memory of virtual machines: which pages of which files it is, and the second-stage tables that map them.
//!
//! Faults fill an island's table. Its leaves hold references to their frames, so changes of the file meanwhile do not matter:
//! a page that the file loses stays the guest's where its table has it. No leaf is removed from a table as long as the machine lives (registers of
//! accelerators become read-only, though: [`accelerators`](super::accelerators)). At its end, a shoot-down reaches all
//! cores that may have translations of it, before a frame is freed.

use motet_layout::sync::Ordering;

use motet_abi::Errno;
use motet_hal::{Access, Machine, Stage2};
use motet_layout::{Frame, InodeRecord, IslandId, PAGE_SIZE, PoolAddr, VmRecord, VmRegion};
use motet_paging::{Attr, Table};
use motet_protocol::{
    Context,
    fpga::{InterfaceId, guest},
    fs,
    lock::lock,
    memory::{alloc_run, alloc_zeroed_frame_on, release_frame},
    shootdown,
};

use super::accelerators;
use crate::{
    call::{Call, cost},
    cpu::Cpu,
    due,
    registers::fpga,
};

/// What a table costs whose entries are looked at.
const TABLE: u64 = 5 * cost::FRAME;

/// Gives a machine memory: `bytes` bytes from `start` on are those of the file in memory that `file` finds, with a reference, from `offset` on.
///
/// # Errors
/// `EINVAL`: something is not page-aligned, or beyond what tables translate or the file has, or overlaps other memory, or the descriptor is
/// no file in memory; `EACCES`: it is not open for writing; `EPERM`: it is sealed against writing; `ENOSPC`: the machine has all
/// pieces that it can have; `EBADF`; those of [`accelerators::attach`], for the interface of an accelerator.
pub fn add<M: Machine>(
    call: &Call<M>,
    vm: &'static VmRecord,
    (start, bytes): (u64, u64),
    offset: u64,
    file: impl FnOnce() -> Result<&'static InodeRecord, Errno>,
) -> Result<(), Errno> {
    let cpu = call.cpu;
    let format = cpu.machine.guest_format().ok_or(Errno::ENODEV)?;
    let end = start.checked_add(bytes).filter(|&end| end <= format.end() && bytes != 0).ok_or(Errno::EINVAL)?;
    if (start | bytes | offset) % PAGE_SIZE != 0 {
        return Err(Errno::EINVAL);
    }
    let inode = file()?;
    accelerators::attach(cpu, vm, inode, start..end).inspect_err(|_| put_back(cpu, inode))?;
    let guard = lock(cpu, &vm.space.lock);
    let used = vm.region_count.get() as usize;
    let refusal = match regions(vm).iter().any(|region| start < region.end.get() && region.start.get() < end) {
        true => Some(Errno::EINVAL),
        false if used == vm.regions.len() => Some(Errno::ENOSPC),
        false => None,
    };
    if let Some(errno) = refusal {
        drop(guard);
        accelerators::detach(cpu, inode);
        put_back(cpu, inode);
        return Err(errno);
    }
    let at = regions(vm).iter().take_while(|region| region.start.get() < start).count();
    for index in (at..used).rev() {
        copy(&vm.regions[index], &vm.regions[index + 1]);
    }
    let region = &vm.regions[at];
    region.start.set(start);
    region.end.set(end);
    region.inode.set(cpu.raw(inode));
    region.offset.set(offset);
    vm.region_count.set(used as u32 + 1);
    Ok(())
}

fn copy(from: &VmRegion, to: &VmRegion) {
    to.start.set(from.start.get());
    to.end.set(from.end.get());
    to.inode.set(from.inode.get());
    to.offset.set(from.offset.get());
}

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
    // First say so, then translate: who ends the machine asks this core to drop translations.
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

/// Gives a guest the page at `address`, if that is memory.
pub fn serve_fault<M: Machine>(
    cpu: &Cpu<M>,
    vm: &'static VmRecord,
    (root, format): (Frame, Stage2),
    address: u64,
    access: Access,
) -> Found {
    let page = address & !(PAGE_SIZE - 1);
    let _guard = lock(cpu, &vm.space.lock);
    let Some(region) = region_at(vm, page) else { return Found::Nothing };
    let table = table(cpu, (root, format));
    let inode = cpu.pool.at::<InodeRecord>(PoolAddr(region.inode.get()));
    if fpga::is_interface(inode) {
        return accelerators::serve_fault(cpu, vm, (&table, region), page, access);
    }
    let all = Attr::READ.union(Attr::WRITE).union(Attr::EXECUTE);
    if let Some(leaf) = table.lookup(page) {
        if access == Access::Execute && !leaf.attr.contains(Attr::EXECUTE) {
            // It came with a transfer.
            cpu.machine.sync_instructions(leaf.frame.named());
            accelerators::widen(cpu, &table, (page, leaf.frame.named()), all);
        } else {
            // Another core was first, or this one still knows that nothing was there.
            cpu.machine.flush_guests();
        }
        return Found::Memory;
    }
    let index = (region.offset.get() + page - region.start.get()) / PAGE_SIZE;
    let Ok(frame) = fs::page_or_allocate(cpu, inode, index) else { return Found::Exhausted };
    due::spend_locked(cpu, cost::STEP);
    // Whoever wrote instructions there: before the guest can execute any.
    cpu.machine.sync_instructions(frame);
    due::spend_locked(cpu, cost::STEP);
    if enter(cpu, vm, &table, (page, frame), all) { Found::Memory } else { Found::Exhausted }
}

/// Frees the memory and tables of a machine that nobody runs any more. Its records stay.
pub fn end<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) {
    let inode = |region: &VmRegion| cpu.pool.at::<InodeRecord>(PoolAddr(region.inode.get()));
    // Nobody makes registers read-only any more in tables that are about to go.
    regions(vm).iter().for_each(|region| accelerators::detach(cpu, inode(region)));
    accelerators::end_transfers(cpu, vm);
    shootdown::end(
        cpu,
        &vm.space,
        || cpu.flush_user(),
        |unused| tables(cpu, vm).for_each(|table| dismantle(cpu, vm, &table, unused)),
    );
    for region in regions(vm) {
        put_back(cpu, inode(region));
    }
}

fn dismantle<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord, table: &Table<'_, Stage2>, unused: &shootdown::Unused) {
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

/// A virtual machine does not use a file any more.
fn put_back<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord) {
    inode.guests.fetch_sub(1, Ordering::SeqCst);
    fs::put(cpu, inode);
}
