//! Event counters (`eventfd`).

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::EventRecord;
use motet_protocol::{lock::lock, slab, wait};

use super::cursor::Cursor;
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
};

/// Highest count.
const COUNT_MAX: u64 = u64::MAX - 1;

/// Reads the count and sets it to 0 (or takes one from it). Waits while it is 0.
pub fn read<M: Machine>(
    call: &Call<M>,
    counter: &'static EventRecord,
    nonblocking: bool,
    into: &mut Cursor<M>,
) -> SysResult {
    if into.remaining() < 8 {
        return Err(Errno::EINVAL.into());
    }
    // Faults now, not after the count was taken.
    into.probe()?;
    let value = call.wait_for(&counter.read_waiters, || {
        let guard = lock(call.cpu, &counter.lock);
        let count = counter.count.get();
        if count == 0 {
            return if nonblocking { Err(Errno::EAGAIN.into()) } else { Ok(None) };
        }
        let value = if counter.semaphore.get() != 0 { 1 } else { count };
        counter.count.set(count - value);
        drop(guard);
        wait::wake(call.cpu, &counter.write_waiters);
        Ok(Some(value))
    })?;
    into.write(&value.to_le_bytes())?;
    Ok(8)
}

/// Adds to the count. Waits while the sum would be too large.
pub fn write<M: Machine>(
    call: &Call<M>,
    counter: &'static EventRecord,
    nonblocking: bool,
    from: &mut Cursor<M>,
) -> SysResult {
    if from.remaining() < 8 {
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
        drop(guard);
        wait::wake(call.cpu, &counter.read_waiters);
        Ok(Some(8))
    })
}

/// Whether a read, and a write of 1, would not wait.
pub fn readiness(counter: &EventRecord) -> (bool, bool) {
    let count = counter.count.get();
    (count != 0, count < COUNT_MAX)
}

/// Frees a counter whose last open file was closed.
pub fn free<M: Machine>(cpu: &Cpu<M>, counter: &'static EventRecord) {
    // Nodes of threads that still wait must not stay linked in memory that becomes another counter.
    wait::wake(cpu, &counter.read_waiters);
    wait::wake(cpu, &counter.write_waiters);
    slab::free(cpu, counter);
}
