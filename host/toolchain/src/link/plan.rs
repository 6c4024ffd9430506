//! The layout: what is in the program, and at which address.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use motet_abi::fat::{Near, Signature};
use motet_layout::IslandId;
use wildmatch::WildMatch;

use super::{
    live::{self, Live},
    module::{Place, is_array},
    pool::PieceId,
    reached,
    resolve::Definition,
    same::{self, Sameness},
    signature,
    targets::{Linkage, Segment, Target, UnitId},
    unwind::Tables,
};
use crate::{
    error::{Error, Result},
    isa::{ISAS, PerIsa, index_by_name},
    mentions::{Mention, refused_constructor},
};

/// Where the program begins.
pub const BASE: u64 = 0x40_0000;
/// Access rights change at multiples of this.
pub const PAGE_BYTES: u64 = 4096;
/// Segments begin at multiples of this.
pub const SEGMENT_ALIGN: u64 = 64;
/// Functions begin at multiples of this, so that calls to them are as fast as in a program for one ISA.
const FUNCTION_ALIGN: u64 = 16;
/// How `MOTET_ON` marks a function; the ISA's name and a dot follow.
const PIN_PREFIX: &str = ".text.motet.on.";
/// How `MOTET_ONLY` does.
const STRICT_PREFIX: &str = ".text.motet.only.";
/// How `MOTET_DATA_ON` marks a variable; an ISA's name or an island's number and a dot follow.
pub const NEAR_PREFIX: &str = ".data.motet.on.";
/// One entry of the global offset table.
const POINTER_BYTES: u64 = 8;

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
        self.file.is_none() && !self.function.contains('*')
    }

    /// As the list has it.
    pub fn entry(&self) -> String {
        self.file.as_ref().map_or_else(|| self.function.clone(), |file| format!("{file}:{}", self.function))
    }
}

/// A pinned function in the layout.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// Its symbol.
    pub name: String,
    /// Index in [`ISAS`].
    pub isa: usize,
    /// Where it begins.
    pub address: u64,
    /// Of the largest ISA's code, in bytes.
    pub size: u64,
    /// What calls of it carry.
    pub signature: Signature,
    /// Never on another ISA.
    pub strict: bool,
}

/// Where everything is.
pub struct Plan {
    /// What is laid out.
    pub linkage: Linkage,
    /// Live units in the order of their addresses.
    pub order: Vec<UnitId>,
    /// Address of each live unit: the same for all ISAs, but for constants that only one ISA's code uses.
    pub addresses: HashMap<UnitId, PerIsa<u64>>,
    /// Address of each constant in use.
    pub pieces: BTreeMap<PieceId, u64>,
    /// Entries of the global offset table, and their addresses.
    pub got: BTreeMap<Target, u64>,
    /// Addresses of variables that several files share.
    pub commons: BTreeMap<String, u64>,
    /// First and last address of each segment.
    pub ranges: HashMap<Segment, (u64, u64)>,
    /// Pinned functions in the order of their addresses.
    pub pinned: Vec<Pinned>,
    /// Pages at the beginning of the variables that are to lie near islands: where each part ends, ascending.
    pub near: Vec<(Near, u64)>,
    /// For unwinding each ISA's stack; behind the other constants.
    pub unwind: PerIsa<Tables>,
    /// What the user should know of a program that can be linked.
    pub warnings: Vec<String>,
    tables: HashMap<String, (u64, u64)>,
}

/// Where something is, for a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    /// In a segment, at an address.
    Segment(Segment, u64),
    /// An address.
    Absolute(u64),
    /// Nowhere: a weak symbol that nobody defines.
    Missing,
}

