//! Reading and writing: `read`, `write` and their relatives.
//!
//! A transfer first resolves a page of user memory, then takes the file's lock and copies: no lock of a file is held
//! while user memory may fault. A call that waits or pauses keeps the bytes it has done in the thread's `progress`.
//!
//! A transfer fixes at its beginning where it starts, and how far the description's position
//! moves. So calls that share a description do not interleave, and neither do writers that append, however long they take; other
//! concurrent transfers may interleave at page borders. A transfer that pauses keeps the file, even if its descriptor is closed.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*, signal::SIGXFSZ, time::RLIMIT_FSIZE};
use motet_hal::{Access, Machine};
use motet_layout::{FILE_PIPE_READ, FILE_PIPE_WRITE, FileRecord, InodeRecord, PAGE_SIZE, ThreadRecord};
use motet_protocol::{
    Context, fs,
    hand::{self, Holder},
    lock::{Guard, lock},
    pipe,
};

use super::{
    attributes::{accessed, drop_privileges, modified},
    description::{self, Anonymous, Kind, OpenFile},
    device, event,
    pipe::{read_pipe, write_pipe},
    proc, signal_fd, socket, table, timer,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cursor::{Cursor, partial, stopped},
    kinds::{accel, dma, late},
    mm, signal,
    tree::limit_of,
    vm,
};

/// `RWF_HIPRI`, `RWF_DSYNC`, `RWF_SYNC`: every write of a file in memory is where it belongs when it returns.
const RWF_MEANINGLESS: u32 = 7;
/// It does not wait.
const RWF_NOWAIT: u32 = 8;
/// It appends.
const RWF_APPEND: u32 = 16;
/// It does not append, whatever the file was opened with.
const RWF_NOAPPEND: u32 = 32;
/// `pwritev2`, `preadv2`: the position is the file's own.
const POSITION_OWN: u64 = u64::MAX;

/// `read(fd, buffer, length)`.
#[inline]
pub fn read<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, ..] = call.args;
    let file = open_file(call, fd)?;
    if let Some(read) = read_short(call, &file, buffer, len) {
        if let Some(fifo) = file.inode() {
            accessed(call.cpu, fifo, file.flags());
        }
        return Ok(read);
    }
    read_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Write), None)
}

/// `write(fd, buffer, length)`.
#[inline]
pub fn write<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, ..] = call.args;
    let file = open_file(call, fd)?;
    if write_short(call, &file, buffer, len) {
        if let Some(fifo) = file.inode() {
            modified(call.cpu, fifo);
        }
        return Ok(len);
    }
    write_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Read), None)
}

/// Reads a short message from a pipe, if that is what the call is about: messages between processes are what pipes are
/// measured by.
#[inline(always)]
fn read_short<M: Machine>(call: &Call<M>, file: &OpenFile<M>, buffer: u64, len: u64) -> Option<u64> {
    if file.record().kind.get() != FILE_PIPE_READ || len == 0 || call.thread.progress.get() != 0 {
        return None;
    }
    let len = len.min(PAGE_SIZE - buffer % PAGE_SIZE);
    let ends = call.cpu.object(file.record().object.get())?;
    // Looked at without the lock, to spare the look-up of the buffer when it is for nothing.
    if (pipe::used(ends) as u64).wrapping_sub(1) >= len {
        return None;
    }
    let space = mm::space_of(call.cpu, call.process);
    let run = mm::resolve(call.cpu, space, buffer, Access::Write).ok()?;
    Some(pipe::pop_short(call.cpu, ends, (run, len as usize))? as u64)
}

