//! What an x86-64 program says in `.note.gnu.property` of the processors that it is made for.
//!
//! The linker notes a level of the psABI there (x86-64 psABI, "Program Property"; `ld -z x86-64-v3`). Of what a level adds, `lzcnt` and `tzcnt` matter to who runs the program: cores
//! without them execute `bsr` and `bsf` instead, which compute something else. Whatever else is missing is an exception.

use motet_layout::Isa;

use crate::extension::{Extension, ExtensionSet, X86_64};

/// Whose programs have such a note.
pub const ISA: Isa = Isa::X86_64;
/// Type of the program header that names the note.
pub const PT_GNU_PROPERTY: u32 = 0x6474_e553;
/// So much of a note is looked at: it has some ten bytes for each property, of which there are few.
pub const LEN_MAX: usize = 256;

const NT_GNU_PROPERTY_TYPE_0: u32 = 5;
const NAME: &[u8] = b"GNU\0";
/// Property: levels without which the program does not work, a bit each.
const X86_ISA_1_NEEDED: u32 = 0xc000_8002;
const LEVEL_3: u32 = 1 << 2;
const LEVEL_4: u32 = 1 << 3;

/// The level (3, 4) that a program needs by its note, if one does that has `lzcnt` and `tzcnt`. What is damaged says nothing.
pub fn needed_level(note: &[u8]) -> Option<u32> {
    let bits = needed_bits(note)?;
    (bits & (LEVEL_3 | LEVEL_4) != 0).then_some(if bits & LEVEL_4 != 0 { 4 } else { 3 })
}

/// What a core needs of these levels that it would not notice to lack.
pub fn unnoticed() -> ExtensionSet {
    let set = ExtensionSet::empty(ISA);
    [X86_64::Abm, X86_64::Bmi1].into_iter().fold(set, |set, extension| set.with(Extension::X86_64(extension)))
}

fn needed_bits(note: &[u8]) -> Option<u32> {
    let (name_len, rest) = word(note)?;
    let (len, rest) = word(rest)?;
    let (kind, rest) = word(rest)?;
    if name_len as usize != NAME.len() || kind != NT_GNU_PROPERTY_TYPE_0 {
        return None;
    }
    let properties = rest.strip_prefix(NAME)?;
    let mut properties = &properties[..properties.len().min(len as usize)];
    loop {
        let (kind, rest) = word(properties)?;
        let (len, rest) = word(rest)?;
        if kind == X86_ISA_1_NEEDED && len == 4 {
            return word(rest).map(|(bits, _)| bits);
        }
        properties = rest.get((len as usize).checked_next_multiple_of(8)?..)?;
    }
}

fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    bytes.split_first_chunk().map(|(word, rest)| (u32::from_le_bytes(*word), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A note with a property that does not matter before that of levels.
    fn note(levels: u32) -> [u8; 48] {
        let words = [4, 32, 5, 0x0055_4e47, 0xc000_0002, 4, 3, 0, X86_ISA_1_NEEDED, 4, levels, 0];
        let mut note = [0; 48];
        for (bytes, word) in note.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&u32::to_le_bytes(word));
        }
        note
    }

    #[test]
    fn the_highest_level_counts_that_is_needed() {
        assert_eq!([0b1, 0b11, 0b111, 0b1111].map(|bits| needed_level(&note(bits))), [None, None, Some(3), Some(4)]);
    }

    #[test]
    fn what_is_damaged_says_nothing() {
        let whole = note(0b111);
        // Its last word is padding.
        for len in 0..whole.len() - 4 {
            assert_eq!(needed_level(&whole[..len]), None, "{len}");
        }
        // The name's length, the note's kind, the name, the kind and the length of the property.
        let words =
            [0, 8, 12, 32, 36].into_iter().flat_map(|at| [0, 1, u32::MAX, u32::MAX - 7].map(|wrong| (at, wrong)));
        // The length of the one before it.
        for (at, wrong) in words.chain([(20, 64), (20, u32::MAX), (20, u32::MAX - 7)]) {
            let mut damaged = whole;
            damaged[at..at + 4].copy_from_slice(&u32::to_le_bytes(wrong));
            assert_eq!(needed_level(&damaged), None, "{at} {wrong:#x}");
        }
    }
}
