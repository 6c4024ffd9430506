//! Lists of pins, for code that cannot be edited:
//!
//! ```toml
//! [pins]
//! riscv64 = ["traverse", "visit"]
//! aarch64 = { functions = ["encrypt", "block.c:round", "sha_*"], strict = true }
//! ```
//!
//! A name alone is a function that all files see; behind `FILE:` it may be static. `*` stands for any letters.

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
        for entry in functions {
            let (file, function) =
                divide(&entry).map_err(|why| Error::data(format!("{origin}: pins.{name}: \"{entry}\": {why}")))?;
            pins.push(Pin { function, file, isa, strict, origin: origin.to_owned() });
        }
    }
    Ok(pins)
}

/// The file, if there is one, and the function of an entry.
fn divide(entry: &str) -> std::result::Result<(Option<String>, String), &'static str> {
    let (file, function) = entry.rsplit_once(':').map_or((None, entry), |(file, function)| (Some(file), function));
    if function.is_empty() || file == Some("") || entry.contains(char::is_whitespace) {
        return Err("expected FUNCTION or FILE:FUNCTION");
    }
    if entry.contains('/') {
        return Err("name the file without its folders");
    }
    Ok((file.map(str::to_owned), function.to_owned()))
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
    fn functions_are_named_with_their_file_or_without() {
        let of = |entry: &str| parse(&format!("[pins]\nriscv64 = ['{entry}']"), "pins.toml");
        let pin = &of("a.c:f*").unwrap()[0];
        assert_eq!((pin.file.as_deref(), pin.function.as_str()), (Some("a.c"), "f*"));
        assert!(pin.names("fx", true) && !pin.names("g", true) && pin.is_for("a.c") && !pin.is_for("b.c"));
        let pin = &of("f").unwrap()[0];
        assert!(pin.names("f", false) && !pin.names("f", true) && pin.is_for("a.c"));
        for wrong in ["", "a.c:", ":f", "src/a.c:f", "a f"] {
            let error = of(wrong).unwrap_err();
            assert!(error.message.starts_with(&format!("pins.toml: pins.riscv64: \"{wrong}\": ")), "{error}");
        }
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
