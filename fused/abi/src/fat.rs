//! Executables that hold the text of several ISAs: what `motet cc` writes and the kernel reads (docs/toolchain.md).
//!
//! The file is an ELF executable of its *primary* ISA. The text of each other ISA, which has every function at the same
//! address, rides in a program header of its own; one note says which functions are pinned where. A file is an
//! allegation: the parsers here are total.

use core::fmt;

use motet_layout::{Isa, IslandId};

/// `p_type` of another ISA's text. Linux ignores it.
pub const PT_TEXT: u32 = 0x6d6f_7474;
/// The note's name, with its zero.
pub const NOTE_NAME: &[u8; 6] = b"Motet\0";
/// The note's type.
pub const NOTE_TYPE: u32 = 1;
/// Version of the note.
pub const VERSION: u32 = 1;
/// Most functions that an executable may pin.
pub const PINS_MAX: u32 = 1 << 16;
/// Most integer words that a call carries.
pub const WORDS_MAX: usize = 16;
/// Most floating-point arguments that a call carries.
pub const FLOATS_MAX: usize = 8;

/// ISAs whose text a file can hold: their codes less one are indices.
pub const ISAS: usize = 4;

/// Where the `p_flags` of a [`PT_TEXT`] have the ISA's code, of eight bits.
pub const FLAGS_ISA_SHIFT: u32 = 20;

/// The ISA that the `p_flags` of a [`PT_TEXT`] name.
pub const fn isa_of_flags(flags: u32) -> Option<Isa> {
    Isa::from_raw(flags >> FLAGS_ISA_SHIFT & 0xff)
}

/// Where the pages of a segment of variables are to lie. The `p_flags` of its `PT_LOAD` say it, in bits that Linux ignores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Near {
    /// Near the first island of an ISA.
    Isa(Isa),
    /// Near this island.
    Island(IslandId),
}

impl Near {
    /// Codes from here on are islands.
    const ISLANDS: u32 = 0x40;

    /// In `p_flags`.
    pub const fn flags(self) -> u32 {
        let code = match self {
            Self::Isa(isa) => isa as u32,
            Self::Island(island) => Self::ISLANDS + island.0 as u32,
        };
        code << FLAGS_ISA_SHIFT
    }

    /// What `p_flags` say; `Ok(None)`: nothing.
    ///
    /// # Errors
    /// [`BadNote::Near`].
    pub fn of_flags(flags: u32) -> Result<Option<Self>, BadNote> {
        match flags >> FLAGS_ISA_SHIFT & 0xff {
            0 => Ok(None),
            code if code >= Self::ISLANDS => {
                let island = IslandId::from_raw(code - Self::ISLANDS).ok_or(BadNote::Near(code))?;
                Ok(Some(Self::Island(island)))
            }
            code => Ok(Some(Self::Isa(Isa::from_raw(code).ok_or(BadNote::Near(code))?))),
        }
    }
}

/// What is wrong with a note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadNote {
    /// It ends early.
    Truncated,
    /// It is of another version.
    Version(u32),
    /// An ISA's code is none.
    Isa(u32),
    /// It has more pins than [`PINS_MAX`].
    TooManyPins(u32),
    /// A pin lies outside of the text, or they overlap or are not in order.
    PinPlace(u64),
    /// A segment's data is to lie where there is nothing.
    Near(u32),
    /// Two pins of different ISAs, or a strict pin and another one, share this page.
    SharedPage(u64),
}

impl fmt::Display for BadNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the note ends early"),
            Self::Version(version) => write!(f, "the note has version {version}, this kernel reads {VERSION}"),
            Self::Isa(code) => write!(f, "{code} is no instruction set's code"),
            Self::TooManyPins(pins) => write!(f, "{pins} pinned functions, at most {PINS_MAX} are possible"),
            Self::Near(code) => write!(f, "{code:#x} is neither an instruction set nor an island for data to lie near"),
            Self::PinPlace(address) => write!(f, "the pin at {address:#x} is out of order or outside of the text"),
            Self::SharedPage(address) => write!(f, "the page at {address:#x} holds functions with different pins"),
        }
    }
}

/// The beginning of the note's descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The file's own ISA.
    pub primary: Isa,
    /// A thread's calls to other ISAs go on below the caller's frames, where the machine's islands cache each other's memory. Otherwise it has a
    /// stack for each ISA.
    pub one_stack: bool,
    /// Entries that follow.
    pub pins: u32,
    /// Bytes of names that follow those.
    pub names_len: u32,
    /// By ISA code - 1: thread pointer less the address of the thread's block.
    pub thread_pointer_bias: [u64; ISAS],
}

