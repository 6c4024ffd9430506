//! The line discipline: editing, echo, signals from the keyboard, output processing. After Linux's N_TTY and termios(3).
//!
//! The input ring holds `used` bytes from `read` on, the first `ready` of which can be read. In canonical mode a bit per
//! ring position says that the byte there ends a line; a line ended by the end-of-file character ends in a zero byte
//! with that bit, which readers do not see.
//!
//! A full ring takes nothing: the rest stays in the stream of who types until somebody has read, so no finished line is lost. Only a line
//! that fills the ring alone must go on, because nobody can read it before its end: what is behind its first 4095 bytes is dropped.

use motet_layout::sync::Ordering;

use motet_abi::{
    signal::{SIGINT, SIGQUIT, SIGTSTP},
    terminal::*,
};
use motet_hal::Machine;
use motet_layout::{TTY_INPUT_SIZE, TTY_STOPPED, Tty};
use motet_protocol::{
    lock::lock,
    stream::{self, Side},
};

use super::{put, terminal::Terminal};
use crate::{cpu::Cpu, signal};

const SIZE: u32 = TTY_INPUT_SIZE as u32;
/// Most bytes taken at a time.
const CHUNK: usize = 64;
const RUB_OUT: &[u8] = b"\x08 \x08";

/// What [`take_ready`] took.
pub struct Taken {
    /// Bytes copied.
    pub len: usize,
    /// The last byte taken ended a line: a read returns.
    pub ends_line: bool,
}

/// What typed bytes lead to, apart from their places in the input.
struct Effects<'a> {
    echo: Echo<'a>,
    /// A signal from the keyboard; 0: none.
    signal: u32,
    wake: bool,
    /// Output goes on.
    starts: bool,
}

/// Bytes to be echoed. What is collected goes to `put` when there is much of it, and in the end.
struct Echo<'a> {
    bytes: [u8; 256],
    len: usize,
    put: &'a dyn Fn(&[u8]),
}

impl Echo<'_> {
    /// A piece is short: what one byte shows as, or rubs out.
    fn push(&mut self, piece: &[u8]) {
        if self.len + piece.len() > self.bytes.len() {
            self.flush();
        }
        self.bytes[self.len..self.len + piece.len()].copy_from_slice(piece);
        self.len += piece.len();
    }

    fn flush(&mut self) {
        (self.put)(&self.bytes[..self.len]);
        self.len = 0;
    }
}

/// Moves some typed bytes into the terminal. `false`: there were none, or there is no room.
pub fn take_input<M: Machine>(cpu: &Cpu<M>, tty: Terminal) -> bool {
    let put = |bytes: &[u8]| put(cpu, tty, bytes);
    let mut effects =
        Effects { echo: Echo { bytes: [0; 256], len: 0, put: &put }, signal: 0, wake: false, starts: false };
    let mut bytes = [0; CHUNK];
    let guard = lock(cpu, &tty.lock);
    if is_full(tty) {
        return false;
    }
    // Who consumes what is typed holds the terminal's lock, so the bytes stay there until it is known how many of them are taken.
    let typed = stream::peek_bytes(cpu, Side::Machine, tty.input, &mut bytes);
    let mut taken = 0;
    while taken < typed && effects.signal == 0 && !is_full(tty) {
        type_byte(tty, bytes[taken], &mut effects);
        taken += 1;
    }
    tty.consumed(cpu, stream::consume_bytes(cpu, Side::Machine, tty.input, &mut bytes[..taken]));
    effects.echo.flush();
    let foreground = tty.foreground_pgid.get();
    drop(guard);
    if effects.wake {
        tty.wake_readers(cpu);
    }
    if effects.starts {
        tty.wake_writers(cpu);
    }
    tty.wake_master(cpu);
    if effects.signal != 0 && foreground != 0 {
        signal::send_to_group(cpu, foreground, effects.signal);
    }
    taken > 0
}

