//! What a source is made from, for `make` and others: of all ISAs, which may include different files.

use std::{
    collections::HashSet,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// One compiler's rules in a dependency file.
struct Rules<'a> {
    /// `TARGET: FILE...`, without the end of the line.
    first: &'a [u8],
    /// The files, as they are written.
    files: Vec<&'a [u8]>,
    /// The others (`FILE:`).
    rest: &'a [u8],
}

/// What changes the first text besides others.
#[derive(Default)]
pub struct Extra<'a> {
    /// Files of our own.
    pub own: &'a [&'a Path],
    /// With a rule for each file (`-MP`).
    pub has_rules: bool,
}

/// The first text with what only the `others` name, unless `is_left_out` says so of it, and with `extra`.
pub fn merge(first: &[u8], others: &[Vec<u8>], extra: &Extra<'_>, is_left_out: &dyn Fn(&[u8]) -> bool) -> Vec<u8> {
    let rules = parse(first);
    let mut known: HashSet<Vec<u8>> = rules.files.iter().map(|file| file.to_vec()).collect();
    let own = extra.own.iter().map(|path| escaped(path));
    let others = others.iter().flat_map(|text| parse(text).files).filter(|file| !is_left_out(file)).map(<[u8]>::to_vec);
    let added: Vec<Vec<u8>> = others.chain(own).filter(|file| known.insert(file.clone())).collect();
    let mut merged = rules.first.to_vec();
    added.iter().for_each(|file| merged.extend([b" \\\n  ", file.as_slice()].concat()));
    merged.extend(rules.rest);
    if extra.has_rules {
        added.iter().for_each(|file| merged.extend([file.as_slice(), b":\n"].concat()));
    }
    merged
}

/// The files in a dependency file.
pub fn files(text: &[u8]) -> Vec<PathBuf> {
    let named = |word: &&[u8]| PathBuf::from(OsString::from_vec(unescaped(word)));
    parse(text).files.iter().map(named).collect()
}

fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut name = Vec::new();
    let mut rest = word.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        let is_mark =
            byte == b'\\' && matches!(rest.peek(), Some(b' ' | b'#')) || byte == b'$' && rest.peek() == Some(&b'$');
        if !is_mark {
            name.push(byte);
        } else if let Some(next) = rest.next() {
            name.push(next);
        }
    }
    name
}

fn parse(text: &[u8]) -> Rules<'_> {
    let is_end = |at: &usize| text[*at] == b'\n' && (*at == 0 || text[at - 1] != b'\\');
    let end = (0..text.len()).find(is_end).unwrap_or(text.len());
    let (first, rest) = text.split_at(end);
    let colon = first.windows(2).position(|two| two[0] == b':' && two[1].is_ascii_whitespace());
    let list = colon.map_or(&[][..], |colon| &first[colon + 1..]);
    Rules { first, files: words(list), rest }
}

fn words(list: &[u8]) -> Vec<&[u8]> {
    let (mut words, mut start, mut at) = (Vec::new(), None, 0);
    while at < list.len() {
        let is_continued = list[at] == b'\\' && list.get(at + 1).is_none_or(|next| *next == b'\n');
        if list[at].is_ascii_whitespace() || is_continued {
            words.extend(start.take().map(|start| &list[start..at]));
        } else {
            start.get_or_insert(at);
            // What follows a backslash belongs to the name.
            at += usize::from(list[at] == b'\\');
        }
        at += 1;
    }
    words.extend(start.map(|start| &list[start..]));
    words
}

fn escaped(path: &Path) -> Vec<u8> {
    let mut name = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'#' => name.extend([b'\\', *byte]),
            b'$' => name.extend(b"$$"),
            other => name.push(*other),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_they_are() {
        let text = b"a.o: a.c my\\ header.h \\\n  cost$$.h\nb.h:\n";
        let names = ["a.c", "my header.h", "cost$.h"].map(PathBuf::from);
        assert_eq!(files(text), names);
    }

    #[test]
    fn files_of_all_are_listed_once() {
        let first = b"a\\ b.o: a\\ b.c one.h \\\n  two.h\n\none.h:\n\ntwo.h:\n";
        let other = b"a.o: a\\ b.c two.h /sys/x.h \\\n own\\ header.h\n".to_vec();
        let is_system = |file: &[u8]| file.starts_with(b"/sys");
        let merged = merge(
            first,
            &[other.clone(), other],
            &Extra { own: &[Path::new("my pins.toml")], has_rules: true },
            &is_system,
        );
        let expected = "a\\ b.o: a\\ b.c one.h \\\n  two.h \\\n  own\\ header.h \\\n  my\\ pins.toml\n\none.h:\n\ntwo.h:\nown\\ header.h:\nmy\\ pins.toml:\n";
        assert_eq!(String::from_utf8(merged).unwrap(), expected);
        let merged = merge(b"a.o: a.c\n", &[b"a.o: a.c b.h\n".to_vec()], &Extra::default(), &is_system);
        assert_eq!(merged, b"a.o: a.c \\\n  b.h\n");
    }
}
