//! The project's sources, for rules that are held by looking at them.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a file contains, named from the root of the project.
///
/// # Panics
/// When it cannot be read.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Rust sources below a folder that are no tests, as paths from the root of the project.
///
/// # Panics
/// When a folder cannot be read.
pub fn below(folder: &str) -> Vec<String> {
    let mut all = Vec::new();
    collect(Path::new(folder), &mut all);
    all
}

fn collect(under: &Path, into: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(under)).expect("a folder").map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().into_string().expect("a name");
        let path = under.join(&name);
        if entry.file_type().expect("a type").is_dir() {
            if !["target", "tests", "benches", "examples"].contains(&name.as_str()) && !name.starts_with('.') {
                collect(&path, into);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" {
            into.push(path.to_str().expect("a path").into());
        }
    }
}

/// What is compiled into kernels and programs, without comments.
pub fn code(source: &str) -> String {
    let end = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    source[..end].lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}
