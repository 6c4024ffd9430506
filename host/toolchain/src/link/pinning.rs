//! Which functions are pinned, and which variables lie near an island: by marks in the source, and by lists.

use std::collections::{BTreeMap, BTreeSet};

use motet_abi::fat::Near;
use motet_layout::IslandId;
use wildmatch::WildMatch;

use super::{
    live::Live,
    module::{Place, is_array},
    signature,
    targets::{Linkage, Segment, Target, UnitId},
};
use crate::{
    error::{Error, Result},
    isa::{ISAS, index_by_name},
    mentions::{self, refused_constructor},
};

/// How `MOTET_ON` marks a function; the ISA's name and a dot follow.
const PIN_PREFIX: &str = ".text.motet.on.";
/// How `MOTET_ONLY` does.
const STRICT_PREFIX: &str = ".text.motet.only.";
/// How `MOTET_DATA_ON` marks a variable; an ISA's name or an island's number and a dot follow.
pub const NEAR_PREFIX: &str = ".data.motet.on.";

/// A function to be called on cores of one ISA only.
#[derive(Clone, Debug)]
pub struct Pin {
    /// Its symbol, or a pattern.
    pub function: String,
    /// The name of its source, or a pattern; without it, it is a function that all files see.
    pub file: Option<String>,
    /// Index in [`ISAS`].
    pub isa: usize,
    /// Never on another ISA, even if no core of this one is there.
    pub strict: bool,
    /// Who wants it, for messages.
    pub origin: String,
}

impl Pin {
    /// Whether it names a function of a file that it [is for](Self::is_for); `is_local`: only this file sees the function.
    pub fn names(&self, function: &str, is_local: bool) -> bool {
        (self.file.is_some() || !is_local) && WildMatch::new(&self.function).matches(function)
    }

    /// Whether it is about functions of a source with this name, without folders.
    pub fn is_for(&self, source: &str) -> bool {
        self.file.as_ref().is_none_or(|file| WildMatch::new(file).matches(source))
    }

    /// Whether it names one function by its symbol.
    pub fn is_plain(&self) -> bool {
        self.file.is_none() && !self.function.contains(['*', '?'])
    }

    /// As the list has it.
    pub fn entry(&self) -> String {
        self.file.as_ref().map_or_else(|| self.function.clone(), |file| format!("{file}:{}", self.function))
    }
}

/// How a function is pinned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Index in [`ISAS`].
    pub isa: usize,
    /// Never on another ISA.
    pub strict: bool,
}

/// Whether a section's name pins what is in it; the name of the ISA, and whether strictly.
pub fn pin_of_section(name: &str) -> Option<(&str, bool)> {
    let marks = [(PIN_PREFIX, false), (STRICT_PREFIX, true)];
    let (rest, strict) = marks.iter().find_map(|(prefix, strict)| Some((name.strip_prefix(prefix)?, *strict)))?;
    Some((rest.split('.').next().unwrap_or_default(), strict))
}

/// Pinned units, with the ISA of each. Pins of functions that the program lacks are noted.
pub fn find_pins(
    linkage: &Linkage,
    live: &BTreeSet<UnitId>,
    pins: &[Pin],
    notes: &mut Vec<String>,
) -> Result<BTreeMap<UnitId, Wish>> {
    let modules = linkage.program.modules.iter().enumerate();
    mentions::check(modules.flat_map(|(number, module)| module.notes.mentions.iter().map(move |it| (number, it))))?;
    let mut found = BTreeMap::new();
    for id in live {
        let unit = linkage.units.get(*id);
        let Some((name, strict)) = pin_of_section(&unit.name) else { continue };
        let file = &linkage.program.modules[unit.module].name;
        let isa = index_by_name(name).ok_or_else(|| {
            let (known, macro_name) = (crate::isa::names(), if strict { "MOTET_ONLY" } else { "MOTET_ON" });
            Error::data(format!("{file}: {macro_name}(\"{name}\"): no such instruction set; there are: {known}"))
        })?;
        found.insert(*id, Wish { isa, strict });
    }
    let mut missing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pin in pins {
        let units = named_by(linkage, live, pin)?;
        if units.is_empty() {
            missing.entry(&pin.origin).or_default().push(pin.entry());
        }
        for id in units {
            add_listed(linkage, &mut found, id, pin)?;
        }
    }
    for (origin, names) in missing {
        let advice = "a static one is named FILE:FUNCTION";
        notes.push(format!("note: {origin}: the program has no function {} ({advice})", names.join(", ")));
    }
    check_constructors(linkage, live, &found)?;
    for id in found.keys() {
        check_pin(linkage, *id)?;
    }
    Ok(found)
}

