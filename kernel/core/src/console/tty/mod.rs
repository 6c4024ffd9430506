//! Terminals: what programs see of them. The line discipline is in [`line`], settings in [`ioctl`].
//!
//! Bytes typed arrive in a stream: from the host at the console, from the master at a pseudo-terminal. Whoever is told that there are some (the core
//! that the host rings, the master), or wants some (a reader), moves them through the line discipline into the terminal's input ring. Output goes
//! to another stream after output processing.

pub mod ioctl;
mod line;
pub mod terminal;

pub use line::forget_input;

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    file::{O_ACCMODE, O_NOCTTY, O_WRONLY},
    signal::{SIGTTIN, SIGTTOU, SIGWINCH, bit},
    terminal::*,
};
use motet_hal::Machine;
use motet_layout::{CONSOLE_TERMINAL, ProcessRecord};
use motet_protocol::{
    lock::lock,
    stream::{self, Part, Side},
    wait,
};

use terminal::Terminal;

use crate::cursor::{Cursor, partial, stopped};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    signal, tree,
};

/// Bytes of user memory that are processed at a time.
pub const CHUNK: usize = 256;
/// A tenth of a second, the unit of `VTIME`.
const TENTH_NS: u64 = 100_000_000;

/// Makes the console's terminal ready and lets the first process's session own it.
pub fn start<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) {
    let tty = Terminal::console(cpu);
    ioctl::set_attributes(tty, &Termios::fresh());
    tty.session.set(process.sid.load(Ordering::Relaxed));
    tty.foreground_pgid.set(process.pgid.load(Ordering::Relaxed));
    tty.told_size.store(cpu.pool.header().terminal_size.load(Ordering::Relaxed), Ordering::Relaxed);
    input_arrived(cpu);
}

/// Moves what the host has typed into the console's terminal, and asks the host to ring for more. Tells of a new size, for which the host rings, too.
#[inline(always)]
pub fn input_arrived<M: Machine>(cpu: &Cpu<M>) {
    if cpu.pool.header().interactive.get() == CONSOLE_TERMINAL {
        take_all_input(cpu, Terminal::console(cpu));
    }
}

/// Moves what is typed into a terminal, as far as there is room.
pub fn take_typed<M: Machine>(cpu: &Cpu<M>, tty: Terminal) {
    if tty.pty.is_some() { take_all_input(cpu, tty) } else { input_arrived(cpu) }
}

#[inline(never)]
fn take_all_input<M: Machine>(cpu: &Cpu<M>, tty: Terminal) {
    tell_size(cpu, tty);
    loop {
        if line::take_input(cpu, tty) {
            continue;
        }
        if closed(tty) {
            tty.wake_readers(cpu);
            return;
        }
        if line::is_full(tty) || stream::consumer_waits(tty.input) {
            return;
        }
    }
}

/// Tells the foreground process group if the terminal has another size than it knows of.
fn tell_size<M: Machine>(cpu: &Cpu<M>, tty: Terminal) {
    let size = tty.size(cpu).load(Ordering::Relaxed);
    if tty.told_size.load(Ordering::Relaxed) != size && tty.told_size.swap(size, Ordering::Relaxed) != size {
        let foreground = tty.foreground_pgid.get();
        if foreground != 0 {
            signal::send_to_group(cpu, foreground, SIGWINCH);
        }
    }
}

/// A terminal was opened: a session leader without one acquires it.
pub fn opened<M: Machine>(call: &Call<M>, tty: Terminal, flags: u32) {
    let process = call.process;
    let sid = process.sid.load(Ordering::Relaxed);
    let may_control = flags & O_NOCTTY == 0 && flags & O_ACCMODE != O_WRONLY && sid == process.pid.get();
    if may_control && tty.session.get() == 0 && Terminal::controlling(call.cpu, sid).is_none() {
        let _guard = lock(call.cpu, &tty.lock);
        if tty.session.get() == 0 {
            tty.control(call.cpu, process);
        }
    }
}

/// The leader of a session ends, or gives up its terminal: nobody has that any more. May be done twice.
pub fn leave_session<M: Machine>(cpu: &Cpu<M>, tty: Terminal, signals: &[u32]) {
    let foreground = tty.foreground_pgid.get();
    if foreground != 0 {
        for &signal in signals {
            signal::send_to_group(cpu, foreground, signal);
        }
    }
    let _guard = lock(cpu, &tty.lock);
    tty.session.set(0);
    tty.foreground_pgid.set(0);
}

