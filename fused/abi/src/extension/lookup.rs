//! From an instruction's bytes to the extensions that run it.

use core::fmt;

use motet_layout::Isa;

use super::{ExtensionSet, aarch64, riscv64, x86_64};

/// What the bytes of an instruction say about extensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needed {
    /// Cores that fulfil the requirement run it.
    Extensions(Requirement),
    /// No extension that is known here has it: every core runs it, or none, or programs may not.
    Unknown,
    /// It goes on after these bytes.
    Short,
}

/// Most alternatives of one encoding.
pub const ALTERNATIVES_MAX: usize = 4;

/// Sets of extensions, any one of which is enough, all of it. Vectors of 16 bytes in AVX-512BW need AVX-512VL as well; RISC-V's `andn` is in Zbb and in Zbkb.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    isa: Isa,
    len: u8,
    count: u8,
    /// The unused are 0.
    alternatives: [u64; ALTERNATIVES_MAX],
}

impl Requirement {
    pub(super) const fn new(isa: Isa, len: u8) -> Self {
        Self { isa, len, count: 0, alternatives: [0; ALTERNATIVES_MAX] }
    }

    /// One more set of extensions is enough.
    pub(super) fn or(&mut self, bits: u64) {
        let count = usize::from(self.count);
        if self.alternatives[..count].contains(&bits) {
            return;
        }
        // One more would be dropped; tests see that there is always a free place.
        if let Some(free) = self.alternatives.get_mut(count) {
            *free = bits;
            self.count += 1;
        }
    }

    pub(super) const fn with_len(self, len: u8) -> Self {
        Self { len, ..self }
    }

    pub(super) fn needed(self) -> Needed {
        if self.count == 0 { Needed::Unknown } else { Needed::Extensions(self) }
    }

    /// The instruction's length in bytes.
    pub const fn len_bytes(&self) -> u8 {
        self.len
    }

    /// The sets, each of which is enough.
    pub fn alternatives(&self) -> impl Iterator<Item = ExtensionSet> {
        let isa = self.isa;
        self.alternatives[..usize::from(self.count)].iter().map(move |&bits| ExtensionSet::from_bits(isa, bits))
    }

    /// Whether a core with these extensions, with all that they imply, runs it.
    pub fn runs_with(&self, extensions: ExtensionSet) -> bool {
        self.alternatives().any(|enough| enough.is_subset(extensions))
    }
}

/// As in `zbb or zbkb`, `avx512bw avx512vl`.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, enough) in self.alternatives().enumerate() {
            let or = if index == 0 { "" } else { " or " };
            write!(f, "{or}{enough}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({} bytes)", self.len)
    }
}

/// Which extensions of `isa` run the instruction that `bytes` begin with. They may end within it: [`Needed::Short`]; whoever has them
/// all gives the longest that an instruction may be, [`LONGEST_BYTES`], or what there is.
pub fn needed(isa: Isa, bytes: &[u8]) -> Needed {
    match isa {
        Isa::X86_64 => x86_64::needed(bytes),
        Isa::AArch64 => aarch64::needed(bytes),
        Isa::RiscV64 => riscv64::needed(bytes),
        Isa::Hosted => Needed::Unknown,
    }
}

/// Longest instruction of any ISA (Intel's manual, volume 2, 2.3.11).
pub const LONGEST_BYTES: usize = 15;

/// Encodings that need the same extensions: those with `word & mask == value` for one of the pairs.
pub(super) struct Group {
    /// The extensions, as bits.
    pub needs: u64,
    /// Masks and values.
    pub encodings: &'static [(u32, u32)],
}

/// What the groups say of a word.
pub(super) fn look_up(groups: &[Group], isa: Isa, word: u32, len: u8) -> Requirement {
    let mut requirement = Requirement::new(isa, len);
    for group in groups {
        if group.encodings.iter().any(|&(mask, value)| word & mask == value) {
            requirement.or(group.needs);
        }
    }
    requirement
}
