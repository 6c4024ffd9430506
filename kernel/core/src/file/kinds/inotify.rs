//! Watches of inodes as an open file (`inotify_init`): what was told is read from it. `path::watches` has the calls that add watches and end them.

use core::fmt::{self, Write};

use motet_abi::{
    Errno,
    file::{O_CLOEXEC, O_NONBLOCK, O_RDONLY, SEEK_HOLE},
    inotify::InotifyEvent,
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::{FILE_INOTIFY, FileRecord, InotifyRecord, sync::Ordering};
use motet_protocol::{
    Context, hand,
    notify::{self, EVENT_MAX, Taken},
    slab,
};

use super::inode::DEVICE;
use crate::{
    call::{Call, SysResult, cost},
    cpu::Cpu,
    cursor::{Cursor, partial},
    description::{
        self, Parts,
        kind::{Facts, INPUT, Kind, Queues, Transfer, if_so, queues},
    },
    due,
    file::descriptor::table,
};

/// `inotify_init()`.
///
/// # Errors
/// As [`inotify_init1`].
pub fn inotify_init<M: Machine>(call: &Call<M>) -> SysResult {
    create(call, 0)
}

/// `inotify_init1(flags)`.
///
/// # Errors
/// `EINVAL`; `EMFILE`: the user, or the process, has too many; `ENFILE`; `ENOMEM`.
pub fn inotify_init1<M: Machine>(call: &Call<M>) -> SysResult {
    create(call, call.args[0] as u32)
}

fn create<M: Machine>(call: &Call<M>, flags: u32) -> SysResult {
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let instance = notify::make(call.cpu, call.process.credentials.users[1].get())?;
    let parts = Parts { kind: FILE_INOTIFY, flags: O_RDONLY | flags, inode: None, object: call.cpu.raw(instance) };
    match description::create(call.cpu, &parts) {
        Ok(record) => {
            notify::made(instance);
            Ok(table::install(call, record, flags & O_CLOEXEC != 0, 0)?)
        }
        Err(errno) => {
            notify::close(call.cpu, instance);
            slab::free(call.cpu, instance);
            Err(errno.into())
        }
    }
}

/// Frees what dead cores were making open files of. Their other open files have been closed.
pub fn settle_the_dead<M: Machine>(cpu: &Cpu<M>) {
    for instance in notify::unfinished(cpu) {
        let is_of = |file: &FileRecord| {
            hand::count(file) != 0 && file.kind.get() == FILE_INOTIFY && file.object.get() == cpu.raw(instance)
        };
        if slab::all::<FileRecord>(cpu).any(is_of) {
            notify::made(instance);
        } else {
            notify::close(cpu, instance);
            slab::free(cpu, instance);
        }
    }
}

/// Watches of inodes.
#[derive(Clone, Copy)]
pub struct Inotify(pub &'static InotifyRecord);

impl Kind for Inotify {
    const CODES: &'static [u32] = &[FILE_INOTIFY];
    const FACTS: Facts = Facts { has_signals: true, ..Facts::ANONYMOUS };

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "anon_inode:inotify")
    }

    fn write_info<M: Machine>(self, cpu: &Cpu<M>, into: &mut impl Write) -> fmt::Result {
        let device = DEVICE.major << 20 | DEVICE.minor;
        let mut most = u32::MAX;
        while let Some((number, inode, mask)) = notify::up_to(cpu, self.0, most).filter(|_| most != 0) {
            writeln!(into, "inotify wd:{number:x} ino:{inode:x} sdev:{device:x} mask:{mask:x} ignored_mask:0")?;
            most = number.saturating_sub(1);
        }
        Ok(())
    }

    /// Reads as many events as there is room for. Waits for the first.
    #[inline(never)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        let mut event = [0; EVENT_MAX];
        call.wait_for(&self.0.waiters, || {
            while let Some(len) = notify::first_len(call.cpu, self.0) {
                // As on Linux, no event is read into two buffers.
                match into.left_here() {
                    Ok(room) if len as u64 <= room => {}
                    Ok(_) => return partial(into.done(), Errno::EINVAL).map(Some),
                    Err(stop) => return partial(into.done(), stop).map(Some),
                }
                // It is taken only if it can be written.
                if let Err(stop) = into.await_pages(len) {
                    return partial(into.done(), stop).map(Some);
                }
                match notify::take(call.cpu, self.0, len as u64, &mut event) {
                    Taken::Event(len) => drop(into.write(&event[..len])?),
                    // Another thread has taken that one.
                    Taken::TooLong => {}
                    Taken::Nothing => break,
                }
                due::spend_locked(call.cpu, cost::OBJECT + cost::bytes(len as u64));
            }
            match into.done() {
                0 if how.nonblocking() => Err(Errno::EAGAIN.into()),
                0 => Ok(None),
                done => Ok(Some(done)),
            }
        })
    }

    /// Its position stays where it is.
    fn seek<M: Machine>(self, _call: &Call<M>, _file: &FileRecord, (_, from): (i64, u32)) -> SysResult {
        if from <= SEEK_HOLE { Ok(0) } else { Err(Errno::EINVAL.into()) }
    }

    fn readiness<M: Machine>(self, _call: &Call<M>, _file: &FileRecord) -> u16 {
        if_so(notify::has_told(self.0), INPUT)
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        queues(Some(&self.0.waiters), None)
    }

    fn arrivals<M: Machine>(self, _cpu: &Cpu<M>) -> [Option<u64>; 2] {
        [Some(self.0.arrivals.load(Ordering::Relaxed).into()), None]
    }

    fn bytes_ready<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Result<u64, Errno> {
        let lost = u64::from(self.0.lost.load(Ordering::Relaxed).min(1)) * InotifyEvent::SIZE as u64;
        Ok(u64::from(self.0.bytes.load(Ordering::Relaxed)) + lost)
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        notify::close(cpu, self.0);
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        slab::free(cpu, self.0);
    }
}
