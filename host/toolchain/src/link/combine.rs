//! One relocatable object for an ISA, with every section of the program copied to its place.

use std::collections::HashMap;

use object::{
    BinaryFormat, Endianness, FileFlags, RelocationFlags, SectionFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope, elf,
    write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection},
};

use super::{
    live::is_got,
    module::{self, Kind, Section},
    plan::{Location, Plan, SEGMENT_ALIGN},
    targets::{Segment, Target},
};
use crate::{
    error::{Error, Result},
    isa::{ISAS, TARGETS},
};

/// The object of ISA number `isa`, with the debugger's sections if `debug`.
///
/// # Errors
/// The object cannot be written.
pub fn combine(plan: &Plan, isa: usize, debug: bool) -> Result<Vec<u8>> {
    let mut combiner = Combiner::new(plan, isa);
    for id in &plan.order {
        let unit = plan.linkage.units.get(*id);
        let Some(index) = unit.sections[isa] else { continue };
        let section = &plan.linkage.program.modules[unit.module].images[isa].sections[index];
        let address = plan.addresses[id][isa];
        combiner.copy(unit.segment, address, &section.data);
        let place = Placed { module: unit.module, section, base: address - plan.ranges[&unit.segment].0 };
        combiner.relocate(combiner.segments[&unit.segment], &place)?;
    }
    combiner.add_pool();
    combiner.add_got()?;
    combiner.add_unwind()?;
    if debug {
        combiner.add_debug()?;
    }
    combiner.finish()
}

struct Combiner<'a> {
    plan: &'a Plan,
    isa: usize,
    object: Object<'static>,
    segments: HashMap<Segment, SectionId>,
    bytes: HashMap<Segment, Vec<u8>>,
    labels: HashMap<(usize, usize), SymbolId>,
    missing: Option<SymbolId>,
    absolute: HashMap<u64, SymbolId>,
}

/// A section of a module at its place.
struct Placed<'a> {
    module: usize,
    section: &'a Section,
    /// In the section of the combined object; modulo 2⁶⁴, if only a part of the section has a place.
    base: u64,
}

impl<'a> Combiner<'a> {
    fn new(plan: &'a Plan, isa: usize) -> Self {
        let target = &TARGETS[isa];
        let mut object = Object::new(BinaryFormat::Elf, target.architecture, Endianness::Little);
        object.flags =
            FileFlags::Elf { os_abi: elf::ELFOSABI_NONE, abi_version: 0, e_flags: elf::FileFlags(target.elf_flags) };
        let mut segments = HashMap::new();
        let mut bytes = HashMap::new();
        for segment in Segment::ALL {
            let (start, end) = plan.ranges[&segment];
            let (kind, fill) = match segment {
                Segment::Rodata => (SectionKind::ReadOnlyData, 0),
                Segment::Text => (SectionKind::Text, target.trap),
                Segment::Data => (SectionKind::Data, 0),
                Segment::Bss => (SectionKind::UninitializedData, 0),
            };
            let section = object.add_section(Vec::new(), segment.name().into(), kind);
            segments.insert(segment, section);
            if segment == Segment::Bss {
                object.append_section_bss(section, end - start, SEGMENT_ALIGN);
            } else {
                let size = usize::try_from(end - start).unwrap_or(usize::MAX);
                bytes.insert(segment, vec![fill; size]);
            }
        }
        let (labels, absolute) = (HashMap::new(), HashMap::new());
        Self { plan, isa, object, segments, bytes, labels, missing: None, absolute }
    }

    fn copy(&mut self, segment: Segment, address: u64, data: &[u8]) {
        if let Some(bytes) = self.bytes.get_mut(&segment)
            && let Ok(start) = usize::try_from(address - self.plan.ranges[&segment].0)
        {
            bytes[start..start + data.len()].copy_from_slice(data);
        }
    }

    fn relocate(&mut self, into: SectionId, place: &Placed<'_>) -> Result<()> {
        self.relocate_some(into, place, &place.section.relocations)
    }