/// Whether the input takes no byte now, so that who types has to keep the rest until somebody has read. One place is kept for the end of a line.
pub fn is_full(tty: Terminal) -> bool {
    let ends_by_typing = tty.flags[3].get() & ICANON != 0 && tty.ready.get() == 0;
    tty.used.get() >= SIZE - 1 && !ends_by_typing
}

/// Takes bytes that are ready, up to the end of a line. The terminal is locked. `None`: none are ready.
pub fn take_ready(tty: Terminal, into: &mut [u8]) -> Option<Taken> {
    if tty.ready.get() == 0 {
        return None;
    }
    let canonical = tty.flags[3].get() & ICANON != 0;
    let mut taken = Taken { len: 0, ends_line: false };
    while taken.len < into.len() && tty.ready.get() > 0 {
        let at = tty.read.get();
        let byte = tty.typed(at).load(Ordering::Relaxed);
        let ends_line = ends_line(tty, at);
        mark_line_end(tty, at, false);
        tty.read.set((at + 1) % SIZE);
        tty.ready.set(tty.ready.get() - 1);
        tty.used.set(tty.used.get() - 1);
        if !(ends_line && byte == 0) {
            into[taken.len] = byte;
            taken.len += 1;
        }
        if ends_line && canonical {
            taken.ends_line = true;
            break;
        }
    }
    // An end-of-file mark right behind what filled the buffer belongs to the same read.
    if !taken.ends_line && taken.len == into.len() && canonical && tty.ready.get() > 0 {
        let at = tty.read.get();
        if ends_line(tty, at) && tty.typed(at).load(Ordering::Relaxed) == 0 {
            mark_line_end(tty, at, false);
            tty.read.set((at + 1) % SIZE);
            tty.ready.set(tty.ready.get() - 1);
            tty.used.set(tty.used.get() - 1);
            taken.ends_line = true;
        }
    }
    Some(taken)
}

/// Drops all input. The terminal is locked.
pub fn flush_input(tty: Terminal) {
    forget_input(&tty);
    tty.note(TIOCPKT_FLUSHREAD, 0);
}

/// Drops all input of a terminal whose lock a dead core held.
pub fn forget_input(tty: &Tty) {
    tty.used.set(0);
    tty.ready.set(0);
    for word in &tty.line_ends {
        word.set(0);
    }
}

/// Makes what has been typed readable: the mode changes between lines and raw. The terminal is locked.
pub fn mode_changed(tty: Terminal) {
    let used = tty.used.get();
    if used > tty.ready.get() && tty.flags[3].get() & ICANON != 0 {
        mark_line_end(tty, (tty.read.get() + used - 1) % SIZE, true);
    }
    tty.ready.set(used);
}

/// Output processing: `ONLCR`, `OCRNL`. `into` is twice as long as `bytes`; returns the bytes filled.
pub fn process_output(tty: Terminal, bytes: &[u8], into: &mut [u8]) -> usize {
    let flags = tty.flags[1].get();
    let mut len = 0;
    for &byte in bytes {
        if flags & OPOST != 0 && flags & ONLCR != 0 && byte == b'\n' {
            into[len] = b'\r';
            len += 1;
        }
        into[len] = if flags & OPOST != 0 && flags & OCRNL != 0 && byte == b'\r' { b'\n' } else { byte };
        len += 1;
    }
    len
}

/// Lets output go on, unless a program has stopped it. The terminal is locked; the caller wakes whoever waits to write.
pub fn go_on(tty: Terminal) -> bool {
    let goes_on = tty.stopped.compare_exchange(TTY_STOPPED, 0, Ordering::Release, Ordering::Relaxed).is_ok();
    if goes_on {
        tty.note(TIOCPKT_START, TIOCPKT_STOP);
    }
    goes_on
}

