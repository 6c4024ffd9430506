//! Address spaces.
//!
//! A space has VMAs and one page table for each island that uses it, all in the pool; any island edits any of them
//! under the space's lock. The table of the space's *home* island is the authority: every resident page has a leaf
//! there, which holds the one reference to its frame. The other islands' tables are caches of it, filled when they
//! fault (remote walk), and kept from becoming stale by the editors (remote edits and shoot-down).

pub mod advice;
pub mod calls;
mod fault;
mod limits;
pub mod mremap;
mod pieces;
pub mod place;
mod space;
mod user;
mod view;
mod vma;

use core::{ops::Range, sync::atomic::Ordering};

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{Cell64, Frame, Isa, IslandId, PoolAddr, ProcessRecord, SpaceRecord};
use motet_paging::{Attr, Format, PhysMap, Table};
use motet_protocol::{
    Context, add,
    lock::lock,
    shootdown::{self, Stale},
};

pub use calls::{LOWEST, Mappable, forget_file_pages, is_sealed, protect, protect_file_pages, unmap_locked as unmap};
pub use fault::{lacks_page, serve as serve_fault, serve_store_to_registers};
pub use limits::may_write_file;
pub use pieces::{give_up, sync};
pub use space::{
    activate, create, create_for, deactivate, epoch, fork, keep_active, leave_if_unused, may_stay_active, recover,
    release, share,
};
pub use user::instruction_at;
pub use view::{begin_local_call, end_local_call, extend_view, go_on_locally, pin_at, run_locally};
pub use vma::{View, VmaSpec, find_free, for_each as for_each_vma, insert, is_mapped, within as vmas_within};

use crate::cpu::{Cpu, Translation};

/// The address space of a process that has not exited.
#[inline(always)]
pub fn space_of<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> &'static SpaceRecord {
    cpu.pool.at(PoolAddr(process.space.load(Ordering::Relaxed)))
}

/// Where the byte at `address` lies in the pool, for an access by the kernel on behalf of a thread of the space. Faults
/// the page in.
///
/// The answer is good until this core serves a shoot-down: use it at once (see [`Cpu::pinned`]). Shoot-downs ask only cores
/// that have the space active, so this one has, or nobody else uses the space yet; otherwise see [`with_resolved`].
///
/// # Errors
/// `EFAULT` when the space does not allow the access, or a mapped file has no such page; `ENOMEM`.
#[inline]
pub fn resolve<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    access: Access,
) -> Result<PoolAddr, Errno> {
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
    let table = table(cpu, space, cpu.island())?;
    match access {
        Access::Read | Access::Execute => table.readable(address),
        Access::Write => table.writable(address),
    }
}

fn serve_for_kernel<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    access: Access,
) -> Result<(), Errno> {
    let served = fault::serve(cpu, space, address, access);
    // The kernel does not wait for an FPGA's interface.
    served.map_err(|errno| if fault::lacks_page(errno) || errno == Errno::EAGAIN { Errno::EFAULT } else { errno })
}

/// Calls `with` with where the byte at `address` lies in the pool, for a space that this core need not have active. Nobody
/// unmaps the page meanwhile: the space's lock is held.
///
/// # Errors
/// As [`resolve`].
pub fn with_resolved<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    access: Access,
    with: impl FnOnce(PoolAddr),
) -> Result<(), Errno> {
    loop {
        let guard = lock(cpu, &space.lock);
        if let Some(addr) = find_resolved(cpu, space, address, access) {
            with(addr);
            return Ok(());
        }
        drop(guard);
        serve_for_kernel(cpu, space, address, access)?;
    }
}

/// Reads an aligned word of a thread that runs on this core.
///
/// # Errors
/// As [`resolve`]; `EFAULT` also when it is not aligned.
#[inline(always)]
pub fn read_word<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64) -> Result<u64, Errno> {
    Ok(word(cpu, space, address, Access::Read, &cpu.translations.read)?.get())
}

/// Writes an aligned word of a thread that runs on this core.
///
/// # Errors
/// As for [`read_word`].
#[inline(always)]
pub fn write_word<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    address: u64,
    value: u64,
) -> Result<(), Errno> {
    word(cpu, space, address, Access::Write, &cpu.translations.write)?.set(value);
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
) -> Result<&'static Cell64, Errno> {
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
) -> Result<&'static Cell64, Errno> {
    if address % 8 != 0 {
        return Err(Errno::EFAULT);
    }
    let addr = resolve(cpu, space, address, access)?;
    known.put(address, addr);
    Ok(cpu.pool.at(addr))
}

/// Whether the page at `address`, which this island has mapped, belongs to a shared mapping.
pub fn is_shared<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> bool {
    let found = table(cpu, space, cpu.island()).and_then(|table| table.lookup(address));
    found.is_some_and(|leaf| leaf.attr.contains(Attr::SHARED))
}

/// An island's page table of a space, if it has one.
#[inline(always)]
fn table<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, island: IslandId) -> Option<Table<'static>> {
    let root = Frame(space.roots[island.index()].load(Ordering::Relaxed));
    if root.is_none() {
        return None;
    }
    if island == cpu.island() {
        return Some(Table { pool: cpu.pool, root, format: cpu.format, map: cpu.map });
    }
    let record = &cpu.pool.header().islands[island.index()];
    let isa = Isa::from_raw(record.paging.get())?;
    let map = PhysMap::new(&record.ranges, cpu.pool.len());
    Some(Table { pool: cpu.pool, root, format: Format::from_isa(isa)?, map })
}

/// The table that is the authority.
fn home_table<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> Table<'static> {
    let home = IslandId::from_raw(space.home.get()).and_then(|home| table(cpu, space, home));
    home.expect("an address space has its home table")
}

/// The other islands' tables, which are caches of the home's: their leaves hold no references.
fn caches<'a, M: Machine>(
    cpu: &'a Cpu<M>,
    space: &'a SpaceRecord,
    home: &Table<'_>,
) -> impl Iterator<Item = (IslandId, Table<'static>)> + use<'a, M> {
    let home = home.root;
    tables(cpu, space).filter(move |(_, table)| table.root != home)
}

/// Edits the tables of a space whose lock is held, or which nobody else uses; see [`shootdown::edit`].
fn edit<M: Machine, R>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    home: &Table<'_>,
    edits: impl FnOnce(&mut Stale<'_>) -> R,
) -> R {
    shootdown::edit(cpu, space, home, || cpu.flush_user(), edits)
}

/// Takes back what caches of the home's table say of a range.
fn forget_elsewhere<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    home: &Table<'_>,
    range: Range<u64>,
    stale: &mut Stale<'_>,
) {
    for (_, table) in caches(cpu, space, home) {
        add(&cpu.counters().remote_pte_edits, table.forget(range.clone(), stale, |_| true));
    }
}

/// The tables of all islands that use the space, with their islands.
fn tables<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> impl Iterator<Item = (IslandId, Table<'static>)> {
    let islands = cpu.pool.header().island_count.get();
    (0..islands).filter_map(IslandId::from_raw).filter_map(move |island| Some((island, table(cpu, space, island)?)))
}
