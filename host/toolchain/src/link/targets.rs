//! What relocations refer to, the same for every ISA as far as it is the same.

use std::collections::HashMap;

use super::{
    DefinedSymbol,
    module::{Image, Kind, Module, Place, Relocation, Section, Symbol, is_array},
    pinning::NEAR_PREFIX,
    pool::{PieceId, Pool},
    resolve::{Definition, Program},
    unwind,
};
use crate::{
    error::{Error, Result},
    isa::{ISAS, PerIsa, TARGETS},
};
use object::elf;

/// The place of a unit in [`Units::list`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct UnitId(pub usize);

/// Parts of the program's memory with different access rights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Segment {
    /// Readable.
    Rodata,
    /// Executable, by one ISA at a time.
    Text,
    /// Writable.
    Data,
    /// Writable, and zeros in the beginning.
    Bss,
}

impl Segment {
    /// All.
    pub const ALL: [Self; 4] = [Self::Rodata, Self::Text, Self::Data, Self::Bss];

    /// The section of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rodata => ".rodata",
            Self::Text => ".text",
            Self::Data => ".data",
            Self::Bss => ".bss",
        }
    }
}

/// What gets one place in the layout: a function or a datum, that is the sections of one module that have the same name
/// on all ISAs.
pub struct Unit {
    /// Index of the module.
    pub module: usize,
    /// Of the section.
    pub name: String,
    /// Where it goes.
    pub segment: Segment,
    /// Its section on each ISA that has it.
    pub sections: PerIsa<Option<usize>>,
    /// Of the largest, in bytes.
    pub size: u64,
    /// Of the strictest, in bytes.
    pub align: u64,
    /// Kept though nothing refers to it.
    pub retained: bool,
}

/// All units.
#[derive(Default)]
pub struct Units {
    /// By id.
    pub list: Vec<Unit>,
    /// By module, ISA and section.
    by_section: HashMap<(usize, usize, usize), UnitId>,
}

/// What a relocation refers to.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Target {
    /// A function or a datum; the offset in bytes is what the symbol adds.
    Unit(UnitId, u64),
    /// A merged constant.
    Piece(PieceId, u64),
    /// A variable that several files share.
    Common(String),
    /// A symbol that the linker defines, such as `__init_array_start`.
    Linker(String),
    /// An address.
    Absolute(u64),
    /// A weak symbol that nobody defines: address zero.
    Missing,
    /// Something that is not in the program.
    Dropped,
}

impl Units {
    /// The units of `modules`.
    pub fn new(modules: &[Module]) -> Self {
        let mut units = Self::default();
        for (number, module) in modules.iter().enumerate() {
            units.add(number, module);
        }
        units
    }

    /// Sections of two ISAs belong together if they begin with the same symbol, or have the same name.
    fn add(&mut self, number: usize, module: &Module) {
        let mut by_symbol: HashMap<&str, UnitId> = HashMap::new();
        // A file may have several sections of one name: the first belongs to the first, and so on.
        let mut by_name: HashMap<(&str, usize), UnitId> = HashMap::new();
        for (isa, image) in module.images.iter().enumerate() {
            let first_symbols = first_symbols(image);
            let mut seen: HashMap<&str, usize> = HashMap::new();
            for (index, section) in image.sections.iter().enumerate() {
                let segment = match section.kind {
                    // Constants, too: those of the program's other constants lie together.
                    _ if section.name.starts_with(NEAR_PREFIX) => Segment::Data,
                    Kind::Text => Segment::Text,
                    Kind::Rodata => Segment::Rodata,
                    Kind::Data => Segment::Data,
                    Kind::Bss => Segment::Bss,
                    Kind::Mergeable { .. } | Kind::Unwind | Kind::Debug | Kind::Ignored => continue,
                };
                let count = seen.entry(&section.name).or_default();
                let key = (section.name.as_str(), *count);
                *count += 1;
                let symbols = first_symbols.get(&index).map_or(&[][..], Vec::as_slice);
                let known = symbols.iter().find_map(|name| by_symbol.get(name)).or_else(|| by_name.get(&key));
                let fits = |id: &&UnitId| self.list[id.0].sections[isa].is_none() && self.list[id.0].segment == segment;
                let id = known.filter(fits).copied().unwrap_or_else(|| {
                    self.list.push(Unit::new(number, &section.name, segment));
                    UnitId(self.list.len() - 1)
                });
                by_name.entry(key).or_insert(id);
                symbols.iter().for_each(|name| {
                    by_symbol.entry(name).or_insert(id);
                });
                self.list[id.0].add_section(isa, index, section);
                self.by_section.insert((number, isa, index), id);
            }
        }
    }

    /// The unit of a section, if it is part of one.
    pub fn of_section(&self, module: usize, isa: usize, section: usize) -> Option<UnitId> {
        self.by_section.get(&(module, isa, section)).copied()
    }

