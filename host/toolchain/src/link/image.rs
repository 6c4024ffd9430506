//! The executable file.

use object::elf;

use super::{
    lld::Linked,
    module::Place,
    plan::{BASE, PAGE_BYTES, Pinned, Plan},
    resolve::Definition,
    targets::{Segment, Target},
};
use crate::{
    error::{Error, Result},
    format::{self, PROGRAM_HEADERS, PinEntry},
    isa::{ISAS, PerIsa, TARGETS},
};

const FILE_HEADER_BYTES: u64 = 64;
const PROGRAM_HEADER_BYTES: u64 = 56;
const SYMBOL_BYTES: u64 = 24;

/// What stands in the file before the constants, in bytes, when `near` parts of the variables lie near islands.
pub fn header_bytes(pins: &[Pinned], near: usize) -> u64 {
    let names = pins.iter().map(|pin| pin.name.len()).sum();
    note_offset(near) + format::note_bytes(pins.len(), names) as u64
}

fn note_offset(near: usize) -> u64 {
    (FILE_HEADER_BYTES + (PROGRAM_HEADERS + near) as u64 * PROGRAM_HEADER_BYTES).next_multiple_of(8)
}

/// The merged contents of the program's memory.
pub struct Memory {
    rodata: Vec<u8>,
    data: Vec<u8>,
    texts: PerIsa<Vec<u8>>,
}

impl Memory {
    /// Takes each constant from an ISA that has it, and checks that all which have it agree.
    ///
    /// # Errors
    /// A shared constant or variable has different contents.
    pub fn merge(plan: &Plan, linked: &PerIsa<Linked>) -> Result<Self> {
        let [(_, rodata), _, (_, data)] = &linked[0].segments;
        let mut memory = Self {
            rodata: rodata.clone(),
            data: data.clone(),
            texts: std::array::from_fn(|isa| linked[isa].segments[1].1.clone()),
        };
        for id in &plan.order {
            let unit = plan.linkage.units.get(*id);
            let index = match unit.segment {
                Segment::Rodata => 0,
                Segment::Data => 2,
                Segment::Text | Segment::Bss => continue,
            };
            let mut owner: Option<usize> = None;
            for (isa, section) in unit.sections.iter().enumerate() {
                let Some(section) = section else { continue };
                let size = plan.linkage.program.modules[unit.module].images[isa].sections[*section].size as usize;
                let address = plan.addresses[id][isa];
                let start = (address - plan.ranges[&unit.segment].0) as usize;
                let bytes = &linked[isa].segments[index].1[start..start + size];
                if let Some(owner) = owner.filter(|owner| plan.addresses[id][*owner] == address) {
                    if &linked[owner].segments[index].1[start..start + size] != bytes {
                        let file = &plan.linkage.program.modules[unit.module].name;
                        let (one, two) = (ISAS[owner].name(), ISAS[isa].name());
                        let message = "refers to something that differs between";
                        return Err(Error::data(format!("{file}: {} {message} {one} and {two}", unit.title())));
                    }
                } else {
                    let memory = if index == 0 { &mut memory.rodata } else { &mut memory.data };
                    memory[start..start + size].copy_from_slice(bytes);
                    owner = Some(isa);
                }
            }
        }
        for (tables, linked) in plan.unwind.iter().zip(linked) {
            let start = (tables.address - plan.ranges[&Segment::Rodata].0) as usize;
            let range = start..start + tables.bytes() as usize;
            memory.rodata[range.clone()].copy_from_slice(&linked.segments[0].1[range]);
        }
        Ok(memory)
    }
}

/// What to write.
pub struct Image<'a> {
    /// Addresses.
    pub plan: &'a Plan,
    /// Contents.
    pub memory: &'a Memory,
    /// Has the debugger's sections of each ISA.
    pub linked: &'a PerIsa<Linked>,
    /// Index of the ISA of the file as other systems see it.
    pub primary: usize,
    /// Whether the other ISAs' text and the note are in the file.
    pub fat: bool,
    /// Where the program starts.
    pub entry: u64,
    /// Whether to leave out symbols and the debugger's sections.
    pub strip: bool,
    /// The size of a thread's stack that the C library reads there; 0 for its own choice.
    pub stack_bytes: u64,
    /// A thread's calls to other ISAs go on below the caller's frames.
    pub one_stack: bool,
}

struct Part {
    name: String,
    kind: elf::SectionType,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    align: u64,
    link: u32,
    info: u32,
    entry_bytes: u64,
}

