//! Waiting for several files: `poll`, `select` and their relatives.
//!
//! A call asks every file; if none is ready it prepares to wait, enters the queues of all, asks again, and blocks. Should there
//! be no memory for its places in all queues, it looks again every few milliseconds.

use motet_abi::{
    Errno, Syscall,
    file::O_PATH,
    signal::SIGSET_SIZE,
    terminal::*,
    time::{RLIMIT_NOFILE, Timeval},
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::{FILES_INLINE, FILES_MAX, WAKE_SIGNAL, ones, sync::Ordering};
use motet_protocol::wait;

use crate::{
    call::{Call, Stop, SysResult, cost, is_made_anew},
    description::kind::{INPUT, OUTPUT, if_so},
    file::descriptor::{description::OpenFile, table},
    signal::{begin_temporary_mask, end_temporary_mask},
    time,
    tree::limit_of,
};

/// How often files are asked when there was no memory to enter all of their queues, in nanoseconds.
const ASK_AGAIN_NS: u64 = 5_000_000;
const NS_PER_MS: u64 = 1_000_000;

/// Descriptors to read from, to write to, and of which something else is to be told.
type Sets = [[u64; FD_SETSIZE / 64]; 3];

/// `poll(entries, count, timeout_ms)`.
pub fn poll<M: Machine>(call: &Call<M>) -> SysResult {
    let [entries, count, timeout_ms, ..] = call.args;
    poll_entries(call, entries, count, milliseconds(timeout_ms))
}

/// The nanoseconds of a timeout in milliseconds; a negative one is none.
pub fn milliseconds(timeout_ms: u64) -> Option<u64> {
    u64::try_from(timeout_ms as i32).ok().map(|ms| ms * NS_PER_MS)
}

/// `ppoll(entries, count, timeout, mask, mask_size)`.
pub fn ppoll<M: Machine>(call: &Call<M>) -> SysResult {
    let [entries, count, timeout, mask, mask_size, _] = call.args;
    let timeout_ns = read_timeout(call, timeout)?;
    with_mask(call, (mask, mask_size), || {
        tell_left(call, Syscall::Ppoll, timeout_ns, || poll_entries(call, entries, count, timeout_ns))
    })
}

/// `select(count, readable, writable, exceptional, timeout)`.
pub fn select<M: Machine>(call: &Call<M>) -> SysResult {
    let [count, .., timeout, _] = call.args;
    let timeout_ns = match timeout {
        0 => None,
        _ => {
            let mut bytes = [0; Timeval::SIZE];
            call.read_user(timeout, &mut bytes)?;
            Some(of_any_microseconds(Timeval::take(&bytes)).and_then(Timeval::to_ns).ok_or(Errno::EINVAL)?)
        }
    };
    tell_left(call, Syscall::Select, timeout_ns, || select_sets(call, count, timeout_ns))
}

/// As on Linux, `select` takes a second and more in microseconds.
fn of_any_microseconds(time: Timeval) -> Option<Timeval> {
    let whole = time.tv_usec / 1_000_000;
    Some(Timeval { tv_sec: time.tv_sec.checked_add(whole)?, tv_usec: time.tv_usec % 1_000_000 })
}

/// Reads a timeout; none is at 0.
fn read_timeout<M: Machine>(call: &Call<M>, at: u64) -> Result<Option<u64>, Stop> {
    if at == 0 { Ok(None) } else { time::read_timespec(call, at).map(Some) }
}

/// Serves a call with a timeout, and tells at its end how much of that is left.
fn tell_left<M: Machine>(
    call: &Call<M>,
    kind: Syscall,
    timeout_ns: Option<u64>,
    serve: impl FnOnce() -> SysResult,
) -> SysResult {
    // As on Linux, a timeout of nothing is let be.
    if let Some(timeout_ns) = timeout_ns.filter(|&ns| ns != 0) {
        note_deadline(call, timeout_ns);
    }
    let result = serve();
    if matches!(result, Ok(_) | Err(Stop::Error(_))) {
        write_left(call, kind);
    }
    result
}

/// As on Linux, `poll` and `select` find nothing ready only if there is no signal either, also without time to wait: so `pselect6` can let signals
/// through and look. (`epoll_pwait` does not.)
fn or_signal<M: Machine>(call: &Call<M>, result: SysResult) -> SysResult {
    if result != Ok(0) || !call.is_interrupted() {
        return result;
    }
    wait::prepare(call.thread);
    // Blocking fails at once, and the core looks at its signals first.
    call.thread.attention.store(1, Ordering::Release);
    wait::wake_thread(call.cpu, call.thread, WAKE_SIGNAL);
    Err(Stop::Block)
}

/// A handler ends a wait with a timeout.
pub fn wait_interrupted<M: Machine>(call: &Call<M>, kind: Option<Syscall>) {
    if let Some(kind) = kind {
        write_left(call, kind);
    }
}

/// Writes how much is left of a timeout to where it was read. As on Linux, a place that cannot be written is let be.
fn write_left<M: Machine>(call: &Call<M>, kind: Syscall) {
    let deadline_ns = call.thread.scratch[0].get();
    if deadline_ns != 0 {
        let left_ns = deadline_ns.saturating_sub(call.cpu.reading_ns());
        let at = call.args[if kind == Syscall::Ppoll { 2 } else { 4 }];
        let _ = if kind == Syscall::Select {
            time::write_timeval(call, at, left_ns)
        } else {
            time::write_timespec(call, at, left_ns)
        };
    }
}

/// When the wait ends is fixed once.
fn note_deadline<M: Machine>(call: &Call<M>, timeout_ns: u64) {
    if call.thread.scratch[0].get() == 0 {
        call.thread.scratch[0].set(time::deadline_from(call.cpu, timeout_ns, false, false));
    }
}

/// `pselect6(count, readable, writable, exceptional, timeout, mask)`.
pub fn pselect6<M: Machine>(call: &Call<M>) -> SysResult {
    let [count, _, _, _, timeout, mask] = call.args;
    let timeout_ns = read_timeout(call, timeout)?;
    // The last argument points to a pair: mask, size.
    let mask = match mask {
        0 => (0, 0),
        pair => (call.read_user_u64(pair)?, call.read_user_u64(pair.wrapping_add(8))?),
    };
    with_mask(call, mask, || tell_left(call, Syscall::Pselect6, timeout_ns, || select_sets(call, count, timeout_ns)))
}

/// The events for which a file is ready (`POLLIN`, `POLLOUT` and their relatives), and those that are always reported.
pub fn readiness<M: Machine>(call: &Call<M>, file: &OpenFile<M>) -> u16 {
    if file.flags() & O_PATH != 0 { POLLNVAL } else { file.readiness(call) }
}

/// Fails with `EPERM` when there is no waiting for a file, because it is always ready.
pub fn check_waitable<M: Machine>(file: &OpenFile<M>) -> Result<(), Errno> {
    if file.flags() & O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    let always_ready = file.queues().iter().all(|(queue, _)| queue.is_none());
    if always_ready { Err(Errno::EPERM) } else { Ok(()) }
}

/// Enters the queues that tell of `events`.
pub fn enter<M: Machine>(call: &Call<M>, file: &OpenFile<M>, events: u16, asked: &mut Asked) {
    asked.again_at(file.ready_ns(call));
    for (queue, tells) in file.queues() {
        // Also who asks for nothing hears of hang-ups.
        let queue = queue.filter(|_| tells == u16::MAX || events & tells != 0);
        if queue.is_some_and(|queue| !wait::enqueue(call.cpu, call.thread, queue, 0, u32::MAX)) {
            asked.queues_missed = true;
        }
    }
}

fn poll_entries<M: Machine>(call: &Call<M>, entries: u64, count: u64, timeout_ns: Option<u64>) -> SysResult {
    // As on Linux: more than the process may have descriptors.
    if u64::from(count as u32) > limit_of(call.process, RLIMIT_NOFILE).min(FILES_MAX as u64) {
        return Err(Errno::EINVAL.into());
    }
    let found = wait_until_ready(call, timeout_ns, |enter_queues| {
        let mut result = Asked::default();
        for index in 0..u64::from(count as u32) {
            call.serve_due(2 * cost::OBJECT);
            let at = entries.wrapping_add(index * Pollfd::SIZE as u64);
            let mut bytes = [0; Pollfd::SIZE];
            call.read_user(at, &mut bytes)?;
            let mut entry = Pollfd::take(&bytes);
            entry.revents = 0;
            if entry.fd >= 0 {
                entry.revents = match table::get(call, entry.fd) {
                    Err(_) => POLLNVAL,
                    Ok(file) => {
                        if enter_queues {
                            enter(call, &file, entry.events, &mut result);
                        }
                        readiness(call, &file) & (entry.events | POLLERR | POLLHUP | POLLNVAL)
                    }
                };
            }
            result.ready += u64::from(entry.revents != 0);
            entry.put(&mut bytes);
            call.write_user(at, &bytes)?;
        }
        Ok(result)
    });
    or_signal(call, found)
}

fn select_sets<M: Machine>(call: &Call<M>, count: u64, timeout_ns: Option<u64>) -> SysResult {
    let count = count as i32;
    if count < 0 {
        return Err(Errno::EINVAL.into());
    }
    // As on Linux, descriptors beyond the table are not looked at.
    let in_table = table::of(call.cpu, call.process).high.get().max(FILES_INLINE as u32) as usize;
    let count = (count as usize).min(FD_SETSIZE).min(in_table);
    let words = (call.args[0] as usize).min(FD_SETSIZE).div_ceil(64);
    let asked = read_sets(call, words)?;
    let mut ready = Sets::default();
    let found = wait_until_ready(call, timeout_ns, |enter_queues| {
        let mut result = Asked::default();
        for word in 0..count.div_ceil(64) {
            let wanted = asked.each_ref().map(|set| set[word]);
            let in_count = u64::MAX >> 64_usize.saturating_sub(count - 64 * word);
            let mut found = [0; 3];
            for bit in ones((wanted[0] | wanted[1] | wanted[2]) & in_count) {
                call.serve_due(2 * cost::OBJECT);
                let file = table::get(call, (64 * word + bit) as i32)?;
                if enter_queues {
                    let [input, output, urgent] = wanted.map(|set| set >> bit & 1 != 0);
                    let events = if_so(input, INPUT) | if_so(output, OUTPUT) | if_so(urgent, POLLPRI);
                    enter(call, &file, events, &mut result);
                }
                let events = readiness(call, &file);
                for (set, told) in found.iter_mut().zip([INPUT | POLLHUP | POLLERR, OUTPUT | POLLERR, POLLPRI]) {
                    *set |= u64::from(events & told != 0) << bit;
                }
            }
            for (set, bits) in [0, 1, 2].map(|set: usize| (set, found[set] & wanted[set])) {
                ready[set][word] = bits;
                result.ready += u64::from(bits.count_ones());
            }
        }
        Ok(result)
    });
    let number = or_signal(call, found)?;
    write_sets(call, &ready, words)?;
    Ok(number)
}

/// The sets whose addresses are the call's second argument to its fourth, of so many words; an address that is 0 is of an empty one.
fn read_sets<M: Machine>(call: &Call<M>, words: usize) -> Result<Sets, Stop> {
    let mut sets = Sets::default();
    for (set, &address) in sets.iter_mut().zip(&call.args[1..4]) {
        let mut bytes = [0; FD_SETSIZE / 8];
        if address != 0 {
            call.read_user(address, &mut bytes[..8 * words])?;
        }
        let read = bytes.as_chunks().0.iter().take(words);
        set.iter_mut().zip(read).for_each(|(word, &bytes)| *word = u64::from_le_bytes(bytes));
    }
    Ok(sets)
}

fn write_sets<M: Machine>(call: &Call<M>, sets: &Sets, words: usize) -> Result<(), Stop> {
    for (set, &address) in sets.iter().zip(&call.args[1..4]) {
        let mut bytes = [0; FD_SETSIZE / 8];
        let written = bytes.as_chunks_mut().0.iter_mut().take(words);
        written.zip(set).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        if address != 0 {
            call.write_user(address, &bytes[..8 * words])?;
        }
    }
    Ok(())
}

/// What asking all files brought.
pub struct Asked {
    /// How many are ready.
    pub ready: u64,
    /// There was no memory to enter all queues.
    pub queues_missed: bool,
    /// When a timer among them expires (`u64::MAX`: none does).
    expires_ns: u64,
}

impl Asked {
    /// Notes when a file becomes ready by time alone, because nothing wakes its queue then.
    fn again_at(&mut self, ns: u64) {
        self.expires_ns = self.expires_ns.min(ns);
    }
}

impl Default for Asked {
    fn default() -> Self {
        Self { ready: 0, queues_missed: false, expires_ns: u64::MAX }
    }
}

/// Asks, waits and asks again until something is ready or the time has passed. The deadline is kept in `scratch[0]`,
/// because the thread's own may be earlier.
pub fn wait_until_ready<M: Machine>(
    call: &Call<M>,
    timeout_ns: Option<u64>,
    mut ask: impl FnMut(bool) -> Result<Asked, Stop>,
) -> SysResult {
    let thread = call.thread;
    let asked = ask(false)?;
    if asked.ready > 0 || timeout_ns == Some(0) {
        return Ok(asked.ready);
    }
    if let Some(timeout_ns) = timeout_ns {
        note_deadline(call, timeout_ns);
        if thread.scratch[0].get() <= call.cpu.reading_ns() {
            return Ok(0);
        }
    }
    wait::prepare(thread);
    match ask(true) {
        Ok(asked) if asked.ready == 0 => {
            let own = if timeout_ns.is_some() { thread.scratch[0].get() } else { u64::MAX };
            let again = if asked.queues_missed { call.cpu.now_ns() + ASK_AGAIN_NS } else { u64::MAX };
            let deadline = own.min(again).min(asked.expires_ns);
            thread.deadline_ns.set(if deadline == u64::MAX { 0 } else { deadline });
            Err(Stop::Block)
        }
        found => {
            wait::finish(call.cpu, thread);
            found.map(|asked| asked.ready)
        }
    }
}

/// Runs `serve` with another signal mask (of `size` bytes at `mask` in user memory, unless 0) until the call has ended.
pub fn with_mask<M: Machine>(call: &Call<M>, (mask, size): (u64, u64), serve: impl FnOnce() -> SysResult) -> SysResult {
    if mask != 0 && call.begins() {
        if size != SIGSET_SIZE {
            return Err(Errno::EINVAL.into());
        }
        begin_temporary_mask(call, call.read_user_u64(mask)?);
    }
    let result = serve();
    let goes_on = match result {
        Err(Stop::Block | Stop::Again) => true,
        Err(Stop::Page) => !is_made_anew(call.thread),
        Ok(_) | Err(Stop::Error(_) | Stop::Replaced | Stop::Gone) => false,
    };
    if !goes_on {
        end_temporary_mask(call);
    }
    result
}
