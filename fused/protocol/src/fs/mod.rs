//! The ramfs: one tree of inodes in the pool, which every kernel walks and edits directly. The host builds the root
//! with the same functions before boot, and reads results back with them after the run.
//!
//! Life of an inode: `refs` counts directory entries, open files, mappings, working directories and (for directories)
//! children, which refer to their parent. The last [`put`] frees the inode and its pages, so a file that was unlinked
//! while open keeps working. `links` is what `st_nlink` shows; a directory with no links has been removed and takes
//! no new entries.
//!
//! Locks: one inode's lock guards its contents or its directory. Only [`rename()`] and [`rmdir`] hold several, and they
//! hold the machine's rename lock around them.

mod contents;
mod directory;
mod index;
mod pages;
mod rename;
mod watched;

use core::ops::Deref;
use motet_layout::sync::Ordering;

use motet_abi::{Errno, inotify::IN_ISDIR};
use motet_layout::{EntryRecord, InodeRecord, PipeRecord};

pub use contents::{
    Piece, for_each_run, give_back, punch, punch_some, read_bytes, reserve, transfer, truncate, truncate_some,
    write_bytes,
};
pub use directory::{
    create, create_prepared, directory_hint, entry_name, entry_of, last_name, link, lookup, mkdir, name_once, parent,
    readdir, readdir_after, rmdir, symlink, unlink,
};
pub use pages::{FILE_SIZE_MAX, absent_pages, has_page, page, page_or_allocate, word, word_or_allocate};
pub use rename::{Replace, rename};
pub use watched::happened;

use crate::{Context, fpga, notify, pipe, ranges, service, slab, wait};

/// The bits of a mode that hold the file's type.
pub const TYPE_MASK: u32 = 0o170_000;
/// Type: named pipe.
pub const TYPE_PIPE: u32 = 0o010_000;
/// Type: character device.
pub const TYPE_CHARACTER: u32 = 0o020_000;
/// Type: directory.
pub const TYPE_DIRECTORY: u32 = 0o040_000;
/// Type: block device.
pub const TYPE_BLOCK: u32 = 0o060_000;
/// Type: regular file.
pub const TYPE_REGULAR: u32 = 0o100_000;
/// Type: symbolic link.
pub const TYPE_SYMLINK: u32 = 0o120_000;
/// Type: socket.
pub const TYPE_SOCKET: u32 = 0o140_000;

/// Most links to one file.
const LINKS_MAX: u32 = 65_000;

/// What a new inode starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes {
    /// Linux `st_mode`: type (a regular file when it has none) and permissions.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Linux device number, for device nodes.
    pub rdev: u32,
    /// Nanoseconds since 1970.
    pub now_ns: u64,
}

/// A counted reference to an inode: dropped with the value.
pub struct Held<'c, C: Context> {
    context: &'c C,
    inode: &'static InodeRecord,
}

impl<'c, C: Context> Held<'c, C> {
    /// A new reference to an inode that the caller knows to be alive.
    pub fn new(context: &'c C, inode: &'static InodeRecord) -> Self {
        get(inode);
        Self { context, inode }
    }

    /// Takes over a reference that the caller holds.
    pub fn adopt(context: &'c C, inode: &'static InodeRecord) -> Self {
        Self { context, inode }
    }

    /// The inode, for as long as this value (or another reference) lives.
    pub fn inode(&self) -> &'static InodeRecord {
        self.inode
    }

    /// Gives the reference to the caller, who must [`put`] it.
    pub fn release(self) -> &'static InodeRecord {
        let inode = self.inode;
        core::mem::forget(self);
        inode
    }
}

impl<C: Context> Clone for Held<'_, C> {
    fn clone(&self) -> Self {
        Self::new(self.context, self.inode)
    }
}

impl<C: Context> Deref for Held<'_, C> {
    type Target = InodeRecord;

    fn deref(&self) -> &InodeRecord {
        self.inode
    }
}

impl<C: Context> Drop for Held<'_, C> {
    fn drop(&mut self) {
        put(self.context, self.inode);
    }
}

/// Covers a directory by the root of another file system (`MOUNT_*`), which covers no other. Called by the host, before boot.
pub fn mount(context: &impl Context, dir: &'static InodeRecord, root: u32) {
    dir.mount.set(root);
    context.pool().header().mounts[root as usize].set(context.raw(dir));
}

/// Makes the root directory and enters it in the header. Called once by the host.
///
/// # Errors
/// `ENOSPC`.
pub fn make_root(context: &impl Context, now_ns: u64) -> Result<&'static InodeRecord, Errno> {
    let attributes = Attributes { mode: TYPE_DIRECTORY | 0o755, now_ns, ..Attributes::default() };
    let root = new_inode(context, attributes)?;
    root.links.store(2, Ordering::Relaxed);
    root.parent.store(context.raw(root), Ordering::Relaxed);
    context.pool().header().root_inode.set(context.raw(root));
    Ok(root)
}