impl Part {
    fn new(name: &str, kind: elf::SectionType, flags: u64, align: u64, address: u64) -> Self {
        let align = if address.is_multiple_of(align) { align } else { 8 };
        let name = name.to_owned();
        Self { name, kind, flags, address, offset: 0, size: 0, align, link: 0, info: 0, entry_bytes: 0 }
    }

    /// Its bytes' place in the file.
    fn at(self, offset: u64, size: u64) -> Self {
        Self { offset, size, ..self }
    }
}

struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

struct Writer<'a> {
    image: &'a Image<'a>,
    file: Vec<u8>,
    headers: Vec<Header>,
    parts: Vec<Part>,
}

/// The bytes of the file.
pub fn write(image: &Image<'_>) -> Vec<u8> {
    let mut writer = Writer { image, file: Vec::new(), headers: Vec::new(), parts: Vec::new() };
    writer.segments();
    writer.other_texts();
    if !image.strip {
        writer.symbols();
        writer.debug();
    }
    writer.finish()
}

impl Writer<'_> {
    /// Headers and constants, text, and variables, each in pages of their own.
    fn segments(&mut self) {
        let plan = self.image.plan;
        let memory = self.image.memory;
        let range = |segment| plan.ranges[&segment];
        let (rodata, text, data, bss) =
            (range(Segment::Rodata), range(Segment::Text), range(Segment::Data), range(Segment::Bss));

        let note_offset = note_offset(plan.near.len());
        self.file.resize(note_offset as usize, 0);
        // A file for one ISA has the same addresses, so its note's place stays empty.
        let note = if self.image.fat { self.note() } else { Vec::new() };
        let note_address = BASE + note_offset;
        self.part(".note.motet", elf::SHT_NOTE, elf::SHF_ALLOC.0, note_address, &note, 8);
        self.file.resize((rodata.0 - BASE) as usize, 0);
        let alloc = elf::SHF_ALLOC.0;
        self.constants(&memory.rodata, rodata.0);
        self.load(elf::PF_R.0, 0, BASE, rodata.1 - BASE, rodata.1 - BASE);
        if self.image.fat {
            let note_bytes = note.len() as u64;
            self.headers.push(Header {
                kind: elf::PT_NOTE.0,
                flags: elf::PF_R.0,
                offset: note_offset,
                address: note_address,
                file_bytes: note_bytes,
                memory_bytes: note_bytes,
                align: 8,
            });
        }

        let offset = self.align_to_page();
        self.part(
            ".text",
            elf::SHT_PROGBITS,
            alloc | elf::SHF_EXECINSTR.0,
            text.0,
            &memory.texts[self.image.primary],
            64,
        );
        self.load(elf::PF_R.0 | elf::PF_X.0, offset, text.0, text.1 - text.0, text.1 - text.0);

        let offset = self.align_to_page();
        let write = alloc | elf::SHF_WRITE.0;
        self.part(".data", elf::SHT_PROGBITS, write, data.0, &memory.data, 64);
        let flags = elf::PF_R.0 | elf::PF_W.0;
        let mut start = data.0;
        for (near, end) in &plan.near {
            let size = end - start;
            self.load(flags | near.flags(), offset + start - data.0, start, size, size);
            start = *end;
        }
        let (file_bytes, memory_bytes) = (data.1 - start, bss.1 - start);
        if memory_bytes > 0 {
            self.load(flags, offset + start - data.0, start, file_bytes, memory_bytes);
        }
        let end = self.file.len() as u64;
        self.parts.push(Part::new(".bss", elf::SHT_NOBITS, write, 64, bss.0).at(end, bss.1 - bss.0));
        self.headers.push(Header {
            kind: elf::PT_GNU_STACK.0,
            flags: elf::PF_R.0 | elf::PF_W.0,
            offset: 0,
            address: 0,
            file_bytes: 0,
            memory_bytes: self.image.stack_bytes,
            align: 16,
        });
    }

    /// What is for unwinding the stack has sections of its own, by which debuggers find it.
    fn constants(&mut self, bytes: &[u8], address: u64) {
        let (start, plan) = (self.file.len() as u64, self.image.plan);
        let (kind, alloc) = (elf::SHT_PROGBITS, elf::SHF_ALLOC.0);
        let end = plan.unwind[0].address;
        self.parts.push(Part::new(".rodata", kind, alloc, 64, address).at(start, end - address));
        self.file.extend(bytes);
        let (primary, fat) = (self.image.primary, self.image.fat);
        for (isa, tables) in plan.unwind.iter().enumerate().filter(|(isa, _)| fat || *isa == primary) {
            for (name, (from, to)) in tables.sections() {
                let name = if isa == primary { name.to_owned() } else { format::debug_section(ISAS[isa], name) };
                self.parts.push(Part::new(&name, kind, alloc, 4, from).at(start + (from - address), to - from));
            }
        }
    }

    fn note(&self) -> Vec<u8> {
        let pins: Vec<PinEntry<'_>> = self
            .image
            .plan
            .pinned
            .iter()
            .map(|pin| PinEntry {
                address: pin.address,
                size: pin.size,
                isa: ISAS[pin.isa],
                name: &pin.name,
                signature: pin.signature,
                strict: pin.strict,
            })
            .collect();
        format::note(ISAS[self.image.primary], self.image.one_stack, &pins)
    }

    fn other_texts(&mut self) {
        let (start, end) = self.image.plan.ranges[&Segment::Text];
        if !self.image.fat {
            return;
        }
        for isa in (0..ISAS.len()).filter(|isa| *isa != self.image.primary) {
            let offset = self.align_to_page();
            let name = format::text_section(ISAS[isa]);
            // Not of this machine: no address, so that tools for this machine leave it alone.
            self.part(&name, elf::SHT_PROGBITS, 0, 0, &self.image.memory.texts[isa], PAGE_BYTES);
            self.headers.push(Header {
                kind: motet_abi::fat::PT_TEXT,
                flags: format::text_flags(ISAS[isa]),
                offset,
                address: start,
                file_bytes: end - start,
                memory_bytes: end - start,
                align: PAGE_BYTES,
            });
        }
    }

    fn symbols(&mut self) {
        let mut names = vec![0];
        let mut table = vec![0; SYMBOL_BYTES as usize];
        let symbols = symbols(self.image.plan, self.image.primary);
        let locals = symbols.iter().filter(|symbol| !symbol.global).count() as u32;
        for symbol in &symbols {
            let binding = if symbol.global { elf::STB_GLOBAL } else { elf::STB_LOCAL };
            table.extend((names.len() as u32).to_le_bytes());
            table.push(binding.0 << 4 | symbol.kind.0);
            table.push(0);
            table.extend(self.section_of(symbol.segment).to_le_bytes());
            table.extend(symbol.address.to_le_bytes());
            table.extend(symbol.size.to_le_bytes());
            names.extend(symbol.name.as_bytes());
            names.push(0);
        }
        self.align_to(8);
        self.part(".symtab", elf::SHT_SYMTAB, 0, 0, &table, 8);
        let strings = self.parts.len() as u32 + 1;
        if let Some(part) = self.parts.last_mut() {
            (part.link, part.info, part.entry_bytes) = (strings, locals + 1, SYMBOL_BYTES);
        }
        self.part(".strtab", elf::SHT_STRTAB, 0, 0, &names, 1);
    }

    fn section_of(&self, segment: Segment) -> u16 {
        let index = self.parts.iter().position(|part| part.name == segment.name());
        index.map_or(0, |index| index as u16 + 1)
    }

    fn debug(&mut self) {
        let (primary, fat) = (self.image.primary, self.image.fat);
        for (isa, linked) in self.image.linked.iter().enumerate().filter(|(isa, _)| fat || *isa == primary) {
            for (name, bytes) in &linked.debug {
                let name = if isa == primary { name.clone() } else { format::debug_section(ISAS[isa], name) };
                self.part(&name, elf::SHT_PROGBITS, 0, 0, bytes, 1);
            }
        }
    }

    fn part(&mut self, name: &str, kind: elf::SectionType, flags: u64, address: u64, bytes: &[u8], align: u64) {
        let offset = self.file.len() as u64;
        self.parts.push(Part::new(name, kind, flags, align, address).at(offset, bytes.len() as u64));
        self.file.extend(bytes);
    }

    fn load(&mut self, flags: u32, offset: u64, address: u64, file_bytes: u64, memory_bytes: u64) {
        let kind = elf::PT_LOAD.0;
        self.headers.push(Header { kind, flags, offset, address, file_bytes, memory_bytes, align: PAGE_BYTES });
    }

    fn align_to(&mut self, align: u64) -> u64 {
        let length = (self.file.len() as u64).next_multiple_of(align);
        self.file.resize(length as usize, 0);
        length
    }

    fn align_to_page(&mut self) -> u64 {
        self.align_to(PAGE_BYTES)
    }

    fn finish(mut self) -> Vec<u8> {
        let mut names = vec![0];
        let mut starts = Vec::new();
        for name in self.parts.iter().map(|part| part.name.as_str()).chain([".shstrtab"]) {
            starts.push(names.len() as u32);
            names.extend(name.as_bytes());
            names.push(0);
        }
        self.part(".shstrtab", elf::SHT_STRTAB, 0, 0, &names, 1);
        let sections = self.align_to(8);
        self.file.extend([0; 64]);
        let parts = std::mem::take(&mut self.parts);
        for (part, name) in parts.iter().zip(starts) {
            self.file.extend(name.to_le_bytes());
            self.file.extend(part.kind.0.to_le_bytes());
            for word in [part.flags, part.address, part.offset, part.size] {
                self.file.extend(word.to_le_bytes());
            }
            self.file.extend(part.link.to_le_bytes());
            self.file.extend(part.info.to_le_bytes());
            self.file.extend(part.align.to_le_bytes());
            self.file.extend(part.entry_bytes.to_le_bytes());
        }
        let header = self.file_header(sections, parts.len() as u16 + 1);
        self.file[..header.len()].copy_from_slice(&header);
        self.file
    }

    fn file_header(&self, sections: u64, section_count: u16) -> Vec<u8> {
        let target = &TARGETS[self.image.primary];
        let mut header = Vec::from(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        header.extend(elf::ET_EXEC.0.to_le_bytes());
        header.extend(target.machine.0.to_le_bytes());
        header.extend(1u32.to_le_bytes());
        for word in [self.image.entry, FILE_HEADER_BYTES, sections] {
            header.extend(word.to_le_bytes());
        }
        header.extend(target.elf_flags.to_le_bytes());
        let counts = [
            FILE_HEADER_BYTES as u16,
            PROGRAM_HEADER_BYTES as u16,
            self.headers.len() as u16,
            64,
            section_count,
            section_count - 1,
        ];
        header.extend(counts.into_iter().flat_map(u16::to_le_bytes));
        for program in &self.headers {
            header.extend(program.kind.to_le_bytes());
            header.extend(program.flags.to_le_bytes());
            let words = [
                program.offset,
                program.address,
                program.address,
                program.file_bytes,
                program.memory_bytes,
                program.align,
            ];
            header.extend(words.into_iter().flat_map(u64::to_le_bytes));
        }
        header
    }
}

