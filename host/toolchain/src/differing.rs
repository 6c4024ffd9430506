//! Types of a source that differ between instruction sets, because the source or its headers ask for the macros of an architecture.
//!
//! All instruction sets of a program share its memory: what one has stored as 8 bytes, another must not read as 4. The compiler does not see this, because each of its
//! runs sees one instruction set. So the types of such a source are compared when it is compiled, and the linker refuses what leads from one
//! instruction set to another and to such a type ([`crate::link`]).

use std::collections::BTreeMap;

use crate::{
    isa::{ISAS, PerIsa},
    link::{Shape, Shapes, differing},
};

/// Options, behind those of the user, with which all types are in an object file.
pub const FLAGS: [&str; 4] = ["-w", "-O0", "-g", "-fstandalone-debug"];
/// With these as well it takes a fraction of the time, since nothing is inlined that must always be. Coroutines do not compile so.
pub const QUICK: [&str; 3] = ["-fno-crash-diagnostics", "-Xclang", "-disable-llvm-passes"];

/// How macros begin that clang defines for some architectures only (`clang -dM -E` for each).
const MACROS: [&str; 19] = [
    "__x86_64",
    "__amd64",
    "__aarch64",
    "__AARCH64",
    "__riscv",
    "__ARM_",
    "__SSE",
    "__AVX",
    "__MMX",
    "__BMI",
    "__FMA",
    "__AES",
    "__SHA",
    "__POPCNT",
    "__LZCNT",
    "__k8",
    "__SSSE3",
    "__code_model",
    "__SEG_",
];

/// Whether a text names a macro of an architecture.
pub fn asks_for_architecture(text: &str) -> bool {
    text.match_indices("__").any(|(at, _)| MACROS.iter().any(|name| text[at..].starts_with(name)))
}

/// Types, functions and variables that differ, by their names in [`Shapes`], each with a sentence that says how.
pub type Differing = BTreeMap<String, String>;

/// What differs among the shapes of a source. `read` gives the text of a source.
pub fn of_shapes(shapes: &PerIsa<Shapes>, read: &dyn Fn(&str) -> Option<String>) -> Differing {
    let described: Vec<(String, Described)> =
        differing(shapes).into_iter().filter_map(|name| Some((name.clone(), describe(&name, shapes, read)?))).collect();
    // What is made of such a type, as a class that has it for an argument of its template, stands below no condition itself.
    let any = described.iter().find_map(|(_, how)| how.condition.clone().or_else(|| any_condition(&how.file, read)));
    let sentence = |how: Described| match (how.condition, &any) {
        (Some(condition), _) => format!("{}, by {condition}", how.text),
        (None, Some(condition)) => format!("{}, perhaps by {condition}", how.text),
        (None, None) => how.text,
    };
    described.into_iter().map(|(name, how)| (name, sentence(how))).collect()
}

struct Described {
    /// Both shapes.
    text: String,
    /// The directive that chooses, and its place.
    condition: Option<String>,
    /// Where it is.
    file: String,
}

/// One of the shapes that a name has.
struct Side<'s> {
    shape: &'s Shape,
    /// Where the difference is in it.
    line: u64,
    what: &'s str,
    /// Who has it.
    isas: String,
}

