//! Whole-file locks (`flock`). They belong to the open file description.

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{FLOCK_EXCLUSIVE, FileRecord, InodeRecord};
use motet_protocol::{Context, lock::lock, wait};

use super::table;
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
};

/// `flock(fd, operation)`. Files without an inode are always free.
pub fn flock<M: Machine>(call: &Call<M>) -> SysResult {
    let file = table::get_opened(call, call.args[0] as i32)?;
    let operation = call.args[1] as u32;
    let wanted = match operation & !LOCK_NB {
        LOCK_SH => 1,
        LOCK_EX => FLOCK_EXCLUSIVE,
        LOCK_UN => 0,
        _ => return Err(Errno::EINVAL.into()),
    };
    let Some(inode) = file.inode() else { return Ok(0) };
    call.wait_for(&inode.flock_waiters, || {
        if convert(call.cpu, inode, file.record(), wanted) {
            return Ok(Some(0));
        }
        if operation & LOCK_NB != 0 { Err(Stop::from(Errno::EAGAIN)) } else { Ok(None) }
    })
}

/// Releases the locks of an open file whose last reference is dropped.
pub fn release_of_file<M: Machine>(cpu: &Cpu<M>, file: &'static FileRecord) {
    if file.flock.get() != 0
        && let Some(inode) = cpu.object::<InodeRecord>(file.inode.get())
    {
        convert(cpu, inode, file, 0);
    }
}

/// Exchanges what the file holds for `wanted` (0, 1 or [`FLOCK_EXCLUSIVE`]). When that cannot be had now, it holds
/// nothing, as on Linux, where a conversion is not atomic either.
fn convert<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord, file: &'static FileRecord, wanted: u32) -> bool {
    let guard = lock(cpu, &inode.lock);
    let held = file.flock.get();
    if held == wanted {
        return true;
    }
    match held {
        0 => {}
        FLOCK_EXCLUSIVE => inode.flock.set(0),
        _ => inode.flock.set(inode.flock.get() - 1),
    }
    file.flock.set(0);
    let state = inode.flock.get();
    let granted = match wanted {
        0 => true,
        FLOCK_EXCLUSIVE if state == 0 => {
            inode.flock.set(FLOCK_EXCLUSIVE);
            true
        }
        1 if state != FLOCK_EXCLUSIVE => {
            inode.flock.set(state + 1);
            true
        }
        _ => false,
    };
    if granted {
        file.flock.set(wanted);
    }
    drop(guard);
    if held != 0 {
        wait::wake(cpu, &inode.flock_waiters);
    }
    granted
}