/// A new inode in no directory, with one reference: the caller's. It is freed by [`put`] unless it is linked.
///
/// # Errors
/// `ENOSPC`.
pub fn new_inode(context: &impl Context, attributes: Attributes) -> Result<&'static InodeRecord, Errno> {
    let inode = slab::alloc::<InodeRecord>(context).ok_or(Errno::ENOSPC)?;
    let number = context.pool().header().last_inode.fetch_add(1, Ordering::Relaxed) + 1;
    let typed = if attributes.mode & TYPE_MASK == 0 { TYPE_REGULAR } else { 0 };
    inode.refs.store(1, Ordering::Relaxed);
    inode.mode.set(attributes.mode | typed);
    inode.number.set(u64::from(number));
    inode.uid.set(attributes.uid);
    inode.gid.set(attributes.gid);
    inode.rdev.set(attributes.rdev);
    for time in [&inode.accessed_ns, &inode.modified_ns, &inode.changed_ns, &inode.created_ns] {
        time.set(attributes.now_ns);
    }
    let secret = context.pool().header().seed[0].get() ^ u64::from(number);
    inode.hash_start.set((secret.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32);
    // Positions 0 and 1 are "." and "..".
    inode.next_entry.set(2);
    Ok(inode)
}

/// The type bits of an inode's mode.
#[inline(always)]
pub fn file_type(inode: &InodeRecord) -> u32 {
    inode.mode.get() & TYPE_MASK
}

/// Whether an inode is a directory.
#[inline(always)]
pub fn is_directory(inode: &InodeRecord) -> bool {
    file_type(inode) == TYPE_DIRECTORY
}

/// The bit that events have of a directory (`IN_ISDIR`).
fn directory_bit(inode: &InodeRecord) -> u32 {
    if is_directory(inode) { IN_ISDIR } else { 0 }
}

/// Adds a reference to an inode the caller knows to be alive.
#[inline]
pub fn get(inode: &'static InodeRecord) {
    inode.refs.fetch_add(1, Ordering::Relaxed);
}

/// Adds a reference to an inode that may have been freed (inodes are type-stable memory: it may also be another one by
/// now). `false`: it was free.
pub fn try_get(inode: &'static InodeRecord) -> bool {
    let more = |refs| if refs == 0 { None } else { Some(refs + 1) };
    inode.refs.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).is_ok()
}

/// Drops a reference; the last one frees the inode, its contents, and its reference to its parent.
///
/// # Panics
/// When the inode has no reference.
#[inline]
pub fn put(context: &impl Context, inode: &'static InodeRecord) {
    let before = inode.refs.fetch_sub(1, Ordering::AcqRel);
    assert!(before != 0, "inode {} put twice: shared structures are corrupt", inode.number.get());
    if before == 1 {
        free_chain(context, inode);
    }
}

/// Frees an inode, and the chain of removed parents that only it kept.
#[cold]
fn free_chain(context: &impl Context, inode: &'static InodeRecord) {
    let mut next = Some(inode);
    while let Some(inode) = next {
        if notify::is_watched(inode) {
            notify::gone(context, inode);
        }
        let parent = if is_directory(inode) {
            context.object::<InodeRecord>(inode.parent.load(Ordering::Relaxed))
        } else {
            None
        };
        if !is_directory(inode) && inode.page_levels.get() > 0 && context.free_later(inode) {
            return;
        }
        contents::drain(context, inode, u64::MAX);
        if inode.service.get() != 0 {
            leave_service(context, inode);
        }
        if let Some(interface) = fpga::InterfaceId::from_link(inode.fpga.get()) {
            leave_fpga(context, interface);
        }
        if let Some(fifo) = context.object::<PipeRecord>(inode.pipe.load(Ordering::Relaxed)) {
            pipe::put(context, fifo);
        }
        if inode.queue.load(Ordering::Relaxed) != 0 {
            context.end_queue(inode);
        }
        free_record(context, inode);
        next =
            parent.filter(|parent| !core::ptr::eq(*parent, inode) && parent.refs.fetch_sub(1, Ordering::AcqRel) == 1);
    }
}

/// Frees the record of an inode, with the name that is known of it.
fn free_record(context: &impl Context, inode: &'static InodeRecord) {
    if let Some(entry) = context.object::<EntryRecord>(inode.last_entry.swap(0, Ordering::AcqRel)) {
        slab::free(context, entry);
    }
    slab::free(context, inode);
}

/// Nobody has an open file of the service core any more: what its owner had there goes.
#[cold]
fn leave_service(context: &impl Context, inode: &InodeRecord) {
    if let Some(core) = service::of(context.pool())
        && service::clients::leave(core, inode.number.get() as u32)
    {
        context.tell_service();
    }
}

/// A client of the FPGA has gone.
#[cold]
fn leave_fpga(context: &impl Context, interface: fpga::InterfaceId) {
    if let Some(fpga) = fpga::of(context.pool()) {
        fpga::clients::leave(fpga, interface);
        // Whoever waits at a store to what is mapped no more.
        wait::wake(context, &fpga.interfaces[interface.index()].waiters);
        context.tell_service();
    }
}

/// Goes on with freeing an inode that [`Context::free_later`] was told of: as much as `work` instructions (roughly) suffice for.
/// `true`: it is gone.
pub fn free_some(context: &impl Context, inode: &'static InodeRecord, work: u64) -> bool {
    let is_drained = contents::drain(context, inode, work);
    if is_drained {
        free_record(context, inode);
    }
    is_drained
}

/// Repairs a file or directory whose lock a dead core held and this one has now. A page or a file that was just made, or removed, may be lost.
pub(crate) fn recover(context: &impl Context, inode: &'static InodeRecord) {
    pages::recover(context, inode);
    if is_directory(inode) {
        directory::recover(context, inode);
    }
    ranges::recover(context, inode);
}
