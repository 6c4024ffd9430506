//! Open file descriptions: what descriptors refer to.

use core::ops::Deref;
use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{
    ClockRecord, DmaFile, EpollRecord, EventRecord, FILE_ACCEL, FILE_DEVICE, FILE_DMA, FILE_EPOLL, FILE_EVENT,
    FILE_INODE, FILE_LATE, FILE_PIPE_BOTH, FILE_PIPE_READ, FILE_PIPE_WRITE, FILE_PROC, FILE_SERVICE, FILE_SIGNAL,
    FILE_SOCKET, FILE_TIMER, FILE_VM, FileRecord, InodeRecord, PipeRecord, SocketRecord, VmRecord,
};
use motet_protocol::{
    Context, fs, hand, pipe,
    slab::{self, SlabObject},
};

use super::{busy, epoll, event, lock, proc::ProcNode, range_lock, socket, table, timer};
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    kinds::{dma, late},
    vm,
};

pub use crate::description::{Parts, create};

/// What kind of thing an open file is.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A regular file, directory or (with `O_PATH`) anything in the ramfs.
    Inode(&'static InodeRecord),
    /// An end, or both, of a pipe.
    Pipe(&'static PipeRecord),
    /// A character device, by its Linux number.
    Device(Device),
    /// A file of procfs.
    Proc(ProcNode),
    /// What has neither a name nor a type.
    Anonymous(Anonymous),
}

/// Files that only descriptors name.
#[derive(Clone, Copy)]
pub enum Anonymous {
    /// An event counter.
    Event(&'static EventRecord),
    /// An interest list.
    Epoll(&'static EpollRecord),
    /// A timer.
    Timer(&'static ClockRecord),
    /// Signals that are read: the set.
    Signals(u64),
    /// A socket.
    Socket(&'static SocketRecord),
    /// Transfers. It has a name, but each open file has its own.
    Dma(&'static DmaFile),
    /// The service core's registers. They have a name, but each open file has its own.
    Service(&'static InodeRecord),
    /// An interface of the FPGA: registers and data. It has a name, but each open file has its own.
    Accel(&'static InodeRecord),
    /// Pages that arrive late. They have a name, but each open file has its own.
    Late(&'static InodeRecord),
    /// A virtual machine. They have a name in common, but each open file is one.
    Vm(&'static VmRecord),
}

/// A use of an open file during a system call. It holds a reference if someone else could close the file meanwhile.
pub struct OpenFile<'c, M: Machine> {
    cpu: &'c Cpu<M>,
    record: &'static FileRecord,
    counted: bool,
}

impl<'c, M: Machine> OpenFile<'c, M> {
    /// A use that drops one reference, which the caller hands over, when `counted`.
    #[inline(always)]
    pub fn new(cpu: &'c Cpu<M>, record: &'static FileRecord, counted: bool) -> Self {
        Self { cpu, record, counted }
    }

    /// The core that uses it.
    pub fn cpu(&self) -> &'c Cpu<M> {
        self.cpu
    }

    /// The description.
    pub fn record(&self) -> &'static FileRecord {
        self.record
    }

    /// The description with a reference that the caller must [`put`].
    pub fn release(self) -> &'static FileRecord {
        if !self.counted {
            hand::take(self.cpu, self.record);
        }
        let record = self.record;
        core::mem::forget(self);
        record
    }

    /// The kind of the file.
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        kind(self.cpu, self.record)
    }

    /// Its inode, if it has one.
    pub fn inode(&self) -> Option<&'static InodeRecord> {
        self.cpu.object(self.record.inode.get())
    }

    /// The description's present open flags.
    #[inline(always)]
    pub fn flags(&self) -> u32 {
        self.record.flags.load(Ordering::Relaxed)
    }

    /// Fails with `EBADF` when the file is not open for reading.
    #[inline(always)]
    pub fn check_readable(&self) -> Result<(), Errno> {
        if self.flags() & (O_ACCMODE | O_PATH) == O_WRONLY || self.flags() & O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        Ok(())
    }

    /// Fails with `EBADF` when the file is not open for writing.
    #[inline(always)]
    pub fn check_writable(&self) -> Result<(), Errno> {
        if self.flags() & O_ACCMODE == O_RDONLY || self.flags() & O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        Ok(())
    }

    /// Whether operations must not wait.
    #[inline(always)]
    pub fn nonblocking(&self) -> bool {
        self.flags() & O_NONBLOCK != 0
    }
}

impl<M: Machine> Clone for OpenFile<'_, M> {
    fn clone(&self) -> Self {
        hand::take(self.cpu, self.record);
        Self { cpu: self.cpu, record: self.record, counted: true }
    }
}

impl<M: Machine> Deref for OpenFile<'_, M> {
    type Target = FileRecord;

    #[inline(always)]
    fn deref(&self) -> &FileRecord {
        self.record
    }
}

impl<M: Machine> Drop for OpenFile<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.counted {
            put(self.cpu, self.record);
        }
    }
}

