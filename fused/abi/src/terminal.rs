//! Terminals, `ioctl`, `poll`, `epoll`.

use motet_layout::Isa;

use crate::wire::{Wire, wire_struct};

/// Terminal attributes.
pub const TCGETS: u32 = 0x5401;
/// Sets them at once.
pub const TCSETS: u32 = 0x5402;
/// Sets them after output.
pub const TCSETSW: u32 = 0x5403;
/// Sets them after output, drops input.
pub const TCSETSF: u32 = 0x5404;
/// Terminal attributes, with speeds.
pub const TCGETS2: u32 = 0x802c_542a;
/// Sets them at once.
pub const TCSETS2: u32 = 0x402c_542b;
/// Sets them after output.
pub const TCSETSW2: u32 = 0x402c_542c;
/// Sets them after output, drops input.
pub const TCSETSF2: u32 = 0x402c_542d;
/// Sends a break.
pub const TCSBRK: u32 = 0x5409;
/// Stops and starts output or input.
pub const TCXONC: u32 = 0x540a;
/// Drops input or output.
pub const TCFLSH: u32 = 0x540b;
/// Becomes the controlling terminal.
pub const TIOCSCTTY: u32 = 0x540e;
/// The foreground process group.
pub const TIOCGPGRP: u32 = 0x540f;
/// Sets it.
pub const TIOCSPGRP: u32 = 0x5410;
/// Bytes of unsent output.
pub const TIOCOUTQ: u32 = 0x5411;
/// Rows and columns.
pub const TIOCGWINSZ: u32 = 0x5413;
/// Sets them.
pub const TIOCSWINSZ: u32 = 0x5414;
/// Bytes that can be read.
pub const FIONREAD: u32 = 0x541b;
/// Sets or clears `O_NONBLOCK`.
pub const FIONBIO: u32 = 0x5421;
/// `ioctl`: sets `O_ASYNC`.
pub const FIOASYNC: u32 = 0x5452;
/// `ioctl` of a socket: sets the receiver of SIGIO.
pub const FIOSETOWN: u32 = 0x8901;
/// `ioctl` of a socket: the same.
pub const SIOCSPGRP: u32 = 0x8902;
/// `ioctl` of a socket: the receiver of SIGIO.
pub const FIOGETOWN: u32 = 0x8903;
/// `ioctl` of a socket: the same.
pub const SIOCGPGRP: u32 = 0x8904;
/// Gives up the controlling terminal.
pub const TIOCNOTTY: u32 = 0x5422;
/// The session.
pub const TIOCGSID: u32 = 0x5429;
/// Sends a break, of a time.
pub const TCSBRKP: u32 = 0x5425;
/// Nobody else may open it.
pub const TIOCEXCL: u32 = 0x540c;
/// Others may.
pub const TIOCNXCL: u32 = 0x540d;
/// Types a byte.
pub const TIOCSTI: u32 = 0x5412;
/// Packet mode of a pseudo-terminal's master.
pub const TIOCPKT: u32 = 0x5420;
/// Sets the line discipline.
pub const TIOCSETD: u32 = 0x5423;
/// The line discipline.
pub const TIOCGETD: u32 = 0x5424;
/// A pseudo-terminal's number.
pub const TIOCGPTN: u32 = 0x8004_5430;
/// Locks a pseudo-terminal, or unlocks it.
pub const TIOCSPTLCK: u32 = 0x4004_5431;
/// The terminal's device.
pub const TIOCGDEV: u32 = 0x8004_5432;
/// Sends the foreground process group a signal, by the master.
pub const TIOCSIG: u32 = 0x4004_5436;
/// Whether the master reads packets.
pub const TIOCGPKT: u32 = 0x8004_5438;
/// Whether a pseudo-terminal is locked.
pub const TIOCGPTLCK: u32 = 0x8004_5439;
/// Whether others may not open it.
pub const TIOCGEXCL: u32 = 0x8004_5440;
/// Opens the terminal of a master.
pub const TIOCGPTPEER: u32 = 0x5441;

/// Packet: input was dropped.
pub const TIOCPKT_FLUSHREAD: u32 = 1;
/// Packet: output was dropped.
pub const TIOCPKT_FLUSHWRITE: u32 = 2;
/// Packet: output stops.
pub const TIOCPKT_STOP: u32 = 4;
/// Packet: output goes on.
pub const TIOCPKT_START: u32 = 8;
/// Packet: no characters stop and start output.
pub const TIOCPKT_NOSTOP: u32 = 16;
/// Packet: `^S` and `^Q` stop and start output.
pub const TIOCPKT_DOSTOP: u32 = 32;

