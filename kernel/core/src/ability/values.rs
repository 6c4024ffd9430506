//! A thread's values in vector registers, as other processes see them (`/proc/PID/vectors`).
//!
//! Only the core that runs the thread writes its frame and its area, and marks that with a stamp. A reader on another core copies both
//! under the tree lock, without which no area is freed, and compares the stamp before and after.

use core::fmt;

use motet_abi::registers;
use motet_hal::Machine;
use motet_layout::{
    Cell64, EXT_AVX, Isa, PoolAddr, THREAD_DEAD, THREAD_ENDING, THREAD_PREPARING, THREAD_RUNNING, ThreadRecord,
    VECTORS_AARCH64, VECTORS_RISCV64, Vectors, sync::Ordering,
};
use motet_protocol::stamp;

use super::{area, has_common_vectors, vectors_of};
use crate::cpu::Cpu;

/// Words of the frame that belong to vector registers: q0 to q31 of AArch64, ymm0 to ymm15 of x86-64.
const FRAME_WORDS: usize = 64;
/// The words of an FXSAVE image with MXCSR (low half), and where xmm0 begins.
const MXCSR_WORD: usize = 3;
const XMM_WORD: usize = 20;
/// Control words of RISC-V's areas.
const CONTROL: [&str; 4] = ["vstart", "vtype", "vl", "vcsr"];

/// Changes the running thread's values in vector registers, in its frame and its area, by calling a function under the stamp.
#[inline(always)]
pub fn writes<M: Machine, R>(cpu: &Cpu<M>, thread: &ThreadRecord, write: impl FnOnce() -> R) -> R {
    // Who has never used them has nothing that anybody could find in pieces.
    if thread.moves.uses_vectors.get() != 0 || has_common_vectors(cpu.own) {
        stamp::write(&thread.vector_stamp, write)
    } else {
        write()
    }
}

/// Where the values of an area are copied to: an area that no thread has.
pub struct Room<'c, M: Machine> {
    cpu: &'c Cpu<M>,
    address: PoolAddr,
}

impl<'c, M: Machine> Room<'c, M> {
    /// For registers of a format and length. `None`: memory is exhausted.
    pub fn new(cpu: &'c Cpu<M>, format: u32, bytes: u32) -> Option<Self> {
        area::make(cpu, format, bytes).map(|address| Self { cpu, address })
    }

    fn vectors(&self) -> Option<Vectors<'static>> {
        Vectors::at(self.cpu.pool, self.address)
    }
}

impl<M: Machine> Drop for Room<'_, M> {
    fn drop(&mut self) {
        area::free(self.cpu, self.address);
    }
}

/// What comes of a look at a thread.
#[expect(clippy::large_enum_variant, reason = "there is no heap, and only one of them at a time")]
pub enum Seen {
    /// Its values.
    Values(Values),
    /// They need room of this format, for registers of so many bytes.
    Needs(u32, u32),
    /// Its core is writing them.
    Changing,
}

/// The values of one moment.
pub struct Values {
    isa: Isa,
    /// The thread runs: they are those at the end of its last slice.
    runs: bool,
    /// Bytes in a register, 0: there are no values.
    bytes: u32,
    mxcsr: u32,
    words: [u64; FRAME_WORDS],
}

impl Values {
    /// Looks at a thread; `own`: at the caller's own, whose registers have been stored. What is in an area is copied into `room`. The
    /// tree lock is held.
    pub fn of<M: Machine>(thread: &'static ThreadRecord, own: bool, room: Option<&Room<M>>, cpu: &Cpu<M>) -> Seen {
        let state = thread.state.load(Ordering::Acquire);
        let runs = !own && matches!(state, THREAD_RUNNING | THREAD_PREPARING);
        let isa = registers::frame_isa(&thread.frame);
        let none = Self { isa, runs, bytes: 0, mxcsr: 0, words: [0; FRAME_WORDS] };
        if matches!(state, THREAD_DEAD | THREAD_ENDING) {
            return Seen::Values(none);
        }
        let look = || {
            let bytes = registers::vector_bytes(&thread.frame);
            if bytes == 0 || vectors_of(isa).is_none() {
                return Seen::Values(none);
            }
            if isa != Isa::X86_64 {
                // Of another format or length: its registers have none of these values, or what says so is damaged.
                let fits =
                    |area: &Vectors<'_>| area.format() & 0xff == isa as u32 && area.register_bytes() == bytes as usize;
                let Some(from) = Vectors::of(cpu.pool, &thread.frame).filter(fits) else { return Seen::Values(none) };
                let is_equal = |to: &Vectors<'_>| to.format() == from.format() && to.register_bytes() == bytes as usize;
                let Some(to) = room.and_then(Room::vectors).filter(is_equal) else {
                    return Seen::Needs(from.format(), bytes);
                };
                to.copy_from(from);
            }
            let ext = &thread.frame.ext;
            let words = core::array::from_fn(|index| frame_word(isa, ext, index));
            Seen::Values(Self { bytes, mxcsr: ext[MXCSR_WORD].get() as u32, words, ..none })
        };
        stamp::read(&thread.vector_stamp, look).unwrap_or(Seen::Changing)
    }

