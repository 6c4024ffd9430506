//! Every place of a source that pins a function: at declarations and definitions.
//!
//! Of several pins of a function, the compiler keeps the first one it sees as the function's section, and of functions that are only
//! declared none. So the macros of `motet.h` leave an annotation, too, which says where they stand. Clang keeps all of a function's
//! annotations in its intermediate code (LLVM Language Reference, `llvm.global.annotations`), and drops them on the way to an object
//! file. They are read there, and kept in a section of the object file for the linker, which sees all files.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};

/// How an annotation of `MOTET_ON` begins.
const ON: &str = "motet.on";
/// ... and one of `MOTET_ONLY`.
const ONLY: &str = "motet.only";

/// A pin somewhere in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// The symbol.
    pub function: String,
    /// The name of the ISA, as it was written.
    pub isa: String,
    /// `FILE:LINE`.
    pub place: String,
    /// The function is the file's own (`static`).
    pub is_local: bool,
}

/// The mentions in a source, from its intermediate code.
pub fn of_code(code: &str) -> Vec<Mention> {
    let mut texts = HashMap::new();
    let mut local = HashSet::new();
    let mut annotations = "";
    for line in code.lines() {
        if let Some(rest) = line.strip_prefix("@llvm.global.annotations = ") {
            annotations = rest;
        } else if let Some(text) = line.split_once(" c\"").filter(|_| line.contains("section \"llvm.metadata\"")) {
            texts.extend(
                line.split(" = ").next().map(|name| (name, unescaped(text.1.split('"').next().unwrap_or_default()))),
            );
        } else if let Some(rest) = line.strip_prefix("define internal ") {
            local.extend(rest.split_once('@').map(|(_, rest)| symbol(rest)));
        }
    }
    let entries = annotations.split("{ ptr @").skip(1);
    let mention = |entry: &str| {
        let (function, rest) = entry.split_once(", ptr ")?;
        let text = texts.get(rest.split(',').next()?)?;
        let mut words = text.splitn(3, ' ');
        let (_, isa, place) = (words.next().filter(|how| [ON, ONLY].contains(how))?, words.next()?, words.next()?);
        let function = symbol(function);
        let is_local = local.contains(&function);
        Some(Mention { function, isa: isa.into(), place: place.into(), is_local })
    };
    entries.filter_map(mention).collect()
}

/// Checks that all pins of a function, at declarations and at its definition, are for one ISA; with each comes the number of its file.
///
/// # Errors
/// Two are not.
pub fn check<'a>(mentions: impl Iterator<Item = (usize, &'a Mention)>) -> Result<()> {
    let mut first: HashMap<(&str, Option<usize>), &Mention> = HashMap::new();
    for (file, mention) in mentions {
        let function = &mention.function;
        let known = first.entry((function, mention.is_local.then_some(file))).or_insert(mention);
        if known.isa != mention.isa {
            return Err(Error::data(format!(
                "{function} is pinned to {} at {} and to {} at {}; choose one",
                known.isa, known.place, mention.isa, mention.place
            )));
        }
    }
    Ok(())
}

/// The first mention of a function that runs before or after `main` by itself, or constructs or destroys objects: none can be pinned.
pub fn of_constructor<'a>(code: &str, mentions: &'a [Mention]) -> Option<&'a Mention> {
    let lists = code
        .lines()
        .filter(|line| ["@llvm.global_ctors = ", "@llvm.global_dtors = "].iter().any(|list| line.starts_with(list)));
    let listed: HashSet<String> = lists.flat_map(|line| line.split("ptr @").skip(1)).map(symbol).collect();
    mentions.iter().find(|mention| listed.contains(&mention.function) || is_constructor(&mention.function))
}

/// What is said of such a function.
pub fn refused_constructor(place: &str, function: &str) -> Error {
    let message = "is a constructor or destructor, which cannot be pinned; pin a function that it calls";
    Error::data(format!("{place}: {function} {message}"))
}

