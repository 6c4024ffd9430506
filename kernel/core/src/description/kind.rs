//! What a kind of file is.
//!
//! A kind is a small type in a file of its own, next to what it does. It says what its open files are and serves what calls ask of them. What
//! it says nothing about is answered as Linux answers for files that lack it. `file::kind` has the list of all kinds, and the one match over it.

use core::fmt;

use motet_abi::{Errno, file::*, terminal::*};
use motet_hal::Machine;
use motet_layout::{
    Cell32, Cell64, FileRecord, InodeRecord, PipeRecord, WaitQueue, in_order,
    sync::{AtomicU32, Ordering},
};
use motet_protocol::Context;

use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    mm,
};

/// There is something to read.
pub const INPUT: u16 = POLLIN | POLLRDNORM;
/// There is room to write.
pub const OUTPUT: u16 = POLLOUT | POLLWRNORM;

/// `bits`, under a condition.
#[inline(always)]
pub fn if_so(condition: bool, bits: u16) -> u16 {
    if condition { bits } else { 0 }
}

/// Bits for a file of which reads, and writes, would not wait.
pub fn ready((readable, writable): (bool, bool)) -> u16 {
    if_so(readable, INPUT) | if_so(writable, OUTPUT)
}

/// Queues of those who wait for a file to become readable, and writable, each with the events that it tells of. If hang-ups and
/// errors wake one of them only, that one tells of everything: `u16::MAX`.
pub type Queues = [(Option<&'static WaitQueue>, u16); 2];

/// Queues of which one tells of input, and one of room for output.
pub fn queues(readable: Option<&'static WaitQueue>, writable: Option<&'static WaitQueue>) -> Queues {
    [(readable, INPUT), (writable, OUTPUT)]
}

/// What is so of all open files of a kind.
#[derive(Clone, Copy)]
pub struct Facts {
    /// Type and permissions of one without an inode (`st_mode`).
    pub mode: u32,
    /// The file system that such a one is in (`f_type`).
    pub file_system: i64,
    /// Calls may say where they read and write (`pread64`); otherwise `ESPIPE`.
    pub has_offsets: bool,
    /// A call may ask not to wait (`RWF_NOWAIT`); otherwise `EOPNOTSUPP`.
    pub supports_nowait: bool,
    /// Flags that `F_SETFL` refuses.
    pub refused_flags: u32,
    /// `O_ASYNC` means something, if anybody can wait for it: its owner is told by a signal. Of others, it is ignored, as on Linux.
    pub has_signals: bool,
    /// Its readiness may change, or show, without its queues being woken: `epoll` asks it each time.
    pub is_asked: bool,
}

impl Facts {
    /// Those of files that only descriptors name.
    pub const ANONYMOUS: Self = Self {
        // They have no type.
        mode: 0o600,
        file_system: ANON_INODE_FS_MAGIC,
        has_offsets: false,
        supports_nowait: false,
        refused_flags: 0,
        has_signals: false,
        is_asked: false,
    };
}

/// What `fchmod` and `fchown` change of a file without an inode.
pub struct Attributes {
    /// 1 + its permissions, 0: those of its kind.
    pub mode: &'static Cell64,
    /// Its user and group; not yet, if `mode` is 0.
    pub owner: [&'static Cell32; 2],
}

impl Attributes {
    /// Permissions, user and group of an open file that has these.
    pub fn get(&self, file: &FileRecord, facts: Facts) -> (u32, [u32; 2]) {
        match self.mode.get() {
            0 => (facts.mode, [file.uid.get(), file.gid.get()]),
            mode => (facts.mode & S_IFMT | mode as u32 - 1, self.owner.map(Cell32::get)),
        }
    }

    /// Changes them.
    pub fn set(&self, mode: u32, owner: [u32; 2]) {
        for (cell, id) in self.owner.iter().zip(owner) {
            cell.set(id);
        }
        in_order();
        self.mode.set(u64::from(mode & 0o7777) + 1);
    }
}

/// How a call reads or writes: two words, which stay in registers.
#[derive(Clone, Copy)]
pub struct Transfer {
    at: u64,
    flags: u32,
}

impl Transfer {
    /// [`Self::at`]: nowhere else. No file is that long.
    const OWN: u64 = u64::MAX;

    /// As the file was opened, at its own position unless `at` gives another.
    #[inline(always)]
    pub fn of(file: &FileRecord, at: Option<u64>) -> Self {
        Self { at: at.unwrap_or(Self::OWN), flags: file.flags.load(Ordering::Relaxed) }
    }

    /// As if the file's flags were others.
    #[inline(always)]
    pub fn with(self, flags: u32, without: u32) -> Self {
        Self { flags: (self.flags | flags) & !without, ..self }
    }

    /// Where, unless at the file's own position.
    #[inline(always)]
    pub fn at(self) -> Option<u64> {
        (self.at != Self::OWN).then_some(self.at)
    }

    /// It does not wait.
    #[inline(always)]
    pub fn nonblocking(self) -> bool {
        self.flags & O_NONBLOCK != 0
    }

    /// A write goes to the end.
    #[inline(always)]
    pub fn appends(self) -> bool {
        self.flags & O_APPEND != 0
    }
}

/// Where bytes that are sent to a file go.
#[derive(Clone, Copy)]
pub enum Outlet {
    /// Into it, at the position of its open file.
    Inode(&'static InodeRecord),
    /// Into a pipe.
    Pipe(&'static PipeRecord),
}

/// Fails with `EBADF` when a file is not open for reading.
///
/// # Errors
/// `EBADF`.
#[inline(always)]
pub fn check_readable(file: &FileRecord) -> Result<(), Errno> {
    let flags = file.flags.load(Ordering::Relaxed);
    if flags & (O_ACCMODE | O_PATH) == O_WRONLY || flags & O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    Ok(())
}

/// Fails with `EBADF` when a file is not open for writing.
///
/// # Errors
/// `EBADF`.
#[inline(always)]
pub fn check_writable(file: &FileRecord) -> Result<(), Errno> {
    let flags = file.flags.load(Ordering::Relaxed);
    if flags & O_ACCMODE == O_RDONLY || flags & O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    Ok(())
}

/// A kind of file: its value is what one open file of it is.
///
/// Methods get the open file's description where the value does not tell enough.
pub trait Kind: Copy {
    /// [`FileRecord::kind`] of its open files.
    const CODES: &'static [u32];
    /// What is so of all of them.
    const FACTS: Facts = Facts::ANONYMOUS;

    /// What an open file of this kind is. `None`: it refers to nothing, so the pool is corrupt.
    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self>;

    /// Writes what `/proc/PID/fd` says of it. `number` is its [`Self::number`].
    ///
    /// # Errors
    /// There is no room for it.
    fn write_name(self, number: u64, into: &mut impl fmt::Write) -> fmt::Result;

    /// Writes what `/proc/PID/fdinfo` says of it beside what it says of all.
    ///
    /// # Errors
    /// There is no room for it.
    fn write_info<M: Machine>(self, _cpu: &Cpu<M>, _into: &mut impl fmt::Write) -> fmt::Result {
        Ok(())
    }

    /// Reads.
    ///
    /// # Errors
    /// `EINVAL`: it cannot be read.
    #[inline(always)]
    fn read<M: Machine>(
        self,
        _call: &Call<M>,
        _file: &'static FileRecord,
        _how: Transfer,
        _into: &mut Cursor<M>,
    ) -> SysResult {
        Err(Errno::EINVAL.into())
    }

    /// Writes.
    ///
    /// # Errors
    /// `EINVAL`: it cannot be written.
    #[inline(always)]
    fn write<M: Machine>(
        self,
        _call: &Call<M>,
        _file: &'static FileRecord,
        _how: Transfer,
        _from: &mut Cursor<M>,
    ) -> SysResult {
        Err(Errno::EINVAL.into())
    }

    /// `lseek`, to an offset from a place (`SEEK_*`).
    ///
    /// # Errors
    /// `ESPIPE`: it has no position; `EINVAL`, `ENXIO`.
    fn seek<M: Machine>(self, _call: &Call<M>, _file: &FileRecord, _to: (i64, u32)) -> SysResult {
        Err(Errno::ESPIPE.into())
    }

    /// The events for which it is ready (`POLL*`), and those that are always reported.
    fn readiness<M: Machine>(self, _call: &Call<M>, _file: &FileRecord) -> u16 {
        INPUT | OUTPUT
    }

    /// Who waits for it. If nobody can, it is always ready.
    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        queues(None, None)
    }

    /// A word that is not 0 if somebody found no room to write: only then is its owner told that there is. `None`: always.
    fn wanted_room(self) -> Option<&'static AtomicU32> {
        None
    }

    /// Counts that tell whether anything has come to it, for reading and for writing: they change when it does. `None`: nobody counts.
    fn arrivals<M: Machine>(self, _cpu: &Cpu<M>) -> [Option<u64>; 2] {
        [None, None]
    }

    /// When it becomes ready by time alone, which wakes no queue, in machine time (`u64::MAX`: it does not).
    fn ready_ns<M: Machine>(self, _call: &Call<M>) -> u64 {
        u64::MAX
    }

    /// `ioctl`. `memory(fd, (offset, bytes))` returns the pages that the file behind a descriptor has for a virtual machine ([`Self::memory`]), with a reference.
    ///
    /// # Errors
    /// `ENOTTY`.
    fn ioctl<M: Machine>(
        self,
        call: &Call<M>,
        file: &FileRecord,
        request: (u32, u64),
        _memory: impl FnOnce(i32, (u64, u64)) -> Result<&'static InodeRecord, Errno>,
    ) -> SysResult {
        answer_ioctl(self, call, file, request)
    }

    /// Bytes that a read would return.
    ///
    /// # Errors
    /// `ENOTTY`: it does not tell.
    fn bytes_ready<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Result<u64, Errno> {
        Err(Errno::ENOTTY)
    }

    /// What `mmap` maps of it; `None`: memory without a file. The file is open for reading, and for writing if the mapping is shared and can be
    /// written.
    ///
    /// # Errors
    /// `ENODEV`: it cannot be mapped, or not so.
    fn map<'c, M: Machine>(
        self,
        _call: &Call<'c, M>,
        _file: &FileRecord,
        _writable_shared: bool,
    ) -> Result<Option<mm::Mappable<'c, M>>, Errno> {
        Err(Errno::ENODEV)
    }

    /// The pages that it offers to a virtual machine as memory, from an offset on.
    fn memory(self, _offset: u64) -> Option<&'static InodeRecord> {
        None
    }

    /// Where bytes that `sendfile` sends to it go.
    ///
    /// # Errors
    /// `EINVAL`: nowhere. Programs then read and write.
    fn outlet<M: Machine>(self, _call: &Call<M>) -> Result<Outlet, Errno> {
        Err(Errno::EINVAL)
    }

    /// Opens it again, without a name, by `/proc/PID/fd`.
    ///
    /// # Errors
    /// `ENXIO`: that cannot be done; `ENFILE`.
    fn reopen<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord, _flags: u32) -> Result<&'static FileRecord, Errno> {
        Err(Errno::ENXIO)
    }

    /// Its number as a file without an inode (`st_ino`).
    fn number<M: Machine>(self, cpu: &Cpu<M>, file: &'static FileRecord) -> u64 {
        number_of(cpu.raw(file))
    }

    /// Where its permissions and its owner are, if it has no inode. `None`: they cannot be changed.
    fn attributes(self, _file: &'static FileRecord) -> Option<Attributes> {
        None
    }

    /// The device that it is (`st_rdev`).
    fn device(self) -> Device {
        Device::default()
    }

    /// The open file is about to be closed: tells those who may wait for that. Another core does it once more if this one dies.
    fn end<M: Machine>(self, _cpu: &Cpu<M>, _file: &'static FileRecord) {}

    /// The open file is closed: gives back what it refers to, except the inode of its name.
    fn close<M: Machine>(self, _cpu: &Cpu<M>, _file: &'static FileRecord) {}
}

/// The number of an open file as a file without an inode, by its pool address; 0 of none.
pub fn number_of(raw: u64) -> u64 {
    raw >> 6
}

/// The `ioctl` of a kind that has none of its own: `FIONREAD`.
///
/// # Errors
/// `ENOTTY`: it is another one, or the file does not tell.
pub fn answer_ioctl<M: Machine>(
    kind: impl Kind,
    call: &Call<M>,
    file: &FileRecord,
    (request, argument): (u32, u64),
) -> SysResult {
    if request != FIONREAD {
        return Err(Errno::ENOTTY.into());
    }
    call.write_user(argument, &(kind.bytes_ready(call.cpu, file)? as u32).to_le_bytes())?;
    Ok(0)
}

/// What an open file is, if it is of that kind.
#[inline]
pub fn as_kind<M: Machine, K: Kind>(cpu: &Cpu<M>, file: &FileRecord) -> Option<K> {
    K::CODES.contains(&file.kind.get()).then(|| object(cpu, file))
}

/// What an open file is, which is of that kind.
///
/// # Panics
/// When there is no such object: the pool is corrupt.
#[inline(always)]
pub fn object<M: Machine, K: Kind>(cpu: &Cpu<M>, file: &FileRecord) -> K {
    match K::of(cpu, file) {
        Some(kind) => kind,
        None => without_object(file),
    }
}

/// The kind of an open file is none, or there is no such object.
#[cold]
pub fn without_object(file: &FileRecord) -> ! {
    panic!("open file of kind {} without an object: shared structures are corrupt", file.kind.get())
}
