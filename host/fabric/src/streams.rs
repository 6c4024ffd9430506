//! The host's ends of the console streams ([`HostStream`], [`motet_protocol::stream`]).

use std::os::fd::BorrowedFd;

use motet_layout::{HostStream, sync::Ordering};
use motet_protocol::stream::{self, Part, Side};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::{HostPool, terminal::Escape};
use motet_error::{Context, ErrorKind, Result};

/// Most bytes moved to or from a file at once.
const CHUNK: usize = 64 << 10;
/// Most bytes written to a pipe or terminal at once: what fits without blocking when it is writable.
const PIPE_CHUNK: usize = 4096;

/// Machine to host: the host consumes, and writes what it takes to a descriptor.
pub struct Output<'a> {
    pool: &'a HostPool,
    stream: &'static HostStream,
    target: BorrowedFd<'a>,
    name: &'static str,
    chunk: usize,
    /// Taken from the stream and not yet written.
    pending: Vec<u8>,
    /// The last byte written was not the end of a line.
    mid_line: bool,
    /// Whether the producer is asked to ring.
    asks: bool,
    /// Whether bytes that the machine had written were dropped, because their reader had gone.
    lost: bool,
}

impl<'a> Output<'a> {
    /// The consumer of `stream`, which writes to `target`. `name` is for error messages.
    pub fn new(pool: &'a HostPool, stream: &'static HostStream, target: BorrowedFd<'a>, name: &'static str) -> Self {
        let regular = rustix::fs::fstat(target)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile);
        let chunk = if regular { CHUNK } else { PIPE_CHUNK };
        Self { pool, stream, target, name, chunk, pending: Vec::new(), mid_line: false, asks: true, lost: false }
    }

    /// The descriptor to poll, while somebody may read at its other end.
    pub fn target(&self) -> Option<BorrowedFd<'a>> {
        (self.stream.gone.load(Ordering::Relaxed) == 0).then_some(self.target)
    }

    /// From now on nobody is asked to ring: whether a kernel has to ring would depend on when the host has looked.
    pub fn never_ask(&mut self) {
        self.asks = false;
        self.stream.consumer_waiting.store(0, Ordering::Release);
    }

    /// Whether bytes are there; if not, the producer has been told to ring when there are, unless it is [never
    /// asked](Self::never_ask).
    pub fn has_bytes(&self) -> bool {
        let used = || stream::used(self.stream) > 0;
        !self.pending.is_empty() || used() || self.asks && !stream::consumer_waits(self.stream) && used()
    }

    /// Whether the next byte begins a line, so that another's line can be written before it.
    pub fn is_at_line_start(&self) -> bool {
        !self.mid_line
    }

    /// Its name for messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the machine has written what was dropped, because the reader had gone.
    pub fn has_lost(&self) -> bool {
        self.lost
    }

    /// The other end of the descriptor has gone: the machine's writers get EPIPE. `ring` wakes those that wait.
    pub fn close(&mut self, ring: impl Fn()) {
        self.lost |= !self.pending.is_empty();
        self.pending.clear();
        let mut rest = vec![0; self.stream.capacity.get() as usize];
        let discarded = stream::consume_bytes(self.pool, Side::Host, self.stream, &mut rest);
        self.lost |= discarded.len != 0;
        if stream::leave(self.stream) || discarded.ring {
            ring();
        }
    }

    /// Writes one chunk to the descriptor, which is writable; `ring` tells a producer that waits for room.
    ///
    /// # Errors
    /// The descriptor does not take bytes (a full disk).
    pub fn write_chunk(&mut self, ring: impl Fn()) -> Result<()> {
        if self.target().is_none() {
            self.close(ring);
            return Ok(());
        }
        if self.pending.is_empty() {
            self.pending.resize(self.chunk, 0);
            let moved = stream::consume_bytes(self.pool, Side::Host, self.stream, &mut self.pending);
            self.pending.truncate(moved.len);
            if moved.ring {
                ring();
            }
        }
        match rustix::io::write(self.target, &self.pending) {
            Ok(written) => {
                self.mid_line = self.pending[..written].last().map_or(self.mid_line, |&byte| byte != b'\n');
                self.pending.drain(..written);
            }
            Err(rustix::io::Errno::PIPE) => self.close(ring),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error).context(ErrorKind::Io, || format!("writing to {}", self.name)),
        }
        Ok(())
    }
}

