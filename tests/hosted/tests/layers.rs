//! The rooms of `kernel/core/src` and of `fused/protocol/src` (their modules at the top) stand in layers: a room knows those below it, so no circle
//! can be. ARCHITECTURE.md has the drawings; this test reads them, and the `use` lines of the sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

const KERNEL: &str = "kernel/core/src";

/// A crate whose rooms stand in layers.
struct House {
    sources: &'static str,
    /// The chapter of ARCHITECTURE.md with the drawing.
    chapter: &'static str,
    /// Arrows that there are at least: otherwise they are no longer found.
    arrows_min: usize,
    /// Arrows that do not run down, from a room to another one. Whoever takes one away takes it off this list: it only gets shorter.
    known: &'static [(&'static str, &'static str)],
}

const HOUSES: [House; 2] = [
    House { sources: KERNEL, chapter: "The kernel's layers", arrows_min: 100, known: &[] },
    House { sources: "fused/protocol/src", chapter: "The protocols' layers", arrows_min: 60, known: &[] },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The drawing's layers, the top one first: the lines of the block below the chapter's title, names until two spaces.
fn drawing(house: &House) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let title = format!("\n## {}\n", house.chapter);
    let (_, chapter) = text.split_once(&title).expect("the chapter of the layers");
    let block = chapter.split("```").nth(1).expect("the drawing");
    let lines = block.lines().skip(1).filter(|line| !line.trim().is_empty());
    lines.map(|line| line.split("  ").next().unwrap_or("").split(' ').map(Into::into).collect()).collect()
}

/// Rust sources of a house, in a folder of it: paths relative to its root.
fn sources(house: &House, under: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root().join(house.sources).join(under)).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = under.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            sources(house, &path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// A source's module path: `file/mod.rs` is `file`, `file/proc/text.rs` is `file`, `proc`, `text`; `lib.rs` has none.
fn module(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = path.with_extension("").iter().map(|name| name.to_string_lossy().into()).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib")) {
        names.pop();
    }
    names
}

/// Without comments and tests.
fn code(source: &str) -> String {
    let end = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    source[..end].lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// The first names of what follows a path's beginning: one, or those of a list in braces.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
    };
    let Some(list) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut depth, mut begins, mut names) = (0, true, Vec::new());
    for (at, character) in list.char_indices() {
        if begins && !character.is_whitespace() {
            names.push(name(&list[at..]));
            begins = false;
        }
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// What a source of a module names at the root of the crate: behind `crate::`, or behind as many `super::` as lead there.
fn named(source: &str, depth: usize) -> BTreeSet<String> {
    let code = code(source);
    let is_whole = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric() || "_$".contains(before));
    let of_crate = code.match_indices("crate::").map(|(at, word)| (at, at + word.len()));
    let supers = code.match_indices("super::").filter(|(at, _)| !code[..*at].ends_with("super::"));
    let of_super = supers.filter_map(|(at, word)| {
        let mut rest = &code[at..];
        let mut count = 0;
        while let Some(inner) = rest.strip_prefix(word) {
            (rest, count) = (inner, count + 1);
        }
        (count == depth).then_some((at, code.len() - rest.len()))
    });
    let all = of_crate.chain(of_super).filter(|(at, _)| is_whole(*at));
    all.flat_map(|(_, behind)| first_names(&code[behind..])).collect()
}

/// All arrows: from a room to the rooms that it names, with a source that does so.
fn arrows(house: &House) -> (BTreeSet<String>, BTreeMap<(String, String), PathBuf>) {
    let mut all = Vec::new();
    sources(house, Path::new(""), &mut all);
    let rooms: BTreeSet<String> = all.iter().filter_map(|path| module(path).into_iter().next()).collect();
    let mut arrows = BTreeMap::new();
    for path in all {
        let module = module(&path);
        let Some(room) = module.first() else { continue };
        let source = fs::read_to_string(root().join(house.sources).join(&path)).expect("a source");
        for other in named(&source, module.len()).into_iter().filter(|name| rooms.contains(name) && name != room) {
            arrows.entry((room.clone(), other)).or_insert_with(|| path.clone());
        }
    }
    (rooms, arrows)
}

#[test]
fn rooms_know_only_those_below_them() {
    HOUSES.iter().for_each(check);
}

fn check(house: &House) {
    let layers = drawing(house);
    let (rooms, arrows) = arrows(house);
    let drawn: Vec<&String> = layers.iter().flatten().collect();
    let twice: Vec<&&String> =
        drawn.iter().filter(|room| drawn.iter().filter(|other| other == room).count() > 1).collect();
    assert!(twice.is_empty(), "{}: drawn twice in ARCHITECTURE.md: {twice:?}", house.sources);
    let missing: Vec<&String> = rooms.iter().filter(|room| !drawn.contains(room)).collect();
    let gone: Vec<&&String> = drawn.iter().filter(|room| !rooms.contains(**room)).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "{}: ARCHITECTURE.md draws no {missing:?}; and {gone:?}, which are gone",
        house.sources
    );
    let height = |room: &str| layers.iter().rev().position(|layer| layer.iter().any(|other| other == room));
    let runs_down = |from: &str, to: &str| height(from) > height(to);
    let is_known = |from: &str, to: &str| house.known.contains(&(from, to));
    let against: Vec<String> = arrows
        .iter()
        .filter(|((from, to), _)| !runs_down(from, to) && !is_known(from, to))
        .map(|((from, to), path)| format!("{from} -> {to} ({})", path.display()))
        .collect();
    assert!(against.is_empty(), "arrows that do not run down (ARCHITECTURE.md, {}): {against:#?}", house.chapter);
    let is_needed =
        |from: &str, to: &str| arrows.contains_key(&(from.to_string(), to.to_string())) && !runs_down(from, to);
    let needless: Vec<_> = house.known.iter().filter(|known| !is_needed(known.0, known.1)).collect();
    assert!(needless.is_empty(), "known arrows that are gone, or run down now: take them off the list: {needless:?}");
    assert!(arrows.len() >= house.arrows_min, "only {} arrows: `use` lines are no longer found", arrows.len());
}

