//! Page faults: from user code and from the kernel's own use of user memory.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    Fpga, Frame, InodeRecord, PAGE_SIZE, SpaceRecord, ThreadRecord, VMA_EXECUTE, VMA_READ, VMA_SHARED, VMA_STACK,
    VMA_VIEW, VMA_WRITE, VmaRecord,
    sync::{AtomicU64, Ordering},
};
use motet_paging::{Attr, Leaf, OutOfFrames};
use motet_protocol::{
    Context, count,
    fpga::{self as device, InterfaceId, clients},
    fs,
    lock::lock,
    memory::{alloc_frame_on, frame_refs, is_private_to, release_frame},
    residency::{self, Home, Kind},
};

use super::{
    limits, view,
    vma::{self, attr_of, island_for},
};
use crate::{
    call::{Stop, cost},
    cpu::Cpu,
    due,
    registers::{self, DevicePage, fpga},
};

/// Pages mapped at once around a fault on a file, as far as they are in the page cache (a power of two).
const AROUND_PAGES: u64 = 16;

/// Makes the page at `address` usable for `access` on this island.
///
/// # Errors
/// `EFAULT` when the space does not allow it; `ENXIO` beyond the last page of the file that is mapped there, `ENOSPC` when there is no
/// room for a page of it; `ENOMEM`; [`Stop::Page`]: it comes later, and nothing has changed.
pub fn serve<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, address: u64, access: Access) -> Result<(), Stop> {
    let _guard = lock(cpu, &space.lock);
    count(&cpu.counters().page_faults);
    let vma = vma::find(cpu, space, address)
        .or_else(|| find_or_grow(cpu, space, address))
        .filter(|vma| vma.flags.get() & needed(access) != 0)
        .ok_or(Errno::EFAULT)?;
    let no_memory = |_: OutOfFrames| Errno::ENOMEM;
    residency::ensure_table(cpu, space).map_err(no_memory)?;
    let page = address & !(PAGE_SIZE - 1);
    let home = Home::of(cpu, space);
    if vma.flags.get() & VMA_VIEW != 0 {
        return show(cpu, space, &home, vma, page);
    }
    if let Some(interface) = fpga::registers_at(cpu, vma, page) {
        return Ok(give_registers(cpu, space, &home, (vma, page), access, interface)?);
    }
    let executes = vma.flags.get() & VMA_EXECUTE != 0;
    let leaf = match home.leaf(page) {
        None => {
            let found = first_use(cpu, space, &home, vma, page, access)?;
            residency::insert(cpu, space, &home, page, found, executes).map_err(no_memory)?;
            match cpu.object::<InodeRecord>(vma.inode.get()) {
                Some(_) if access != Access::Write && !is_placed(vma) => map_around(cpu, space, &home, vma, page),
                Some(inode) if access == Access::Write && vma.flags.get() & VMA_SHARED != 0 => stored_to(cpu, inode),
                _ => {}
            }
            return Ok(());
        }
        Some(leaf) if access == Access::Write && !leaf.attr.contains(Attr::WRITE) => {
            return Ok(write_to_shared(cpu, space, &home, vma, page, leaf)?);
        }
        Some(leaf) => leaf,
    };
    if cpu.islands.are_uncached() && home.island() != cpu.island() {
        // Others may have filled it.
        cpu.flush_frame(leaf.frame.named());
    }
    // The authority has it: this island's table has not seen it yet, or may not execute it yet.
    let attr = if executes { leaf.attr.union(Attr::EXECUTE) } else { leaf.attr };
    residency::fill(cpu, space, &home, page, Leaf { frame: leaf.frame, attr }, executes).map_err(no_memory)?;
    Ok(())
}

/// As [`vma::find`]; grows the stack downwards when `address` is just below it.
fn find_or_grow<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Option<&'static VmaRecord> {
    let vma = vma::first_ending_after(cpu, space, address)?;
    if vma.start.get() <= address {
        return Some(vma);
    }
    let page = address & !(PAGE_SIZE - 1);
    let below = vma::last_starting_before(cpu, space, vma.start.get());
    let floor = below.map_or(vma::FLOOR, |below| below.end.get() + PAGE_SIZE * 256);
    if vma.flags.get() & VMA_STACK == 0 || page < floor || !limits::may_grow_stack(cpu, space, vma, page) {
        return None;
    }
    vma::resize(cpu, space, vma, page, vma.end.get()).ok()?;
    Some(vma)
}

