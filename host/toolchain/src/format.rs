//! The executable format: what Motet adds to an ordinary static ELF.
//!
//! The kernel reads the same structures (`docs/toolchain.md`).

use motet_layout::Isa;

use crate::isa::ISAS;

/// The type of the program headers of the other ISAs' text ("mott").
pub const PT_MOTET_TEXT: u32 = 0x6d6f_7474;
/// `p_flags` of such a header has the ISA's code from this bit on.
pub const ISA_SHIFT: u32 = 20;
/// The name of the note, with its terminator.
pub const NOTE_NAME: &[u8; 6] = b"Motet\0";
/// The type of the note.
pub const NOTE_TYPE: u32 = 1;
/// The version of the note.
const VERSION: u32 = 1;
/// The thread pointer of every ISA is the address of `struct pthread`: the C library is built that way.
const THREAD_POINTER_BIAS: [u64; 4] = [0; 4];

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
}

/// The size of the note in bytes, for `pins` whose names have `name_bytes` together.
pub fn note_bytes(pins: usize, name_bytes: usize) -> usize {
    NOTE_HEADER_BYTES + DESCRIPTION_BYTES + pins * PIN_BYTES + name_bytes.next_multiple_of(8)
}

/// Sizes, type, and the name padded so that the description is aligned to eight bytes.
const NOTE_HEADER_BYTES: usize = 12 + 8 + 4;
const DESCRIPTION_BYTES: usize = 16 + 8 * THREAD_POINTER_BIAS.len();
const PIN_BYTES: usize = 32;

/// The note, to be aligned to eight bytes. `pins` are in the order of their addresses.
pub fn note(primary: Isa, pins: &[PinEntry<'_>]) -> Vec<u8> {
    let mut names = String::new();
    let mut entries = Vec::new();
    for pin in pins {
        entries.extend(pin.address.to_le_bytes());
        entries.extend(pin.size.to_le_bytes());
        for word in [pin.isa as u32, names.len() as u32, pin.name.len() as u32, 0] {
            entries.extend(word.to_le_bytes());
        }
        names.push_str(pin.name);
    }
    let mut description = Vec::new();
    for word in [VERSION, primary as u32, pins.len() as u32, names.len() as u32] {
        description.extend(word.to_le_bytes());
    }
    for bias in THREAD_POINTER_BIAS {
        description.extend(bias.to_le_bytes());
    }
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
    READ_AND_EXECUTE | (isa as u32) << ISA_SHIFT
}

/// How many program headers a file for all ISAs has: three or four segments, the note, the stack, the other ISAs' text.
pub const PROGRAM_HEADERS: usize = 3 + 1 + 1 + (ISAS.len() - 1);
