//! Quotes of figures in documents: a number, with or without a unit, and a comment that names the metric.
//!
//! `9.20 us<!-- =null_call_host_nxp_host_us -->` quotes a value, `18.3<!-- =null_call_host_nxp_host_us.reference -->` what it is compared
//! with, and `.target` what it is to reach. The number must be the recorded one, rounded to as many digits as it has. In a paragraph of docs/benchmarks.md that begins with
//! the word "Measured", every number with a unit must be such a quote.

use std::path::{Path, PathBuf};

use motet_error::Result;

use super::{Recorded, write_whole};
use crate::project::file_error;

const BEGIN: &str = "<!-- =";
const END: &str = " -->";
/// The document whose paragraphs that begin with "Measured" have nothing but quotes.
const STRICT: &str = "docs/benchmarks.md";
const UNITS: [&str; 9] = ["us", "ns", "ms", "s", "%", "MB", "MIPS", "times", "instructions"];

/// What documents say otherwise than the figures do, as `FILE:LINE: …`.
///
/// # Errors
/// A document cannot be read.
pub fn differences(project: &Path, all: &[(String, Recorded)]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in documents(project)? {
        let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
        let name = path.strip_prefix(project).unwrap_or(&path).display();
        found.extend(
            differences_in(&text, path.ends_with(STRICT), all)
                .into_iter()
                .map(|(line, what)| format!("{name}:{line}: {what}")),
        );
    }
    Ok(found)
}

/// Puts the recorded numbers into the documents' quotes, with as many digits as are quoted: what has changed, as `FILE:LINE: …`.
///
/// # Errors
/// A document cannot be read or written.
pub fn requote(project: &Path, all: &[(String, Recorded)]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in documents(project)? {
        let text = std::fs::read_to_string(&path).map_err(file_error(&path))?;
        let (text, changes) = requoted(&text, all);
        if !changes.is_empty() {
            write_whole(&path, &text)?;
        }
        let name = path.strip_prefix(project).unwrap_or(&path).display();
        found.extend(changes.into_iter().map(|(line, what)| format!("{name}:{line}: {what}")));
    }
    Ok(found)
}

