//! Transfers between files inside the kernel: `sendfile`, `copy_file_range`.
//!
//! Data passes through a frame of the caller's own, so that two files are never locked together. `splice` and `tee` are
//! refused; programs then read and write.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::O_APPEND,
    inotify::{IN_ACCESS, IN_MODIFY},
    signal::SIGPIPE,
    time::RLIMIT_FSIZE,
};
use motet_hal::Machine;
use motet_layout::{FileRecord, Frame, InodeRecord, PAGE_SIZE, PipeRecord};
use motet_protocol::{
    fs,
    memory::{alloc_frame, release_frame},
    pipe, wait,
};

use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cursor::{TRANSFER_MAX, partial},
    description::kind::Outlet,
    file::{
        descriptor::{description::OpenFile, table},
        kinds::metadata::{accessed, drop_privileges, exceeds_size, happened_by, modified},
    },
    signal,
    tree::limit_of,
};

/// What moving a page costs: it is copied twice.
const PIECE: u64 = 2 * (cost::PAGE + cost::bytes(PAGE_SIZE));

/// A frame for data on its way.
struct Passage<'c, M: Machine> {
    cpu: &'c Cpu<M>,
    frame: Frame,
}

impl<'c, M: Machine> Passage<'c, M> {
    fn new(cpu: &'c Cpu<M>) -> Result<Self, Errno> {
        Ok(Self { cpu, frame: alloc_frame(cpu).ok_or(Errno::ENOMEM)? })
    }

    /// Fills it from a file; the bytes read.
    fn fill(&self, from: &'static InodeRecord, at: u64, len: u64) -> Result<usize, Errno> {
        let len = len.min(PAGE_SIZE) as usize;
        fs::transfer(self.cpu, from, at, false, || Ok((self.frame.addr(), len)))
    }

    /// Writes `len` bytes of it to a file.
    fn drain(&self, to: &'static InodeRecord, at: u64, len: usize) -> Result<(), Errno> {
        let mut done = 0;
        while done < len {
            let run = || Ok::<_, Errno>((self.frame.addr().add(done as u64), len - done));
            done += fs::transfer(self.cpu, to, at + done as u64, true, run)?;
        }
        Ok(())
    }
}

impl<M: Machine> Drop for Passage<'_, M> {
    fn drop(&mut self) {
        release_frame(self.cpu, self.frame);
    }
}

/// `sendfile(out, in, offset, count)`: from a regular file to a regular file, a pipe or a socket; others are refused with `EINVAL`,
/// upon which programs read and write.
pub fn sendfile<M: Machine>(call: &Call<M>) -> SysResult {
    let [out, input, offset_at, count, ..] = call.args;
    let (input, out) = match files(call, input, out) {
        Ok(files) => files,
        Err(errno) => return partial(call.thread.progress.get(), errno),
    };
    input.check_readable()?;
    out.check_writable()?;
    let from = input.regular().ok_or(Errno::EINVAL)?;
    if out.flags() & O_APPEND != 0 {
        return Err(Errno::EINVAL.into());
    }
    // A call that waits or pauses has already moved the positions by its progress, so that a signal may end it.
    let before = call.thread.progress.get();
    let position = if offset_at == 0 { input.offset.load(Ordering::Relaxed) } else { call.read_user_u64(offset_at)? };
    let start = position.checked_sub(before).filter(|&start| start <= i64::MAX as u64).ok_or(Errno::EINVAL)?;
    let count = count.min(TRANSFER_MAX);
    let outlet = match out.outlet(call) {
        Ok(outlet) => outlet,
        // What was sent before counts.
        Err(errno) => return partial(before, errno),
    };
    let result = match outlet {
        Outlet::Inode(to) => {
            let position = out.offset.load(Ordering::Relaxed).saturating_sub(before);
            let result = copy(call, (from, start), (to, position), count);
            if let Some(moved) = moved_by(call, result) {
                out.offset.store(position + moved, Ordering::Relaxed);
            }
            result
        }
        Outlet::Pipe(ends) => send_to_pipe(call, from, start, ends, out.nonblocking(), count),
    };
    let Some(moved) = moved_by(call, result) else { return result };
    let done = result.unwrap_or(0);
    happened_by(call.cpu, input.record(), done, IN_ACCESS);
    if matches!(outlet, Outlet::Inode(_)) {
        happened_by(call.cpu, out.record(), done, IN_MODIFY);
    }
    if offset_at == 0 {
        input.offset.store(start + moved, Ordering::Relaxed);
    } else if let Err(stop) = call.write_user(offset_at, &(start + moved).to_le_bytes()) {
        if result == Err(Stop::Block) {
            wait::finish(call.cpu, call.thread);
        }
        return Err(stop);
    }
    result
}

