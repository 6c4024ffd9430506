//! Terminal settings and job control.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    signal::{SIGCONT, SIGHUP, SIGTTOU},
    terminal::*,
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::{TTY_STOPPED, TTY_STOPPED_BY_CALL};
use motet_protocol::{groups, lock::lock, stream};

use super::{bytes_ready, check_foreground, leave_session, line, put, take_typed, tell_size, terminal::Terminal};
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    permission::{self, Capability},
    tree,
};

const CONTROL_Q: u8 = 17;
const CONTROL_S: u8 = 19;
const TCIFLUSH: u64 = 0;
const TCOFLUSH: u64 = 1;
const TCIOFLUSH: u64 = 2;
const TCOOFF: u64 = 0;
const TCOON: u64 = 1;
const TCIOFF: u64 = 2;
const TCION: u64 = 3;

/// A side of a terminal, which serves `ioctl`s: the terminal itself, or its master, from where job control is not asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The terminal.
    Terminal,
    /// Its master.
    Master,
}

/// Serves an `ioctl` on a terminal.
///
/// # Errors
/// `ENOTTY`: not a request of terminals, or not of this process's; `EFAULT`, `EINVAL`, `EPERM`; `EIO`: it must not be done (`TIOCSTI`).
pub fn serve<M: Machine>(call: &Call<M>, tty: Terminal, side: Side, (request, argument): (u32, u64)) -> SysResult {
    let changes = || if side == Side::Terminal { check_foreground(call, tty, SIGTTOU) } else { Ok(()) };
    match request {
        TCGETS => call.write_user(argument, &attributes(tty).to_bytes())?,
        TCGETS2 => {
            let attributes = attributes(tty);
            let mut bytes = [0; Termios::SIZE + 8];
            bytes[..Termios::SIZE].copy_from_slice(&attributes.to_bytes());
            for speed in bytes[Termios::SIZE..].chunks_exact_mut(4) {
                speed.copy_from_slice(&attributes.speed().to_le_bytes());
            }
            call.write_user(argument, &bytes)?;
        }
        // Nothing has the speeds.
        TCSETS | TCSETSW | TCSETSF | TCSETS2 | TCSETSW2 | TCSETSF2 => {
            let mut bytes = [0; Termios::SIZE];
            call.read_user(argument, &mut bytes)?;
            changes()?;
            {
                let _guard = lock(call.cpu, &tty.lock);
                if matches!(request, TCSETSF | TCSETSF2) {
                    line::flush_input(tty);
                }
                set_attributes(tty, &Termios::take(&bytes));
            }
            // There may be room for what who types has kept, output may go on, and what is there may be read.
            take_typed(call.cpu, tty);
            tty.wake_readers(call.cpu);
            tty.wake_writers(call.cpu);
            tty.wake_master(call.cpu);
        }
        TIOCGWINSZ => call.write_user(argument, &size_of(call.cpu, tty).to_bytes())?,
        TIOCSWINSZ => {
            let mut bytes = [0; Winsize::SIZE];
            call.read_user(argument, &mut bytes)?;
            set_size(call.cpu, tty, &Winsize::take(&bytes));
        }
        TIOCGPGRP => {
            own(call, tty, side)?;
            call.write_user(argument, &tty.foreground_pgid.get().to_le_bytes())?;
        }
        TIOCSPGRP => return set_foreground(call, tty, argument),
        TIOCGSID => {
            own(call, tty, side)?;
            let session = Some(tty.session.get()).filter(|session| *session != 0).ok_or(Errno::ENOTTY)?;
            call.write_user(argument, &session.to_le_bytes())?;
        }
        TIOCSCTTY => return acquire(call, tty, argument),
        TIOCNOTTY => return give_up(call, tty, side),
        FIONREAD => {
            let bytes = match side {
                Side::Terminal => bytes_ready(tty),
                Side::Master => stream::used(tty.output) as u32,
            };
            call.write_user(argument, &bytes.to_le_bytes())?;
        }
        // What a pseudo-terminal shows has left it.
        TIOCOUTQ => {
            let waiting = if tty.pty.is_some() { 0 } else { stream::used(tty.output) as u32 };
            call.write_user(argument, &waiting.to_le_bytes())?;
        }
        TCFLSH => {
            changes()?;
            flush(call.cpu, tty, side, argument)?;
        }
        TCXONC => {
            changes()?;
            control_flow(call, tty, side, argument)?;
        }
        // Output leaves at once.
        TCSBRK | TCSBRKP => changes()?,
        TIOCEXCL | TIOCNXCL => tty.exclusive.store(u32::from(request == TIOCEXCL), Ordering::Relaxed),
        TIOCGEXCL => call.write_user(argument, &tty.exclusive.load(Ordering::Relaxed).to_le_bytes())?,
        // None.
        TIOCGLCKTRMIOS => call.write_user(argument, &[0; Termios::SIZE])?,
        // There is one discipline.
        TIOCGETD => call.write_user(argument, &0_u32.to_le_bytes())?,
        TIOCSETD if call.read_user_u32(argument)? == 0 => {}
        TIOCSETD => return Err(Errno::EINVAL.into()),
        TIOCGDEV => call.write_user(argument, &tty.device().encode().to_le_bytes())?,
        // Nobody may type what others then execute; and a terminal has no other side but its master.
        TIOCSTI | TIOCGPTPEER => return Err(Errno::EIO.into()),
        _ => return Err(Errno::ENOTTY.into()),
    }
    Ok(0)
}

