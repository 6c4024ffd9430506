//! The layout: what is in the program, and at which address.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use motet_abi::fat::{Near, Signature};

use super::{
    live::{self, Live},
    pinning::{Pin, Wish, add_lone, find_near, find_pins, function_name},
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
    isa::{ISAS, PerIsa},
};

/// Where the program begins.
pub const BASE: u64 = 0x40_0000;
/// Access rights change at multiples of this.
pub const PAGE_BYTES: u64 = 4096;
/// Segments begin at multiples of this.
pub const SEGMENT_ALIGN: u64 = 64;
/// Functions begin at multiples of this, so that calls to them are as fast as in a program for one ISA.
const FUNCTION_ALIGN: u64 = 16;
/// One entry of the global offset table.
const POINTER_BYTES: u64 = 8;

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
    let mut pin_of = find_pins(&linkage, &live.units, pins, &mut warnings)?;
    add_lone(&linkage, &live, &mut pin_of);
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
            "Memory is shared: make a type the same for all instruction sets, or let nothing that reaches it be pinned or called elsewhere.".into(),
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