/// Which attributes are locked.
pub const TIOCGLCKTRMIOS: u32 = 0x5456;
/// Clears close-on-exec.
pub const FIONCLEX: u32 = 0x5450;
/// Sets close-on-exec.
pub const FIOCLEX: u32 = 0x5451;

wire_struct! {
    /// The kernel's `struct termios` (`asm-generic/termbits.h`; not libc's, which is longer).
    Termios: 36 {
        /// Input modes.
        0 c_iflag: u32,
        /// Output modes.
        4 c_oflag: u32,
        /// Control modes.
        8 c_cflag: u32,
        /// Local modes.
        12 c_lflag: u32,
        /// Line discipline.
        16 c_line: u8,
        /// Control characters.
        17 c_cc: [u8; 19],
    }
}

/// Input: a break interrupts.
pub const BRKINT: u32 = 0o2;
/// Input: drops carriage returns.
pub const IGNCR: u32 = 0o200;
/// Input: carriage return becomes newline.
pub const ICRNL: u32 = 0o400;
/// Input: newline becomes carriage return.
pub const INLCR: u32 = 0o100;
/// Input: strips the eighth bit.
pub const ISTRIP: u32 = 0o40;
/// Input: XON/XOFF.
pub const IXON: u32 = 0o2000;
/// Input: any character restarts output.
pub const IXANY: u32 = 0o4000;
/// Input: rings when full.
pub const IMAXBEL: u32 = 0o20000;
/// Input: is UTF-8.
pub const IUTF8: u32 = 0o40000;
/// Output: is processed.
pub const OPOST: u32 = 0o1;
/// Output: newline becomes carriage return and newline.
pub const ONLCR: u32 = 0o4;
/// Output: carriage return becomes newline.
pub const OCRNL: u32 = 0o10;
/// Control: 38400 baud.
pub const B38400: u32 = 0o17;
/// Control: eight bits.
pub const CS8: u32 = 0o60;
/// Control: can read.
pub const CREAD: u32 = 0o200;
/// Local: characters make signals.
pub const ISIG: u32 = 0o1;
/// Local: lines.
pub const ICANON: u32 = 0o2;
/// Local: echo.
pub const ECHO: u32 = 0o10;
/// Local: erase rubs out.
pub const ECHOE: u32 = 0o20;
/// Local: kill begins a new line.
pub const ECHOK: u32 = 0o40;
/// Local: newline is echoed.
pub const ECHONL: u32 = 0o100;
/// Local: signals leave the queues.
pub const NOFLSH: u32 = 0o200;
/// Local: background output stops.
pub const TOSTOP: u32 = 0o400;
/// Local: control characters echo as ^X.
pub const ECHOCTL: u32 = 0o1000;
/// Local: kill rubs the line out.
pub const ECHOKE: u32 = 0o4000;
/// Local: extensions.
pub const IEXTEN: u32 = 0o100000;

/// Index of the interrupt character.
pub const VINTR: usize = 0;
/// Index of the quit character.
pub const VQUIT: usize = 1;
/// Index of the erase character.
pub const VERASE: usize = 2;
/// Index of the kill character.
pub const VKILL: usize = 3;
/// Index of the end-of-file character.
pub const VEOF: usize = 4;
/// Index of the read timeout.
pub const VTIME: usize = 5;
/// Index of the least read.
pub const VMIN: usize = 6;
/// Index of the start character.
pub const VSTART: usize = 8;
/// Index of the stop character.
pub const VSTOP: usize = 9;
/// Index of the suspend character.
pub const VSUSP: usize = 10;
/// Index of an end-of-line character.
pub const VEOL: usize = 11;
/// Index of the reprint character.
pub const VREPRINT: usize = 12;
/// Index of the word-erase character.
pub const VWERASE: usize = 14;
/// Index of the quote character.
pub const VLNEXT: usize = 15;
/// Index of the other end-of-line character.
pub const VEOL2: usize = 16;

/// Speeds in bits a second, as the lowest bits of the control modes number them; with `CBAUDEX` the second row, from 1 on.
const SPEEDS: [[u32; 16]; 2] = [
    [0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400],
    [
        38400, 57600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000, 1_500_000, 2_000_000,
        2_500_000, 3_000_000, 3_500_000, 4_000_000,
    ],
];
/// Control: the speed is one of the second row.
const CBAUDEX: u32 = 0o10000;

impl Termios {
    /// Bits a second.
    pub const fn speed(&self) -> u32 {
        SPEEDS[(self.c_cflag & CBAUDEX != 0) as usize][(self.c_cflag & 0o17) as usize]
    }

