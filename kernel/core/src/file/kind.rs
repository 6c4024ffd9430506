//! The list of all kinds of files, and the one match over it.
//!
//! Who adds a kind writes its file, in which a type implements [`Kind`], and adds a row here. All that calls ask of an open file goes through this
//! match, so no other code asks which kind a file is, unless it is about one kind alone ([`OpenFile::as_kind`]; short messages through pipes).

use core::fmt;

use motet_abi::{Errno, file::Device};
use motet_hal::Machine;
use motet_layout::{
    FILE_ACCEL, FILE_DEVICE, FILE_DMA, FILE_EPOLL, FILE_EVENT, FILE_INODE, FILE_INOTIFY, FILE_LATE, FILE_PIDFD,
    FILE_PIPE_BOTH, FILE_PIPE_READ, FILE_PIPE_WRITE, FILE_PROC, FILE_PTY, FILE_PTY_MASTER, FILE_QUEUE, FILE_SERVICE,
    FILE_SIGNAL, FILE_SOCKET, FILE_TIMER, FILE_VM, FileRecord, InodeRecord,
    sync::{AtomicU32, Ordering},
};

use super::{
    descriptor::{
        description::{Closing, OpenFile},
        lock, owner, range_lock,
    },
    kinds::{
        event::Event,
        inode::Inode,
        inotify::Inotify,
        message_queue::MessageQueue,
        pidfd::Pidfd,
        pipe::Pipe,
        pty::{Pty, PtyMaster},
        signal_fd::Signals,
        timer::Timer,
    },
    proc::ProcNode,
    readiness::epoll::{self, Epoll},
    socket::Socket,
};
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{Attributes, Facts, Kind, Outlet, Queues, Transfer, object, without_object},
    kinds::{accel::Accel, dma::Dma, late::Late, service::Service},
    mm,
    vm::Vm,
};

/// Does something with what an open file is, whatever kind that is of.
macro_rules! of_kind {
    ($cpu:expr, $file:expr, $kind:ident => $then:expr) => {
        of_kind! { @rows $cpu, $file, $kind => $then;
            FILE_INODE => Inode,
            FILE_PIPE_READ | FILE_PIPE_WRITE | FILE_PIPE_BOTH => Pipe,
            FILE_DEVICE => Device,
            FILE_PROC => ProcNode,
            FILE_EVENT => Event,
            FILE_EPOLL => Epoll,
            FILE_TIMER => Timer,
            FILE_SIGNAL => Signals,
            FILE_SOCKET => Socket,
            FILE_DMA => Dma,
            FILE_SERVICE => Service,
            FILE_ACCEL => Accel,
            FILE_VM => Vm,
            FILE_LATE => Late,
            FILE_PTY => Pty,
            FILE_PTY_MASTER => PtyMaster,
            FILE_PIDFD => Pidfd,
            FILE_INOTIFY => Inotify,
            FILE_QUEUE => MessageQueue,
        }
    };
    (@rows $cpu:expr, $file:expr, $kind:ident => $then:expr; $($($code:ident)|+ => $type:ty,)+) => {
        match $file.kind.get() {
            $($($code)|+ => {
                let $kind = object::<M, $type>($cpu, $file);
                $then
            })+
            _ => without_object($file),
        }
    };
}