fn size_of<M: Machine>(cpu: &Cpu<M>, tty: Terminal) -> Winsize {
    let size = tty.size(cpu).load(Ordering::Relaxed);
    let pixels = tty.pty.map_or(0, |pty| pty.pixels.load(Ordering::Relaxed));
    let [ws_row, ws_xpixel] = [size, pixels].map(|words| (words >> 16) as u16);
    Winsize { ws_row, ws_col: size as u16, ws_xpixel, ws_ypixel: pixels as u16 }
}

/// Sets a terminal's size, and tells its foreground process group if it has changed.
fn set_size<M: Machine>(cpu: &Cpu<M>, tty: Terminal, size: &Winsize) {
    if let Some(pty) = tty.pty {
        pty.pixels.store(u32::from(size.ws_xpixel) << 16 | u32::from(size.ws_ypixel), Ordering::Relaxed);
    }
    tty.size(cpu).store(u32::from(size.ws_row) << 16 | u32::from(size.ws_col), Ordering::Relaxed);
    tell_size(cpu, tty);
}

/// Drops what has been typed, or what is to be shown, and has not been read by that side. A terminal's output leaves at once.
fn flush<M: Machine>(cpu: &Cpu<M>, tty: Terminal, side: Side, which: u64) -> Result<(), Errno> {
    if which > TCIOFLUSH {
        return Err(Errno::EINVAL);
    }
    let (input, output) = (which != TCOFLUSH, which != TCIFLUSH);
    match side {
        Side::Terminal => {
            {
                let _guard = lock(cpu, &tty.lock);
                if input {
                    line::flush_input(tty);
                }
                if output {
                    tty.note(TIOCPKT_FLUSHWRITE, 0);
                }
            }
            if input {
                take_typed(cpu, tty);
            }
            tty.wake_master(cpu);
        }
        Side::Master if input => {
            let _ = stream::consume_all(cpu, tty.output);
            tty.wake_writers(cpu);
        }
        Side::Master => {}
    }
    Ok(())
}

