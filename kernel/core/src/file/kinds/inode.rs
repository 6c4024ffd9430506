//! Files of the ramfs: regular ones and directories, or (with `O_PATH`) anything that has an inode.
//!
//! A transfer first resolves a page of user memory, then takes the file's lock and copies: no lock of a file is held
//! while user memory may fault.
//!
//! A transfer fixes at its beginning where it starts, and how far the description's position
//! moves. So calls that share a description do not interleave, and neither do writers that append, however long they take; other
//! concurrent transfers may interleave at page borders.

use core::fmt::{self, Write};

use motet_abi::{
    Errno,
    file::Device,
    inotify::{IN_ACCESS, IN_MODIFY},
    time::RLIMIT_FSIZE,
};
use motet_hal::Machine;
use motet_layout::{FILE_INODE, FileRecord, InodeRecord, PAGE_SHIFT, PAGE_SIZE, ThreadRecord, sync::Ordering};
use motet_protocol::{
    Context,
    fs::{self, Held},
};

use super::metadata::{accessed, drop_privileges, exceeds_size, happened_by, modified};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cursor::{Cursor, partial, stopped},
    description::kind::{Facts, Kind, Outlet, Transfer, check_writable},
    due,
    file::descriptor::{
        busy,
        description::{self, OpenFile, Parts},
        position::{own_position, seek},
    },
    mm,
    tree::limit_of,
};

/// The device that the ramfs's files are on.
pub const DEVICE: Device = Device { major: 0, minor: 2 };

/// A file of the ramfs.
#[derive(Clone, Copy)]
pub struct Inode(pub &'static InodeRecord);

impl Kind for Inode {
    const CODES: &'static [u32] = &[FILE_INODE];
    const FACTS: Facts = Facts { has_offsets: true, ..Facts::ANONYMOUS };

    #[inline(always)]
    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.inode.get()).map(Self)
    }

    fn write_name(self, number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "file:[{number}]")
    }

    #[inline(always)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        read(call, (file, self.0), how, into)
    }

    #[inline(always)]
    fn write<M: Machine>(
        self,
        call: &Call<M>,
        file: &'static FileRecord,
        how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        write(call, (file, self.0), how, from)
    }

    fn seek<M: Machine>(self, call: &Call<M>, file: &FileRecord, to: (i64, u32)) -> SysResult {
        let size = || self.0.size.load(Ordering::Relaxed);
        seek(call, file, to, size, |offset, size, is_hole| next_region(call, self.0, offset, size, is_hole))
    }

    fn bytes_ready<M: Machine>(self, _cpu: &Cpu<M>, file: &FileRecord) -> Result<u64, Errno> {
        if fs::is_directory(self.0) {
            return Err(Errno::ENOTTY);
        }
        Ok(self.0.size.load(Ordering::Relaxed).saturating_sub(file.offset.load(Ordering::Relaxed)))
    }

    fn map<'c, M: Machine>(
        self,
        call: &Call<'c, M>,
        file: &FileRecord,
        _writable_shared: bool,
    ) -> Result<Option<mm::Mappable<'c, M>>, Errno> {
        let inode = self.regular().ok_or(Errno::ENODEV)?;
        accessed(call.cpu, inode, file.flags.load(Ordering::Relaxed));
        let may_write = check_writable(file).is_ok();
        Ok(Some(mm::Mappable { inode: Held::new(call.cpu, inode), may_write }))
    }

    fn memory(self, _offset: u64) -> Option<&'static InodeRecord> {
        self.regular()
    }

    fn outlet<M: Machine>(self, _call: &Call<M>) -> Result<Outlet, Errno> {
        Ok(Outlet::Inode(self.0))
    }
}

impl Inode {
    fn regular(self) -> Option<&'static InodeRecord> {
        (fs::file_type(self.0) == fs::TYPE_REGULAR).then_some(self.0)
    }

    /// Gives back what the paused transfer of a thread that ends has claimed and not used.
    pub fn transfer_ended<M: Machine>(self, cpu: &Cpu<M>, file: &FileRecord, thread: &ThreadRecord) {
        settle(cpu, file, self.0, Claim::kept(thread), thread.progress.get());
    }
}

impl<M: Machine> OpenFile<'_, M> {
    /// The inode, if it is a file of the ramfs.
    pub fn of_ramfs(&self) -> Option<&'static InodeRecord> {
        self.as_kind().map(|Inode(inode)| inode)
    }

    /// The inode, if it is a regular file.
    pub fn regular(&self) -> Option<&'static InodeRecord> {
        self.as_kind().and_then(Inode::regular)
    }
}

