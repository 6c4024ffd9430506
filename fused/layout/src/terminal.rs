//! The terminal.

use crate::{AtomicByte, Cell32, Cell64, TerminalLock, WaitQueue, sync::AtomicU32};

/// [`Tty::stopped`]: output waits.
pub const TTY_STOPPED: u32 = 1;
/// [`Tty::stopped`]: a program has stopped it (`TCOOFF`), so nothing that is typed lets it go on.
pub const TTY_STOPPED_BY_CALL: u32 = 2;
/// Bytes of terminal input that can wait for a reader.
pub const TTY_INPUT_SIZE: usize = 4096;

pool_struct! {
    /// The console terminal: line discipline and job control.
    pub struct Tty: size 6144, align 64 {
        /// Guards everything here.
        0 pub lock: TerminalLock,
        /// Linux `termios` flags: input, output, control, local.
        8 pub flags: [Cell32; 4],
        /// Linux control characters `c_cc[0..32]`.
        24 pub control: [AtomicByte; 32],
        /// Foreground process group.
        56 pub foreground_pgid: Cell32,
        /// Session it controls.
        60 pub session: Cell32,
        /// Bytes of `input` that form finished lines (or raw input), from `read`.
        64 pub ready: Cell32,
        /// Next byte to be read, modulo [`TTY_INPUT_SIZE`].
        68 pub read: Cell32,
        /// Bytes in `input` from `read`, finished or not.
        72 pub used: Cell32,
        /// End-of-file marks typed and not yet read.
        76 pub eof_marks: Cell32,
        /// The size that the foreground process group knows of (as [`PoolHeader::terminal_size`](crate::PoolHeader), which the host and programs
        /// write). Who finds another one there and stores it here, sends the signal.
        80 pub told_size: AtomicU32,
        /// [`TTY_STOPPED`], [`TTY_STOPPED_BY_CALL`]; 0: output goes on. Changed under `lock`.
        84 pub stopped: AtomicU32,
        88 _pad2: [Cell64; 5],
        /// Threads that wait for input.
        128 pub readers: WaitQueue,
        160 _pad1: [Cell64; 4],
        /// Input bytes, a ring.
        192 pub input: [AtomicByte; 4096],
        /// Per input byte, bit n: the byte n of `input` ends a line.
        4288 pub line_ends: [Cell64; 64],
        4800 _pad3: [Cell64; 168],
    }
}