    fn relocate_some(&mut self, into: SectionId, place: &Placed<'_>, relocations: &[module::Relocation]) -> Result<()> {
        for relocation in relocations {
            let (symbol, addend, r_type) = self.target(into, place, relocation)?;
            let offset = place.base.wrapping_add(relocation.offset);
            self.add(into, Relocation { offset, symbol, addend, flags: flags(r_type) })?;
        }
        Ok(())
    }

    /// The symbol, the addend and the type of a relocation in the combined object.
    fn target(
        &mut self,
        into: SectionId,
        place: &Placed<'_>,
        relocation: &module::Relocation,
    ) -> Result<(SymbolId, i64, u32)> {
        let target = &TARGETS[self.isa];
        if target.labels.contains(&relocation.r_type) {
            return Ok((self.label(into, place, relocation), relocation.addend, relocation.r_type));
        }
        let (found, addend) = match self.plan.linkage.follow(place.module, self.isa, relocation) {
            Ok(found) => found,
            // Only the debugger's sections may mention what does not exist.
            Err(_) if place.section.kind == Kind::Debug => (Target::Dropped, 0),
            Err(error) => return Err(error),
        };
        if let Some(address) = self.plan.got.get(&found).filter(|_| is_got(self.isa, relocation)) {
            let r_type =
                target.got.iter().find(|(from, _)| *from == relocation.r_type).map_or(relocation.r_type, |(_, to)| *to);
            let (symbol, offset) = self.symbol(Location::Segment(Segment::Rodata, *address));
            return Ok((symbol, offset + addend, r_type));
        }
        let (symbol, offset) = self.symbol(self.plan.locate(&found, self.isa));
        Ok((symbol, offset + addend, relocation.r_type))
    }

    /// A symbol, and what to add to reach `location`.
    fn symbol(&mut self, location: Location) -> (SymbolId, i64) {
        match location {
            Location::Segment(segment, address) => {
                let section = self.segments[&segment];
                (self.object.section_symbol(section), (address - self.plan.ranges[&segment].0).cast_signed())
            }
            Location::Absolute(address) => {
                let object = &mut self.object;
                let symbol = self.absolute.entry(address).or_insert_with(|| {
                    let name = format!("motet.absolute.{address:x}");
                    object.add_symbol(new_symbol(name, address, SymbolSection::Absolute))
                });
                (*symbol, 0)
            }
            Location::Missing => {
                let object = &mut self.object;
                let symbol = self.missing.get_or_insert_with(|| {
                    let mut symbol = new_symbol("motet.missing".to_owned(), 0, SymbolSection::Undefined);
                    symbol.weak = true;
                    symbol.scope = SymbolScope::Unknown;
                    object.add_symbol(symbol)
                });
                (*symbol, 0)
            }
        }
    }

    /// The place of the other instruction of a pair.
    fn label(&mut self, into: SectionId, place: &Placed<'_>, relocation: &module::Relocation) -> SymbolId {
        let symbol = &self.plan.linkage.program.modules[place.module].images[self.isa].symbols[relocation.symbol];
        let object = &mut self.object;
        *self.labels.entry((place.module, relocation.symbol)).or_insert_with(|| {
            let name = format!(".Lmotet.{}.{}", place.module, relocation.symbol);
            object.add_symbol(new_symbol(name, place.base + symbol.value, SymbolSection::Section(into)))
        })
    }

    fn add(&mut self, into: SectionId, relocation: Relocation) -> Result<()> {
        self.object.add_relocation(into, relocation).map_err(|error| internal(self.isa, error))
    }

    fn add_pool(&mut self) {
        let plan = self.plan;
        for (id, address) in &plan.pieces {
            self.copy(Segment::Rodata, *address, &plan.linkage.pool.pieces[id.0].bytes);
        }
    }

    fn add_got(&mut self) -> Result<()> {
        let plan = self.plan;
        let absolute = TARGETS[self.isa].absolute[0].0;
        for (target, address) in &plan.got {
            if *target == Target::Missing {
                continue;
            }
            let (symbol, addend) = self.symbol(plan.locate(target, self.isa));
            let offset = address - plan.ranges[&Segment::Rodata].0;
            self.add(self.segments[&Segment::Rodata], Relocation { offset, symbol, addend, flags: flags(absolute) })?;
        }
        Ok(())
    }

