//! Terminal settings and job control.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    signal::{SIGCONT, SIGHUP, SIGTTOU},
    terminal::*,
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::{TTY_STOPPED, TTY_STOPPED_BY_CALL, Tty};
use motet_protocol::{groups, lock::lock};

use super::{bytes_ready, check_foreground, controls, input_arrived, line, put, tell_size, terminal, wake_writers};
use crate::{
    call::{Call, SysResult},
    permission::{self, Capability},
    signal, tree,
};

const TCOFLUSH: u64 = 1;
const TCIOFLUSH: u64 = 2;
const TCSBRKP: u32 = 0x5425;
const TCOOFF: u64 = 0;
const TCOON: u64 = 1;
const TCIOFF: u64 = 2;
const TCION: u64 = 3;

/// Serves an `ioctl` on the terminal.
///
/// # Errors
/// `ENOTTY`: not a request of terminals, or not of this process's; `EFAULT`, `EINVAL`, `EPERM`.
pub fn serve<M: Machine>(call: &Call<M>, request: u32, argument: u64) -> SysResult {
    let tty = terminal(call.cpu);
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
            check_foreground(call, SIGTTOU)?;
            {
                let _guard = lock(call.cpu, &tty.lock);
                if matches!(request, TCSETSF | TCSETSF2) {
                    line::flush_input(tty);
                }
                set_attributes(tty, &Termios::take(&bytes));
            }
            // There may be room for what the host has kept, and output may go on.
            input_arrived(call.cpu);
            wake_writers(call.cpu);
        }
        TIOCGWINSZ => {
            let size = call.cpu.pool.header().terminal_size.load(Ordering::Relaxed);
            let size = Winsize { ws_row: (size >> 16) as u16, ws_col: size as u16, ..Winsize::default() };
            call.write_user(argument, &size.to_bytes())?;
        }
        TIOCSWINSZ => {
            let mut bytes = [0; Winsize::SIZE];
            call.read_user(argument, &mut bytes)?;
            let size = Winsize::take(&bytes);
            let word = u32::from(size.ws_row) << 16 | u32::from(size.ws_col);
            call.cpu.pool.header().terminal_size.store(word, Ordering::Relaxed);
            tell_size(call.cpu, tty);
        }
        TIOCGPGRP => {
            own(call)?;
            call.write_user(argument, &tty.foreground_pgid.get().to_le_bytes())?;
        }
        TIOCSPGRP => return set_foreground(call, argument),
        TIOCGSID => {
            own(call)?;
            call.write_user(argument, &tty.session.get().to_le_bytes())?;
        }
        TIOCSCTTY => return acquire(call, argument),
        TIOCNOTTY => return give_up(call),
        FIONREAD => call.write_user(argument, &(bytes_ready(call.cpu) as u32).to_le_bytes())?,
        TIOCOUTQ => {
            let waiting = motet_protocol::stream::used(&call.cpu.pool.header().console_out) as u32;
            call.write_user(argument, &waiting.to_le_bytes())?;
        }
        TCFLSH => {
            check_foreground(call, SIGTTOU)?;
            if argument > TCIOFLUSH {
                return Err(Errno::EINVAL.into());
            }
            if argument != TCOFLUSH {
                {
                    let _guard = lock(call.cpu, &tty.lock);
                    line::flush_input(tty);
                }
                input_arrived(call.cpu);
            }
        }
        TCXONC => {
            check_foreground(call, SIGTTOU)?;
            control_flow(call, argument)?;
        }
        // Output leaves at once.
        TCSBRK | TCSBRKP => check_foreground(call, SIGTTOU)?,
        _ => return Err(Errno::ENOTTY.into()),
    }
    Ok(0)
}

/// Stops output or lets it go on, or tells the terminal to do so with what is typed (tcflow(3)).
fn control_flow<M: Machine>(call: &Call<M>, action: u64) -> Result<(), Errno> {
    let tty = terminal(call.cpu);
    match action {
        TCOOFF | TCOON => {
            let stopped = if action == TCOOFF { TTY_STOPPED | TTY_STOPPED_BY_CALL } else { 0 };
            {
                let _guard = lock(call.cpu, &tty.lock);
                tty.stopped.store(stopped, Ordering::Release);
            }
            wake_writers(call.cpu);
        }
        TCIOFF | TCION => {
            let character = tty.control[if action == TCIOFF { VSTOP } else { VSTART }].load(Ordering::Relaxed);
            if character != 0 {
                put(call.cpu, &[character]);
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(())
}

/// Replaces the terminal's settings.
pub fn set_attributes(tty: &Tty, termios: &Termios) {
    let was_canonical = tty.flags[3].get() & ICANON;
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
}

fn attributes(tty: &Tty) -> Termios {
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

/// Fails with `ENOTTY` unless the terminal controls the calling process.
fn own<M: Machine>(call: &Call<M>) -> Result<(), Errno> {
    if controls(call) { Ok(()) } else { Err(Errno::ENOTTY) }
}

fn set_foreground<M: Machine>(call: &Call<M>, argument: u64) -> SysResult {
    own(call)?;
    check_foreground(call, SIGTTOU)?;
    let pgid = call.read_user_u32(argument)?;
    if pgid.cast_signed() < 0 {
        return Err(Errno::EINVAL.into());
    }
    let tty = terminal(call.cpu);
    let (mut is_there, mut is_own) = (false, false);
    {
        let _tree = tree::lock_tree(call.cpu);
        groups::for_each(call.cpu, pgid, |member| {
            is_there = true;
            is_own |= member.sid.load(Ordering::Relaxed) == tty.session.get();
        });
    }
    if !is_own {
        return Err(if is_there { Errno::EPERM } else { Errno::ESRCH }.into());
    }
    tty.foreground_pgid.set(pgid);
    Ok(0)
}

fn acquire<M: Machine>(call: &Call<M>, argument: u64) -> SysResult {
    let tty = terminal(call.cpu);
    let sid = call.process.sid.load(Ordering::Relaxed);
    let _guard = lock(call.cpu, &tty.lock);
    if tty.session.get() == sid {
        return Ok(0);
    }
    let steals = argument == 1 && permission::has(call.process, Capability::Administer);
    if sid != call.process.pid.get() || tty.session.get() != 0 && !steals {
        return Err(Errno::EPERM.into());
    }
    tty.session.set(sid);
    tty.foreground_pgid.set(call.process.pgid.load(Ordering::Relaxed));
    Ok(0)
}

fn give_up<M: Machine>(call: &Call<M>) -> SysResult {
    own(call)?;
    let tty = terminal(call.cpu);
    if call.process.sid.load(Ordering::Relaxed) == call.process.pid.get() {
        let foreground = tty.foreground_pgid.get();
        tty.session.set(0);
        tty.foreground_pgid.set(0);
        for signal in [SIGHUP, SIGCONT] {
            signal::send_to_group(call.cpu, foreground, signal);
        }
    }
    Ok(0)
}
