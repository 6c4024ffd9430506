//! Reading and writing: `read`, `write` and their relatives. What they do to a file is its kind's ([`crate::description::kind::Kind`]).
//!
//! A call that waits or pauses keeps the bytes it has done in the thread's `progress`. A transfer that pauses keeps the file, even if its descriptor is closed.

use motet_abi::{
    Errno,
    file::{O_APPEND, O_NONBLOCK},
};
use motet_hal::{Access, Machine};
use motet_layout::{FileRecord, ThreadRecord};
use motet_protocol::{
    Context,
    hand::{self, Holder},
};

use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{Transfer, as_kind},
    file::{
        descriptor::{
            description::{self, OpenFile},
            table,
        },
        kinds::{
            inode::{Inode, goes_on},
            pipe,
        },
    },
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
    if let Some(read) = pipe::read_short(call, file.record(), buffer, len) {
        return Ok(read);
    }
    read_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Write), own(&file))
}

/// `write(fd, buffer, length)`.
#[inline]
pub fn write<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, ..] = call.args;
    let file = open_file(call, fd)?;
    if pipe::write_short(call, file.record(), buffer, len) {
        return Ok(len);
    }
    write_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Read), own(&file))
}

/// `readv(fd, vector, count)`.
pub fn readv<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, ..] = call.args;
    let file = open_file(call, fd)?;
    read_file(call, &file, &mut Cursor::vector(call, vector, count, Access::Write)?, own(&file))
}

/// `writev(fd, vector, count)`.
pub fn writev<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, ..] = call.args;
    let file = open_file(call, fd)?;
    write_file(call, &file, &mut Cursor::vector(call, vector, count, Access::Read)?, own(&file))
}

/// `pread64(fd, buffer, length, offset)`.
pub fn pread64<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, offset, ..] = call.args;
    check_end(offset, 0)?;
    let file = open_file(call, fd)?;
    read_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Write), at(&file, offset)?)
}

/// `pwrite64(fd, buffer, length, offset)`.
pub fn pwrite64<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, buffer, len, offset, ..] = call.args;
    check_end(offset, len)?;
    let file = open_file(call, fd)?;
    write_file(call, &file, &mut Cursor::new(call, buffer, len, Access::Read), at(&file, offset)?)
}

/// `preadv(fd, vector, count, offset)`; the offset's second argument word matters on 32-bit ISAs only.
pub fn preadv<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, offset, ..] = call.args;
    let file = open_file(call, fd)?;
    let mut cursor = Cursor::vector(call, vector, count, Access::Write)?;
    read_file(call, &file, &mut cursor, at(&file, offset)?)
}

/// `pwritev(fd, vector, count, offset)`.
pub fn pwritev<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, offset, ..] = call.args;
    let file = open_file(call, fd)?;
    let mut cursor = Cursor::vector(call, vector, count, Access::Read)?;
    write_file(call, &file, &mut cursor, at(&file, offset)?)
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
    let how = Transfer::of(file.record(), at);
    read_file(call, &file, &mut cursor, how.with(waiting(flags as u32), 0))
}

/// `pwritev2(fd, vector, count, offset, -, flags)`: as [`preadv2`]; `RWF_APPEND` and `RWF_NOAPPEND` come before what the file was opened with.
pub fn pwritev2<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, vector, count, offset, _, flags] = call.args;
    let file = open_file(call, fd)?;
    let mut cursor = Cursor::vector(call, vector, count, Access::Read)?;
    let at = if offset == POSITION_OWN { None } else { Some(check_offset(&file, offset)?) };
    let flags = flags as u32;
    check_transfer_flags(&file, flags)?;
    let how = Transfer::of(file.record(), at);
    let appends = if flags & RWF_APPEND != 0 { O_APPEND } else { 0 };
    let never_appends = if flags & RWF_NOAPPEND != 0 { O_APPEND } else { 0 };
    write_file(call, &file, &mut cursor, how.with(waiting(flags) | appends, never_appends))
}

/// The open flag by which a transfer with these flags does not wait.
fn waiting(flags: u32) -> u32 {
    if flags & RWF_NOWAIT != 0 { O_NONBLOCK } else { 0 }
}

/// Checks the flags of [`preadv2`].
fn check_transfer_flags<M: Machine>(file: &OpenFile<M>, flags: u32) -> Result<(), Errno> {
    if flags & !(RWF_MEANINGLESS | RWF_NOWAIT | RWF_APPEND | RWF_NOAPPEND) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & RWF_APPEND != 0 && flags & RWF_NOAPPEND != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & RWF_NOWAIT != 0 && !file.facts().supports_nowait { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
}

/// [`motet_layout::ThreadRecord::scratch`] 1: a transfer has paused; 0 and 2 are the kind's, 3 is its file, with a reference.
const TRANSFERRING: u64 = u64::from_le_bytes(*b"transfer");

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
    if let Some(inode) = as_kind::<_, Inode>(cpu, record) {
        inode.transfer_ended(cpu, record, thread);
    }
    description::put(cpu, record);
}

/// Reads from any open file.
fn read_file<M: Machine>(call: &Call<M>, file: &OpenFile<M>, into: &mut Cursor<M>, how: Transfer) -> SysResult {
    file.check_readable()?;
    keep_if_paused(call, file, file.read(call, how, into))
}

/// Writes to any open file.
fn write_file<M: Machine>(call: &Call<M>, file: &OpenFile<M>, from: &mut Cursor<M>, how: Transfer) -> SysResult {
    file.check_writable()?;
    keep_if_paused(call, file, file.write(call, how, from))
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

/// Checks that a file can have an offset, and one `len` bytes behind it.
fn check_end(offset: u64, len: u64) -> Result<(), Errno> {
    let end = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64);
    end.map(drop).ok_or(Errno::EINVAL)
}

/// A transfer at the file's own position.
#[inline(always)]
fn own<M: Machine>(file: &OpenFile<M>) -> Transfer {
    Transfer::of(file.record(), None)
}

/// A transfer at the offset of `pread64` and its like.
fn at<M: Machine>(file: &OpenFile<M>, offset: u64) -> Result<Transfer, Errno> {
    Ok(Transfer::of(file.record(), Some(check_offset(file, offset)?)))
}

/// Checks the offset of `pread64` and its like.
fn check_offset<M: Machine>(file: &OpenFile<M>, offset: u64) -> Result<u64, Errno> {
    check_end(offset, 0)?;
    if file.facts().has_offsets { Ok(offset) } else { Err(Errno::ESPIPE) }
}
