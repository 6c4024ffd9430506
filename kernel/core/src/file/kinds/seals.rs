//! Seals of files that `memfd_create` makes (fcntl(2)): operations that nobody can do on the file any more.
//!
//! The file system refuses what is sealed (`motet_protocol::fs`); mappings are looked at when they are made, under their
//! space's lock, and when a seal is added. A seal against writing is set before mappings are looked for that could write: one
//! that is made meanwhile meets the seal or is found.

use motet_abi::{
    Errno,
    file::{F_SEAL_EXEC, F_SEAL_FUTURE_WRITE, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE},
    process::{MFD_ALLOW_SEALING, MFD_NOEXEC_SEAL},
};
use motet_hal::Machine;
use motet_layout::{InodeRecord, SpaceRecord, handshake::then_look, sync::Ordering};
use motet_protocol::{Context, fs, lock::lock};

use crate::{
    call::Call,
    cpu::Cpu,
    file::descriptor::{description::OpenFile, table},
    mm, tree,
};

/// Longest name of a memfd, in bytes.
pub const NAME_MAX: usize = 249;
const ALL: u32 = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_EXEC;

/// Gives a new memfd the seals that it begins with.
pub fn prepare(inode: &InodeRecord, flags: u32) {
    let seals = match flags {
        _ if flags & MFD_NOEXEC_SEAL != 0 => F_SEAL_EXEC,
        _ if flags & MFD_ALLOW_SEALING != 0 => 0,
        _ => F_SEAL_SEAL,
    };
    inode.seals.store(seals ^ F_SEAL_SEAL, Ordering::Relaxed);
}

/// The seals of a file (`F_GET_SEALS`).
///
/// # Errors
/// `EINVAL`: it is not a file in memory.
pub fn of<M: Machine>(file: &OpenFile<M>) -> Result<u32, Errno> {
    Ok(of_inode(file.regular().ok_or(Errno::EINVAL)?))
}

/// Adds seals to a file (`F_ADD_SEALS`).
///
/// # Errors
/// `EPERM`: it is not open for writing, or takes no seals; `EBUSY`: somebody has it mapped and may write; `EINVAL`.
pub fn add<M: Machine>(call: &Call<M>, file: &OpenFile<M>, seals: u32) -> Result<(), Errno> {
    file.check_writable().map_err(|_| Errno::EPERM)?;
    if seals & !ALL != 0 {
        return Err(Errno::EINVAL);
    }
    let inode = file.regular().ok_or(Errno::EINVAL)?;
    // What can be executed stays as long as it is, and what it is.
    let is_program = seals & F_SEAL_EXEC != 0 && inode.mode.get() & 0o111 != 0;
    let seals =
        if is_program { seals | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE } else { seals };
    let before = {
        let _guard = lock(call.cpu, &inode.lock);
        let before = of_inode(inode);
        if before & F_SEAL_SEAL != 0 {
            return Err(Errno::EPERM);
        }
        set(inode, before | seals);
        before
    };
    let is_guests = inode.guests.load(Ordering::SeqCst) != 0;
    if seals & F_SEAL_WRITE & !before != 0 && (is_guests || may_be_written(call.cpu, inode)) {
        let _guard = lock(call.cpu, &inode.lock);
        set(inode, of_inode(inode) & !(seals & !before));
        return Err(Errno::EBUSY);
    }
    Ok(())
}

/// The file behind a descriptor, with a reference, to be memory of a virtual machine from now on: pages of it are written, and it does not get
/// shorter, until the machine gives it back. Or the pages of an accelerator's interface, from its first one on. `range`: offset and bytes.
///
/// # Errors
/// `EBADF`; `EACCES`: it is not open for writing; `EINVAL`: it is not a file in memory, or has not the range; `EPERM`: it is sealed against writing.
pub fn memory_of_guest<M: Machine>(
    call: &Call<M>,
    fd: i32,
    (offset, bytes): (u64, u64),
) -> Result<&'static InodeRecord, Errno> {
    let file = table::get_opened(call, fd)?;
    file.check_readable().and_then(|()| file.check_writable()).map_err(|_| Errno::EACCES)?;
    let end = offset.checked_add(bytes).ok_or(Errno::EINVAL)?;
    let inode = file.memory(offset).ok_or(Errno::EINVAL)?;
    // Count the machine, then look for seals. A call that seals stores the seals, then looks at the count: one of the two sees the other.
    // A call that shortens the file holds the lock.
    inode.guests.fetch_add(1, Ordering::SeqCst);
    let is_there = {
        let _guard = lock(call.cpu, &inode.lock);
        end <= inode.size.load(Ordering::Relaxed)
    };
    if !is_there || mm::is_sealed(inode) {
        inode.guests.fetch_sub(1, Ordering::SeqCst);
        return Err(if is_there { Errno::EPERM } else { Errno::EINVAL });
    }
    fs::get(inode);
    Ok(inode)
}

/// Fails with `EPERM` when a file must not grow to `end`.
///
/// # Errors
/// `EPERM`.
pub fn check_growth(inode: &InodeRecord, end: u64) -> Result<(), Errno> {
    let grows = of_inode(inode) & F_SEAL_GROW != 0 && end > inode.size.load(Ordering::Relaxed);
    if grows { Err(Errno::EPERM) } else { Ok(()) }
}

/// Fails with `EPERM` when a mode would change who may execute a file that is sealed against that.
///
/// # Errors
/// `EPERM`.
pub fn check_mode(inode: &InodeRecord, mode: u32) -> Result<(), Errno> {
    let changes = of_inode(inode) & F_SEAL_EXEC != 0 && (inode.mode.get() ^ mode) & 0o111 != 0;
    if changes { Err(Errno::EPERM) } else { Ok(()) }
}

fn of_inode(inode: &InodeRecord) -> u32 {
    inode.seals.load(Ordering::Relaxed) ^ F_SEAL_SEAL
}

fn set(inode: &InodeRecord, seals: u32) {
    inode.seals.store(seals ^ F_SEAL_SEAL, Ordering::Release);
    then_look(); // who maps the file to write to it looks at them afterwards
}

/// Whether a process has the file mapped so that its stores reach it.
fn may_be_written<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord) -> bool {
    let _tree = tree::lock_tree(cpu);
    let mut found = false;
    tree::for_each(cpu, |process| {
        if let Some(space) = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed)) {
            found |= mm::may_write_file(cpu, space, inode);
        }
    });
    found
}
