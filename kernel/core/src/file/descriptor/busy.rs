//! Programs that run are not written, and files that are open for writing are not executed (`ETXTBSY`).

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{FileRecord, InodeRecord, PROCESS_ALIVE};
use motet_protocol::{Context, fs, slab};

use crate::{
    cpu::Cpu,
    tree::{self, lock_tree},
};

const EXECUTABLE: u32 = 0o111;

/// Before a file is opened for writing, or cut.
///
/// # Errors
/// `ETXTBSY`: a process executes it.
pub fn check_not_executed<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord) -> Result<(), Errno> {
    if inode.mode.get() & EXECUTABLE == 0 || fs::file_type(inode) != fs::TYPE_REGULAR {
        return Ok(());
    }
    let raw = cpu.raw(inode);
    let mut is_executed = false;
    let _tree = lock_tree(cpu);
    tree::for_each(cpu, |process| {
        is_executed |= process.state.load(Ordering::Relaxed) == PROCESS_ALIVE && process.exe[0].get() == raw;
    });
    if is_executed { Err(Errno::ETXTBSY) } else { Ok(()) }
}

/// Before a file is executed.
///
/// # Errors
/// `ETXTBSY`: it is open for writing.
#[inline]
pub fn check_not_written<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord) -> Result<(), Errno> {
    if inode.writers.load(Ordering::Acquire) != 0 && has_writer(cpu, inode) { Err(Errno::ETXTBSY) } else { Ok(()) }
}

/// Whether a description is there that writes a file: the count may be too high.
#[cold]
fn has_writer<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord) -> bool {
    let raw = cpu.raw(inode);
    slab::all::<FileRecord>(cpu).any(|record| record.is_writer.get() != 0 && record.inode.get() == raw)
}

/// A new description of a file has been made.
pub fn opened(record: &FileRecord, inode: &InodeRecord, flags: u32) {
    if flags & O_ACCMODE != O_RDONLY && flags & O_PATH == 0 && fs::file_type(inode) == fs::TYPE_REGULAR {
        inode.writers.fetch_add(1, Ordering::AcqRel);
        record.is_writer.set(1);
    }
}

/// A description came with its file (`memfd_create`): it does not keep the file from being executed, as on Linux.
pub fn made<M: Machine>(cpu: &Cpu<M>, record: &FileRecord) {
    if let Some(inode) = cpu.object::<InodeRecord>(record.inode.get()) {
        closed(record, inode);
    }
}

/// A description of a file ends.
#[inline(always)]
pub fn closed(record: &FileRecord, inode: &InodeRecord) {
    if record.is_writer.get() != 0 {
        record.is_writer.set(0);
        // Others may have written anything there.
        let _ = inode.writers.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(1));
    }
}
