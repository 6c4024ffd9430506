//! Accelerators of virtual machines (`docs/protocols/fpga.md`). An interface is a piece of a machine's memory: its registers first, and its data
//! section behind them. As in Ker-ONE, section 4.1, registers are read-only in the second-stage table while they are not connected. A store
//! to them then stops the guest and is a request; it is executed again when they are connected, or after an interrupt of the guest.

use core::ops::Range;

use motet_layout::sync::Ordering;

use motet_abi::Errno;
use motet_hal::{Access, Machine, Stage2};
use motet_layout::{FpgaInterface, Frame, InodeRecord, PAGE_SIZE, PoolAddr, ThreadRecord, VmRecord, VmRegion};
use motet_paging::{Attr, Table};
use motet_protocol::{
    Context,
    fpga::{self, InterfaceId, clients, guest},
    fs,
    lock::lock,
    shootdown, wait,
};

use super::tables::{self, Found};
use crate::{cpu::Cpu, registers::fpga as interfaces};

/// First address past what the registers of an accelerator can name: they have 32 bits.
const ADDRESS_END: u64 = 1 << 32;

/// Attaches an accelerator's interface to a guest, if a file's pages are one. From now on its data section is at these addresses of the guest, behind a
/// page of registers, and its transfers use guest addresses.
///
/// # Errors
/// `EINVAL`: there is no room for registers, or the registers cannot name the addresses; `EBUSY`: a virtual machine has it already.
pub fn attach<M: Machine>(
    cpu: &Cpu<M>,
    vm: &'static VmRecord,
    pages: &InodeRecord,
    addresses: Range<u64>,
) -> Result<(), Errno> {
    let (Some(fpga), Some(interface)) = (fpga::of(cpu.pool), interfaces::interface_of(cpu, pages)) else {
        return Ok(());
    };
    if addresses.end > ADDRESS_END {
        return Err(Errno::EINVAL);
    }
    let _guard = lock(cpu, &fpga.kernel_lock);
    if interface.guest.load(Ordering::Relaxed) != 0 {
        return Err(Errno::EBUSY);
    }
    interface.data_base.set(addresses.start + PAGE_SIZE);
    interface.guest.store(cpu.raw(vm), Ordering::Release);
    Ok(())
}

/// Detaches an interface from its guest, if a file's pages are one. Its data section is where it was before.
pub fn detach<M: Machine>(cpu: &Cpu<M>, pages: &InodeRecord) {
    if let (Some(fpga), Some(interface)) = (fpga::of(cpu.pool), interfaces::interface_of(cpu, pages)) {
        let _guard = lock(cpu, &fpga.kernel_lock);
        interface.guest.store(0, Ordering::Release);
        interface.data_base.set(0);
    }
}

/// Ends all transfers from and to a machine's memory, which has no interfaces any more.
pub fn end_transfers<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord) {
    if let Some(fpga) = fpga::of(cpu.pool) {
        guest::end(cpu, fpga, cpu.pool.addr_of(vm));
    }
}

/// Finds the page that a transfer needs, if it is memory, and enters it in the guest's table. The FPGA's `kernel_lock` is held, so that the guest is not
/// dismantled.
pub fn fetch<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord, page: u64) -> guest::Answer {
    let _guard = lock(cpu, &vm.space.lock);
    let Some(region) = tables::region_at(vm, page) else { return guest::Answer::Outside };
    // Of whichever island: transfers look into all.
    let Some(table) = tables::tables(cpu, vm).next() else { return guest::Answer::Exhausted };
    if tables::tables(cpu, vm).any(|table| table.lookup(page).is_some()) {
        return guest::Answer::Found;
    }
    let pages = cpu.pool.at::<InodeRecord>(PoolAddr(region.inode.get()));
    let frame = if interfaces::is_interface(pages) {
        match (page - region.start.get()) / PAGE_SIZE {
            0 => return guest::Answer::Outside,
            index => interfaces::data_frame(cpu, pages, index).ok(),
        }
    } else {
        fs::page_or_allocate(cpu, pages, (region.offset.get() + page - region.start.get()) / PAGE_SIZE).ok()
    };
    // Not to be executed before a core of the island has synchronised its fetches with it.
    let is_entered = |frame| tables::enter(cpu, vm, &table, (page, frame), Attr::READ.union(Attr::WRITE));
    if frame.is_some_and(is_entered) { guest::Answer::Found } else { guest::Answer::Exhausted }
}