    /// The unit with this id.
    pub fn get(&self, id: UnitId) -> &Unit {
        &self.list[id.0]
    }
}

/// The functions and data at the beginning of each section.
fn first_symbols(image: &Image) -> HashMap<usize, Vec<&str>> {
    let mut found: HashMap<usize, Vec<&str>> = HashMap::new();
    for symbol in &image.symbols {
        if let Place::Section(section) = symbol.place
            && symbol.value == 0
            && matches!(symbol.kind, elf::STT_FUNC | elf::STT_OBJECT)
        {
            found.entry(section).or_default().push(&symbol.name);
        }
    }
    found
}

impl Unit {
    fn new(module: usize, name: &str, segment: Segment) -> Self {
        let sections = [None; ISAS.len()];
        Self { module, name: name.to_owned(), segment, sections, size: 0, align: 1, retained: false }
    }

    fn add_section(&mut self, isa: usize, index: usize, section: &Section) {
        self.sections[isa] = Some(index);
        self.size = self.size.max(section.size);
        self.align = self.align.max(section.align);
        self.retained |= section.retained;
    }

    /// What the programmer calls it, as far as the section's name tells.
    pub fn title(&self) -> &str {
        let prefixes = [".text.", ".rodata.", ".data.", ".bss.", ".data.rel.ro."];
        prefixes.iter().find_map(|prefix| self.name.strip_prefix(prefix)).unwrap_or(&self.name)
    }

    /// The list of functions or the user's own table that it is a part of: such parts lie together, and the linker
    /// defines symbols for the ends.
    pub fn table(&self) -> Option<&str> {
        if is_array(&self.name) {
            let dots = self.name[1..].find('.').map_or(self.name.len(), |dot| dot + 1);
            return Some(&self.name[1..dots]);
        }
        let identifier = !self.name.is_empty()
            && self.name.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric())
            && !self.name.starts_with(|first: char| first.is_ascii_digit());
        identifier.then_some(&self.name)
    }
}

/// Everything that is needed to follow a relocation.
pub struct Linkage {
    /// Modules and definitions.
    pub program: Program,
    /// Merged constants.
    pub pool: Pool,
    /// Functions and data.
    pub units: Units,
}

impl Linkage {
    /// Prepares `program` for following relocations.
    ///
    /// # Errors
    /// A module has malformed constants.
    pub fn new(program: Program) -> Result<Self> {
        let mut pool = Pool::default();
        for (number, module) in program.modules.iter().enumerate() {
            pool.add(number, module)?;
        }
        let units = Units::new(&program.modules);
        let mut linkage = Self { program, pool, units };
        let constants: Vec<usize> = (0..linkage.units.list.len())
            .filter(|&unit| {
                let unit = &linkage.units.list[unit];
                linkage.is_never_written(unit) || linkage.is_table_of_labels(unit)
            })
            .collect();
        for unit in constants {
            linkage.units.list[unit].segment = Segment::Rodata;
        }
        Ok(linkage)
    }

    /// Whether the compiler has found that no code writes this variable.
    fn is_never_written(&self, unit: &Unit) -> bool {
        let constants = &self.program.modules[unit.module].notes.constants;
        unit.segment == Segment::Data && constants.iter().any(|name| name == unit.title())
    }

    /// Whether a variable that no other file sees holds nothing but addresses of labels in one function, which differ between
    /// ISAs: `static void *table[] = { &&one, &&two };`. Nobody writes it, so it is taken for a constant.
    fn is_table_of_labels(&self, unit: &Unit) -> bool {
        const POINTER_BYTES: u64 = 8;
        let mut function = None;
        let mut has_label = false;
        for (isa, section) in unit.sections.iter().enumerate() {
            let image = &self.program.modules[unit.module].images[isa];
            let Some(index) = *section else { return false };
            let section = &image.sections[index];
            let is_own = |symbol: &Symbol| !symbol.global || symbol.place != Place::Section(index);
            let is_plain = section.kind == Kind::Data && section.data.iter().all(|&byte| byte == 0);
            if unit.segment != Segment::Data || !is_plain || !image.symbols.iter().all(is_own) {
                return false;
            }
            for relocation in &section.relocations {
                let Ok((Target::Unit(id, offset), addend)) = self.follow(unit.module, isa, relocation) else {
                    return false;
                };
                let is_pointer = TARGETS[isa].absolute.contains(&(relocation.r_type, POINTER_BYTES as u8));
                let is_text = self.units.get(id).segment == Segment::Text;
                if !is_pointer || !is_text || *function.get_or_insert(id) != id {
                    return false;
                }
                has_label |= offset.cast_signed() + addend != 0;
            }
        }
        has_label
    }

