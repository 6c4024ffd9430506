//! Pseudo-terminals as files: the terminal (`/dev/pts/N`), and its master (`/dev/ptmx`). What they are is in `console::pty`.

use core::fmt::{self, Write};

use motet_abi::{Errno, file::*, terminal::*};
use motet_hal::Machine;
use motet_layout::{
    FILE_PTY, FILE_PTY_MASTER, FileRecord, InodeRecord, PTY_LOCKED, PtyRecord, TTY_PACKETS, sync::Ordering,
};
use motet_protocol::{
    Context,
    fs::{self, Held},
    lock::lock,
    stream,
};

use crate::{
    call::{Call, SysResult},
    console::{
        pty,
        tty::{
            self,
            ioctl::{self, Side},
            terminal::{PTY_MAJOR, Terminal},
        },
    },
    cpu::Cpu,
    cursor::Cursor,
    description::{
        self, Parts,
        kind::{Facts, INPUT, Kind, OUTPUT, Queues, Transfer, if_so},
    },
    file::descriptor::{description::put, table},
    permission::{self, Capability},
    signal,
};

const FACTS: Facts = Facts { mode: S_IFCHR | 0o620, has_signals: true, ..Facts::ANONYMOUS };

/// Opens a master, of a new pseudo-terminal.
///
/// # Errors
/// `ENOSPC`: there are as many as there can be; `ENOMEM`, `ENFILE`.
pub fn open_master<M: Machine>(
    call: &Call<M>,
    inode: Held<'_, Cpu<M>>,
    flags: u32,
) -> Result<&'static FileRecord, Errno> {
    let made = pty::make(call)?;
    let described = describe(call.cpu, FILE_PTY_MASTER, made, Some(inode.inode()), flags);
    let Ok(record) = described else {
        pty::put(call.cpu, made);
        return described;
    };
    // The description has taken over the reference.
    inode.release();
    pty::begin(call.cpu, made, record);
    Ok(record)
}

/// Opens a pseudo-terminal by a node, its own or `/dev/tty`.
///
/// # Errors
/// `EIO`: it is none any more, or locked; `EBUSY`: only who has it open may use it; `ENFILE`.
pub fn open<M: Machine>(
    call: &Call<M>,
    pty: &'static PtyRecord,
    inode: Held<'_, Cpu<M>>,
    flags: u32,
) -> Result<&'static FileRecord, Errno> {
    let cpu = call.cpu;
    let node = inode.inode();
    let record = describe(cpu, FILE_PTY, pty, Some(node), flags)?;
    // The description has taken over the reference.
    inode.release();
    let is_meant = || match Device::decode(node.rdev.get()).major {
        PTY_MAJOR => pty::is_node_of(cpu, pty, node),
        _ => Terminal::of_pty(cpu, pty).controls(call.process),
    };
    let opened = pty::count(cpu, pty, record, is_meant).and_then(|()| {
        let is_shared = pty.tty.exclusive.load(Ordering::Relaxed) == 0;
        if is_shared || permission::has(call.process, Capability::Administer) { Ok(()) } else { Err(Errno::EBUSY) }
    });
    if let Err(errno) = opened {
        put(cpu, record);
        return Err(errno);
    }
    tty::opened(call, Terminal::of_pty(cpu, pty), flags);
    Ok(record)
}

/// The pseudo-terminal whose node an inode is.
///
/// # Errors
/// `EIO`: it is no node of one that is there.
pub fn of_node<M: Machine>(cpu: &Cpu<M>, inode: &InodeRecord) -> Result<&'static PtyRecord, Errno> {
    let Device { major, minor } = Device::decode(inode.rdev.get());
    let pty = pty::numbered(cpu, minor).filter(|pty| major == PTY_MAJOR && pty::is_node_of(cpu, pty, inode));
    pty.ok_or(Errno::EIO)
}

/// A description that is not counted yet. A reference to its inode is handed over.
fn describe<M: Machine>(
    cpu: &Cpu<M>,
    kind: u32,
    pty: &'static PtyRecord,
    inode: Option<&'static InodeRecord>,
    flags: u32,
) -> Result<&'static FileRecord, Errno> {
    let parts = Parts { kind, flags, inode, object: cpu.raw(pty) };
    description::create_prepared(cpu, &parts, |record| record.ended.store(1, Ordering::Relaxed))
}

/// A pseudo-terminal.
#[derive(Clone, Copy)]
pub struct Pty(&'static PtyRecord);

impl Kind for Pty {
    const CODES: &'static [u32] = &[FILE_PTY];
    const FACTS: Facts = FACTS;

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "/dev/pts/{}", self.0.number.get())
    }

    #[inline(never)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        tty::read(call, Terminal::of_pty(call.cpu, self.0), how.nonblocking(), into)
    }

    #[inline(never)]
    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        tty::write(call, Terminal::of_pty(call.cpu, self.0), how.nonblocking(), from)
    }

    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        let terminal = Terminal::of_pty(call.cpu, self.0);
        if terminal.is_hung_up() {
            return INPUT | OUTPUT | POLLERR | POLLHUP;
        }
        let goes_on = terminal.stopped.load(Ordering::Acquire) == 0;
        if_so(tty::readable(call.cpu, terminal), INPUT)
            | if_so(goes_on && stream::writable(terminal.output, 2 * tty::CHUNK), OUTPUT)
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        [(Some(&self.0.tty.readers), u16::MAX), (Some(&self.0.output.waiters), OUTPUT)]
    }

    fn ioctl<M: Machine>(
        self,
        call: &Call<M>,
        _file: &FileRecord,
        (request, argument): (u32, u64),
        _memory: impl FnOnce(i32, (u64, u64)) -> Result<&'static InodeRecord, Errno>,
    ) -> SysResult {
        let Self(pty) = self;
        let terminal = Terminal::of_pty(call.cpu, pty);
        if terminal.is_hung_up() {
            return Err(if request == TIOCSPGRP { Errno::ENOTTY } else { Errno::EIO }.into());
        }
        ioctl::serve(call, terminal, Side::Terminal, (request, argument))
    }

    fn device(self) -> Device {
        Device { major: PTY_MAJOR, minor: self.0.number.get() }
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>, file: &'static FileRecord) {
        pty::closed(cpu, self.0, file);
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        pty::put(cpu, self.0);
    }
}