/// Writes a short message to a pipe, if that is what the call is about.
#[inline(always)]
fn write_short<M: Machine>(call: &Call<M>, file: &OpenFile<M>, buffer: u64, len: u64) -> bool {
    let short = len.wrapping_sub(1) < PAGE_SIZE - buffer % PAGE_SIZE;
    if file.record().kind.get() != FILE_PIPE_WRITE || !short || call.thread.progress.get() != 0 {
        return false;
    }
    let space = mm::space_of(call.cpu, call.process);
    let Ok(run) = mm::resolve(call.cpu, space, buffer, Access::Read) else { return false };
    let Some(ends) = call.cpu.object(file.record().object.get()) else { return false };
    pipe::push_short(call.cpu, ends, (run, len as usize))
}

/// `readv(fd, vector, count)`.
pub fn readv<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, ..] = call.args;
    let file = open_file(call, fd)?;
    read_file(call, &file, &mut Cursor::vector(call, vector, count, Access::Write)?, None)
}

/// `writev(fd, vector, count)`.
pub fn writev<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, ..] = call.args;
    let file = open_file(call, fd)?;
    write_file(call, &file, &mut Cursor::vector(call, vector, count, Access::Read)?, None)
}

/// `pread64(fd, buffer, length, offset)`.
pub fn pread64<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, offset, ..] = call.args;
    check_end(offset, 0)?;
    let file = open_file(call, fd)?;
    read_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Write), Some(check_offset(&file, offset)?))
}

/// `pwrite64(fd, buffer, length, offset)`.
pub fn pwrite64<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, offset, ..] = call.args;
    check_end(offset, len)?;
    let file = open_file(call, fd)?;
    write_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Read), Some(check_offset(&file, offset)?))
}

/// `preadv(fd, vector, count, offset)`; the offset's second argument word matters on 32-bit ISAs only.
pub fn preadv<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, offset, ..] = call.args;
    let file = open_file(call, fd)?;
    let mut cursor = Cursor::vector(call, vector, count, Access::Write)?;
    read_file(call, &file, &mut cursor, Some(check_offset(&file, offset)?))
}

/// `pwritev(fd, vector, count, offset)`.
pub fn pwritev<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, offset, ..] = call.args;
    let file = open_file(call, fd)?;
    let mut cursor = Cursor::vector(call, vector, count, Access::Read)?;
    write_file(call, &file, &mut cursor, Some(check_offset(&file, offset)?))
}

/// `preadv2(fd, vector, count, offset, -, flags)`.
///
/// # Errors
/// `EOPNOTSUPP`: unknown flags, or `RWF_NOWAIT` of what is neither a pipe nor a socket; `EINVAL`: flags that exclude each other.
pub fn preadv2<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, offset, _, flags] = call.args;
    let file = open_file(call, fd)?;
    let mut cursor = Cursor::vector(call, vector, count, Access::Write)?;
    let at = if offset == POSITION_OWN { None } else { Some(check_offset(&file, offset)?) };
    check_transfer_flags(&file, flags as u32)?;
    match file.kind() {
        Kind::Pipe(ends) if flags as u32 & RWF_NOWAIT != 0 => {
            file.check_readable()?;
            read_pipe(call, ends, true, &mut cursor)
        }
        Kind::Anonymous(Anonymous::Socket(socket)) if flags as u32 & RWF_NOWAIT != 0 => {
            socket::read(call, socket, true, &mut cursor)
        }
        Kind::Inode(_) | Kind::Pipe(_) | Kind::Device(_) | Kind::Proc(_) | Kind::Anonymous(_) => {
            read_file(call, &file, &mut cursor, at)
        }
    }
}