/// A name of the intermediate code, which has quotation marks around names that are not of letters and digits.
pub fn symbol(text: &str) -> String {
    match text.strip_prefix('"') {
        Some(quoted) => unescaped(quoted.split('"').next().unwrap_or_default()),
        None => text.split(['(', ' ', ',']).next().unwrap_or_default().into(),
    }
}

/// Text in which `\XX` stands for a byte; ends before a zero.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let byte = after.get(..2).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = if byte.is_some() { &after[2..] } else { after };
        bytes.push(byte.unwrap_or(*first));
    }
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Whether a symbol of C++ is a constructor or a destructor (Itanium C++ ABI, 5.1.4.3): `_ZN1AC2Ei`.
pub fn is_constructor(symbol: &str) -> bool {
    let mut rest = symbol.strip_prefix("_ZN").unwrap_or_default();
    while let Some(first) = rest.chars().next() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if let Ok(length) = rest[..digits].parse::<usize>() {
            rest = rest.get(digits + length..).unwrap_or_default();
        } else if let [b'C' | b'D', b'0'..=b'5', b'E', ..] = rest.as_bytes() {
            return true;
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    false
}

/// What stands in the section: a line for each.
pub fn to_section(mentions: &[Mention]) -> Vec<u8> {
    let scope = |mention: &Mention| if mention.is_local { "local" } else { "global" };
    let line =
        |mention: &Mention| format!("{}\t{}\t{}\t{}\n", scope(mention), mention.isa, mention.function, mention.place);
    mentions.iter().map(line).collect::<String>().into_bytes()
}

/// Reads [`to_section`]'s. Lines that are none are of another version, and left out.
pub fn of_section(section: &[u8]) -> Vec<Mention> {
    let text = String::from_utf8_lossy(section);
    let mention = |line: &str| {
        let mut fields = line.splitn(4, '\t').map(str::to_owned);
        let is_local = fields.next()? == "local";
        Some(Mention { is_local, isa: fields.next()?, function: fields.next()?, place: fields.next()? })
    };
    text.lines().filter_map(mention).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_all_declarations_are_found() {
        let code = "\
@.str = private unnamed_addr constant [23 x i8] c\"motet.on riscv64 a b.c:4\\00\", section \"llvm.metadata\"
@.str.1 = private unnamed_addr constant [4 x i8] c\"a.c\\00\", section \"llvm.metadata\"
@.str.2 = private unnamed_addr constant [25 x i8] c\"motet.only aarch64 \\22.c:7\\00\", section \"llvm.metadata\"
@.str.3 = private unnamed_addr constant [6 x i8] c\"other\\00\", section \"llvm.metadata\"
@llvm.global.annotations = appending global [4 x { ptr, ptr, ptr, i32, ptr }] [{ ptr, ptr, ptr, i32, ptr } { ptr @f, ptr @.str, \
ptr @.str.1, i32 7, ptr null }, { ptr, ptr, ptr, i32, ptr } { ptr @\"h i\", ptr @.str.2, ptr @.str.1, i32 7, ptr null }, \
{ ptr, ptr, ptr, i32, ptr } { ptr @f, ptr @.str.3, ptr @.str.1, i32 7, ptr null }], section \"llvm.metadata\"
define dso_local i32 @f(i32 %0) {
define internal signext i32 @\"h i\"(i32 %0) #0 section \".text.motet.only.aarch64.4\" {
";
        let mention = |function: &str, isa: &str, place: &str, is_local| Mention {
            function: function.into(),
            isa: isa.into(),
            place: place.into(),
            is_local,
        };
        let found = of_code(code);
        assert_eq!(found, [mention("f", "riscv64", "a b.c:4", false), mention("h i", "aarch64", "\".c:7", true)]);
        assert_eq!(of_section(&to_section(&found)), found);
        let constructors = ["_ZN1AC2Ei", "_ZN2ns1BIiED0Ev", "_ZN1AC1ERKS_"].map(is_constructor);
        assert_eq!(constructors, [true; 3]);
        assert_eq!(["_ZN1A3C1EEv", "_ZN1A1fEi", "C1E", "_Z1fv"].map(is_constructor), [false; 4]);
        assert!(of_code("").is_empty() && of_section(b"\xff\nlocal\tx").is_empty());
    }
}
