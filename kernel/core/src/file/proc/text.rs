//! Generated text on its way to user memory: the part in front of the reader's position is dropped, and generating stops
//! when the reader's buffer is full.
//!
//! A long text has lines that each are of something, by a number (a first address, a process id). The open file keeps where the last line began and what it is of
//! ([`LineStart`]), so the next read does not make again what was read before. It gives way to other work after each line.

use core::fmt;

use motet_hal::Machine;
use motet_layout::FileRecord;

use crate::{
    call::{Stop, SysResult},
    cursor::Cursor,
};

/// What making a piece of text costs, a number or some spaces, and each of its bytes (`call::cost`).
const PIECE_COST: u64 = 150;
const BYTE_COST: u64 = 15;
/// Bytes collected before they are copied.
const BUFFER: usize = 256;

/// The beginning of a line.
#[derive(Clone, Copy, Default)]
pub struct LineStart {
    /// Bytes of text before it.
    position: u64,
    /// What it is of; 0: it is the first one.
    key: u64,
}

impl LineStart {
    /// What an open file has kept: the beginning of the text, if two readers have kept something at once.
    pub fn of(file: &FileRecord) -> Self {
        let [position, key, mixed] = file.of_kind.each_ref().map(motet_layout::Cell64::get);
        let kept = Self { position, key };
        if kept.mixed() == mixed { kept } else { Self::default() }
    }

    /// Keeps it.
    pub fn keep(self, file: &FileRecord) {
        for (word, value) in file.of_kind.iter().zip([self.position, self.key, self.mixed()]) {
            word.set(value);
        }
    }

    fn mixed(self) -> u64 {
        (self.position ^ self.key.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A `fmt::Write` into user memory. Who writes to it holds no lock: what is due on the core is done meanwhile.
pub struct Text<'x, 'a, 'c, M: Machine> {
    cursor: &'x mut Cursor<'a, 'c, M>,
    skip: u64,
    buffer: [u8; BUFFER],
    len: usize,
    failed: Option<Stop>,
    /// Where the reader has been, and since [`begin_lines`](Self::begin_lines) the line that is being made.
    place: LineStart,
    has_lines: bool,
    /// Bytes of text so far, those that were dropped included.
    made: u64,
    /// Something else is due, and a line ends here.
    gives_way: bool,
}

impl<'x, 'a, 'c, M: Machine> Text<'x, 'a, 'c, M> {
    /// Text from `position` on.
    pub fn new(cursor: &'x mut Cursor<'a, 'c, M>, position: u64) -> Self {
        Self {
            cursor,
            skip: position,
            buffer: [0; BUFFER],
            len: 0,
            failed: None,
            place: LineStart::default(),
            has_lines: false,
            made: 0,
            gives_way: false,
        }
    }

    /// Where the reader has been.
    pub fn been_at(mut self, place: LineStart) -> Self {
        self.place = place;
        self
    }

    /// Where the line begins at which the text ends now, if it has such.
    pub fn place(&self) -> Option<LineStart> {
        self.has_lines.then_some(self.place)
    }

    /// From here on it has lines. What the first one is of that the reader wants, or one before; 0: the whole text's first.
    pub fn begin_lines(&mut self) -> u64 {
        self.has_lines = true;
        if self.place.position > self.skip {
            self.place = LineStart::default();
        }
        self.skip -= self.place.position;
        self.made = self.place.position;
        self.place.key
    }

    /// A line begins. `false`: something else is due, and the reader gets what there is.
    pub fn begin_line(&mut self, key: u64) -> bool {
        self.place = LineStart { position: self.made, key };
        !self.gives_way
    }

    /// A line begins of something that may go while the reader has a part of the line: unlike [`begin_line`](Self::begin_line), it begins here for the next read
    /// as well only if the reader gets all before it. `false` also if the reader has got something and a line of `len_max` bytes may not fit: it gets whole lines.
    pub fn begin_whole_line(&mut self, key: u64, len_max: u64) -> bool {
        let buffered = self.len;
        let before = self.cursor.done();
        let is_full = self.flush().is_err();
        let has_all = self.cursor.done() - before == buffered as u64;
        if has_all {
            self.place = LineStart { position: self.made, key };
        }
        let fits = self.cursor.done() == 0 || self.cursor.remaining() >= len_max;
        !is_full && fits && !self.gives_way
    }

    /// Whether the reader has a part already of the line at which the text begins, of at most `len_max` bytes.
    pub fn is_within_line(&self, len_max: u64) -> bool {
        (1..len_max).contains(&self.skip)
    }

    /// What that line was of has gone: it ends here.
    ///
    /// # Errors
    /// The reader's buffer is full, or bad.
    pub fn end_lost_line(&mut self) -> fmt::Result {
        self.made += core::mem::take(&mut self.skip);
        self.write_bytes(b"\n")
    }

    /// Copies the rest; the bytes that reached user memory.
    pub fn finish(mut self) -> SysResult {
        // What went wrong is in `failed`.
        let _ = self.flush();
        match self.failed {
            Some(stop) if self.cursor.done() == 0 => Err(stop),
            // It goes on where it is now.
            None if self.cursor.done() == 0 && self.gives_way => Err(Stop::Again),
            _ => Ok(self.cursor.done()),
        }
    }

    fn flush(&mut self) -> fmt::Result {
        let len = core::mem::take(&mut self.len);
        if self.failed.is_some() {
            return Err(fmt::Error);
        }
        match self.cursor.write(&self.buffer[..len]) {
            Ok(written) if written == len && self.cursor.remaining() > 0 => Ok(()),
            Ok(_) => Err(fmt::Error),
            Err(stop) => {
                self.failed = Some(stop);
                Err(fmt::Error)
            }
        }
    }
}

impl<M: Machine> Text<'_, '_, '_, M> {
    /// Adds the cost of looking for what the next line is of.
    pub fn looked(&mut self, cost: u64) {
        self.gives_way |= self.cursor.call().pauses(cost);
    }

    /// Writes bytes that need not be characters.
    ///
    /// # Errors
    /// The reader's buffer is full, or bad.
    pub fn write_bytes(&mut self, text: &[u8]) -> fmt::Result {
        let cost = PIECE_COST + BYTE_COST * text.len() as u64;
        if self.has_lines {
            self.gives_way |= self.cursor.call().pauses(cost);
        } else {
            self.cursor.call().serve_due(cost);
        }
        let mut bytes = text;
        self.made += bytes.len() as u64;
        let skipped = self.skip.min(bytes.len() as u64);
        self.skip -= skipped;
        bytes = &bytes[skipped as usize..];
        while !bytes.is_empty() {
            let len = bytes.len().min(BUFFER - self.len);
            self.buffer[self.len..self.len + len].copy_from_slice(&bytes[..len]);
            self.len += len;
            bytes = &bytes[len..];
            if self.len == BUFFER {
                self.flush()?;
            }
        }
        Ok(())
    }
}

impl<M: Machine> fmt::Write for Text<'_, '_, '_, M> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_bytes(text.as_bytes())
    }
}