/// What an open file is.
///
/// # Panics
/// When the description's kind is none: the pool is corrupt.
#[inline(always)]
pub fn kind<M: Machine>(cpu: &Cpu<M>, record: &FileRecord) -> Kind {
    let object = record.object.get();
    let found = match record.kind.get() {
        FILE_INODE => cpu.object(record.inode.get()).map(Kind::Inode),
        FILE_PIPE_READ | FILE_PIPE_WRITE | FILE_PIPE_BOTH => cpu.object(object).map(Kind::Pipe),
        FILE_DEVICE => Some(Kind::Device(Device::decode(object as u32))),
        FILE_PROC => Some(Kind::Proc(ProcNode::from_raw(object))),
        FILE_EVENT => cpu.object(object).map(|counter| Kind::Anonymous(Anonymous::Event(counter))),
        FILE_EPOLL => cpu.object(object).map(|list| Kind::Anonymous(Anonymous::Epoll(list))),
        FILE_TIMER => cpu.object(object).map(|timer| Kind::Anonymous(Anonymous::Timer(timer))),
        FILE_SIGNAL => Some(Kind::Anonymous(Anonymous::Signals(object))),
        FILE_SOCKET => cpu.object(object).map(|socket| Kind::Anonymous(Anonymous::Socket(socket))),
        FILE_DMA => cpu.object(object).map(|file| Kind::Anonymous(Anonymous::Dma(file))),
        FILE_SERVICE => cpu.object(object).map(|registers| Kind::Anonymous(Anonymous::Service(registers))),
        FILE_LATE => cpu.object(object).map(|pages| Kind::Anonymous(Anonymous::Late(pages))),
        FILE_VM => cpu.object(object).map(|vm| Kind::Anonymous(Anonymous::Vm(vm))),
        FILE_ACCEL => cpu.object(object).map(|pages| Kind::Anonymous(Anonymous::Accel(pages))),
        _ => None,
    };
    match found {
        Some(kind) => kind,
        None => without_object(record),
    }
}

#[cold]
fn without_object(record: &FileRecord) -> ! {
    panic!("open file of kind {} without an object: shared structures are corrupt", record.kind.get())
}

/// Opens an object that only descriptors name: gives it a description with these open flags, and that a descriptor.
///
/// # Errors
/// `ENFILE`, `EMFILE`; the object is freed.
pub fn open_anonymous<M: Machine, T: SlabObject>(
    call: &Call<M>,
    kind: u32,
    object: &'static T,
    flags: u32,
) -> SysResult {
    match create(call.cpu, &Parts { kind, flags, inode: None, object: call.cpu.raw(object) }) {
        Ok(record) => Ok(table::install(call, record, flags & O_CLOEXEC != 0, 0)?),
        Err(errno) => {
            slab::free(call.cpu, object);
            Err(errno.into())
        }
    }
}

/// Drops a reference that is in hand; the last one closes the file.
#[inline]
pub fn put<M: Machine>(cpu: &Cpu<M>, record: &'static FileRecord) {
    if hand::drop_one(cpu, record) {
        close_last(cpu, record);
    }
}

/// Closes a file that has no reference any more.
pub fn close_last<M: Machine>(cpu: &Cpu<M>, record: &'static FileRecord) {
    let kind = kind(cpu, record);
    tell_of_end(cpu, record, kind);
    hand::closed(cpu, record);
    match kind {
        Kind::Pipe(ends) => {
            // A description of both ends has one reference for each.
            pipe::put(cpu, ends);
            if record.kind.get() == FILE_PIPE_BOTH {
                pipe::put(cpu, ends);
            }
        }
        Kind::Anonymous(Anonymous::Event(counter)) => event::free(cpu, counter),
        Kind::Anonymous(Anonymous::Epoll(list)) => epoll::free(cpu, list),
        Kind::Anonymous(Anonymous::Timer(timer)) => timer::free(cpu, timer),
        Kind::Anonymous(Anonymous::Socket(socket)) => socket::close(cpu, socket),
        Kind::Anonymous(Anonymous::Dma(file)) => dma::close(cpu, file),
        Kind::Anonymous(Anonymous::Vm(machine)) => vm::close(cpu, machine),
        Kind::Anonymous(Anonymous::Service(pages) | Anonymous::Accel(pages) | Anonymous::Late(pages)) => {
            fs::put(cpu, pages);
        }
        Kind::Inode(_) | Kind::Device(_) | Kind::Proc(_) | Kind::Anonymous(Anonymous::Signals(_)) => {}
    }
    if let Some(inode) = cpu.object(record.inode.get()) {
        busy::closed(record, inode);
        fs::put(cpu, inode);
    }
    slab::free(cpu, record);
}

/// What others may wait for when a file is closed. Another core does this once more if this one dies.
fn tell_of_end<M: Machine>(cpu: &Cpu<M>, record: &'static FileRecord, kind: Kind) {
    lock::release_of_file(cpu, record);
    range_lock::file_closed(cpu, record);
    if record.watches.get() != 0 {
        epoll::forget(cpu, record);
    }
    match kind {
        Kind::Pipe(ends) => {
            pipe::close(cpu, ends, ends_of(record), &record.ended);
        }
        Kind::Anonymous(Anonymous::Socket(socket)) => socket::end(cpu, socket),
        Kind::Anonymous(Anonymous::Late(pages)) => late::end(cpu, pages),
        Kind::Inode(_) | Kind::Device(_) | Kind::Proc(_) | Kind::Anonymous(_) => {}
    }
}

/// Which ends of its pipe a description opens.
pub fn ends_of(record: &FileRecord) -> u32 {
    match record.kind.get() {
        FILE_PIPE_READ => pipe::READER,
        FILE_PIPE_WRITE => pipe::WRITER,
        _ => pipe::READER | pipe::WRITER,
    }
}