    fn add_unwind(&mut self) -> Result<()> {
        let plan = self.plan;
        let tables = &plan.unwind[self.isa];
        self.copy(Segment::Rodata, tables.address, &tables.index(plan, self.isa));
        for (entry, address) in tables.entries() {
            let image = &plan.linkage.program.modules[entry.module].images[self.isa];
            self.copy(Segment::Rodata, address, &entry.contents(image));
            let section = &image.sections[entry.record.section];
            let base = (address - plan.ranges[&Segment::Rodata].0).wrapping_sub(entry.record.bytes.start as u64);
            let place = Placed { module: entry.module, section, base };
            self.relocate_some(self.segments[&Segment::Rodata], &place, image.relocations(&entry.record))?;
        }
        Ok(())
    }

    /// The debugger's sections of modules, one behind the other.
    fn add_debug(&mut self) -> Result<()> {
        let plan = self.plan;
        let mut outputs: HashMap<&str, SectionId> = HashMap::new();
        let modules = plan.linkage.program.modules.iter().enumerate();
        for (number, module) in modules.filter(|(_, module)| module.is_debug_wanted) {
            let sections = &module.images[self.isa].sections;
            let debug = sections.iter().enumerate().filter(|(_, section)| section.kind == Kind::Debug);
            let mut starts: HashMap<usize, (SectionId, u64)> = HashMap::new();
            for (index, section) in debug.clone() {
                let object = &mut self.object;
                let output = *outputs
                    .entry(&section.name)
                    .or_insert_with(|| object.add_section(Vec::new(), section.name.clone().into(), SectionKind::Debug));
                *self.object.section_flags_mut(output) =
                    SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags: elf::SectionFlags(0) };
                let start = self.object.append_section_data(output, &section.data, section.align);
                starts.insert(index, (output, start));
            }
            for (index, section) in debug {
                let (output, base) = starts[&index];
                let place = Placed { module: number, section, base };
                self.relocate_debug(output, &place, &starts)?;
            }
        }
        Ok(())
    }

    fn relocate_debug(
        &mut self,
        output: SectionId,
        place: &Placed<'_>,
        starts: &HashMap<usize, (SectionId, u64)>,
    ) -> Result<()> {
        for relocation in &place.section.relocations {
            let symbol = &self.plan.linkage.program.modules[place.module].images[self.isa].symbols[relocation.symbol];
            let inside = match symbol.place {
                module::Place::Section(section) => starts.get(&section),
                module::Place::Undefined | module::Place::Absolute | module::Place::Common => None,
            };
            let (symbol, addend, r_type) = match inside {
                Some((section, start)) => {
                    let offset = (start + symbol.value).cast_signed();
                    (self.object.section_symbol(*section), relocation.addend + offset, relocation.r_type)
                }
                None => self.target(output, place, relocation)?,
            };
            let offset = place.base + relocation.offset;
            self.add(output, Relocation { offset, symbol, addend, flags: flags(r_type) })?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        for (segment, bytes) in std::mem::take(&mut self.bytes) {
            self.object.set_section_data(self.segments[&segment], bytes, SEGMENT_ALIGN);
        }
        self.object.write().map_err(|error| internal(self.isa, error))
    }
}

fn flags(r_type: u32) -> RelocationFlags {
    RelocationFlags::Elf { r_type: elf::RelocationType(r_type) }
}

fn new_symbol(name: String, value: u64, section: SymbolSection) -> Symbol {
    Symbol {
        name: name.into_bytes(),
        value,
        size: 0,
        kind: SymbolKind::Label,
        scope: SymbolScope::Compilation,
        weak: false,
        section,
        flags: SymbolFlags::None,
    }
}

fn internal(isa: usize, error: object::write::Error) -> Error {
    Error::data(format!("{}: cannot combine the program's parts: {error}", ISAS[isa].name()))
}
