//! Closing descriptors: `close`, `close_range`.

use motet_abi::{
    Errno,
    file::{CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE},
};
use motet_hal::Machine;

use super::table;
use crate::call::{Call, Stop, SysResult, cost};

/// `close(fd)`.
pub fn close<M: Machine>(call: &Call<M>) -> SysResult {
    table::close(call.cpu, table::of(call.cpu, call.process), call.args[0] as i32)?;
    Ok(0)
}

/// `close_range(first, last, flags)`.
///
/// # Errors
/// `EINVAL`; `ENOMEM` and as `unshare` with `CLOSE_RANGE_UNSHARE`.
pub fn close_range<M: Machine>(call: &Call<M>) -> SysResult {
    let [first, last, flags, ..] = call.args;
    if first as u32 > last as u32 || flags as u32 & !(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags as u32 & CLOSE_RANGE_UNSHARE != 0 {
        table::unshare(call)?;
    }
    let files = table::of(call.cpu, call.process);
    let done = call.thread.progress.get() as u32;
    if flags as u32 & CLOSE_RANGE_CLOEXEC == 0 {
        table::close_matching(
            call.cpu,
            files,
            done.max(first as u32),
            last as u32,
            |_| true,
            |next| pause_at(call, table::CLOSED, next),
        )?;
        return Ok(0);
    }
    let mut at = done.max(first as u32);
    while let Some(fd) = table::next_used(call.cpu, files, at).filter(|&fd| fd <= last as u32) {
        // It may have been closed meanwhile.
        let _ = table::set_close_on_exec(call, fd as i32, true);
        at = fd + 1;
        pause_at(call, cost::OBJECT / 2, at)?;
    }
    Ok(0)
}

/// What is below a descriptor is done: lets what is due be done first.
fn pause_at<M: Machine>(call: &Call<M>, cost: u64, fd: u32) -> Result<(), Stop> {
    if call.pauses(cost) {
        call.thread.progress.set(u64::from(fd));
        return Err(Stop::Again);
    }
    Ok(())
}
