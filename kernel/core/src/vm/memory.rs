//! Memory of virtual machines: which pages of which files it is, and how [`tables`](super::tables) come to map them.
//!
//! Faults fill an island's table. Its leaves hold references to their frames, so changes of the file meanwhile do not matter:
//! a page that the file loses stays the guest's where its table has it. No leaf is removed from a table as long as the machine lives (registers of
//! accelerators become read-only, though: [`accelerators`](super::accelerators)). At its end, a shoot-down reaches all
//! cores that may have translations of it, before a frame is freed.

use motet_layout::sync::Ordering;

use motet_abi::Errno;
use motet_hal::{Access, Machine, Stage2};
use motet_layout::{Frame, InodeRecord, PAGE_SIZE, PoolAddr, VmRecord, VmRegion};
use motet_paging::Attr;
use motet_protocol::{Context, fs, lock::lock, shootdown};

use super::{
    accelerators,
    tables::{Found, dismantle, enter, region_at, regions, table, tables},
};
use crate::{
    call::{Call, cost},
    cpu::Cpu,
    due,
    registers::fpga,
};

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

/// A virtual machine does not use a file any more.
fn put_back<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord) {
    inode.guests.fetch_sub(1, Ordering::SeqCst);
    fs::put(cpu, inode);
}
