//! Names, numbers and sets.

use std::fmt::Write as _;

use motet_abi::extension::{Extension, ExtensionSet, Needed, needed};
use motet_layout::Isa;
use proptest::prelude::*;

use crate::generate;

fn names(isa: Isa, names: &str) -> ExtensionSet {
    names
        .split_whitespace()
        .map(|name| Extension::from_name(isa, name).unwrap())
        .fold(ExtensionSet::empty(isa), ExtensionSet::with)
}

/// The pool and machine files have them.
#[test]
fn numbers_and_names_stay() {
    let mut expected = String::from("# Extensions by ISA and number. New ones come last; nothing else changes.\n");
    for isa in Isa::ALL {
        for extension in Extension::all(isa) {
            let implied = names(isa, extension.name()).closure().difference(names(isa, extension.name()));
            let implies = if implied.is_empty() { String::new() } else { format!(" implies {implied}") };
            writeln!(expected, "{} {} {}{implies}", isa.name(), extension.number(), extension.name()).unwrap();
        }
    }
    generate::check("tests/extensions/numbers.txt", &expected);
}

#[test]
fn every_extension_is_found_by_its_name_and_number() {
    for isa in Isa::ALL {
        for extension in Extension::all(isa) {
            assert_eq!(Extension::from_name(isa, extension.name()), Some(extension));
            assert_eq!(Extension::from_number(isa, extension.number()), Some(extension));
            assert_eq!(extension.isa(), isa);
        }
        assert_eq!(Extension::from_number(isa, 63), None);
        assert_eq!(Extension::from_name_bytes(isa, b"v\xff"), None);
    }
}

#[test]
fn machine_files_add_and_take_away() {
    let none = ExtensionSet::empty(Isa::RiscV64);
    assert_eq!(none.edited(["v", "zba"]).unwrap().to_string(), "f d v zba");
    assert_eq!(none.edited(["v", "zvbb", "-v"]).unwrap().to_string(), "f d");
    let left = names(Isa::X86_64, "avx2 avx512bw").closure().edited(["-avx512f"]).unwrap();
    assert_eq!(left.to_string(), "pni ssse3 sse4_1 sse4_2 avx f16c fma avx2");
    let text = none.edited(["zba", "-zzz"]).unwrap_err().to_string();
    assert!(text.starts_with("`zzz` is no extension of riscv64 that Motet knows; it knows f, d, v, zba,"), "{text}");
    assert!(text.ends_with("custom-3, zvl128b, zvl256b, zvl512b, zvl1024b"), "{text}");
    assert_eq!(
        ExtensionSet::empty(Isa::Hosted).edited(["v"]).unwrap_err().to_string(),
        "`v` is no extension of hosted that Motet knows; it has none"
    );
}

#[test]
fn implied_extensions_are_in_the_closure() {
    for (isa, one, closure) in [
        (Isa::RiscV64, "v", "f d v"),
        (Isa::X86_64, "avx2", "pni ssse3 sse4_1 sse4_2 avx avx2"),
        (Isa::X86_64, "avx512bw", "pni ssse3 sse4_1 sse4_2 avx f16c fma avx2 avx512f avx512bw"),
        (Isa::AArch64, "sve2", "fphp asimdhp sve sve2"),
    ] {
        assert_eq!(names(isa, one).closure(), names(isa, closure));
    }
}

fn sets() -> impl Strategy<Value = [ExtensionSet; 2]> {
    (0..4usize, any::<[u64; 2]>()).prop_map(|(isa, bits)| bits.map(|bits| ExtensionSet::from_bits(Isa::ALL[isa], bits)))
}

proptest! {
    #[test]
    fn sets_are_sets([a, b] in sets()) {
        prop_assert_eq!(a.union(b).difference(b), a.difference(b));
        prop_assert!(a.intersection(b).is_subset(a) && a.is_subset(a.union(b)));
        prop_assert_eq!(ExtensionSet::from_bits(a.isa(), a.bits()), a);
        prop_assert_eq!(a.iter().fold(ExtensionSet::empty(a.isa()), ExtensionSet::with), a);
        prop_assert_eq!(names(a.isa(), &a.to_string()), a);
        prop_assert_eq!(a.is_subset(b), a.iter().all(|extension| b.contains(extension)));
    }

    /// A core has all that its extensions imply, whatever is taken away.
    #[test]
    fn closures_are_closed([a, b] in sets()) {
        let closed = a.closure();
        prop_assert_eq!(closed.closure(), closed);
        prop_assert!(a.is_subset(closed));
        for extension in ExtensionSet::all(a.isa()).iter() {
            prop_assert_eq!(closed.contains(extension), !a.intersection(ExtensionSet::implying(extension)).is_empty());
        }
        let rest = closed.without(b);
        prop_assert_eq!(rest.closure(), rest);
        prop_assert!(rest.intersection(b).is_empty());
    }

    /// Any bytes give an answer; one that is not *short* does not change with what follows, and is no longer than what it was made of.
    #[test]
    fn any_bytes_give_an_answer(isa in 0..4usize, bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
        let isa = Isa::ALL[isa];
        let whole = needed(isa, &bytes);
        for len in 0..=bytes.len() {
            let some = needed(isa, &bytes[..len]);
            if let Needed::Extensions(requirement) = some {
                prop_assert!(usize::from(requirement.len_bytes()) <= len && requirement.alternatives().next().is_some());
            }
            prop_assert!(some == Needed::Short || some == whole, "{len} bytes of {bytes:x?}: {some:?}, {whole:?}");
        }
    }
}
