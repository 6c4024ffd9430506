//! Character devices, by Linux device number.

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::Device, signal::SIGPIPE, terminal::*};
use motet_hal::Machine;
use motet_layout::{HostStream, PIPE_BUF};
use motet_protocol::stream::{self, Moved, Part, Side};

use super::{cursor::Cursor, rw::partial, tty};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    random, signal,
};

/// `/dev/null`.
pub const NULL: Device = Device { major: 1, minor: 3 };
/// `/dev/zero`.
pub const ZERO: Device = Device { major: 1, minor: 5 };
/// `/dev/full`.
pub const FULL: Device = Device { major: 1, minor: 7 };
/// `/dev/random`.
pub const RANDOM: Device = Device { major: 1, minor: 8 };
/// `/dev/urandom`.
pub const URANDOM: Device = Device { major: 1, minor: 9 };
/// `/dev/kmsg`: what is written appears on the island's diagnostic console.
pub const KMSG: Device = Device { major: 1, minor: 11 };
/// `/dev/tty`: the controlling terminal.
pub const TTY: Device = Device { major: 5, minor: 0 };
/// `/dev/console`.
pub const CONSOLE: Device = Device { major: 5, minor: 1 };
/// `/dev/host/stdin`: bytes from the host.
pub const HOST_IN: Device = Device { major: 240, minor: 0 };
/// `/dev/host/stdout`: bytes to the host.
pub const HOST_OUT: Device = Device { major: 240, minor: 1 };
/// `/dev/host/stderr`: bytes to the host's standard error.
pub const HOST_ERR: Device = Device { major: 240, minor: 2 };
/// `/dev/dma`: transfers within the program's memory. Each open file of it is one of its own ([`super::dma`]).
pub const DMA: Device = Device { major: 240, minor: 3 };
/// `/dev/service`: the service core. Each open file of it is one of its own ([`super::service`]).
pub const SERVICE: Device = Device { major: 240, minor: 4 };

/// `/dev/vm`: virtual machines. Each open file of it is one ([`crate::vm`]).
pub const VM: Device = Device { major: 240, minor: 5 };

/// `/dev/accel/NAME`: accelerators of the FPGA, by minor number. Each open file of one is a client ([`super::accel`]).
pub const ACCEL_MAJOR: u32 = 241;

/// Whether a device can be opened now.
///
/// # Errors
/// `ENXIO`: there is no such device, or (`/dev/tty`) no controlling terminal.
pub fn check_open<M: Machine>(call: &Call<M>, device: Device, flags: u32) -> Result<(), Errno> {
    match device {
        NULL | ZERO | FULL | RANDOM | URANDOM | KMSG | HOST_IN | HOST_OUT | HOST_ERR | DMA | SERVICE | VM => Ok(()),
        Device { major: ACCEL_MAJOR, .. } => Ok(()),
        TTY if tty::controls(call) => Ok(()),
        CONSOLE => {
            tty::opened(call, flags);
            Ok(())
        }
        _ => Err(Errno::ENXIO),
    }
}

/// Reads from a device.
pub fn read<M: Machine>(call: &Call<M>, device: Device, nonblocking: bool, into: &mut Cursor<M>) -> SysResult {
    match device {
        NULL => Ok(0),
        ZERO | FULL => produce(call, into, cost::bytes, |into| into.zero()),
        RANDOM | URANDOM => {
            let mut bytes = [0; 256];
            produce(call, into, random::cost, |into| {
                random::fill(call.cpu, &mut bytes);
                into.write(&bytes)
            })
        }
        TTY | CONSOLE => tty::read(call, nonblocking, into),
        HOST_IN => read_stream(call, &call.cpu.pool.header().console_in, nonblocking, into),
        HOST_OUT | HOST_ERR | KMSG => Err(Errno::EINVAL.into()),
        _ => Err(Errno::ENXIO.into()),
    }
}