/// A page of a file is first stored to through a shared mapping: that changes the file. (Later stores make no fault.)
fn stored_to<M: Machine>(cpu: &Cpu<M>, inode: &InodeRecord) {
    // Nobody sees the times of what only mappings share.
    if inode.links.load(Ordering::Relaxed) != 0 {
        let now = cpu.realtime_ns();
        inode.modified_ns.set(now);
        inode.changed_ns.set(now);
    }
}

/// What has come of a store that may be one to registers of the FPGA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToRegisters {
    /// It is possible now.
    Possible,
    /// It is a request, and this core looks what becomes of it.
    Asked(InterfaceId),
    /// It is another fault, or has to be looked at for longer.
    Unknown,
}

/// As [`serve`] for a store to registers of the FPGA which this core has mapped, if they are connected or can be connected at once. This is all that
/// an allocation without reconfiguration needs, so it has to be short. `asks`: the thread, if the store is to be a request otherwise.
#[inline]
pub fn serve_store_to_registers<M: Machine>(
    cpu: &Cpu<M>,
    asks: Option<&ThreadRecord>,
    space: &SpaceRecord,
    address: u64,
) -> ToRegisters {
    match device::of(cpu.pool) {
        Some(device) => store_to_registers::<M, false>(cpu, device, asks, space, address),
        None => ToRegisters::Unknown,
    }
}

/// As [`serve_store_to_registers`], in a machine with that FPGA. `QUICK`: for the way that is served while registers stay in the core, which has all of this code in its own, in one
/// piece.
#[inline(always)]
pub fn store_to_registers<M: Machine, const QUICK: bool>(
    cpu: &Cpu<M>,
    device: &Fpga,
    asks: Option<&ThreadRecord>,
    space: &SpaceRecord,
    address: u64,
) -> ToRegisters {
    let _guard = lock(cpu, &space.lock);
    let page = address & !(PAGE_SIZE - 1);
    let Some((id, entry)) = fpga::granted(cpu, space, page).or_else(|| grant_again(cpu, space, page)) else {
        return ToRegisters::Unknown;
    };
    let mut asked = ToRegisters::Unknown;
    let is_possible = residency::allow_stores(cpu, page, entry, || {
        if clients::may_write(device, id) {
            return true;
        }
        asked = ask(cpu, device, asks, id);
        false
    });
    if is_possible { ToRegisters::Possible } else { asked }
}

/// The store is to be a request of a thread's.
#[inline(never)]
fn ask<M: Machine>(cpu: &Cpu<M>, device: &Fpga, asks: Option<&ThreadRecord>, id: InterfaceId) -> ToRegisters {
    match asks {
        Some(thread) if fpga::ask_and_look(cpu, device, thread, id) => ToRegisters::Asked(id),
        Some(_) | None => ToRegisters::Unknown,
    }
}

/// No grant is known, since VMAs of registers have changed, or pages were unmapped: looks whether they may be mapped writably.
#[inline(never)]
fn grant_again<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, page: u64) -> Option<(InterfaceId, &'static AtomicU64)> {
    let (entry, frame) = residency::entry_of(cpu, space, page)?;
    let has = fpga::interface_of_frame(cpu, frame)?;
    let vma = vma::find(cpu, space, page).filter(|vma| vma.flags.get() & VMA_WRITE != 0)?;
    let id = fpga::registers_at(cpu, vma, page).filter(|id| *id == has)?;
    fpga::grant(cpu, space, page, id, entry);
    Some((id, entry))
}

/// Whether this error of [`serve`] means that a mapped file does not have the page, which is a `SIGBUS`.
pub fn lacks_page(errno: Errno) -> bool {
    matches!(errno, Errno::ENXIO | Errno::ENOSPC)
}

