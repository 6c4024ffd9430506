//! The tables of `src/extension`, and what their rows come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use motet_abi::extension::ExtensionSet;
use motet_layout::Isa;

/// Mask and value.
pub type Encoding = (u32, u32);
/// Encodings by the extensions, as bits, that they need together.
pub type Encodings = BTreeMap<u64, BTreeSet<Encoding>>;

/// Fewer pairs for the same words: two that differ in one bit of the value become one that does not look at it.
fn merged(mut encodings: BTreeSet<Encoding>) -> BTreeSet<Encoding> {
    loop {
        let mut out = BTreeSet::new();
        let mut used = BTreeSet::new();
        for &(mask, value) in &encodings {
            for bit in (0..32).map(|bit| 1u32 << bit).filter(|bit| mask & bit != 0) {
                if encodings.contains(&(mask, value ^ bit)) {
                    used.insert((mask, value));
                    out.insert((mask & !bit, value & !bit));
                    break;
                }
            }
        }
        if used.is_empty() {
            return without_covered(&encodings);
        }
        out.extend(encodings.difference(&used));
        encodings = out;
    }
}

/// The words of one pair that another has not.
pub fn without(wide: Encoding, narrow: Encoding) -> Vec<Encoding> {
    if (wide.1 ^ narrow.1) & wide.0 & narrow.0 != 0 {
        return vec![wide];
    }
    let mut rest = wide;
    let mut out = Vec::new();
    for bit in (0..32).map(|bit| 1u32 << bit).filter(|bit| narrow.0 & !wide.0 & bit != 0) {
        out.push((rest.0 | bit, rest.1 | !narrow.1 & bit));
        rest = (rest.0 | bit, rest.1 | narrow.1 & bit);
    }
    out
}

/// Without pairs all of whose words another pair has.
fn without_covered(encodings: &BTreeSet<Encoding>) -> BTreeSet<Encoding> {
    let covers = |wide: &Encoding, narrow: &Encoding| {
        wide != narrow && narrow.0 & wide.0 == wide.0 && narrow.1 & wide.0 == wide.1
    };
    encodings.iter().filter(|narrow| !encodings.iter().any(|wide| covers(wide, narrow))).copied().collect()
}

/// The expression of type `&[Group]`.
pub fn groups(isa: Isa, encodings: &Encodings) -> String {
    let mut out = String::from("&[\n");
    for (&needs, encodings) in encodings {
        let needs = ExtensionSet::from_bits(isa, needs);
        let bits: Vec<String> = needs.iter().map(|extension| format!("{}.bit()", variant(extension))).collect();
        writeln!(out, "    Group {{ needs: {}, encodings: &[", bits.join(" | ")).unwrap();
        let pairs = merged(encodings.clone()).into_iter().map(|(mask, value)| format!("(0x{mask:08x}, 0x{value:08x})"));
        out += &packed(pairs);
        out += "    ] },\n";
    }
    out + "]"
}

/// As in `RiscV64::Zbb`.
pub fn variant(extension: motet_abi::extension::Extension) -> String {
    format!("{extension:?}").replace('(', "::").replace(')', "")
}

/// `items` separated by commas, in lines of at most 118 columns.
pub fn packed(items: impl Iterator<Item = String>) -> String {
    let (mut out, mut line) = (String::new(), String::from("       "));
    for item in items {
        if line.len() + item.len() + 2 > 118 {
            writeln!(out, "{line}").unwrap();
            line = String::from("       ");
        }
        write!(line, " {item},").unwrap();
    }
    out + &line + "\n"
}

/// Compares a file with what it should be, or writes it.
pub fn check(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("MOTET_BLESS").is_some() {
        return std::fs::write(path, expected).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).is_ok_and(|found| found == expected),
        "{} is out of date: MOTET_BLESS=1 cargo test -p motet-abi --test extensions",
        path.display()
    );
}
