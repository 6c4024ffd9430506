//! Types that differ between instruction sets, and that code of several of them reaches.

use std::collections::{BTreeSet, HashSet};

use super::{
    live::{self, Live},
    module::{Module, Place},
    pinning,
    plan::Pinned,
    prototype::Debug,
    shapes::{Shapes, function, inside, variable, way},
    targets::{Linkage, UnitId},
};
use crate::{
    error::{Error, Result},
    isa::ISAS,
};

/// What an object file refers to if it calls `motet_call_on`, which is inline (`motet.h`).
const CALLS_ON: &str = "__motet_crosses";

/// What reaches such a type from one instruction set to another: arguments and results of pinned functions, functions that `motet_call_on` may call, and
/// variables, which all share but those of `private` units, which each has its own of. A message for each type.
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
    let callers = callers(linkage);
    if pinned.is_empty() && callers.is_empty() {
        return Ok(messages);
    }
    let called: Vec<(usize, String)> = live::kept(linkage, |module| callers.contains(&module))
        .into_keys()
        .filter(|id| live.units.contains(id))
        .map(|id| (linkage.units.get(id).module, pinning::function_name(linkage, id)))
        .collect();
    for (number, module) in
        linkage.program.modules.iter().enumerate().filter(|(_, module)| !module.notes.differing.is_empty())
    {
        let Some(shapes) = shapes_of(module)? else { continue };
        let functions = pinned.iter().filter(|(of, _)| *of == number).map(|(_, pin)| {
            (function(&pin.name), format!("{}, which is pinned to {}", pin.name, ISAS[pin.isa].name()))
        });
        let called = called.iter().filter(|(of, name)| *of == number && takes_one_address(&shapes, name));
        let called = called.flat_map(|(_, name)| {
            [function(name), inside(name)].map(|from| (from, format!("{name}, which motet_call_on may call")))
        });
        let variables = shared(linkage, live, private, number).into_iter();
        let variables =
            variables.map(|name| (variable(&name), format!("the variable {name}, which all instruction sets share")));
        let mut known = BTreeSet::new();
        for (from, who) in functions.chain(called).chain(variables) {
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

/// The user's files that call functions on an island.
fn callers(linkage: &Linkage) -> HashSet<usize> {
    let calls = |module: &Module| {
        let mut symbols = module.images.iter().flat_map(|image| &image.symbols);
        symbols.any(|symbol| symbol.place == Place::Undefined && symbol.name == CALLS_ON)
    };
    let modules = linkage.program.modules.iter().enumerate();
    modules.filter(|(_, module)| !module.is_runtime && calls(module)).map(|(index, _)| index).collect()
}

/// Whether a function may be one for `motet_call_on`: it takes a pointer and gives one.
fn takes_one_address(shapes: &Shapes, name: &str) -> bool {
    shapes.get(&function(name)).is_some_and(|shape| shape.takes_one_address)
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
