//! Character devices, by Linux device number.

use core::fmt::{self, Write};

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{FILE_DEVICE, FileRecord, InodeRecord, PIPE_BUF};
use motet_protocol::{fs::Held, stream, wait};

use super::pty;
use crate::{
    call::{Call, Stop, SysResult, cost},
    console::{
        streams::{read_stream, readable, write_stream},
        tty::{
            self,
            ioctl::{self, Side},
            terminal::{PTY_MAJOR, Terminal, session_of},
        },
    },
    cpu::Cpu,
    cursor::{Cursor, produce},
    description::{
        self, Parts,
        kind::{Facts, INPUT, Kind, OUTPUT, Queues, Transfer, answer_ioctl, if_so, queues},
    },
    file::descriptor::{busy, position::seek_endless},
    kinds::{accel, dma, late, service},
    mm, peers, random, vm,
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
/// `/dev/ptmx`: each open file of it is the master of a new pseudo-terminal.
pub const PTMX: Device = Device { major: 5, minor: 2 };
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

/// `/dev/probe`: what is written, a kernel's number and another one (8 bytes each), goes to that kernel as a probe. For tests, which make the node themselves.
pub const PROBE: Device = Device { major: 240, minor: 7 };
/// How long a probe waits for others to go first, before it looks again.
const PROBE_NS: u64 = 100_000;

/// `/dev/accel/NAME`: accelerators of the FPGA, by minor number. Each open file of one is a client ([`crate::kinds::accel`]).
pub const ACCEL_MAJOR: u32 = 241;

/// Opens the device of an inode, of which some are kinds of their own.
///
/// # Errors
/// `ENXIO`: there is no such device, or (`/dev/tty`) no controlling terminal; `ENFILE`; those of the kinds.
pub fn open<M: Machine>(call: &Call<M>, inode: Held<'_, Cpu<M>>, flags: u32) -> Result<&'static FileRecord, Stop> {
    let device = Device::decode(inode.rdev.get());
    match device {
        DMA => return Ok(dma::open(call, inode, flags)?),
        SERVICE => return Ok(service::open(call, flags)?),
        VM => return Ok(vm::open(call, flags)?),
        LATE => return Ok(late::open(call, flags)?),
        Device { major: ACCEL_MAJOR, minor } => return accel::open(call, flags, minor),
        PTMX => return Ok(pty::open_master(call, inode, flags)?),
        Device { major: PTY_MAJOR, .. } => {
            let terminal = pty::of_node(call.cpu, inode.inode())?;
            return Ok(pty::open(call, terminal, inode, flags)?);
        }
        TTY => {
            let terminal = Terminal::controlling(call.cpu, session_of(call.process)).ok_or(Errno::ENXIO)?;
            if let Some(terminal) = terminal.pty {
                return Ok(pty::open(call, terminal, inode, flags)?);
            }
        }
        _ => check_open(call, device, flags)?,
    }
    let record = describe(call.cpu, device, Some(inode.inode()), flags)?;
    busy::opened(record, inode.inode(), flags);
    // The description has taken over the reference.
    inode.release();
    Ok(record)
}

/// A description of a device. A reference to its inode is handed over.
///
/// # Errors
/// `ENFILE`.
pub fn describe<M: Machine>(
    cpu: &Cpu<M>,
    device: Device,
    inode: Option<&'static InodeRecord>,
    flags: u32,
) -> Result<&'static FileRecord, Errno> {
    description::create(cpu, &Parts { kind: FILE_DEVICE, flags, inode, object: u64::from(device.encode()) })
}

/// A character device, by its Linux number.
impl Kind for Device {
    const CODES: &'static [u32] = &[FILE_DEVICE];
    const FACTS: Facts = Facts {
        mode: S_IFCHR | 0o600,
        has_offsets: true,
        has_signals: true,
        // A terminal may be set to show what has come before.
        is_asked: true,
        ..Facts::ANONYMOUS
    };

    #[inline(always)]
    fn of<M: Machine>(_cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        Some(Self::decode(file.object.get() as u32))
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "device:[{}:{}]", self.major, self.minor)
    }

    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        read(call, self, how.nonblocking(), into)
    }

    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        write(call, self, how.nonblocking(), from)
    }

    fn seek<M: Machine>(self, call: &Call<M>, file: &FileRecord, to: (i64, u32)) -> SysResult {
        match self {
            Self { major: 5 | 240, .. } => Err(Errno::ESPIPE.into()),
            // As on Linux, they have one position.
            NULL | ZERO => Ok(0),
            _ => seek_endless(call, file, to),
        }
    }

    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        readiness(call.cpu, self)
    }

    fn queues<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        let header = cpu.pool.header();
        match self {
            TTY | CONSOLE => queues(Some(&header.tty.readers), Some(&header.console_out.waiters)),
            HOST_IN => queues(Some(&header.console_in.waiters), None),
            HOST_OUT => queues(None, Some(&header.console_out.waiters)),
            HOST_ERR => queues(None, Some(&header.console_err.waiters)),
            _ => queues(None, None),
        }
    }

    /// Their room for output seldom goes: it is told once.
    fn arrivals<M: Machine>(self, _cpu: &Cpu<M>) -> [Option<u64>; 2] {
        [None, Some(0)]
    }

    fn ioctl<M: Machine>(
        self,
        call: &Call<M>,
        file: &FileRecord,
        (request, argument): (u32, u64),
        _memory: impl FnOnce(i32, (u64, u64)) -> Result<&'static InodeRecord, Errno>,
    ) -> SysResult {
        match self {
            TTY | CONSOLE => ioctl::serve(call, Terminal::console(call.cpu), Side::Terminal, (request, argument)),
            _ => answer_ioctl(self, call, file, (request, argument)),
        }
    }

    fn bytes_ready<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord) -> Result<u64, Errno> {
        match self {
            NULL | ZERO => Err(Errno::ENOTTY),
            HOST_IN => Ok(stream::used(&cpu.pool.header().console_in) as u64),
            _ => Ok(0),
        }
    }

    fn map<'c, M: Machine>(
        self,
        _call: &Call<'c, M>,
        _file: &FileRecord,
        _writable_shared: bool,
    ) -> Result<Option<mm::Mappable<'c, M>>, Errno> {
        if self == ZERO { Ok(None) } else { Err(Errno::ENODEV) }
    }

    fn reopen<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord, flags: u32) -> Result<&'static FileRecord, Errno> {
        describe(cpu, self, None, flags)
    }

    fn device(self) -> Device {
        self
    }
}

