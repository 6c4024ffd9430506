//! Positions of open files that have one.

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{FileRecord, sync::Ordering};
use motet_protocol::{
    hand,
    lock::{Guard, lock},
};

use crate::call::{Call, SysResult};

/// The position to use: the file's own, unless there is another one. The description is locked when it is shared and its own position is used.
pub fn own_position<'f, M: Machine>(call: &Call<M>, file: &'f FileRecord, at: Option<u64>) -> (Option<Guard<'f>>, u64) {
    match at {
        Some(at) => (None, at),
        None => {
            let shared = hand::count(file) > 1;
            let guard = shared.then(|| lock(call.cpu, &file.lock));
            (guard, file.offset.load(Ordering::Relaxed))
        }
    }
}

/// Moves the position of a file (`lseek`), to an offset from a place. `size` says how long the file is; `region(offset,
/// size, is_hole)` finds the next hole, or the next data, from an offset on.
///
/// # Errors
/// `EINVAL`: there is no such place, or it is before the beginning; those of `region`.
pub fn seek<M: Machine>(
    call: &Call<M>,
    file: &FileRecord,
    (offset, whence): (i64, u32),
    size: impl FnOnce() -> u64,
    region: impl FnOnce(i64, u64, bool) -> Result<i64, Errno>,
) -> SysResult {
    let shared = hand::count(file) > 1;
    let _guard = shared.then(|| lock(call.cpu, &file.lock));
    let size = size();
    let target = match whence {
        SEEK_SET => Some(offset),
        SEEK_CUR => (file.offset.load(Ordering::Relaxed) as i64).checked_add(offset),
        SEEK_END => (size as i64).checked_add(offset),
        SEEK_DATA | SEEK_HOLE => Some(region(offset, size, whence == SEEK_HOLE)?),
        _ => None,
    };
    let target = target.filter(|&target| target >= 0).ok_or(Errno::EINVAL)?;
    file.offset.store(target as u64, Ordering::Relaxed);
    Ok(target as u64)
}

/// [`seek`] of a file that has a position and no length.
///
/// # Errors
/// `EINVAL`.
pub fn seek_endless<M: Machine>(call: &Call<M>, file: &FileRecord, to: (i64, u32)) -> SysResult {
    seek(call, file, to, || 0, |_, _, _| Err(Errno::EINVAL))
}