    /// What `relocation` of a module refers to, and what is to be added to its address.
    ///
    /// # Errors
    /// Nobody defines the symbol.
    pub fn follow(&self, module: usize, isa: usize, relocation: &Relocation) -> Result<(Target, i64)> {
        let symbol = &self.program.modules[module].images[isa].symbols[relocation.symbol];
        if let (elf::STT_SECTION, Place::Section(section)) = (symbol.kind, symbol.place)
            && let Some((piece, offset)) =
                u64::try_from(relocation.addend).ok().and_then(|offset| self.pool.find(module, isa, section, offset))
        {
            return Ok((Target::Piece(piece, offset), 0));
        }
        let target = if symbol.global {
            self.global(module, isa, relocation.symbol)?
        } else {
            self.local(module, isa, relocation.symbol)
        };
        Ok((target, relocation.addend))
    }

    /// Where a symbol of a module is, taken as a definition.
    pub fn local(&self, module: usize, isa: usize, symbol: usize) -> Target {
        let symbol = &self.program.modules[module].images[isa].symbols[symbol];
        match symbol.place {
            Place::Section(section) => {
                if let Some(unit) = self.units.of_section(module, isa, section) {
                    Target::Unit(unit, symbol.value)
                } else if let Some((piece, offset)) = self.pool.find(module, isa, section, symbol.value) {
                    Target::Piece(piece, offset)
                } else {
                    Target::Dropped
                }
            }
            Place::Absolute => Target::Absolute(symbol.value),
            Place::Common => Target::Common(symbol.name.clone()),
            Place::Undefined => Target::Missing,
        }
    }

    fn global(&self, module: usize, isa: usize, symbol: usize) -> Result<Target> {
        let referrer = &self.program.modules[module];
        let symbol = &referrer.images[isa].symbols[symbol];
        if let Some(found) = self.by_name(&symbol.name, isa) {
            return Ok(found);
        }
        if self.is_linker_symbol(&symbol.name) {
            return Ok(Target::Linker(symbol.name.clone()));
        }
        if symbol.weak && symbol.place == Place::Undefined {
            return Ok(Target::Missing);
        }
        Err(self.undefined(&symbol.name, isa))
    }

    /// The definition of a global symbol for an ISA.
    pub fn by_name(&self, name: &str, isa: usize) -> Option<Target> {
        match self.program.symbols.get(name) {
            Some(DefinedSymbol { base: None, value, .. }) => Some(Target::Absolute(*value)),
            Some(DefinedSymbol { base: Some(base), value, .. }) => match self.defined(base, isa)? {
                Target::Unit(unit, offset) => Some(Target::Unit(unit, offset.wrapping_add(*value))),
                Target::Piece(piece, offset) => Some(Target::Piece(piece, offset.wrapping_add(*value))),
                Target::Absolute(address) => Some(Target::Absolute(address.wrapping_add(*value))),
                whole @ (Target::Common(_) | Target::Linker(_) | Target::Missing | Target::Dropped) => {
                    (*value == 0).then_some(whole)
                }
            },
            None => self.defined(name, isa),
        }
    }

    /// The definition of a global symbol in a file.
    fn defined(&self, name: &str, isa: usize) -> Option<Target> {
        match self.program.definitions.get(name)? {
            Definition::Common { .. } => Some(Target::Common(name.to_owned())),
            Definition::Module { modules, .. } => {
                let module = modules[isa]?;
                let symbol = *self.program.modules[module].images[isa].defined.get(name)?;
                Some(self.local(module, isa, symbol))
            }
        }
    }

    fn undefined(&self, name: &str, isa: usize) -> Error {
        match self.program.definitions.get(name) {
            Some(Definition::Module { modules, .. }) => {
                let module = modules.iter().flatten().next();
                let file = module.map_or("", |module| &self.program.modules[*module].name);
                Error::data(format!(
                    "undefined symbol for {}: {name}; {file} defines it for another instruction set only",
                    ISAS[isa].name()
                ))
            }
            Some(Definition::Common { .. }) | None => Error::data(format!("undefined symbol: {name}")),
        }
    }

    fn is_linker_symbol(&self, name: &str) -> bool {
        let ends = ["__start_", "__stop_"].iter().find_map(|prefix| name.strip_prefix(prefix));
        LINKER_SYMBOLS.contains(&name)
            || unwind::SYMBOLS.contains(&name)
            || ends.is_some_and(|table| self.units.list.iter().any(|unit| unit.table() == Some(table)))
    }
}

/// Symbols that the linker defines when a program refers to them and has none of that name.
pub const LINKER_SYMBOLS: [&str; 19] = [
    "__preinit_array_start",
    "__preinit_array_end",
    "__init_array_start",
    "__init_array_end",
    "__fini_array_start",
    "__fini_array_end",
    "__ehdr_start",
    "__executable_start",
    "__dso_handle",
    // An array of nothing, with as many bytes as there are pinned functions.
    "__pins_start",
    "__pins_end",
    "__bss_start",
    "_etext",
    "etext",
    "_edata",
    "edata",
    "_end",
    "end",
    "__global_pointer$",
];
