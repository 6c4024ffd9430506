//! Consoles of virtual machines (`motet vm console`). The process that runs the machine passes bytes between the console's streams in the pool
//! (`kernel/core/src/vm/console.rs`) and a connection to it; at the other end of that is the user's terminal.

use std::{
    io::{Read as _, Write as _},
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
};

use motet_error::{Context as _, Error, ErrorKind, Result, STDOUT};
use motet_layout::{VmRecord, sync::Ordering};
use motet_protocol::stream::{self, Part, Side};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::{HostPool, control, signals::Signals, terminal::RawMode};

/// Most bytes moved at once.
const CHUNK: usize = 4096;
/// So much output waits for a reader that is slow. What comes then is kept by the machine, as far as it does.
const WAITING_MAX: usize = 64 << 10;
/// Ctrl-]: as of `virsh console` and telnet.
const ESCAPE: u8 = 0x1d;

/// The machine's end of a console in use.
pub(crate) struct Session {
    connection: UnixStream,
    /// Whose it is; `None`: it has ended.
    vm: Option<&'static VmRecord>,
    /// Position of the first byte that has not been taken.
    shown: u64,
    /// Taken, and not sent yet.
    waiting: Vec<u8>,
    /// The user may type more.
    types: bool,
}

impl Session {
    /// Begins: `vm` is marked as attached. What its console has shown last follows at once, from the beginning of a line if there is one.
    pub(crate) fn new(pool: &HostPool, connection: UnixStream, vm: &'static VmRecord) -> std::io::Result<Self> {
        let oldest = stream::oldest(&vm.console_out);
        let mut session = Self { connection, vm: Some(vm), shown: oldest, waiting: Vec::new(), types: true };
        session.connection.set_nonblocking(true)?;
        session.take_output(pool);
        if oldest != 0
            && let Some(end) = session.waiting.iter().position(|&byte| byte == b'\n')
        {
            session.waiting.drain(..=end);
        }
        Ok(session)
    }

    /// Moves what there is. `false`: it is over.
    pub(crate) fn turn(&mut self, pool: &HostPool, ring: impl Fn()) -> bool {
        // First: nothing is written after it.
        let has_ended = self.vm.is_some_and(|vm| vm.has_ended.load(Ordering::Acquire) != 0);
        self.take_output(pool);
        if has_ended {
            self.leave(&ring);
        }
        if !self.send() || !self.take_typed(pool, &ring) {
            return false;
        }
        !self.has_left() && (self.vm.is_some() || !self.waiting.is_empty())
    }

    /// The machine may go.
    pub(crate) fn leave(&mut self, ring: impl Fn()) {
        if let Some(vm) = self.vm.take() {
            vm.is_attached.store(0, Ordering::Release);
            ring();
        }
    }

    fn take_output(&mut self, pool: &HostPool) {
        let mut bytes = [0; CHUNK];
        while let Some(vm) = self.vm.filter(|_| self.waiting.len() < WAITING_MAX) {
            let (lost, len) = stream::replay(pool, &vm.console_out, &mut self.shown, &mut bytes);
            if lost != 0 {
                let note = format!("\r\n[motet: {lost} bytes are not shown]\r\n");
                self.waiting.extend_from_slice(note.as_bytes());
            }
            self.waiting.extend_from_slice(&bytes[..len]);
            if len == 0 {
                break;
            }
        }
    }