fn describe(name: &str, shapes: &PerIsa<Shapes>, read: &dyn Fn(&str) -> Option<String>) -> Option<Described> {
    let all: Vec<(usize, &Shape)> =
        shapes.iter().enumerate().filter_map(|(isa, shapes)| Some((isa, shapes.get(name)?))).collect();
    let (_, first) = *all.first()?;
    let (_, second) = *all.iter().find(|(_, shape)| !shape.is_same(first))?;
    let member = (0..first.members.len().max(second.members.len())).find(|&index| {
        let text = |shape: &Shape| shape.members.get(index).map(|member| member.text.clone());
        text(first) != text(second)
    });
    let [first, second] = [first, second].map(|shape| {
        let (what, line) = match member.map(|index| shape.members.get(index)) {
            None => (shape.whole.as_str(), shape.line),
            Some(None) => ("nothing more", shape.line),
            Some(Some(member)) => (member.text.as_str(), if member.line == 0 { shape.line } else { member.line }),
        };
        let same = all.iter().filter(|(_, other)| other.is_same(shape)).map(|(isa, _)| ISAS[*isa].name());
        Side { shape, line, what, isas: same.collect::<Vec<_>>().join(" and ") }
    });
    let verb = if member.is_some() { "has" } else { "is" };
    let (place, other_place) = (place(&first), place(&second));
    let other_place = if place == other_place { String::new() } else { format!(" ({other_place})") };
    let text = format!(
        "{name} ({place}) {verb} {} on {}, and {} on {}{other_place}",
        first.what, first.isas, second.what, second.isas
    );
    let file = first.shape.file.clone();
    let condition = [first, second].iter().find_map(|side| {
        let (line, text) = directive(&read(&side.shape.file)?, side.line)?;
        Some(format!("`{text}` ({}:{line})", side.shape.file))
    });
    Some(Described { text, condition, file })
}

fn place(side: &Side<'_>) -> String {
    let Side { shape, line, .. } = side;
    if shape.file.is_empty() { format!("line {line}") } else { format!("{}:{line}", shape.file) }
}

/// The first condition of a file that asks for an architecture.
fn any_condition(file: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let text = read(file)?;
    let lines = text.lines().map(str::trim).enumerate();
    let found = lines.filter(|(_, line)| line.starts_with('#')).find(|(_, line)| asks_for_architecture(line));
    found.map(|(index, line)| format!("`{line}` ({file}:{})", index + 1))
}

/// The innermost condition around a line that asks for an architecture: its line, and the directive.
fn directive(text: &str, line: u64) -> Option<(u64, String)> {
    let mut around: Vec<(u64, &str)> = Vec::new();
    for (at, text) in (1..line).zip(text.lines()) {
        let text = text.trim();
        let Some(word) = text.strip_prefix('#').map(str::trim_start) else { continue };
        if word.starts_with("if") {
            around.push((at, text));
        } else if word.starts_with("elif") {
            around.pop();
            around.push((at, text));
        } else if word.starts_with("endif") {
            around.pop();
        }
    }
    let found = around.into_iter().rfind(|(_, text)| asks_for_architecture(text));
    found.map(|(at, text)| (at, text.to_owned()))
}

/// What stands in a section of the object file: a line for each.
pub fn to_section(differing: &Differing) -> Vec<u8> {
    differing.iter().map(|(name, sentence)| format!("{name}\t{sentence}\n")).collect::<String>().into_bytes()
}

/// Reads [`to_section`]'s.
pub fn of_section(section: &[u8]) -> Differing {
    let text = String::from_utf8_lossy(section);
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, said)| (name.to_owned(), said.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_of_architectures_are_noticed() {
        for text in ["#ifdef __x86_64__", "x = defined(__riscv_xlen);", "#if __ARM_FEATURE_CRC32"] {
            assert!(asks_for_architecture(text), "{text}");
        }
        for text in ["#ifdef __linux__", "int __x;", "_x86_64", "__"] {
            assert!(!asks_for_architecture(text), "{text}");
        }
    }

    #[test]
    fn the_condition_around_a_line_is_found() {
        let text =
            "#if A\n#endif\n#ifdef __x86_64__\n# if B\nx\n# endif\n#elif defined(__riscv)\ny\n#else\nz\n#endif\nw\n";
        let found = |line| directive(text, line).map(|(at, _)| at);
        assert_eq!([5, 8, 10, 12].map(found), [Some(3), Some(7), Some(7), None]);
    }

    #[test]
    fn what_differs_is_kept_in_lines() {
        let differing = Differing::from([("struct a".to_owned(), "it differs".to_owned())]);
        assert_eq!(of_section(&to_section(&differing)), differing);
        assert!(of_section(b"no line of ours\n").is_empty());
    }
}
