//! Signatures of pinned functions: which registers a call across ISAs carries (`motet_abi::fat`).
//!
//! Refused is what the calling conventions of the ISAs put into different kinds of registers, or partly into memory:
//! System V ABI, 3.2.3; AAPCS64, 6.8.2; RISC-V psABI, 2.1 and 2.2.

use motet_abi::fat::{FLOATS_MAX, Signature, WORDS_MAX, Word};

use super::{
    module::Module,
    prototype::{Debug, Prototype, Type},
};
use crate::{
    error::{Error, Result},
    isa::ISAS,
};

/// Integer words that are in registers on every ISA.
const REGISTER_WORDS: usize = 6;
const DOUBLE: u32 = 1;
const SINGLE: u32 = 2;

/// The signature of a function that `module` defines; [`Signature::UNKNOWN`] if its source has no types (assembly).
///
/// # Errors
/// It takes or gives what cannot be carried, or the debugger's sections are malformed.
pub fn of_function(module: &Module, function: &str) -> Result<Signature> {
    for (isa, image) in module.images.iter().enumerate() {
        let Some(debug) = Debug::of(image, isa) else { continue };
        let malformed = |error| {
            let message = format!("{} ({}): malformed debugger's section: {error}", module.name, ISAS[isa].name());
            Error::data(message)
        };
        if let Some(prototype) = debug.prototype(function).map_err(malformed)? {
            return of_prototype(&prototype).map_err(|why| {
                let message = "cannot be pinned, because calls of it cannot go to another instruction set";
                Error::data(format!("{}: {function} {message}: {why}", prototype.place))
            });
        }
    }
    Ok(Signature::UNKNOWN)
}

/// The signature of a function; the error says why there is none.
fn of_prototype(prototype: &Prototype) -> std::result::Result<Signature, String> {
    if prototype.variadic {
        return Err("it takes a variable number of arguments".into());
    }
    let mut carried = Carried::default();
    for (index, parameter) in prototype.parameters.iter().enumerate() {
        let what = format!("argument {}", index + 1);
        if prototype.promoted && *parameter == (Type::Float { bytes: 4 }) {
            return Err(format!("{what} is a float, but the function has no prototype; declare its arguments' types"));
        }
        let before = carried.words.len();
        carried.add(&what, parameter)?;
        // A structure in two words must not be divided between registers and memory.
        if carried.words.len() - before == 2 && carried.words.len() > REGISTER_WORDS {
            return Err(format!("{what} is a structure that does not fit into the registers; pass it earlier"));
        }
    }
    if carried.words.len() > WORDS_MAX {
        return Err(format!("its arguments have {} integer words, at most {WORDS_MAX}", carried.words.len()));
    }
    if carried.floats.len() > FLOATS_MAX {
        return Err(format!("it takes {} floating-point arguments, at most {FLOATS_MAX}", carried.floats.len()));
    }
    let mut result = Carried::default();
    if prototype.result != Type::Void {
        result.add("its result", &prototype.result)?;
    }
    Ok(Signature {
        words: packed(&carried.words, 4),
        floats: packed(&carried.floats, 2) as u32,
        result: packed(&result.words, 4) as u32 | (packed(&result.floats, 2) as u32) << 8,
    })
}

/// Codes of `bits` each, the first in the lowest.
fn packed(codes: &[u32], bits: usize) -> u64 {
    codes.iter().enumerate().map(|(index, code)| u64::from(*code) << (index * bits)).sum()
}

/// Codes of what is carried in registers, in order.
#[derive(Default)]
struct Carried {
    words: Vec<u32>,
    floats: Vec<u32>,
}

impl Carried {
    fn add(&mut self, what: &str, value: &Type) -> std::result::Result<(), String> {
        match value {
            Type::Void => return Err(format!("{what} has no type")),
            Type::Integer { bytes, signed } => {
                let bits = 8 * *bytes as u32;
                self.words.push(if *signed { Word::Signed(bits) } else { Word::Unsigned(bits) }.code());
            }
            Type::Float { bytes } => self.floats.push(float(*bytes)),
            Type::Aggregate { bytes, parts } => self.add_aggregate(what, *bytes, parts)?,
            Type::Impossible(kind) => return Err(format!("{what} is {kind}")),
        }
        Ok(())
    }

