//! Sizes as machine descriptions write them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de};

/// A number of bytes, written `"64MiB"`, `"32KiB"`, `"1GiB"` or as a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("\"{text}\" is not a memory size; write it like \"64MiB\" or \"1GiB\"");
        let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
        let (digits, shift) = unit.unwrap_or((text, 0));
        let number: u64 = digits.trim_end().parse().map_err(|_| bad())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, shift)| self.0 != 0 && self.0 % (1 << shift) == 0) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a memory size like \"64MiB\" or \"1GiB\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Bytes, E> {
                u64::try_from(number).map(Bytes).map_err(|_| E::custom("a memory size cannot be negative"))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Bytes, E> {
                Ok(Bytes(number))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn sizes_print_as_they_are_written() {
        for text in ["64MiB", "1GiB", "3KiB"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
        for text in ["99999999999GiB", "-1", "1.5GiB", "MiB", "1 MB", ""] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