/// `copy_file_range(in, in_offset, out, out_offset, length, flags)`.
pub fn copy_file_range<M: Machine>(call: &Call<M>) -> SysResult {
    let [input, input_at, out, out_at, len, flags] = call.args;
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (input, out) = match files(call, input, out) {
        Ok(files) => files,
        Err(errno) => return partial(call.thread.progress.get(), errno),
    };
    input.check_readable()?;
    out.check_writable()?;
    let (Some(from), Some(to)) = (input.of_ramfs(), out.of_ramfs()) else {
        return Err(Errno::EINVAL.into());
    };
    if fs::is_directory(from) {
        return Err(Errno::EISDIR.into());
    }
    if out.flags() & O_APPEND != 0 {
        return Err(Errno::EBADF.into());
    }
    let before = call.thread.progress.get();
    let position = |file: &FileRecord, at: u64| {
        let now = if at == 0 { file.offset.load(Ordering::Relaxed) } else { call.read_user_u64(at)? };
        now.checked_sub(before).ok_or_else(|| Stop::from(Errno::EINVAL))
    };
    let (start, target) = (position(&input, input_at)?, position(&out, out_at)?);
    let len = len.min(TRANSFER_MAX);
    let overlaps = start < target.saturating_add(len) && target < start.saturating_add(len);
    if core::ptr::eq(from, to) && overlaps {
        return Err(Errno::EINVAL.into());
    }
    let result = copy(call, (from, start), (to, target), len);
    let Some(moved) = moved_by(call, result) else { return result };
    let done = result.unwrap_or(0);
    happened_by(call.cpu, input.record(), done, IN_ACCESS);
    happened_by(call.cpu, out.record(), done, IN_MODIFY);
    for (file, at, position) in [(&input, input_at, start), (&out, out_at, target)] {
        if at == 0 {
            file.offset.store(position + moved, Ordering::Relaxed);
        } else {
            call.write_user(at, &(position + moved).to_le_bytes())?;
        }
    }
    result
}

/// The open files behind two descriptors.
fn files<'c, M: Machine>(
    call: &Call<'c, M>,
    input: u64,
    out: u64,
) -> Result<(OpenFile<'c, M>, OpenFile<'c, M>), Errno> {
    Ok((table::get(call, input as i32)?, table::get(call, out as i32)?))
}

/// What a transfer has moved so far, by its result; `None`: it has failed.
fn moved_by<M: Machine>(call: &Call<M>, result: SysResult) -> Option<u64> {
    match result {
        Ok(moved) => Some(moved),
        Err(Stop::Block | Stop::Again) => Some(call.thread.progress.get()),
        Err(Stop::Error(_) | Stop::Page | Stop::Replaced | Stop::Gone) => None,
    }
}

/// `splice(in, in_offset, out, out_offset, length, flags)`: refused.
pub fn splice<M: Machine>(call: &Call<M>) -> SysResult {
    refused(call, call.args[0], call.args[2])
}

/// `tee(in, out, length, flags)`: refused.
pub fn tee<M: Machine>(call: &Call<M>) -> SysResult {
    refused(call, call.args[0], call.args[1])
}

/// Fails as Linux does for files that cannot be spliced.
fn refused<M: Machine>(call: &Call<M>, input: u64, out: u64) -> SysResult {
    table::get(call, input as i32)?.check_readable()?;
    table::get(call, out as i32)?.check_writable()?;
    Err(Errno::EINVAL.into())
}

fn copy<M: Machine>(
    call: &Call<M>,
    (from, start): (&'static InodeRecord, u64),
    (to, target): (&'static InodeRecord, u64),
    len: u64,
) -> SysResult {
    let before = call.thread.progress.get();
    let result = copy_pieces(call, (from, start), (to, target), len);
    if matches!(result, Ok(1..)) || call.thread.progress.get() != before {
        modified(call.cpu, to);
    }
    result
}

fn copy_pieces<M: Machine>(
    call: &Call<M>,
    (from, start): (&'static InodeRecord, u64),
    (to, target): (&'static InodeRecord, u64),
    len: u64,
) -> SysResult {
    let passage = Passage::new(call.cpu)?;
    accessed(call.cpu, from, 0);
    drop_privileges(call, to);
    let limit = limit_of(call.process, RLIMIT_FSIZE);
    let mut done = call.thread.progress.get();
    while done < len {
        let allowed = limit.saturating_sub(target + done);
        if allowed == 0 {
            // As a write does: what was copied counts first.
            return if done > 0 { Ok(done) } else { Err(exceeds_size(call).into()) };
        }
        let here = match passage.fill(from, start + done, (len - done).min(allowed)) {
            Ok(0) => break,
            Ok(here) => here,
            Err(errno) => return partial(done, errno),
        };
        if let Err(errno) = passage.drain(to, target + done, here) {
            return partial(done, errno);
        }
        done += here as u64;
        if done < len && call.pauses(PIECE) {
            if call.is_interrupted() {
                break;
            }
            call.thread.progress.set(done);
            return Err(Stop::Again);
        }
    }
    Ok(done)
}

fn send_to_pipe<M: Machine>(
    call: &Call<M>,
    from: &'static InodeRecord,
    start: u64,
    ends: &'static PipeRecord,
    nonblocking: bool,
    len: u64,
) -> SysResult {
    let passage = Passage::new(call.cpu)?;
    accessed(call.cpu, from, 0);
    let mut done = call.thread.progress.get();
    call.wait_for(&ends.write_waiters, || {
        while done < len {
            let here = passage.fill(from, start + done, len - done)?;
            if here == 0 {
                break;
            }
            let run = || Ok::<_, Errno>([(passage.frame.addr(), here), (passage.frame.addr(), 0)]);
            match pipe::push(call.cpu, ends, false, run) {
                Ok(Some(pushed)) => {
                    done += pushed as u64;
                    if done < len && call.pauses(PIECE) {
                        call.thread.progress.set(done);
                        return Err(Stop::Again);
                    }
                }
                Ok(None) if nonblocking => return partial(done, Errno::EAGAIN).map(Some),
                Ok(None) => {
                    call.thread.progress.set(done);
                    return Ok(None);
                }
                Err(errno) => {
                    if errno == Errno::EPIPE {
                        signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
                    }
                    return partial(done, errno).map(Some);
                }
            }
        }
        Ok(Some(done))
    })
}
