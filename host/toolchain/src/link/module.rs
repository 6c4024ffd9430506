//! Object files as the linker sees them: sections, symbols and relocations of every ISA.

use std::collections::HashMap;

use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags, SymbolFlags,
    SymbolSection, elf,
    read::elf::{ElfFile64, ElfSection64},
};

use super::frames::{self, Frame};
use crate::{
    error::{Error, Result},
    fat_object::{self, Notes},
    isa::{ISAS, PerIsa, TARGETS},
};

/// One object file.
pub struct Module {
    /// For messages: the path, or `archive(member)`.
    pub name: String,
    /// What it holds for each ISA.
    pub images: PerIsa<Image>,
    /// What its source says.
    pub notes: Notes,
    /// Its debugger's sections are for the user (`-g`): then every ISA has them. `motet cc` always makes those of one
    /// ISA, for the types of pinned functions.
    pub is_debug_wanted: bool,
    /// The toolchain has brought it, not the user.
    pub is_runtime: bool,
}

/// The object file of one ISA.
pub struct Image {
    /// By ELF index.
    pub sections: Vec<Section>,
    /// By ELF index.
    pub symbols: Vec<Symbol>,
    /// Global symbols that it defines, by name.
    pub defined: HashMap<String, usize>,
    /// How to unwind the stack frames of the functions in a section.
    pub frames: HashMap<usize, Vec<Frame>>,
}

/// What a section is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Code.
    Text,
    /// Constants.
    Rodata,
    /// Constants that may be merged with equal ones.
    Mergeable {
        /// The size of one in bytes; of one character, for strings.
        entry_bytes: usize,
        /// They end with a character of zeros.
        strings: bool,
    },
    /// Variables.
    Data,
    /// Variables that begin as zeros.
    Bss,
    /// How to unwind the stack ([`frames`]).
    Unwind,
    /// Of the debugger.
    Debug,
    /// Not for the program.
    Ignored,
}

/// A section of one ISA.
pub struct Section {
    /// In the file.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// Alignment in bytes, a power of two.
    pub align: u64,
    /// Size in bytes.
    pub size: u64,
    /// Contents; empty for [`Kind::Bss`].
    pub data: Vec<u8>,
    /// In order of the file.
    pub relocations: Vec<Relocation>,
    /// Kept though nothing refers to it.
    pub retained: bool,
    /// Of a group of which several files may have a copy: an inline function's, for instance.
    pub grouped: bool,
}

/// A place to fill in.
#[derive(Clone, Copy)]
pub struct Relocation {
    /// In the section, in bytes.
    pub offset: u64,
    /// ELF type; the ISA gives it a meaning.
    pub r_type: u32,
    /// Index of the symbol.
    pub symbol: usize,
    /// Added to the symbol's address.
    pub addend: i64,
    /// Refers to the entry of the global offset table.
    pub indirect: bool,
}

/// Where a symbol is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// Elsewhere.
    Undefined,
    /// `value` is the address.
    Absolute,
    /// Memory that all definitions of the name share; `value` is the alignment in bytes.
    Common,
    /// At `value` in the section with this index.
    Section(usize),
}

/// A symbol of one ISA.
pub struct Symbol {
    /// Empty for sections.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// See [`Place`].
    pub value: u64,
    /// Size in bytes.
    pub size: u64,
    /// Its ELF type.
    pub kind: elf::SymbolType,
    /// Visible in other files.
    pub global: bool,
    /// Gives way to others of the name; need not exist.
    pub weak: bool,
}

impl Module {
    /// Reads a file that holds the object files of all ISAs.
    ///
    /// # Errors
    /// It does not, or has something that cannot be linked.
    pub fn parse(name: String, file: &[u8]) -> Result<Self> {
        let objects = fat_object::split(&name, file)?;
        let mut images = Vec::new();
        for (index, object) in objects.into_iter().enumerate() {
            let whole = format!("{name} ({})", ISAS[index].name());
            images.push(parse_image(&whole, object, index)?);
        }
        let mut images: PerIsa<Image> = images.try_into().unwrap_or_else(|_| unreachable!("one for each ISA"));
        unify_thread_variables(&mut images);
        let has_debug = |image: &Image| image.sections.iter().any(|section| section.kind == Kind::Debug);
        let notes = fat_object::notes(file);
        let is_debug_wanted = images.iter().all(has_debug) && !notes.typed;
        Ok(Self { name, images, notes, is_debug_wanted, is_runtime: false })
    }
}

impl Module {
    /// The name of its source, without folders, as the compiler leaves it.
    pub fn source(&self) -> Option<&str> {
        let file = self.images[0].symbols.iter().find(|symbol| symbol.kind == elf::STT_FILE);
        file.and_then(|file| file.name.rsplit('/').next())
    }

