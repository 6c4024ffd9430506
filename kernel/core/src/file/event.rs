//! Event counters (`eventfd`).

use motet_abi::{
    Errno,
    file::{O_CLOEXEC, O_NONBLOCK, O_RDWR},
};
use motet_hal::Machine;
use motet_layout::{EventRecord, FILE_EVENT};
use motet_protocol::{lock::lock, slab, wait};

use super::description::open_anonymous;
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::{Cursor, read_count},
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

/// Reads the count and sets it to 0 (or takes one from it). Waits while it is 0.
pub fn read<M: Machine>(
    call: &Call<M>,
    counter: &'static EventRecord,
    nonblocking: bool,
    into: &mut Cursor<M>,
) -> SysResult {
    read_count(call, &counter.read_waiters, nonblocking, into, || {
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
pub fn write<M: Machine>(
    call: &Call<M>,
    counter: &'static EventRecord,
    nonblocking: bool,
    from: &mut Cursor<M>,
) -> SysResult {
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
            return if nonblocking { Err(Stop::from(Errno::EAGAIN)) } else { Ok(None) };
        }
        counter.count.set(count + value);
        counter.writes.set(counter.writes.get().wrapping_add(1));
        drop(guard);
        wait::wake(call.cpu, &counter.read_waiters);
        Ok(Some(8))
    })
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

/// Whether a read, and a write of 1, would not wait.
pub fn readiness(counter: &EventRecord) -> (bool, bool) {
    let count = counter.count.get();
    (count != 0, count < COUNT_MAX)
}

/// Counts that change when something comes to be read, and when room comes.
pub fn arrivals(counter: &EventRecord) -> [u64; 2] {
    [u64::from(counter.writes.get()), u64::from(counter.reads.get())]
}

/// Frees a counter whose last open file was closed.
pub fn free<M: Machine>(cpu: &Cpu<M>, counter: &'static EventRecord) {
    // Nodes of threads that still wait must not stay linked in memory that becomes another counter.
    wait::wake(cpu, &counter.read_waiters);
    wait::wake(cpu, &counter.write_waiters);
    slab::free(cpu, counter);
}