/// `pwritev2(fd, vector, count, offset, -, flags)`: as [`preadv2`]; `RWF_APPEND` and `RWF_NOAPPEND` come before what the file was opened with.
pub fn pwritev2<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, offset, _, flags] = call.args;
    let file = open_file(call, fd)?;
    let mut cursor = Cursor::vector(call, vector, count, Access::Read)?;
    let at = if offset == POSITION_OWN { None } else { Some(check_offset(&file, offset)?) };
    let flags = flags as u32;
    check_transfer_flags(&file, flags)?;
    match file.kind() {
        Kind::Pipe(ends) if flags & RWF_NOWAIT != 0 => {
            file.check_writable()?;
            write_pipe(call, ends, true, true, &mut cursor)
        }
        Kind::Anonymous(Anonymous::Socket(socket)) if flags & RWF_NOWAIT != 0 => {
            socket::write(call, socket, true, true, &mut cursor)
        }
        Kind::Inode(inode) if flags & (RWF_APPEND | RWF_NOAPPEND) != 0 => {
            file.check_writable()?;
            let result = write_inode(call, &file, inode, &mut cursor, at, flags & RWF_APPEND != 0);
            keep_if_paused(call, &file, result)
        }
        Kind::Inode(_) | Kind::Pipe(_) | Kind::Device(_) | Kind::Proc(_) | Kind::Anonymous(_) => {
            write_file(call, &file, &mut cursor, at)
        }
    }
}

/// Checks the flags of [`preadv2`].
fn check_transfer_flags<M: Machine>(file: &OpenFile<M>, flags: u32) -> Result<(), Errno> {
    let may_not_wait = matches!(file.kind(), Kind::Pipe(_) | Kind::Anonymous(Anonymous::Socket(_)));
    if flags & !(RWF_MEANINGLESS | RWF_NOWAIT | RWF_APPEND | RWF_NOAPPEND) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & RWF_APPEND != 0 && flags & RWF_NOAPPEND != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & RWF_NOWAIT != 0 && !may_not_wait { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
}

/// [`motet_layout::ThreadRecord::scratch`] 1: a transfer has paused; 0 and 2 are a [`Claim`], 3 is its file, with a reference.
const TRANSFERRING: u64 = u64::from_le_bytes(*b"transfer");

/// Where a transfer of a file is, and what it has claimed.
#[derive(Clone, Copy)]
struct Claim {
    /// Position of the first byte.
    start: u64,
    /// What the description's position and, if it appends, the file's size were set to; 0: neither was.
    end: u64,
    /// It is a write that appends.
    appends: bool,
}

impl Claim {
    /// In the first word that is kept: it appends.
    const APPENDS: u64 = 1 << 63;

    /// Keeps it while the transfer pauses.
    fn keep(self, thread: &ThreadRecord) {
        let [start, _, end, _] = &thread.scratch;
        start.set(self.start | if self.appends { Self::APPENDS } else { 0 });
        end.set(self.end);
    }

    /// What was kept.
    fn kept(thread: &ThreadRecord) -> Self {
        let [start, _, end, _] = &thread.scratch;
        let appends = start.get() & Self::APPENDS != 0;
        Self { start: start.get() & !Self::APPENDS, end: end.get(), appends }
    }
}

/// The open file that a transfer is about.
#[inline(always)]
fn open_file<'c, M: Machine>(call: &Call<'c, M>, fd: u64) -> Result<OpenFile<'c, M>, Errno> {
    if call.thread.stage.get().is_paused()
        && let Some(record) = kept_file(call.cpu, call.thread)
    {
        return Ok(OpenFile::new(call.cpu, record, true));
    }
    table::get(call, fd as i32)
}

/// The file of the thread's transfer that has paused, with a reference in hand.
fn kept_file<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<&'static FileRecord> {
    let [.., tag, _, record] = &thread.scratch;
    if tag.get() != TRANSFERRING {
        return None;
    }
    let file = cpu.object::<FileRecord>(record.get())?;
    hand::fetch(cpu, file, Holder::word(cpu, record), || record.set(0));
    tag.set(0);
    Some(file)
}

/// Keeps the file of a transfer that pauses.
#[cold]
fn keep_file<M: Machine>(call: &Call<M>, file: &OpenFile<M>) {
    let [.., tag, _, record] = &call.thread.scratch;
    record.set(0);
    tag.set(TRANSFERRING);
    let file = file.clone().release();
    hand::give(call.cpu, file, Holder::word(call.cpu, record), || record.set(call.cpu.raw(file)));
}

