//! What must be the same on all ISAs, and the errors that say what is not.

use std::collections::{BTreeSet, HashSet};

use super::{
    live::Live,
    module::{Module, Place, Relocation},
    pinning::function_name,
    targets::{Linkage, Segment, Target, Unit, UnitId},
};
use crate::{
    error::Result,
    isa::{ISAS, TARGETS},
};

/// A function whose address is kept may be called by any ISA, so all must have it, unless the program is without it for some.
pub fn check_kept(linkage: &Linkage, live: &Live) -> Vec<String> {
    let mut messages = Vec::new();
    for (id, isa) in &live.kept {
        let unit = linkage.units.get(*id);
        let Some(other) = unit.sections.iter().position(Option::is_none) else { continue };
        let name = function_name(linkage, *id);
        if !is_of_some(linkage, unit, &name, *isa) {
            let (file, one, two) = (&linkage.program.modules[unit.module].name, ISAS[*isa].name(), ISAS[other].name());
            messages.push(format!(
                "{file}: {one} keeps the address of {name}, which {two} has only inlined; \
                 declare {name} with __attribute__((used))"
            ));
        }
    }
    messages
}

/// Whether no source has a function for the ISAs that a unit lacks; `isa` has it.
fn is_of_some(linkage: &Linkage, unit: &Unit, name: &str, isa: usize) -> bool {
    let modules = &linkage.program.modules;
    let is_lone = |module: &Module| module.notes.lone.iter().any(|lone| lone == name);
    let image = &modules[unit.module].images[isa];
    let Some(symbol) = image.defined.get(name).map(|symbol| &image.symbols[*symbol]) else {
        return is_lone(&modules[unit.module]);
    };
    // No compiler leaves out what any file may call, but for inline functions. Another file may have those, or other ones of this name.
    let is_inline = matches!(symbol.place, Place::Section(index) if symbol.weak && image.sections[index].grouped);
    let lacking = (0..ISAS.len()).filter(|isa| unit.sections[*isa].is_none());
    (!is_inline || modules.iter().any(is_lone)) && lacking.into_iter().all(|isa| linkage.by_name(name, isa).is_none())
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

/// How a unit of data is on the ISAs that have it.
pub enum Sameness {
    /// The same: it exists once.
    Same,
    /// Different, and only code of its own file sees it: each ISA has its own.
    Own,
    /// Different, a constant without pointers that other files see: each ISA has its own. How it differs.
    OwnAndVisible(String),
    /// Different, and code of one ISA could see or change another's. How it differs.
    Different(String),
}

/// Compares a unit of data between the ISAs that have it.
///
/// # Errors
/// It refers to an undefined symbol.
pub fn compare(linkage: &Linkage, id: UnitId) -> Result<Sameness> {
    let unit = linkage.units.get(id);
    if unit.segment == Segment::Text {
        return Ok(Sameness::Same);
    }
    let mut all = Vec::new();
    for isa in (0..ISAS.len()).filter(|isa| unit.sections[*isa].is_some()) {
        all.push((isa, contents(unit, linkage, isa, |relocation| linkage.follow(unit.module, isa, relocation))?));
    }
    let Some((other, contents)) = all.iter().skip(1).find(|(_, contents)| *contents != all[0].1) else {
        return Ok(Sameness::Same);
    };
    // Not a part of a table, which is found by its ends.
    let is_constant = unit.segment == Segment::Rodata && unit.table().is_none();
    if is_constant && !has_global(linkage, unit) {
        return Ok(Sameness::Own);
    }
    let (first, before) = &all[0];
    let file = &linkage.program.modules[unit.module].name;
    let (one, two) = (ISAS[*first].name(), ISAS[*other].name());
    let message = format!("{file}: {} differs between {one} and {two}: {}", unit.title(), difference(before, contents));
    let has_pointers = all.iter().any(|(_, contents)| !contents.pointers.is_empty());
    Ok(if is_constant && !has_pointers { Sameness::OwnAndVisible(message) } else { Sameness::Different(message) })
}

/// Whether a unit of data differs between the ISAs. Symbols of other files need not be there.
pub fn differs(linkage: &Linkage, unit: &Unit) -> bool {
    let all = (0..ISAS.len()).filter(|isa| unit.sections[*isa].is_some()).map(|isa| {
        contents(unit, linkage, isa, |relocation| {
            let symbol = || linkage.program.modules[unit.module].images[isa].symbols[relocation.symbol].name.clone();
            let found = linkage.follow(unit.module, isa, relocation);
            Ok(found.unwrap_or_else(|_| (Target::Linker(symbol()), relocation.addend)))
        })
        .ok()
    });
    let all: Vec<Option<Contents>> = all.collect();
    all.windows(2).any(|two| two[0] != two[1])
}

/// What keeps the address of one of `own`, which each ISA has at an address of its own: constants that only their file sees become so, too; other
/// data cannot.
pub fn spread(linkage: &Linkage, live: &Live, own: &mut HashSet<UnitId>) -> Result<Vec<String>> {
    let mut messages = BTreeSet::new();
    let mut before = usize::MAX;
    while before != own.len() {
        before = own.len();
        for id in live.units.iter().filter(|id| linkage.units.get(**id).segment != Segment::Text) {
            let unit = linkage.units.get(*id);
            let Some(target) = target_among(linkage, unit, own)?.filter(|_| !own.contains(id)) else { continue };
            if unit.segment == Segment::Rodata && !has_global(linkage, unit) && unit.table().is_none() {
                own.insert(*id);
            } else {
                messages.insert(kept_address(linkage, unit.module, unit.title(), target));
            }
        }
    }
    for target in &live.got {
        if let Target::Unit(id, _) = target
            && own.contains(id)
        {
            let module = linkage.units.get(*id).module;
            messages.insert(kept_address(linkage, module, "the global offset table", *id));
        }
    }
    Ok(messages.into_iter().collect())
}

fn target_among(linkage: &Linkage, unit: &Unit, own: &HashSet<UnitId>) -> Result<Option<UnitId>> {
    for (isa, section) in unit.sections.iter().enumerate() {
        let Some(section) = *section else { continue };
        for relocation in &linkage.program.modules[unit.module].images[isa].sections[section].relocations {
            if let (Target::Unit(id, _), _) = linkage.follow(unit.module, isa, relocation)?
                && own.contains(&id)
            {
                return Ok(Some(id));
            }
        }
    }
    Ok(None)
}

fn kept_address(linkage: &Linkage, module: usize, keeper: &str, id: UnitId) -> String {
    let (file, title) = (&linkage.program.modules[module].name, linkage.units.get(id).title());
    format!("{file}: {keeper} keeps the address of {title}, which differs between instruction sets and so has several")
}

#[derive(PartialEq)]
struct Contents {
    size: u64,
    bytes: Vec<u8>,
    /// Offset, width in bytes (zero: not an absolute one), target and addend.
    pointers: Vec<(u64, u8, Target, i64)>,
}

fn contents(
    unit: &Unit,
    linkage: &Linkage,
    isa: usize,
    follow: impl Fn(&Relocation) -> Result<(Target, i64)>,
) -> Result<Contents> {
    let section = unit.sections[isa].unwrap_or_default();
    let section = &linkage.program.modules[unit.module].images[isa].sections[section];
    let mut contents = Contents { size: section.size, bytes: section.data.clone(), pointers: Vec::new() };
    for relocation in &section.relocations {
        let (target, addend) = follow(relocation)?;
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
