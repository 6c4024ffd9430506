//! Segments of shared memory in address spaces (shmat(2)).
//!
//! A segment's pages are a file's without a name, so it is mapped, inherited and unmapped as such a file is. Each of its mappings is an attachment.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{InodeRecord, PAGE_SIZE, VmaRecord, sync::Ordering};
use motet_protocol::{
    Context,
    lock::{Guard, lock},
};

use super::{
    View, VmaSpec, limits, pieces,
    policy::Policy,
    range::{fixed_range, unmap_locked},
    space_of, view, vma,
};
use crate::call::{Call, Stop};

/// What is to be attached, and where.
pub struct Attachment {
    /// The address; `None`: anywhere.
    pub address: Option<u64>,
    /// Bytes, in whole pages.
    pub len: u64,
    /// `VMA_*`.
    pub flags: u32,
    /// It replaces what is there.
    pub replaces: bool,
}

/// Attaches what `hold` finds, which is not removed as long as that is held. Where it is attached.
///
/// # Errors
/// `EINVAL`: something else is there; `EPERM`: nothing may be there; `ENOMEM`; what `hold` fails with; [`Stop::Again`].
pub fn attach<M: Machine>(
    call: &Call<M>,
    wanted: &Attachment,
    hold: impl FnOnce() -> Result<(Guard<'static>, &'static InodeRecord), Errno>,
) -> Result<u64, Stop> {
    let space = space_of(call.cpu, call.process);
    let fixed = wanted.address.map(|address| fixed_range(address, wanted.len)).transpose()?;
    if let Some((start, end)) = fixed.filter(|_| wanted.replaces) {
        pieces::make_replaceable(call, space, start, end)?;
    }
    let _guard = lock(call.cpu, &space.lock);
    vma::has_room(space)?;
    limits::check(call, space, wanted.len, wanted.flags)?;
    let start = match fixed {
        Some((start, end)) if wanted.replaces => {
            view::check_no_store(call.cpu, space, start, end)?;
            unmap_locked(call.cpu, space, start, end)?;
            start
        }
        Some((start, end)) => {
            let is_used = vma::first_ending_after(call.cpu, space, start).is_some_and(|vma| vma.start.get() < end);
            if is_used {
                return Err(Errno::EINVAL.into());
            }
            start
        }
        None => vma::find_free(call.cpu, space, wanted.len, space.mmap_top.get()).ok_or(Errno::ENOMEM)?,
    };
    let (_held, inode) = hold()?;
    let spec = VmaSpec {
        start,
        end: start + wanted.len,
        flags: wanted.flags,
        inode: Some(inode),
        offset: 0,
        file_len: wanted.len,
        policy: Policy::DEFAULT,
        view: View::default(),
    };
    vma::insert(call.cpu, space, &spec)?;
    Ok(start)
}

/// Detaches what is attached at an address, all pieces that are left of it.
///
/// # Errors
/// `EINVAL`: nothing is; `ENOMEM`; [`Stop::Again`].
pub fn detach<M: Machine>(call: &Call<M>, address: u64) -> Result<(), Stop> {
    let space = space_of(call.cpu, call.process);
    let [inode, end, ..] = &call.thread.scratch;
    let segment_of = |vma: &VmaRecord| {
        let is_its = vma.start.get().checked_sub(address) == Some(vma.offset.get());
        let inode = call.cpu.object::<InodeRecord>(vma.inode.get()).filter(|_| is_its)?;
        (inode.segment.load(Ordering::Relaxed) != 0).then_some(inode)
    };
    let mut at = match pieces::done(call) {
        Some(at) => at,
        None => {
            let _guard = lock(call.cpu, &space.lock);
            let mut vmas = vma::within(call.cpu, space, address..u64::MAX);
            let found = vmas.find_map(&segment_of).ok_or(Errno::EINVAL)?;
            inode.set(call.cpu.raw(found));
            let len = found.size.load(Ordering::Relaxed).next_multiple_of(PAGE_SIZE);
            end.set(address.saturating_add(len));
            address
        }
    };
    loop {
        let guard = lock(call.cpu, &space.lock);
        let mut pieces_left = vma::within(call.cpu, space, at..end.get());
        let is_next = |vma: &&'static VmaRecord| vma.inode.get() == inode.get() && segment_of(vma).is_some();
        let Some(next) = pieces_left.find(is_next) else { return Ok(()) };
        drop(pieces_left);
        at = pieces::unmap_first(call.cpu, space, next.start.get().max(at), next.end.get())?;
        drop(guard);
        pieces::pause_at(call, at)?;
    }
}