/// Lays out what is reachable from `roots` on any ISA. `headers` gives the size of the file's headers in bytes for pins
/// and a number of parts that lie near islands.
///
/// # Errors
/// A symbol is undefined, a pin impossible, or a variable differs between ISAs.
pub fn plan(
    linkage: Linkage,
    roots: &[String],
    pins: &[Pin],
    headers: impl Fn(&[Pinned], usize) -> u64,
) -> Result<Plan> {
    let live = live::find(&linkage, roots, pins)?;
    let mut warnings = Vec::new();
    let pin_of = find_pins(&linkage, &live.units, pins, &mut warnings)?;
    let near = find_near(&linkage, &live.units)?;
    let mut problems = same::check_kept(&linkage, &live);
    problems.extend(same::check_offsets(&linkage, &live));
    if !problems.is_empty() {
        return Err(Error::data(problems.join("\n")));
    }
    let mut private = HashSet::new();
    let mut differences = Vec::new();
    for id in &live.units {
        match same::compare(&linkage, *id) {
            Ok(Sameness::Same) => continue,
            Ok(Sameness::Own) => {}
            Ok(Sameness::OwnAndVisible(message)) => {
                warnings.push(format!("warning: {message}; each instruction set has its own"))
            }
            Ok(Sameness::Different(message)) => differences.push(message),
            Err(error) => differences.push(error.message),
        }
        private.insert(*id);
    }
    if differences.is_empty() {
        differences.extend(same::spread(&linkage, &live, &mut private)?);
    }
    if !differences.is_empty() {
        differences.push("A datum exists once and all instruction sets use it: make it the same for all.".into());
        return Err(Error::data(differences.join("\n")));
    }
    let mut pinned = Vec::new();
    let mut refused = Vec::new();
    for (id, wish) in &pin_of {
        let (name, unit) = (function_name(&linkage, *id), linkage.units.get(*id));
        match signature::of_function(&linkage.program.modules[unit.module], &name) {
            Ok(signature) => {
                let (isa, strict) = (wish.isa, wish.strict);
                pinned.push(Pinned { name, isa, address: 0, size: unit.size, signature, strict });
            }
            Err(error) => refused.push(error.message),
        }
    }
    let of_modules: Vec<(usize, &Pinned)> =
        pin_of.keys().map(|id| linkage.units.get(*id).module).zip(&pinned).filter(|_| refused.is_empty()).collect();
    let reached = reached::check(&linkage, &live, &private, &of_modules)?;
    if !reached.is_empty() {
        refused.extend(reached);
        refused.push(
            "Memory is shared: make a type the same for all instruction sets, or pin nothing that reaches it.".into(),
        );
    }
    if !refused.is_empty() {
        return Err(Error::data(refused.join("\n")));
    }
    let start = BASE + headers(&pinned, near.len());
    let mut plan = Plan {
        linkage,
        order: Vec::new(),
        addresses: HashMap::new(),
        pieces: BTreeMap::new(),
        got: BTreeMap::new(),
        commons: BTreeMap::new(),
        ranges: HashMap::new(),
        pinned: Vec::new(),
        near: Vec::new(),
        unwind: PerIsa::default(),
        warnings,
        tables: HashMap::new(),
    };
    let mut place = Placer { next: start };
    plan.place_rodata(&mut place, &live, &private);
    plan.place_text(&mut place, &live, &pin_of);
    plan.place_data(&mut place, &live, &near);
    for (pin, id) in pinned.iter_mut().zip(pin_of.keys()) {
        pin.address = plan.addresses[id][0];
    }
    pinned.sort_by_key(|pin| pin.address);
    plan.pinned = pinned;
    if place.next > i32::MAX as u64 {
        return Err(Error::data(format!(
            "the program is too large: {} bytes; it must end below 2 GiB",
            place.next - BASE
        )));
    }
    Ok(plan)
}

struct Placer {
    next: u64,
}

impl Placer {
    fn place(&mut self, size: u64, align: u64) -> u64 {
        let address = self.next.next_multiple_of(align.max(1));
        self.next = address + size;
        address
    }

    fn new_page(&mut self) -> u64 {
        self.next = self.next.next_multiple_of(PAGE_BYTES);
        self.next
    }
}

impl Plan {
    fn place_rodata(&mut self, place: &mut Placer, live: &Live, private: &HashSet<UnitId>) {
        let start = place.next.next_multiple_of(SEGMENT_ALIGN);
        place.next = start;
        for id in self.units_of(live, Segment::Rodata) {
            let unit = self.linkage.units.get(id);
            let (size, align, sections) = (unit.size, unit.align, unit.sections);
            let table = unit.table().map(str::to_owned);
            let addresses = if private.contains(&id) {
                sections.map(|section| if section.is_some() { place.place(size, align) } else { 0 })
            } else {
                [place.place(size, align); ISAS.len()]
            };
            self.put(id, addresses, size, table);
        }
        for id in &live.pieces {
            let piece = &self.linkage.pool.pieces[id.0];
            self.pieces.insert(*id, place.place(piece.bytes.len() as u64, piece.align));
        }
        for target in &live.got {
            self.got.insert(target.clone(), place.place(POINTER_BYTES, POINTER_BYTES));
        }
        for isa in 0..ISAS.len() {
            let mut tables = Tables::new(&self.linkage, live, isa);
            tables.address = place.place(tables.bytes(), POINTER_BYTES);
            self.unwind[isa] = tables;
        }
        self.ranges.insert(Segment::Rodata, (start, place.next));
    }