impl Header {
    /// Bytes in the file.
    pub const SIZE: usize = 16 + 8 * ISAS;
    /// Beside the ISA's code.
    const ONE_STACK: u32 = 1 << 31;

    /// Reads it.
    ///
    /// # Errors
    /// See [`BadNote`].
    pub fn parse(bytes: &[u8; Self::SIZE]) -> Result<Self, BadNote> {
        let version = u32_at(bytes, 0);
        if version != VERSION {
            return Err(BadNote::Version(version));
        }
        let (code, pins) = (u32_at(bytes, 4) & !Self::ONE_STACK, u32_at(bytes, 8));
        if pins > PINS_MAX {
            return Err(BadNote::TooManyPins(pins));
        }
        Ok(Self {
            primary: Isa::from_raw(code).ok_or(BadNote::Isa(code))?,
            one_stack: u32_at(bytes, 4) & Self::ONE_STACK != 0,
            pins,
            names_len: u32_at(bytes, 12),
            thread_pointer_bias: core::array::from_fn(|isa| u64_at(bytes, 16 + 8 * isa)),
        })
    }

    /// As it is in a file: what [`Header::parse`] reads.
    pub fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let primary = self.primary as u32 | if self.one_stack { Self::ONE_STACK } else { 0 };
        for (index, word) in [VERSION, primary, self.pins, self.names_len].into_iter().enumerate() {
            put_u32(&mut bytes, 4 * index, word);
        }
        for (index, bias) in self.thread_pointer_bias.into_iter().enumerate() {
            put_u64(&mut bytes, 16 + 8 * index, bias);
        }
        bytes
    }
}

/// A pinned function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pin {
    /// Its address.
    pub address: u64,
    /// Its length in bytes, padding included.
    pub size: u64,
    /// The ISA that runs it.
    pub isa: Isa,
    /// Where its name is among the names, and how long.
    pub name: (u32, u32),
    /// What it takes and gives.
    pub signature: Signature,
    /// It must not run on another ISA, even if its own is missing.
    pub strict: bool,
}

impl Pin {
    /// Bytes in the file.
    pub const SIZE: usize = 56;
    const UNKNOWN: u32 = 1;
    const STRICT: u32 = 2;

    /// Reads it.
    ///
    /// # Errors
    /// See [`BadNote`].
    pub fn parse(bytes: &[u8; Self::SIZE]) -> Result<Self, BadNote> {
        let code = u32_at(bytes, 16);
        let (address, size) = (u64_at(bytes, 0), u64_at(bytes, 8));
        if size == 0 || address.checked_add(size).is_none() {
            return Err(BadNote::PinPlace(address));
        }
        let known = Signature {
            words: u64_at(bytes, 32),
            floats: u32_at(bytes, 40) & 0xffff,
            result: u32_at(bytes, 44) & 0xfff,
        };
        let flags = u32_at(bytes, 28);
        let signature = if flags & Self::UNKNOWN != 0 { Signature::UNKNOWN } else { known };
        let isa = Isa::from_raw(code).ok_or(BadNote::Isa(code))?;
        let name = (u32_at(bytes, 20), u32_at(bytes, 24));
        Ok(Self { address, size, isa, name, signature, strict: flags & Self::STRICT != 0 })
    }

    /// As it is in a file: what [`Pin::parse`] reads.
    pub fn bytes(&self) -> [u8; Self::SIZE] {
        let unknown = if self.signature == Signature::UNKNOWN { Self::UNKNOWN } else { 0 };
        let flags = unknown | if self.strict { Self::STRICT } else { 0 };
        let mut bytes = [0; Self::SIZE];
        put_u64(&mut bytes, 0, self.address);
        put_u64(&mut bytes, 8, self.size);
        for (index, word) in [self.isa as u32, self.name.0, self.name.1, flags].into_iter().enumerate() {
            put_u32(&mut bytes, 16 + 4 * index, word);
        }
        put_u64(&mut bytes, 32, self.signature.words);
        put_u32(&mut bytes, 40, self.signature.floats);
        put_u32(&mut bytes, 44, self.signature.result);
        bytes
    }
}

/// What a function takes and gives, as far as a call across ISAs must know: they pass narrow integers differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signature {
    /// Four bits ([`Word`]) for each integer argument word, the first in the lowest bits; 0 ends them.
    pub words: u64,
    /// Two bits for each floating-point argument: 1 double, 2 float; 0 ends them.
    pub floats: u32,
    /// Two [`Word`]s (bits 0 to 7), then two floats (bits 8 to 11).
    pub result: u32,
}

