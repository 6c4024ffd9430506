//! POSIX timers (timer_create(2)). `signal::timers` has what happens when they expire.

use motet_abi::{
    Errno,
    signal::{NSIG, SIGALRM, SIGEV_NONE, SIGEV_SIGNAL, SIGEV_THREAD, SIGEV_THREAD_ID},
    time::RLIMIT_SIGPENDING,
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::{
    BY_MACHINE, BY_PROCESS, BY_REAL_TIME, BY_THREAD, POSIX_ARMED, POSIX_OFF, PROCESS_ALIVE, PosixTimerRecord,
    ProcessRecord, ThreadRecord, in_order, sync::Ordering,
};
use motet_protocol::{Context, slab, timer::of_process};

use super::{
    CLOCK_BOOTTIME, CLOCK_MONOTONIC, CLOCK_PROCESS, CLOCK_REALTIME, CLOCK_TAI, CLOCK_THREAD, NO_TIME, OF_THREAD,
    TIME_OF_USER, TIMER_ABSTIME, WHICH_TIME, read_timespec, write_timespec,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cputime, due,
    signal::{
        self,
        timers::{self, Clock},
    },
    tree::{self, limit_of, lock_tree, users},
};

/// Timers that a user may have, if `RLIMIT_SIGPENDING` says no less.
const TIMERS_MAX: u64 = 1024;
/// Timers of a process that ends which go while the tree is locked once.
const ENDED_AT_ONCE: usize = 16;
/// Bytes of `struct sigevent` that are looked at.
const EVENT_LEN: usize = 20;

/// What a timer does when it expires.
struct Event {
    value: Option<u64>,
    signal: u32,
    receiver: Option<&'static ThreadRecord>,
}

/// By which time a timer goes: `BY_*`, and whose processor time that is, with when that was created.
#[derive(Clone, Copy)]
struct By {
    clock: u32,
    target: u32,
    started_ns: u64,
}

/// `timer_create(clock, event, id)`.
///
/// # Errors
/// `EINVAL`, `EFAULT`; `EOPNOTSUPP`: the clock has no timers (nothing here wakes a machine that sleeps); `EAGAIN`: the user has too many.
pub fn timer_create<M: Machine>(call: &Call<M>) -> SysResult {
    let [clock, event_at, id_at, ..] = call.args;
    let mut words = [0; EVENT_LEN];
    if event_at != 0 {
        call.read_user(event_at, &mut words)?;
    }
    call.await_pages(id_at, 4)?;
    let timer = {
        let _tree = lock_tree(call.cpu);
        let by = by(call, clock as i32)?;
        let event =
            if event_at == 0 { Event { value: None, signal: SIGALRM, receiver: None } } else { event(call, &words)? };
        make(call, by, &event)?
    };
    let id = timer.id.get();
    if let Err(stop) = call.write_user(id_at, &id.to_le_bytes()) {
        let _tree = lock_tree(call.cpu);
        // Another thread may have guessed its id meanwhile, and deleted it.
        if let Some(timer) = timers::find(call.cpu, call.process, id) {
            delete(call.cpu, call.process, timer);
        }
        return Err(stop);
    }
    Ok(0)
}

/// `timer_settime(id, flags, new, old)`.
pub fn timer_settime<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, flags, new_at, old_at, ..] = call.args;
    if new_at == 0 {
        return Err(Errno::EINVAL.into());
    }
    let interval_ns = read_timespec(call, new_at);
    let value_ns = read_timespec(call, new_at.wrapping_add(16));
    // A bad address comes before bad values.
    let (interval_ns, value_ns) = match (interval_ns, value_ns) {
        (Ok(interval_ns), Ok(value_ns)) => (interval_ns, value_ns),
        (Err(Stop::Error(Errno::EINVAL)), Err(stop)) | (Err(stop), _) | (_, Err(stop)) => return Err(stop),
    };
    if old_at != 0 {
        call.await_pages(old_at, 32)?;
    }
    let before = {
        cputime::charge(call.cpu, call.thread);
        let _tree = lock_tree(call.cpu);
        let timer = timers::find(call.cpu, call.process, id as u32).ok_or(Errno::EINVAL)?;
        let clock = Clock::of(call.cpu, timer).ok_or(Errno::ESRCH)?;
        let before = setting(call.cpu, timer);
        timers::disarm(call.cpu, timer);
        signal::withdraw(call.cpu, call.process, timer);
        timer.interval_ns.set(if value_ns == 0 { 0 } else { interval_ns });
        timer.expired.set(0);
        timer.overrun.set(0);
        if value_ns != 0 {
            let zero_ns = match (flags & TIMER_ABSTIME != 0, timer.clock.get()) {
                (false, _) => clock.now_ns(call.cpu, timer),
                (true, BY_REAL_TIME) => call.cpu.pool.header().realtime_at_zero_ns.get().wrapping_neg(),
                (true, _) => 0,
            };
            // Before the machine's start is at once.
            let expires_ns = zero_ns.wrapping_add(value_ns).cast_signed().max(1).cast_unsigned();
            timer.expires_ns.set(expires_ns);
            timers::arm(call.cpu, timer);
        }
        before
    };
    if old_at != 0 {
        write_setting(call, old_at, before)?;
    }
    Ok(0)
}