    /// Where symbols are that other files see, on each ISA.
    pub fn global_places(&self) -> impl Iterator<Item = (usize, Place)> {
        let images = self.images.iter().enumerate();
        images.flat_map(|(isa, image)| {
            let global = image.symbols.iter().filter(|symbol| symbol.global);
            global.map(move |symbol| (isa, symbol.place))
        })
    }
}

/// What emulates a thread-local variable holds its alignment, which each ISA's compiler chooses: the greatest is right
/// for all.
fn unify_thread_variables(images: &mut PerIsa<Image>) {
    const ALIGNMENT: std::ops::Range<usize> = 8..16;
    let mut greatest: HashMap<String, [u8; 8]> = HashMap::new();
    let is_variable =
        |section: &&mut Section| section.name.starts_with(".data.__emutls_v.") && section.data.len() >= ALIGNMENT.end;
    for section in images.iter_mut().flat_map(|image| &mut image.sections).filter(is_variable) {
        let mut alignment = [0; 8];
        alignment.copy_from_slice(&section.data[ALIGNMENT]);
        let known = greatest.entry(section.name.clone()).or_insert(alignment);
        if u64::from_le_bytes(alignment) > u64::from_le_bytes(*known) {
            *known = alignment;
        }
    }
    for section in images.iter_mut().flat_map(|image| &mut image.sections).filter(is_variable) {
        section.data[ALIGNMENT].copy_from_slice(&greatest[&section.name]);
    }
}

/// Reads the object file of an ISA.
///
/// # Errors
/// It has something that cannot be linked.
pub fn parse_image(name: &str, object: &[u8], isa: usize) -> Result<Image> {
    let malformed = |error: object::Error| Error::data(format!("{name}: malformed object file: {error}"));
    let file = ElfFile64::<LittleEndian>::parse(object).map_err(malformed)?;
    let mut image =
        Image { sections: Vec::new(), symbols: Vec::new(), defined: HashMap::new(), frames: HashMap::new() };
    for section in file.sections() {
        let index = section.index().0;
        while image.sections.len() <= index {
            image.sections.push(Section::ignored());
        }
        image.sections[index] = parse_section(name, &section).map_err(|error| match error {
            SectionError::Object(error) => malformed(error),
            SectionError::Unsupported(error) => error,
        })?;
    }
    for symbol in file.symbols() {
        let index = symbol.index().0;
        while image.symbols.len() <= index {
            image.symbols.push(Symbol::null());
        }
        let parsed = parse_symbol(&symbol).map_err(malformed)?;
        if parsed.kind == elf::STT_GNU_IFUNC {
            let message = "is an ifunc, which chooses its code when the program starts; use a pointer to a function";
            return Err(Error::data(format!("{name}: {} {message}", parsed.name)));
        }
        if parsed.global && parsed.place != Place::Undefined {
            image.defined.insert(parsed.name.clone(), index);
        }
        image.symbols[index] = parsed;
    }
    if image.symbols.is_empty() {
        image.symbols.push(Symbol::null());
    }
    check_indices(name, &image)?;
    refer_directly(&mut image, TARGETS[isa].absolute[0].0);
    let malformed = || Error::data(format!("{name}: malformed object file: its .eh_frame cannot be read"));
    image.frames = frames::parse(&image).ok_or_else(malformed)?;
    Ok(image)
}

/// Tables of exceptions find types by pointers that some ISAs' compilers put into `.data`, in an order of their own. The
/// global offset table serves as well, and is the same for all.
fn refer_directly(image: &mut Image, pointer: u32) {
    let mut found = Vec::new();
    for (index, section) in image.sections.iter().enumerate().filter(|(_, section)| section.is_of_exceptions()) {
        for (number, relocation) in section.relocations.iter().enumerate() {
            let symbol = &image.symbols[relocation.symbol];
            let Place::Section(pointers) = symbol.place else { continue };
            let pointers = &image.sections[pointers];
            let place = symbol.value.checked_add_signed(relocation.addend);
            let held = pointers.relocations.iter().find(|held| Some(held.offset) == place && held.r_type == pointer);
            if let Some(held) = held.filter(|_| !symbol.global && pointers.kind == Kind::Data) {
                found.push((index, number, held.symbol, held.addend));
            }
        }
    }
    for (section, number, symbol, addend) in found {
        let relocation = &mut image.sections[section].relocations[number];
        *relocation = Relocation { symbol, addend, indirect: true, ..*relocation };
    }
}

enum SectionError {
    Object(object::Error),
    Unsupported(Error),
}

impl From<object::Error> for SectionError {
    fn from(error: object::Error) -> Self {
        Self::Object(error)
    }
}

