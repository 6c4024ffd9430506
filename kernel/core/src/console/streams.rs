//! Streams of bytes from the host and to it.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, signal::SIGPIPE};
use motet_hal::Machine;
use motet_layout::{HostStream, PIPE_BUF, PoolHeader};
use motet_protocol::{
    stream::{self, Moved, Part, Side},
    wait,
};

use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cursor::{Cursor, partial, stopped},
    signal,
};

/// The host rang: there is input, or room for output.
#[inline(always)]
pub fn host_rang<M: Machine>(cpu: &Cpu<M>) {
    let header = cpu.pool.header();
    // Mostly nobody waits, and the host has rung for nothing, or another core for something else.
    let queues = [&header.console_in, &header.console_out, &header.console_err].map(|stream| &stream.waiters);
    if wait::has_any(queues) {
        wake_streams(cpu);
    }
}

/// Whether somebody waits for a stream, and need not wait any longer.
#[inline(always)]
pub fn may_wake(header: &PoolHeader) -> bool {
    wait::has_any([&header.console_in, &header.console_out, &header.console_err].map(|stream| &stream.waiters))
        && is_any_ready(header)
}

#[cold]
fn is_any_ready(header: &PoolHeader) -> bool {
    stream::readable(&header.console_in)
        || [&header.console_out, &header.console_err].iter().any(|output| stream::writable(output, 1))
}

#[inline(never)]
fn wake_streams<M: Machine>(cpu: &Cpu<M>) {
    let header = cpu.pool.header();
    if stream::readable(&header.console_in) {
        wait::wake(cpu, &header.console_in.waiters);
    }
    for output in [&header.console_out, &header.console_err] {
        if stream::writable(output, 1) {
            wait::wake(cpu, &output.waiters);
        }
    }
}

/// Whether a reader of the stream need not wait. If it must, the host is asked to ring.
pub fn readable(input: &HostStream) -> bool {
    stream::readable(input) || !stream::consumer_waits(input)
}

/// Reads from a stream that the host produces.
pub fn read_stream<M: Machine>(
    call: &Call<M>,
    input: &'static HostStream,
    nonblocking: bool,
    into: &mut Cursor<M>,
) -> SysResult {
    if into.remaining() == 0 {
        return Ok(0);
    }
    call.wait_for(&input.waiters, || {
        loop {
            let moved = match stream::consume(call.cpu, input, || into.run()) {
                Ok(moved) => moved,
                Err(stop) => return partial(into.done(), stop).map(Some),
            };
            ring_host_if(call.cpu, moved);
            into.advance(moved.len)?;
            let more = moved.len > 0 && into.remaining() > 0 && stream::used(input) > 0;
            // More can be read by another call.
            let more = more && !call.pauses(cost::PAGE + cost::bytes(moved.len as u64));
            if !more && into.done() > 0 {
                return Ok(Some(into.done()));
            }
            if moved.len > 0 {
                continue;
            }
            if stream::used(input) == 0 && stream::readable(input) {
                return Ok(Some(0));
            }
            if nonblocking {
                return Err(Errno::EAGAIN.into());
            }
            if stream::consumer_waits(input) {
                return Ok(None);
            }
        }
    })
}

/// Writes to a stream that the host consumes. As to a pipe, a short write is not mixed with others'.
pub fn write_stream<M: Machine>(
    call: &Call<M>,
    output: &'static HostStream,
    nonblocking: bool,
    from: &mut Cursor<M>,
) -> SysResult {
    let before = call.thread.progress.get();
    from.advance(before as usize)?;
    let part = if before == 0 && from.remaining() <= PIPE_BUF as u64 { Part::Whole } else { Part::Fitting };
    call.wait_for(&output.waiters, || {
        while from.remaining() > 0 {
            if output.gone.load(Ordering::Acquire) != 0 {
                signal::send_to_thread(call.cpu, call.thread, SIGPIPE);
                return partial(from.done(), Errno::EPIPE).map(Some);
            }
            let moved = match write_part(call, output, part, from) {
                Ok(moved) => moved,
                Err(stop) => return stopped(call, from.done(), stop).map(Some),
            };
            ring_host_if(call.cpu, moved);
            from.advance(moved.len)?;
            if moved.len > 0 && from.remaining() > 0 && call.pauses(cost::PAGE + cost::bytes(moved.len as u64)) {
                call.thread.progress.set(from.done());
                return Err(Stop::Again);
            }
            if moved.len == 0 {
                if nonblocking {
                    return partial(from.done(), Stop::from(Errno::EAGAIN)).map(Some);
                }
                if stream::producer_waits(output, PIPE_BUF) {
                    call.thread.progress.set(from.done());
                    return Ok(None);
                }
            }
        }
        Ok(Some(from.done()))
    })
}

fn write_part<M: Machine>(
    call: &Call<M>,
    output: &HostStream,
    part: Part,
    from: &mut Cursor<M>,
) -> Result<Moved, Stop> {
    if part == Part::Whole && from.remaining() > from.run()?.1 as u64 {
        return gather(call, output, from);
    }
    stream::produce(call.cpu, output, part, || from.run())
}

/// Collects a short write that lies in several pieces, so that it reaches the host as one.
#[cold]
fn gather<M: Machine>(call: &Call<M>, output: &HostStream, from: &mut Cursor<M>) -> Result<Moved, Stop> {
    let mut bytes = [0; PIPE_BUF];
    let bytes = &mut bytes[..from.remaining() as usize];
    from.peek(bytes)?;
    Ok(stream::produce_bytes(call.cpu, Side::Machine, output, Part::Whole, bytes))
}

/// Rings the host if it waits for what was moved.
pub fn ring_host_if<M: Machine>(cpu: &Cpu<M>, moved: Moved) {
    if moved.ring {
        cpu.machine.ring_host();
    }
}