    /// Writes them, one a line, registers as numbers; `room` has what was in the area.
    ///
    /// # Errors
    /// `out`'s.
    pub fn write<M: Machine>(&self, room: Option<&Room<M>>, out: &mut impl fmt::Write) -> fmt::Result {
        match vectors_of(self.isa) {
            Some(extension) => writeln!(out, "format\t\t{} {}", self.isa.name(), extension.name())?,
            None => writeln!(out, "format\t\tnone")?,
        }
        writeln!(out, "as_of\t\t{}", if self.runs { "end of its last slice, it runs" } else { "now" })?;
        writeln!(out, "values\t\t{}", if self.bytes == 0 { "none" } else { "live" })?;
        if self.bytes == 0 {
            return Ok(());
        }
        writeln!(out, "register_bytes\t{}", self.bytes)?;
        match (self.isa, room.and_then(Room::vectors)) {
            (Isa::RiscV64, Some(area)) => write_riscv64(area, out),
            (Isa::AArch64, Some(area)) => self.write_aarch64(area, out),
            (Isa::X86_64, _) => self.write_x86_64(out),
            (Isa::RiscV64 | Isa::AArch64 | Isa::Hosted, _) => Ok(()),
        }
    }

    fn write_aarch64(&self, area: Vectors<'_>, out: &mut impl fmt::Write) -> fmt::Result {
        for (number, lower) in self.words.chunks_exact(2).enumerate() {
            let upper = area.register(number).iter().skip(2).map(Cell64::get);
            write_register(out, 'z', number, lower.iter().copied().chain(upper), area.register_bytes() / 8)?;
        }
        // One bit for each byte of a register; the last one is FFR.
        let bytes = area.register_bytes() / 8;
        for number in 0..17 {
            match number {
                16 => out.write_str("ffr\t\t")?,
                number => write!(out, "p{number}\t\t")?,
            }
            for at in (number * bytes..(number + 1) * bytes).rev() {
                let word = area.predicates().get(at / 8).map_or(0, Cell64::get);
                write!(out, "{:02x}", word >> (at % 8 * 8) as u32 & 0xff)?;
            }
            out.write_char('\n')?;
        }
        Ok(())
    }

    fn write_x86_64(&self, out: &mut impl fmt::Write) -> fmt::Result {
        writeln!(out, "mxcsr\t\t{:#x}", self.mxcsr)?;
        for (number, words) in self.words.chunks_exact(4).enumerate() {
            write_register(out, "ymm", number, words.iter().copied(), words.len())?;
        }
        Ok(())
    }
}

/// A word of the vector registers, as they lie one after another, out of a frame.
fn frame_word(isa: Isa, ext: &[Cell64; 104], index: usize) -> u64 {
    let (register, word) = (index / 4, index % 4);
    let at = match isa {
        Isa::X86_64 if word < 2 => XMM_WORD + 2 * register + word,
        Isa::X86_64 => EXT_AVX.start + 2 * register + word - 2,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => index,
    };
    ext[at].get()
}

fn write_riscv64(area: Vectors<'_>, out: &mut impl fmt::Write) -> fmt::Result {
    for (name, word) in CONTROL.iter().zip(area.control()) {
        writeln!(out, "{name}\t\t{:#x}", word.get())?;
    }
    for number in 0..32 {
        let words = area.register(number);
        write_register(out, 'v', number, words.iter().map(Cell64::get), words.len())?;
    }
    Ok(())
}

/// A register of `count` words, the lowest of which comes first in `words`, as one number.
fn write_register(
    out: &mut impl fmt::Write,
    name: impl fmt::Display,
    number: usize,
    words: impl Iterator<Item = u64>,
    count: usize,
) -> fmt::Result {
    let mut all = [0; motet_layout::VECTOR_BYTES_MAX / 8];
    all.iter_mut().zip(words).for_each(|(place, word)| *place = word);
    write!(out, "{name}{number}\t\t")?;
    all[..count.min(all.len())].iter().rev().try_for_each(|word| write!(out, "{word:016x}"))?;
    out.write_char('\n')
}

const _: () = assert!(VECTORS_AARCH64 & 0xff == Isa::AArch64 as u32 && VECTORS_RISCV64 & 0xff == Isa::RiscV64 as u32);
