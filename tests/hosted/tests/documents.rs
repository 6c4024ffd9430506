//! What documents say of the code: the tour's functions, where code is unsafe, what a new instruction set changes, and on what plugins depend. Links and
//! the book's list of pages; what tutorials quote.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use motet_layout::{PACKET_INLINE, PACKET_MAX, PAGE_SIZE, PacketRecord, RIGHTS_MAX};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What is between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn functions_of_the_tour_exist() {
    let tour = read("docs/tour.md");
    let mut named = 0;
    for line in tour.lines().filter(|line| line.starts_with("- `")) {
        let mut words = quoted(line);
        let path = words.next().expect("a file");
        let source = read(path);
        for function in words {
            let is_defined = ["(", "<"].iter().any(|after| source.contains(&format!("fn {function}{after}")));
            assert!(is_defined, "docs/tour.md: {path} has no function `{function}`");
            named += 1;
        }
    }
    assert!(named > 40, "the tour names {named} functions alone: its lists are no longer read");
    assert_eq!(tour.lines().filter(|line| line.starts_with("## ") && line.contains(". ")).count(), 10, "stops");
}

/// Rust sources of the project, as paths below its root.
fn sources(under: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(under)).expect("a folder").map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("a name");
        let path = under.join(&name);
        if entry.file_type().expect("a type").is_dir() {
            if name != "target" && !name.starts_with('.') {
                sources(&path, into);
            }
        } else if name.ends_with(".rs") {
            into.push(path.to_str().expect("a path").into());
        }
    }
}

/// Whether a source has a block, function, implementation or attribute that is unsafe.
fn is_unsafe(source: &str) -> bool {
    source.lines().map(|line| line.split("//").next().unwrap_or("")).any(|code| {
        let mut words = code.split(|character: char| !(character.is_alphanumeric() || character == '_'));
        words.any(|word| word == "unsafe") && !code.contains('"')
    })
}

#[test]
fn code_is_unsafe_only_where_the_style_says() {
    let style = read("STYLE.md");
    let (_, after) = style.split_once("## Unsafe\n").expect("its chapter");
    let homes: Vec<&str> = after
        .split("\n## ")
        .next()
        .into_iter()
        .flat_map(str::lines)
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| quoted(line.split('|').nth(1).unwrap_or("")))
        .collect();
    let mut all = Vec::new();
    sources(Path::new(""), &mut all);
    let found: Vec<&String> = all.iter().filter(|path| is_unsafe(&read(path))).collect();
    assert!(found.len() > 30, "{found:?}");
    let is_in = |path: &str, home: &str| path == home || path.starts_with(home) && home.ends_with('/');
    for path in &found {
        assert!(homes.iter().any(|home| is_in(path, home)), "{path} is unsafe, and no home of unsafe code in STYLE.md");
    }
    for home in &homes {
        assert!(found.iter().any(|path| is_in(path, home)), "STYLE.md: nothing is unsafe in {home}");
    }
}

/// What runs, without comments and unit tests.
fn code(source: &str) -> String {
    let end = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    source[..end].lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

/// Where `docs/porting.md` says that something is to be added.
fn ported() -> Vec<String> {
    let document = read("docs/porting.md");
    let rows = document.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| quoted(row.split('|').nth(1).unwrap_or("")).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn files_that_a_new_instruction_set_changes_are_named() {
    let named = ported();
    for path in &named {
        assert!(root().join(path).exists(), "docs/porting.md names {path}, which does not exist");
    }
    let mut all = Vec::new();
    ["fused", "kernel", "host", "user", "guests"].iter().for_each(|folder| sources(Path::new(folder), &mut all));
    let is_code = |path: &String| !["/tests/", "/tests.rs"].iter().any(|part| path.contains(part));
    let of_one = all.into_iter().filter(is_code).filter(|path| code(&read(path)).contains("Isa::RiscV64"));
    let missing: Vec<_> = of_one.filter(|path| !named.iter().any(|named| path.starts_with(named.as_str()))).collect();
    assert!(
        missing.is_empty(),
        "these tell instruction sets apart, and docs/porting.md does not name them: {missing:#?}"
    );
}

/// The numbers in a text, without the commas in them.
fn numbers(text: &str) -> BTreeSet<usize> {
    let is_part = |character: char| character.is_ascii_digit() || character == ',';
    let parts = text.split(|character| !is_part(character));
    parts.filter_map(|part| part.replace(',', "").parse().ok()).collect()
}

#[test]
fn limits_of_packets_are_those_of_their_records() {
    let record = size_of::<PacketRecord>();
    for (path, begins, wanted) in [
        ("docs/memory.md", "| a packet |", &[PACKET_MAX][..]),
        ("docs/memory.md", "| open files in a message |", &[RIGHTS_MAX]),
        ("docs/memory.md", "| packets that wait at a socket |", &[record, PAGE_SIZE as usize, PACKET_INLINE]),
        ("docs/protocols/sockets.md", "| filled |", &[PACKET_INLINE]),
    ] {
        let document = read(path);
        let line = document.lines().find(|line| line.starts_with(begins));
        let said = numbers(line.unwrap_or_else(|| panic!("{path} has no line {begins}")));
        assert!(wanted.iter().all(|number| said.contains(number)), "{path}, {begins} says {said:?}, not {wanted:?}");
    }
}

/// The packages that a package needs, those for its tests too, at first hand and at any other: from `Cargo.lock`.
fn needed_by(package: &str) -> BTreeSet<String> {
    let lock = read("Cargo.lock");
    // Versions of one package count as one.
    let mut entries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in lock.split("[[package]]") {
        let name = entry.split('"').nth(1).unwrap_or("");
        let (_, list) = entry.split_once("dependencies = [").unwrap_or_default();
        let needed = list.split('"').skip(1).step_by(2).filter_map(|entry| entry.split(' ').next());
        entries.entry(name).or_default().extend(needed);
    }
    assert!(entries.contains_key(package), "Cargo.lock: {package}");
    let (mut found, mut next) = (BTreeSet::new(), vec![package]);
    while let Some(name) = next.pop() {
        next.extend(entries[name].iter().filter(|needed| found.insert(needed.to_string())));
    }
    found
}

#[test]
fn plugins_need_nothing_that_starts_or_controls_processes() {
    // The fabric does; by these it speaks with QEMU and hears of signals.
    const CONTROL: [&str; 3] = ["motet-fabric", "serde_json", "signal-hook"];
    let fabric = needed_by("motet-fabric");
    assert!(
        CONTROL[1..].iter().all(|name| fabric.contains(*name)),
        "the fabric controls by other packages: {fabric:?}"
    );
    for plugin in ["motet-timing-plugin", "motet-counting-plugin"] {
        let needed = needed_by(plugin);
        assert!(needed.contains("motet-plugin-api"), "{plugin}: {needed:?}");
        let wrong: Vec<_> = CONTROL.iter().filter(|name| needed.contains(**name)).collect();
        assert!(wrong.is_empty(), "{plugin} depends on {wrong:?}");
    }
}

/// Pages below a folder, as paths below the project's root.
fn pages(under: &str, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(root().join(under)).expect("a folder").map(|entry| entry.expect("an entry")) {
        let path = format!("{under}/{}", entry.file_name().into_string().expect("a name"));
        if entry.file_type().expect("a type").is_dir() {
            pages(&path, into);
        } else if path.ends_with(".md") {
            into.insert(path);
        }
    }
}

/// A page's lines that are not code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.starts_with("    ")
    })
}

