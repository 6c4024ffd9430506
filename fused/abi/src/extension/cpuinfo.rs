//! What `/proc/cpuinfo` shows of a core.

use core::fmt;

use motet_layout::Isa;

use super::{Extension, ExtensionSet};

/// The extensions that a core's own description names: flags, space-separated, or on RISC-V an ISA string such as `rv64imafdc_zba`; less
/// those that are withheld from it. Displayed in the same form.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The core's ISA.
    pub isa: Isa,
    /// What the core says.
    pub text: &'a str,
    /// What it may not use.
    pub withheld: ExtensionSet,
}

impl Described<'_> {
    /// Those that are known here, with what they imply.
    pub fn set(&self) -> ExtensionSet {
        let known = self.words().filter_map(|word| Extension::from_name(self.isa, word));
        known.fold(ExtensionSet::empty(self.isa), ExtensionSet::with).closure().difference(self.withheld)
    }

    /// The names, one letter or word after the other.
    fn words(&self) -> impl Iterator<Item = &str> {
        let (letters, rest) = self.parts();
        let letters = (0..letters.len()).filter_map(move |at| letters.get(at..=at));
        letters.chain(rest.split(self.separator())).filter(|word| !word.is_empty() && self.is_shown(word))
    }

    /// The single letters behind `rv64`, and the rest.
    fn parts(&self) -> (&str, &str) {
        if self.isa != Isa::RiscV64 {
            return ("", self.text);
        }
        let text = self.text.trim();
        let text = text.strip_prefix("rv64").unwrap_or(text);
        text.split_once('_').unwrap_or((text, ""))
    }

    fn separator(&self) -> char {
        if self.isa == Isa::RiscV64 { '_' } else { ' ' }
    }

    fn is_shown(&self, word: &str) -> bool {
        // Parts of V, which this crate does not tell from it.
        let is_part_of_v = self.isa == Isa::RiscV64 && (word.starts_with("zve") || word.starts_with("zvl"));
        let named = if is_part_of_v { "v" } else { word };
        !Extension::from_name(self.isa, named).is_some_and(|extension| self.withheld.contains(extension))
    }
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_string = self.isa == Isa::RiscV64;
        if is_string {
            f.write_str("rv64")?;
        }
        for (index, word) in self.words().enumerate() {
            if is_string && word.len() > 1 {
                f.write_str("_")?;
            } else if !is_string && index > 0 {
                f.write_str(" ")?;
            }
            f.write_str(word)?;
        }
        Ok(())
    }
}
