//! Timers that are read (`timerfd`).
//!
//! Nothing happens when a timer expires: a reader or waiter computes its expirations from the time, and a thread
//! that waits sets its own deadline by it.

use core::fmt::{self, Write};

use motet_abi::{
    Errno,
    file::{O_CLOEXEC, O_NONBLOCK, O_RDWR},
    time::*,
};
use motet_hal::Machine;
use motet_layout::{ClockRecord, FILE_TIMER, FileRecord, in_order};
use motet_protocol::{Context, lock::lock, slab, wait};

use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::{Cursor, read_count},
    description::kind::{Facts, INPUT, Kind, Queues, Transfer, if_so, queues},
    file::descriptor::{
        description::OpenFile,
        table::{self, open_anonymous},
    },
    permission::{self, Capability},
    time,
};

/// `timerfd_settime`: the first expiration is a time, not a distance.
const TFD_TIMER_ABSTIME: u32 = 1;
/// `timerfd_settime`: reads fail when the clock is set. It never is.
const TFD_TIMER_CANCEL_ON_SET: u32 = 2;

/// `timerfd_create(clock, flags)`.
pub fn timerfd_create<M: Machine>(call: &Call<M>) -> SysResult {
    let (clock, flags) = (call.args[0] as u32, call.args[1] as u32);
    if !matches!(clock, CLOCK_REALTIME | CLOCK_MONOTONIC | CLOCK_BOOTTIME | CLOCK_REALTIME_ALARM | CLOCK_BOOTTIME_ALARM)
        || flags & !(O_CLOEXEC | O_NONBLOCK) != 0
    {
        return Err(Errno::EINVAL.into());
    }
    let wakes = matches!(clock, CLOCK_REALTIME_ALARM | CLOCK_BOOTTIME_ALARM);
    if wakes && !permission::has(call.process, Capability::WakeAlarm) {
        return Err(Errno::EPERM.into());
    }
    let timer = slab::alloc::<ClockRecord>(call.cpu).ok_or(Errno::ENOMEM)?;
    timer.realtime.set(u32::from(matches!(clock, CLOCK_REALTIME | CLOCK_REALTIME_ALARM)));
    open_anonymous(call, FILE_TIMER, timer, O_RDWR | flags)
}

/// `timerfd_settime(fd, flags, new, old)`.
pub fn timerfd_settime<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, flags, new, old, ..] = call.args;
    if flags as u32 & !(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (interval_ns, value_ns) = (time::read_timespec(call, new)?, time::read_timespec(call, new.wrapping_add(16))?);
    let file = table::get(call, fd as i32)?;
    let timer = timer_of(&file)?;
    let zero_ns = match (flags as u32 & TFD_TIMER_ABSTIME != 0, timer.realtime.get() != 0) {
        (false, _) => call.cpu.reading_ns(),
        (true, true) => call.cpu.pool.header().realtime_at_zero_ns.get().wrapping_neg(),
        (true, false) => 0,
    };
    if old != 0 {
        call.await_pages(old, 32)?;
    }
    let before = {
        let _guard = lock(call.cpu, &timer.lock);
        let before = left(timer, call.cpu.reading_ns());
        // Should this core die in between, it is not armed.
        timer.armed.set(0);
        in_order();
        timer.expires_ns.set(zero_ns.wrapping_add(value_ns));
        timer.interval_ns.set(interval_ns);
        in_order();
        timer.armed.set(u32::from(value_ns != 0));
        before
    };
    wait::wake(call.cpu, &timer.waiters);
    if old != 0 {
        write_setting(call, old, before)?;
    }
    Ok(0)
}

/// `timerfd_gettime(fd, setting)`.
pub fn timerfd_gettime<M: Machine>(call: &Call<M>) -> SysResult {
    let file = table::get(call, call.args[0] as i32)?;
    let timer = timer_of(&file)?;
    let setting = {
        let _guard = lock(call.cpu, &timer.lock);
        left(timer, call.cpu.reading_ns())
    };
    write_setting(call, call.args[1], setting)?;
    Ok(0)
}

