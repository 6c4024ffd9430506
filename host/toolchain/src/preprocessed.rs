//! Preprocessed text that differs whenever that of any ISA does.
//!
//! `-E` shows the text of one ISA, but caches of compilers take it for all that matters. So marks follow it, in lines that compilers skip: the files that only
//! others include, and a number made from their texts.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// What stands behind `text` for another ISA's; nothing if they are the same.
pub fn marks(text: &[u8], other: &[u8], isa: &str) -> Vec<u8> {
    if without_builtins(text) == without_builtins(other) {
        return Vec::new();
    }
    let known: HashSet<&[u8]> = files(text).collect();
    let mut seen = HashSet::new();
    let own = files(other).filter(|file| !known.contains(file) && seen.insert(*file));
    let mut marks: Vec<u8> = own.flat_map(|file| [b"# 1 \"", file, b"\"\n"].concat()).collect();
    marks.extend(mark(isa, &without_builtins(other)));
    marks
}

/// A mark that stands for `contents`.
pub fn mark(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    format!("# 1 \"<motet {name} {:016x}>\"\n", hasher.finish()).into_bytes()
}

/// The text without lines that count the compiler's own definitions.
fn without_builtins(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    lines
        .filter(|line| !line.starts_with(b"# ") || !line.windows(2).any(|two| two == b"\"<"))
        .flatten()
        .copied()
        .collect()
}

/// The names in `# LINE "FILE" ...`, but those of no file.
fn files(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let rest = line.strip_prefix(b"# ")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let name = rest[digits..].strip_prefix(b" \"")?;
        let name = &name[..name.iter().rposition(|&byte| byte == b'"')?];
        (digits > 0 && !name.starts_with(b"<")).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_another_isa_has_is_marked() {
        let text = b"# 1 \"a.c\"\n# 1 \"<built-in>\" 1\n# 1 \"a.h\" 1\nint x;\n";
        let other = b"# 1 \"a.c\"\n# 1 \"b.h\" 1 3\nint y;\n# 2 \"b.h\"\n# pragma\n#error\n";
        let marks = String::from_utf8(marks(text, other, "riscv64")).unwrap();
        assert!(marks.starts_with("# 1 \"b.h\"\n# 1 \"<motet riscv64 ") && marks.lines().count() == 2, "{marks}");
        assert!(super::marks(text, text, "riscv64").is_empty());
        assert!(super::marks(b"# 1 \"<built-in>\" 3\nx\n", b"# 2 \"<built-in>\" 3\nx\n", "riscv64").is_empty());
        assert_ne!(mark("riscv64", b"a"), mark("riscv64", b"b"));
    }
}
