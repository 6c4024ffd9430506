//! What a fault enters: the page of a file, of memory of the space's own, of registers; or what another table or another process has.

use motet_abi::Errno;
use motet_hal::{Access, Machine};
use motet_layout::{
    Frame, InodeRecord, PAGE_SIZE, SpaceRecord, VMA_EXECUTE, VMA_SHARED, VMA_STACK, VMA_VIEW, VMA_WRITE, VmaRecord,
    sync::Ordering,
};
use motet_paging::{Attr, Leaf, OutOfFrames};
use motet_protocol::{
    Context,
    fpga::InterfaceId,
    fs,
    memory::{alloc_frame_on, frame_refs, is_private_to, release_frame},
    residency::{self, Home, Kind},
};

use super::{
    frames::copy_into,
    limits,
    placement::{self, Asked},
    policy::Policy,
    view,
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

/// Makes the page at `address`, in a range that allows it, usable for `access` on this island. The space's lock is held.
///
/// # Errors
/// As those of a fault ([`super::serve_fault`]), but for `EFAULT`.
pub fn enter<M: Machine>(
    cpu: &Cpu<M>,
    space: &'static SpaceRecord,
    vma: &'static VmaRecord,
    address: u64,
    access: Access,
) -> Result<(), Stop> {
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
    let mut found = home.leaf(page);
    if cpu.islands.adapts()
        && let Some(leaf) = found
    {
        found = placement::serve(cpu, space, &home, &Asked { vma, page, access }, leaf);
        if found.is_none() {
            return Ok(());
        }
    }
    let leaf = match found {
        None => {
            let found = first_use(cpu, space, &home, vma, page, access)?;
            residency::insert(cpu, space, &home, page, found, executes).map_err(no_memory)?;
            match cpu.object::<InodeRecord>(vma.inode.get()) {
                // Around it there may be pages that another kernel has changed.
                Some(_) if access != Access::Write && !is_placed(vma) && space.kept.load(Ordering::Relaxed) == 0 => {
                    map_around(cpu, space, &home, vma, page)
                }
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
pub fn find_or_grow<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Option<&'static VmaRecord> {
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
    Policy(vma.policy.get()).island().is_some() && vma.flags.get() & (VMA_WRITE | VMA_SHARED) == VMA_WRITE
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
    copy_into(cpu, cached, frame, len);
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
