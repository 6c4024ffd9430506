//! What is reachable from the start of the program and from its pins, on any ISA.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    module::Relocation,
    pinning::{Pin, pin_of_section},
    pool::PieceId,
    targets::{Linkage, Segment, Target, UnitId},
    unwind,
};
use crate::{
    error::{Error, Result},
    isa::{ISAS, TARGETS},
};

/// What is reachable.
#[derive(Default)]
pub struct Live {
    /// Functions and data.
    pub units: BTreeSet<UnitId>,
    /// Merged constants.
    pub pieces: BTreeSet<PieceId>,
    /// What code finds through the global offset table.
    pub got: BTreeSet<Target>,
    /// Variables that several files share.
    pub commons: BTreeSet<String>,
    /// Functions whose addresses are kept, each with the first ISA whose code or data does so.
    pub kept: BTreeMap<UnitId, usize>,
}

/// Finds what `roots` and `pins` need.
///
/// # Errors
/// A symbol that is needed is undefined.
pub fn find(linkage: &Linkage, roots: &[String], pins: &[Pin]) -> Result<Live> {
    Marker::mark(linkage, roots, pins)
}

/// Functions whose addresses are kept by files of which `is_one` says yes to the index, each with the first ISA whose code or data does so.
pub fn kept(linkage: &Linkage, is_one: impl Fn(usize) -> bool) -> BTreeMap<UnitId, usize> {
    let mut kept = BTreeMap::new();
    for (index, unit) in linkage.units.list.iter().enumerate().filter(|(_, unit)| is_one(unit.module)) {
        for (isa, section) in unit.sections.iter().enumerate() {
            let Some(section) = *section else { continue };
            let section = &linkage.program.modules[unit.module].images[isa].sections[section];
            if section.is_of_exceptions() {
                continue;
            }
            for relocation in &section.relocations {
                // What is undefined here may be defined elsewhere.
                let Ok((target, addend)) = linkage.follow(unit.module, isa, relocation) else { continue };
                if let Some(function) = kept_address(linkage, UnitId(index), isa, relocation, (&target, addend)) {
                    kept.entry(function).or_insert(isa);
                }
            }
        }
    }
    kept
}

struct Marker<'a> {
    linkage: &'a Linkage,
    live: Live,
    work: Vec<UnitId>,
    /// Undefined symbols, each with who refers to it.
    errors: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> Marker<'a> {
    fn mark(linkage: &'a Linkage, roots: &[String], pins: &[Pin]) -> Result<Live> {
        let mut marker = Marker { linkage, live: Live::default(), work: Vec::new(), errors: BTreeMap::new() };
        for (index, unit) in linkage.units.list.iter().enumerate() {
            if unit.retained || pin_of_section(&unit.name).is_some() {
                marker.reach(Target::Unit(UnitId(index), 0));
            }
        }
        for name in roots.iter().chain(pins.iter().filter(|pin| pin.is_plain()).map(|pin| &pin.function)) {
            for isa in 0..ISAS.len() {
                if let Some(target) = linkage.by_name(name, isa) {
                    marker.reach(target);
                }
            }
        }
        while let Some(id) = marker.work.pop() {
            marker.scan(id);
        }
        if marker.errors.is_empty() { Ok(marker.live) } else { Err(undefined_symbols(&marker.errors)) }
    }

    fn reach(&mut self, target: Target) {
        match target {
            Target::Unit(id, _) => {
                if self.live.units.insert(id) {
                    self.work.push(id);
                }
            }
            Target::Piece(id, _) => {
                self.live.pieces.insert(id);
            }
            Target::Common(name) => {
                self.live.commons.insert(name);
            }
            Target::Linker(name) => self.reach_table(&name),
            Target::Absolute(_) | Target::Missing | Target::Dropped => {}
        }
    }

    fn reach_table(&mut self, symbol: &str) {
        let Some(table) = ["__start_", "__stop_"].iter().find_map(|prefix| symbol.strip_prefix(prefix)) else { return };
        let linkage = self.linkage;
        for (index, unit) in linkage.units.list.iter().enumerate() {
            if unit.table() == Some(table) {
                self.reach(Target::Unit(UnitId(index), 0));
            }
        }
    }

    fn scan(&mut self, id: UnitId) {
        let linkage = self.linkage;
        let unit = linkage.units.get(id);
        for (isa, section) in unit.sections.iter().enumerate() {
            let Some(index) = *section else { continue };
            let image = &linkage.program.modules[unit.module].images[isa];
            let section = &image.sections[index];
            let frames = image.frames.get(&index).into_iter().flatten();
            let relocations = section.relocations.iter().map(|relocation| (relocation, section.is_of_exceptions()));
            let of_frames =
                frames.flat_map(|frame| unwind::relocations(image, frame)).map(|relocation| (relocation, true));
            for (relocation, of_exceptions) in relocations.chain(of_frames) {
                match linkage.follow(unit.module, isa, relocation) {
                    Ok((target, addend)) => {
                        if is_got(isa, relocation) {
                            self.live.got.insert(target.clone());
                        }
                        if !of_exceptions {
                            let function = kept_address(linkage, id, isa, relocation, (&target, addend));
                            self.live.kept.extend(
                                function.filter(|id| !self.live.kept.contains_key(id)).map(|function| (function, isa)),
                            );
                        }
                        self.reach(target);
                    }
                    Err(error) => {
                        let file = &linkage.program.modules[unit.module].name;
                        let referrer = format!("{file}: {}", unit.title());
                        self.errors.entry(error.message).or_default().insert(referrer);
                    }
                }
            }
        }
    }
}

/// The function whose address a relocation keeps, so that it may be called by any ISA.
fn kept_address(
    linkage: &Linkage,
    from: UnitId,
    isa: usize,
    relocation: &Relocation,
    (target, addend): (&Target, i64),
) -> Option<UnitId> {
    let Target::Unit(to, offset) = target else { return None };
    // Relative to the end of an instruction on x86-64; other places in a function are those of its switches.
    let place = offset.cast_signed() + addend;
    let is_absolute = TARGETS[isa].absolute.iter().any(|(r_type, _)| *r_type == relocation.r_type);
    let is_start = place == 0 || place == -4 && !is_absolute;
    let is_text = linkage.units.get(*to).segment == Segment::Text;
    let is_call = TARGETS[isa].calls.contains(&relocation.r_type);
    (is_start && is_text && *to != from && !is_call).then_some(*to)
}

fn undefined_symbols(errors: &BTreeMap<String, BTreeSet<String>>) -> Error {
    let mut lines = Vec::new();
    for (error, referrers) in errors {
        lines.push(error.clone());
        lines.extend(referrers.iter().take(3).map(|referrer| format!("  used by {referrer}")));
        if referrers.len() > 3 {
            lines.push(format!("  and {} more", referrers.len() - 3));
        }
    }
    Error::data(lines.join("\n"))
}

/// Whether a relocation goes through the global offset table.
pub fn is_got(isa: usize, relocation: &Relocation) -> bool {
    relocation.indirect || TARGETS[isa].got.iter().any(|(from, _)| *from == relocation.r_type)
}
