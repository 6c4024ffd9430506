//! The command line of a linker, in the words of a compiler's.

use std::ffi::OsString;

use crate::{
    arguments::{Arguments, Item, parse},
    error::{Error, Result},
    options::LINKER_WITH_ARGUMENT_IGNORED,
};

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
            if ["--undefined", "--entry"].contains(&text) || LINKER_WITH_ARGUMENT_IGNORED.contains(&text) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Mode;

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