/// Gives back what a paused transfer of a thread that ends has claimed and not used.
pub fn transfer_ended<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    let Some(record) = kept_file(cpu, thread) else { return };
    if let Kind::Inode(inode) = description::kind(cpu, record) {
        settle(cpu, record, inode, Claim::kept(thread), thread.progress.get());
    }
    description::put(cpu, record);
}

/// Reads from any open file, at its own position unless `at` gives another.
pub fn read_file<M: Machine>(call: &Call<M>, file: &OpenFile<M>, into: &mut Cursor<M>, at: Option<u64>) -> SysResult {
    file.check_readable()?;
    let result = match file.kind() {
        Kind::Pipe(ends) => read_pipe(call, ends, file.nonblocking(), into).inspect(|&read| {
            if let (Some(fifo), 1..) = (file.inode(), read) {
                accessed(call.cpu, fifo, file.flags());
            }
        }),
        Kind::Inode(inode) => read_inode(call, file, inode, into, at),
        Kind::Device(device) => device::read(call, device, file.nonblocking(), into),
        Kind::Proc(node) => {
            // Not locked: making the text may take long. Of two readers at once, both may get the same part.
            let (_, position) = position(call, file, at);
            let read = proc::read(call, node, file.record(), position, into)?;
            if at.is_none() {
                file.offset.store(position + read, Ordering::Relaxed);
            }
            Ok(read)
        }
        Kind::Anonymous(Anonymous::Event(counter)) => event::read(call, counter, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Timer(timer)) => timer::read(call, timer, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Socket(socket)) => socket::read(call, socket, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Signals(set)) => signal_fd::read(call, set, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Dma(transfers)) => dma::read(call, transfers, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Accel(pages)) => accel::read(call, pages, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Late(pages)) => late::read(call, pages, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Vm(vm)) => vm::console::read(call, vm, file.nonblocking(), into),
        Kind::Anonymous(Anonymous::Epoll(_) | Anonymous::Service(_)) => Err(Errno::EINVAL.into()),
    };
    keep_if_paused(call, file, result)
}

/// Writes to any open file, at its own position unless `at` gives another.
pub fn write_file<M: Machine>(call: &Call<M>, file: &OpenFile<M>, from: &mut Cursor<M>, at: Option<u64>) -> SysResult {
    file.check_writable()?;
    let result = match file.kind() {
        Kind::Pipe(ends) => write_pipe(call, ends, file.nonblocking(), true, from).inspect(|&written| {
            if let (Some(fifo), 1..) = (file.inode(), written) {
                modified(call.cpu, fifo);
            }
        }),
        Kind::Inode(inode) => write_inode(call, file, inode, from, at, file.flags() & O_APPEND != 0),
        Kind::Device(device) => device::write(call, device, file.nonblocking(), from),
        Kind::Proc(node) => proc::write(call, node, from),
        Kind::Anonymous(Anonymous::Event(counter)) => event::write(call, counter, file.nonblocking(), from),
        Kind::Anonymous(Anonymous::Socket(socket)) => socket::write(call, socket, file.nonblocking(), true, from),
        Kind::Anonymous(Anonymous::Dma(transfers)) => dma::write(call, transfers, file.nonblocking(), from),
        Kind::Anonymous(Anonymous::Late(pages)) => late::write(call, pages, from),
        Kind::Anonymous(Anonymous::Vm(vm)) => vm::console::write(call, vm, from),
        Kind::Anonymous(
            Anonymous::Epoll(_)
            | Anonymous::Timer(_)
            | Anonymous::Signals(_)
            | Anonymous::Service(_)
            | Anonymous::Accel(_),
        ) => Err(Errno::EINVAL.into()),
    };
    keep_if_paused(call, file, result)
}

