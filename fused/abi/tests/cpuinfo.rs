//! What `/proc/cpuinfo` shows of cores from which extensions are withheld.

use motet_abi::extension::{Described, Extension, ExtensionSet};
use motet_layout::Isa;

fn described(isa: Isa, text: &str, withheld: &[&str]) -> (String, ExtensionSet) {
    let withheld = withheld.iter().map(|name| Extension::from_name(isa, name).unwrap());
    let withheld = withheld.fold(ExtensionSet::empty(isa), ExtensionSet::with);
    let described = Described { isa, text, withheld };
    (described.to_string(), described.set())
}

#[test]
fn what_is_withheld_is_not_shown() {
    let text = "rv64imafdcvh_zba_zbb_zve64d_zvl128b_sstc";
    let (all, has) = described(Isa::RiscV64, text, &[]);
    assert_eq!(all, text);
    assert!(
        ["v", "d", "f", "zba", "zbb"]
            .iter()
            .all(|name| has.contains(Extension::from_name(Isa::RiscV64, name).unwrap()))
    );
    let (less, has) = described(Isa::RiscV64, text, &["v", "zba"]);
    assert_eq!(less, "rv64imafdch_zbb_sstc");
    assert!(!has.contains(Extension::from_name(Isa::RiscV64, "v").unwrap()));
    let (less, _) = described(Isa::X86_64, "fpu avx avx2 bmi1", &["avx2"]);
    assert_eq!(less, "fpu avx bmi1");
    assert_eq!(described(Isa::AArch64, "", &[]).0, "");
}
