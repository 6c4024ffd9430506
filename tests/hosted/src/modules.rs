//! Modules of a crate, and which of them name which others: for rules about who may know whom.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{below, code, read};

/// Where a module is: the names that lead to it from the crate's root.
pub type Module = Vec<String>;

/// From a module to one that it names, both in one folder, with a source that does so.
pub type Arrows = BTreeMap<(String, String), String>;

/// What folders hand on (`pub use`): a name there, and where it is from.
type Exports = BTreeMap<(Module, String), Vec<String>>;

/// The modules of a crate.
pub struct Modules {
    /// All of them, also those that only have others in them.
    all: BTreeSet<Module>,
    /// Who names whom, with the source that does so.
    named: Vec<(Module, Module, String)>,
}

impl Modules {
    /// Reads the sources of a crate, which are in this folder.
    ///
    /// # Panics
    /// When they cannot be read.
    #[must_use]
    pub fn read(folder: &str) -> Self {
        let relative = |path: &str| path.strip_prefix(folder).map(|path| path.trim_start_matches('/').to_string());
        Self::of(below(folder).iter().map(|path| (relative(path).expect("a path below"), read(path))))
    }

    /// The modules of sources, by their paths.
    pub fn of(sources: impl IntoIterator<Item = (String, String)>) -> Self {
        let sources = sources.into_iter().map(|(path, source)| (module(&path), path, code(&source)));
        let sources: Vec<(Module, String, String)> = sources.collect();
        let all = sources.iter().flat_map(|(module, ..)| (0..=module.len()).map(|len| module[..len].to_vec()));
        let mut modules = Self { all: all.collect(), named: Vec::new() };
        let mut exports = Exports::new();
        for (module, _, code) in &sources {
            for (path, name) in modules.paths(module, &exported(code)) {
                exports.entry((module.clone(), name)).or_insert(path);
            }
        }
        for (module, path, code) in &sources {
            let homes: BTreeSet<Module> =
                modules.paths(module, code).into_iter().map(|(named, _)| modules.home(&exports, named)).collect();
            modules.named.extend(homes.into_iter().map(|home| (module.clone(), home, path.clone())));
        }
        modules
    }

    /// Folders: modules that have others in them.
    #[must_use]
    pub fn folders(&self) -> BTreeSet<Module> {
        self.all.iter().filter_map(|module| module.split_last()).map(|(_, folder)| folder.to_vec()).collect()
    }

    /// The names of the modules in a folder.
    #[must_use]
    pub fn inside(&self, folder: &[String]) -> BTreeSet<String> {
        let split = self.all.iter().filter_map(|module| module.split_last());
        split.filter(|(_, above)| *above == folder).map(|(name, _)| name.clone()).collect()
    }

    /// All arrows between modules in a folder, which stand for all that is in them. The folder's own file is none of them.
    #[must_use]
    pub fn arrows(&self, folder: &[String]) -> Arrows {
        let within = |module: &[String]| module.strip_prefix(folder).and_then(|rest| rest.first()).cloned();
        let mut arrows = Arrows::new();
        for (module, home, path) in &self.named {
            if let (Some(from), Some(to)) = (within(module), within(home))
                && from != to
            {
                arrows.entry((from, to)).or_insert_with(|| path.clone());
            }
        }
        arrows
    }

    /// What the code of a module names, from the crate's root on, each with the name that it has there.
    fn paths(&self, module: &Module, code: &str) -> Vec<(Vec<String>, String)> {
        let inside = self.inside(module);
        let (tokens, mut found) = (tokens(code), Vec::new());
        for (at, token) in tokens.iter().enumerate() {
            let begins = tokens.get(at + 1) == Some(&"::") && (at == 0 || !["::", "$", "."].contains(&tokens[at - 1]));
            if begins && (["crate", "super", "self"].contains(token) || inside.contains(*token)) {
                read_path(&tokens, at, Vec::new(), &mut found);
            }
        }
        found.into_iter().filter_map(|(path, name)| Some((from_root(module, &path)?, name.into()))).collect()
    }

    /// The module that has what is named so from the crate's root on.
    fn home(&self, exports: &Exports, mut path: Vec<String>) -> Module {
        // Who hands on what is handed on hands on its first home, sooner or later.
        for _ in 0..8 {
            let len = (0..=path.len()).rev().find(|len| self.all.contains(&path[..*len])).unwrap_or(0);
            let Some(name) = path.get(len) else { return path };
            let Some(from) = exports.get(&(path[..len].to_vec(), name.clone())) else { return path[..len].into() };
            path = from.iter().chain(&path[len + 1..]).cloned().collect();
        }
        path
    }
}

/// A file's module: `a/mod.rs` is `a`, `a/b/c.rs` is `a`, `b`, `c`; `lib.rs` is the root.
fn module(path: &str) -> Module {
    let mut names: Module = path.trim_end_matches(".rs").split('/').map(Into::into).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib")) {
        names.pop();
    }
    names
}

/// What a module's code hands on.
fn exported(code: &str) -> String {
    let code = code.replace("pub(crate) use ", "pub use ").replace("pub(super) use ", "pub use ");
    let uses = code.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next());
    uses.map(|what| format!("{what};\n")).collect()
}

/// A path as a module names it, from the crate's root on; `None`: it leads out of the crate.
fn from_root(module: &Module, path: &[&str]) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|name| **name == "super").count();
    let above = match path.first() {
        Some(&"crate") => 0,
        _ => module.len().checked_sub(supers)?,
    };
    let names = path.iter().filter(|name| !["crate", "super", "self"].contains(name));
    Some(module[..above].iter().cloned().chain(names.map(ToString::to_string)).collect())
}

/// Names, `::`, and each other character that is no space.
fn tokens(code: &str) -> Vec<&str> {
    let (mut rest, mut tokens) = (code.trim_start(), Vec::new());
    while let Some(first) = rest.chars().next() {
        let is_in_name = |character: char| character.is_alphanumeric() || character == '_';
        let len = match first {
            _ if is_in_name(first) => rest.find(|character| !is_in_name(character)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        tokens.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    tokens
}

/// Reads a path behind `path`, or a list of such in braces. Adds each, with the name that it has there, and returns what is behind.
fn read_path<'c>(
    tokens: &[&'c str],
    mut at: usize,
    mut path: Vec<&'c str>,
    found: &mut Vec<(Vec<&'c str>, &'c str)>,
) -> usize {
    while let Some(&token) = tokens.get(at) {
        if token == "{" {
            at += 1;
            while let Some(&token) = tokens.get(at).filter(|token| **token != "}") {
                at = if token == "," { at + 1 } else { read_path(tokens, at, path.clone(), found).max(at + 1) };
            }
            return at + 1;
        }
        if !token.starts_with(|character: char| character.is_alphabetic() || character == '_') {
            break;
        }
        path.push(token);
        at += 1;
        if tokens.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    let last = path.iter().rev().find(|name| **name != "self").copied().unwrap_or_default();
    let renamed = tokens.get(at).filter(|token| **token == "as").and_then(|_| tokens.get(at + 1));
    found.push((path, renamed.copied().unwrap_or(last)));
    if renamed.is_some() { at + 2 } else { at }
}
