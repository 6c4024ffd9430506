//! Page faults: from user code and from the kernel's own use of user memory.

use core::sync::atomic::Ordering;

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    Frame, InodeRecord, IslandId, PAGE_SIZE, SpaceRecord, USER_END, VMA_EXECUTE, VMA_READ, VMA_SHARED, VMA_VIEW,
    VMA_WRITE, VmaRecord,
};
use motet_paging::{Attr, Leaf, Table};
use motet_protocol::{
    Context, count,
    fpga::InterfaceId,
    fs,
    lock::lock,
    memory::{alloc_frame_on, frame_record, frame_refs, is_private_to, release_frame},
    shootdown,
};

use super::{
    forget_elsewhere, home_table,
    place::island_for,
    space::{alloc_table, ensure_root},
    table, view, vma,
};
use crate::{
    call::BUDGET,
    cpu::Cpu,
    due,
    registers::{fpga, service},
};

/// What synchronising fetches with a frame costs, which copies it onto itself.
const SYNC_COST: u64 = BUDGET / 3;
/// Pages mapped at once around a fault on a file, as far as they are in the page cache (a power of two).
const AROUND_PAGES: u64 = 16;

/// Makes the page at `address` usable for `access` on this island.
///
/// # Errors
/// `EFAULT` when the space does not allow it; `ENXIO` beyond the last page of the file that is mapped there, `ENOSPC` when there is no
/// room for a page of it; `ENOMEM`.
pub fn serve<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64, access: Access) -> Result<(), Errno> {
    let _guard = lock(cpu, &space.lock);
    count(&cpu.counters().page_faults);
    let vma = vma::find(cpu, space, address)
        .or_else(|| vma::find_or_grow(cpu, space, address))
        .filter(|vma| vma.flags.get() & needed(access) != 0)
        .ok_or(Errno::EFAULT)?;
    ensure_root(cpu, space).ok_or(Errno::ENOMEM)?;
    let page = address & !(PAGE_SIZE - 1);
    let home = home_table(cpu, space);
    if vma.flags.get() & VMA_VIEW != 0 {
        return show(cpu, space, &home, vma, page);
    }
    if let Some(interface) = fpga::registers_at(cpu, vma, page) {
        return give_registers(cpu, space, &home, (vma, page), access, interface);
    }
    let leaf = match home.leaf(page) {
        None => {
            let found = first_use(cpu, space, vma, page, access)?;
            install_first(cpu, space, &home, vma, page, found)?;
            if vma.inode.get() != 0 && access != Access::Write && !is_placed(vma) {
                map_around(cpu, space, &home, vma, page);
            }
            return Ok(());
        }
        Some(leaf) if access == Access::Write && !leaf.attr.contains(Attr::WRITE) => {
            return write_to_shared(cpu, space, &home, vma, page, leaf);
        }
        Some(leaf) => leaf,
    };
    if cpu.uncached && home_of(cpu, space) != cpu.island() {
        // Others may have filled it.
        cpu.flush_frame(leaf.frame.named());
    }
    // The authority has it: this island's table has not seen it yet, or may not execute it yet.
    install(cpu, space, &home, vma, page, Leaf { frame: leaf.frame, attr: with_execute(leaf.attr, vma) })
}

/// As [`serve`] for a store, if that is to registers of the FPGA which this core has mapped and which are connected, or can be at once. `false`:
/// it is another fault, or has to be looked at for longer. This is the whole of an allocation without reconfiguration, so it is to be short.
#[inline]
pub fn serve_store_to_registers<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> bool {
    if cpu.pool.header().fpga.get() == 0 {
        return false;
    }
    let _guard = lock(cpu, &space.lock);
    if space.home.get() != u32::from(cpu.island().0) {
        return false; // two tables are to be edited
    }
    let page = address & !(PAGE_SIZE - 1);
    let Some(table) = table(cpu, space, cpu.island()) else { return false };
    if !table.allow_stores(page, |frame| fpga::may_store(cpu, space, page, frame)) {
        return false;
    }
    cpu.machine.page_table_fence();
    cpu.flush_page(page);
    true
}

/// Whether [`serve`] has failed with this because a mapped file does not have the page, which is a `SIGBUS`.
pub fn lacks_page(errno: Errno) -> bool {
    matches!(errno, Errno::ENXIO | Errno::ENOSPC)
}

