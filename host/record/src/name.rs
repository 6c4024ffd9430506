//! Names of regions: short texts in words.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longest name, in bytes.
pub const NAME_MAX: usize = motet_layout::marks::ROI_NAME_MAX;
/// Words of a name: a byte for its length, then its bytes.
pub(crate) const NAME_WORDS: usize = (NAME_MAX + 1) / 8;
const _: () = assert!(NAME_WORDS * 8 == NAME_MAX + 1);

/// A name that can be printed: UTF-8 without control characters, at most [`NAME_MAX`] bytes, never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name(String);

impl Name {
    /// Makes a name of what a program gave; `false`: it had to be changed.
    pub fn of(bytes: &[u8]) -> (Self, bool) {
        let given = String::from_utf8_lossy(bytes);
        let mut name = String::new();
        for character in given.chars() {
            let character = if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
            if name.len() + character.len_utf8() > NAME_MAX {
                break;
            }
            name.push(character);
        }
        if name.is_empty() {
            name.push_str("(unnamed)");
        }
        let kept = name.as_bytes() == bytes;
        (Self(name), kept)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn load(words: &[AtomicU64]) -> Self {
        let mut bytes = Vec::with_capacity(NAME_WORDS * 8);
        words[..NAME_WORDS].iter().for_each(|word| bytes.extend(word.load(Relaxed).to_le_bytes()));
        let len = usize::from(bytes[0]).min(NAME_MAX);
        Self::of(&bytes[1..=len]).0
    }

    pub(crate) fn store(&self, words: &[AtomicU64]) {
        let mut bytes = [0; NAME_WORDS * 8];
        bytes[0] = self.0.len() as u8;
        bytes[1..=self.0.len()].copy_from_slice(self.0.as_bytes());
        for (word, bytes) in words.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().expect("eight bytes")), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(bytes: &[u8]) -> (String, bool) {
        let (name, kept) = Name::of(bytes);
        (name.0, kept)
    }

    #[test]
    fn printable_names_stay_as_they_are() {
        assert_eq!(made("größe 1".as_bytes()), ("größe 1".into(), true));
        let longest = "x".repeat(NAME_MAX);
        assert_eq!(made(longest.as_bytes()), (longest, true));
    }

    #[test]
    fn other_names_are_made_printable_and_short() {
        assert_eq!(made(b""), ("(unnamed)".into(), false));
        assert_eq!(made(b"a\nb"), ("a\u{fffd}b".into(), false));
        assert_eq!(made(b"a\xffb"), ("a\u{fffd}b".into(), false));
        assert_eq!(made(&[b'x'; NAME_MAX + 1]), ("x".repeat(NAME_MAX), false));
        // A character is kept whole or not at all.
        let (name, kept) = made(format!("{}é", "x".repeat(NAME_MAX - 1)).as_bytes());
        assert_eq!((name.len(), kept), (NAME_MAX - 1, false));
        assert!(made(&[0xff; 64]).0.len() <= NAME_MAX);
    }

    #[test]
    fn names_survive_being_stored() {
        let words = motet_coherence::allocate(NAME_WORDS);
        for text in ["a", "größe", &"y".repeat(NAME_MAX)] {
            let name = Name::of(text.as_bytes()).0;
            name.store(&words);
            assert_eq!(Name::load(&words), name);
        }
    }
}