/// Gives a guest a page of an interface. The space's lock is held.
pub fn serve_fault<M: Machine>(
    cpu: &Cpu<M>,
    vm: &VmRecord,
    (table, region): (&Table<'_, Stage2>, &VmRegion),
    page: u64,
    access: Access,
) -> Found {
    let pages = cpu.pool.at::<InodeRecord>(PoolAddr(region.inode.get()));
    let (Some(interface), Some(id)) = (interfaces::interface_of(cpu, pages), InterfaceId::from_link(pages.fpga.get()))
    else {
        return Found::Refused;
    };
    let index = (page - region.start.get()) / PAGE_SIZE;
    let is_registers = index == 0;
    let is_request = is_registers && access == Access::Write;
    let is_refused = || fpga::of(cpu.pool).is_some_and(|device| interfaces::take_refusal(cpu, device, interface));
    if access == Access::Execute || is_request && is_refused() {
        return Found::Refused;
    }
    if is_request && let Some(found) = serve_store(cpu, table, page, id, || drop_translations(cpu)) {
        return found;
    }
    let may_write = !is_registers || is_request && interfaces::may_write(cpu, id);
    let known = table.lookup(page);
    let allow = match &known {
        _ if may_write => Attr::READ.union(Attr::WRITE),
        Some(leaf) => leaf.attr,
        None => Attr::READ,
    };
    let frame = match &known {
        // The reference is there.
        Some(leaf) => Ok(leaf.frame.named()),
        None if is_registers => interfaces::registers_frame(cpu, id),
        None => interfaces::data_frame(cpu, pages, index),
    };
    let Ok(frame) = frame else { return Found::Refused };
    match known {
        Some(_) => widen(cpu, table, (page, frame), allow),
        None if !tables::enter(cpu, vm, table, (page, frame), allow) => return Found::Exhausted,
        None => {}
    }
    if is_request && !may_write { Found::Unconnected(id) } else { Found::Memory }
}

/// A store to registers: the whole of an allocation without reconfiguration. `drops` what this core has of the page. `None`: the guest has not got it
/// yet.
#[inline(always)]
pub fn serve_store<M: Machine>(
    cpu: &Cpu<M>,
    table: &Table<'_, Stage2>,
    page: u64,
    id: InterfaceId,
    drops: impl FnOnce(),
) -> Option<Found> {
    let mut is_there = false;
    let may_write = |_| {
        is_there = true;
        interfaces::may_write(cpu, id)
    };
    if table.allow_stores(page, may_write) {
        drops();
        return Some(Found::Memory);
    }
    is_there.then_some(Found::Unconnected(id))
}

/// Widens the rights of a page that is entered. This core may still have a narrower translation cached, and another core may have been first.
pub fn widen<M: Machine>(cpu: &Cpu<M>, table: &Table<'_, Stage2>, (page, frame): (u64, Frame), allow: Attr) {
    let mut allocate = || unreachable!("the page has its tables");
    let _ = table.map(page, frame, allow, &mut allocate);
    drop_translations(cpu);
}

/// This core may still know that a table allows less.
fn drop_translations<M: Machine>(cpu: &Cpu<M>) {
    cpu.machine.page_table_fence();
    cpu.machine.flush_guests();
}

/// Makes the request for registers that the guest stores to, and lets the preparing thread wait for them. `true`: they are connected, or will not be.
pub fn ask<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, id: InterfaceId) -> bool {
    let Some(fpga) = fpga::of(cpu.pool) else { return true };
    let interface = &fpga.interfaces[id.index()];
    if !wait::enqueue(cpu, thread, &interface.waiters, 0, u32::MAX) {
        return true; // there is no memory for that: the guest tries again
    }
    clients::ask(fpga, interface, interfaces::urgency(thread));
    cpu.tell_service();
    clients::is_decided(interface)
}

/// Makes an interface's registers read-only for its guest, on all islands: no core has another translation of them when this comes back. The
/// FPGA's `kernel_lock` is held, so that the guest is not taken apart.
pub fn protect<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord, interface: &FpgaInterface) {
    let _guard = lock(cpu, &vm.space.lock);
    let is_its = |region: &&VmRegion| region.inode.get() == interface.inode.get();
    let Some(region) = tables::regions(vm).iter().find(is_its) else { return };
    let page = region.start.get();
    shootdown::narrow(
        cpu,
        &vm.space,
        || cpu.flush_user(),
        |narrowing| {
            for table in tables::tables(cpu, vm) {
                table.narrow(page..page + PAGE_SIZE, narrowing, |_, leaf| leaf.attr.without(Attr::WRITE));
            }
            cpu.machine.page_table_fence();
        },
    );
}
