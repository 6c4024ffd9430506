//! Pages that move to memory near another island while their program runs.
//!
//! What moves is a page that the space has alone. First all rights to it are taken away, then it is copied, then its copy takes its place, as at the first store to
//! a page that others have, too. So a core that uses it meanwhile faults, and waits for the space's lock.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{Frame, PAGE_SIZE, SpaceRecord, VMA_EXECUTE, VMA_STORE, VMA_VIEW, VmaRecord, sync::Ordering};
use motet_paging::Leaf;
use motet_protocol::{
    memory::{alloc_frame_on, frame_refs, island_near, release_frame},
    residency::{self, Home},
};

use super::{
    frames::{copy_into, is_alone},
    vma,
};
use crate::cpu::Cpu;

/// Puts the page at an address (page-aligned) into memory near an island (an index), if it is not there. Returns whether it has moved. The space's lock is
/// held.
///
/// # Errors
/// `ENOENT`: the page has not been touched; `EACCES`: others have it, too; `EBUSY`: it has to stay where it is; `EFAULT`: nothing is mapped there;
/// `ENOMEM`: there is no memory near that island, or none for a table.
pub fn relocate<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, page: u64, island: usize) -> Result<bool, Errno> {
    let vma = vma::find(cpu, space, page).ok_or(Errno::EFAULT)?;
    let home = Home::of(cpu, space);
    let leaf = home.leaf(page).ok_or(Errno::ENOENT)?;
    let from = leaf.frame.named();
    if island_near(cpu.pool, from) == island {
        return Ok(false);
    }
    check_movable(cpu, space, vma, leaf)?;
    let to = alloc_near(cpu, island)?;
    let executes = vma.flags.get() & VMA_EXECUTE != 0;
    if !copy_alone(cpu, space, page, from, to) {
        residency::fill(cpu, space, &home, page, leaf, executes).map_err(|_| Errno::ENOMEM)?;
        return Err(Errno::EBUSY);
    }
    residency::break_copy(cpu, space, &home, page, (to, leaf.attr), executes).map_err(|_| Errno::ENOMEM)?;
    Ok(true)
}

/// Takes all rights to a page away and copies it to another frame. `false`: others have got it meanwhile; the frame is released, and the page is without rights. The space's lock is held.
pub fn copy_alone<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, page: u64, from: Frame, to: Frame) -> bool {
    residency::freeze(cpu, space, page);
    if frame_refs(cpu.pool, from) != 1 {
        // Meanwhile a core has lent it to a device, which goes on with this frame.
        release_frame(cpu, to);
        return false;
    }
    copy_into(cpu, from, to, PAGE_SIZE as usize);
    true
}

/// Registers, files and what a fork has shared lie where they do for all who have them. Text is shown at other addresses. On machines whose caches keep private
/// copies, and of kernels without shared memory, more than tables says who has a page.
fn check_movable<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, vma: &VmaRecord, leaf: Leaf) -> Result<(), Errno> {
    let is_text = vma.flags.get() & (VMA_VIEW | VMA_STORE) != 0;
    if is_text || cpu.islands.are_uncached() || space.kept.load(Ordering::Relaxed) != 0 {
        return Err(Errno::EBUSY);
    }
    if is_alone(cpu, leaf) { Ok(()) } else { Err(Errno::EACCES) }
}

/// A frame near an island, and not merely out of its share.
fn alloc_near<M: Machine>(cpu: &Cpu<M>, island: usize) -> Result<Frame, Errno> {
    let frame = alloc_frame_on(cpu, island).ok_or(Errno::ENOMEM)?;
    if island_near(cpu.pool, frame) == island {
        return Ok(frame);
    }
    release_frame(cpu, frame);
    Err(Errno::ENOMEM)
}