impl Signature {
    /// Of a function whose types nobody knows: six words and eight doubles in, two of each out.
    pub const UNKNOWN: Self = Self { words: 0x11_1111, floats: 0x5555, result: 0x511 };
    /// Of `void *f(void *)`.
    pub const POINTER: Self = Self { words: 1, floats: 0, result: 1 };

    /// Integer argument words.
    pub const fn word_count(&self) -> usize {
        // The position of the lowest zero nibble: the words before it are the arguments.
        let mut count = 0;
        while count < WORDS_MAX && self.words >> (4 * count) & 15 != 0 {
            count += 1;
        }
        count
    }

    /// Floating-point arguments.
    pub const fn float_count(&self) -> usize {
        let mut count = 0;
        while count < FLOATS_MAX && self.floats >> (2 * count) & 3 != 0 {
            count += 1;
        }
        count
    }

    /// The kind of an argument word.
    pub const fn word(&self, index: usize) -> Word {
        Word::from_code((self.words >> (4 * index)) as u32)
    }

    /// An argument word as a register of `isa` holds it.
    #[inline(always)]
    pub const fn word_for(&self, isa: Isa, index: usize, value: u64) -> u64 {
        in_register(isa, (self.words >> (4 * index)) as u32 & 15, value)
    }

    /// A result word as a register of `isa` holds it.
    #[inline(always)]
    pub const fn result_for(&self, isa: Isa, index: usize, value: u64) -> u64 {
        in_register(isa, self.result >> (4 * index) & 15, value)
    }

    /// Whether a floating-point argument is single precision.
    pub const fn is_single(&self, index: usize) -> bool {
        self.floats >> (2 * index) & 3 == 2
    }

    /// The kind of the first or second result word.
    pub const fn result_word(&self, index: usize) -> Word {
        Word::from_code(self.result >> (4 * index))
    }

    /// Whether the first or second floating-point result is single precision.
    pub const fn result_is_single(&self, index: usize) -> bool {
        self.result >> (8 + 2 * index) & 3 == 2
    }

    /// Whether floating-point registers take part at all.
    pub const fn has_floats(&self) -> bool {
        self.floats != 0 || self.result >> 8 != 0
    }
}

/// Most words are whole, and need no look at what they are.
#[inline(always)]
const fn in_register(isa: Isa, code: u32, value: u64) -> u64 {
    if code <= 1 { value } else { Word::from_code(code).in_register(isa, value) }
}

/// An integer in an argument or result register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// 64 bits, or nothing that matters.
    Whole,
    /// Fewer bits, signed.
    Signed(u32),
    /// Fewer bits, unsigned.
    Unsigned(u32),
    /// A part of a structure, of one to seven bytes.
    Part(u32),
}

impl Word {
    const fn from_code(code: u32) -> Self {
        match code & 15 {
            2 => Self::Signed(8),
            3 => Self::Unsigned(8),
            4 => Self::Signed(16),
            5 => Self::Unsigned(16),
            6 => Self::Signed(32),
            7 => Self::Unsigned(32),
            code @ 8..=14 => Self::Part(code - Self::PART),
            _ => Self::Whole,
        }
    }

    /// What the code of a part of a structure adds to its bytes.
    const PART: u32 = 7;

    /// Its code in a [`Signature`].
    pub const fn code(self) -> u32 {
        match self {
            Self::Part(bytes @ 1..=7) => bytes + Self::PART,
            Self::Signed(8) => 2,
            Self::Unsigned(8) => 3,
            Self::Signed(16) => 4,
            Self::Unsigned(16) => 5,
            Self::Signed(32) => 6,
            Self::Unsigned(32) => 7,
            Self::Whole | Self::Signed(_) | Self::Unsigned(_) | Self::Part(_) => 1,
        }
    }

