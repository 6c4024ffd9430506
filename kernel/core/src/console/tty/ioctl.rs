//! Terminal settings and job control.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    signal::{SIGCONT, SIGHUP, SIGTTOU},
    terminal::*,
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::Tty;
use motet_protocol::lock::lock;

use super::{bytes_ready, check_foreground, controls, input_arrived, line, tell_size, terminal};
use crate::{
    call::{Call, SysResult},
    permission::{self, Capability},
    signal, tree,
};

const TCIFLUSH: u64 = 0;
const TCOFLUSH: u64 = 1;
const TCSBRKP: u32 = 0x5425;

/// Serves an `ioctl` on the terminal.
///
/// # Errors
/// `ENOTTY`: not a request of terminals, or not of this process's; `EFAULT`, `EINVAL`, `EPERM`.
pub fn serve<M: Machine>(call: &Call<M>, request: u32, argument: u64) -> SysResult {
    let tty = terminal(call.cpu);
    match request {
        TCGETS => call.write_user(argument, &attributes(tty).to_bytes())?,
        TCSETS | TCSETSW | TCSETSF => {
            let mut bytes = [0; Termios::SIZE];
            call.read_user(argument, &mut bytes)?;
            check_foreground(call, SIGTTOU)?;
            {
                let _guard = lock(call.cpu, &tty.lock);
                if request == TCSETSF {
                    line::flush_input(tty);
                }
                set_attributes(tty, &Termios::take(&bytes));
            }
            // There may be room for what the host has kept.
            input_arrived(call.cpu);
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
        TCFLSH => match argument {
            TCIFLUSH..=2 => {
                if argument != TCOFLUSH {
                    {
                        let _guard = lock(call.cpu, &tty.lock);
                        line::flush_input(tty);
                    }
                    input_arrived(call.cpu);
                }
            }
            _ => return Err(Errno::EINVAL.into()),
        },
        // Output is never stopped, and leaves at once.
        TCSBRK | TCSBRKP | TCXONC => {}
        _ => return Err(Errno::ENOTTY.into()),
    }
    Ok(0)
}

/// Replaces the terminal's settings.
pub fn set_attributes(tty: &Tty, termios: &Termios) {
    let was_canonical = tty.flags[3].get() & ICANON;
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
    let pgid = call.read_user_u32(argument)?;
    check_foreground(call, SIGTTOU)?;
    let tty = terminal(call.cpu);
    let mut found = false;
    {
        let _tree = tree::lock_tree(call.cpu);
        tree::for_each(call.cpu, |process| {
            found |= process.pgid.load(Ordering::Relaxed) == pgid
                && process.sid.load(Ordering::Relaxed) == tty.session.get();
        });
    }
    if !found {
        return Err(Errno::EPERM.into());
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
