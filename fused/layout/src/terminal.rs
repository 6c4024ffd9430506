//! Terminals: the console's, and pseudo-terminals.

use crate::{AtomicByte, Cell32, Cell64, HostStream, TerminalLock, WaitQueue, sync::AtomicU32};

/// [`Tty::stopped`]: output waits.
pub const TTY_STOPPED: u32 = 1;
/// [`Tty::stopped`]: a program has stopped it (`TCOOFF`), so nothing that is typed lets it go on.
pub const TTY_STOPPED_BY_CALL: u32 = 2;
/// Bytes of terminal input that can wait for a reader.
pub const TTY_INPUT_SIZE: usize = 4096;
/// [`Tty::packets`]: the master reads packets (`TIOCPKT`). Lower bits are what the next one says (`TIOCPKT_*`).
pub const TTY_PACKETS: u32 = 1 << 31;
/// Pseudo-terminals that there can be at a time.
pub const PTYS_MAX: usize = 128;
/// Bytes of each of a pseudo-terminal's streams.
pub const PTY_STREAM_SIZE: u64 = 4096;

pool_struct! {
    /// A terminal: line discipline and job control.
    pub struct Tty: size 768, align 64 {
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
        /// Bytes of input that form finished lines (or raw input), from `read`.
        64 pub ready: Cell32,
        /// Next byte to be read, modulo [`TTY_INPUT_SIZE`].
        68 pub read: Cell32,
        /// Bytes of input from `read`, finished or not.
        72 pub used: Cell32,
        /// 1: the next byte is no control character (`VLNEXT`).
        76 pub quotes: Cell32,
        /// The size that the foreground process group knows of, as [`PtyRecord::size`]. Who finds another one in the terminal and stores it here, sends
        /// the signal.
        80 pub told_size: AtomicU32,
        /// [`TTY_STOPPED`], [`TTY_STOPPED_BY_CALL`]; 0: output goes on. Changed under `lock`.
        84 pub stopped: AtomicU32,
        /// Of a pseudo-terminal: [`TTY_PACKETS`], and what its master is told.
        88 pub packets: AtomicU32,
        /// 1: nobody but the superuser may open it (`TIOCEXCL`).
        92 pub exclusive: AtomicU32,
        96 _pad2: [Cell64; 4],
        /// Threads that wait for input.
        128 pub readers: WaitQueue,
        160 _pad1: [Cell64; 4],
        /// Per input byte, bit n: the byte n of the input ends a line.
        192 pub line_ends: [Cell64; 64],
        704 _pad3: [Cell64; 8],
    }
}

pool_struct! {
    /// What is typed at a terminal and not read yet: a ring.
    pub struct TtyInput: size 4096, align 64 {
        /// The bytes.
        0 pub bytes: [AtomicByte; 4096],
    }
}

/// [`PtyRecord::state`]: the master is open.
pub const PTY_MASTER: u32 = 1;
/// [`PtyRecord::state`]: the master has been closed. Whoever has the terminal open has nothing of it any more.
pub const PTY_HUNG_UP: u32 = 2;
/// [`PtyRecord::state`]: the terminal cannot be opened (`TIOCSPTLCK`).
pub const PTY_LOCKED: u32 = 4;
/// [`PtyRecord::state`]: the terminal was open, and nobody has it open any more.
pub const PTY_LEFT: u32 = 8;

pool_struct! {
    /// A pseudo-terminal: a terminal (`/dev/pts/N`), and its other side, which types and reads what is shown (the master, `/dev/ptmx`). It is freed when neither
    /// is open and it controls no session.
    pub struct PtyRecord: size 2048, align 64 {
        /// The terminal.
        0 pub tty: Tty,
        /// What is typed, before the line discipline has it. Its waiters want to write it.
        768 pub input: HostStream,
        /// What is shown. Its waiters want to write it.
        1024 pub output: HostStream,
        /// Threads that wait for what is shown.
        1280 pub readers: WaitQueue,
        /// N.
        1312 pub number: Cell32,
        /// Open files of the terminal. Under the header's `ptys_lock`.
        1316 pub opens: Cell32,
        /// `PTY_*`. Changed under the header's `ptys_lock`.
        1320 pub state: AtomicU32,
        /// Rows and columns (rows << 16 | columns).
        1324 pub size: AtomicU32,
        /// Width and height in pixels (width << 16 | height).
        1328 pub pixels: AtomicU32,
        /// 1 + the core that makes it, or frees it; 0: it is made.
        1332 pub carrier: Cell32,
        /// The terminal's inode (pool address), with a reference.
        1336 pub inode: Cell64,
        /// The terminal's [`TtyInput`] (pool address).
        1344 pub typed: Cell64,
        /// The master's [`FileRecord`](crate::FileRecord) (pool address).
        1352 pub master: Cell64,
        1360 _pad1: [Cell64; 86],
    }
}