/// Whether a read returns at once. A poll looks whether there is as much as a read waits for.
pub fn readable<M: Machine>(cpu: &Cpu<M>, tty: Terminal) -> bool {
    take_typed(cpu, tty);
    let [least, tenths] = [VMIN, VTIME].map(|index| u32::from(tty.control[index].load(Ordering::Relaxed)));
    let waits_for_all = tty.flags[3].get() & ICANON == 0 && tenths == 0;
    bytes_ready(tty) >= if waits_for_all { least.max(1) } else { 1 } || closed(tty) || tty.is_hung_up()
}

/// Bytes that a read would return.
pub fn bytes_ready(tty: Terminal) -> u32 {
    tty.ready.get()
}

/// Reads a line, or in raw mode what there is.
pub fn read<M: Machine>(call: &Call<M>, tty: Terminal, nonblocking: bool, into: &mut Cursor<M>) -> SysResult {
    if into.remaining() == 0 {
        return Ok(0);
    }
    check_foreground(call, tty, SIGTTIN)?;
    let raw = tty.flags[3].get() & ICANON == 0;
    let [least, tenths] = [VMIN, VTIME].map(|index| u64::from(tty.control[index].load(Ordering::Relaxed)));
    let (least, tenths) = if raw { (least, tenths) } else { (1, 0) };
    // With both, the time is that between two bytes.
    let between_bytes = least > 0 && tenths > 0;
    if tenths > 0 && !between_bytes && call.thread.deadline_ns.get() == 0 {
        call.thread.deadline_ns.set(call.cpu.reading_ns() + tenths * TENTH_NS);
    }
    let timed_out = call.timed_out();
    let [_, has_waited, ..] = &call.thread.scratch;
    call.wait_for(tty.readers(), || {
        if tty.is_hung_up() {
            return if has_waited.get() != 0 { Err(Errno::EIO.into()) } else { Ok(Some(0)) };
        }
        take_typed(call.cpu, tty);
        let available = u64::from(tty.ready.get());
        let enough = available >= least.min(into.remaining()).max(1);
        if between_bytes {
            restart_time(call, available, tenths);
        }
        if enough || available > 0 && (timed_out || nonblocking) {
            let read = take(call, tty, into)?;
            // Another reader may have been faster.
            return Ok(read.or((timed_out || least == 0).then_some(0)));
        }
        if closed(tty) || timed_out || least == 0 && tenths == 0 {
            return Ok(Some(0));
        }
        if nonblocking {
            return Err(Errno::EAGAIN.into());
        }
        has_waited.set(1);
        Ok(None)
    })
}

/// Bytes have come, or others have taken them: the time until the next one begins anew. The word that is kept says how many there were.
fn restart_time<M: Machine>(call: &Call<M>, available: u64, tenths: u64) {
    let [known, ..] = &call.thread.scratch;
    if known.get() != available {
        known.set(available);
        let deadline_ns = if available == 0 { 0 } else { call.cpu.reading_ns() + tenths * TENTH_NS };
        call.thread.deadline_ns.set(deadline_ns);
    }
}

/// Writes, with output processing.
pub fn write<M: Machine>(call: &Call<M>, tty: Terminal, nonblocking: bool, from: &mut Cursor<M>) -> SysResult {
    if tty.flags[3].get() & TOSTOP != 0 {
        check_foreground(call, tty, SIGTTOU)?;
    }
    let output = tty.output;
    from.advance(call.thread.progress.get() as usize)?;
    call.wait_for(&output.waiters, || {
        while from.remaining() > 0 {
            if tty.is_hung_up() {
                return partial(from.done(), Stop::from(Errno::EIO)).map(Some);
            }
            if tty.stopped.load(Ordering::Acquire) != 0 {
                if nonblocking {
                    return partial(from.done(), Stop::from(Errno::EAGAIN)).map(Some);
                }
                call.thread.progress.set(from.done());
                return Ok(None);
            }
            let written = match write_some(call, tty, from) {
                Ok(written) => written,
                Err(stop) => return stopped(call, from.done(), stop).map(Some),
            };
            if written {
                if from.remaining() > 0 && call.pauses(cost::PAGE + 10 * CHUNK as u64) {
                    call.thread.progress.set(from.done());
                    return Err(Stop::Again);
                }
                continue;
            }
            if nonblocking {
                return partial(from.done(), Stop::from(Errno::EAGAIN)).map(Some);
            }
            if stream::producer_waits(output, 2 * CHUNK) {
                call.thread.progress.set(from.done());
                return Ok(None);
            }
        }
        Ok(Some(from.done()))
    })
}

