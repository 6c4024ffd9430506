//! Vector registers beyond those of the base instruction set: where a thread's values are while no core holds them.
//!
//! Their length differs from core to core, so they are not in the thread's frame but in an area of their own, of as many frames of the
//! pool as they need, which are not next to each other. The frame says where it is ([`UserFrame::vectors`]) and whether its values are
//! the thread's ([`UserFrame::vector_bytes`]).

use crate::{Cell32, Cell64, Frame, Isa, PAGE_SIZE, Pool, PoolAddr, UserFrame};

/// Longest vector register in bytes: SVE's architectural limit. RISC-V cores of QEMU have at most 128.
pub const VECTOR_BYTES_MAX: usize = 256;
/// Frames of the largest area.
pub const VECTOR_FRAMES_MAX: usize = 3;

/// [`VectorArea::format`]: v0..v31 of RISC-V; the control words are vstart, vtype, vl, vcsr.
pub const VECTORS_RISCV64: u32 = Isa::RiscV64 as u32 | 1 << 8;
/// [`VectorArea::format`]: z0..z31 of SVE, then p0..p15 and FFR without gaps.
pub const VECTORS_AARCH64: u32 = Isa::AArch64 as u32 | 1 << 8;

/// Registers that lie in one frame, one after another.
const GROUP: usize = 8;
const GROUPS: usize = 4;

pool_struct! {
    /// The first frame of an area. Written by the core that runs the thread.
    pub struct VectorArea: size 4096, align 64 {
        /// `VECTORS_*`: instruction set (lowest byte) and kind of registers.
        0 pub format: Cell32,
        /// Bytes of all registers and this header.
        4 pub size_bytes: Cell32,
        /// Bytes in a vector register.
        8 pub register_bytes: Cell32,
        12 _pad0: Cell32,
        /// The other frames (pool address), 0: there is none.
        16 pub more: [Cell64; 2],
        /// What else an instruction works by; see the format.
        32 pub control: [Cell64; 4],
        /// Predicates if there are some, then groups of 8 registers as long as they fit.
        64 pub words: [Cell64; 504],
    }
}

pool_struct! {
    /// Another frame of an area.
    pub struct VectorPage: size 4096, align 64 {
        /// Groups of 8 registers.
        0 pub words: [Cell64; 512],
    }
}

/// An area, by what its header has said when it was looked at.
#[derive(Clone, Copy)]
pub struct Vectors<'a> {
    format: u32,
    register_bytes: usize,
    area: &'a VectorArea,
    more: [Option<&'a VectorPage>; VECTOR_FRAMES_MAX - 1],
}

/// Words of the predicates of a format, so that what follows is on a line of its own.
const fn predicate_words(format: u32, register_bytes: usize) -> usize {
    if format == VECTORS_AARCH64 { (17 * register_bytes / 8).next_multiple_of(64) / 8 } else { 0 }
}

/// Whether all groups of registers lie in the first frame, one after another behind the predicates, as mostly.
#[inline]
const fn fits_first(format: u32, register_bytes: usize) -> bool {
    predicate_words(format, register_bytes) + GROUPS * GROUP * register_bytes / 8 <= 504
}

/// The frame and the word in it where each group of registers begins.
const fn places(format: u32, register_bytes: usize) -> [(usize, usize); GROUPS] {
    let words = GROUP * register_bytes / 8;
    let (mut frame, mut word, mut end) = (0, predicate_words(format, register_bytes), 504);
    let mut places = [(0, 0); GROUPS];
    let mut group = 0;
    while group < GROUPS {
        if word + words > end {
            (frame, word, end) = (frame + 1, 0, 512);
        }
        places[group] = (frame, word);
        word += words;
        group += 1;
    }
    places
}

/// Whether registers can have this length: the areas of others would not be laid out.
pub const fn is_vector_length(register_bytes: usize) -> bool {
    register_bytes.is_multiple_of(16) && register_bytes != 0 && register_bytes <= VECTOR_BYTES_MAX
}

/// How many frames an area takes.
pub const fn vector_frames(format: u32, register_bytes: usize) -> usize {
    1 + places(format, register_bytes)[GROUPS - 1].0
}

const _: () = assert!(vector_frames(VECTORS_AARCH64, VECTOR_BYTES_MAX) == VECTOR_FRAMES_MAX);
const _: () = assert!(vector_frames(VECTORS_RISCV64, 128) == 2 && vector_frames(VECTORS_RISCV64, 64) == 1);

impl Vectors<'static> {
    /// The area of the thread with this frame; `None`: it has none, or what says so is damaged.
    #[inline]
    pub fn of(pool: Pool, frame: &UserFrame) -> Option<Self> {
        Self::at(pool, PoolAddr(frame.vectors.get()))
    }

    /// The area at an address.
    #[inline]
    pub fn at(pool: Pool, address: PoolAddr) -> Option<Self> {
        let area = pool.get::<VectorArea>(address)?;
        Self::with(area, || area.more.each_ref().map(|more| pool.get(PoolAddr(more.get()))))
    }

    /// Makes an area of frames that are zeroed and nobody else's, [`vector_frames`] of them.
    ///
    /// # Panics
    /// There are too few frames, or registers have no such length.
    pub fn lay_out(pool: Pool, frames: &[Frame], format: u32, register_bytes: u32) -> PoolAddr {
        let bytes = register_bytes as usize;
        assert!(is_vector_length(bytes), "vector registers of {bytes} bytes");
        assert!(frames.len() == vector_frames(format, bytes), "{} frames for vector registers", frames.len());
        let area = pool.at::<VectorArea>(frames[0].addr());
        area.format.set(format);
        area.register_bytes.set(register_bytes);
        let predicates = if format == VECTORS_AARCH64 { 17 * bytes / 8 } else { 0 };
        area.size_bytes.set((64 + predicates + 32 * bytes) as u32);
        for (more, frame) in area.more.iter().zip(&frames[1..]) {
            more.set(frame.addr().0);
        }
        frames[0].addr()
    }
}

