//! A terminal: the console's, or a pseudo-terminal. Both have the same line discipline, settings and job control; they differ in who types.

use core::ops::Deref;

use motet_abi::file::Device;
use motet_hal::Machine;
use motet_layout::{
    AtomicByte, HostStream, PTY_HUNG_UP, ProcessRecord, PtyRecord, TTY_PACKETS, Tty, TtyInput, WaitQueue,
    sync::{AtomicU32, Ordering},
};
use motet_protocol::{Context, stream::Moved, wait};

use super::super::streams::ring_host_if;
use crate::cpu::Cpu;

/// `/dev/console`.
const CONSOLE: Device = Device { major: 5, minor: 1 };
/// Major number of pseudo-terminals.
pub const PTY_MAJOR: u32 = 136;

/// A terminal.
#[derive(Clone, Copy)]
pub struct Terminal {
    tty: &'static Tty,
    typed: &'static TtyInput,
    /// What is typed, before the line discipline has it.
    pub input: &'static HostStream,
    /// What is shown.
    pub output: &'static HostStream,
    /// A pseudo-terminal's record.
    pub pty: Option<&'static PtyRecord>,
}

impl Deref for Terminal {
    type Target = Tty;

    fn deref(&self) -> &Tty {
        self.tty
    }
}

/// The session whose terminal controls a process; 0: none does.
pub fn session_of(process: &ProcessRecord) -> u32 {
    if process.left_terminal.get() == 0 { process.sid.load(Ordering::Relaxed) } else { 0 }
}

impl Terminal {
    /// The console's.
    pub fn console<M: Machine>(cpu: &Cpu<M>) -> Self {
        let header = cpu.pool.header();
        Self {
            tty: &header.tty,
            typed: &header.typed,
            input: &header.console_in,
            output: &header.console_out,
            pty: None,
        }
    }

    /// A pseudo-terminal.
    pub fn of_pty<M: Machine>(cpu: &Cpu<M>, pty: &'static PtyRecord) -> Self {
        Self {
            tty: &pty.tty,
            typed: cpu.pool.at(motet_layout::PoolAddr(pty.typed.get())),
            input: &pty.input,
            output: &pty.output,
            pty: Some(pty),
        }
    }

    /// Those that a session has, and had until they were hung up.
    pub fn of_session<M: Machine>(cpu: &Cpu<M>, sid: u32) -> impl Iterator<Item = Self> {
        let ptys = cpu.pool.header().ptys.iter();
        let ptys = ptys.filter_map(|word| cpu.object::<PtyRecord>(word.load(Ordering::Acquire)));
        let of_session = move |tty: &Tty| sid != 0 && tty.session.get() == sid;
        let ptys = ptys.filter(move |pty| of_session(&pty.tty)).map(|pty| Self::of_pty(cpu, pty));
        Some(Self::console(cpu)).filter(|console| of_session(console)).into_iter().chain(ptys)
    }

    /// The controlling terminal of a session.
    pub fn controlling<M: Machine>(cpu: &Cpu<M>, sid: u32) -> Option<Self> {
        Self::of_session(cpu, sid).find(|terminal| !terminal.is_hung_up())
    }

    /// A session gets the terminal, which is locked. Whose foreground the terminals had that it has lost is forgotten.
    pub fn control<M: Machine>(self, cpu: &Cpu<M>, process: &ProcessRecord) {
        let sid = process.sid.load(Ordering::Relaxed);
        for lost in Self::of_session(cpu, sid) {
            lost.foreground_pgid.set(0);
        }
        self.session.set(sid);
        self.foreground_pgid.set(process.pgid.load(Ordering::Relaxed));
    }

    /// Whether it is the controlling terminal of a process.
    pub fn controls(self, process: &ProcessRecord) -> bool {
        let session = self.session.get();
        session != 0 && session == session_of(process) && !self.is_hung_up()
    }

    /// Whether its master has been closed.
    pub fn is_hung_up(self) -> bool {
        self.pty.is_some_and(|pty| pty.state.load(Ordering::Acquire) & PTY_HUNG_UP != 0)
    }

    /// Its device number.
    pub fn device(self) -> Device {
        self.pty.map_or(CONSOLE, |pty| Device { major: PTY_MAJOR, minor: pty.number.get() })
    }

    /// Its rows and columns (rows << 16 | columns).
    pub fn size<M: Machine>(self, cpu: &Cpu<M>) -> &'static AtomicU32 {
        self.pty.map_or(&cpu.pool.header().terminal_size, |pty| &pty.size)
    }

    /// Where the input has a byte.
    pub fn typed(self, at: u32) -> &'static AtomicByte {
        &self.typed.bytes[at as usize]
    }

    /// Something is shown: whoever reads that is told.
    pub fn produced<M: Machine>(self, cpu: &Cpu<M>, moved: Moved) {
        match self.pty {
            None => ring_host_if(cpu, moved),
            Some(pty) if moved.len > 0 => _ = wait::wake(cpu, &pty.readers),
            Some(_) => {}
        }
    }

    /// The line discipline has taken what was typed: there is room for more.
    pub fn consumed<M: Machine>(self, cpu: &Cpu<M>, moved: Moved) {
        match self.pty {
            None => ring_host_if(cpu, moved),
            Some(pty) if moved.len > 0 => _ = wait::wake(cpu, &pty.input.waiters),
            Some(_) => {}
        }
    }

    /// Who waits for input.
    pub fn readers(self) -> &'static WaitQueue {
        &self.tty.readers
    }

    /// Whoever waits for input looks again.
    pub fn wake_readers<M: Machine>(self, cpu: &Cpu<M>) {
        wait::wake(cpu, &self.tty.readers);
    }

    /// Whoever waits to write looks again: output has been let go on.
    pub fn wake_writers<M: Machine>(self, cpu: &Cpu<M>) {
        wait::wake(cpu, &self.output.waiters);
    }

    /// The master's next packet is to say so (`TIOCPKT_*`), and not that any more, if it reads packets. The terminal is locked; [`Self::wake_master`] follows.
    pub fn note(self, told: u32, not: u32) {
        if self.packets.load(Ordering::Relaxed) & TTY_PACKETS != 0 {
            self.packets.fetch_and(!not, Ordering::Relaxed);
            self.packets.fetch_or(told, Ordering::Release);
        }
    }

    /// Wakes whoever reads packets, if there is something to say.
    pub fn wake_master<M: Machine>(self, cpu: &Cpu<M>) {
        if let Some(pty) = self.pty
            && self.packets.load(Ordering::Acquire) & !TTY_PACKETS != 0
        {
            wait::wake(cpu, &pty.readers);
        }
    }
}