    /// Functions that any ISA runs first; then those of each ISA in pages of their own, strict ones apart.
    fn place_text(&mut self, place: &mut Placer, live: &Live, pins: &BTreeMap<UnitId, Wish>) {
        let start = place.new_page();
        let units = self.units_of(live, Segment::Text);
        let pinned = (0..ISAS.len()).flat_map(|isa| [false, true].map(|strict| Some(Wish { isa, strict })));
        for group in std::iter::once(None).chain(pinned) {
            place.new_page();
            for id in units.iter().filter(|id| pins.get(id).copied() == group) {
                let unit = self.linkage.units.get(*id);
                let (size, table) = (unit.size, unit.table().map(str::to_owned));
                let address = place.place(size, unit.align.max(FUNCTION_ALIGN));
                self.put(*id, [address; ISAS.len()], size, table);
            }
        }
        let end = place.new_page();
        self.ranges.insert(Segment::Text, (start, end));
    }

    /// Variables near islands first, in pages of their own.
    fn place_data(&mut self, place: &mut Placer, live: &Live, near: &BTreeMap<Near, BTreeSet<UnitId>>) {
        for segment in [Segment::Data, Segment::Bss] {
            let start = if segment == Segment::Data { place.new_page() } else { place.place(0, SEGMENT_ALIGN) };
            if segment == Segment::Data {
                for (island, units) in near {
                    units.iter().for_each(|id| self.place_datum(place, *id));
                    self.near.push((*island, place.new_page()));
                }
            }
            for id in self.units_of(live, segment) {
                if !self.addresses.contains_key(&id) {
                    self.place_datum(place, id);
                }
            }
            if segment == Segment::Bss {
                for name in &live.commons {
                    if let Some(Definition::Common { size, align }) = self.linkage.program.definitions.get(name) {
                        self.commons.insert(name.clone(), place.place(*size, *align));
                    }
                }
            }
            self.ranges.insert(segment, (start, place.next));
        }
    }

    fn place_datum(&mut self, place: &mut Placer, id: UnitId) {
        let unit = self.linkage.units.get(id);
        let (size, table) = (unit.size, unit.table().map(str::to_owned));
        let address = place.place(size, unit.align);
        self.put(id, [address; ISAS.len()], size, table);
    }

    /// Live units of a segment: in order of the files, but parts of a table together, sorted by their priority.
    fn units_of(&self, live: &Live, segment: Segment) -> Vec<UnitId> {
        let mut units: Vec<UnitId> =
            live.units.iter().copied().filter(|id| self.linkage.units.get(*id).segment == segment).collect();
        units.sort_by_cached_key(|id| {
            let unit = self.linkage.units.get(*id);
            (unit.table().map(|table| (table.to_owned(), priority(&unit.name))), *id)
        });
        units
    }

    fn put(&mut self, id: UnitId, addresses: PerIsa<u64>, size: u64, table: Option<String>) {
        self.order.push(id);
        if let Some(table) = table {
            let ends = self.tables.entry(table).or_insert((addresses[0], addresses[0]));
            ends.1 = addresses[0] + size;
        }
        self.addresses.insert(id, addresses);
    }

    /// Where `target` is for the code of an ISA.
    pub fn locate(&self, target: &Target, isa: usize) -> Location {
        match target {
            Target::Unit(unit, offset) => match self.addresses.get(unit) {
                Some(addresses) => Location::Segment(self.linkage.units.get(*unit).segment, addresses[isa] + offset),
                None => Location::Absolute(0),
            },
            Target::Piece(piece, offset) => self
                .pieces
                .get(piece)
                .map_or(Location::Absolute(0), |address| Location::Segment(Segment::Rodata, address + offset)),
            Target::Common(name) => self
                .commons
                .get(name)
                .map_or(Location::Absolute(0), |address| Location::Segment(Segment::Bss, *address)),
            Target::Linker(name) => Location::Absolute(self.linker_symbol(name, isa)),
            Target::Absolute(address) => Location::Absolute(*address),
            Target::Missing => Location::Missing,
            Target::Dropped => Location::Absolute(0),
        }
    }