/// Shows a page of a view on this island: what this ISA's store holds there.
fn show<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    home: &Table<'_>,
    vma: &VmaRecord,
    page: u64,
) -> Result<(), Errno> {
    let at = view::store_address(vma, M::ISA, page).ok_or(Errno::EFAULT)?;
    let store = vma::find(cpu, space, at).ok_or(Errno::EFAULT)?;
    let leaf = match home.leaf(at) {
        Some(leaf) => leaf,
        None => {
            let found = first_use(cpu, space, store, at, Access::Read)?;
            install_first(cpu, space, home, store, at, found)?;
            Leaf { frame: found.0.into(), attr: found.1 }
        }
    };
    let executes = view::executes(vma, M::ISA);
    if executes {
        make_executable_here(cpu, leaf.frame.named());
    }
    let allowed = if executes { attr_of(vma) } else { attr_of(vma).without(Attr::EXECUTE) };
    let own = table(cpu, space, cpu.island()).ok_or(Errno::ENOMEM)?;
    let shown = Leaf { frame: leaf.frame, attr: allowed.union(Attr::BORROWED) };
    enter(cpu, space, (&own, cpu.island()), page, shown)?;
    cpu.machine.page_table_fence();
    cpu.flush_page(page);
    Ok(())
}

fn needed(access: Access) -> u32 {
    match access {
        Access::Read => VMA_READ | VMA_WRITE | VMA_EXECUTE,
        Access::Write => VMA_WRITE,
        Access::Execute => VMA_EXECUTE,
    }
}

/// The frame for a page that nobody has touched in this space, with a reference, and what may be done with it.
fn first_use<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    vma: &VmaRecord,
    page: u64,
    access: Access,
) -> Result<(Frame, Attr), Errno> {
    let flags = vma.flags.get();
    let within = page - vma.start.get();
    let Some(inode) = cpu.object::<InodeRecord>(vma.inode.get()).filter(|_| within < vma.file_len.get()) else {
        return Ok((zeroed_frame(cpu, space, vma)?, attr_of(vma)));
    };
    let index = (vma.offset.get() + within) / PAGE_SIZE;
    if fpga::is_interface(inode) {
        return Ok((fpga::data_frame(cpu, inode, index)?, attr_of(vma).union(Attr::SHARED)));
    }
    if service::has_registers(inode) {
        return Ok((service::frame(cpu, inode, index)?, attr_of(vma).union(Attr::SHARED)));
    }
    if flags & VMA_SHARED != 0 {
        let frame = fs::page_or_allocate(cpu, inode, index)?;
        return Ok((frame, attr_of(vma).union(Attr::SHARED)));
    }
    let whole = vma.file_len.get() - within >= PAGE_SIZE;
    if !fs::has_page(inode, index) {
        return Err(Errno::ENXIO);
    }
    // The page comes with a reference of our own, so that a concurrent truncation cannot free it.
    let cached = fs::page(cpu, inode, index);
    match cached {
        Some(frame) if whole && access != Access::Write && !is_placed(vma) => Ok((frame, copy_on_write(attr_of(vma)))),
        _ => {
            let copy = private_copy(cpu, space, vma, cached, vma.file_len.get() - within);
            if let Some(cached) = cached {
                release_frame(cpu, cached);
            }
            Ok((copy?, attr_of(vma)))
        }
    }
}

/// Maps registers of an FPGA's interface: writably if that is connected and its client stores to them.
fn give_registers<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    home: &Table<'_>,
    (vma, page): (&VmaRecord, u64),
    access: Access,
    interface: InterfaceId,
) -> Result<(), Errno> {
    let allowed = attr_of(vma).union(Attr::SHARED);
    if allowed.contains(Attr::WRITE) {
        fpga::grant(cpu, space, page, interface);
    }
    let leaf = home.leaf(page);
    let may_write = access == Access::Write && fpga::may_write(cpu, interface);
    let attr = match &leaf {
        _ if may_write => allowed,
        Some(leaf) => leaf.attr,
        None => allowed.without(Attr::WRITE),
    };
    match leaf {
        Some(leaf) => install(cpu, space, home, vma, page, Leaf { frame: leaf.frame, attr })?,
        None => {
            let frame = fpga::registers_frame(cpu, interface)?;
            install_first(cpu, space, home, vma, page, (frame, attr))?;
        }
    }
    // A store waits until it is possible.
    if access == Access::Write && !may_write { Err(Errno::EAGAIN) } else { Ok(()) }
}

/// Whether even pages that are only read are copied, because the file's may lie elsewhere than they are wanted.
fn is_placed(vma: &VmaRecord) -> bool {
    vma.node.get() != 0 && vma.flags.get() & (VMA_WRITE | VMA_SHARED) == VMA_WRITE
}

