//! The command line of a linker, in the words of a compiler's.

use std::ffi::OsString;

use crate::{
    arguments::{Arguments, Item, parse},
    error::{Error, Result, read},
    link::{DefinedSymbol, Wishes},
    options::{LINKER_WITH_ARGUMENT, LINKER_WITH_ARGUMENT_IGNORED},
};

/// What `motet ld --help` says.
pub const HELP: &str = "\
Links objects and archives of `motet cc -c` into a static program for every instruction set.

usage: motet ld [OPTION...] FILE...

  -o FILE, -L FOLDER, -l NAME, -e SYMBOL, -u SYMBOL, -s, --whole-archive
                        as other linkers; start files and the C library come by themselves
  -nostdlib             without them
  --pins FILE           pins functions to instruction sets
  --isa ISA             the primary instruction set
  --emit-isa ISA FILE   writes an ordinary program for one instruction set as well
  -Map FILE             writes what lies where, and out of which file
  --cref                who defines each symbol and who wants it, in the map or on
                        standard output
  --wrap SYMBOL, --defsym SYMBOL=EXPRESSION, --require-defined SYMBOL,
  --allow-multiple-definition, --print-gc-sections, -t, -y SYMBOL, -z stack-size=BYTES
                        as GNU's linker
  -z one-stack          calls to other instruction sets go on below the caller's
                        frames: for programs that look at their stack

Examples:
  motet ld a.o b.o -lm -o app
  motet ld --pins pins.toml -Map app.map a.o -o app

docs/toolchain.md has the limits: there are no shared libraries, and objects are not linked partly.
";

/// Parses the arguments of `motet ld`: those of a linker.
///
/// # Errors
/// One is wrong, or is a source.
pub fn parse_linker(arguments: &[OsString]) -> Result<Arguments> {
    const WITH_ARGUMENT: [&str; 7] = ["-o", "-L", "-l", "-e", "-u", "--isa", "--pins"];
    const OWN: [&str; 4] = ["-s", "--help", "-nostdlib", "--emit-isa"];
    let mut words = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = word.to_str().unwrap_or_default();
        let mut arguments_of = 0;
        if WITH_ARGUMENT.contains(&text) {
            arguments_of = 1;
        } else if text == "--emit-isa" {
            arguments_of = 2;
        } else if text.starts_with('-') && !text.starts_with("-L") && !text.starts_with("-l") && !OWN.contains(&text) {
            words.push("-Xlinker".into());
            if ["--undefined", "--entry", "-z"].contains(&text)
                || [LINKER_WITH_ARGUMENT, LINKER_WITH_ARGUMENT_IGNORED].concat().contains(&text)
            {
                words.extend([word.clone(), "-Xlinker".into()]);
                words.extend(rest.next().cloned());
                continue;
            }
        }
        words.push(word.clone());
        words.extend(rest.by_ref().take(arguments_of).cloned());
    }
    let parsed = parse(&words).map_err(|mut error| {
        error.message = error.message.replace("motet cc: ", "motet ld: ").replace("-Wl,", "");
        error
    })?;
    let source = parsed.items.iter().find_map(|item| match item {
        Item::Source(source) => Some(source.path.display()),
        Item::Object(_) | Item::Library(..) => None,
    });
    match source {
        Some(path) => Err(Error::usage(format!("motet ld: {path} is a source: compile it with `motet cc -c`"))),
        None => Ok(parsed),
    }
}

/// Notes one of [`LINKER_WITH_ARGUMENT`] with its argument.
///
/// # Errors
/// The argument is none of this option.
pub fn note(wishes: &mut Wishes, option: &str, argument: &str) -> Result<()> {
    match option {
        "--wrap" => wishes.wraps.push(argument.to_owned()),
        "--defsym" => wishes.symbols.push(defined_symbol(argument).ok_or_else(|| {
            let expected = "expected NAME=NUMBER, NAME=SYMBOL or NAME=SYMBOL+NUMBER";
            Error::usage(format!("motet cc: -Wl,--defsym={argument}: {expected}"))
        })?),
        "-y" | "--trace-symbol" => wishes.traced.push(argument.to_owned()),
        "--require-defined" => wishes.required.push(argument.to_owned()),
        // A static program has no symbols for others, which could have versions; but the file should be there.
        "--version-script" => read(argument.as_ref()).map(drop)?,
        _ => wishes.map = Some(argument.into()),
    }
    Ok(())
}

/// Notes `-z KEYWORD`: of these only a size of stacks has an effect.
///
/// # Errors
/// It is no size.
pub fn note_keyword(wishes: &mut Wishes, keyword: &str) -> Result<()> {
    if let Some(size) = keyword.strip_prefix("stack-size=") {
        let message = || Error::usage(format!("motet cc: -Wl,-z,{keyword}: expected a number of bytes"));
        wishes.stack_bytes = number(size).ok_or_else(message)?;
    }
    wishes.one_stack |= keyword == "one-stack";
    wishes.allows_several |= keyword == "muldefs";
    Ok(())
}

fn defined_symbol(text: &str) -> Option<DefinedSymbol> {
    let (name, expression) = text.split_once('=')?;
    let is_name = |text: &str| {
        !text.is_empty()
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && !text.contains(['+', '-', '(', '*', ' '])
    };
    let (base, value) = match number(expression) {
        Some(value) => (None, value),
        None => match expression.split_once('+') {
            Some((base, offset)) => (Some(base.to_owned()), number(offset)?),
            None => (Some(expression.to_owned()), 0),
        },
    };
    (is_name(name) && base.as_deref().is_none_or(is_name)).then(|| DefinedSymbol { name: name.to_owned(), base, value })
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Mode;

    #[test]
    fn symbols_are_defined_by_numbers_or_by_others() {
        let symbol =
            |base: Option<&str>, value| Some(DefinedSymbol { name: "a".into(), base: base.map(str::to_owned), value });
        assert_eq!(defined_symbol("a=0x10"), symbol(None, 16));
        assert_eq!(defined_symbol("a=b"), symbol(Some("b"), 0));
        assert_eq!(defined_symbol("a=b+4"), symbol(Some("b"), 4));
        for wrong in ["a", "=1", "a=", "a=b-c", "a=(b)", "1=b"] {
            assert_eq!(defined_symbol(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_linker_says_what_it_is() {
        for (line, mode) in
            [("-v", Mode::Linker), ("--version", Mode::Linker), ("--help", Mode::Help), ("-v a.o", Mode::Link)]
        {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(parse_linker(&words).unwrap().mode, mode, "{line}");
        }
    }
}
