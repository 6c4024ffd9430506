//! Pipes and named pipes: how they are made and opened.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{FileRecord, InodeRecord, PipeRecord, ThreadRecord};
use motet_protocol::{
    Context,
    hand::{self, Holder},
    lock::lock,
    pipe,
};

use super::pipe::{open_ends, partner};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    file::descriptor::{description, table},
};

/// In the thread's scratch word 1: an `open` waits; word 2 holds the count of opens it has seen, word 3 its file.
const OPENING: u64 = u64::from_le_bytes(*b"opening\0");

/// `pipe(fds)`.
pub fn pipe<M: Machine>(call: &Call<M>) -> SysResult {
    new_pipe(call, 0)
}

/// `pipe2(fds, flags)`.
pub fn pipe2<M: Machine>(call: &Call<M>) -> SysResult {
    new_pipe(call, open_flags(call.isa, call.args[1] as u32))
}

fn new_pipe<M: Machine>(call: &Call<M>, flags: u32) -> SysResult {
    // Packets (`O_DIRECT`) are not offered.
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let ends = pipe::create(call.cpu).ok_or(Errno::ENFILE)?;
    let opened = open_both(call, ends, flags);
    pipe::put(call.cpu, ends);
    let [read, write] = opened?;
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&(read as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&(write as u32).to_le_bytes());
    if let Err(stop) = call.write_user(call.args[0], &bytes) {
        let files = table::of(call.cpu, call.process);
        for fd in [read, write] {
            // They were opened a moment ago.
            let _ = table::close(call.cpu, files, fd as i32);
        }
        return Err(stop);
    }
    Ok(0)
}

fn open_both<M: Machine>(call: &Call<M>, ends: &'static PipeRecord, flags: u32) -> Result<[u64; 2], Errno> {
    let close_on_exec = flags & O_CLOEXEC != 0;
    let reader = open_ends(call.cpu, ends, None, O_RDONLY | flags)?;
    let writer = match open_ends(call.cpu, ends, None, O_WRONLY | flags) {
        Ok(writer) => writer,
        Err(errno) => {
            description::put(call.cpu, reader);
            return Err(errno);
        }
    };
    let read = match table::install(call, reader, close_on_exec, 0) {
        Ok(read) => read,
        Err(errno) => {
            description::put(call.cpu, writer);
            return Err(errno);
        }
    };
    match table::install(call, writer, close_on_exec, 0) {
        Ok(write) => Ok([read, write]),
        Err(errno) => {
            // It was opened a moment ago.
            let _ = table::close(call.cpu, table::of(call.cpu, call.process), read as i32);
            Err(errno)
        }
    }
}

/// Opens a named pipe; an opener of one end waits for one of the other.
pub fn open_fifo<M: Machine>(call: &Call<M>, inode: &'static InodeRecord, flags: u32) -> SysResult {
    let ends = fifo_of(call.cpu, inode)?;
    let opens = match flags & O_ACCMODE {
        O_RDONLY => ends.writer_opens.load(Ordering::Acquire),
        _ => ends.reader_opens.load(Ordering::Acquire),
    };
    if flags & O_NONBLOCK != 0 && flags & O_ACCMODE == O_WRONLY && ends.readers.load(Ordering::Acquire) == 0 {
        return Err(Errno::ENXIO.into());
    }
    let record = open_ends(call.cpu, ends, Some(inode), flags)?;
    if flags & O_ACCMODE == O_RDONLY && ends.writers.load(Ordering::Acquire) == 0 {
        record.opens_seen.set(opens.wrapping_add(1));
    }
    wait_for_partner(call, record, opens, flags)
}

/// The pipe of a named pipe, made when it is first opened.
fn fifo_of<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord) -> Result<&'static PipeRecord, Errno> {
    let _guard = lock(cpu, &inode.lock);
    if let Some(ends) = cpu.object(inode.pipe.load(Ordering::Relaxed)) {
        return Ok(ends);
    }
    let ends = pipe::create(cpu).ok_or(Errno::ENOMEM)?;
    inode.pipe.store(cpu.raw(ends), Ordering::Release);
    Ok(ends)
}

/// Finishes opening a named pipe once the other side is open, or has been opened since the count was `seen`.
pub fn wait_for_partner<M: Machine>(call: &Call<M>, record: &'static FileRecord, seen: u32, flags: u32) -> SysResult {
    let cpu = call.cpu;
    let install = || table::install(call, record, flags & O_CLOEXEC != 0, 0).map_err(Stop::from);
    let Some((queue, [present, opens])) = partner(cpu, record) else { return install() };
    if flags & O_NONBLOCK != 0 {
        return install();
    }
    let met = || present.load(Ordering::Acquire) != 0 || opens.load(Ordering::Acquire) != seen;
    let waited = call.wait_for(queue, || Ok(met().then_some(())));
    match waited {
        Ok(()) => install(),
        Err(stop) => {
            let [_, tag, opens, file] = &call.thread.scratch;
            file.set(0);
            tag.set(OPENING);
            opens.set(u64::from(seen));
            hand::give(cpu, record, Holder::word(cpu, file), || file.set(cpu.raw(record)));
            Err(stop)
        }
    }
}

/// The file whose opening waits, with a reference in hand, and the count of opens it has seen.
pub fn take_pending<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<(&'static FileRecord, u32)> {
    let [_, tag, opens, file] = &thread.scratch;
    if tag.get() != OPENING {
        return None;
    }
    let record = cpu.object::<FileRecord>(file.get())?;
    hand::fetch(cpu, record, Holder::word(cpu, file), || file.set(0));
    tag.set(0);
    Some((record, opens.get() as u32))
}

/// Undoes an `open` that was waiting for the other side of a named pipe, when that call ends early.
pub fn open_interrupted<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    if let Some((record, _)) = take_pending(cpu, thread) {
        description::put(cpu, record);
    }
}
