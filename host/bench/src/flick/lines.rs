//! How many lines of the kernel are there for calls across instruction sets.
//!
//! Lines of code count: not empty ones, comments and tests. Some files are for nothing else and count whole. In the other files of
//! the kernel a line counts if it has one of the words below, and with it the block that it opens.

use std::path::{Path, PathBuf};

use motet_error::Result;

use crate::project::file_error;

/// Folders of the kernel.
const KERNEL: [&str; 2] = ["kernel", "fused"];
/// What is for crossings only, and for what. The first entry that a path begins with counts.
const WHOLE: [(&str, Part); 14] = [
    ("kernel/core/src/crossing/report.rs", Part::Reports),
    ("kernel/core/src/chain/report.rs", Part::Reports),
    ("fused/abi/src/own.rs", Part::Reports),
    ("kernel/core/src/crossing/", Part::Calls),
    ("kernel/core/src/chain/", Part::Calls),
    ("kernel/core/src/cpu/crossing.rs", Part::Calls),
    ("kernel/core/src/mm/view.rs", Part::Calls),
    ("fused/protocol/src/direct/", Part::Calls),
    ("fused/protocol/src/noncoherent.rs", Part::Calls),
    ("fused/protocol/src/message.rs", Part::Calls),
    ("kernel/core/src/process/fat.rs", Part::Executables),
    ("fused/abi/src/gate.rs", Part::Calls),
    ("fused/abi/src/fat.rs", Part::Executables),
    ("fused/abi/src/convention.rs", Part::Conventions),
];

/// What lines are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Calling and returning, stacks, text.
    Calls,
    /// Reading executables and their notes.
    Executables,
    /// Carrying arguments, results and registers from one calling convention to another.
    Conventions,
    /// Policies, backtraces, `/proc`.
    Reports,
}

/// All parts, as metrics name them.
pub const PARTS: [(Part, &str); 4] = [
    (Part::Calls, "calls"),
    (Part::Executables, "executables"),
    (Part::Conventions, "conventions"),
    (Part::Reports, "reports"),
];
/// Flick's protocol, which is there for comparison only, is not counted.
const BASELINE: [&str; 4] = [
    "kernel/core/src/crossing/migration/",
    "kernel/core/src/chain/migrated.rs",
    "fused/abi/src/migration.rs",
    "fused/protocol/src/dma.rs",
];

/// What tells of crossings elsewhere.
const WORDS: [&str; 13] = [
    "crossing",
    "Crossing",
    "CROSSING",
    "convention::",
    "fat::",
    "Fat",
    "direct::",
    "noncoherent::",
    "VMA_VIEW",
    "VMA_STORE",
    "view::",
    "View",
    "CALL_ON",
];

/// Lines of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// In files that are for crossings only, by [`PARTS`].
    pub whole: [usize; PARTS.len()],
    /// In other files.
    pub elsewhere: usize,
}

/// Counts them in the project's sources.
///
/// # Errors
/// A file cannot be read.
pub fn count(root: &Path) -> Result<Lines> {
    let mut lines = Lines::default();
    for folder in KERNEL {
        for path in sources(&root.join(folder))? {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
            if BASELINE.iter().any(|start| name.starts_with(start)) {
                continue;
            }
            let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
            match WHOLE.iter().find(|(whole, _)| name.starts_with(whole)) {
                Some(&(_, part)) => lines.whole[part as usize] += code(&text).count(),
                None => lines.elsewhere += marked(&text),
            }
        }
    }
    Ok(lines)
}

/// Rust sources below a folder, without tests.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(file_error(folder))? {
        let path = entry.map_err(file_error(folder))?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Lines of code; unit tests are at the end of a file.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    text.lines().take_while(|line| *line != "#[cfg(test)]").filter(is_code)
}

/// Lines with one of the words, and the blocks that they open: up to the line with the same indentation.
fn marked(text: &str) -> usize {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let mut count = 0;
    let mut open: Option<usize> = None;
    for line in code(text) {
        if let Some(outer) = open {
            count += 1;
            if indentation(line) == outer && line.trim_start().starts_with('}') {
                open = None;
            }
        } else if WORDS.iter().any(|word| line.contains(word)) {
            count += 1;
            open = line.ends_with('{').then(|| indentation(line));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_words_and_their_blocks_count() {
        let text = "\
use a::{crossing, b};
// crossing
fn other() {
    nothing();
}

fn show(crossing: u32) {
    // why
    if crossing == 0 {
        return;
    }
}
let x = 1;
#[cfg(test)]
mod tests { crossing }
";
        assert_eq!(marked(text), 1 + 5);
        assert_eq!(code(text).count(), 1 + 3 + 5 + 1);
    }

    #[test]
    fn the_files_are_where_they_are_looked_for() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert!(WHOLE.iter().all(|(path, _)| root.join(path).exists()));
        let lines = count(&root).unwrap();
        assert!(lines.whole.iter().all(|&lines| lines > 100) && lines.elsewhere > 50, "{lines:?}");
    }
}
