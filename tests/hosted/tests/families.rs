//! To add a family of sockets is one file and one row (`kernel/core/src/file/socket/families.rs`): held by looking at the sources.
//!
//! A family's type is named by its row and by what is below its own module, so no other code can ask which family a socket is of.

use std::collections::BTreeMap;

use motet_tests_hosted::sources::{below, code, read};

const SOCKETS: &str = "kernel/core/src/file/socket";
const LIST: &str = "kernel/core/src/file/socket/families.rs";

/// Words of some code.
fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !character.is_alphanumeric() && character != '_').filter(|word| !word.is_empty())
}

/// A type without its parameters: several rows may differ in these only.
fn bare(family: &str) -> &str {
    family.split('<').next().unwrap_or(family)
}

/// The rows of the list: a family's name and its type.
fn rows(list: &str) -> Vec<(&str, &str)> {
    let rows = list.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" => "));
    rows.filter(|(name, _)| name.starts_with("AF_")).map(|(name, family)| (name, bare(family))).collect()
}

/// The types that a source says are families.
fn homes(code: &str) -> Vec<&str> {
    let found = code.split(" Family for ").skip(1).filter_map(|rest| rest.split_once(" {"));
    found.map(|(kind, _)| bare(kind)).collect()
}

/// The sources of a family whose type is in a file, or below the folder that this is the root of.
fn is_below(path: &str, home: &str) -> bool {
    path == home || home.strip_suffix("mod.rs").is_some_and(|folder| path.starts_with(folder))
}

#[test]
fn a_family_of_sockets_is_one_file_and_one_row() {
    let sources: BTreeMap<String, String> =
        below(SOCKETS).into_iter().map(|path| (path.clone(), code(&read(&path)))).collect();
    let rows = rows(&sources[LIST]);
    assert!(!rows.is_empty(), "families are no longer found");
    let mut found: Vec<&str> = sources.values().flat_map(|code| homes(code)).collect();
    let mut listed: Vec<&str> = rows.iter().map(|(_, family)| *family).collect();
    found.sort_unstable();
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(found, listed, "types that are families, and rows in {LIST}");
    for (name, family) in rows {
        let home = sources.iter().find(|(_, code)| homes(code).contains(&family)).map(|(path, _)| path.as_str());
        let home = home.unwrap_or_else(|| panic!("nothing says what {family} is"));
        let names = |code: &String| words(code).any(|word| word == family || word == name);
        let others: Vec<&String> = sources
            .iter()
            .filter(|(path, code)| *path != LIST && !is_below(path, home) && names(code))
            .map(|(path, _)| path)
            .collect();
        assert!(others.is_empty(), "{family} in {others:?}: who asks for it asks a socket instead (`Family`)");
    }
}

#[test]
fn the_family_of_a_socket_is_asked_for_by_the_list() {
    // Who makes a socket says it, and `SO_DOMAIN` tells it.
    let may = [LIST, "kernel/core/src/file/socket/options.rs", "kernel/core/src/file/socket/listening.rs"];
    let asks = |path: &&String| code(&read(path)).contains(".family.get()");
    let sources = below("kernel/core/src");
    let others: Vec<&String> = sources.iter().filter(asks).filter(|path| !may.contains(&path.as_str())).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn families_are_found_however_they_are_written() {
    assert_eq!(rows("    AF_A => A,\n    AF_B => B,\n    _ => none,\n"), [("AF_A", "A"), ("AF_B", "B")]);
    assert_eq!(rows("    AF_A => A<1>,\n    AF_B => A<2>,\n"), [("AF_A", "A"), ("AF_B", "A")]);
    assert_eq!(homes("impl Family for A {\n}\nimpl Kind for B {\n}"), ["A"]);
    assert_eq!(homes("impl<const N: u32> Family for C<N> {\n}"), ["C"]);
    assert!(is_below("a/unix/name.rs", "a/unix/mod.rs") && !is_below("a/unix2.rs", "a/unix/mod.rs"));
}
