//! Character devices, by Linux device number.

use motet_abi::{Errno, file::Device, terminal::*};
use motet_hal::Machine;
use motet_layout::PIPE_BUF;
use motet_protocol::stream;

use crate::{
    call::{Call, SysResult, cost},
    console::{
        streams::{read_stream, readable, write_stream},
        tty,
    },
    cpu::Cpu,
    cursor::{Cursor, produce},
    random,
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
/// `/dev/dma`: transfers within the program's memory. Each open file of it is one of its own ([`crate::kinds::dma`]).
pub const DMA: Device = Device { major: 240, minor: 3 };
/// `/dev/service`: the service core. Each open file of it is one of its own ([`crate::kinds::service`]).
pub const SERVICE: Device = Device { major: 240, minor: 4 };

/// `/dev/vm`: virtual machines. Each open file of it is one ([`crate::vm`]).
pub const VM: Device = Device { major: 240, minor: 5 };

/// `/dev/late`: pages that arrive late. Each open file of it has its own ([`crate::kinds::late`]).
pub const LATE: Device = Device { major: 240, minor: 6 };

/// `/dev/accel/NAME`: accelerators of the FPGA, by minor number. Each open file of one is a client ([`crate::kinds::accel`]).
pub const ACCEL_MAJOR: u32 = 241;

/// Whether a device can be opened now.
///
/// # Errors
/// `ENXIO`: there is no such device, or (`/dev/tty`) no controlling terminal.
pub fn check_open<M: Machine>(call: &Call<M>, device: Device, flags: u32) -> Result<(), Errno> {
    match device {
        NULL | ZERO | FULL | RANDOM | URANDOM | KMSG | HOST_IN | HOST_OUT | HOST_ERR | DMA | SERVICE | VM | LATE => {
            Ok(())
        }
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