    /// The value as a register of `isa` holds it. AArch64 leaves the upper bits open (AAPCS64, 6.8.2); on x86-64 compilers
    /// rely on 32 valid bits; RISC-V extends to 32 bits by the type's sign and then to 64 by bit 31 (psABI, 2.1). No ABI
    /// says what is behind a structure's end, but a compiler that sees both functions relies on its own habit: zeros.
    pub const fn in_register(self, isa: Isa, value: u64) -> u64 {
        match self {
            Self::Whole => value,
            Self::Signed(bits) => ((value << (64 - bits)) as i64 >> (64 - bits)) as u64,
            Self::Unsigned(32) if matches!(isa, Isa::RiscV64) => value as u32 as i32 as u64,
            Self::Unsigned(bits) => value << (64 - bits) >> (64 - bits),
            Self::Part(bytes) => value << (64 - 8 * bytes) >> (64 - 8 * bytes),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_integers_are_extended_as_each_isa_expects() {
        let minus_one = 0xdead_beef_ffff_ffff;
        assert_eq!(Word::Signed(32).in_register(Isa::X86_64, minus_one), u64::MAX);
        assert_eq!(Word::Unsigned(32).in_register(Isa::X86_64, minus_one), 0xffff_ffff);
        assert_eq!(Word::Unsigned(32).in_register(Isa::RiscV64, minus_one), u64::MAX);
        assert_eq!(Word::Unsigned(8).in_register(Isa::RiscV64, minus_one), 0xff);
        assert_eq!(Word::Signed(16).in_register(Isa::AArch64, 0x8000), 0xffff_ffff_ffff_8000);
        assert_eq!(Word::Whole.in_register(Isa::RiscV64, minus_one), minus_one);
        assert_eq!(Word::Part(4).in_register(Isa::RiscV64, minus_one), 0xffff_ffff);
        assert_eq!(Word::Part(5).in_register(Isa::X86_64, minus_one), 0xef_ffff_ffff);
    }

    #[test]
    fn segments_say_where_their_data_lies_or_nothing_or_what_cannot_be() {
        let isas = [Isa::X86_64, Isa::AArch64, Isa::RiscV64].map(Near::Isa);
        for near in isas.into_iter().chain((0..8).filter_map(IslandId::from_raw).map(Near::Island)) {
            assert_eq!(Near::of_flags(6 | near.flags()), Ok(Some(near)));
            assert_eq!(near.flags() & !0x0ff0_0000, 0, "only bits that are the system's");
        }
        assert_eq!(Near::of_flags(0xf00f_ffff), Ok(None));
        for code in [5, 0x3f, 0x48, 0xff] {
            assert_eq!(Near::of_flags(code << FLAGS_ISA_SHIFT | 6), Err(BadNote::Near(code)));
        }
    }

    #[test]
    fn signatures_count_their_arguments() {
        let signature = Signature { words: 0x1761, floats: 0b1001, result: 0x106 };
        assert_eq!((signature.word_count(), signature.float_count()), (4, 2));
        assert_eq!(signature.word(1), Word::Signed(32));
        assert_eq!(signature.word(2), Word::Unsigned(32));
        assert!(!signature.is_single(0) && signature.is_single(1));
        assert_eq!(signature.result_word(0), Word::Signed(32));
        assert!(signature.has_floats() && !Signature::POINTER.has_floats());
        assert_eq!(Signature { words: u64::MAX, floats: 0, result: 0 }.word_count(), 16);
        assert_eq!((Signature::UNKNOWN.word_count(), Signature::UNKNOWN.float_count()), (6, 8));
    }

    #[test]
    fn headers_and_pins_are_checked() {
        let mut header = [0; Header::SIZE];
        header[..12].copy_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
        header[32] = 7;
        let parsed = Header::parse(&header).unwrap();
        assert_eq!((parsed.primary, parsed.pins, parsed.thread_pointer_bias), (Isa::X86_64, 2, [0, 0, 7, 0]));
        header[0] = 2;
        assert_eq!(Header::parse(&header), Err(BadNote::Version(2)));
        header[0] = 1;
        header[4] = 9;
        assert_eq!(Header::parse(&header), Err(BadNote::Isa(9)));
        header[11] = 1;
        assert_eq!(Header::parse(&header), Err(BadNote::TooManyPins(2 | 1 << 24)));
        let mut pin = [0; Pin::SIZE];
        assert_eq!(Pin::parse(&pin), Err(BadNote::PinPlace(0)));
        pin[8] = 16;
        pin[16] = 3;
        assert_eq!(Pin::parse(&pin).map(|pin| (pin.isa, pin.size)), Ok((Isa::RiscV64, 16)));
        pin[..8].fill(0xff);
        assert_eq!(Pin::parse(&pin), Err(BadNote::PinPlace(u64::MAX)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let bias = [0, 5, u64::MAX, 1];
        let header =
            Header { primary: Isa::RiscV64, one_stack: true, pins: 3, names_len: 17, thread_pointer_bias: bias };
        assert_eq!(Header::parse(&header.bytes()), Ok(header));
        let signature = Signature { words: 0x1234_5671, floats: 0x1b, result: 0xb6 };
        for (signature, strict) in [(signature, false), (signature, true), (Signature::UNKNOWN, true)] {
            let pin = Pin { address: 1 << 40, size: 96, isa: Isa::AArch64, name: (4, 9), signature, strict };
            assert_eq!(Pin::parse(&pin.bytes()), Ok(pin));
        }
        for code in 1..15 {
            assert_eq!(Word::from_code(code).code(), code);
        }
    }
}