/// Opens a file of the ramfs as what it is.
///
/// # Errors
/// `ENFILE`.
pub fn open<M: Machine>(call: &Call<M>, inode: Held<'_, Cpu<M>>, flags: u32) -> Result<&'static FileRecord, Errno> {
    let parts = Parts { kind: FILE_INODE, flags, inode: Some(inode.inode()), object: 0 };
    let record = description::create(call.cpu, &parts)?;
    busy::opened(record, inode.inode(), flags);
    // The description has taken over the reference.
    inode.release();
    Ok(record)
}

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

fn read<M: Machine>(
    call: &Call<M>,
    (file, inode): (&FileRecord, &'static InodeRecord),
    how: Transfer,
    into: &mut Cursor<M>,
) -> SysResult {
    if fs::is_directory(inode) {
        return Err(Errno::EISDIR.into());
    }
    let claim = match begun(call) {
        Some(claim) => claim,
        None => {
            accessed(call.cpu, inode, file.flags.load(Ordering::Relaxed));
            let (_guard, start) = own_position(call, file, how.at());
            let left = inode.size.load(Ordering::Relaxed).saturating_sub(start);
            if left == 0 {
                return Ok(0);
            }
            let end = start + left.min(into.remaining());
            if how.at().is_none() {
                file.offset.store(end, Ordering::Relaxed);
            }
            Claim { start, end: if how.at().is_none() { end } else { 0 }, appends: false }
        }
    };
    let moved = move_bytes(call, inode, claim, false, into);
    if let Err(stop) = moved
        && goes_on(call, stop)
    {
        return Err(stop);
    }
    settle_position(file, claim, into.done());
    happened_by(call.cpu, file, into.done(), IN_ACCESS);
    match moved {
        Ok(()) => Ok(into.done()),
        Err(stop) => partial(into.done(), stop),
    }
}

fn write<M: Machine>(
    call: &Call<M>,
    (file, inode): (&FileRecord, &'static InodeRecord),
    how: Transfer,
    from: &mut Cursor<M>,
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
            let (guard, own) = own_position(call, file, how.at());
            if limit != u64::MAX {
                let start = if how.appends() { inode.size.load(Ordering::Relaxed) } else { own };
                from.shorten(limit.saturating_sub(start));
                if from.remaining() == 0 {
                    drop(guard);
                    return Err(exceeds_size(call).into());
                }
            }
            let len = from.remaining();
            let start = if how.appends() { fs::reserve(call.cpu, inode, len)? } else { own };
            let end = start.saturating_add(len);
            if how.at().is_none() {
                file.offset.store(end, Ordering::Relaxed);
            }
            Claim { start, end: if how.at().is_none() || how.appends() { end } else { 0 }, appends: how.appends() }
        }
    };
    let moved = move_bytes(call, inode, claim, true, from);
    if let Err(stop) = moved
        && goes_on(call, stop)
    {
        return Err(stop);
    }
    let done = from.done();
    settle(call.cpu, file, inode, claim, done);
    modified(call.cpu, inode);
    happened_by(call.cpu, file, done, IN_MODIFY);
    match moved {
        Ok(()) => Ok(done),
        Err(stop) => partial(done, stop),
    }
}

/// Whether a transfer that has stopped keeps what it has claimed, and goes on later.
pub fn goes_on<M: Machine>(call: &Call<M>, stop: Stop) -> bool {
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
fn move_bytes<M: Machine>(
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

/// [`move_bytes`] has stopped after `done` bytes. If a page comes later, it goes on then, unless a signal ends it.
#[cold]
fn move_stopped<M: Machine>(call: &Call<M>, claim: Claim, done: u64, stop: Stop) -> Result<(), Stop> {
    let result = stopped(call, done, stop).map(drop);
    if call.thread.progress.get() != 0 {
        claim.keep(call.thread);
    }
    if stop == Stop::Page { result } else { Err(stop) }
}

/// The first offset from `offset` on that lies in a hole (or not in one). The end of the file is a hole.
fn next_region<M: Machine>(
    call: &Call<M>,
    inode: &'static InodeRecord,
    offset: i64,
    size: u64,
    hole: bool,
) -> Result<i64, Errno> {
    if fs::is_directory(inode) {
        return Err(Errno::EINVAL);
    }
    let mut at = u64::try_from(offset).ok().filter(|&at| at < size).ok_or(Errno::ENXIO)?;
    while at < size {
        let absent = fs::absent_pages(call.cpu, inode, at >> PAGE_SHIFT);
        if (absent == 0) != hole {
            return Ok(at as i64);
        }
        at = (at & !(PAGE_SIZE - 1)).saturating_add(absent.max(1).saturating_mul(PAGE_SIZE));
        due::spend_locked(call.cpu, cost::OBJECT);
    }
    if hole { Ok(size as i64) } else { Err(Errno::ENXIO) }
}