/// A frame of this space's own, of no certain content.
fn own_frame<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &VmaRecord) -> Result<Frame, Errno> {
    let frame = alloc_frame_on(cpu, island_for(cpu, vma)).ok_or(Errno::ENOMEM)?;
    let home = home_of(cpu, space);
    let is_old_there = cpu.uncached && home != cpu.island() && is_private_to(cpu.pool, frame, home.index());
    if !is_old_there {
        return Ok(frame);
    }
    // The home would use it without a fault at which it could drop what its caches have of the frame's last use.
    release_frame(cpu, frame);
    alloc_frame_on(cpu, cpu.common).ok_or(Errno::ENOMEM)
}

fn zeroed_frame<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &VmaRecord) -> Result<Frame, Errno> {
    let frame = own_frame(cpu, space, vma)?;
    cpu.zero_frame(frame);
    Ok(frame)
}

/// A frame of this space's own with the first `len` bytes of `cached` and zeroes after them.
fn private_copy<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    vma: &VmaRecord,
    cached: Option<Frame>,
    len: u64,
) -> Result<Frame, Errno> {
    let Some(cached) = cached else {
        return zeroed_frame(cpu, space, vma);
    };
    let len = len.min(PAGE_SIZE) as usize;
    let frame = own_frame(cpu, space, vma)?;
    cpu.pool.copy(cached.addr(), frame.addr(), len);
    cpu.pool.zero(frame.addr().add(len as u64), PAGE_SIZE as usize - len);
    Ok(frame)
}

/// A store to a page that the space may write but has mapped without write permission.
fn write_to_shared<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    home: &Table<'_>,
    vma: &VmaRecord,
    page: u64,
    leaf: Leaf,
) -> Result<(), Errno> {
    let attr = attr_of(vma).union(leaf.attr).without(Attr::COW);
    let only_user = !leaf.attr.contains(Attr::COW) || frame_refs(cpu.pool, leaf.frame.named()) == 1;
    if only_user {
        // Nothing is taken away: other islands that still have it without write permission fault and look here.
        return install(cpu, space, home, vma, page, Leaf { frame: leaf.frame, attr });
    }
    let copy = private_copy(cpu, space, vma, Some(leaf.frame.named()), PAGE_SIZE)?;
    if vma.flags.get() & VMA_EXECUTE != 0 {
        make_executable_here(cpu, copy);
    }
    shootdown::edit(
        cpu,
        space,
        home,
        || cpu.flush_page(page),
        |stale| {
            home.replace(page, copy, as_synced(cpu, home_of(cpu, space), copy, attr), stale);
            forget_elsewhere(cpu, space, home, page..page + PAGE_SIZE, stale);
            cpu.machine.page_table_fence();
        },
    );
    if home_of(cpu, space) == cpu.island() {
        return Ok(());
    }
    count(&cpu.counters().remote_pte_edits);
    install(cpu, space, home, vma, page, Leaf { frame: copy.into(), attr })
}

/// As [`install`], for a page that was not resident; on failure before the home has it, the frame is released.
fn install_first<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    home: &Table<'_>,
    vma: &VmaRecord,
    page: u64,
    (frame, attr): (Frame, Attr),
) -> Result<(), Errno> {
    let installed = install(cpu, space, home, vma, page, Leaf { frame: frame.into(), attr });
    if installed.is_err() && home.leaf(page).is_none() {
        release_frame(cpu, frame);
    } else {
        space.resident.fetch_add(1, Ordering::Relaxed);
    }
    installed
}

/// Enters a leaf in the home table and in this island's. The home's comes first: should there be no memory for the
/// other, the authority has the page and this island will look there again.
fn install<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    home: &Table<'_>,
    vma: &VmaRecord,
    page: u64,
    leaf: Leaf,
) -> Result<(), Errno> {
    let own = table(cpu, space, cpu.island()).ok_or(Errno::ENOMEM)?;
    if vma.flags.get() & VMA_EXECUTE != 0 {
        make_executable_here(cpu, leaf.frame.named());
    }
    if own.root != home.root {
        count(&cpu.counters().remote_pte_edits);
        enter(cpu, space, (home, home_of(cpu, space)), page, leaf)?;
    }
    let widened = enter(cpu, space, (&own, cpu.island()), page, leaf)?.is_some();
    cpu.machine.page_table_fence();
    if widened {
        // This core may have cached the narrower entry it faulted on, and on AArch64 and RISC-V would fault on it again.
        cpu.flush_page(page);
    }
    Ok(())
}