/// Whether a device can be opened now.
///
/// # Errors
/// `ENXIO`: there is no such device.
fn check_open<M: Machine>(call: &Call<M>, device: Device, flags: u32) -> Result<(), Errno> {
    match device {
        NULL | ZERO | FULL | RANDOM | URANDOM | KMSG | HOST_IN | HOST_OUT | HOST_ERR => Ok(()),
        TTY => Ok(()),
        PROBE if peers::are_there(call.cpu) => Ok(()),
        CONSOLE => {
            tty::opened(call, Terminal::console(call.cpu), flags);
            Ok(())
        }
        _ => Err(Errno::ENXIO),
    }
}

/// Reads from a device.
fn read<M: Machine>(call: &Call<M>, device: Device, nonblocking: bool, into: &mut Cursor<M>) -> SysResult {
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
        TTY | CONSOLE => tty::read(call, Terminal::console(call.cpu), nonblocking, into),
        HOST_IN => read_stream(call, &call.cpu.pool.header().console_in, nonblocking, into),
        HOST_OUT | HOST_ERR | KMSG => Err(Errno::EINVAL.into()),
        _ => Err(Errno::ENXIO.into()),
    }
}

/// Writes to a device.
fn write<M: Machine>(call: &Call<M>, device: Device, nonblocking: bool, from: &mut Cursor<M>) -> SysResult {
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
        TTY | CONSOLE => tty::write(call, Terminal::console(call.cpu), nonblocking, from),
        HOST_OUT => write_stream(call, &header.console_out, nonblocking, from),
        HOST_ERR => write_stream(call, &header.console_err, nonblocking, from),
        HOST_IN => Err(Errno::EINVAL.into()),
        PROBE => send_probe(call, from),
        _ => Err(Errno::ENXIO.into()),
    }
}

/// Sends a probe.
///
/// # Errors
/// `EINVAL`: that is not a kernel's number and another one; `EIO`: there is no such kernel, it takes nothing, or it has written what cannot be.
#[inline(never)]
fn send_probe<M: Machine>(call: &Call<M>, from: &mut Cursor<M>) -> SysResult {
    let (cpu, thread) = (call.cpu, call.thread);
    let mut words = [[0; 8]; 2];
    if from.remaining() != 16 || from.read(words.as_flattened_mut())? != 16 {
        return Err(Errno::EINVAL.into());
    }
    let [node, number] = words.map(u64::from_le_bytes);
    match peers::probe(cpu, u32::try_from(node).unwrap_or(u32::MAX), number) {
        Ok(()) => Ok(16),
        // What this kernel has sent before goes first.
        Err(Errno::EAGAIN) => {
            thread.deadline_ns.set(cpu.reading_ns() + PROBE_NS);
            wait::prepare(thread);
            Err(Stop::Block)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// What `poll` says about a device: `POLLIN`, `POLLOUT`.
fn readiness<M: Machine>(cpu: &Cpu<M>, device: Device) -> u16 {
    let header = cpu.pool.header();
    let output = |stream| if_so(stream::writable(stream, PIPE_BUF), OUTPUT);
    match device {
        TTY | CONSOLE => if_so(tty::readable(cpu, Terminal::console(cpu)), INPUT) | output(&header.console_out),
        HOST_IN => if_so(readable(&header.console_in), INPUT),
        HOST_OUT => output(&header.console_out),
        HOST_ERR => output(&header.console_err),
        _ => INPUT | OUTPUT,
    }
}