/// Every document but the page of figures itself.
fn documents(project: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![project.join("docs")];
    let mut paths = vec![project.join("README.md"), project.join("ARCHITECTURE.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(file_error(&folder))? {
            let path = entry.map_err(file_error(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") && !path.ends_with("docs/figures.md")
            {
                paths.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

/// Line numbers, and what is wrong there.
fn differences_in(text: &str, strict: bool, all: &[(String, Recorded)]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_measured = false;
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        in_measured = strict && !line.is_empty() && (in_measured || before.is_empty() && line.starts_with("Measured"));
        before = line;
        let unquoted = if in_measured { unquoted_in(line) } else { Vec::new() };
        let wrong = quotes_in(line).into_iter().filter_map(|quote| check(&quote, all));
        found.extend(wrong.chain(unquoted).map(|what| (number + 1, what)));
    }
    found
}

/// A text with the recorded numbers; line numbers, and what has changed there.
fn requoted(text: &str, all: &[(String, Recorded)]) -> (String, Vec<(usize, String)>) {
    let (mut into, mut changes) = (String::new(), Vec::new());
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let mut copied = 0;
        for quote in quotes_in(line) {
            let Ok(recorded) = recorded(&quote, all) else { continue };
            if recorded == quote.number.replace(',', "") {
                continue;
            }
            let recorded = with_commas(&recorded);
            changes.push((number + 1, format!("{} is {recorded} instead of {}", quote.name, quote.number)));
            into += &line[copied..quote.at];
            into += &recorded;
            copied = quote.at + quote.number.len();
        }
        into += &line[copied..];
    }
    (into, changes)
}

/// A number with a comma before each three digits of its whole part.
fn with_commas(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, digits) = whole.split_at(whole.len() - whole.trim_start_matches('-').len());
    let is_first_of_three = |index: usize| index != 0 && (digits.len() - index).is_multiple_of(3);
    let digits = digits.char_indices().map(|(index, digit)| {
        let comma = if is_first_of_three(index) { "," } else { "" };
        format!("{comma}{digit}")
    });
    format!("{sign}{}{rest}", digits.collect::<String>())
}

struct Quote<'a> {
    number: &'a str,
    /// Where the number is in its line.
    at: usize,
    name: &'a str,
}

fn quotes_in(line: &str) -> Vec<Quote<'_>> {
    let mut quotes = Vec::new();
    let mut at = 0;
    while let Some(begin) = line[at..].find(BEGIN).map(|found| at + found) {
        let name = &line[begin + BEGIN.len()..];
        let name = &name[..name.find(END).unwrap_or(name.len())];
        // In a code span it is an example.
        if line[..begin].matches('`').count() % 2 == 0 {
            let before = line[..begin].trim_end_matches(is_of_unit).trim_end().len();
            let number = number_at_end(&line[at..before.max(at)]);
            quotes.push(Quote { number, at: before.max(at) - number.len(), name });
        }
        at = begin + BEGIN.len();
    }
    quotes
}

fn is_of_unit(character: char) -> bool {
    character.is_alphabetic() || character == '%'
}

/// The number at the end of a text; empty if there is none.
fn number_at_end(text: &str) -> &str {
    let is_digit = |character: char| character.is_ascii_digit() || ".,-".contains(character);
    text.rfind(|character| !is_digit(character)).map_or(text, |last| {
        let after = last + text[last..].chars().next().map_or(0, char::len_utf8);
        &text[after..]
    })
}

fn check(quote: &Quote<'_>, all: &[(String, Recorded)]) -> Option<String> {
    match recorded(quote, all) {
        Ok(recorded) if recorded == quote.number.replace(',', "") => None,
        Ok(recorded) => Some(format!("quotes {:?} for {}, which is {recorded}", quote.number, quote.name)),
        Err(what) => Some(what),
    }
}

/// What a quote should say, or what is wrong with its name.
fn recorded(quote: &Quote<'_>, all: &[(String, Recorded)]) -> std::result::Result<String, String> {
    let (metric, of) = quote.name.split_once('.').unwrap_or((quote.name, "value"));
    let Some(figure) = all.iter().flat_map(|(_, each)| &each.figures).find(|figure| figure.metric == metric) else {
        return Err(format!("no recorded figure is called {metric}"));
    };
    let value = match of {
        "value" => Some(figure.value),
        "reference" => figure.reference,
        "target" => figure.target,
        _ => None,
    };
    let value = value.ok_or_else(|| format!("{metric} has no {of}"))?;
    let decimals = quote.number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    Ok(format!("{value:.decimals$}"))
}

/// Numbers with units that are not quotes.
fn unquoted_in(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(begin) = rest.find(|character: char| character.is_ascii_digit()) {
        let number = &rest[begin..];
        let len = number
            .find(|character: char| !character.is_ascii_digit() && !".,".contains(character))
            .unwrap_or(number.len());
        let (number, after) = number.split_at(len);
        let word = after.trim_start_matches(' ');
        let unit = UNITS
            .iter()
            .find(|unit| word.strip_prefix(**unit).is_some_and(|next| !next.starts_with(char::is_alphanumeric)));
        let is_word = rest[..begin].ends_with(|character: char| character.is_alphanumeric() || character == '_');
        if let Some(unit) = unit.filter(|_| !is_word)
            && !word[unit.len()..].starts_with(BEGIN)
        {
            found.push(format!("{number} {unit} is not a quote: <!-- =METRIC --> says of what"));
        }
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{figure, run},
        *,
    };

    fn wrong(text: &str) -> Vec<(usize, String)> {
        let mut recorded = Recorded::default();
        let alone = super::super::Figure { reference: None, target: None, ..figure("alone", -19302.4) };
        recorded.take(run("1"), vec![figure("call_us", 9.2049), alone], true);
        differences_in(text, true, &[("x".into(), recorded)])
    }

    #[test]
    fn rounded_values_and_references_may_be_quoted() {
        let text = "A call takes 9.20 us<!-- =call_us --> (9.2<!-- =call_us -->; Flick: 18.3 us<!-- =call_us.reference -->),\n-19,302<!-- =alone -->, as in `1<!-- =other -->`";
        assert_eq!(wrong(text), []);
    }

    #[test]
    fn quotes_are_mended_where_they_are_wrong() {
        let mut all = Recorded::default();
        all.take(run("1"), vec![figure("call_us", 9.2049), figure("alone", -19302.4)], true);
        let all = [("x".to_owned(), all)];
        let text = "8.83 us<!-- =call_us --> and 9.2<!-- =call_us -->,\n-1 %<!-- =alone -->; `1<!-- =call_us -->`, 5 us<!-- =other -->\n";
        let (mended, changes) = requoted(text, &all);
        assert_eq!(
            mended,
            "9.20 us<!-- =call_us --> and 9.2<!-- =call_us -->,\n-19,302 %<!-- =alone -->; `1<!-- =call_us -->`, 5 us<!-- =other -->\n"
        );
        let changes: Vec<usize> = changes.into_iter().map(|(line, _)| line).collect();
        assert_eq!(changes, [1, 2]);
        assert_eq!(["1", "-123.5", "1234", "1234567.25"].map(with_commas), ["1", "-123.5", "1,234", "1,234,567.25"]);
    }

    #[test]
    fn other_values_are_told_with_their_line() {
        let what = |text: &str| wrong(text).pop().map(|(line, what)| format!("{line}: {what}")).unwrap_or_default();
        assert_eq!(what("\n9.21 us<!-- =call_us -->"), "2: quotes \"9.21\" for call_us, which is 9.20");
        assert_eq!(what("9.3<!-- =call_us -->"), "1: quotes \"9.3\" for call_us, which is 9.2");
        assert_eq!(
            what("18<!-- =call_us.reference -->, then none<!-- =call_us -->"),
            "1: quotes \"\" for call_us, which is 9"
        );
        assert_eq!(what("1<!-- =alone.reference -->"), "1: alone has no reference");
        assert_eq!(what("1<!-- =alone.target -->"), "1: alone has no target");
        assert_eq!(what("1<!-- =call_us.other -->"), "1: call_us has no other");
        assert_eq!(what("13<!-- =call_us.target -->"), "1: quotes \"13\" for call_us.target, which is 12");
        assert_eq!(what("1<!-- =other -->"), "1: no recorded figure is called other");
    }

    #[test]
    fn measured_paragraphs_have_quotes_only() {
        let text = "It takes 5 us.\n\nMeasured (QEMU 10.0.2, 1000 calls): 9.20 us<!-- =call_us -->, formerly\n3 % more in `a_5_us`.\n\nAnd 6 us.";
        assert_eq!(wrong(text), [(4, "3 % is not a quote: <!-- =METRIC --> says of what".to_owned())]);
    }
}
