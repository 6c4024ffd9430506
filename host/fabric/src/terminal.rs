//! The user's terminal: raw input while the machine has it, its size, and the escape that ends a run.

use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::termios::{self, InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

/// The escape: this character (Ctrl-]) three times ...
const ESCAPE_BYTE: u8 = 0x1d;
const ESCAPE_COUNT: u32 = 3;
/// ... within this time. (The same as systemd-nspawn's.)
const ESCAPE_WITHIN: Duration = Duration::from_secs(1);

/// Whether standard input and output are one user's terminal, so that the machine can do line editing and job control.
pub fn is_interactive() -> bool {
    termios::isatty(rustix::stdio::stdin()) && termios::isatty(rustix::stdio::stdout())
}

/// Whether standard error is a terminal on which a line can be drawn again and again.
pub fn draws_lines() -> bool {
    termios::isatty(rustix::stdio::stderr()) && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Columns of the terminal on standard error; 80 when it does not tell.
pub fn error_columns() -> usize {
    match termios::tcgetwinsize(rustix::stdio::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        Ok(_) | Err(_) => 80,
    }
}

/// Rows and columns of the terminal on standard output; zeros when it does not tell.
pub fn size() -> (u16, u16) {
    termios::tcgetwinsize(rustix::stdio::stdout()).map_or((0, 0), |size| (size.ws_row, size.ws_col))
}

/// Raw input until this is dropped: every key goes into the machine. Output processing stays on, as in QEMU's own
/// console, so that messages of both sides come out right.
#[derive(Debug)]
pub struct RawMode {
    terminal: OwnedFd,
    before: Termios,
}

impl RawMode {
    /// Switches standard input to raw mode; `None` when it is no terminal.
    pub fn enter() -> Option<Self> {
        let terminal = rustix::stdio::stdin().try_clone_to_owned().ok()?;
        let before = termios::tcgetattr(&terminal).ok()?;
        let mut raw = before.clone();
        raw.input_modes -= InputModes::BRKINT
            | InputModes::ICRNL
            | InputModes::INLCR
            | InputModes::IGNCR
            | InputModes::INPCK
            | InputModes::ISTRIP
            | InputModes::IXON;
        raw.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN | LocalModes::ISIG;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(&terminal, OptionalActions::Now, &raw).ok()?;
        Some(Self { terminal, before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(self.terminal.as_fd(), OptionalActions::Now, &self.before);
    }
}

/// Looks for the escape in what the user types.
#[derive(Debug, Default)]
pub struct Escape {
    count: u32,
    first: Option<Instant>,
}

impl Escape {
    /// Takes typed bytes; true when they complete the escape.
    pub fn typed(&mut self, bytes: &[u8]) -> bool {
        self.typed_at(bytes, Instant::now())
    }

    fn typed_at(&mut self, bytes: &[u8], now: Instant) -> bool {
        for &byte in bytes {
            if byte != ESCAPE_BYTE {
                self.count = 0;
                continue;
            }
            if self.count == 0 || self.first.is_none_or(|first| now.duration_since(first) > ESCAPE_WITHIN) {
                (self.count, self.first) = (0, Some(now));
            }
            self.count += 1;
            if self.count == ESCAPE_COUNT {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_within_a_second() {
        let now = Instant::now();
        let mut escape = Escape::default();
        assert!(!escape.typed_at(b"\x1d\x1da\x1d", now));
        assert!(!escape.typed_at(b"\x1d", now));
        assert!(escape.typed_at(b"\x1d", now));
        let mut slow = Escape::default();
        assert!(!slow.typed_at(b"\x1d\x1d", now));
        assert!(!slow.typed_at(b"\x1d", now + Duration::from_secs(2)));
    }
}