/// `timer_gettime(id, setting)`.
pub fn timer_gettime<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, at, ..] = call.args;
    let setting = {
        cputime::charge(call.cpu, call.thread);
        let _tree = lock_tree(call.cpu);
        setting(call.cpu, timers::find(call.cpu, call.process, id as u32).ok_or(Errno::EINVAL)?)
    };
    write_setting(call, at, setting)?;
    Ok(0)
}

/// `timer_getoverrun(id)`: how often it had expired when its last signal was taken, beyond the time that this told of.
pub fn timer_getoverrun<M: Machine>(call: &Call<M>) -> SysResult {
    let _tree = lock_tree(call.cpu);
    let timer = timers::find(call.cpu, call.process, call.args[0] as u32).ok_or(Errno::EINVAL)?;
    Ok(u64::from(timers::overrun_of(timer)))
}

/// `timer_delete(id)`.
pub fn timer_delete<M: Machine>(call: &Call<M>) -> SysResult {
    let _tree = lock_tree(call.cpu);
    let timer = timers::find(call.cpu, call.process, call.args[0] as u32).ok_or(Errno::EINVAL)?;
    delete(call.cpu, call.process, timer);
    Ok(0)
}

/// Deletes all timers of a process that ends or executes a program.
pub fn end_timers<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) {
    while process.timers.get() != 0 {
        {
            let _tree = lock_tree(cpu);
            for _ in 0..ENDED_AT_ONCE {
                let Some(timer) = of_process(cpu, process).first() else { break };
                delete(cpu, process, timer);
            }
        }
        due::spend_locked(cpu, ENDED_AT_ONCE as u64 * cost::OBJECT);
    }
}

/// A new timer of the caller's process. The tree lock is held.
fn make<M: Machine>(call: &Call<M>, by: By, event: &Event) -> Result<&'static PosixTimerRecord, Errno> {
    let (cpu, process) = (call.cpu, call.process);
    // Signals that are queued count, too.
    let queued = u64::from(process.signal_count.get() + call.thread.signal_count.get());
    let limit = limit_of(process, RLIMIT_SIGPENDING).saturating_sub(queued).min(TIMERS_MAX);
    let user = users::add_timer(cpu, process, limit).ok_or(Errno::EAGAIN)?;
    let Some(timer) = slab::alloc::<PosixTimerRecord>(cpu) else {
        users::remove_timer(cpu, user);
        return Err(Errno::EAGAIN);
    };
    let id = free_id(cpu, process);
    timer.user.set(user);
    timer.id.set(id);
    timer.value.set(event.value.unwrap_or(u64::from(id)));
    timer.signal.set(event.signal);
    if let Some(receiver) = event.receiver {
        timer.receiver.set(receiver.tid.get());
        timer.receiver_started_ns.set(receiver.started_ns.get());
    }
    timer.clock.set(by.clock);
    timer.target.set(by.target);
    timer.target_started_ns.set(by.started_ns);
    timer.state.set(POSIX_OFF);
    in_order();
    timer.process.set(cpu.raw(process));
    of_process(cpu, process).insert(timer);
    process.next_timer.set(following(id));
    Ok(timer)
}

/// The next id that no timer of the process has. It has fewer than there are ids.
fn free_id<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> u32 {
    let mut id = process.next_timer.get() & ID_MAX;
    while timers::find(cpu, process, id).is_some() {
        id = following(id);
    }
    id
}

/// Ids are numbers from 0 to this.
const ID_MAX: u32 = i32::MAX as u32;

fn following(id: u32) -> u32 {
    (id + 1) & ID_MAX
}

/// Deletes a timer. The tree lock is held.
fn delete<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, timer: &'static PosixTimerRecord) {
    timers::disarm(cpu, timer);
    signal::withdraw(cpu, process, timer);
    of_process(cpu, process).remove(timer);
    in_order();
    timer.process.set(0);
    in_order();
    users::remove_timer(cpu, timer.user.get());
    slab::free(cpu, timer);
}