    /// What a pseudo-terminal has first.
    pub const fn fresh_pty() -> Self {
        let fresh = Self::fresh();
        Self { c_iflag: fresh.c_iflag & !IUTF8, ..fresh }
    }

    /// What a fresh terminal has (`tty_std_termios` and `INIT_C_CC` of Linux, with UTF-8).
    pub const fn fresh() -> Self {
        let mut c_cc = [0; 19];
        c_cc[VINTR] = 3;
        c_cc[VQUIT] = 28;
        c_cc[VERASE] = 127;
        c_cc[VKILL] = 21;
        c_cc[VEOF] = 4;
        c_cc[VMIN] = 1;
        c_cc[VSTART] = 17;
        c_cc[VSTOP] = 19;
        c_cc[VSUSP] = 26;
        c_cc[VREPRINT] = 18;
        c_cc[13] = 15; // VDISCARD
        c_cc[VWERASE] = 23;
        c_cc[VLNEXT] = 22;
        Self {
            c_iflag: ICRNL | IXON | IUTF8,
            c_oflag: OPOST | ONLCR,
            c_cflag: B38400 | CS8 | CREAD,
            c_lflag: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
            c_line: 0,
            c_cc,
        }
    }
}

wire_struct! {
    /// `struct winsize`.
    Winsize: 8 {
        /// Rows.
        0 ws_row: u16,
        /// Columns.
        2 ws_col: u16,
        /// Width in pixels.
        4 ws_xpixel: u16,
        /// Height in pixels.
        6 ws_ypixel: u16,
    }
}

wire_struct! {
    /// `struct pollfd`.
    Pollfd: 8 {
        /// Descriptor; negative: skipped.
        0 fd: i32,
        /// What is asked.
        4 events: u16,
        /// What is so.
        6 revents: u16,
    }
}

/// Can be read.
pub const POLLIN: u16 = 1;
/// Has urgent data.
pub const POLLPRI: u16 = 2;
/// Can be written.
pub const POLLOUT: u16 = 4;
/// Failed.
pub const POLLERR: u16 = 8;
/// The other side has gone.
pub const POLLHUP: u16 = 0x10;
/// No such descriptor.
pub const POLLNVAL: u16 = 0x20;
/// Can be read.
pub const POLLRDNORM: u16 = 0x40;
/// Has priority data.
pub const POLLRDBAND: u16 = 0x80;
/// Can be written.
pub const POLLWRNORM: u16 = 0x100;
/// Can be written, priority data.
pub const POLLWRBAND: u16 = 0x200;
/// The other side will write no more.
pub const POLLRDHUP: u16 = 0x2000;
/// Descriptors in a `select` set.
pub const FD_SETSIZE: usize = 1024;

/// `epoll_ctl`: adds.
pub const EPOLL_CTL_ADD: u32 = 1;
/// `epoll_ctl`: removes.
pub const EPOLL_CTL_DEL: u32 = 2;
/// `epoll_ctl`: changes.
pub const EPOLL_CTL_MOD: u32 = 3;
/// `epoll`: edges.
pub const EPOLLET: u32 = 1 << 31;
/// `epoll`: once.
pub const EPOLLONESHOT: u32 = 1 << 30;

/// `epoll`: the system must not sleep meanwhile. It never does.
pub const EPOLLWAKEUP: u32 = 1 << 29;
/// `epoll`: one of several who wait need be told. All are.
pub const EPOLLEXCLUSIVE: u32 = 1 << 28;

/// `struct epoll_event`: packed on x86-64 (12 bytes), aligned elsewhere (16).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EpollEvent {
    /// What is asked or so.
    pub events: u32,
    /// The user's word.
    pub data: u64,
}

impl EpollEvent {
    /// Bytes on an ISA.
    pub const fn size(isa: Isa) -> usize {
        Self::data_offset(isa) + 8
    }

    const fn data_offset(isa: Isa) -> usize {
        match isa {
            Isa::X86_64 => 4,
            Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => 8,
        }
    }

    /// Its bytes; the first [`size`](Self::size) are used.
    pub fn encode(&self, isa: Isa) -> [u8; 16] {
        let mut out = [0; 16];
        self.events.put(&mut out);
        self.data.put(&mut out[Self::data_offset(isa)..]);
        out
    }

    /// Reads [`size`](Self::size) bytes.
    pub fn decode(isa: Isa, from: &[u8]) -> Self {
        Self { events: u32::take(from), data: u64::take(&from[Self::data_offset(isa)..]) }
    }
}
