//! New open file descriptions, which kinds of files make. `file::description` has their use and their end.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{
    FILE_PIPE_BOTH, FILE_PIPE_READ, FILE_PIPE_WRITE, FILE_PROC, FileRecord, InodeRecord, ProcessRecord, ThreadRecord,
};
use motet_protocol::{Context, hand, pipe, slab};

use crate::cpu::Cpu;

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
    let record = slab::alloc::<FileRecord>(cpu).ok_or(Errno::ENFILE)?;
    record.kind.set(parts.kind);
    if is_pipe(record) {
        record.ended.store(pipe::READER | pipe::WRITER, Ordering::Relaxed); // until they are opened
    }
    record.flags.store(parts.flags & !(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC), Ordering::Relaxed);
    record.inode.set(parts.inode.map_or(0, |inode| cpu.raw(inode)));
    record.object.set(parts.object);
    if parts.inode.is_none() && parts.kind != FILE_PROC {
        remember_maker(cpu, record);
    }
    hand::take_first(cpu, record);
    Ok(record)
}

/// What `fstat` says of a file without an inode: whose it is, and since when.
fn remember_maker<M: Machine>(cpu: &Cpu<M>, record: &FileRecord) {
    record.made_ns.set(cpu.realtime_ns());
    // The first process gets its files when no thread runs yet.
    if let Some(thread) = cpu.object::<ThreadRecord>(cpu.own.current_thread.load(Ordering::Relaxed))
        && let Some(process) = cpu.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed))
    {
        record.uid.set(process.credentials.users[3].get());
        record.gid.set(process.credentials.groups[3].get());
    }
}

fn is_pipe(record: &FileRecord) -> bool {
    matches!(record.kind.get(), FILE_PIPE_READ | FILE_PIPE_WRITE | FILE_PIPE_BOTH)
}
