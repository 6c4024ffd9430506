//! Interfaces of the FPGA as pages that are mapped: registers and data. What is done by them is `kinds::accel`'s.

use core::sync::atomic::Ordering;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{Fpga, FpgaInterface, Frame, InodeRecord, SpaceRecord, ThreadRecord, VmaRecord, sync::AtomicU64};
use motet_protocol::{
    Context,
    fpga::{self, InterfaceId, clients, frames},
    memory::share_frame,
    residency, schedule, wait,
};

use crate::cpu::{Causes, Cpu};

/// To the FPGA, so many more are above that: real-time priorities.
pub const REALTIME: u32 = schedule::PRIORITY_MAX;
/// [`schedule::Schedule::rank`] of the most urgent thread that there can be.
const FIRST_RANK: i32 = -20 - REALTIME as i32;

/// How urgent a thread is to the FPGA, as it is to its core: 0 to 98 for the real-time priorities 99 to 1, and after them the nice values.
pub fn urgency(thread: &ThreadRecord) -> u32 {
    (schedule::of(thread).rank(thread.nice.get().cast_signed()) - FIRST_RANK).max(0) as u32
}

/// Whether a file's pages are an interface.
#[inline(always)]
pub fn is_interface(inode: &InodeRecord) -> bool {
    inode.fpga.get() != 0
}

/// The interface that a file's pages are, if they are one.
pub fn interface_of<M: Machine>(cpu: &Cpu<M>, pages: &InodeRecord) -> Option<&'static FpgaInterface> {
    let id = InterfaceId::from_link(pages.fpga.get())?;
    Some(&fpga::of(cpu.pool)?.interfaces[id.index()])
}

/// The interface whose registers a page of a VMA is, if it is that.
#[inline(always)]
pub fn registers_at<M: Machine>(cpu: &Cpu<M>, vma: &VmaRecord, page: u64) -> Option<InterfaceId> {
    // First what costs no look at the file: this is asked at each fault.
    // Wrapping, as another island may have written the mapping.
    if vma.offset.get().wrapping_add(page.wrapping_sub(vma.start.get())) != 0 {
        return None;
    }
    InterfaceId::from_link(cpu.object::<InodeRecord>(vma.inode.get())?.fpga.get())
}

/// The frame of registers, with a reference added for the caller.
///
/// # Errors
/// `ENXIO`: there is no FPGA.
pub fn registers_frame<M: Machine>(cpu: &Cpu<M>, id: InterfaceId) -> Result<Frame, Errno> {
    let frame = frames::registers_frame(fpga::of(cpu.pool).ok_or(Errno::ENXIO)?, id);
    share_frame(cpu, frame);
    Ok(frame)
}

/// Whether registers may be mapped writably now. The space's lock is held until they are.
#[inline]
pub fn may_write<M: Machine>(cpu: &Cpu<M>, id: InterfaceId) -> bool {
    fpga::of(cpu.pool).is_some_and(|fpga| clients::may_write(fpga, id))
}

/// From now on, until [`forget_grant`], [`granted`] knows that a space may have these registers mapped writably at a page, whose entry this is. The
/// space's lock is held.
pub fn grant<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, page: u64, id: InterfaceId, entry: &'static AtomicU64) {
    residency::grant(cpu, space, page, id.link(), entry);
}

/// A VMA of a file comes, changes or goes: if that is an interface, no grant of it to the VMA's space holds any more. The space's lock is held.
#[inline]
pub fn forget_grant(space: &SpaceRecord, pages: &InodeRecord) {
    if is_interface(pages) {
        residency::forget_granted_to(space, pages.fpga.get());
    }
}

/// The interface whose registers a space may have mapped writably at a page when they are connected, as is known, and the page's entry. The space's
/// lock is held.
#[inline(always)]
pub fn granted<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, page: u64) -> Option<(InterfaceId, &'static AtomicU64)> {
    let (who, entry) = residency::granted(cpu, space, page)?;
    Some((InterfaceId::from_link(who)?, entry))
}

/// The interface whose registers a frame has, if it has any.
pub fn interface_of_frame<M: Machine>(cpu: &Cpu<M>, frame: Frame) -> Option<InterfaceId> {
    frames::of_registers(fpga::of(cpu.pool)?, frame)
}

/// A store to registers that are not connected is a request. This core looks itself what becomes of it ([`look`](super::look::look)): it has nothing else to do, and
/// would sleep until an interrupt. `false`: it has something else to do, or the client is to be told of an error first.
pub fn ask_and_look<M: Machine>(cpu: &Cpu<M>, fpga: &Fpga, thread: &ThreadRecord, id: InterfaceId) -> bool {
    let interface = &fpga.interfaces[id.index()];
    if cpu.is_due(Causes::OTHERS) || interface.refused.load(Ordering::Relaxed) != 0 {
        return false;
    }
    clients::ask_and_look(fpga, interface, urgency(thread));
    true
}

/// Whether a request for these registers has been refused, of which no thread has been told: this one is to be.
pub fn take_refusal<M: Machine>(cpu: &Cpu<M>, fpga: &Fpga, interface: &'static FpgaInterface) -> bool {
    let is_refused = clients::take_refusal(fpga, interface, || {
        wait::wake(cpu, &interface.waiters);
    });
    if is_refused {
        cpu.tell_service();
    }
    is_refused
}

/// The frame of a page of a data section, with a reference added for the caller. Page 0 of the file is the registers.
///
/// # Errors
/// `ENXIO`: it is not that long.
pub fn data_frame<M: Machine>(cpu: &Cpu<M>, pages: &InodeRecord, index: u64) -> Result<Frame, Errno> {
    let fpga = fpga::of(cpu.pool).ok_or(Errno::ENXIO)?;
    let id = InterfaceId::from_link(pages.fpga.get()).ok_or(Errno::ENXIO)?;
    let frame = index.checked_sub(1).and_then(|page| frames::data_frame(fpga, id, page)).ok_or(Errno::ENXIO)?;
    share_frame(cpu, frame);
    Ok(frame)
}
