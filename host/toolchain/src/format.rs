//! The executable format: what Motet adds to an ordinary static ELF.
//!
//! The structures are `motet_abi::fat`'s, which the kernel reads (`docs/toolchain.md`).

use motet_abi::fat::{FLAGS_ISA_SHIFT, Header, ISAS as ISA_CODES, NOTE_NAME, NOTE_TYPE, Pin, Signature};
use motet_layout::Isa;

use crate::isa::ISAS;

/// The thread pointer of every ISA is the address of `struct pthread`: the C library is built that way.
const THREAD_POINTER_BIAS: [u64; ISA_CODES] = [0; ISA_CODES];

/// A pinned function in the note.
pub struct PinEntry<'a> {
    /// Where it begins.
    pub address: u64,
    /// In bytes.
    pub size: u64,
    /// Where it runs.
    pub isa: Isa,
    /// Its symbol.
    pub name: &'a str,
    /// What calls of it carry.
    pub signature: Signature,
    /// Never on another ISA.
    pub strict: bool,
}

/// The size of the note in bytes, for `pins` whose names have `name_bytes` together.
pub fn note_bytes(pins: usize, name_bytes: usize) -> usize {
    NOTE_HEADER_BYTES + Header::SIZE + pins * Pin::SIZE + name_bytes.next_multiple_of(8)
}

/// Sizes, type, and the name padded so that the description is aligned to eight bytes.
const NOTE_HEADER_BYTES: usize = 12 + 8 + 4;

/// The header, pins and their names that the contents of a note's section have; none if they are malformed.
pub fn read_note(note: &[u8]) -> Option<(Header, Vec<(String, Pin)>)> {
    let description = note.get(NOTE_HEADER_BYTES..)?;
    let header = Header::parse(description.get(..Header::SIZE)?.try_into().ok()?).ok()?;
    let (entries, names) = description[Header::SIZE..].split_at_checked(header.pins as usize * Pin::SIZE)?;
    let mut pins = Vec::new();
    for entry in entries.chunks_exact(Pin::SIZE) {
        let pin = Pin::parse(entry.try_into().ok()?).ok()?;
        let start = pin.name.0 as usize;
        let name = names.get(start..start.checked_add(pin.name.1 as usize)?)?;
        pins.push((String::from_utf8_lossy(name).into_owned(), pin));
    }
    Some((header, pins))
}

/// The note, to be aligned to eight bytes. `pins` are in the order of their addresses.
pub fn note(primary: Isa, one_stack: bool, pins: &[PinEntry<'_>]) -> Vec<u8> {
    let mut names = String::new();
    let mut entries = Vec::new();
    for pin in pins {
        let PinEntry { address, size, isa, signature, strict, name } = *pin;
        let name = (names.len() as u32, name.len() as u32);
        entries.extend(Pin { address, size, isa, name, signature, strict }.bytes());
        names.push_str(pin.name);
    }
    let (count, names_len) = (pins.len() as u32, names.len() as u32);
    let header = Header { primary, one_stack, pins: count, names_len, thread_pointer_bias: THREAD_POINTER_BIAS };
    let mut description = header.bytes().to_vec();
    description.extend(entries);
    description.extend(names.as_bytes());
    let mut note = Vec::new();
    for word in [NOTE_NAME.len() as u32, description.len() as u32, NOTE_TYPE] {
        note.extend(word.to_le_bytes());
    }
    note.extend(NOTE_NAME);
    note.resize(NOTE_HEADER_BYTES, 0);
    note.extend(description);
    note.resize(note.len().next_multiple_of(8), 0);
    note
}

/// `p_flags` of the text of `isa`.
pub fn text_flags(isa: Isa) -> u32 {
    const READ_AND_EXECUTE: u32 = 5;
    READ_AND_EXECUTE | (isa as u32) << FLAGS_ISA_SHIFT
}

/// The section with another ISA's text, for tools.
pub fn text_section(isa: Isa) -> String {
    format!(".motet.text.{}", isa.name())
}

/// The section with the debugger's section `name` of an ISA that is not the primary one.
pub fn debug_section(isa: Isa, name: &str) -> String {
    format!(".motet.{}{name}", isa.name())
}

/// How many program headers a file for all ISAs has, besides those of data near islands: three segments, the note, the
/// stack, the other ISAs' text.
pub const PROGRAM_HEADERS: usize = 3 + 1 + 1 + (ISAS.len() - 1);
