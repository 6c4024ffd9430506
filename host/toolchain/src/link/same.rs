//! What must be the same on all ISAs, and the errors that say what is not.

use super::{
    live::Live,
    module::Place,
    targets::{Linkage, Segment, Target, Unit, UnitId},
};
use crate::{
    error::{Error, Result},
    isa::{ISAS, TARGETS},
};

/// A function whose address is kept may be called by any ISA, so all must have it.
pub fn check_kept(linkage: &Linkage, live: &Live) -> Vec<String> {
    let mut messages = Vec::new();
    for (id, isa) in &live.kept {
        let unit = linkage.units.get(*id);
        if let Some(other) = unit.sections.iter().position(Option::is_none) {
            let file = &linkage.program.modules[unit.module].name;
            let (one, two, title) = (ISAS[*isa].name(), ISAS[other].name(), unit.title());
            messages.push(format!(
                "{file}: {one} keeps the address of {title}, which {two} has only inlined; \
                 declare {title} with __attribute__((used))"
            ));
        }
    }
    messages
}

/// Each function and datum that other files see begins at the same place of its section on all ISAs.
pub fn check_offsets(linkage: &Linkage, live: &Live) -> Vec<String> {
    let mut messages = Vec::new();
    for (number, module) in linkage.program.modules.iter().enumerate() {
        for (name, symbol) in &module.images[0].defined {
            let kind = module.images[0].symbols[*symbol].kind;
            let Target::Unit(unit, offset) = linkage.local(number, 0, *symbol) else { continue };
            if !live.units.contains(&unit) || !matches!(kind, object::elf::STT_FUNC | object::elf::STT_OBJECT) {
                continue;
            }
            for (isa, image) in module.images.iter().enumerate().skip(1) {
                let Some(symbol) = image.defined.get(name) else { continue };
                if linkage.local(number, isa, *symbol) != Target::Unit(unit, offset) {
                    let (file, section) = (&module.name, &linkage.units.get(unit).name);
                    let (one, two) = (ISAS[0].name(), ISAS[isa].name());
                    let message = "begins elsewhere in its section";
                    let advice = "give each function a section of its own (.section .text.NAME)";
                    messages.push(format!("{file}: {name} {message} ({section}) on {two} than on {one}; {advice}"));
                }
            }
        }
    }
    messages.sort_unstable();
    messages
}

/// Whether a unit of data has the same contents on all ISAs that have it.
///
/// # Errors
/// It does not, and could be seen by code of another ISA.
pub fn is_same_on_all(linkage: &Linkage, id: UnitId) -> Result<bool> {
    let unit = linkage.units.get(id);
    if unit.segment == Segment::Text {
        return Ok(true);
    }
    let mut first: Option<(usize, Contents)> = None;
    for isa in (0..ISAS.len()).filter(|isa| unit.sections[*isa].is_some()) {
        let contents = contents(linkage, unit, isa)?;
        match &first {
            None => first = Some((isa, contents)),
            Some((_, same)) if *same == contents => {}
            // Not a part of a table, which is found by its ends.
            Some(_) if unit.segment == Segment::Rodata && !has_global(linkage, unit) && unit.table().is_none() => {
                return Ok(false);
            }
            Some((other, before)) => {
                let file = &linkage.program.modules[unit.module].name;
                let (one, two) = (ISAS[*other].name(), ISAS[isa].name());
                let why = difference(before, &contents);
                return Err(Error::data(format!("{file}: {} differs between {one} and {two}: {why}", unit.title())));
            }
        }
    }
    Ok(true)
}

#[derive(PartialEq)]
struct Contents {
    size: u64,
    bytes: Vec<u8>,
    /// Offset, width in bytes (zero: not an absolute one), target and addend.
    pointers: Vec<(u64, u8, Target, i64)>,
}

fn contents(linkage: &Linkage, unit: &Unit, isa: usize) -> Result<Contents> {
    let section = unit.sections[isa].unwrap_or_default();
    let section = &linkage.program.modules[unit.module].images[isa].sections[section];
    let mut contents = Contents { size: section.size, bytes: section.data.clone(), pointers: Vec::new() };
    for relocation in &section.relocations {
        let (target, addend) = linkage.follow(unit.module, isa, relocation)?;
        let width = TARGETS[isa]
            .absolute
            .iter()
            .find(|(r_type, _)| *r_type == relocation.r_type)
            .map_or(0, |(_, width)| *width);
        contents.pointers.push((relocation.offset, width, target, addend));
    }
    contents.pointers.sort();
    // An ISA's kind of relative pointer says nothing about equality with another's.
    if contents.pointers.iter().any(|(_, width, ..)| *width == 0) {
        contents.pointers.push((u64::MAX, u8::try_from(isa).unwrap_or(u8::MAX), Target::Dropped, 0));
    }
    Ok(contents)
}

fn has_global(linkage: &Linkage, unit: &Unit) -> bool {
    linkage.program.modules[unit.module].images.iter().enumerate().any(|(isa, image)| {
        image.symbols.iter().any(|symbol| {
            symbol.global && matches!(symbol.place, Place::Section(section) if Some(section) == unit.sections[isa])
        })
    })
}

fn difference(one: &Contents, two: &Contents) -> String {
    if one.size != two.size {
        return format!("{} and {} bytes", one.size, two.size);
    }
    if let Some(offset) = one.bytes.iter().zip(&two.bytes).position(|(one, two)| one != two) {
        return format!("at byte {offset}");
    }
    let pointer = one.pointers.iter().zip(&two.pointers).find(|(one, two)| one != two);
    pointer.map_or_else(|| "other pointers".to_owned(), |(one, _)| format!("the pointer at byte {}", one.0))
}