/// # Panics
/// When the description's kind is none, or there is no such object: the pool is corrupt. So do all of these.
impl<M: Machine> OpenFile<'_, M> {
    /// What is so of all files of its kind.
    pub fn facts(&self) -> Facts {
        fn facts<K: Kind>(_: K) -> Facts {
            K::FACTS
        }
        of_kind!(self.cpu(), self.record(), kind => facts(kind))
    }

    /// [`Kind::read`]; the caller has looked whether it is open for that. Kinds that are not read often and do much have functions of their own
    /// (`inline(never)`), so that pipes and files need not save registers for them: up to 18 instructions in a round trip through pipes.
    #[inline(always)]
    pub fn read(&self, call: &Call<M>, how: Transfer, into: &mut Cursor<M>) -> SysResult {
        of_kind!(self.cpu(), self.record(), kind => Kind::read(kind, call, self.record(), how, into))
    }

    /// [`Kind::write`], likewise.
    #[inline(always)]
    pub fn write(&self, call: &Call<M>, how: Transfer, from: &mut Cursor<M>) -> SysResult {
        of_kind!(self.cpu(), self.record(), kind => Kind::write(kind, call, self.record(), how, from))
    }

    /// [`Kind::seek`].
    pub fn seek(&self, call: &Call<M>, to: (i64, u32)) -> SysResult {
        of_kind!(self.cpu(), self.record(), kind => Kind::seek(kind, call, self.record(), to))
    }

    /// [`Kind::readiness`].
    pub fn readiness(&self, call: &Call<M>) -> u16 {
        of_kind!(self.cpu(), self.record(), kind => Kind::readiness(kind, call, self.record()))
    }

    /// [`Kind::queues`].
    pub fn queues(&self) -> Queues {
        of_kind!(self.cpu(), self.record(), kind => Kind::queues(kind, self.cpu(), self.record()))
    }

    /// [`Kind::wanted_room`].
    pub fn wanted_room(&self) -> Option<&'static AtomicU32> {
        of_kind!(self.cpu(), self.record(), kind => Kind::wanted_room(kind))
    }

    /// [`Kind::arrivals`].
    pub fn arrivals(&self) -> [Option<u64>; 2] {
        of_kind!(self.cpu(), self.record(), kind => Kind::arrivals(kind, self.cpu()))
    }

    /// [`Kind::ready_ns`].
    pub fn ready_ns(&self, call: &Call<M>) -> u64 {
        of_kind!(self.cpu(), self.record(), kind => Kind::ready_ns(kind, call))
    }

    /// [`Kind::ioctl`].
    pub fn ioctl(
        &self,
        call: &Call<M>,
        request: (u32, u64),
        memory: impl FnOnce(i32, (u64, u64)) -> Result<&'static InodeRecord, Errno>,
    ) -> SysResult {
        of_kind!(self.cpu(), self.record(), kind => Kind::ioctl(kind, call, self.record(), request, memory))
    }

    /// [`Kind::map`].
    pub fn map<'c>(&self, call: &Call<'c, M>, writable_shared: bool) -> Result<Option<mm::Mappable<'c, M>>, Errno> {
        of_kind!(self.cpu(), self.record(), kind => Kind::map(kind, call, self.record(), writable_shared))
    }

    /// [`Kind::memory`].
    pub fn memory(&self, offset: u64) -> Option<&'static InodeRecord> {
        of_kind!(self.cpu(), self.record(), kind => Kind::memory(kind, offset))
    }

    /// [`Kind::outlet`].
    pub fn outlet(&self, call: &Call<M>) -> Result<Outlet, Errno> {
        of_kind!(self.cpu(), self.record(), kind => Kind::outlet(kind, call))
    }

    /// [`Kind::reopen`].
    pub fn reopen(&self, flags: u32) -> Result<&'static FileRecord, Errno> {
        of_kind!(self.cpu(), self.record(), kind => Kind::reopen(kind, self.cpu(), self.record(), flags))
    }

    /// [`Kind::number`].
    pub fn number(&self) -> u64 {
        of_kind!(self.cpu(), self.record(), kind => Kind::number(kind, self.cpu(), self.record()))
    }

    /// [`Kind::attributes`].
    pub fn attributes(&self) -> Option<Attributes> {
        of_kind!(self.cpu(), self.record(), kind => Kind::attributes(kind, self.record()))
    }

    /// [`Kind::device`].
    pub fn device(&self) -> Device {
        of_kind!(self.cpu(), self.record(), kind => Kind::device(kind))
    }

    /// [`Kind::write_name`].
    pub fn write_name(&self, into: &mut impl fmt::Write) -> fmt::Result {
        of_kind!(self.cpu(), self.record(), kind => Kind::write_name(kind, self.number(), into))
    }

    /// [`Kind::write_info`].
    pub fn write_info(&self, into: &mut impl fmt::Write) -> fmt::Result {
        of_kind!(self.cpu(), self.record(), kind => Kind::write_info(kind, self.cpu(), into))
    }
}

impl<M: Machine> Closing for Cpu<M> {
    fn tell_of_end(&self, file: &'static FileRecord) {
        lock::release_of_file(self, file);
        range_lock::file_closed(self, file);
        if file.watches.get() != 0 {
            epoll::forget(self, file);
        }
        if file.owner.load(Ordering::Relaxed) != 0 {
            owner::forget(self, file);
        }
        of_kind!(self, file, kind => Kind::end(kind, self, file));
    }

    fn close_kind(&self, file: &'static FileRecord) {
        of_kind!(self, file, kind => Kind::close(kind, self, file));
    }
}