/// Functions whose addresses are kept and that one ISA alone has: where functions are pinned, another ISA may be given such an address, and
/// its call goes there. Those that calls cannot reach have an instruction that traps in their place.
pub fn add_lone(linkage: &Linkage, live: &Live, pins: &mut BTreeMap<UnitId, Wish>) {
    if pins.is_empty() {
        return;
    }
    for id in live.kept.keys() {
        let unit = linkage.units.get(*id);
        let mut having = (0..ISAS.len()).filter(|isa| unit.sections[*isa].is_some());
        let (Some(isa), None) = (having.next(), having.next()) else { continue };
        let is_alone = functions_of(linkage, *id, isa).len() == 1;
        let module = &linkage.program.modules[unit.module];
        if is_alone && signature::of_function(module, &function_name(linkage, *id)).is_ok() {
            pins.entry(*id).or_insert(Wish { isa, strict: true });
        }
    }
}

fn add_listed(linkage: &Linkage, found: &mut BTreeMap<UnitId, Wish>, id: UnitId, pin: &Pin) -> Result<()> {
    let function = pin.entry();
    if linkage.units.get(id).segment != Segment::Text {
        return Err(Error::data(format!("{}: pin of {function}: it is data, not a function", pin.origin)));
    }
    let known = found.get(&id).copied();
    if let Some(other) = known.filter(|other: &Wish| other.isa != pin.isa) {
        let (one, two) = (ISAS[other.isa].name(), ISAS[pin.isa].name());
        let name = function_name(linkage, id);
        return Err(Error::data(format!("{}: {name} is pinned to {one} and to {two}; choose one", pin.origin)));
    }
    let strict = pin.strict || known.is_some_and(|known| known.strict);
    found.insert(id, Wish { isa: pin.isa, strict });
    Ok(())
}

/// The functions of the program that an entry of a list names.
fn named_by(linkage: &Linkage, live: &BTreeSet<UnitId>, pin: &Pin) -> Result<Vec<UnitId>> {
    if pin.is_plain() {
        let target = linkage.by_name(&pin.function, pin.isa);
        return Ok(target
            .and_then(|target| if let Target::Unit(id, 0) = target { Some(id) } else { None })
            .into_iter()
            .collect());
    }
    let mut units = Vec::new();
    for id in live.iter().filter(|id| linkage.units.get(**id).segment == Segment::Text) {
        let unit = linkage.units.get(*id);
        let module = &linkage.program.modules[unit.module];
        // A pattern is for what the user has written: `str*` would take half of the C library to another core.
        if module.is_runtime {
            continue;
        }
        let is_local = |name: &str| !module.images[0].defined.contains_key(name);
        let named = functions_of(linkage, *id, 0).into_iter().find(|name| pin.names(name, is_local(name)));
        let Some(name) = named.filter(|_| module.source().is_some_and(|source| pin.is_for(source))) else { continue };
        let is_prepared = module.notes.mentions.iter().any(|mention| mention.is_local && mention.function == name);
        if is_local(&name) && !is_prepared {
            let (file, origin) = (&module.name, &pin.origin);
            let message = "was compiled without this list: give --pins when compiling, too, since it is static";
            return Err(Error::data(format!("{origin}: pin of {}: {name} of {file} {message}", pin.entry())));
        }
        units.push(*id);
    }
    Ok(units)
}

/// What runs before and after `main` cannot be pinned.
fn check_constructors(linkage: &Linkage, live: &BTreeSet<UnitId>, pins: &BTreeMap<UnitId, Wish>) -> Result<()> {
    let arrays = live.iter().map(|id| linkage.units.get(*id)).filter(|unit| is_array(&unit.name));
    for unit in arrays {
        for (isa, section) in unit.sections.iter().enumerate() {
            let image = &linkage.program.modules[unit.module].images[isa];
            let relocations = section.map_or(&[][..], |section| &image.sections[section].relocations);
            for relocation in relocations {
                let (Target::Unit(id, _), _) = linkage.follow(unit.module, isa, relocation)? else { continue };
                if pins.contains_key(&id) {
                    let (module, name) = (linkage.units.get(id).module, function_name(linkage, id));
                    return Err(refused_constructor(&linkage.program.modules[module].name, &name));
                }
            }
        }
    }
    Ok(())
}

