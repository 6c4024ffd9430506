//! To add a kind of file is one file and one row (`kernel/core/src/file/kind.rs`): held by looking at the sources.
//!
//! A kind's code (`FILE_*`) is named by its row and by the file that says what it is, which makes its open files, and by nothing else. So no other code can ask
//! which kind a file is.

use std::collections::{BTreeMap, BTreeSet};

use motet_tests_hosted::sources::{below, code, read};

const LIST: &str = "kernel/core/src/file/kind.rs";

/// Words of some code.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !character.is_alphanumeric() && character != '_').filter(|word| !word.is_empty())
}

/// All codes: the constants that the layout describes so.
fn codes() -> BTreeSet<String> {
    let layout = read("fused/layout/src/files.rs");
    let lines: Vec<&str> = layout.lines().collect();
    let described = lines.windows(2).filter(|pair| pair[0].starts_with("/// [`FileRecord::kind`]:"));
    described.filter_map(|pair| pair[1].strip_prefix("pub const ")?.split(':').next()).map(Into::into).collect()
}

/// Whether a source says what a kind with that code is.
fn is_home(code: &str, kind: &str) -> bool {
    let mut said = code.split("const CODES: &'static [u32] = &[").skip(1).filter_map(|rest| rest.split(']').next());
    code.contains("impl Kind for ") && said.any(|list| words(list).any(|word| word == kind))
}

/// The rows of the list: codes of one kind, and its type.
fn rows(list: &str) -> Vec<(Vec<&str>, &str)> {
    let rows = list.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" => "));
    rows.filter(|(codes, _)| codes.starts_with("FILE_")).map(|(codes, kind)| (words(codes).collect(), kind)).collect()
}

#[test]
fn a_kind_of_file_is_one_file_and_one_row() {
    let codes = codes();
    assert!(codes.len() > 10, "only {codes:?}: kinds are no longer found");
    let mut named = BTreeMap::<&String, Vec<String>>::new();
    let mut homes = BTreeMap::<&String, Vec<String>>::new();
    for path in below("kernel").into_iter().filter(|path| path != LIST) {
        let source = code(&read(&path));
        let found: BTreeSet<&str> = words(&source).collect();
        for kind in codes.iter().filter(|kind| found.contains(kind.as_str())) {
            named.entry(kind).or_default().push(path.clone());
            if is_home(&source, kind) {
                homes.entry(kind).or_default().push(path.clone());
            }
        }
    }
    let list = code(&read(LIST));
    let listed: Vec<&str> = rows(&list).into_iter().flat_map(|(codes, _)| codes).collect();
    for kind in &codes {
        let rows = listed.iter().filter(|other| *other == kind).count();
        assert_eq!(rows, 1, "{kind} has {rows} rows in {LIST}");
        let home = homes.get(kind).map_or(&[][..], Vec::as_slice);
        assert_eq!(home.len(), 1, "{kind}: one file says in its `CODES` that it is a kind, and not {home:?}");
        assert_eq!(named[kind], home, "{kind}: who asks for it asks an open file instead (`OpenFile`, `Kind`)");
    }
}

#[test]
fn a_row_has_the_codes_that_its_kind_says() {
    let list = code(&read(LIST));
    let rows = rows(&list);
    assert!(rows.len() > 10, "only {} rows: they are no longer found", rows.len());
    let sources: Vec<String> = below("kernel/core/src").iter().map(|path| code(&read(path))).collect();
    for (codes, kind) in rows {
        let begins = format!("impl Kind for {kind} {{");
        let said = sources.iter().find_map(|source| source.split_once(&begins)).map(|(_, rest)| rest);
        let said = said.and_then(|rest| rest.split_once("&[")?.1.split(']').next());
        let said: Vec<&str> = words(said.unwrap_or_else(|| panic!("nothing says what {kind} is"))).collect();
        assert_eq!(codes, said, "{kind}");
    }
}

#[test]
fn kinds_are_found_however_they_are_written() {
    assert!(is_home("impl Kind for A {\n    const CODES: &'static [u32] = &[FILE_A, FILE_B];\n}", "FILE_B"));
    assert!(!is_home("impl Kind for A {\n    const CODES: &'static [u32] = &[FILE_A];\n}", "FILE_B"));
    assert!(!is_home("match file.kind.get() { FILE_B => {} }", "FILE_B"));
    let list = "    match x {\n        FILE_A | FILE_B => Pipe,\n        FILE_C => Device,\n        _ => none,\n    }";
    assert_eq!(rows(list), [(vec!["FILE_A", "FILE_B"], "Pipe"), (vec!["FILE_C"], "Device")]);
}