/// Keeps the file of a transfer that goes on later.
#[inline(always)]
fn keep_if_paused<M: Machine>(call: &Call<M>, file: &OpenFile<M>, result: SysResult) -> SysResult {
    if let Err(stop) = result
        && goes_on(call, stop)
    {
        keep_file(call, file);
    }
    result
}

/// The position to use. The description is locked when it is shared and its own position is used.
fn position<'f, M: Machine>(call: &Call<M>, file: &'f FileRecord, at: Option<u64>) -> (Option<Guard<'f>>, u64) {
    match at {
        Some(at) => (None, at),
        None => {
            let shared = hand::count(file) > 1;
            let guard = shared.then(|| lock(call.cpu, &file.lock));
            (guard, file.offset.load(Ordering::Relaxed))
        }
    }
}

fn read_inode<M: Machine>(
    call: &Call<M>,
    file: &FileRecord,
    inode: &'static InodeRecord,
    into: &mut Cursor<M>,
    at: Option<u64>,
) -> SysResult {
    if fs::is_directory(inode) {
        return Err(Errno::EISDIR.into());
    }
    let claim = match begun(call) {
        Some(claim) => claim,
        None => {
            accessed(call.cpu, inode, file.flags.load(Ordering::Relaxed));
            let (_guard, start) = position(call, file, at);
            let left = inode.size.load(Ordering::Relaxed).saturating_sub(start);
            if left == 0 {
                return Ok(0);
            }
            let end = start + left.min(into.remaining());
            if at.is_none() {
                file.offset.store(end, Ordering::Relaxed);
            }
            Claim { start, end: if at.is_none() { end } else { 0 }, appends: false }
        }
    };
    let moved = move_inode(call, inode, claim, false, into);
    if let Err(stop) = moved
        && goes_on(call, stop)
    {
        return Err(stop);
    }
    settle_position(file, claim, into.done());
    match moved {
        Ok(()) => Ok(into.done()),
        Err(stop) => partial(into.done(), stop),
    }
}

fn write_inode<M: Machine>(
    call: &Call<M>,
    file: &FileRecord,
    inode: &'static InodeRecord,
    from: &mut Cursor<M>,
    at: Option<u64>,
    append: bool,
) -> SysResult {
    if from.remaining() == 0 {
        return Ok(0);
    }
    drop_privileges(call, inode);
    let limit = limit_of(call.process, RLIMIT_FSIZE);
    let claim = match begun(call) {
        Some(claim) => {
            from.shorten(limit.saturating_sub(claim.start));
            claim
        }
        None => {
            let (guard, own) = position(call, file, at);
            if limit != u64::MAX {
                let start = if append { inode.size.load(Ordering::Relaxed) } else { own };
                from.shorten(limit.saturating_sub(start));
                if from.remaining() == 0 {
                    drop(guard);
                    return Err(exceeds_size(call).into());
                }
            }
            let len = from.remaining();
            let start = if append { fs::reserve(call.cpu, inode, len)? } else { own };
            let end = start.saturating_add(len);
            if at.is_none() {
                file.offset.store(end, Ordering::Relaxed);
            }
            Claim { start, end: if at.is_none() || append { end } else { 0 }, appends: append }
        }
    };
    let moved = move_inode(call, inode, claim, true, from);
    if let Err(stop) = moved
        && goes_on(call, stop)
    {
        return Err(stop);
    }
    let done = from.done();
    settle(call.cpu, file, inode, claim, done);
    modified(call.cpu, inode);
    match moved {
        Ok(()) => Ok(done),
        Err(stop) => partial(done, stop),
    }
}

/// Checks that a file may become `end` bytes long, if it is shorter.
///
/// # Errors
/// `EFBIG`, after the thread was sent `SIGXFSZ`: `RLIMIT_FSIZE` forbids it.
pub fn check_size_limit<M: Machine>(call: &Call<M>, inode: &InodeRecord, end: u64) -> Result<(), Errno> {
    let grows = end > inode.size.load(Ordering::Relaxed);
    if grows && end > limit_of(call.process, RLIMIT_FSIZE) { Err(exceeds_size(call)) } else { Ok(()) }
}

