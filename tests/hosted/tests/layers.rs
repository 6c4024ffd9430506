//! The rooms of `kernel/core/src`, of its room `file` and of `fused/protocol/src` stand in layers: a room knows those below it, so no circle can be.
//! ARCHITECTURE.md has the drawings; this test reads them, and what the sources name. Inside of all other rooms no circle may be, without a drawing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use motet_tests_hosted::{
    modules::{Arrows, Modules},
    sources::{below, read},
};

const KERNEL: &str = "kernel/core/src";
const PROTOCOLS: &str = "fused/protocol/src";

/// An arrow between modules of a folder: the folder, who names, and who is named.
type Arrow = (&'static str, &'static str, &'static str);

/// A folder whose modules stand in layers.
struct House {
    sources: &'static str,
    /// Where it is in them.
    folder: &'static str,
    /// The chapter of ARCHITECTURE.md with the drawing.
    chapter: &'static str,
    /// Arrows that there are at least: otherwise they are no longer found.
    arrows_min: usize,
}

const HOUSES: [House; 3] = [
    House { sources: KERNEL, folder: "", chapter: "The kernel's layers", arrows_min: 100 },
    House { sources: KERNEL, folder: "file", chapter: "The layers of files", arrows_min: 20 },
    House { sources: PROTOCOLS, folder: "", chapter: "The protocols' layers", arrows_min: 60 },
];

/// Arrows that do not run down, or that close a circle where there is no drawing. Whoever takes one away takes it off this list: it only gets shorter.
const KNOWN: [(&str, &[Arrow]); 2] = [
    (
        KERNEL,
        &[
            // A node is of one of the file systems that a list names, and what they look up are nodes.
            ("file", "path", "proc"),
            ("file/path", "file_system", "node"),
        ],
    ),
    (PROTOCOLS, &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names that lead to a folder of some sources.
fn names(folder: &str) -> Vec<String> {
    folder.split('/').filter(|name| !name.is_empty()).map(Into::into).collect()
}

/// The known arrows of a folder.
fn known(sources: &str, folder: &str) -> Vec<(String, String)> {
    let of_sources = KNOWN.iter().filter(|(known, _)| *known == sources).flat_map(|(_, arrows)| *arrows);
    let of_folder = of_sources.filter(|(known, ..)| *known == folder);
    of_folder.map(|(_, from, to)| ((*from).into(), (*to).into())).collect()
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

#[test]
fn rooms_know_only_those_below_them() {
    HOUSES.iter().for_each(check);
}

fn check(house: &House) {
    let layers = drawing(house);
    let modules = Modules::read(house.sources);
    let (rooms, arrows) = (modules.inside(&names(house.folder)), modules.arrows(&names(house.folder)));
    let place = format!("{}/{}", house.sources, house.folder);
    let drawn: Vec<&String> = layers.iter().flatten().collect();
    let twice: Vec<&&String> =
        drawn.iter().filter(|room| drawn.iter().filter(|other| other == room).count() > 1).collect();
    assert!(twice.is_empty(), "{place}: drawn twice in ARCHITECTURE.md: {twice:?}");
    let missing: Vec<&String> = rooms.iter().filter(|room| !drawn.contains(room)).collect();
    let gone: Vec<&&String> = drawn.iter().filter(|room| !rooms.contains(**room)).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "{place}: ARCHITECTURE.md draws no {missing:?}; and {gone:?}, which are gone"
    );
    let height = |room: &str| layers.iter().rev().position(|layer| layer.iter().any(|other| other == room));
    let runs_down = |from: &str, to: &str| height(from) > height(to);
    let known = known(house.sources, house.folder);
    let against: Vec<String> = arrows
        .iter()
        .filter(|(arrow, _)| !runs_down(&arrow.0, &arrow.1) && !known.contains(arrow))
        .map(|((from, to), path)| format!("{from} -> {to} ({path})"))
        .collect();
    assert!(against.is_empty(), "arrows that do not run down (ARCHITECTURE.md, {}): {against:#?}", house.chapter);
    let is_needed = |arrow: &(String, String)| arrows.contains_key(arrow) && !runs_down(&arrow.0, &arrow.1);
    let needless: Vec<_> = known.iter().filter(|arrow| !is_needed(arrow)).collect();
    assert!(needless.is_empty(), "known arrows that are gone, or run down now: take them off the list: {needless:?}");
    assert!(arrows.len() >= house.arrows_min, "only {} arrows: they are no longer found", arrows.len());
}

/// Whether a way along arrows leads from a module to another one.
fn leads(arrows: &BTreeSet<(String, String)>, from: &str, to: &str) -> bool {
    let (mut seen, mut left) = (BTreeSet::from([from]), vec![from]);
    while let Some(at) = left.pop() {
        let next = arrows.iter().filter(|(from, _)| from == at).map(|(_, to)| to.as_str());
        left.extend(next.filter(|next| seen.insert(next)));
    }
    seen.contains(to)
}

/// What is wrong with the arrows of a folder that has no drawing: circles, and known arrows that close none.
fn circles(arrows: &Arrows, known: &[(String, String)]) -> Vec<String> {
    let others: BTreeSet<(String, String)> = arrows.keys().filter(|arrow| !known.contains(arrow)).cloned().collect();
    let in_circles = others.iter().filter(|(from, to)| leads(&others, to, from));
    let new = in_circles.map(|arrow| format!("{} -> {} ({})", arrow.0, arrow.1, arrows[arrow]));
    let is_needed = |arrow: &(String, String)| arrows.contains_key(arrow) && leads(&others, &arrow.1, &arrow.0);
    let needless = known.iter().filter(|arrow| !is_needed(arrow));
    new.chain(needless.map(|(from, to)| format!("{from} -> {to}: take it off the list"))).collect()
}

#[test]
fn no_circle_is_inside_a_room() {
    for sources in [KERNEL, PROTOCOLS] {
        let modules = Modules::read(sources);
        let folders: BTreeSet<String> = modules.folders().iter().map(|folder| folder.join("/")).collect();
        let is_drawn = |folder: &str| HOUSES.iter().any(|house| (house.sources, house.folder) == (sources, folder));
        for folder in folders.iter().filter(|folder| !is_drawn(folder)) {
            let wrong = circles(&modules.arrows(&names(folder)), &known(sources, folder));
            assert!(wrong.is_empty(), "circles in {sources}/{folder}, or known arrows that are in none: {wrong:#?}");
        }
        let (_, known) = KNOWN.iter().find(|(known, _)| *known == sources).expect("a list");
        let gone: Vec<_> = known.iter().filter(|(folder, ..)| !folders.contains(*folder)).collect();
        assert!(gone.is_empty(), "known arrows in folders that are gone: {gone:?}");
        assert!(folders.len() > 8, "only {} folders in {sources}: they are no longer found", folders.len());
    }
}

#[test]
fn circles_are_found_and_arrows_that_close_none() {
    let arrow = |from: &str, to: &str| (from.to_string(), to.to_string());
    let of = |arrows: &[(&str, &str)]| -> Arrows {
        arrows.iter().map(|(from, to)| (arrow(from, to), format!("{from}.rs"))).collect()
    };
    let circle = of(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]);
    assert_eq!(circles(&circle, &[]), ["a -> b (a.rs)", "b -> c (b.rs)", "c -> a (c.rs)"]);
    assert_eq!(circles(&circle, &[arrow("c", "a")]), [""; 0]);
    assert_eq!(circles(&circle, &[arrow("c", "a"), arrow("d", "a")]), ["d -> a: take it off the list"]);
    assert_eq!(circles(&of(&[("a", "b")]), &[arrow("b", "a")]), ["b -> a: take it off the list"]);
}

#[test]
fn arrows_are_found_however_they_are_written() {
    let all = ["lib.rs", "one.rs", "cpu/mod.rs", "cpu/timer.rs", "file/mod.rs", "file/path.rs", "file/tty.rs", "mm.rs"];
    let found = |path: &str, source: &str, folder: &str| -> Vec<String> {
        let mut sources: BTreeMap<String, String> = all.iter().map(|path| ((*path).into(), String::new())).collect();
        sources.insert("file/mod.rs".into(), "mod tty;\npub use tty::{Tty, show as shown};\n".into());
        sources.insert(path.into(), source.into());
        Modules::of(sources).arrows(&names(folder)).into_keys().map(|(from, to)| format!("{from} {to}")).collect()
    };
    assert_eq!(found("one.rs", "use crate::mm;", ""), ["one mm"]);
    let list = "use crate::{\n    cpu::{Cpu, timer::Two},\n    file::{self, tty},\n    mm,\n};";
    assert_eq!(found("one.rs", list, ""), ["one cpu", "one file", "one mm"]);
    assert_eq!(
        found("cpu/timer.rs", "fn f() { crate::mm::one(crate::file::tty::two::<M>()) }", ""),
        ["cpu file", "cpu mm"]
    );
    assert_eq!(found("cpu/timer.rs", "use super::super::{mm, file};", ""), ["cpu file", "cpu mm"]);
    assert_eq!(found("cpu/timer.rs", "use super::{mm, file}; use super::super::super::mm;", ""), [""; 0]);
    let no_code = "// use crate::mm;\nmy_crate::mm; $crate::mm;\n#[cfg(test)]\nmod tests { use crate::mm; }";
    assert_eq!(found("one.rs", no_code, ""), [""; 0]);
    for inside in
        ["use super::tty::Tty;", "use super::Tty;", "fn f() { crate::file::shown() }", "use super::{self, tty as t};"]
    {
        assert_eq!(found("file/path.rs", inside, "file"), ["path tty"], "{inside}");
    }
    assert_eq!(found("file/path.rs", "use super::{other, super::mm};", "file"), [""; 0]);
}

/// Words that others write for a core are looked at in one place ([`Cpu::is_due`](../../../kernel/core/src/cpu/pending.rs)), which has the list of all causes.
#[test]
fn what_is_due_is_looked_at_in_one_place() {
    let looks = |path: &String| {
        let text: String = read(path).split_whitespace().collect();
        ["own.inbox.load", "own.pending.load"].iter().any(|word| text.contains(word))
    };
    let places: Vec<String> = below(KERNEL).into_iter().filter(looks).collect();
    assert_eq!(places, ["kernel/core/src/cpu/pending.rs"]);
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