/// Variables that are to lie near an island.
pub fn find_near(linkage: &Linkage, live: &BTreeSet<UnitId>) -> Result<BTreeMap<Near, BTreeSet<UnitId>>> {
    let mut found: BTreeMap<Near, BTreeSet<UnitId>> = BTreeMap::new();
    for id in live {
        let unit = linkage.units.get(*id);
        let Some(name) = unit.name.strip_prefix(NEAR_PREFIX).and_then(|rest| rest.split('.').next()) else { continue };
        let island = name.parse().ok().and_then(IslandId::from_raw).map(Near::Island);
        let near = island.or_else(|| index_by_name(name).map(|isa| Near::Isa(ISAS[isa]))).ok_or_else(|| {
            let (file, known) = (&linkage.program.modules[unit.module].name, crate::isa::names());
            let last = motet_layout::ISLANDS_MAX - 1;
            Error::data(format!(
                "{file}: MOTET_DATA_ON(\"{name}\"): neither an instruction set ({known}) nor an island (0 to {last})"
            ))
        })?;
        let functions = symbols_of(linkage, *id, object::elf::STT_FUNC);
        if !functions.is_empty() {
            let file = &linkage.program.modules[unit.module].name;
            let message = "is a function: MOTET_DATA_ON is for variables, MOTET_ON is for functions";
            return Err(Error::data(format!("{file}: {functions} {message}")));
        }
        found.entry(near).or_default().insert(*id);
    }
    Ok(found)
}

/// The names of the symbols of a kind in a unit, as its primary code has them.
fn symbols_of(linkage: &Linkage, id: UnitId, kind: object::elf::SymbolType) -> String {
    let unit = linkage.units.get(id);
    let symbols = linkage.program.modules[unit.module].images[0].symbols.iter();
    let is_in = |place| matches!(place, Place::Section(section) if Some(section) == unit.sections[0]);
    let names = symbols.filter(|symbol| symbol.kind == kind && is_in(symbol.place)).map(|symbol| symbol.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Functions that return once more when their caller's frame has changed, or in another process.
const TWICE: [&str; 7] = ["__jump_here", "setjmp", "__setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "vfork"];

fn check_pin(linkage: &Linkage, id: UnitId) -> Result<()> {
    let unit = linkage.units.get(id);
    let file = &linkage.program.modules[unit.module].name;
    if unit.segment != Segment::Text {
        let message = "is a variable: MOTET_ON and MOTET_ONLY are for functions, MOTET_DATA_ON is for variables";
        return Err(Error::data(format!("{file}: {} {message}", symbols_of(linkage, id, object::elf::STT_OBJECT))));
    }
    let functions = functions_of(linkage, id, 0);
    if functions.len() != 1 {
        let names = functions.join(", ");
        return Err(Error::data(format!(
            "{file}: section {} must hold one function to be pinned, but has: {names}",
            unit.name
        )));
    }
    if TWICE.contains(&functions[0].as_str()) {
        let message = "cannot be pinned, because it returns twice; pin a function that calls it";
        return Err(Error::data(format!("{file}: {} {message}", functions[0])));
    }
    match unit.sections.iter().position(Option::is_none) {
        None => Ok(()),
        Some(isa) => {
            Err(Error::data(format!("{file}: pinned function {} has no code for {}", functions[0], ISAS[isa].name())))
        }
    }
}

/// The names of the functions in a unit of text. Several names of one address count once.
fn functions_of(linkage: &Linkage, id: UnitId, isa: usize) -> Vec<String> {
    let unit = linkage.units.get(id);
    let image = &linkage.program.modules[unit.module].images[isa];
    let mut functions: BTreeMap<u64, String> = BTreeMap::new();
    for symbol in &image.symbols {
        if symbol.kind == object::elf::STT_FUNC
            && let Place::Section(section) = symbol.place
            && Some(section) == unit.sections[isa]
        {
            functions.entry(symbol.value).or_insert_with(|| symbol.name.clone());
        }
    }
    functions.into_values().collect()
}

pub fn function_name(linkage: &Linkage, id: UnitId) -> String {
    let name = (0..ISAS.len()).find_map(|isa| functions_of(linkage, id, isa).into_iter().next());
    name.unwrap_or_else(|| linkage.units.get(id).title().to_owned())
}
