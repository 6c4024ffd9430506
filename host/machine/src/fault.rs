//! What is wrong with a machine file, and at which line and column.

use std::ops::{Range, RangeInclusive};

use motet_coherence::{Key, Step};
use motet_error::{Error, ErrorKind, Result};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Where a value stands in the file.
pub(super) fn span_of<T>(value: Option<&Spanned<T>>) -> Range<usize> {
    value.map_or(0..0, Spanned::span)
}

/// Where an entry of the file stands; if it is not there, where the table stands that lacks it.
pub(super) fn span_of_key(text: &str, key: &Key) -> Option<Range<usize>> {
    let file = DeTable::parse(text).ok()?;
    let (mut table, mut values, mut found) = (Some(file.get_ref()), None, None);
    for step in key.steps() {
        let value: Option<&Spanned<DeValue<'_>>> = match step {
            Step::Name(name) => table.and_then(|table| table.get(*name)),
            Step::Index(index) => values.and_then(|values: &[_]| values.get(*index)),
        };
        let Some(value) = value else { break };
        found = Some(value.span());
        table = value.get_ref().as_table();
        values = value.get_ref().as_array().map(|array| &array[..]);
    }
    found
}

/// What is wrong with a value, in the words of who writes the file, after its key; messages about keys name them already.
pub(super) fn misfit(text: &str, span: Range<usize>, message: &str) -> String {
    const WORDS: [(&str, &str); 13] = [
        ("expected struct TlbTable", "expected { entries, ways }"),
        ("expected struct SecondTlbTable", "expected { entries, ways, cycles }"),
        ("expected struct CacheTable with 4 elements", "expected { size, ways, cycles }"),
        ("expected struct CacheTable", "expected { size, ways, cycles }"),
        ("expected struct", "expected a table"),
        ("expected a sequence", "expected an array"),
        ("expected usize", "expected a whole number, not negative"),
        ("expected u64", "expected a whole number, not negative"),
        ("expected u32", "expected a whole number, not negative"),
        ("expected i64", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("` as i128", "`"),
        ("wanted string or table", "expected a string"),
    ];
    let message = message.trim_end().replace('\n', "; ");
    let message = WORDS.iter().fold(message, |message, (from, to)| message.replace(from, to));
    if message == "duplicate key" {
        return format!("{message} `{}`", text.get(span).unwrap_or_default());
    }
    let names_key = ["missing field", "unknown field"].iter().any(|beginning| message.starts_with(beginning));
    match key_before(text, span.start) {
        Some(key) if !names_key => format!("{key}: {message}"),
        Some(_) | None => message,
    }
}

/// The key whose value is at this position, after the table that it is in: `model.core.l1d.ways`.
fn key_before(text: &str, at: usize) -> Option<String> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let before = text.get(..at)?;
    let header = |line: &str| {
        let name = line.trim().strip_prefix('[')?.trim_start_matches('[').split(']').next()?.trim();
        (!name.is_empty() && name.chars().all(is_key)).then(|| name.to_owned())
    };
    let line = before.rsplit('\n').next()?;
    let mut keys: Vec<&str> =
        line.split('=').map(|part| part.trim_end().rsplit(|c| !is_key(c)).next()).collect::<Option<_>>()?;
    keys.pop();
    let table = before.lines().rev().find_map(header);
    let inner = keys.last().filter(|_| keys.len() > 1 && line.contains('{')).map(|key| (*key).to_owned());
    let parts = [table, Some((*keys.first()?).to_owned()), inner];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("."))
}

/// An error at a position of the file.
pub(super) fn fault(text: &str, span: Range<usize>, message: &str) -> Error {
    let before = &text[..span.start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    Error::new(ErrorKind::Config, format!("{line}:{column}: {message}"))
}

/// A whole number that is in the file, or its default. `key`: with the table that it is in, for messages.
///
/// # Errors
/// It is not in the range.
pub(super) fn number(
    text: &str,
    key: &str,
    value: Option<&Spanned<i64>>,
    default: i64,
    range: RangeInclusive<i64>,
) -> Result<u64> {
    let Some(value) = value else { return Ok(default as u64) };
    let number = *value.get_ref();
    if !range.contains(&number) {
        let message = format!("{key}: {number}; it must be {} to {}", range.start(), range.end());
        return Err(fault(text, value.span(), &message));
    }
    Ok(number as u64)
}