/// Stops output or lets it go on, or tells the terminal to do so with what is typed (tcflow(3)).
fn control_flow<M: Machine>(call: &Call<M>, tty: Terminal, side: Side, action: u64) -> Result<(), Errno> {
    match action {
        TCOOFF | TCOON | TCIOFF | TCION if side == Side::Master => {}
        TCOOFF | TCOON => {
            let stopped = if action == TCOOFF { TTY_STOPPED | TTY_STOPPED_BY_CALL } else { 0 };
            {
                let _guard = lock(call.cpu, &tty.lock);
                let before = tty.stopped.swap(stopped, Ordering::Release);
                if (before == 0) != (stopped == 0) {
                    let (told, not) = (TIOCPKT_STOP, TIOCPKT_START);
                    if stopped == 0 { tty.note(not, told) } else { tty.note(told, not) }
                }
            }
            tty.wake_writers(call.cpu);
            tty.wake_master(call.cpu);
        }
        TCIOFF | TCION => {
            let character = tty.control[if action == TCIOFF { VSTOP } else { VSTART }].load(Ordering::Relaxed);
            if character != 0 {
                put(call.cpu, tty, &[character]);
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Replaces the terminal's settings.
pub fn set_attributes(tty: Terminal, termios: &Termios) {
    let was_canonical = tty.flags[3].get() & ICANON;
    let was_usual = has_usual_flow(&attributes(tty));
    // Nothing that is typed could let output go on any more.
    if tty.flags[0].get() & IXON != 0 && termios.c_iflag & IXON == 0 {
        line::go_on(tty);
    }
    for (cell, value) in tty.flags.iter().zip([termios.c_iflag, termios.c_oflag, termios.c_cflag, termios.c_lflag]) {
        cell.set(value);
    }
    for (cell, value) in tty.control.iter().zip(termios.c_cc) {
        cell.store(value, Ordering::Relaxed);
    }
    if was_canonical != termios.c_lflag & ICANON {
        line::mode_changed(tty);
    }
    match (was_usual, has_usual_flow(termios)) {
        (false, true) => tty.note(TIOCPKT_DOSTOP, TIOCPKT_NOSTOP),
        (true, false) => tty.note(TIOCPKT_NOSTOP, TIOCPKT_DOSTOP),
        _ => {}
    }
}

/// Whether `^S` and `^Q` stop and start output, of which a master that reads packets is told.
fn has_usual_flow(termios: &Termios) -> bool {
    termios.c_iflag & IXON != 0 && termios.c_cc[VSTOP] == CONTROL_S && termios.c_cc[VSTART] == CONTROL_Q
}

fn attributes(tty: Terminal) -> Termios {
    let mut termios = Termios {
        c_iflag: tty.flags[0].get(),
        c_oflag: tty.flags[1].get(),
        c_cflag: tty.flags[2].get(),
        c_lflag: tty.flags[3].get(),
        ..Termios::default()
    };
    for (value, cell) in termios.c_cc.iter_mut().zip(&tty.control) {
        *value = cell.load(Ordering::Relaxed);
    }
    termios
}

/// Fails with `ENOTTY` unless the terminal controls the calling process, or is asked about by its master.
fn own<M: Machine>(call: &Call<M>, tty: Terminal, side: Side) -> Result<(), Errno> {
    if side == Side::Master || tty.controls(call.process) { Ok(()) } else { Err(Errno::ENOTTY) }
}

fn set_foreground<M: Machine>(call: &Call<M>, tty: Terminal, argument: u64) -> SysResult {
    own(call, tty, Side::Terminal)?;
    check_foreground(call, tty, SIGTTOU)?;
    let pgid = call.read_user_u32(argument)?;
    if pgid.cast_signed() < 0 {
        return Err(Errno::EINVAL.into());
    }
    let (mut is_there, mut is_own) = (false, false);
    {
        let _tree = tree::lock_tree(call.cpu);
        groups::for_each(call.cpu, pgid, |member| {
            is_there = true;
            is_own |= member.sid.load(Ordering::Relaxed) == tty.session.get();
        });
        // As on Linux, a process's number counts as that of a group.
        if let Some(process) = tree::lookup(call.cpu, pgid).filter(|_| !is_there) {
            is_there = true;
            is_own = process.sid.load(Ordering::Relaxed) == tty.session.get();
        }
    }
    if !is_own {
        return Err(if is_there { Errno::EPERM } else { Errno::ESRCH }.into());
    }
    tty.foreground_pgid.set(pgid);
    Ok(0)
}

fn acquire<M: Machine>(call: &Call<M>, tty: Terminal, argument: u64) -> SysResult {
    let sid = call.process.sid.load(Ordering::Relaxed);
    let own = Terminal::controlling(call.cpu, sid);
    let _guard = lock(call.cpu, &tty.lock);
    let leads = sid == call.process.pid.get();
    if leads && tty.session.get() == sid {
        return Ok(0);
    }
    let steals = argument == 1 && permission::has(call.process, Capability::Administer);
    if !leads || own.is_some() || tty.session.get() != 0 && !steals {
        return Err(Errno::EPERM.into());
    }
    tty.control(call.cpu, call.process);
    Ok(0)
}

fn give_up<M: Machine>(call: &Call<M>, tty: Terminal, side: Side) -> SysResult {
    if side == Side::Master || !tty.controls(call.process) {
        return Err(Errno::ENOTTY.into());
    }
    if call.process.sid.load(Ordering::Relaxed) == call.process.pid.get() {
        leave_session(call.cpu, tty, &[SIGHUP, SIGCONT]);
    } else {
        call.process.left_terminal.set(1);
    }
    Ok(0)
}
