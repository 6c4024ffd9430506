//! `/proc/sysvipc`, and the limits in `/proc/sys/kernel` (proc_sysvipc(5), proc_sys_kernel(5)).

use core::fmt::{Result, Write};

use motet_hal::Machine;
use motet_layout::{InodeRecord, IpcObject, PAGE_SIZE};
use motet_protocol::{
    Context,
    ipc::{
        self, Kind,
        message::{LEN_MAX, QUEUE_MAX},
        semaphore::{ALL_MAX, OPERATIONS_MAX, SET_MAX},
    },
};

use super::segment::SHMMAX;
use crate::{call::cost, cpu::Cpu, due};

/// Places that are looked at while the lock is held once.
const AT_ONCE: u32 = 64;

/// A limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Bytes of a segment, pages of all, segments.
    Segment,
    /// Pages of all segments.
    Pages,
    /// Segments.
    Segments,
    /// Whether segments go that nobody has attached.
    Forced,
    /// Semaphores of a set and of all, operations at once, sets.
    Semaphores,
    /// Bytes of a message.
    Message,
    /// Bytes of a queue.
    Queue,
    /// Queues.
    Queues,
}

/// Writes a limit.
pub fn limit(limit: Limit, out: &mut impl Write) -> Result {
    match limit {
        Limit::Segment | Limit::Pages => writeln!(out, "{SHMMAX}"),
        Limit::Segments => writeln!(out, "{}", Kind::Segment.most()),
        Limit::Forced => writeln!(out, "0"),
        Limit::Semaphores => writeln!(out, "{SET_MAX}\t{ALL_MAX}\t{OPERATIONS_MAX}\t{}", Kind::Set.most()),
        Limit::Message => writeln!(out, "{LEN_MAX}"),
        Limit::Queue => writeln!(out, "{QUEUE_MAX}"),
        Limit::Queues => writeln!(out, "{}", Kind::Queue.most()),
    }
}

/// The first line of a list.
pub fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Segment => concat!(
            "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime",
            "                   rss                  swap\n"
        ),
        Kind::Set => "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n",
        Kind::Queue | Kind::Posix => concat!(
            "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid",
            "      stime      rtime      ctime\n"
        ),
    }
}

/// What is told of an object, as it was at one moment.
pub struct Row {
    /// Its place.
    pub place: u32,
    kind: Kind,
    key: i32,
    id: u32,
    mode: u32,
    ids: [u32; 4],
    pids: [u32; 2],
    times_s: [u64; 3],
    size: u64,
    attached: u64,
    resident: u64,
    queued: [u64; 2],
}

/// The object at a place, or the next one behind it; `None`: there is none.
pub fn next<M: Machine>(cpu: &Cpu<M>, kind: Kind, mut place: u32) -> Option<Row> {
    loop {
        let _guard = ipc::lock_all(cpu);
        match ipc::next_from(cpu, kind, place, AT_ONCE) {
            Ok(found) => return found.map(|(place, object)| Row::of(cpu, kind, place, object)),
            Err(stop) => place = stop,
        }
        due::spend_locked(cpu, cost::STEP);
    }
}

impl Row {
    fn of<M: Machine>(cpu: &Cpu<M>, kind: Kind, place: u32, object: &'static IpcObject) -> Self {
        let pages = cpu.object::<InodeRecord>(object.inode.get());
        let [first, second] = object.times_s.each_ref().map(motet_layout::Cell64::get);
        Self {
            place,
            kind,
            key: object.key.get().cast_signed(),
            id: object.id.get(),
            mode: object.mode.get(),
            ids: [&object.uid, &object.gid, &object.cuid, &object.cgid].map(motet_layout::Cell32::get),
            pids: object.pids.each_ref().map(motet_layout::Cell32::get),
            times_s: [first, second, object.changed_s.get()],
            size: object.size.get(),
            attached: ipc::attached(cpu, object),
            resident: pages.map_or(0, |pages| u64::from(pages.page_count.get())) * PAGE_SIZE,
            queued: [object.bytes.get(), object.count.get()],
        }
    }

    /// Writes the line.
    pub fn write(&self, out: &mut impl Write) -> Result {
        let Self { key, id, mode, size, attached, resident, .. } = *self;
        let ([uid, gid, cuid, cgid], [first, second], [bytes, count]) = (self.ids, self.pids, self.queued);
        let [early, late, changed] = self.times_s;
        write!(out, "{key:10} {id:10}  {mode:4o} ")?;
        match self.kind {
            Kind::Segment => {
                write!(out, "{size:21} {first:5} {second:5}  {attached:5} ")?;
                write!(out, "{uid:5} {gid:5} {cuid:5} {cgid:5} {early:10} {late:10} {changed:10} ")?;
                writeln!(out, "{resident:21} {:21}", 0)
            }
            Kind::Set => {
                write!(out, "{size:10} {uid:5} {gid:5} {cuid:5} {cgid:5} ")?;
                writeln!(out, "{early:10} {changed:10}")
            }
            Kind::Queue | Kind::Posix => {
                write!(out, " {bytes:10} {count:10} {first:5} {second:5} ")?;
                write!(out, "{uid:5} {gid:5} {cuid:5} {cgid:5} ")?;
                writeln!(out, "{early:10} {late:10} {changed:10}")
            }
        }
    }
}
