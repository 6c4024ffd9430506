//! Page tables of programs are edited by `motet_protocol::residency` alone, held by looking at the kernel's sources.

use motet_tests_hosted::sources::{below, code, read};

/// What edits page tables, or is needed for it.
const EDITORS: [&str; 7] =
    ["Table", "Withdrawal", "PhysMap", "Format", "shootdown::edit", "shootdown::narrow", "shootdown::end"];

/// Sources that have some of these, and why.
const EXCEPTED: [(&str, &[&str], &str); 6] = [
    ("kernel/core/src/vm/tables.rs", &["Table"], "tables of virtual machines, of the second stage"),
    ("kernel/core/src/vm/memory.rs", &["shootdown::end"], "the same"),
    ("kernel/core/src/vm/accelerators.rs", &["Table", "shootdown::narrow"], "the same"),
    ("kernel/core/src/cpu/mod.rs", &["PhysMap", "Format"], "what the island's own are"),
    ("kernel/core/src/cpu/mm.rs", &["PhysMap", "Format"], "keeps them"),
    ("kernel/core/src/mm/mod.rs", &["PhysMap", "Format"], "says so to residency"),
];

/// What a source takes from `motet_paging`, or calls of the shoot-down, of [`EDITORS`].
fn found(source: &str) -> Vec<&'static str> {
    let code = code(source);
    let imports = code.match_indices("motet_paging::").map(|(at, name)| {
        let rest = &code[at + name.len()..];
        let end = if rest.starts_with('{') { rest.find('}') } else { rest.find(|next: char| !next.is_alphanumeric()) };
        &rest[..end.unwrap_or(rest.len())]
    });
    let imported: Vec<&str> = imports
        .flat_map(|list| list.split(|next: char| !next.is_alphanumeric()).filter(|name| !name.is_empty()))
        .collect();
    let shot = code.contains("shootdown::{");
    let is_found = |editor: &&&str| match editor.strip_prefix("shootdown::") {
        Some(function) => shot && code.contains(&format!("{function}(")) || code.contains(**editor),
        None => imported.contains(*editor),
    };
    EDITORS.iter().filter(is_found).copied().collect()
}

#[test]
fn kernels_edit_no_tables_of_programs_themselves() {
    let sources = [below("kernel/core/src"), below("kernel/image/src")].concat();
    assert!(sources.len() > 100, "only {} sources: they are no longer found", sources.len());
    for path in &sources {
        let allowed = EXCEPTED.iter().find(|(home, ..)| home == path).map_or(&[][..], |(_, allowed, _)| *allowed);
        for editor in found(&read(path)) {
            assert!(allowed.contains(&editor), "{path} has `{editor}`: see `motet_protocol::residency`");
        }
    }
    for (path, allowed, why) in EXCEPTED {
        assert_eq!(found(&read(path)), allowed, "{path} is excepted ({why})");
    }
    // A table of residency's is not to be edited by others either.
    let takes = |path: &&String| code(&read(path)).contains("residency::table(");
    assert_eq!(sources.iter().find(takes), None, "a table is taken from residency");
    let users = sources.iter().filter(|path| code(&read(path)).contains("residency::")).count();
    assert!(users >= 6, "only {users} sources use residency: uses are no longer found");
}

#[test]
fn excepted_tables_are_of_the_second_stage() {
    for (path, allowed, _) in EXCEPTED.iter().filter(|(_, allowed, _)| allowed.contains(&"Table")) {
        let code = code(&read(path));
        let mut tables = code.split("Table<").skip(1).peekable();
        assert!(tables.peek().is_some(), "{path} has {allowed:?}");
        for arguments in tables.map(|rest| rest.split('>').next().unwrap_or("")) {
            assert!(arguments.ends_with(", Stage2"), "{path} has a `Table<{arguments}>`");
        }
    }
}

#[test]
fn editors_are_found_however_they_are_written() {
    assert_eq!(found("use motet_paging::{Attr, Leaf, Table};"), ["Table"]);
    assert_eq!(found("let table = motet_paging::Table { pool };"), ["Table"]);
    assert_eq!(found("use motet_paging::{\n    Attr,\n    Withdrawal,\n};"), ["Withdrawal"]);
    assert_eq!(found("shootdown::edit(cpu, space, home, flush, edits);"), ["shootdown::edit"]);
    assert_eq!(found("use motet_protocol::shootdown::{edit, Stale};\nedit(cpu, space);"), ["shootdown::edit"]);
    assert_eq!(found("// motet_paging::Table\nuse motet_paging::{Attr, Leaf};\nfile::table(cpu);"), [""; 0]);
}
