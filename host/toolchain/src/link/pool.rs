//! Constants that may be merged (string literals, floating-point constants): one copy of each for the whole program.
//!
//! The order of the literals in an object file is the compiler's choice for each ISA. Merging by contents gives equal
//! ones equal addresses.

use std::collections::HashMap;

use super::module::{Kind, Module, Section};
use crate::{
    error::{Error, Result},
    isa::ISAS,
};

/// The place of a constant in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct PieceId(pub usize);

/// A constant.
pub struct Piece {
    /// Contents.
    pub bytes: Vec<u8>,
    /// The greatest alignment that any of its uses wants.
    pub align: u64,
}

/// The constants of all modules.
#[derive(Default)]
pub struct Pool {
    /// By id.
    pub pieces: Vec<Piece>,
    ids: HashMap<Vec<u8>, PieceId>,
    /// For each mergeable section (module, ISA, section): where its pieces begin, ascending.
    starts: HashMap<(usize, usize, usize), Vec<(u64, PieceId)>>,
}

impl Pool {
    /// Adds the constants of a module.
    ///
    /// # Errors
    /// A section of strings is malformed.
    pub fn add(&mut self, number: usize, module: &Module) -> Result<()> {
        for (isa, image) in module.images.iter().enumerate() {
            for (index, section) in image.sections.iter().enumerate() {
                let Kind::Mergeable { entry_bytes, strings } = section.kind else { continue };
                let lengths = piece_lengths(&section.data, entry_bytes, strings).ok_or_else(|| {
                    let isa = ISAS[isa].name();
                    Error::data(format!("{} ({isa}): section {} is not whole", module.name, section.name))
                })?;
                let starts = self.add_section(section, &lengths);
                self.starts.insert((number, isa, index), starts);
            }
        }
        Ok(())
    }

    fn add_section(&mut self, section: &Section, lengths: &[usize]) -> Vec<(u64, PieceId)> {
        let mut starts = Vec::with_capacity(lengths.len());
        let mut start = 0;
        for length in lengths {
            let bytes = &section.data[start..start + length];
            let id = *self.ids.entry(bytes.to_vec()).or_insert_with(|| {
                self.pieces.push(Piece { bytes: bytes.to_vec(), align: 1 });
                PieceId(self.pieces.len() - 1)
            });
            let piece = &mut self.pieces[id.0];
            piece.align = piece.align.max(section.align);
            starts.push((start as u64, id));
            start += length;
        }
        starts
    }

    /// The piece at `offset` of a mergeable section, and the offset in the piece.
    pub fn find(&self, module: usize, isa: usize, section: usize, offset: u64) -> Option<(PieceId, u64)> {
        let starts = self.starts.get(&(module, isa, section))?;
        let after = starts.partition_point(|(start, _)| *start <= offset);
        let (start, id) = *starts.get(after.checked_sub(1)?)?;
        Some((id, offset - start))
    }
}

fn piece_lengths(data: &[u8], entry_bytes: usize, strings: bool) -> Option<Vec<usize>> {
    let entry_bytes = if entry_bytes == 0 { 1 } else { entry_bytes };
    if data.len() % entry_bytes != 0 {
        return None;
    }
    let entries = data.chunks(entry_bytes);
    if !strings {
        return Some(entries.map(<[u8]>::len).collect());
    }
    let mut lengths = Vec::new();
    let mut length = 0;
    for entry in entries {
        length += entry_bytes;
        if entry.iter().all(|byte| *byte == 0) {
            lengths.push(length);
            length = 0;
        }
    }
    (length == 0).then_some(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_with_a_zero_character_of_their_width() {
        assert_eq!(piece_lengths(b"ab\0\0c\0", 1, true), Some(vec![3, 1, 2]));
        assert_eq!(piece_lengths(b"a\0\0\0\0b\0\0", 2, true), Some(vec![4, 4]));
        assert_eq!(piece_lengths(b"ab", 1, true), None);
    }

    #[test]
    fn constants_have_the_size_of_an_entry() {
        assert_eq!(piece_lengths(&[0; 16], 8, false), Some(vec![8, 8]));
        assert_eq!(piece_lengths(&[0; 9], 8, false), None);
    }
}