    /// The address of something that is laid out; zero for what is not.
    pub fn address(&self, target: &Target, isa: usize) -> u64 {
        match self.locate(target, isa) {
            Location::Segment(_, address) | Location::Absolute(address) => address,
            Location::Missing => 0,
        }
    }

    fn linker_symbol(&self, name: &str, isa: usize) -> u64 {
        if let Some(address) = self.unwind[isa].symbol(name) {
            return address;
        }
        let end = |segment| self.ranges[&segment].1;
        let table = |name: &str| self.tables.get(name).copied().unwrap_or((BASE, BASE));
        if let Some(array) = name.strip_prefix("__").and_then(|name| name.strip_suffix("_start"))
            && array.ends_with("_array")
        {
            return table(array).0;
        }
        if let Some(array) = name.strip_prefix("__").and_then(|name| name.strip_suffix("_end"))
            && array.ends_with("_array")
        {
            return table(array).1;
        }
        if let Some(name) = name.strip_prefix("__start_") {
            return table(name).0;
        }
        if let Some(name) = name.strip_prefix("__stop_") {
            return table(name).1;
        }
        match name {
            "__pins_end" => BASE + self.pinned.len() as u64,
            "_etext" | "etext" => end(Segment::Text),
            "_edata" | "edata" => end(Segment::Data),
            "__bss_start" => self.ranges[&Segment::Bss].0,
            "_end" | "end" => end(Segment::Bss),
            "__global_pointer$" => self.ranges[&Segment::Data].0 + 0x800,
            _ => BASE,
        }
    }
}

/// `.init_array.101` runs before `.init_array.102`, and both before `.init_array`.
fn priority(name: &str) -> u64 {
    name.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
}

/// How a function is pinned.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wish {
    isa: usize,
    strict: bool,
}

/// Whether a section's name pins what is in it; the name of the ISA, and whether strictly.
pub fn pin_of_section(name: &str) -> Option<(&str, bool)> {
    let marks = [(PIN_PREFIX, false), (STRICT_PREFIX, true)];
    let (rest, strict) = marks.iter().find_map(|(prefix, strict)| Some((name.strip_prefix(prefix)?, *strict)))?;
    Some((rest.split('.').next().unwrap_or_default(), strict))
}

/// All pins of a function, at declarations and at its definition, in all files, must be for one ISA.
fn check_mentions(linkage: &Linkage) -> Result<()> {
    let mut first: HashMap<(&str, Option<usize>), &Mention> = HashMap::new();
    for (module, mention) in linkage
        .program
        .modules
        .iter()
        .enumerate()
        .flat_map(|(number, module)| module.notes.mentions.iter().map(move |mention| (number, mention)))
    {
        let function = &mention.function;
        let known = first.entry((function, mention.is_local.then_some(module))).or_insert(mention);
        if known.isa != mention.isa {
            return Err(Error::data(format!(
                "{function} is pinned to {} at {} and to {} at {}; choose one",
                known.isa, known.place, mention.isa, mention.place
            )));
        }
    }
    Ok(())
}

/// Pinned units, with the ISA of each. Pins of functions that the program lacks are noted.
fn find_pins(
    linkage: &Linkage,
    live: &BTreeSet<UnitId>,
    pins: &[Pin],
    notes: &mut Vec<String>,
) -> Result<BTreeMap<UnitId, Wish>> {
    check_mentions(linkage)?;
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
fn find_near(linkage: &Linkage, live: &BTreeSet<UnitId>) -> Result<BTreeMap<Near, BTreeSet<UnitId>>> {
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
const TWICE: [&str; 6] = ["setjmp", "__setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "vfork"];

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

fn function_name(linkage: &Linkage, id: UnitId) -> String {
    functions_of(linkage, id, 0).into_iter().next().unwrap_or_else(|| linkage.units.get(id).title().to_owned())
}