    fn send(&mut self) -> bool {
        while !self.waiting.is_empty() {
            match self.connection.write(&self.waiting) {
                Ok(sent) => drop(self.waiting.drain(..sent)),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn take_typed(&mut self, pool: &HostPool, ring: impl Fn()) -> bool {
        let Some(vm) = self.vm.filter(|_| self.types) else { return true };
        let mut bytes = [0; CHUNK];
        let room = stream::room(&vm.console_in).min(CHUNK);
        if room == 0 {
            return true;
        }
        match self.connection.read(&mut bytes[..room]) {
            Ok(0) => self.types = false,
            Ok(typed) => {
                if stream::produce_bytes(pool, Side::Host, &vm.console_in, Part::Fitting, &bytes[..typed]).ring {
                    ring();
                }
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
            Err(_) => return false,
        }
        true
    }

    /// Whether nobody is at the other end any more: who has typed everything may still be.
    fn has_left(&self) -> bool {
        let mut fds = [PollFd::new(&self.connection, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|ready| ready != 0)
    }

    /// What to poll it for before a sleep; `None`: there is something to do. `asks`: kernels are asked to ring when there is.
    pub(crate) fn awaits(&self, asks: bool) -> Option<PollFd<'_>> {
        let mut events = if self.waiting.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        if let Some(vm) = self.vm {
            let output = &vm.console_out;
            let is_quiet = if asks {
                stream::replay_waits(output, self.shown)
            } else {
                output.head.load(Ordering::Acquire) == self.shown
            };
            if vm.has_ended.load(Ordering::Acquire) != 0 || !is_quiet && self.waiting.len() < WAITING_MAX {
                return None;
            }
            let has_room = || stream::room(&vm.console_in) != 0;
            if self.types && (has_room() || asks && !stream::producer_waits(&vm.console_in, 1)) {
                events |= PollFlags::IN;
            }
        }
        Some(PollFd::new(&self.connection, events))
    }
}

/// How a user's use of a console ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The user has typed the escape, or nobody reads standard output any more.
    Left,
    /// The virtual machine has ended.
    Ended,
    /// By this signal.
    Interrupted(i32),
}

/// Makes standard input and output the console of a virtual machine of the machine that a process runs, until it ends or, if standard input is
/// a terminal, the escape is typed. `begins` is told whether it is one.
///
/// # Errors
/// The machine has gone, or refuses: there is no such virtual machine, or another one uses its console; the host refuses something.
pub fn attach(process: u32, id: u32, begins: impl FnOnce(bool)) -> Result<Outcome> {
    let mut connection = control::begin(process, &format!("console {id}"))?;
    // From now on it is polled.
    connection.set_read_timeout(None).host("a socket")?;
    let signals = Signals::new()?;
    let stdin = rustix::stdio::stdin();
    let raw_mode = RawMode::enter();
    begins(raw_mode.is_some());
    let mut types = true;
    let mut bytes = [0; CHUNK];
    loop {
        let input = if types { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(&connection, PollFlags::IN),
            PollFd::from_borrowed_fd(signals.readable(), PollFlags::IN),
            PollFd::from_borrowed_fd(stdin.as_fd(), input),
        ];
        // Once standard input has ended, that is all there is to hear of it.
        let polled = if types { &mut fds[..] } else { &mut fds[..2] };
        match rustix::event::poll(polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).host("to wait for events"),
        }
        let [has_come, _, is_typed] = fds.each_ref().map(|fd| !fd.revents().is_empty());
        if let Some(signal) = signals.take() {
            return Ok(Outcome::Interrupted(signal));
        }
        if has_come {
            match connection.read(&mut bytes) {
                // Who has gone with bytes unread resets the connection.
                Ok(0) | Err(_) => return Ok(Outcome::Ended),
                Ok(len) if !show(&bytes[..len])? => return Ok(Outcome::Left),
                Ok(_) => {}
            }
        }
        if is_typed {
            let typed = rustix::io::read(stdin, &mut bytes).unwrap_or(0);
            let escape = bytes[..typed].iter().position(|&byte| byte == ESCAPE).filter(|_| raw_mode.is_some());
            // What is typed for a machine that has ended is for nobody: its end is read next.
            let _ = connection.write_all(&bytes[..escape.unwrap_or(typed)]);
            if escape.is_some() {
                return Ok(Outcome::Left);
            }
            if typed == 0 {
                types = false;
                let _ = connection.shutdown(Shutdown::Write);
            }
        }
    }
}

/// Writes output. `false`: nobody reads it.
fn show(bytes: &[u8]) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::new(ErrorKind::Io, format!("{STDOUT}: {error}"))),
    }
}