/// A timer.
#[derive(Clone, Copy)]
pub struct Timer(&'static ClockRecord);

impl Kind for Timer {
    const CODES: &'static [u32] = &[FILE_TIMER];
    // Time alone makes it ready.
    const FACTS: Facts = Facts { is_asked: true, ..Facts::ANONYMOUS };

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "anon_inode:[timerfd]")
    }

    /// Reads how often the timer has expired since it was last read. Waits while it has not.
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        let Self(timer) = self;
        read_count(call, &timer.waiters, how.nonblocking(), into, || {
            let _guard = lock(call.cpu, &timer.lock);
            let now_ns = call.cpu.reading_ns();
            let (count, next) = (expirations(timer, now_ns), next(timer, now_ns));
            if count == 0 {
                call.thread.deadline_ns.set(next.unwrap_or(0));
            } else {
                timer.armed.set(u32::from(next.is_some()));
                in_order();
                timer.expires_ns.set(next.unwrap_or(0));
            }
            count
        })
    }

    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        let _guard = lock(call.cpu, &self.0.lock);
        if_so(expirations(self.0, call.cpu.reading_ns()) > 0, INPUT)
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        queues(Some(&self.0.waiters), None)
    }

    /// A number that changes with each expiration.
    fn arrivals<M: Machine>(self, cpu: &Cpu<M>) -> [Option<u64>; 2] {
        let Self(timer) = self;
        let _guard = lock(cpu, &timer.lock);
        let passed_ns = expirations(timer, cpu.reading_ns()) * timer.interval_ns.get();
        [Some(timer.expires_ns.get().wrapping_add(passed_ns)), None]
    }

    fn ready_ns<M: Machine>(self, call: &Call<M>) -> u64 {
        let _guard = lock(call.cpu, &self.0.lock);
        next(self.0, call.cpu.reading_ns()).unwrap_or(u64::MAX)
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        // Nodes of threads that still wait must not stay linked in memory that becomes another timer.
        wait::wake(cpu, &self.0.waiters);
        slab::free(cpu, self.0);
    }
}

fn timer_of<M: Machine>(file: &OpenFile<M>) -> Result<&'static ClockRecord, Errno> {
    file.as_kind().map(|Timer(timer)| timer).ok_or(Errno::EINVAL)
}

/// How often a timer has expired and was not read.
fn expirations(timer: &ClockRecord, now_ns: u64) -> u64 {
    match u64::try_from(now_ns.wrapping_sub(timer.expires_ns.get()) as i64) {
        Ok(late_ns) if timer.armed.get() != 0 => 1 + late_ns.checked_div(timer.interval_ns.get()).unwrap_or(0),
        _ => 0,
    }
}

/// When a timer expires next, if it does.
fn next(timer: &ClockRecord, now_ns: u64) -> Option<u64> {
    let (expires_ns, interval_ns) = (timer.expires_ns.get(), timer.interval_ns.get());
    match expirations(timer, now_ns) {
        0 => (timer.armed.get() != 0).then_some(expires_ns),
        count => (interval_ns != 0).then(|| expires_ns.wrapping_add(count * interval_ns)),
    }
}

/// Nanoseconds between a timer's expirations, and to the next one (0: there is none).
fn left(timer: &ClockRecord, now_ns: u64) -> [u64; 2] {
    [timer.interval_ns.get(), next(timer, now_ns).map_or(0, |at| (at - now_ns).max(1))]
}

fn write_setting<M: Machine>(call: &Call<M>, address: u64, [interval_ns, left_ns]: [u64; 2]) -> Result<(), Stop> {
    time::write_timespec(call, address, interval_ns)?;
    time::write_timespec(call, address.wrapping_add(16), left_ns)
}
