//! Lists of pins, for code that cannot be edited:
//!
//! ```toml
//! [pins]
//! riscv64 = ["traverse", "visit"]
//! aarch64 = { functions = ["encrypt"], strict = true }
//! ```

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;

use crate::{
    error::{Error, Result, read},
    isa::{index_by_name, names},
    link::Pin,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    pins: BTreeMap<String, Functions>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a list of functions, or { functions = [...], strict = true }")]
enum Functions {
    List(Vec<String>),
    Table(Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    functions: Vec<String>,
    #[serde(default)]
    strict: bool,
}

/// The pins in a file.
///
/// # Errors
/// It is missing, malformed, or names an unknown ISA.
pub fn load(path: &Path) -> Result<Vec<Pin>> {
    let text = String::from_utf8(read(path)?).map_err(|error| Error::data(format!("{}: {error}", path.display())))?;
    let origin = path.display().to_string();
    parse(&text, &origin)
}

fn parse(text: &str, origin: &str) -> Result<Vec<Pin>> {
    let file: File = toml::from_str(text).map_err(|error| Error::data(format!("{origin}: {error}")))?;
    let mut pins = Vec::new();
    for (name, functions) in file.pins {
        let isa = index_by_name(&name).ok_or_else(|| {
            Error::data(format!("{origin}: pins.{name}: no such instruction set; there are: {}", names()))
        })?;
        let (functions, strict) = match functions {
            Functions::List(functions) => (functions, false),
            Functions::Table(table) => (table.functions, table.strict),
        };
        pins.extend(functions.into_iter().map(|function| Pin { function, isa, strict, origin: origin.to_owned() }));
    }
    Ok(pins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_listed_by_isa() {
        let pins = parse("[pins]\nriscv64 = ['f', 'g']\naarch64 = ['h']", "pins.toml").unwrap();
        let pairs: Vec<_> = pins.iter().map(|pin| (pin.function.as_str(), pin.isa)).collect();
        assert_eq!(pairs, [("h", 1), ("f", 2), ("g", 2)]);
    }

    #[test]
    fn pins_can_be_strict() {
        let pins =
            parse("[pins]\nriscv64 = ['f']\naarch64 = { functions = ['h'], strict = true }", "pins.toml").unwrap();
        let pairs: Vec<_> = pins.iter().map(|pin| (pin.function.as_str(), pin.strict)).collect();
        assert_eq!(pairs, [("h", true), ("f", false)]);
        assert!(parse("[pins]\naarch64 = { strict = true }", "pins.toml").unwrap_err().message.contains("functions"));
    }

    #[test]
    fn an_unknown_isa_is_named_with_the_known_ones() {
        let error = parse("[pins]\nsparc = ['f']", "pins.toml").unwrap_err();
        assert_eq!(
            error.message,
            "pins.toml: pins.sparc: no such instruction set; there are: x86_64, aarch64, riscv64"
        );
    }
}