/// Writes bytes of the kernel's own (messages, echo), with output processing; what does not fit is dropped.
pub fn put<M: Machine>(cpu: &Cpu<M>, tty: Terminal, bytes: &[u8]) {
    let mut expanded = [0; 2 * CHUNK];
    for piece in bytes.chunks(CHUNK) {
        let len = line::process_output(tty, piece, &mut expanded);
        let moved = stream::produce_bytes(cpu, Side::Machine, tty.output, Part::Fitting, &expanded[..len]);
        tty.produced(cpu, moved);
    }
}

/// The user of the console has gone.
fn closed(tty: Terminal) -> bool {
    let input = tty.input;
    input.closed.load(Ordering::Acquire) != 0 && stream::used(input) == 0
}

/// Takes input that is ready; `None` when there is none. Bytes are copied out of the ring in pieces, so that user
/// memory is not touched with the terminal locked.
fn take<M: Machine>(call: &Call<M>, tty: Terminal, into: &mut Cursor<M>) -> Result<Option<u64>, Stop> {
    let mut any = false;
    loop {
        let mut bytes = [0; CHUNK];
        // Faults now, not after bytes were taken.
        let room = match into.run() {
            Ok((_, here)) => bytes.len().min(here),
            Err(_) if any => break,
            Err(stop) => return Err(stop),
        };
        let taken = {
            let _guard = lock(call.cpu, &tty.lock);
            line::take_ready(tty, &mut bytes[..room])
        };
        let Some(taken) = taken else { break };
        any = true;
        into.write(&bytes[..taken.len])?;
        if taken.ends_line || into.remaining() == 0 {
            break;
        }
    }
    if any {
        // There is room again for what who types may have kept back.
        take_typed(call.cpu, tty);
    }
    Ok(any.then_some(into.done()))
}

/// Processes and writes a piece of user memory. `false`: there is no room now.
fn write_some<M: Machine>(call: &Call<M>, tty: Terminal, from: &mut Cursor<M>) -> Result<bool, Stop> {
    let len = CHUNK.min(from.remaining() as usize);
    let (mut bytes, mut expanded) = ([0; CHUNK], [0; 2 * CHUNK]);
    from.peek(&mut bytes[..len])?;
    let expanded_len = line::process_output(tty, &bytes[..len], &mut expanded);
    let expanded = &expanded[..expanded_len];
    let moved = stream::produce_bytes(call.cpu, Side::Machine, tty.output, Part::Whole, expanded);
    tty.produced(call.cpu, moved);
    if moved.len > 0 {
        from.advance(len)?;
    }
    Ok(moved.len > 0)
}

/// Stops a background process that uses its controlling terminal.
///
/// # Errors
/// [`Stop::Block`] after the signal was sent: the call is made again when the process continues. `EIO` when it ignores
/// the signal (`SIGTTIN`), or nobody would continue it.
pub fn check_foreground<M: Machine>(call: &Call<M>, tty: Terminal, stop_signal: u32) -> Result<(), Stop> {
    let pgid = call.process.pgid.load(Ordering::Relaxed);
    if !tty.controls(call.process) || tty.foreground_pgid.get() == 0 || tty.foreground_pgid.get() == pgid {
        return Ok(());
    }
    let blocked = call.thread.signal_mask.load(Ordering::Relaxed) & bit(stop_signal) != 0;
    let ignored = signal::action_of(call.cpu, call.process, stop_signal).handler.get() == motet_abi::signal::SIG_IGN;
    if blocked || ignored {
        return if stop_signal == SIGTTIN { Err(Errno::EIO.into()) } else { Ok(()) };
    }
    let is_orphaned = {
        let _tree = tree::lock_tree(call.cpu);
        tree::is_orphaned(call.cpu, pgid, None)
    };
    if is_orphaned {
        return Err(Errno::EIO.into());
    }
    // A call that looks once more before that signal is taken does not send another one.
    if !signal::is_pending(call, bit(stop_signal)) {
        signal::send_to_group(call.cpu, pgid, stop_signal);
    }
    // The pending signal keeps the thread from blocking; afterwards the call is dispatched again.
    wait::prepare(call.thread);
    Err(Stop::Block)
}