/// The master of a pseudo-terminal.
#[derive(Clone, Copy)]
pub struct PtyMaster(&'static PtyRecord);

impl Kind for PtyMaster {
    const CODES: &'static [u32] = &[FILE_PTY_MASTER];
    const FACTS: Facts = FACTS;

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "/dev/ptmx")
    }

    #[inline(never)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        pty::read(call, self.0, how.nonblocking(), into)
    }

    #[inline(never)]
    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        pty::write(call, self.0, how.nonblocking(), from)
    }

    fn readiness<M: Machine>(self, _call: &Call<M>, _file: &FileRecord) -> u16 {
        let Self(pty) = self;
        if_so(pty::is_readable(pty), INPUT)
            | if_so(pty::has_packet(pty), POLLPRI)
            | if_so(pty::is_left(pty), POLLHUP)
            | if_so(stream::writable(&pty.input, tty::CHUNK), OUTPUT)
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        [(Some(&self.0.readers), u16::MAX), (Some(&self.0.input.waiters), OUTPUT)]
    }

    fn ioctl<M: Machine>(
        self,
        call: &Call<M>,
        _file: &FileRecord,
        (request, argument): (u32, u64),
        _memory: impl FnOnce(i32, (u64, u64)) -> Result<&'static InodeRecord, Errno>,
    ) -> SysResult {
        let (cpu, Self(pty)) = (call.cpu, self);
        let is = |condition: bool| u32::from(condition).to_le_bytes();
        match request {
            TIOCGPTN => call.write_user(argument, &pty.number.get().to_le_bytes())?,
            TIOCSPTLCK => set_locked(cpu, pty, call.read_user_u32(argument)? != 0),
            TIOCGPTLCK => call.write_user(argument, &is(pty.state.load(Ordering::Relaxed) & PTY_LOCKED != 0))?,
            TIOCPKT => set_packets(pty, call.read_user_u32(argument)? != 0),
            TIOCGPKT => {
                call.write_user(argument, &is(pty.tty.packets.load(Ordering::Relaxed) & TTY_PACKETS != 0))?;
            }
            TIOCGPTPEER => return open_peer(call, pty, argument as u32),
            TIOCSIG => return send(cpu, pty, argument),
            _ => return ioctl::serve(call, Terminal::of_pty(cpu, pty), Side::Master, (request, argument)),
        }
        Ok(0)
    }

    fn device(self) -> Device {
        Device { major: 5, minor: 2 }
    }

    fn end<M: Machine>(self, cpu: &Cpu<M>, file: &'static FileRecord) {
        pty::hang_up(cpu, self.0, file);
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        pty::put(cpu, self.0);
    }
}

fn set_locked<M: Machine>(cpu: &Cpu<M>, pty: &PtyRecord, locked: bool) {
    let _guard = lock(cpu, &cpu.pool.header().ptys_lock);
    if locked {
        pty.state.fetch_or(PTY_LOCKED, Ordering::Release);
    } else {
        pty.state.fetch_and(!PTY_LOCKED, Ordering::Release);
    }
}

fn set_packets(pty: &PtyRecord, packets: bool) {
    let before = pty.tty.packets.load(Ordering::Relaxed);
    if packets != (before & TTY_PACKETS != 0) {
        pty.tty.packets.store(if packets { TTY_PACKETS } else { 0 }, Ordering::Release);
    }
}

/// Opens the terminal of a master, whatever path leads there; returns a descriptor.
fn open_peer<M: Machine>(call: &Call<M>, pty: &'static PtyRecord, flags: u32) -> SysResult {
    let inode = call.cpu.object::<InodeRecord>(pty.inode.get()).ok_or(Errno::EIO)?;
    fs::get(inode);
    let record = open(call, pty, Held::adopt(call.cpu, inode), flags)?;
    Ok(table::install(call, record, flags & O_CLOEXEC != 0, 0)?)
}

/// Sends the foreground process group a signal that a key could send.
///
/// # Errors
/// `EINVAL`: it is another one.
fn send<M: Machine>(cpu: &Cpu<M>, pty: &PtyRecord, signal: u64) -> SysResult {
    use motet_abi::signal::{SIGINT, SIGQUIT, SIGTSTP};
    let signal = u32::try_from(signal).ok().filter(|signal| [SIGINT, SIGQUIT, SIGTSTP].contains(signal));
    let signal = signal.ok_or(Errno::EINVAL)?;
    let foreground = pty.tty.foreground_pgid.get();
    if foreground != 0 {
        signal::send_to_group(cpu, foreground, signal);
    }
    Ok(0)
}