/// Host to machine: the host produces what it reads from a descriptor.
pub struct Input<'a> {
    pool: &'a HostPool,
    stream: &'static HostStream,
    source: BorrowedFd<'a>,
    escape: Option<Escape>,
}

/// What reading brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Bytes, or the end.
    Done,
    /// The user typed the escape: end the run.
    Escape,
}

impl<'a> Input<'a> {
    /// The producer of `stream`, which reads `source`; on a terminal it looks for the escape.
    pub fn new(pool: &'a HostPool, stream: &'static HostStream, source: BorrowedFd<'a>, terminal: bool) -> Self {
        Self { pool, stream, source, escape: terminal.then(Escape::default) }
    }

    /// The descriptor to poll, while there is room and the end has not been reached. Without room, the consumer has
    /// been told to ring when there is.
    pub fn source(&self) -> Option<BorrowedFd<'a>> {
        let over = self.stream.closed.load(Ordering::Relaxed) != 0 || self.stream.gone.load(Ordering::Acquire) != 0;
        let room = || stream::room(self.stream) > 0;
        (!over && (room() || !stream::producer_waits(self.stream, 1))).then_some(self.source)
    }

    /// Reads what is there already, as far as there is room: what a command finds from the beginning, it finds at the same
    /// simulated time in every run.
    pub fn read_first(&mut self, ring: impl Fn()) {
        while let Some(source) = self.source() {
            let mut fds = [PollFd::from_borrowed_fd(source, PollFlags::IN)];
            let now = Some(&Timespec { tv_sec: 0, tv_nsec: 0 });
            if !rustix::event::poll(&mut fds, now).is_ok_and(|ready| ready > 0) {
                break;
            }
            self.read_chunk(&ring);
        }
    }

    /// Reads once from the descriptor, which is readable; `ring` tells a consumer that waits.
    pub fn read_chunk(&mut self, ring: impl Fn()) -> Reading {
        let mut bytes = [0u8; CHUNK];
        let room = stream::room(self.stream).min(CHUNK);
        let wake = match rustix::io::read(self.source, &mut bytes[..room]) {
            Ok(read) if read > 0 => {
                if self.escape.as_mut().is_some_and(|escape| escape.typed(&bytes[..read])) {
                    return Reading::Escape;
                }
                stream::produce_bytes(self.pool, Side::Host, self.stream, Part::Fitting, &bytes[..read]).ring
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => false,
            // A source that cannot be read (closed, a directory) has nothing to say.
            Ok(_) | Err(_) => stream::close(self.stream),
        };
        if wake {
            ring();
        }
        Reading::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool;
    use motet_machine::MachineSpec;
    use std::{cell::Cell, fs::File, io::Read as _, os::fd::AsFd};

    fn pool() -> pool::HostPool {
        let text = "[pool]\nsize = \"32MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n";
        pool::HostPool::create(&MachineSpec::parse(text).unwrap(), &pool::Command::default(), 1, false).unwrap()
    }

    /// What the machine does when it prints.
    fn produce(pool: &HostPool, stream: &HostStream, bytes: &[u8]) {
        assert_eq!(stream::produce_bytes(pool, Side::Machine, stream, Part::Fitting, bytes).len, bytes.len());
    }

    #[test]
    fn output_arrives_over_the_wrap_and_asks_to_be_rung() {
        let pool = pool();
        let stream = &pool.header().console_out;
        let start = pool::STREAM_SIZE - 3;
        stream.head.store(start, Ordering::Relaxed);
        stream.tail.store(start, Ordering::Relaxed);
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut output = Output::new(&pool, stream, write.as_fd(), "test");
        assert!(!output.has_bytes());
        assert_eq!(stream.consumer_waiting.load(Ordering::Relaxed), 1);
        produce(&pool, stream, b"counterpoint");
        stream.producer_waiting.store(1, Ordering::Relaxed);
        let rings = Cell::new(0);
        while output.has_bytes() {
            output.write_chunk(|| rings.set(rings.get() + 1)).unwrap();
        }
        assert!(!output.is_at_line_start());
        produce(&pool, stream, b"\n");
        output.write_chunk(|| {}).unwrap();
        assert!(output.is_at_line_start());
        let mut text = [0; 13];
        File::from(read).read_exact(&mut text).unwrap();
        assert_eq!((&text, rings.get()), (b"counterpoint\n", 1));
    }

    #[test]
    fn output_that_never_asks_is_seen_and_nobody_rings_for_it() {
        let pool = pool();
        let stream = &pool.header().console_out;
        stream.consumer_waiting.store(1, Ordering::Relaxed);
        let (_read, write) = rustix::pipe::pipe().unwrap();
        let mut output = Output::new(&pool, stream, write.as_fd(), "test");
        output.never_ask();
        assert!(!output.has_bytes());
        assert!(!stream::produce_bytes(&pool, Side::Machine, stream, Part::Fitting, b"fugue").ring);
        assert!(output.has_bytes());
    }

    #[test]
    fn a_reader_that_left_closes_the_stream() {
        let pool = pool();
        let stream = &pool.header().console_out;
        let (read, write) = rustix::pipe::pipe().unwrap();
        drop(read);
        produce(&pool, stream, b"x");
        let mut output = Output::new(&pool, stream, write.as_fd(), "test");
        // The test harness, like the program, ignores SIGPIPE.
        output.write_chunk(|| {}).unwrap();
        assert!(output.target().is_none() && !output.has_bytes());
        assert_eq!((stream.gone.load(Ordering::Relaxed), output.has_lost()), (1, true));
    }

    #[test]
    fn a_reader_that_left_before_anything_was_written_has_lost_nothing() {
        let pool = pool();
        let (_, write) = rustix::pipe::pipe().unwrap();
        let mut output = Output::new(&pool, &pool.header().console_out, write.as_fd(), "test");
        output.close(|| {});
        assert!(!output.has_lost() && output.target().is_none());
    }

    #[test]
    fn input_stops_when_full_and_ends() {
        let pool = pool();
        let stream = &pool.header().console_in;
        let file = File::open("/dev/zero").unwrap();
        let mut input = Input::new(&pool, stream, file.as_fd(), false);
        while input.source().is_some() {
            assert_eq!(input.read_chunk(|| {}), Reading::Done);
        }
        assert_eq!(stream.head.load(Ordering::Relaxed), pool::STREAM_SIZE);
        assert_eq!(stream.producer_waiting.load(Ordering::Relaxed), 1);
        stream.tail.store(5, Ordering::Relaxed);
        assert!(input.source().is_some());
        let empty = File::open("/dev/null").unwrap();
        let mut input = Input::new(&pool, stream, empty.as_fd(), false);
        stream.consumer_waiting.store(1, Ordering::Relaxed);
        let rings = Cell::new(0);
        input.read_chunk(|| rings.set(1));
        assert!(input.source().is_none() && rings.get() == 1);
        assert_eq!(stream.closed.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_is_there_at_the_start_is_read_to_its_end_and_nothing_is_waited_for() {
        let pool = pool();
        let stream = &pool.header().console_in;
        let (reader, _writer) = std::io::pipe().unwrap();
        let mut input = Input::new(&pool, stream, reader.as_fd(), false);
        input.read_first(|| panic!("nobody waits"));
        assert!(input.source().is_some() && stream.closed.load(Ordering::Relaxed) == 0);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let file = File::open(&path).unwrap();
        let mut input = Input::new(&pool, stream, file.as_fd(), false);
        input.read_first(|| panic!("nobody waits"));
        assert_eq!(stream.head.load(Ordering::Relaxed), std::fs::metadata(path).unwrap().len());
        assert!(input.source().is_none() && stream.closed.load(Ordering::Relaxed) == 1);
    }

    #[test]
    fn a_corrupt_head_is_not_believed() {
        let pool = pool();
        let stream = &pool.header().console_out;
        stream.head.store(u64::MAX / 2, Ordering::Relaxed);
        let null = File::options().write(true).open("/dev/null").unwrap();
        let mut output = Output::new(&pool, stream, null.as_fd(), "test");
        output.write_chunk(|| {}).unwrap();
        assert_eq!(stream.tail.load(Ordering::Relaxed), PIPE_CHUNK as u64);
    }
}
