//! Keys of a machine file by their paths: `model.core.x86.l3.size`.
//!
//! An element of an array of tables is called after the islands and ranges that it is about (`island.x86.cores`,
//! `model.access.x86.near.memory_ns`), by its number from 0, or `*`: all of them.

use toml::{Table, Value};

/// Keys that say what an element of an array is about.
const NAMING: [&str; 4] = ["island", "islands", "name", "range"];

/// Gives the keys at `path` another value. A key that is not there is added to a table that is.
///
/// # Errors
/// In a sentence: nothing has this path.
pub fn set(file: &mut Table, path: &str, value: &Value) -> Result<(), String> {
    match in_table(file, path, value) {
        0 => Err(format!("the machine file has no key `{path}`: {}", known(file, path))),
        _ => Ok(()),
    }
}

/// How many values have been changed.
fn in_table(table: &mut Table, path: &str, value: &Value) -> usize {
    let Some((first, rest)) = path.split_once('.') else {
        table.insert(path.to_owned(), value.clone());
        return usize::from(!path.is_empty());
    };
    table.get_mut(first).map_or(0, |below| in_value(below, rest, value))
}

fn in_value(below: &mut Value, path: &str, value: &Value) -> usize {
    match below {
        Value::Table(table) => in_table(table, path, value),
        Value::Array(array) => {
            let elements = array.iter_mut().enumerate().filter_map(|(index, element)| {
                let table = element.as_table_mut()?;
                let names = [about(table), index.to_string(), "*".into()];
                let rest = names.iter().find_map(|name| path.strip_prefix(name.as_str())?.strip_prefix('.'))?;
                Some(in_table(table, rest, value))
            });
            elements.sum()
        }
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => 0,
    }
}

/// What an element of an array is about, with dots between words.
fn about(table: &Table) -> String {
    let words = |value: &Value| match value.as_array() {
        Some(array) => array.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("."),
        None => value.as_str().unwrap_or_default().to_owned(),
    };
    let parts: Vec<String> = NAMING.iter().filter_map(|key| table.get(*key)).map(words).collect();
    if parts.is_empty() { "all".into() } else { parts.join(".") }
}

/// What there is where the path leaves what there is.
fn known(file: &Table, path: &str) -> String {
    let mut below: Vec<(String, &Value)> = file.iter().map(|(key, value)| (key.clone(), value)).collect();
    let mut rest = path;
    while let Some((next, value)) = below.iter().find_map(|(name, value)| {
        let next = rest.strip_prefix(name.as_str())?.strip_prefix('.')?;
        Some((next, *value))
    }) {
        rest = next;
        below = match (value.as_table(), value.as_array()) {
            (Some(table), _) => table.iter().map(|(key, value)| (key.clone(), value)).collect(),
            (None, Some(array)) => {
                array.iter().filter_map(|element| Some((about(element.as_table()?), element))).collect()
            }
            (None, None) => return "a number or a word has nothing below it".into(),
        };
    }
    let names: Vec<&str> = below.iter().map(|(name, _)| name.as_str()).collect();
    format!("there are {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[pool]
size = '64MiB'
[[island]]
name = 'a'
cores = 1
[[island]]
name = 'b'
cores = 1
[model]
doorbell_ns = 2000
[[model.core]]
island = 'a'
l3 = { size = '1MiB', ways = 16 }
[[model.access]]
island = 'a'
range = 'near'
memory_ns = 7
";

    fn changed(path: &str) -> Result<Table, String> {
        let mut table: Table = TEXT.parse().unwrap();
        set(&mut table, path, &Value::Integer(9)).map(|()| table)
    }

    #[test]
    fn each_key_has_a_path() {
        assert_eq!(changed("model.doorbell_ns").unwrap()["model"]["doorbell_ns"].as_integer(), Some(9));
        assert_eq!(changed("pool.size").unwrap()["pool"]["size"].as_integer(), Some(9));
        assert_eq!(changed("island.b.cores").unwrap()["island"][1]["cores"].as_integer(), Some(9));
        assert_eq!(changed("island.0.cores").unwrap()["island"][0]["cores"].as_integer(), Some(9));
        assert_eq!(changed("model.core.a.l3.ways").unwrap()["model"]["core"][0]["l3"]["ways"].as_integer(), Some(9));
        assert_eq!(
            changed("model.access.a.near.memory_ns").unwrap()["model"]["access"][0]["memory_ns"].as_integer(),
            Some(9)
        );
        let both = changed("island.*.cores").unwrap();
        assert!((0..2).all(|index| both["island"][index]["cores"].as_integer() == Some(9)));
        // What the file does not say yet.
        assert_eq!(changed("model.device_ns").unwrap()["model"]["device_ns"].as_integer(), Some(9));
        assert_eq!(changed("policy").unwrap()["policy"].as_integer(), Some(9));
    }

    #[test]
    fn a_path_that_leads_nowhere_is_told_with_what_there_is() {
        for (path, why) in [
            ("island.c.cores", "there are a, b"),
            ("modle.doorbell_ns", "there are island, model, pool"),
            ("model.core.b.l3.size", "there are a"),
            ("model.doorbell_ns.x", "has nothing below it"),
            ("", "there are"),
        ] {
            let error = changed(path).unwrap_err();
            assert!(error.contains(&format!("`{path}`")) && error.contains(why), "{path}: {error}");
        }
    }
}
