//! Open file descriptions: what descriptors refer to.

use core::ops::Deref;
use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::*,
    inotify::{IN_CLOSE_NOWRITE, IN_CLOSE_WRITE},
};
use motet_hal::Machine;
use motet_layout::{FileRecord, InodeRecord};
use motet_protocol::{Context, fs, hand, notify, slab};

use super::busy;
use crate::{
    cpu::Cpu,
    description::kind::{Kind, as_kind, check_readable, check_writable},
};

pub use crate::description::{Parts, create};

/// What the end of an open file is to the rooms above, which know all kinds of files: `file::kind` says it.
pub trait Closing {
    /// Does what others may wait for when a file is closed. Another core does this once more if this one dies.
    fn tell_of_end(&self, file: &'static FileRecord);
    /// Frees what the file is ([`Kind::close`]).
    fn close_kind(&self, file: &'static FileRecord);
}

/// A use of an open file during a system call. It holds a reference if someone else could close the file meanwhile.
pub struct OpenFile<'c, M: Machine> {
    cpu: &'c Cpu<M>,
    record: &'static FileRecord,
    counted: bool,
}

impl<'c, M: Machine> OpenFile<'c, M> {
    /// A use that drops one reference, which the caller hands over, when `counted`.
    #[inline(always)]
    pub fn new(cpu: &'c Cpu<M>, record: &'static FileRecord, counted: bool) -> Self {
        Self { cpu, record, counted }
    }

    /// The core that uses it.
    pub fn cpu(&self) -> &'c Cpu<M> {
        self.cpu
    }

    /// The description.
    pub fn record(&self) -> &'static FileRecord {
        self.record
    }

    /// The description with a reference that the caller must [`put`].
    pub fn release(self) -> &'static FileRecord {
        if !self.counted {
            hand::take(self.cpu, self.record);
        }
        let record = self.record;
        core::mem::forget(self);
        record
    }

    /// Its inode, if it has one.
    pub fn inode(&self) -> Option<&'static InodeRecord> {
        self.cpu.object(self.record.inode.get())
    }

    /// What it is, for what is about one kind alone; `None`: it is of another one.
    #[inline]
    pub fn as_kind<K: Kind>(&self) -> Option<K> {
        as_kind(self.cpu, self.record)
    }

    /// The description's present open flags.
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        self.record.flags.load(Ordering::Relaxed)
    }

    /// Fails with `EBADF` when the file is not open for reading.
    #[inline(always)]
    pub fn check_readable(&self) -> Result<(), Errno> {
        check_readable(self.record)
    }

    /// Fails with `EBADF` when the file is not open for writing.
    #[inline(always)]
    pub fn check_writable(&self) -> Result<(), Errno> {
        check_writable(self.record)
    }

    /// Whether operations must not wait.
    #[inline(always)]
    pub fn nonblocking(&self) -> bool {
        self.flags() & O_NONBLOCK != 0
    }
}

impl<M: Machine> Clone for OpenFile<'_, M> {
    fn clone(&self) -> Self {
        hand::take(self.cpu, self.record);
        Self { cpu: self.cpu, record: self.record, counted: true }
    }
}

impl<M: Machine> Deref for OpenFile<'_, M> {
    type Target = FileRecord;

    #[inline(always)]
    fn deref(&self) -> &FileRecord {
        self.record
    }
}

impl<M: Machine> Drop for OpenFile<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.counted {
            put(self.cpu, self.record);
        }
    }
}

/// Drops a reference that is in hand; the last one closes the file.
#[inline]
pub fn put<M: Machine>(cpu: &Cpu<M>, record: &'static FileRecord) {
    if hand::drop_one(cpu, record) {
        close_last(cpu, record);
    }
}

/// Tells those who watch a file that it was closed.
#[inline(always)]
fn tell_of_close<M: Machine>(cpu: &Cpu<M>, record: &FileRecord, inode: &'static InodeRecord) {
    let flags = record.flags.load(Ordering::Relaxed);
    if notify::is_any(cpu) && flags & O_PATH == 0 {
        let event = if flags & O_ACCMODE == O_RDONLY { IN_CLOSE_NOWRITE } else { IN_CLOSE_WRITE };
        fs::happened(cpu, inode, record.last_entry.get(), event);
    }
}

/// Closes a file that has no reference any more.
pub fn close_last<M: Machine>(cpu: &Cpu<M>, record: &'static FileRecord) {
    cpu.tell_of_end(record);
    hand::closed(cpu, record);
    cpu.close_kind(record);
    if let Some(inode) = cpu.object(record.inode.get()) {
        tell_of_close(cpu, record, inode);
        busy::closed(record, inode);
        fs::put(cpu, inode);
    }
    slab::free(cpu, record);
}