/// A symbol of the executable.
struct FinalSymbol {
    name: String,
    kind: elf::SymbolType,
    global: bool,
    segment: Segment,
    address: u64,
    size: u64,
}

/// The symbols of an ISA: local ones first.
fn symbols(plan: &Plan, isa: usize) -> Vec<FinalSymbol> {
    let mut found = Vec::new();
    for (number, module) in plan.linkage.program.modules.iter().enumerate() {
        for (index, symbol) in module.images[isa].symbols.iter().enumerate() {
            let hidden = symbol.name.is_empty() || symbol.name.starts_with('.') || symbol.name.starts_with('$');
            if hidden || !matches!(symbol.place, Place::Section(_)) {
                continue;
            }
            let winner = plan.linkage.program.definitions.get(&symbol.name);
            if symbol.global
                && !matches!(winner, Some(Definition::Module { modules, .. }) if modules[isa] == Some(number))
            {
                continue;
            }
            let target = plan.linkage.local(number, isa, index);
            let Target::Unit(id, offset) = target else { continue };
            let Some(addresses) = plan.addresses.get(&id) else { continue };
            let unit = plan.linkage.units.get(id);
            // A function ends where the longest ISA's code does, so that addresses of all ISAs are found in it.
            let is_last = unit.sections[isa]
                .is_some_and(|section| module.images[isa].sections[section].size == offset + symbol.size);
            let is_padded = unit.segment == Segment::Text && symbol.kind == elf::STT_FUNC && is_last;
            found.push(FinalSymbol {
                name: symbol.name.clone(),
                kind: symbol.kind,
                global: symbol.global,
                segment: unit.segment,
                address: addresses[isa] + offset,
                size: if is_padded { unit.size - offset } else { symbol.size },
            });
        }
    }
    for (name, address) in &plan.commons {
        let size = match plan.linkage.program.definitions.get(name) {
            Some(Definition::Common { size, .. }) => *size,
            Some(Definition::Module { .. }) | None => 0,
        };
        let (kind, segment) = (elf::STT_OBJECT, Segment::Bss);
        found.push(FinalSymbol { name: name.clone(), kind, global: true, segment, address: *address, size });
    }
    found.sort_by_key(|symbol| symbol.global);
    found
}