/// Writes a leaf into an island's table; execution only if that island has synchronised its fetches with the frame.
/// Returns what was there before.
fn enter<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    (table, island): (&Table<'_>, IslandId),
    page: u64,
    leaf: Leaf,
) -> Result<Option<Leaf>, Errno> {
    let attr = as_synced(cpu, island, leaf.frame.named(), leaf.attr);
    table.map(page, leaf.frame, attr, &mut || alloc_table(cpu, space, island)).map_err(|_| Errno::ENOMEM)
}

/// The attributes without execution, if an island has not synchronised its fetches with the frame.
fn as_synced<M: Machine>(cpu: &Cpu<M>, island: IslandId, frame: Frame, attr: Attr) -> Attr {
    let synced = frame_record(cpu.pool, frame).synced.load(Ordering::Acquire) >> island.index() & 1 != 0;
    if synced { attr } else { attr.without(Attr::EXECUTE) }
}

/// The island whose table is the authority.
fn home_of<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> IslandId {
    IslandId::from_raw(space.home.get()).unwrap_or(cpu.island())
}

/// Synchronises this island's instruction fetches with a frame, once.
fn make_executable_here<M: Machine>(cpu: &Cpu<M>, frame: Frame) {
    let record = frame_record(cpu.pool, frame);
    let bit = 1 << cpu.island().index();
    if record.synced.load(Ordering::Acquire) & bit == 0 {
        cpu.machine.sync_instructions(frame);
        count(&cpu.counters().icache_syncs);
        record.synced.fetch_or(bit, Ordering::AcqRel);
        due::spend_locked(cpu, SYNC_COST);
    }
}

/// Makes what was written to `[start, end)` visible to this island's fetches, and to other islands' when they next fetch.
pub fn sync_range<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, start: u64, end: u64) {
    let _guard = lock(cpu, &space.lock);
    let own = 1 << cpu.island().index();
    let pages = start & !(PAGE_SIZE - 1)..end.min(USER_END).next_multiple_of(PAGE_SIZE);
    home_table(cpu, space).visit(pages, |_, leaf| {
        cpu.machine.sync_instructions(leaf.frame.named());
        frame_record(cpu.pool, leaf.frame.named()).synced.store(own, Ordering::Release);
        due::spend_locked(cpu, SYNC_COST);
    });
}

/// Maps the neighbours of a page of a file that are in the page cache, read-only, in this island's table and the home's.
fn map_around<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, home: &Table<'_>, vma: &VmaRecord, page: u64) {
    let window = AROUND_PAGES * PAGE_SIZE;
    let first = (page & !(window - 1)).max(vma.start.get());
    let whole_end = vma.start.get() + (vma.file_len.get() & !(PAGE_SIZE - 1));
    let last = ((page & !(window - 1)) + window).min(vma.end.get()).min(whole_end);
    let Some(inode) = cpu.object::<InodeRecord>(vma.inode.get()) else { return };
    let attr =
        if vma.flags.get() & VMA_SHARED != 0 { attr_of(vma).union(Attr::SHARED) } else { copy_on_write(attr_of(vma)) };
    for neighbour in (first..last).step_by(PAGE_SIZE as usize).filter(|&at| at != page) {
        if home.leaf(neighbour).is_some() {
            continue;
        }
        let index = (vma.offset.get() + neighbour - vma.start.get()) / PAGE_SIZE;
        let Some(frame) = fs::page(cpu, inode, index) else { continue };
        if install_first(cpu, space, home, vma, neighbour, (frame, attr)).is_err() {
            return; // the neighbour will fault by itself
        }
    }
}

/// What the VMA allows, as page attributes.
pub fn attr_of(vma: &VmaRecord) -> Attr {
    let flags = vma.flags.get();
    let mut attr = Attr::NONE;
    for (flag, bit) in [(VMA_READ, Attr::READ), (VMA_WRITE, Attr::WRITE), (VMA_EXECUTE, Attr::EXECUTE)] {
        if flags & flag != 0 {
            attr = attr.union(bit);
        }
    }
    attr.normalised()
}

/// The same without write permission, marked for copying if it had it.
pub fn copy_on_write(attr: Attr) -> Attr {
    // Marked even where the VMA is read-only now: `mprotect` may make it writable.
    attr.without(Attr::WRITE).union(Attr::COW)
}

fn with_execute(attr: Attr, vma: &VmaRecord) -> Attr {
    if vma.flags.get() & VMA_EXECUTE != 0 { attr.union(Attr::EXECUTE) } else { attr }
}