/// Shows a page of a view on this island: what this ISA's store holds there.
fn show<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    home: &Home,
    vma: &VmaRecord,
    page: u64,
) -> Result<(), Stop> {
    let no_memory = |_: OutOfFrames| Errno::ENOMEM;
    residency::ensure_root(cpu, space).ok_or(Errno::ENOMEM)?;
    let at = view::store_address(vma, M::ISA, page).ok_or(Errno::EFAULT)?;
    let store = vma::find(cpu, space, at).ok_or(Errno::EFAULT)?;
    let leaf = match home.leaf(at) {
        Some(leaf) => leaf,
        None => {
            let found = first_use(cpu, space, home, store, at, Access::Read)?;
            let executes = store.flags.get() & VMA_EXECUTE != 0;
            residency::insert(cpu, space, home, at, found, executes).map_err(no_memory)?;
            Leaf { frame: found.0.into(), attr: found.1 }
        }
    };
    let executes = view::executes(vma, M::ISA);
    let allowed = if executes { attr_of(vma) } else { attr_of(vma).without(Attr::EXECUTE) };
    residency::show(cpu, space, page, leaf.frame, allowed).map_err(no_memory)?;
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
    space: &'static SpaceRecord,
    home: &Home,
    vma: &VmaRecord,
    page: u64,
    access: Access,
) -> Result<(Frame, Attr), Stop> {
    let flags = vma.flags.get();
    let within = page - vma.start.get();
    let Some(inode) = cpu.object::<InodeRecord>(vma.inode.get()).filter(|_| within < vma.file_len.get()) else {
        return Ok((zeroed_frame(cpu, home, vma)?, attr_of(vma)));
    };
    let index = (vma.offset.get() + within) / PAGE_SIZE;
    if inode.is_device.get() != 0 {
        match registers::page(cpu, (space, page, access), inode, index)? {
            DevicePage::Frame(frame) => return Ok((frame, Kind::Shared.allowing(attr_of(vma)))),
            DevicePage::Later => return Err(Stop::Page),
            DevicePage::OfFile => {}
        }
    }
    if flags & VMA_SHARED != 0 {
        let frame = fs::page_or_allocate(cpu, inode, index)?;
        return Ok((frame, Kind::Shared.allowing(attr_of(vma))));
    }
    let whole = vma.file_len.get() - within >= PAGE_SIZE;
    if !fs::has_page(inode, index) {
        return Err(Errno::ENXIO.into());
    }
    // The page comes with a reference of our own, so that a concurrent truncation cannot free it.
    let cached = fs::page(cpu, inode, index);
    match cached {
        Some(frame) if whole && access != Access::Write && !is_placed(vma) => {
            Ok((frame, Kind::CopyOnWrite.allowing(attr_of(vma))))
        }
        _ => {
            let copy = private_copy(cpu, home, vma, cached, vma.file_len.get() - within);
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
    home: &Home,
    (vma, page): (&VmaRecord, u64),
    access: Access,
    interface: InterfaceId,
) -> Result<(), Errno> {
    if access == Access::Execute {
        // Registers hold no instructions, whatever the mapping says.
        return Err(Errno::EFAULT);
    }
    let allowed = Kind::Shared.allowing(attr_of(vma).without(Attr::EXECUTE));
    let leaf = home.leaf(page);
    let may_write = access == Access::Write && fpga::may_write(cpu, interface);
    let attr = match &leaf {
        _ if may_write => allowed,
        Some(leaf) => leaf.attr,
        None => allowed.without(Attr::WRITE),
    };
    match leaf {
        Some(leaf) => residency::fill(cpu, space, home, page, Leaf { frame: leaf.frame, attr }, false),
        None => {
            let frame = fpga::registers_frame(cpu, interface)?;
            residency::insert(cpu, space, home, page, (frame, attr), false)
        }
    }
    .map_err(|_: OutOfFrames| Errno::ENOMEM)?;
    if allowed.contains(Attr::WRITE)
        && let Some((entry, _)) = residency::entry_of(cpu, space, page)
    {
        fpga::grant(cpu, space, page, interface, entry);
    }
    // A store waits until it is possible.
    if access == Access::Write && !may_write { Err(Errno::EAGAIN) } else { Ok(()) }
}

/// Whether even pages that are only read are copied, because the file's may lie elsewhere than they are wanted.
fn is_placed(vma: &VmaRecord) -> bool {
    vma.node.get() != 0 && vma.flags.get() & (VMA_WRITE | VMA_SHARED) == VMA_WRITE
}

/// A frame of this space's own, of no certain content.
fn own_frame<M: Machine>(cpu: &Cpu<M>, home: &Home, vma: &VmaRecord) -> Result<Frame, Errno> {
    let frame = alloc_frame_on(cpu, island_for(cpu, vma)).ok_or(Errno::ENOMEM)?;
    let home = home.island();
    let is_old_there =
        cpu.islands.are_uncached() && home != cpu.island() && is_private_to(cpu.pool, frame, home.index());
    if !is_old_there {
        return Ok(frame);
    }
    // The home would use it without a fault at which it could drop what its caches have of the frame's last use.
    release_frame(cpu, frame);
    alloc_frame_on(cpu, cpu.islands.common_share()).ok_or(Errno::ENOMEM)
}

fn zeroed_frame<M: Machine>(cpu: &Cpu<M>, home: &Home, vma: &VmaRecord) -> Result<Frame, Errno> {
    let frame = own_frame(cpu, home, vma)?;
    cpu.zero_frame(frame);
    due::spend_locked(cpu, cost::bytes(PAGE_SIZE));
    Ok(frame)
}

/// A frame of this space's own with the first `len` bytes of `cached` and zeroes after them.
fn private_copy<M: Machine>(
    cpu: &Cpu<M>,
    home: &Home,
    vma: &VmaRecord,
    cached: Option<Frame>,
    len: u64,
) -> Result<Frame, Errno> {
    let Some(cached) = cached else {
        return zeroed_frame(cpu, home, vma);
    };
    let len = len.min(PAGE_SIZE) as usize;
    let frame = own_frame(cpu, home, vma)?;
    let piece = cpu.due.piece_bytes();
    for at in (0..len).step_by(piece) {
        let here = (len - at).min(piece);
        cpu.pool.copy(cached.addr().add(at as u64), frame.addr().add(at as u64), here);
        due::spend_locked(cpu, cost::bytes(here as u64));
    }
    cpu.pool.zero(frame.addr().add(len as u64), PAGE_SIZE as usize - len);
    due::spend_locked(cpu, cost::bytes((PAGE_SIZE as usize - len) as u64));
    Ok(frame)
}

/// A store to a page that the space may write but has mapped without write permission.
fn write_to_shared<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    home: &Home,
    vma: &VmaRecord,
    page: u64,
    leaf: Leaf,
) -> Result<(), Errno> {
    // What is there may still allow more than the mapping does, which others are about to take back.
    let allowed = attr_of(vma).union(leaf.attr);
    let executes = vma.flags.get() & VMA_EXECUTE != 0;
    let no_memory = |_: OutOfFrames| Errno::ENOMEM;
    let kind = match Kind::of(leaf.attr) {
        Kind::Shared => Kind::Shared,
        Kind::Owned => Kind::Owned,
        Kind::CopyOnWrite if frame_refs(cpu.pool, leaf.frame.named()) == 1 => Kind::Owned,
        Kind::CopyOnWrite => {
            let copy = private_copy(cpu, home, vma, Some(leaf.frame.named()), PAGE_SIZE)?;
            return residency::break_copy(cpu, space, home, page, (copy, Kind::Owned.allowing(allowed)), executes)
                .map_err(no_memory);
        }
        // Views, whose pages these are, cannot be written.
        Kind::Borrowed => return Err(Errno::EFAULT),
    };
    // Nothing is taken away: other islands that still have it without write permission fault and look here.
    let widened = Leaf { frame: leaf.frame, attr: kind.allowing(allowed) };
    residency::fill(cpu, space, home, page, widened, executes).map_err(no_memory)
}

/// Maps the neighbours of a page of a file that are in the page cache, read-only, in this island's table and the home's.
fn map_around<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, home: &Home, vma: &VmaRecord, page: u64) {
    let window = AROUND_PAGES * PAGE_SIZE;
    let first = (page & !(window - 1)).max(vma.start.get());
    let whole_end = vma.start.get() + (vma.file_len.get() & !(PAGE_SIZE - 1));
    let last = ((page & !(window - 1)) + window).min(vma.end.get()).min(whole_end);
    let inode = cpu.object::<InodeRecord>(vma.inode.get()).filter(|inode| inode.is_device.get() == 0);
    let Some(inode) = inode else { return };
    let kind = if vma.flags.get() & VMA_SHARED != 0 { Kind::Shared } else { Kind::CopyOnWrite };
    let (attr, executes) = (kind.allowing(attr_of(vma)), vma.flags.get() & VMA_EXECUTE != 0);
    for neighbour in (first..last).step_by(PAGE_SIZE as usize).filter(|&at| at != page) {
        if home.leaf(neighbour).is_some() {
            continue;
        }
        let index = (vma.offset.get() + neighbour - vma.start.get()) / PAGE_SIZE;
        let Some(frame) = fs::page(cpu, inode, index) else { continue };
        if residency::insert(cpu, space, home, neighbour, (frame, attr), executes).is_err() {
            return; // the neighbour will fault by itself
        }
        due::spend_locked(cpu, cost::PAGE);
    }
}