/// Whether a byte controls the flow of output, which it then has done.
fn controls_flow(tty: Terminal, byte: u8, effects: &mut Effects<'_>) -> bool {
    if is_control(tty, byte, VSTART) {
        effects.starts |= go_on(tty);
        return true;
    }
    if is_control(tty, byte, VSTOP) {
        if tty.stopped.fetch_or(TTY_STOPPED, Ordering::Release) == 0 {
            tty.note(TIOCPKT_STOP, TIOCPKT_START);
        }
        return true;
    }
    false
}

/// A byte was typed. The terminal is locked.
fn type_byte(tty: Terminal, byte: u8, effects: &mut Effects<'_>) {
    let [input, _, _, local] = [0, 1, 2, 3].map(|index| tty.flags[index].get());
    let mut byte = if input & ISTRIP != 0 { byte & 0x7f } else { byte };
    if tty.quotes.get() != 0 {
        tty.quotes.set(0);
        return type_quoted(tty, byte, effects);
    }
    match byte {
        b'\r' if input & IGNCR != 0 => return,
        b'\r' if input & ICRNL != 0 => byte = b'\n',
        b'\n' if input & INLCR != 0 => byte = b'\r',
        _ => {}
    }
    if input & IXON != 0 && controls_flow(tty, byte, effects) {
        return;
    }
    if local & ISIG != 0 {
        for (index, signal) in [(VINTR, SIGINT), (VQUIT, SIGQUIT), (VSUSP, SIGTSTP)] {
            if is_control(tty, byte, index) {
                if local & NOFLSH == 0 {
                    flush_input(tty);
                    tty.note(TIOCPKT_FLUSHWRITE, 0);
                    // What is not shown yet.
                    effects.echo.len = 0;
                }
                if input & IXON != 0 {
                    effects.starts |= go_on(tty);
                }
                echo(tty, byte, &mut effects.echo);
                effects.signal = signal;
                return;
            }
        }
    }
    if input & IXON != 0 && input & IXANY != 0 {
        effects.starts |= go_on(tty);
    }
    if local & ICANON != 0 {
        edit(tty, byte, effects);
    } else if append(tty, byte) {
        tty.ready.set(tty.used.get());
        echo(tty, byte, &mut effects.echo);
        effects.wake = true;
    }
}

/// A byte was typed behind one that quotes it.
fn type_quoted(tty: Terminal, byte: u8, effects: &mut Effects<'_>) {
    let raw = tty.flags[3].get() & ICANON == 0;
    // The last place is kept for the end of the line.
    if raw || tty.used.get() < SIZE - 1 {
        append(tty, byte);
    }
    if raw {
        tty.ready.set(tty.used.get());
        effects.wake = true;
    }
    if byte == b'\n' && tty.flags[3].get() & ECHOCTL != 0 && tty.flags[3].get() & ECHO != 0 {
        effects.echo.push(b"^J");
    } else {
        echo(tty, byte, &mut effects.echo);
    }
}

/// A byte was typed in canonical mode.
fn edit(tty: Terminal, byte: u8, effects: &mut Effects<'_>) {
    let local = tty.flags[3].get();
    let echo_to = &mut effects.echo;
    if is_control(tty, byte, VERASE) || byte == 8 && tty.control[VERASE].load(Ordering::Relaxed) == 127 {
        erase(tty, echo_to);
    } else if is_control(tty, byte, VWERASE) && local & IEXTEN != 0 {
        while last(tty).is_some_and(|byte| byte == b' ' || byte == b'\t') {
            erase(tty, echo_to);
        }
        while last(tty).is_some_and(|byte| byte != b' ' && byte != b'\t') {
            erase(tty, echo_to);
        }
    } else if is_control(tty, byte, VKILL) {
        while last(tty).is_some() {
            erase(tty, echo_to);
        }
    } else if is_control(tty, byte, VLNEXT) && local & IEXTEN != 0 {
        tty.quotes.set(1);
        if local & ECHO != 0 && local & ECHOCTL != 0 {
            echo_to.push(b"^\x08");
        }
    } else if is_control(tty, byte, VREPRINT) && local & IEXTEN != 0 {
        echo(tty, byte, echo_to);
        echo_to.push(b"\n");
        for index in tty.ready.get()..tty.used.get() {
            let at = (tty.read.get() + index) % SIZE;
            echo(tty, tty.typed(at).load(Ordering::Relaxed), echo_to);
        }
    } else if is_control(tty, byte, VEOF) {
        effects.wake = end_line(tty, 0);
    } else if byte == b'\n' || is_control(tty, byte, VEOL) || is_control(tty, byte, VEOL2) {
        if byte == b'\n' && local & (ECHO | ECHONL) != 0 {
            echo_to.push(b"\n");
        } else {
            echo(tty, byte, echo_to);
        }
        effects.wake = end_line(tty, byte);
    } else {
        // The last place is kept for the end of the line. As on Linux, what is dropped is echoed, too.
        if tty.used.get() < SIZE - 1 {
            append(tty, byte);
        }
        echo(tty, byte, echo_to);
    }
}

