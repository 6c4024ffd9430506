//! Recorded memory accesses of one core, in a compact form: what a QEMU plugin wrote down once can be replayed into the
//! model at any time.
//!
//! A trace is [`MAGIC`] and then *runs*: instructions that begin in one line, executed one after the other, with the data
//! accesses that they made. All numbers are LEB128. A run is the line's distance from the run before it, the number of
//! instructions, the number of accesses, and the accesses. An access is its distance from one of the last eight, with
//! that one's number in the low three bits; the fourth says whether it is of the same kind as that one, otherwise a
//! byte follows: the logarithm of the size, twice, plus one if it is a store.

use std::io::{self, BufReader, Read, Write};

use crate::{Core, Kind, LINE_SIZE};

/// The first bytes of a trace.
pub const MAGIC: [u8; 8] = *b"motettr1";

/// Accesses that the next one may be told from.
const RECENT: usize = 8;
/// Beyond this distance, the access that was used longest ago is given up instead.
const NEAR: u64 = 4096;
const SAME_KIND: u64 = 8;

/// A data access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Physical address.
    pub address: u64,
    /// Logarithm of its size in bytes.
    pub size_log2: u8,
    /// It writes.
    pub store: bool,
}

/// Instructions that begin in one line, and the data accesses that they made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The line's number: its address divided by [`LINE_SIZE`].
    pub line: u64,
    /// How many instructions.
    pub instructions: u64,
    /// In order.
    pub accesses: Vec<Access>,
}

/// Lets a core of the model do what a run says. Instructions fetch their line once.
pub fn replay(core: &mut Core<'_>, run: &Run) {
    core.access(Kind::Fetch, run.line * LINE_SIZE, LINE_SIZE as u32);
    for access in &run.accesses {
        let kind = if access.store { Kind::Store } else { Kind::Load };
        core.access(kind, access.address, 1 << access.size_log2);
    }
}

/// What reader and writer know of what came before.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    line: u64,
    recent: [Access; RECENT],
    /// When each was used.
    used: [u64; RECENT],
    time: u64,
}

impl Past {
    fn remember(&mut self, slot: usize, access: Access) {
        self.time += 1;
        (self.recent[slot], self.used[slot]) = (access, self.time);
    }

    /// Which recent access is best to tell this one from.
    fn choose(&self, access: Access) -> usize {
        let cost = |slot: &usize| {
            let other = self.recent[*slot];
            let other_kind = (other.size_log2, other.store) != (access.size_log2, access.store);
            other.address.abs_diff(access.address) + if other_kind { 64 } else { 0 }
        };
        let nearest = (0..RECENT).min_by_key(cost).unwrap_or(0);
        if cost(&nearest) <= NEAR { nearest } else { (0..RECENT).min_by_key(|slot| self.used[*slot]).unwrap_or(0) }
    }
}

