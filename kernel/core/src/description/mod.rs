//! New open file descriptions, which kinds of files make. `file::descriptor::description` has their use and their end.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{FileRecord, InodeRecord, ProcessRecord, ThreadRecord};
use motet_protocol::{Context, hand, slab};

use crate::cpu::Cpu;

pub mod kind;

/// What a new description refers to. The references in it are handed over.
pub struct Parts {
    /// `FILE_*`.
    pub kind: u32,
    /// Open flags: access mode and status.
    pub flags: u32,
    /// Inode, with a reference.
    pub inode: Option<&'static InodeRecord>,
    /// What [`FileRecord::object`] is to be.
    pub object: u64,
}

/// Makes a description with one reference, in hand. On failure the caller keeps what it handed over.
///
/// # Errors
/// `ENFILE` when memory is exhausted.
pub fn create<M: Machine>(cpu: &Cpu<M>, parts: &Parts) -> Result<&'static FileRecord, Errno> {
    create_prepared(cpu, parts, |record| {
        if parts.inode.is_none() {
            remember_maker(cpu, record);
        }
    })
}

/// As [`create`], with what `prepare` writes to it before anybody else can see it.
///
/// # Errors
/// As [`create`].
#[inline]
pub fn create_prepared<M: Machine>(
    cpu: &Cpu<M>,
    parts: &Parts,
    prepare: impl FnOnce(&FileRecord),
) -> Result<&'static FileRecord, Errno> {
    let record = slab::alloc::<FileRecord>(cpu).ok_or(Errno::ENFILE)?;
    record.kind.set(parts.kind);
    record.flags.store(parts.flags & !(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC), Ordering::Relaxed);
    record.inode.set(parts.inode.map_or(0, |inode| cpu.raw(inode)));
    record.object.set(parts.object);
    prepare(record);
    hand::take_first(cpu, record);
    Ok(record)
}

/// What `fstat` says of a file without an inode: whose it is, and since when.
pub fn remember_maker<M: Machine>(cpu: &Cpu<M>, record: &FileRecord) {
    record.made_ns.set(cpu.realtime_ns());
    // The first process gets its files when no thread runs yet.
    if let Some(thread) = cpu.object::<ThreadRecord>(cpu.own.current_thread.load(Ordering::Relaxed))
        && let Some(process) = cpu.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed))
    {
        record.uid.set(process.credentials.users[3].get());
        record.gid.set(process.credentials.groups[3].get());
    }
}
