//! The numbers below `[model]` of a machine description, each by a name: `core.host.l1i.size`.
//!
//! A name is the path of keys; an element of an array is called after the islands and ranges that it is about:
//! `access.host.board-memory.memory_ns`.

use motet_coherence::Bytes;
use motet_error::{Error, ErrorKind, Result};
use toml::{Table, Value};

/// Keys that say what an element of an array is about.
const NAMING: [&str; 4] = ["island", "islands", "name", "range"];

/// A machine description whose numbers can be changed.
#[derive(Clone, Debug)]
pub struct Keys {
    file: Table,
}

impl Keys {
    /// Reads a description.
    ///
    /// # Errors
    /// It is not TOML, or has no `[model]`.
    pub fn parse(text: &str) -> Result<Self> {
        let file: Table = text.parse().map_err(|error| Error::new(ErrorKind::Config, format!("{error}")))?;
        if !file.contains_key("model") {
            return Err(Error::new(ErrorKind::Config, "no [model]"));
        }
        Ok(Self { file })
    }

    /// Names and values of all numbers; sizes are in bytes.
    pub fn all(&self) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        let mut copy = self.file.clone();
        walk(&mut copy["model"], String::new(), &mut |name, value| {
            found.extend(number(value).map(|number| (name.to_owned(), number)));
        });
        found
    }

    /// A number by its name.
    ///
    /// # Errors
    /// There is none of this name: the message lists those that there are.
    pub fn get(&self, name: &str) -> Result<f64> {
        let all = self.all();
        let found = all.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| *value).ok_or_else(|| unknown(name, &all))
    }

    /// Changes a number, and returns what it is then: whole, where fractions cannot be written.
    ///
    /// # Errors
    /// As [`Keys::get`].
    pub fn set(&mut self, name: &str, to: f64) -> Result<f64> {
        let mut changed = None;
        walk(&mut self.file["model"], String::new(), &mut |other, value| {
            if other == name && number(value).is_some() {
                *value = if value.is_float() { Value::Float(to) } else { Value::Integer(to.round() as i64) };
                changed = number(value);
            }
        });
        changed.ok_or_else(|| unknown(name, &self.all()))
    }

    /// The description, without its comments.
    pub fn text(&self) -> String {
        self.file.to_string()
    }
}

fn unknown(name: &str, all: &[(String, f64)]) -> Error {
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    Error::new(ErrorKind::Config, format!("no number `{name}` below [model]; there are: {}", names.join(", ")))
}

/// Whatever is no number is a word: a name, a policy, a place in the pool.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(integer) => Some(*integer as f64),
        Value::Float(float) => Some(*float),
        Value::String(text) => text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// Visits all that is neither table nor array, with its name.
fn walk(value: &mut Value, name: String, visit: &mut dyn FnMut(&str, &mut Value)) {
    let below = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    match value {
        Value::Table(table) => {
            let names = |key: &str, value: &Value| NAMING.contains(&key) && !words(value).is_empty();
            for (key, value) in table.iter_mut().filter(|(key, value)| !names(key, value)) {
                walk(value, below(key), visit);
            }
        }
        Value::Array(array) => {
            for value in array {
                let part = value.as_table().map(about).unwrap_or_default();
                walk(value, below(&part), visit);
            }
        }
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {
            visit(&name, value);
        }
    }
}

/// A word, or words with dots between them; empty for anything else.
fn words(value: &Value) -> String {
    match value.as_array() {
        Some(array) => array.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("."),
        None => value.as_str().unwrap_or_default().to_owned(),
    }
}

/// What an element of an array is about; `all` without a word of it.
fn about(table: &Table) -> String {
    let parts: Vec<String> = NAMING.iter().filter_map(|key| table.get(*key)).map(words).collect();
    if parts.is_empty() { "all".into() } else { parts.join(".") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[pool]
size = \"64MiB\"
[[island]]
name = \"a\"
poll_us = 5
[model]
doorbell_ns = 2000
[[model.link.pair]]
islands = [\"a\", \"b\"]
snoop_data_ns = 7
[[model.core]]
island = \"a\"
cpi = 1.0
l1i = { size = \"32KiB\", ways = 8 }
[[model.core]]
cpi_class = { float = 2.5 }
[[model.range]]
name = \"near\"
end = \"32MiB\"
[[model.access]]
island = \"a\"
range = \"near\"
data = \"uncached\"
memory_ns = 715
";

    #[test]
    fn every_number_of_the_model_has_a_name() {
        let expected = [
            ("access.a.near.memory_ns", 715.0),
            ("core.a.cpi", 1.0),
            ("core.a.l1i.size", 32768.0),
            ("core.a.l1i.ways", 8.0),
            ("core.all.cpi_class.float", 2.5),
            ("doorbell_ns", 2000.0),
            ("link.pair.a.b.snoop_data_ns", 7.0),
            ("range.near.end", 33_554_432.0),
        ];
        assert_eq!(Keys::parse(TEXT).unwrap().all(), expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn one_number_changes_and_no_other() {
        let keys = Keys::parse(TEXT).unwrap();
        for (name, value) in keys.all() {
            let mut changed = keys.clone();
            let to = changed.set(&name, 2.0 * value).unwrap();
            let again = Keys::parse(&changed.text()).unwrap().all();
            let expected: Vec<_> =
                keys.all().into_iter().map(|(n, v)| (n.clone(), if n == name { to } else { v })).collect();
            assert_eq!((to, again), (2.0 * value, expected), "{name}");
        }
        // Whole where fractions cannot be written.
        let mut keys = keys;
        assert_eq!(keys.set("access.a.near.memory_ns", 357.5).unwrap(), 358.0);
        assert_eq!(keys.set("core.a.cpi", 0.5).unwrap(), 0.5);
    }

    #[test]
    fn what_is_not_there_is_an_error_that_lists_what_is() {
        let mut keys = Keys::parse(TEXT).unwrap();
        for name in ["", "core.a", "core.b.cpi", "access.a.near.data", "pool.size", "doorbell"] {
            let error = keys.set(name, 1.0).unwrap_err();
            assert!(error.message.contains("core.a.l1i.ways"), "{name}: {error}");
            assert!(keys.get(name).is_err());
        }
        assert_eq!(keys.text(), Keys::parse(TEXT).unwrap().text());
        assert!(Keys::parse("[pool]\nsize = 1\n").is_err() && Keys::parse("[").is_err());
    }
}