/// Sends `SIGXFSZ` for a write that begins at or beyond the process's file-size limit; returns the error.
#[cold]
pub fn exceeds_size<M: Machine>(call: &Call<M>) -> Errno {
    signal::send_to_thread(call.cpu, call.thread, SIGXFSZ);
    Errno::EFBIG
}

/// Whether a transfer that has stopped keeps what it has claimed, and goes on later.
fn goes_on<M: Machine>(call: &Call<M>, stop: Stop) -> bool {
    stop == Stop::Again || stop == Stop::Page && call.thread.progress.get() != 0
}

/// The claim of a transfer that has begun before this dispatch.
#[inline(always)]
fn begun<M: Machine>(call: &Call<M>) -> Option<Claim> {
    (call.thread.progress.get() != 0).then(|| Claim::kept(call.thread))
}

/// A transfer has ended after `done` bytes: gives back what it has claimed and not used.
#[inline(always)]
fn settle<M: Machine>(cpu: &Cpu<M>, file: &FileRecord, inode: &'static InodeRecord, claim: Claim, done: u64) {
    settle_position(file, claim, done);
    if claim.appends && claim.start + done < claim.end {
        fs::give_back(cpu, inode, claim.start + done, claim.end);
    }
}

/// As [`settle`], of the description's position, unless somebody else has moved that meanwhile.
#[inline(always)]
fn settle_position(file: &FileRecord, claim: Claim, done: u64) {
    let now = claim.start + done;
    if claim.end != 0 && now != claim.end {
        // If it fails, somebody has.
        let _ = file.offset.compare_exchange(claim.end, now, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Moves bytes between a regular file and user memory until one of them ends.
fn move_inode<M: Machine>(
    call: &Call<M>,
    inode: &'static InodeRecord,
    claim: Claim,
    write: bool,
    cursor: &mut Cursor<M>,
) -> Result<(), Stop> {
    cursor.resume(call.thread.progress.get())?;
    while cursor.remaining() > 0 {
        let moved = fs::transfer(call.cpu, inode, claim.start + cursor.done(), write, || cursor.piece());
        let len = match moved {
            Ok(len) => len,
            Err(stop) => return move_stopped(call, claim, cursor.done(), stop),
        };
        if len == 0 {
            break;
        }
        cursor.advance(len)?;
        if cursor.remaining() > 0 && call.pauses(cost::PAGE + cost::bytes(len as u64)) {
            claim.keep(call.thread);
            call.thread.progress.set(cursor.done());
            return Err(Stop::Again);
        }
    }
    Ok(())
}

/// [`move_inode`] has stopped after `done` bytes. If a page comes later, it goes on then, unless a signal ends it.
#[cold]
fn move_stopped<M: Machine>(call: &Call<M>, claim: Claim, done: u64, stop: Stop) -> Result<(), Stop> {
    let result = stopped(call, done, stop).map(drop);
    if call.thread.progress.get() != 0 {
        claim.keep(call.thread);
    }
    if stop == Stop::Page { result } else { Err(stop) }
}

/// Checks that a file can have an offset, and one `len` bytes behind it.
fn check_end(offset: u64, len: u64) -> Result<(), Errno> {
    let end = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64);
    end.map(drop).ok_or(Errno::EINVAL)
}

/// Checks the offset of `pread64` and its like.
fn check_offset<M: Machine>(file: &OpenFile<M>, offset: u64) -> Result<u64, Errno> {
    check_end(offset, 0)?;
    match file.kind() {
        Kind::Pipe(_) | Kind::Anonymous(_) => Err(Errno::ESPIPE),
        Kind::Inode(_) | Kind::Device(_) | Kind::Proc(_) => Ok(offset),
    }
}