/// Fills user memory by pieces that `make` makes, each as long as it says. As on Linux, a signal ends the call with what is done.
pub fn produce<M: Machine>(
    call: &Call<M>,
    into: &mut Cursor<M>,
    cost_of: impl Fn(u64) -> u64,
    mut make: impl FnMut(&mut Cursor<M>) -> Result<usize, Errno>,
) -> SysResult {
    into.resume(call.thread.progress.get())?;
    while into.remaining() > 0 {
        let made = match make(into) {
            Ok(len) => len as u64,
            Err(errno) => return partial(into.done(), errno),
        };
        if into.remaining() > 0 && call.pauses(cost::PAGE + cost_of(made)) {
            if call.is_interrupted() {
                break;
            }
            call.thread.progress.set(into.done());
            return Err(Stop::Again);
        }
    }
    Ok(into.done())
}

/// Writes to a device.
pub fn write<M: Machine>(call: &Call<M>, device: Device, nonblocking: bool, from: &mut Cursor<M>) -> SysResult {
    let header = call.cpu.pool.header();
    match device {
        NULL | ZERO | RANDOM | URANDOM => Ok(from.remaining()),
        FULL => Err(Errno::ENOSPC.into()),
        KMSG => {
            let mut bytes = [0; 512];
            let len = from.read(&mut bytes)?;
            let text = bytes[..len].utf8_chunks().next().map_or("", |chunk| chunk.valid());
            call.cpu.log(format_args!("{}", text.trim_end()));
            Ok(len as u64 + from.remaining())
        }
        TTY | CONSOLE => tty::write(call, nonblocking, from),
        HOST_OUT => write_stream(call, &header.console_out, nonblocking, from),
        HOST_ERR => write_stream(call, &header.console_err, nonblocking, from),
        HOST_IN => Err(Errno::EINVAL.into()),
        _ => Err(Errno::ENXIO.into()),
    }
}

/// What `poll` says about a device: `POLLIN`, `POLLOUT`.
pub fn readiness<M: Machine>(cpu: &Cpu<M>, device: Device) -> u16 {
    let header = cpu.pool.header();
    let output = |stream| if stream::writable(stream, PIPE_BUF) { POLLOUT | POLLWRNORM } else { 0 };
    match device {
        TTY | CONSOLE => {
            let input = if tty::readable(cpu) { POLLIN | POLLRDNORM } else { 0 };
            input | output(&header.console_out)
        }
        HOST_IN if !readable(&header.console_in) => 0,
        HOST_IN => POLLIN | POLLRDNORM,
        HOST_OUT => output(&header.console_out),
        HOST_ERR => output(&header.console_err),
        _ => POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM,
    }
}

/// The queue of those who wait for a device to become readable, and for it to become writable.
pub fn queues<M: Machine>(cpu: &Cpu<M>, device: Device) -> [Option<&'static motet_layout::WaitQueue>; 2] {
    let header = cpu.pool.header();
    match device {
        TTY | CONSOLE => [Some(&header.tty.readers), Some(&header.console_out.waiters)],
        HOST_IN => [Some(&header.console_in.waiters), None],
        HOST_OUT => [None, Some(&header.console_out.waiters)],
        HOST_ERR => [None, Some(&header.console_err.waiters)],
        _ => [None, None],
    }
}

/// Bytes that can be read from a device without waiting (`FIONREAD`).
pub fn bytes_ready<M: Machine>(cpu: &Cpu<M>, device: Device) -> usize {
    match device {
        TTY | CONSOLE => tty::bytes_ready(cpu),
        HOST_IN => stream::used(&cpu.pool.header().console_in),
        _ => 0,
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
            let moved = stream::consume(call.cpu, input, || into.run())?;
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

/// Writes to the host. As to a pipe, a short write is not mixed with others'.
fn write_stream<M: Machine>(
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
                Err(errno) => return partial(from.done(), errno).map(Some),
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
) -> Result<Moved, Errno> {
    if part == Part::Whole && from.remaining() > from.run()?.1 as u64 {
        return gather(call, output, from);
    }
    stream::produce(call.cpu, output, part, || from.run())
}

/// Collects a short write that lies in several pieces, so that it reaches the host as one.
#[cold]
fn gather<M: Machine>(call: &Call<M>, output: &HostStream, from: &mut Cursor<M>) -> Result<Moved, Errno> {
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