/// Words that others write for a core are looked at in one place ([`Cpu::is_due`](../../../kernel/core/src/cpu/pending.rs)), which has the list of all causes.
#[test]
fn what_is_due_is_looked_at_in_one_place() {
    let (mut paths, kernel) = (Vec::new(), &HOUSES[0]);
    sources(kernel, Path::new(""), &mut paths);
    let looks = |path: &&PathBuf| {
        let text = fs::read_to_string(root().join(kernel.sources).join(path)).expect("a source");
        let text: String = text.split_whitespace().collect();
        ["own.inbox.load", "own.pending.load"].iter().any(|word| text.contains(word))
    };
    let places: Vec<&PathBuf> = paths.iter().filter(looks).collect();
    assert_eq!(places, [Path::new("cpu/pending.rs")]);
}

#[test]
fn arrows_are_found_however_they_are_written() {
    let found = |source, depth| named(source, depth).into_iter().collect::<Vec<_>>();
    assert_eq!(found("use crate::mm;", 1), ["mm"]);
    assert_eq!(
        found("use crate::{\n    cpu::{Cpu, one::Two},\n    file::{self, tty},\n    mm,\n};", 1),
        ["cpu", "file", "mm"]
    );
    assert_eq!(found("fn f() { crate::syscall::is_one(crate::mm::two()) }", 2), ["mm", "syscall"]);
    assert_eq!(found("use super::super::{mm, file};", 2), ["file", "mm"]);
    assert_eq!(found("use super::{mm, file}; use super::super::super::tty;", 2), [""; 0]);
    assert_eq!(
        found("// use crate::mm;\nmy_crate::mm; $crate::mm;\n#[cfg(test)]\nmod tests { use crate::mm; }", 1),
        [""; 0]
    );
}

/// Structs of a source that are named so: their names and bodies.
fn structs(source: &str, is_meant: impl Fn(&str) -> bool) -> Vec<(&str, &str)> {
    let found = source.split("pub struct ").skip(1).filter_map(|rest| {
        let name = &rest[..rest.find(|c: char| !c.is_alphanumeric())?];
        let end = if rest[name.len()..].starts_with('(') { ";" } else { "\n}" };
        let body = rest[name.len()..].split(end).next()?;
        is_meant(name).then_some((name, body))
    });
    found.collect()
}

/// What a core keeps in mind for a room is known to others by functions only; and `Cpu` itself keeps nothing in mind but that.
#[test]
fn what_a_core_keeps_in_mind_has_private_fields() {
    let mut rooms = 0;
    for entry in fs::read_dir(root().join(KERNEL).join("cpu")).expect("the room of one core") {
        let path = entry.expect("an entry").path();
        let source = fs::read_to_string(&path).expect("a source");
        for (name, body) in
            structs(&source, |name| name.ends_with("Core") || matches!(name, "Tracer" | "Clock" | "Islands"))
        {
            rooms += 1;
            let is_public = |line: &str| line.trim_start().trim_start_matches('(').starts_with("pub");
            assert!(!body.lines().any(is_public), "{}: {name} has public fields", path.display());
        }
        for (_, body) in structs(&source, |name| name == "Cpu") {
            let cells = body.lines().filter(|line| {
                line.trim_start().starts_with("pub") && (line.contains("Cell<") || line.contains("Atomic"))
            });
            assert_eq!(cells.count(), 0, "Cpu has a public field that changes: it belongs to a room");
        }
    }
    assert!(rooms > 8, "only {rooms} structs of per-core state: they are no longer found");
}

/// Whether a crate's sources have the module or the function that the parts of a path name.
fn is_there(sources: &Path, parts: &[&str]) -> bool {
    let mut at = sources.to_path_buf();
    for (index, part) in parts.iter().enumerate() {
        let folder = at.join(part);
        let file = folder.with_extension("rs");
        if folder.is_dir() {
            at = folder;
        } else if file.is_file() {
            at = file;
        } else {
            let file = [at.clone(), at.join("mod.rs"), at.join("lib.rs")].into_iter().find(|file| file.is_file());
            let text = fs::read_to_string(file.expect("a module's file")).expect("a source");
            return index + 1 == parts.len() && text.contains(&format!("fn {part}<"));
        }
    }
    true
}

/// What is laid out together in the kernels' code: the linker passes over a name that no function has.
#[test]
fn what_lies_together_is_there() {
    let crates = [("motet_kernel", KERNEL), ("motet_protocol", "fused/protocol/src"), ("motet_abi", "fused/abi/src")];
    let list = fs::read_to_string(root().join("kernel/image/ld/together.txt")).expect("the list");
    let names: Vec<&str> =
        list.lines().filter(|line| line.starts_with("motet_") && !line.starts_with("motet_hal")).collect();
    for name in &names {
        let parts: Vec<&str> = name.split("::").collect();
        let (_, sources) = crates.iter().find(|(name, _)| *name == parts[0]).expect("a crate");
        assert!(is_there(&root().join(sources), &parts[1..]), "nothing is called {name}");
    }
    assert!(names.len() > 5, "{names:?}");
}