    fn add_aggregate(&mut self, what: &str, bytes: u64, parts: &[(u64, Type)]) -> std::result::Result<(), String> {
        if bytes > 16 {
            return Err(format!("{what} is a structure of {bytes} bytes, at most 16; pass a pointer to it"));
        }
        let is_float = |part: &&(u64, Type)| matches!(part.1, Type::Float { .. });
        let floats = parts.iter().filter(is_float).count();
        if floats == 0 {
            if bytes > 0 && parts.is_empty() {
                return Err(format!("{what} is an empty class"));
            }
            let is_packed = |(at, part): &(u64, Type)| matches!(part, Type::Integer { bytes, .. } if at % bytes != 0);
            if parts.iter().any(is_packed) {
                return Err(format!("{what} is a packed structure; pass a pointer to it"));
            }
            self.words.extend(std::iter::repeat_n(Word::Whole.code(), (bytes / 8) as usize));
            self.words.extend((bytes % 8 != 0).then_some(Word::Part((bytes % 8) as u32).code()));
            return Ok(());
        }
        let expected: &[u64] = match parts {
            [(0, Type::Float { bytes: 4 })] if bytes == 4 => &[4],
            [(0, Type::Float { bytes: 8 })] if bytes == 8 => &[8],
            [(0, Type::Float { bytes: 8 }), (8, Type::Float { bytes: 8 })] => &[8, 8],
            _ if floats < parts.len() => {
                return Err(format!(
                    "{what} is a structure of integers and floating-point numbers; pass a pointer to it"
                ));
            }
            _ => return Err(format!("{what} is a structure of several floats; use doubles or pass a pointer to it")),
        };
        self.floats.extend(expected.iter().map(|bytes| float(*bytes)));
        Ok(())
    }
}

fn float(bytes: u64) -> u32 {
    if bytes == 4 { SINGLE } else { DOUBLE }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: Type = Type::Integer { bytes: 4, signed: true };
    const LONG: Type = Type::Integer { bytes: 8, signed: true };
    const BOOL: Type = Type::Integer { bytes: 1, signed: false };
    const FLOAT: Type = Type::Float { bytes: 4 };
    const REAL: Type = Type::Float { bytes: 8 };

    fn structure(bytes: u64, parts: &[(u64, Type)]) -> Type {
        Type::Aggregate { bytes, parts: parts.to_vec() }
    }

    fn signature(result: Type, parameters: &[Type]) -> std::result::Result<Signature, String> {
        let parameters = parameters.to_vec();
        of_prototype(&Prototype { result, parameters, variadic: false, promoted: false, place: String::new() })
    }

    #[test]
    fn words_and_floats_are_numbered_separately() {
        let got = signature(FLOAT, &[LONG, REAL, INT, FLOAT, BOOL]).unwrap();
        assert_eq!(got, Signature { words: 0x361, floats: 0b1001, result: 0x200 });
        assert_eq!(signature(Type::Void, &[]).unwrap(), Signature { words: 0, floats: 0, result: 0 });
    }

    #[test]
    fn small_structures_are_words_or_doubles() {
        let pair = structure(16, &[(0, LONG), (8, INT)]);
        let reals = structure(16, &[(0, REAL), (8, REAL)]);
        let got = signature(pair.clone(), &[pair.clone(), reals.clone(), structure(8, &[(0, INT), (4, INT)])]).unwrap();
        assert_eq!(got, Signature { words: 0x111, floats: 0b0101, result: 0x11 });
        assert_eq!(signature(reals, &[]).unwrap().result, 0x500);
        let late = [&[INT, INT, INT, INT, INT][..], &[pair]].concat();
        assert!(signature(Type::Void, &late).unwrap_err().contains("argument 6 is a structure that does not fit"));
    }

    #[test]
    fn what_conventions_place_differently_is_refused_with_the_reason() {
        let cases = [
            (structure(8, &[(0, FLOAT), (4, FLOAT)]), "several floats"),
            (structure(16, &[(0, FLOAT), (8, REAL)]), "several floats"),
            (structure(16, &[(0, REAL), (8, INT)]), "integers and floating-point"),
            (structure(24, &[]), "24 bytes"),
            (structure(5, &[(0, BOOL), (1, INT)]), "packed"),
            (structure(1, &[]), "empty"),
            (Type::Impossible("__int128".into()), "argument 1 is __int128"),
        ];
        for (parameter, message) in cases {
            let error = signature(Type::Void, std::slice::from_ref(&parameter)).unwrap_err();
            assert!(error.contains(message), "{error}");
            assert!(signature(parameter, &[]).unwrap_err().contains("result"));
        }
        assert!(signature(Type::Void, &[LONG; 17].map(|word| word)).unwrap_err().contains("17 integer words"));
        assert!(signature(Type::Void, &vec![REAL; 9]).unwrap_err().contains("9 floating-point"));
        assert!(signature(Type::Void, &vec![LONG; 16]).is_ok());
    }
}
