//! Event counters (`eventfd`).

use core::fmt::{self, Write};

use motet_abi::{
    Errno,
    file::{O_CLOEXEC, O_NONBLOCK, O_RDWR},
};
use motet_hal::Machine;
use motet_layout::{EventRecord, FILE_EVENT, FileRecord};
use motet_protocol::{Context, lock::lock, slab, wait};

use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::{Cursor, read_count},
    description::kind::{Kind, Queues, Transfer, queues, ready},
    file::descriptor::table::open_anonymous,
};

/// `eventfd2`: reads take one at a time.
const EFD_SEMAPHORE: u32 = 1;
/// Highest count.
const COUNT_MAX: u64 = u64::MAX - 1;

/// `eventfd(count)`.
pub fn eventfd<M: Machine>(call: &Call<M>) -> SysResult {
    create(call, 0)
}

/// `eventfd2(count, flags)`.
pub fn eventfd2<M: Machine>(call: &Call<M>) -> SysResult {
    create(call, call.args[1] as u32)
}

fn create<M: Machine>(call: &Call<M>, flags: u32) -> SysResult {
    if flags & !(O_CLOEXEC | O_NONBLOCK | EFD_SEMAPHORE) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let counter = slab::alloc::<EventRecord>(call.cpu).ok_or(Errno::ENOMEM)?;
    counter.count.set(u64::from(call.args[0] as u32));
    counter.semaphore.set(flags & EFD_SEMAPHORE);
    open_anonymous(call, FILE_EVENT, counter, O_RDWR | flags & !EFD_SEMAPHORE)
}

/// An event counter.
#[derive(Clone, Copy)]
pub struct Event(&'static EventRecord);

impl Kind for Event {
    const CODES: &'static [u32] = &[FILE_EVENT];

    #[inline(always)]
    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "anon_inode:[eventfd]")
    }

    /// Reads the count and sets it to 0 (or takes one from it). Waits while it is 0.
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        let Self(counter) = self;
        read_count(call, &counter.read_waiters, how.nonblocking(), into, || {
            let guard = lock(call.cpu, &counter.lock);
            let count = counter.count.get();
            if count == 0 {
                return 0;
            }
            let value = if counter.semaphore.get() != 0 { 1 } else { count };
            counter.count.set(count - value);
            counter.reads.set(counter.reads.get().wrapping_add(1));
            drop(guard);
            wait::wake(call.cpu, &counter.write_waiters);
            value
        })
    }

    /// Adds to the count. Waits while the sum would be too large.
    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        let Self(counter) = self;
        if from.remaining() != 8 {
            return Err(Errno::EINVAL.into());
        }
        let mut bytes = [0; 8];
        from.read(&mut bytes)?;
        let value = u64::from_le_bytes(bytes);
        if value > COUNT_MAX {
            return Err(Errno::EINVAL.into());
        }
        call.wait_for(&counter.write_waiters, || {
            let guard = lock(call.cpu, &counter.lock);
            let count = counter.count.get();
            if COUNT_MAX - count < value {
                return if how.nonblocking() { Err(Stop::from(Errno::EAGAIN)) } else { Ok(None) };
            }
            counter.count.set(count + value);
            counter.writes.set(counter.writes.get().wrapping_add(1));
            drop(guard);
            wait::wake(call.cpu, &counter.read_waiters);
            Ok(Some(8))
        })
    }

    /// Whether a read, and a write of 1, would not wait.
    fn readiness<M: Machine>(self, _call: &Call<M>, _file: &FileRecord) -> u16 {
        let count = self.0.count.get();
        ready((count != 0, count < COUNT_MAX))
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        queues(Some(&self.0.read_waiters), Some(&self.0.write_waiters))
    }

    fn arrivals<M: Machine>(self, _cpu: &Cpu<M>) -> [Option<u64>; 2] {
        [&self.0.writes, &self.0.reads].map(|count| Some(u64::from(count.get())))
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        // Nodes of threads that still wait must not stay linked in memory that becomes another counter.
        wait::wake(cpu, &self.0.read_waiters);
        wait::wake(cpu, &self.0.write_waiters);
        slab::free(cpu, self.0);
    }
}
