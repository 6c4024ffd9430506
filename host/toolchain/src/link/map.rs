//! What people ask a linker about a program: what lies where, and out of which file (`-Map`), who defines and wants a symbol (`--cref`, `-y`), what is
//! linked (`-t`), and what is left out (`--print-gc-sections`).

use std::{collections::BTreeMap, fmt::Write};

use super::{
    Wishes,
    module::{Module, Place},
    plan::Plan,
    resolve::Program,
    targets::{Segment, UnitId},
};
use crate::{
    error::{Error, Result, write_or_print},
    isa::{ISAS, PerIsa},
};

/// Writes what is asked for of a program that is linked.
///
/// # Errors
/// A file cannot be written.
pub fn write(plan: &Plan, wishes: &Wishes) -> Result<()> {
    if wishes.shows_left_out {
        write_or_print(None, left_out(plan).as_bytes())?;
    }
    let mut map = if wishes.map.is_some() { text(plan) } else { String::new() };
    if wishes.cross_references {
        map.push_str(&cross_references(&plan.linkage.program));
    }
    if map.is_empty() { Ok(()) } else { write_or_print(wishes.map.as_deref(), map.as_bytes()) }
}

/// What is asked for of the files that are linked: their names, and which of them have certain symbols.
pub fn trace(program: &Program, wishes: &Wishes) -> String {
    let mut text = String::new();
    for module in &program.modules {
        if wishes.trace {
            let _ = writeln!(text, "{}", module.name);
        }
        for name in &wishes.traced {
            for (uses, what) in [(defined(module), "definition of"), (wanted(module), "reference to")] {
                if let Some(isas) = uses.get(name.as_str()) {
                    let _ = writeln!(text, "{}: {what} {name}{}", module.name, only(isas));
                }
            }
        }
    }
    text
}

/// Checks that symbols are defined which nothing needs to refer to.
///
/// # Errors
/// One is not.
pub fn check_required(program: &Program, required: &[String]) -> Result<()> {
    let is_missing = |name: &&String| !program.definitions.contains_key(*name) && !program.symbols.contains_key(*name);
    match required.iter().find(is_missing) {
        Some(name) => Err(Error::data(format!("undefined symbol: {name}\n  wanted by --require-defined"))),
        None => Ok(()),
    }
}

/// The names that a file has in one way, each with the ISAs whose code has it.
type Names<'a> = BTreeMap<&'a str, PerIsa<bool>>;

fn defined(module: &Module) -> Names<'_> {
    names(module, |place| place != Place::Undefined)
}

fn wanted(module: &Module) -> Names<'_> {
    names(module, |place| place == Place::Undefined)
}

fn names(module: &Module, is_one: impl Fn(Place) -> bool) -> Names<'_> {
    let mut names = Names::new();
    for (isa, image) in module.images.iter().enumerate() {
        for symbol in image.symbols.iter().filter(|symbol| symbol.global && !symbol.name.is_empty()) {
            if is_one(symbol.place) {
                names.entry(&symbol.name).or_default()[isa] = true;
            }
        }
    }
    names
}

/// Says of which ISAs, unless of all.
fn only(isas: &PerIsa<bool>) -> String {
    let names: Vec<&str> = (0..ISAS.len()).filter(|isa| isas[*isa]).map(|isa| ISAS[isa].name()).collect();
    if names.len() == ISAS.len() { String::new() } else { format!(" ({})", names.join(" ")) }
}

/// A line for each symbol, with the file that defines it first, and below it the others, as GNU's linker has them.
fn cross_references(program: &Program) -> String {
    const COLUMN: usize = 50;
    let mut files: BTreeMap<&str, [Vec<String>; 2]> = BTreeMap::new();
    for module in &program.modules {
        for (uses, order) in [(defined(module), 0), (wanted(module), 1)] {
            for (name, isas) in uses {
                files.entry(name).or_default()[order].push(format!("{}{}", module.name, only(&isas)));
            }
        }
    }
    let mut text = format!("\nCross Reference Table\n\n{:COLUMN$}File\n", "Symbol");
    for (name, files) in files {
        for (index, file) in files.concat().into_iter().enumerate() {
            // A name that reaches the column is followed by a space nevertheless.
            let name = if index == 0 { format!("{name} ") } else { String::new() };
            let _ = writeln!(text, "{name:COLUMN$}{file}");
        }
    }
    text
}

/// A line for each function and datum that nothing reaches.
fn left_out(plan: &Plan) -> String {
    let units = plan.linkage.units.list.iter().enumerate();
    let gone = units.filter(|(index, _)| !plan.addresses.contains_key(&UnitId(*index)));
    gone.fold(String::new(), |mut text, (_, unit)| {
        let file = &plan.linkage.program.modules[unit.module].name;
        let _ = writeln!(text, "removing unused section '{}' in file '{file}'", unit.name);
        text
    })
}

/// The map, a line for each function and datum in the order of addresses.
fn text(plan: &Plan) -> String {
    let mut map = String::from("One address on all instruction sets, unless a line names one.\n");
    for segment in Segment::ALL {
        let (start, end) = plan.ranges[&segment];
        let _ = writeln!(map, "\n{start:#012x} {:#10x} {}", end - start, segment.name());
        let mut rows: Vec<(u64, String)> = Vec::new();
        for id in &plan.order {
            let unit = plan.linkage.units.get(*id);
            if unit.segment == segment {
                let file = &plan.linkage.program.modules[unit.module].name;
                let addresses = &plan.addresses[id];
                let is_one = addresses.iter().all(|address| *address == addresses[0]);
                for (isa, address) in addresses.iter().enumerate().filter(|(isa, _)| unit.sections[*isa].is_some()) {
                    let of = if is_one { String::new() } else { format!(" ({})", ISAS[isa].name()) };
                    rows.push((*address, format!("{:#10x}   {} {file}{of}", unit.size, unit.title())));
                }
            }
        }
        if segment == Segment::Bss {
            rows.extend(plan.commons.iter().map(|(name, address)| (*address, format!("{:>10}   {name} (common)", ""))));
        }
        rows.sort();
        rows.dedup();
        rows.iter().for_each(|(address, row)| {
            let _ = writeln!(map, "{address:#012x} {row}");
        });
    }
    map
}