/// By which time a clock's timers go. The tree lock is held.
fn by<M: Machine>(call: &Call<M>, clock: i32) -> Result<By, Errno> {
    const OF_FILE: i32 = 3;
    let machine = |clock| Ok(By { clock, target: 0, started_ns: 0 });
    match clock {
        CLOCK_REALTIME | CLOCK_TAI => machine(BY_REAL_TIME),
        CLOCK_MONOTONIC | CLOCK_BOOTTIME => machine(BY_MACHINE),
        CLOCK_PROCESS => Ok(by_process(call.process, 0)),
        CLOCK_THREAD => Ok(by_thread(call.thread, 0)),
        4..=6 | 8 | 9 => Err(Errno::EOPNOTSUPP),
        clock if clock < 0 && clock & (OF_THREAD | WHICH_TIME) == OF_FILE => Err(Errno::EOPNOTSUPP),
        clock if clock < 0 && clock & WHICH_TIME != NO_TIME => by_id(call, clock),
        _ => Err(Errno::EINVAL),
    }
}

/// As [`by`], for clocks whose numbers are made from ids (clock_getcpuclockid(3)).
fn by_id<M: Machine>(call: &Call<M>, clock: i32) -> Result<By, Errno> {
    let id = !(clock >> 3) as u32;
    let of_user = u32::from(clock & WHICH_TIME == TIME_OF_USER);
    if clock & OF_THREAD != 0 {
        let thread = if id == 0 { Some(call.thread) } else { signal::living_thread(call.cpu, id) };
        let is_own = |thread: &&ThreadRecord| core::ptr::eq(tree::process_of(call.cpu, thread), call.process);
        return thread.filter(is_own).map(|thread| by_thread(thread, of_user)).ok_or(Errno::EINVAL);
    }
    let process = if id == 0 { Some(call.process) } else { tree::lookup(call.cpu, id) };
    let is_alive = |process: &&'static ProcessRecord| process.state.load(Ordering::Acquire) == PROCESS_ALIVE;
    process.filter(is_alive).map(|process| by_process(process, of_user)).ok_or(Errno::EINVAL)
}

fn by_process(process: &ProcessRecord, of_user: u32) -> By {
    By { clock: BY_PROCESS + of_user, target: process.pid.get(), started_ns: process.started_ns.get() }
}

fn by_thread(thread: &ThreadRecord, of_user: u32) -> By {
    By { clock: BY_THREAD + of_user, target: thread.tid.get(), started_ns: thread.started_ns.get() }
}

/// What a `struct sigevent` asks for. The tree lock is held.
fn event<M: Machine>(call: &Call<M>, words: &[u8; EVENT_LEN]) -> Result<Event, Errno> {
    let [signal, notify, tid] = [8, 12, 16].map(|at| u32::take(&words[at..]));
    let receiver = match notify {
        SIGEV_NONE => return Ok(Event { value: Some(u64::take(words)), signal: 0, receiver: None }),
        SIGEV_SIGNAL | SIGEV_THREAD => None,
        SIGEV_THREAD_ID => {
            let thread = signal::living_thread(call.cpu, tid);
            let is_own = |thread: &&ThreadRecord| core::ptr::eq(tree::process_of(call.cpu, thread), call.process);
            Some(thread.filter(is_own).ok_or(Errno::EINVAL)?)
        }
        _ => return Err(Errno::EINVAL),
    };
    if !(1..=NSIG).contains(&signal) {
        return Err(Errno::EINVAL);
    }
    Ok(Event { value: Some(u64::take(words)), signal, receiver })
}

/// Nanoseconds between a timer's expirations, and to the next one (0: there is none). The tree lock is held.
fn setting<M: Machine>(cpu: &Cpu<M>, timer: &'static PosixTimerRecord) -> [u64; 2] {
    let interval_ns = timer.interval_ns.get();
    let is_silent = timer.signal.get() == 0;
    let (true, Some(clock)) = (timer.state.get() != POSIX_OFF, Clock::of(cpu, timer)) else { return [interval_ns, 0] };
    if interval_ns == 0 && timer.state.get() != POSIX_ARMED {
        return [0, 0];
    }
    let now_ns = clock.now_ns(cpu, timer);
    if is_silent || timer.state.get() != POSIX_ARMED {
        timers::pass(timer, now_ns);
    }
    match timer.expires_ns.get().saturating_sub(now_ns) {
        // It is about to expire; one that says nothing has.
        0 => [interval_ns, u64::from(!is_silent)],
        left_ns => [interval_ns, left_ns],
    }
}

fn write_setting<M: Machine>(call: &Call<M>, address: u64, [interval_ns, left_ns]: [u64; 2]) -> Result<(), Stop> {
    write_timespec(call, address, interval_ns)?;
    write_timespec(call, address.wrapping_add(16), left_ns)
}