fn parse_section(
    file: &str,
    section: &ElfSection64<'_, '_, LittleEndian>,
) -> std::result::Result<Section, SectionError> {
    let SectionFlags::Elf { sh_type, sh_flags } = section.flags() else { return Ok(Section::ignored()) };
    let name = section.name()?.to_owned();
    let has = |flag: elf::SectionFlags| sh_flags.0 & flag.0 != 0;
    if has(elf::SHF_TLS) && section.size() > 0 {
        let message = "has thread-local storage of the ISA's own kind; it must be emulated, as `motet cc` does for C";
        return Err(SectionError::Unsupported(Error::data(format!("{file}: section {name} {message}"))));
    }
    let kind = if !has(elf::SHF_ALLOC) {
        if name.starts_with(".debug_") { Kind::Debug } else { Kind::Ignored }
    } else if name.starts_with(".note.") {
        Kind::Ignored
    } else if name == ".eh_frame" {
        Kind::Unwind
    } else if sh_type == elf::SHT_NOBITS {
        Kind::Bss
    } else if has(elf::SHF_EXECINSTR) {
        Kind::Text
    } else if has(elf::SHF_WRITE) && !is_array(&name) && !name.starts_with(".data.rel.ro") {
        Kind::Data
    } else if has(elf::SHF_MERGE) {
        Kind::Mergeable { entry_bytes: entry_bytes(section), strings: has(elf::SHF_STRINGS) }
    } else {
        Kind::Rodata
    };
    let mut parsed = Section {
        kind,
        align: section.align().max(1),
        size: section.size(),
        data: if kind == Kind::Ignored { Vec::new() } else { section.data()?.to_vec() },
        relocations: Vec::new(),
        retained: sh_flags.0 & elf::SHF_GNU_RETAIN.0 != 0 || is_array(&name),
        grouped: sh_flags.0 & elf::SHF_GROUP.0 != 0,
        name,
    };
    if kind != Kind::Ignored {
        for (offset, relocation) in section.relocations() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let symbol = match relocation.target() {
                RelocationTarget::Symbol(index) => index.0,
                // The null symbol.
                RelocationTarget::Section(_) | RelocationTarget::Absolute | _ => 0,
            };
            let addend = relocation.addend();
            parsed.relocations.push(Relocation { offset, r_type: r_type.0, symbol, addend, indirect: false });
        }
        if kind == Kind::Unwind {
            parsed.relocations.sort_by_key(|relocation| relocation.offset);
        }
    }
    Ok(parsed)
}

fn entry_bytes(section: &ElfSection64<'_, '_, LittleEndian>) -> usize {
    let size = section.elf_section_header().sh_entsize.get(LittleEndian);
    usize::try_from(size).unwrap_or(0)
}

/// Arrays of functions that run before and after `main`. Nothing writes them in a static program.
pub fn is_array(name: &str) -> bool {
    [".preinit_array", ".init_array", ".fini_array"].iter().any(|array| name.starts_with(array))
}

fn parse_symbol<'d>(symbol: &impl ObjectSymbol<'d>) -> object::Result<Symbol> {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return Ok(Symbol::null()) };
    let bind = st_info.st_bind();
    let place = match symbol.section() {
        SymbolSection::Section(index) => Place::Section(index.0),
        SymbolSection::Absolute => Place::Absolute,
        SymbolSection::Common => Place::Common,
        SymbolSection::Unknown | SymbolSection::None | SymbolSection::Undefined | _ => Place::Undefined,
    };
    Ok(Symbol {
        name: symbol.name()?.to_owned(),
        place,
        value: symbol.address(),
        size: symbol.size(),
        kind: st_info.st_type(),
        global: bind != elf::STB_LOCAL,
        weak: bind == elf::STB_WEAK,
    })
}

/// From here on every index is valid.
fn check_indices(name: &str, image: &Image) -> Result<()> {
    let places = image.symbols.iter().all(|symbol| match symbol.place {
        Place::Section(index) => index < image.sections.len(),
        Place::Undefined | Place::Absolute | Place::Common => true,
    });
    let relocations = image.sections.iter().all(|section| {
        section.relocations.iter().all(|relocation| {
            relocation.symbol < image.symbols.len()
                && relocation.offset.checked_add(8).is_some()
                && relocation.offset < section.size
        })
    });
    let aligned = image.sections.iter().all(|section| section.align.is_power_of_two());
    let message = "malformed object file: it refers to a symbol or section that it does not have";
    if places && relocations && aligned { Ok(()) } else { Err(Error::data(format!("{name}: {message}"))) }
}

impl Section {
    /// Whether it says what becomes of exceptions: it knows functions, but keeps no addresses of them.
    pub fn is_of_exceptions(&self) -> bool {
        self.kind == Kind::Unwind || self.name.starts_with(".gcc_except_table")
    }

    fn ignored() -> Self {
        Self {
            name: String::new(),
            kind: Kind::Ignored,
            align: 1,
            size: 0,
            data: Vec::new(),
            relocations: Vec::new(),
            retained: false,
            grouped: false,
        }
    }
}

impl Symbol {
    fn null() -> Self {
        Self {
            name: String::new(),
            place: Place::Undefined,
            value: 0,
            size: 0,
            kind: elf::STT_NOTYPE,
            global: false,
            weak: true,
        }
    }
}
