//! Tables for unwinding the stack (`.eh_frame`), which exceptions need: those of each instruction set describe its own code.
//!
//! An object file describes its functions in one section; each entry goes where its function goes, or is left out with it.
//! All ISAs' tables are in the constants of the program, one behind the other. The unwinder of each ISA finds its own by
//! symbols of the linker, with an index in front that is sorted by address.

use std::collections::HashMap;

use super::{
    frames::{Frame, Record},
    live::Live,
    module::{Image, Relocation},
    plan::Plan,
    targets::{Linkage, Target, UnitId},
};

/// Symbols around the tables of the ISA whose code refers to them.
pub const SYMBOLS: [&str; 4] = ["__eh_frame_hdr_start", "__eh_frame_hdr_end", "__eh_frame_start", "__eh_frame_end"];

/// In front of the index: its version and encodings, where the entries are, how many.
const INDEX_HEADER_BYTES: u64 = 12;
/// A function's address and its entry's, both relative to the index.
const INDEX_ENTRY_BYTES: u64 = 8;
/// A length of zero ends the entries.
const END_BYTES: u64 = 4;
/// Where a record says which record it continues, and how far back that is.
const COMMON_AT: u64 = 4;
/// Version; encodings of the pointer to the entries (relative, four bytes), of their number (four bytes) and of the index
/// (relative to its beginning, four bytes).
const INDEX_VERSION: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

/// The tables of an ISA.
#[derive(Default)]
pub struct Tables {
    /// Where the index begins; the entries follow it.
    pub address: u64,
    /// In the order of the entries' places.
    entries: Vec<Entry>,
    /// Of all entries, in bytes.
    size: u64,
}

/// A record of an object file at its place.
pub struct Entry {
    /// Index of the module.
    pub module: usize,
    /// What to copy.
    pub record: Record,
    /// From the first entry, in bytes.
    place: u64,
    /// Whose stack frame it describes; none for what several have in common.
    function: Option<(UnitId, u64)>,
    /// The place of what it has in common with others.
    common: u64,
}

/// Relocations as a key: offset, type, target and addend.
type Pointers = Vec<(u64, u32, Target, i64)>;

impl Tables {
    /// The entries of all functions in the program, without addresses.
    pub fn new(linkage: &Linkage, live: &Live, isa: usize) -> Self {
        let mut tables = Self::default();
        let mut commons: HashMap<(&[u8], Pointers), u64> = HashMap::new();
        for id in live.units.iter().copied() {
            let unit = linkage.units.get(id);
            let image = &linkage.program.modules[unit.module].images[isa];
            let frames = unit.sections[isa].and_then(|section| image.frames.get(&section));
            for frame in frames.into_iter().flatten() {
                let key = (image.bytes(&frame.common), pointers(linkage, unit.module, isa, image, &frame.common));
                let common = *commons.entry(key).or_insert_with(|| tables.add(unit.module, &frame.common, None, 0));
                tables.add(unit.module, &frame.record, Some((id, frame.function)), common);
            }
        }
        tables
    }

    fn add(&mut self, module: usize, record: &Record, function: Option<(UnitId, u64)>, common: u64) -> u64 {
        let place = self.size;
        self.entries.push(Entry { module, record: record.clone(), place, function, common });
        self.size += record.bytes.len() as u64;
        place
    }

    /// All of it, in bytes.
    pub fn bytes(&self) -> u64 {
        if self.entries.is_empty() { 0 } else { self.index_bytes() + self.size + END_BYTES }
    }

    fn index_bytes(&self) -> u64 {
        let functions = self.entries.iter().filter(|entry| entry.function.is_some()).count() as u64;
        if functions == 0 { 0 } else { INDEX_HEADER_BYTES + functions * INDEX_ENTRY_BYTES }
    }

    /// Where the entries begin.
    pub fn entries_address(&self) -> u64 {
        self.address + self.index_bytes()
    }

    /// One of [`SYMBOLS`].
    pub fn symbol(&self, name: &str) -> Option<u64> {
        let index = SYMBOLS.iter().position(|symbol| *symbol == name)?;
        Some([self.address, self.entries_address(), self.entries_address(), self.address + self.bytes()][index])
    }

    /// The sections: name, first and last address. None if there are no entries.
    pub fn sections(&self) -> impl Iterator<Item = (&'static str, (u64, u64))> {
        let (entries, end) = (self.entries_address(), self.address + self.bytes());
        let all = [(".eh_frame_hdr", (self.address, entries)), (".eh_frame", (entries, end))];
        all.into_iter().filter(|(_, (start, end))| start < end)
    }

    /// The entries, each with its address.
    pub fn entries(&self) -> impl Iterator<Item = (&Entry, u64)> {
        self.entries.iter().map(|entry| (entry, self.entries_address() + entry.place))
    }

    /// The index of ISA number `isa`.
    pub fn index(&self, plan: &Plan, isa: usize) -> Vec<u8> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let mut functions: Vec<(u64, u64)> = Vec::new();
        for (entry, address) in self.entries() {
            if let Some((unit, offset)) = entry.function {
                functions.push((plan.addresses[&unit][isa] + offset, address));
            }
        }
        functions.sort_unstable();
        let mut index = INDEX_VERSION.to_vec();
        let pointer_at = self.address + index.len() as u64;
        // Addresses are below 2 GiB.
        let mut push = |value: u64| index.extend((value as u32).to_le_bytes());
        push(self.entries_address() - pointer_at);
        push(functions.len() as u64);
        for (function, entry) in functions {
            push(function.wrapping_sub(self.address));
            push(entry.wrapping_sub(self.address));
        }
        index
    }
}

impl Entry {
    /// What goes to its place, before relocations are applied.
    pub fn contents(&self, image: &Image) -> Vec<u8> {
        let mut bytes = image.bytes(&self.record).to_vec();
        if self.function.is_some() {
            let at = COMMON_AT as usize;
            let back = self.place + COMMON_AT - self.common;
            bytes[at..at + 4].copy_from_slice(&(back as u32).to_le_bytes());
        }
        bytes
    }
}

/// What the entries of a function refer to, besides the function.
pub fn relocations<'a>(image: &'a Image, frame: &'a Frame) -> impl Iterator<Item = &'a Relocation> {
    image.relocations(&frame.common).iter().chain(image.relocations(&frame.record))
}

fn pointers(linkage: &Linkage, module: usize, isa: usize, image: &Image, record: &Record) -> Pointers {
    let start = record.bytes.start as u64;
    let pointer = |relocation: &Relocation| {
        let (target, addend) = linkage.follow(module, isa, relocation).unwrap_or((Target::Dropped, 0));
        (relocation.offset - start, relocation.r_type, target, addend)
    };
    image.relocations(record).iter().map(pointer).collect()
}