/// Writes a trace, access by access.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    past: Past,
    run: Run,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// `out`'s.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        Ok(Self { out, past: Past::default(), run: Run::default() })
    }

    /// An instruction that begins at this address is executed.
    ///
    /// # Errors
    /// `out`'s.
    pub fn instruction(&mut self, address: u64) -> io::Result<()> {
        let line = address / LINE_SIZE;
        if line != self.run.line {
            self.flush()?;
            self.run.line = line;
        }
        self.run.instructions += 1;
        Ok(())
    }

    /// The instruction that was told last makes an access.
    pub fn access(&mut self, access: Access) {
        self.run.accesses.push(access);
    }

    /// Writes what has been told until now.
    ///
    /// # Errors
    /// `out`'s.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.run.instructions > 0 {
            let mut bytes = Vec::new();
            put(&mut bytes, zigzag(self.run.line.wrapping_sub(self.past.line)));
            put(&mut bytes, self.run.instructions);
            put(&mut bytes, self.run.accesses.len() as u64);
            self.past.line = self.run.line;
            for access in self.run.accesses.drain(..) {
                let slot = self.past.choose(access);
                let before = self.past.recent[slot];
                let same = (before.size_log2, before.store) == (access.size_log2, access.store);
                let distance = zigzag(access.address.wrapping_sub(before.address));
                put(&mut bytes, distance << 4 | if same { SAME_KIND } else { 0 } | slot as u64);
                if !same {
                    bytes.push(access.size_log2 << 1 | u8::from(access.store));
                }
                self.past.remember(slot, access);
            }
            self.run.instructions = 0;
            self.out.write_all(&bytes)?;
        }
        self.out.flush()
    }
}

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R: Read> {
    from: io::Bytes<BufReader<R>>,
    past: Past,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// `from`'s, and [`io::ErrorKind::InvalidData`] for what is no trace.
    pub fn new(from: R) -> io::Result<Self> {
        let mut reader = Self { from: BufReader::new(from).bytes(), past: Past::default() };
        for wanted in MAGIC {
            if reader.byte()? != wanted {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "not a trace of this version"));
            }
        }
        Ok(reader)
    }

    fn byte(&mut self) -> io::Result<u8> {
        self.from.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }

    /// A number, of which the first byte has been read.
    fn number(&mut self, mut byte: u8) -> io::Result<u64> {
        let mut value = u64::from(byte & 0x7f);
        let mut shift = 7;
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            if shift > 63 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a number of more than 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        Ok(value)
    }

    fn next_number(&mut self) -> io::Result<u64> {
        let first = self.byte()?;
        self.number(first)
    }

    fn run(&mut self, first: u8) -> io::Result<Run> {
        self.past.line = self.past.line.wrapping_add(unzigzag(self.number(first)?));
        let mut run = Run { line: self.past.line, instructions: self.next_number()?, accesses: Vec::new() };
        for _ in 0..self.next_number()? {
            let word = self.next_number()?;
            let slot = word as usize % RECENT;
            let mut access = self.past.recent[slot];
            access.address = access.address.wrapping_add(unzigzag(word >> 4));
            if word & SAME_KIND == 0 {
                let kind = self.byte()?;
                (access.size_log2, access.store) = (kind >> 1, kind & 1 == 1);
            }
            self.past.remember(slot, access);
            run.accesses.push(access);
        }
        Ok(run)
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = io::Result<Run>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.from.next()? {
            Ok(first) => Some(self.run(first)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// Distances are small in either direction. Those of addresses are below 2⁵⁹ on every machine, so four bits fit in.
fn zigzag(distance: u64) -> u64 {
    distance << 1 ^ (distance as i64 >> 63) as u64
}

fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(address: u64, size_log2: u8, store: bool) -> Access {
        Access { address, size_log2, store }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).unwrap();
        let mut wanted: Vec<Run> = Vec::new();
        for step in 0..1000_u64 {
            // Two lines in turn, a stride, a word that stays, and far jumps down and up.
            let accesses = [
                access(step * 64, 3, step % 3 == 0),
                access(0xffff_0000, 2, false),
                access((step * 0x1234_5678) % (1 << 40), 0, true),
            ];
            writer.instruction(0x8000_0000 + step % 2 * 64).unwrap();
            accesses.into_iter().for_each(|access| writer.access(access));
            writer.instruction(0x8000_0020 + step % 2 * 64).unwrap();
            wanted.push(Run { line: 0x200_0000 + step % 2, instructions: 2, accesses: accesses.to_vec() });
        }
        writer.flush().unwrap();
        drop(writer);
        assert_eq!(Reader::new(&bytes[..]).unwrap().collect::<io::Result<Vec<_>>>().unwrap(), wanted);
        assert!(bytes.len() < 1000 * 18, "{}", bytes.len());
    }

    #[test]
    fn what_is_damaged_is_refused() {
        assert!(Reader::new(&b"motettr0"[..]).is_err() && Reader::new(&b"mot"[..]).is_err());
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0, 1, 1]);
        assert!(Reader::new(&bytes[..]).unwrap().next().unwrap().is_err());
        bytes.truncate(8);
        bytes.extend([0xff; 12]);
        assert!(Reader::new(&bytes[..]).unwrap().next().unwrap().is_err());
    }
}