/// Appends a byte that ends a line, and makes the line readable.
fn end_line(tty: Terminal, byte: u8) -> bool {
    let at = (tty.read.get() + tty.used.get()) % SIZE;
    if append(tty, byte) {
        mark_line_end(tty, at, true);
    }
    tty.ready.set(tty.used.get());
    true
}

fn append(tty: Terminal, byte: u8) -> bool {
    let used = tty.used.get();
    if used == SIZE {
        return false;
    }
    tty.typed((tty.read.get() + used) % SIZE).store(byte, Ordering::Relaxed);
    tty.used.set(used + 1);
    true
}

/// The last byte of the line being typed.
fn last(tty: Terminal) -> Option<u8> {
    let used = tty.used.get();
    (used > tty.ready.get()).then(|| tty.typed((tty.read.get() + used - 1) % SIZE).load(Ordering::Relaxed))
}

/// Erases the last character of the line being typed: with `IUTF8` all its bytes.
fn erase(tty: Terminal, echo_to: &mut Echo<'_>) {
    let Some(mut byte) = last(tty) else { return };
    tty.used.set(tty.used.get() - 1);
    if tty.flags[0].get() & IUTF8 != 0 {
        while byte & 0xc0 == 0x80 {
            let Some(before) = last(tty) else { break };
            byte = before;
            tty.used.set(tty.used.get() - 1);
        }
    }
    let local = tty.flags[3].get();
    if local & ECHO != 0 && local & ECHOE != 0 {
        echo_to.push(RUB_OUT);
        if shows_as_two(byte) && local & ECHOCTL != 0 {
            echo_to.push(RUB_OUT);
        }
    }
}

/// Echoes a byte as the terminal's settings say.
fn echo(tty: Terminal, byte: u8, echo_to: &mut Echo<'_>) {
    let local = tty.flags[3].get();
    if local & ECHO == 0 {
        return;
    }
    if shows_as_two(byte) && local & ECHOCTL != 0 {
        echo_to.push(&[b'^', byte ^ 0x40]);
    } else {
        echo_to.push(&[byte]);
    }
}

fn shows_as_two(byte: u8) -> bool {
    byte < 32 && byte != b'\n' && byte != b'\t' || byte == 127
}

/// Whether a byte is the control character at `index`, which is not disabled.
fn is_control(tty: Terminal, byte: u8, index: usize) -> bool {
    let character = tty.control[index].load(Ordering::Relaxed);
    character != 0 && character == byte
}

fn ends_line(tty: Terminal, at: u32) -> bool {
    tty.line_ends[at as usize / 64].get() >> (at % 64) & 1 != 0
}

fn mark_line_end(tty: Terminal, at: u32, ends: bool) {
    let word = &tty.line_ends[at as usize / 64];
    word.set(word.get() & !(1 << (at % 64)) | u64::from(ends) << (at % 64));
}
