//! Address spaces.
//!
//! This module decides what a space contains: its VMAs, which page a fault enters where, and who may access it. Page tables, of all
//! islands, are edited by [`residency`] alone.

pub mod advice;
mod attach;
mod bring;
pub mod calls;
mod entry;
mod epoch;
mod fault;
mod frames;
pub mod kept;
mod limits;
pub mod locked;
pub mod mremap;
mod pieces;
pub mod place;
pub mod placement;
mod policy;
mod range;
mod recall;
mod relocate;
mod space;
mod usage;
mod use_of_region;
mod user;
mod view;
mod vma;

use core::sync::atomic::Ordering;

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{Cell64, Frame, PoolAddr, ProcessRecord, SpaceRecord};
use motet_paging::{Format, PhysMap};
use motet_protocol::{
    lock::lock,
    residency::{self, Kind, Mmu},
};

pub use attach::{Attachment, attach, detach};
pub use calls::{Mappable, forget_pages, is_sealed, protect_file_pages};
pub use epoch::epoch;
pub use fault::{ToRegisters, lacks_page, serve as serve_fault, serve_store_to_registers, store_to_registers};
pub use limits::{check_locked, may_write_file};
pub use pieces::{give_up, sync};
pub use policy::Policy;
pub use range::{LOWEST, protect, unmap_locked as unmap};
pub use recall::recall;
pub use space::{
    activate, create, create_for, deactivate, fork, keep_active, leave_before_waiting, leave_if_unused,
    may_stay_active, recover, release, return_slabs, share,
};
pub use usage::{Usage, usage};
pub use user::{has_late_pages, instruction_at};
pub use view::{begin_local_call, end_local_call, extend_view, go_on_locally, pin_at, run_locally};
pub use vma::{View, VmaSpec, area_at, find_free, for_each as for_each_vma, insert, is_mapped, within as vmas_within};

use crate::{
    call::Stop,
    cpu::{Cpu, Translation},
};

/// The address space of a process that has not exited.
#[inline(always)]
pub fn space_of<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> &'static SpaceRecord {
    cpu.pool.at(PoolAddr(process.space.load(Ordering::Relaxed)))
}

/// Translates a user address: returns where the byte at `address` lies in the pool, for an access by the kernel on behalf of a thread of
/// the space. Faults the page in.
///
/// The answer is good until this core serves a shoot-down: use it at once (see [`Cpu::pinned`]). Shoot-downs ask only cores
/// that have the space active, so this one has, or nobody else uses the space yet; otherwise see [`with_resolved`].
///
/// # Errors
/// `EFAULT` when the space does not allow the access, or a mapped file has no such page; `ENOMEM`; [`Stop::Page`]: the page comes later.
#[inline]
pub fn resolve<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    access: Access,
) -> Result<PoolAddr, Stop> {
    loop {
        if let Some(addr) = find_resolved(cpu, space, address, access) {
            return Ok(addr);
        }
        serve_for_kernel(cpu, space, address, access)?;
    }
}

/// Where this island's table says that the byte at `address` is.
#[inline(always)]
fn find_resolved<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64, access: Access) -> Option<PoolAddr> {
    match access {
        Access::Read | Access::Execute => residency::readable(cpu, space, address),
        Access::Write => residency::writable(cpu, space, address),
    }
}

fn serve_for_kernel<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    access: Access,
) -> Result<(), Stop> {
    let served = fault::serve(cpu, space, address, access);
    // The kernel does not wait for an FPGA's interface.
    let is_fault = |errno| fault::lacks_page(errno) || errno == Errno::EAGAIN;
    let fails = |stop| matches!(stop, Stop::Error(errno) if is_fault(errno));
    served.map_err(|stop| if fails(stop) { Errno::EFAULT.into() } else { stop })
}

/// Translates an address of a space that this core need not have active, and calls `with` with the byte's place in the pool. Nobody
/// unmaps the page meanwhile: the space's lock is held.
///
/// # Errors
/// As [`resolve`]; `EFAULT` also where the page comes later: for others, nobody waits.
pub fn with_resolved<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    access: Access,
    with: impl FnOnce(PoolAddr),
) -> Result<(), Errno> {
    loop {
        let guard = lock(cpu, &space.lock);
        if let Some(addr) =
            find_resolved(cpu, space, address, access).and_then(|addr| original(cpu, space, address, addr))
        {
            with(addr);
            return Ok(());
        }
        drop(guard);
        serve_for_kernel(cpu, space, address, access).map_err(Stop::unless_waiting)?;
    }
}

/// What is found at an address, and that of the page itself where this island reads a replica of it: whoever keeps it is to see what is stored there later. `None`: it faults there.
fn original<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64, found: PoolAddr) -> Option<PoolAddr> {
    if space.replicas.get() == 0 { Some(found) } else { residency::original(cpu, space, address) }
}

/// Reads an aligned word of a thread that runs on this core.
///
/// # Errors
/// As [`resolve`]; `EFAULT` also when it is not aligned.
#[inline(always)]
pub fn read_word<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64) -> Result<u64, Stop> {
    Ok(word(cpu, space, address, Access::Read, cpu.mm.readable())?.get())
}

/// Writes an aligned word of a thread that runs on this core.
///
/// # Errors
/// As for [`read_word`].
#[inline(always)]
pub fn write_word<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64, value: u64) -> Result<(), Stop> {
    word(cpu, space, address, Access::Write, cpu.mm.writable())?.set(value);
    Ok(())
}

/// An aligned word of a thread that runs on this core; `known` are the translations for such accesses.
#[inline(always)]
fn word<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    access: Access,
    known: &Translation,
) -> Result<&'static Cell64, Stop> {
    match known.get(address) {
        Some(addr) if address % 8 == 0 => Ok(cpu.pool.at(addr)),
        Some(_) | None => find_word(cpu, space, address, access, known),
    }
}

#[cold]
fn find_word<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    access: Access,
    known: &Translation,
) -> Result<&'static Cell64, Stop> {
    if address % 8 != 0 {
        return Err(Errno::EFAULT.into());
    }
    let addr = resolve(cpu, space, address, access)?;
    known.put(address, addr);
    Ok(cpu.pool.at(addr))
}

/// Whether the page at `address`, which this island has mapped, belongs to a shared mapping.
pub fn is_shared<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> bool {
    residency::find(cpu, space, address).is_some_and(|leaf| match Kind::of(leaf.attr) {
        Kind::Shared => true,
        Kind::Borrowed => !residency::is_replica(cpu.pool, leaf.frame.named()),
        Kind::Owned | Kind::CopyOnWrite => false,
    })
}

impl<M: Machine> Mmu for Cpu<M> {
    #[inline(always)]
    fn own_format(&self) -> Format {
        // The compiler knows it, except on hosted islands: so the kernel has no code for other formats where it edits its own tables.
        Format::from_isa(M::ISA).unwrap_or_else(|| self.mm.format())
    }

    #[inline(always)]
    fn own_map(&self) -> PhysMap<'static> {
        self.mm.map()
    }

    #[inline(always)]
    fn prepare_root(&self, root: Frame) {
        self.machine.prepare_root(root);
    }

    #[inline(always)]
    fn page_table_fence(&self) {
        self.machine.page_table_fence();
    }

    #[inline(always)]
    fn flush_page(&self, page: u64) {
        Cpu::flush_page(self, page);
    }

    #[inline(always)]
    fn flush_user(&self) {
        Cpu::flush_user(self);
    }

    #[inline(always)]
    fn sync_instructions(&self, frame: Frame) {
        self.machine.sync_instructions(frame);
    }
}
