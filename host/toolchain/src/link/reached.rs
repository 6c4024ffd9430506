//! Types that differ between instruction sets, and that code of several of them reaches.

use std::collections::{BTreeSet, HashSet};

use super::{
    live::Live,
    module::{Module, Place},
    plan::Pinned,
    prototype::Debug,
    shapes::{Shapes, function, variable, way},
    targets::{Linkage, UnitId},
};
use crate::{
    error::{Error, Result},
    isa::ISAS,
};

/// What reaches such a type from one instruction set to another: arguments and results of pinned functions, and variables, which all share but those of
/// `private` units, which each has its own of. A message for each type.
///
/// # Errors
/// The debugger's sections of a file are malformed.
pub fn check(
    linkage: &Linkage,
    live: &Live,
    private: &HashSet<UnitId>,
    pinned: &[(usize, &Pinned)],
) -> Result<Vec<String>> {
    let mut messages = Vec::new();
    if pinned.is_empty() {
        return Ok(messages);
    }
    for (number, module) in
        linkage.program.modules.iter().enumerate().filter(|(_, module)| !module.notes.differing.is_empty())
    {
        let Some(shapes) = shapes_of(module)? else { continue };
        let functions = pinned.iter().filter(|(of, _)| *of == number).map(|(_, pin)| {
            (function(&pin.name), format!("{}, which is pinned to {}", pin.name, ISAS[pin.isa].name()))
        });
        let variables = shared(linkage, live, private, number).into_iter();
        let variables =
            variables.map(|name| (variable(&name), format!("the variable {name}, which all instruction sets share")));
        let mut known = BTreeSet::new();
        for (from, who) in functions.chain(variables) {
            let found =
                way(&shapes, &from, |name| module.notes.differing.get_key_value(name).map(|(name, _)| name.as_str()));
            if let Some((name, way)) = found.filter(|(name, _)| known.insert(*name)) {
                let by = if way.is_empty() { String::new() } else { format!(" ({})", way.join(", ")) };
                let how = &module.notes.differing[name];
                messages.push(format!("{}: {who}, reaches a type that differs{by}\n  {how}", module.name));
            }
        }
    }
    Ok(messages)
}

fn shapes_of(module: &Module) -> Result<Option<Shapes>> {
    for (isa, image) in module.images.iter().enumerate() {
        if let Some(debug) = Debug::of(image, isa) {
            let malformed = |error| Error::data(format!("{}: malformed debugger's section: {error}", module.name));
            return debug.shapes().map(Some).map_err(malformed);
        }
    }
    Ok(None)
}

/// The variables of a file that are in the program once for all instruction sets.
fn shared(linkage: &Linkage, live: &Live, private: &HashSet<UnitId>, number: usize) -> BTreeSet<String> {
    let image = &linkage.program.modules[number].images[0];
    let is_live = |section: usize| {
        live.units.iter().filter(|id| !private.contains(id)).any(|id| {
            let unit = linkage.units.get(*id);
            unit.module == number && unit.sections[0] == Some(section)
        })
    };
    let variables = image.symbols.iter().filter(|symbol| symbol.kind == object::elf::STT_OBJECT);
    let placed = variables.filter(|symbol| match symbol.place {
        Place::Section(section) => is_live(section),
        Place::Common => true,
        Place::Undefined | Place::Absolute => false,
    });
    placed.map(|symbol| symbol.name.clone()).collect()
}
