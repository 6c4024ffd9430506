//! Sets of one ISA's extensions.

use core::fmt;

use motet_layout::{Isa, ones};

use super::Extension;

/// Extensions of one ISA. In the pool, it is [`Self::bits`] beside the ISA, which a core's record has anyway.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtensionSet {
    isa: Isa,
    bits: u64,
}

impl ExtensionSet {
    /// No extension.
    pub const fn empty(isa: Isa) -> Self {
        Self { isa, bits: 0 }
    }

    /// All that an ISA has here.
    pub const fn all(isa: Isa) -> Self {
        let count = Extension::closed(isa).len();
        Self { isa, bits: if count == 0 { 0 } else { u64::MAX >> (64 - count) } }
    }

    /// From the word stored in the pool. Bits of no extension are dropped.
    pub const fn from_bits(isa: Isa, bits: u64) -> Self {
        Self { isa, bits: bits & Self::all(isa).bits }
    }

    /// The word for the pool: bit [`Extension::number`] for each.
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// The ISA.
    pub const fn isa(self) -> Isa {
        self.isa
    }

    /// An extension and all that imply it.
    pub const fn implying(extension: Extension) -> Self {
        let (isa, number) = (extension.isa(), extension.number());
        let closed = Extension::closed(isa);
        let (mut bits, mut at) = (0, 0);
        while at < closed.len() {
            bits |= (closed[at] >> number & 1) << at;
            at += 1;
        }
        Self { isa, bits }
    }

    /// This and one more, of the same ISA.
    pub fn with(self, extension: Extension) -> Self {
        assert_eq!(self.isa, extension.isa(), "`{}` is an extension of another ISA", extension.name());
        Self { bits: self.bits | 1 << extension.number(), ..self }
    }

    /// Whether an extension is in it.
    pub fn contains(self, extension: Extension) -> bool {
        self.isa == extension.isa() && self.bits >> extension.number() & 1 == 1
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Whether another set has all of it.
    pub fn is_subset(self, of: Self) -> bool {
        self.isa == of.isa && self.bits & !of.bits == 0
    }

    /// What is in either; both are of one ISA.
    pub fn union(self, other: Self) -> Self {
        Self { bits: self.bits | self.same_isa(other), ..self }
    }

    /// What is in both.
    pub fn intersection(self, other: Self) -> Self {
        Self { bits: self.bits & self.same_isa(other), ..self }
    }

    /// What is in this one and not in the other.
    pub fn difference(self, other: Self) -> Self {
        Self { bits: self.bits & !self.same_isa(other), ..self }
    }

    fn same_isa(self, other: Self) -> u64 {
        assert_eq!(self.isa, other.isa, "sets of extensions of two ISAs");
        other.bits
    }

    /// With all that its extensions imply.
    pub fn closure(self) -> Self {
        let closed = Extension::closed(self.isa);
        Self { bits: self.numbers().fold(self.bits, |bits, number| bits | closed[number]), ..self }
    }

    /// Without `gone` and without all that implies any of it: no core has AVX2 and not AVX.
    pub fn without(self, gone: Self) -> Self {
        let (closed, gone) = (Extension::closed(self.isa), self.same_isa(gone));
        let stays = self.numbers().filter(|&number| closed[number] & gone == 0);
        Self { bits: stays.fold(0, |bits, number| bits | 1 << number), ..self }
    }

    /// Numbers of its extensions, which are all below the length of the table of its ISA.
    fn numbers(self) -> impl Iterator<Item = usize> {
        ones(self.bits)
    }

    /// Those of its extensions that vendors say what they are.
    pub fn vendors(self) -> Self {
        self.iter().filter(|extension| extension.is_vendors()).fold(Self::empty(self.isa), Self::with)
    }

    /// Its extensions, in order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Extension> {
        Extension::all(self.isa).filter(move |&extension| self.contains(extension))
    }

    /// Changed as a machine file says: `"v"` adds V and what it implies, `"-v"` takes V away and what implies it. Later names win.
    pub fn edited<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownExtension<'a>> {
        names.into_iter().try_fold(self, |set, name| {
            let (bare, added) = match name.strip_prefix('-') {
                Some(bare) => (bare, false),
                None => (name, true),
            };
            let extension =
                Extension::from_name(self.isa, bare).ok_or(UnknownExtension { isa: self.isa, name: bare })?;
            let one = Self::empty(self.isa).with(extension);
            Ok(if added { set.union(one.closure()) } else { set.without(one) })
        })
    }
}

/// Names, separated by spaces.
impl fmt::Display for ExtensionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_names(f, self.iter(), " ")
    }
}

impl fmt::Debug for ExtensionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {{{self}}}", self.isa)
    }
}

fn write_names(f: &mut fmt::Formatter<'_>, of: impl Iterator<Item = Extension>, between: &str) -> fmt::Result {
    for (index, extension) in of.enumerate() {
        f.write_str(if index == 0 { "" } else { between })?;
        f.write_str(extension.name())?;
    }
    Ok(())
}

/// A name that no extension of the ISA has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownExtension<'a> {
    /// The ISA.
    pub isa: Isa,
    /// The name, without the sign.
    pub name: &'a str,
}

impl fmt::Display for UnknownExtension<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no extension of {} that Motet knows", self.name, self.isa.name())?;
        if Extension::all(self.isa).next().is_none() {
            return f.write_str("; it has none");
        }
        f.write_str("; it knows ")?;
        write_names(f, Extension::all(self.isa), ", ")
    }
}

impl core::error::Error for UnknownExtension<'_> {}