/// The places that a page leads to.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page) {
        // Code between backticks leads nowhere.
        let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("_");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(targets.filter(|target| !target.contains("://")).map(str::to_owned));
    }
    found
}

/// The names of a page's headings in links.
fn headings(page: &str) -> BTreeSet<String> {
    let of = |line: &str| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect::<String>()
    };
    prose(page).filter(|line| line.starts_with('#')).map(of).collect()
}

/// Where a link of a page leads, as a path below the project's root without `..`.
fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

const SUMMARY: &str = "docs/SUMMARY.md";
const TUTORIALS: [&str; 5] = ["chip", "pin", "vectors", "realtime", "study"];

#[test]
fn links_of_pages_lead_somewhere() {
    let mut all: BTreeSet<String> = BTreeSet::new();
    pages("docs", &mut all);
    let above = fs::read_dir(root()).expect("the project").flatten();
    all.extend(above.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.ends_with(".md")));
    let (mut seen, mut broken) = (0, Vec::new());
    for page in &all {
        let text = read(page);
        for link in links(&text) {
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let to = if path.is_empty() { page.clone() } else { resolved(page, path) };
            let is_there = root().join(&to).exists();
            let has_heading =
                heading.is_empty() || !to.ends_with(".md") || is_there && headings(&read(&to)).contains(heading);
            seen += 1;
            if !is_there || !has_heading {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(seen > 300, "{seen} links alone: they are no longer found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_book_has_each_page_once() {
    let mut all = BTreeSet::new();
    pages("docs", &mut all);
    all.remove(SUMMARY);
    let mut listed: Vec<String> = links(&read(SUMMARY)).iter().map(|link| resolved(SUMMARY, link)).collect();
    listed.sort();
    let twice: Vec<_> = listed.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{SUMMARY} has these more than once: {twice:?}");
    let below: BTreeSet<String> = listed.into_iter().filter(|page| page.starts_with("docs/")).collect();
    assert_eq!(below, all, "{SUMMARY} and docs");
}

/// The contents of a page's blocks of code that are marked so.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in page.lines() {
        if let Some(text) = &mut block {
            if line == "```" {
                blocks.extend(block.take());
            } else {
                *text += line;
                text.push('\n');
            }
        } else if line.strip_prefix("```") == Some(kind) {
            block = Some(String::new());
        }
    }
    blocks
}

/// What its machine test runs stands in `console` blocks; this compares the others with the files that they are taken from.
#[test]
fn tutorials_quote_their_files_and_are_short() {
    for name in TUTORIALS {
        let path = format!("docs/tutorials/{name}.md");
        let page = read(&path);
        let words = page.split_whitespace().count();
        assert!(words <= 1200, "{path} has {words} words");
        assert!(page.contains("```console\n$ "), "{path} has no commands");
        let files: Vec<String> = fs::read_dir(root().join("examples").join(name))
            .expect("its files")
            .flatten()
            .filter_map(|entry| fs::read_to_string(entry.path()).ok())
            .collect();
        for block in ["c", "toml", "sh"].iter().flat_map(|kind| blocks(&page, kind)) {
            assert!(files.iter().any(|file| file.contains(&block)), "{path}: no file has\n{block}");
        }
    }
}
