//! Generated text on its way to user memory: the part in front of the reader's position is dropped, and generating stops
//! when the reader's buffer is full.

use core::fmt;

use motet_hal::Machine;

use crate::{
    call::{Stop, SysResult},
    cursor::Cursor,
};

/// What making a piece of text costs, a number or some spaces, and each of its bytes (`call::cost`).
const PIECE_COST: u64 = 150;
const BYTE_COST: u64 = 15;
/// Bytes collected before they are copied.
const BUFFER: usize = 256;

/// A `fmt::Write` into user memory. Who writes to it holds no lock: what is due on the core is done meanwhile.
pub struct Text<'x, 'a, 'c, M: Machine> {
    cursor: &'x mut Cursor<'a, 'c, M>,
    skip: u64,
    buffer: [u8; BUFFER],
    len: usize,
    failed: Option<Stop>,
}

impl<'x, 'a, 'c, M: Machine> Text<'x, 'a, 'c, M> {
    /// Text from `position` on.
    pub fn new(cursor: &'x mut Cursor<'a, 'c, M>, position: u64) -> Self {
        Self { cursor, skip: position, buffer: [0; BUFFER], len: 0, failed: None }
    }

    /// Copies the rest; the bytes that reached user memory.
    pub fn finish(mut self) -> SysResult {
        // What went wrong is in `failed`.
        let _ = self.flush();
        match self.failed {
            Some(stop) if self.cursor.done() == 0 => Err(stop),
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

impl<M: Machine> fmt::Write for Text<'_, '_, '_, M> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.cursor.call().serve_due(PIECE_COST + BYTE_COST * text.len() as u64);
        let mut bytes = text.as_bytes();
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