impl<'a> Vectors<'a> {
    /// The area in these frames; `None`: its header says what cannot be.
    pub fn new(area: &'a VectorArea, more: [Option<&'a VectorPage>; VECTOR_FRAMES_MAX - 1]) -> Option<Self> {
        Self::with(area, || more)
    }

    #[inline]
    fn with(area: &'a VectorArea, more: impl FnOnce() -> [Option<&'a VectorPage>; 2]) -> Option<Self> {
        // Once: between two looks it may change if the pool is damaged.
        let (format, register_bytes) = (area.format.get(), area.register_bytes.get() as usize);
        let is_known = matches!(format, VECTORS_RISCV64 | VECTORS_AARCH64);
        if !is_known || !is_vector_length(register_bytes) {
            return None;
        }
        let vectors = Self { format, register_bytes, area, more: [None; VECTOR_FRAMES_MAX - 1] };
        if fits_first(format, register_bytes) {
            return Some(vectors);
        }
        let (more, needed) = (more(), vector_frames(format, register_bytes) - 1);
        more[..needed].iter().all(Option::is_some).then_some(Self { more, ..vectors })
    }

    /// What the words are: `VECTORS_*`.
    #[inline(always)]
    pub fn format(self) -> u32 {
        self.format
    }

    /// Bytes in a vector register.
    #[inline(always)]
    pub fn register_bytes(self) -> usize {
        self.register_bytes
    }

    /// Bytes of all registers and the header.
    pub fn size_bytes(self) -> u32 {
        self.area.size_bytes.get()
    }

    /// Frames in it, with their addresses.
    pub fn frames(self, address: PoolAddr) -> impl Iterator<Item = Frame> {
        let count = vector_frames(self.format(), self.register_bytes()) - 1;
        let more = self.area.more[..count].iter().map(|more| PoolAddr(more.get()));
        core::iter::once(address).chain(more).map(|address| Frame((address.0 / PAGE_SIZE) as u32))
    }

    /// What else an instruction works by.
    pub fn control(self) -> &'a [Cell64; 4] {
        &self.area.control
    }

    /// The words of 8 registers each, by ascending numbers.
    #[inline] // or it is copied to the stack first
    pub fn groups(self) -> [&'a [Cell64]; GROUPS] {
        let words = GROUP * self.register_bytes / 8;
        if !fits_first(self.format, self.register_bytes) {
            return self.scattered_groups();
        }
        let groups = &self.area.words[predicate_words(self.format, self.register_bytes)..][..GROUPS * words];
        [&groups[..words], &groups[words..2 * words], &groups[2 * words..3 * words], &groups[3 * words..]]
    }

    #[cold]
    fn scattered_groups(self) -> [&'a [Cell64]; GROUPS] {
        places(self.format, self.register_bytes).map(|(frame, word)| {
            let words: &[Cell64] = match frame {
                0 => &self.area.words,
                // All of them are there.
                more => self.more.get(more - 1).copied().flatten().map_or(&self.area.words[..], |page| &page.words),
            };
            &words[word..word + GROUP * self.register_bytes / 8]
        })
    }

    /// The words of a register.
    ///
    /// # Panics
    /// `number` is above 31.
    pub fn register(self, number: usize) -> &'a [Cell64] {
        let words = self.register_bytes() / 8;
        self.groups()[number / GROUP].get(number % GROUP * words..).and_then(|group| group.get(..words)).unwrap_or(&[])
    }

    /// The words of the predicates, as long as those are and up to a line's end more.
    pub fn predicates(self) -> &'a [Cell64] {
        &self.area.words[..predicate_words(self.format(), self.register_bytes())]
    }

    /// Bytes of the predicates.
    pub fn predicate_bytes(self) -> usize {
        if self.format() == VECTORS_AARCH64 { 17 * self.register_bytes() / 8 } else { 0 }
    }

    /// All words: initial values are zeroes.
    pub fn words(self) -> impl Iterator<Item = &'a Cell64> {
        self.area.control.iter().chain(self.predicates()).chain(self.groups().into_iter().flatten())
    }

    /// Takes the values of another area of the same format and length.
    pub fn copy_from(self, other: Vectors<'_>) {
        for (to, from) in self.words().zip(other.words()) {
            to.set(from.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_every_length_lie_one_after_another_in_their_frames() {
        for format in [VECTORS_RISCV64, VECTORS_AARCH64] {
            for bytes in (1..=VECTOR_BYTES_MAX).filter(|&bytes| is_vector_length(bytes)) {
                let words = GROUP * bytes / 8;
                let mut free = (0, predicate_words(format, bytes));
                for (frame, word) in places(format, bytes) {
                    let end = if free.0 == 0 { 504 } else { 512 };
                    let expected = if free.1 + words > end { (free.0 + 1, 0) } else { free };
                    assert_eq!((frame, word), expected, "registers of {bytes} bytes");
                    free = (frame, word + words);
                }
                assert_eq!(vector_frames(format, bytes), 1 + free.0, "registers of {bytes} bytes");
            }
        }
    }
}
