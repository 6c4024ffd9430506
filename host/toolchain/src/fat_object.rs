//! Object files that hold the code of every ISA.
//!
//! Such a file is an ordinary relocatable ELF of x86-64 (so `ar`, `nm` and `ranlib` work on it) in which a section
//! `.motet.ISA` holds the object file of each other ISA, `.motet.pins` all pins of functions in its source ([`mentions`]),
//! `.motet.constants` names those of its variables that differ between ISAs and are never written ([`crate::constants`]), `.motet.lone` names
//! functions that it has for some ISAs only, and `.motet.types` says which of its types differ ([`crate::differing`]).

use object::{
    LittleEndian, Object, ObjectSection,
    elf::{self, FileHeader64, SectionHeader64},
    read::elf::{FileHeader, SectionHeader},
};

use crate::{
    differing::{self, Differing},
    error::{Error, Result},
    isa::{ISAS, PerIsa, TARGETS},
    mentions::{self, Mention},
};

/// The ISA whose object file carries the others.
const CARRIER: usize = 0;
/// Where [`Mention`]s are.
const MENTIONS: &str = ".motet.pins";
/// Where the names of variables are that no code writes, each in a line.
const CONSTANTS: &str = ".motet.constants";
/// Where it stands which types differ between ISAs ([`crate::differing`]).
const TYPES: &str = ".motet.types";

/// Where the names of functions are that the source has for some ISAs only, each in a line.
const LONE: &str = ".motet.lone";

/// There if the debugger's sections of all ISAs are only for the types of functions.
const TYPED: &str = ".motet.typed";

/// What the linker is told of a source.
#[derive(Default)]
pub struct Notes {
    /// All pins.
    pub mentions: Vec<Mention>,
    /// Variables that no code writes.
    pub constants: Vec<String>,
    /// Functions whose addresses are kept, and that the source has for some ISAs only.
    pub lone: Vec<String>,
    /// The debugger's sections of all ISAs are for the types of functions, not for the user.
    pub typed: bool,
    /// What differs between ISAs.
    pub differing: Differing,
}

fn section_name(index: usize) -> String {
    format!(".motet.{}", ISAS[index].name())
}

/// One file out of one object file for each ISA.
///
/// The others' files are appended to the carrier's, with a new table of sections behind them; what was there stays where
/// it was.
///
/// # Errors
/// An object file is malformed (`name` is for the message).
pub fn join(name: &str, objects: &PerIsa<Vec<u8>>, notes: &Notes) -> Result<Vec<u8>> {
    let malformed = |error: object::Error| Error::data(format!("{name}: malformed object file: {error}"));
    let carrier = objects[CARRIER].as_slice();
    let header = FileHeader64::<LittleEndian>::parse(carrier).map_err(malformed)?;
    let sections = header.section_headers(LittleEndian, carrier).map_err(malformed)?;
    let names = header.shstrndx(LittleEndian, carrier).map_err(malformed)?;
    let names = sections.get(names as usize).ok_or_else(|| Error::data(format!("{name}: no section names")))?;
    let mut names = names.data(LittleEndian, carrier).map_err(malformed)?.to_vec();

    let mut file = carrier.to_vec();
    let mut table = object::pod::bytes_of_slice(sections).to_vec();
    let others = objects.iter().enumerate().filter(|(index, _)| *index != CARRIER);
    let others = others.map(|(index, object)| (section_name(index), object.clone()));
    let notes = [
        (MENTIONS, mentions::to_section(&notes.mentions)),
        (CONSTANTS, notes.constants.join("\n").into_bytes()),
        (LONE, notes.lone.join("\n").into_bytes()),
        (TYPED, if notes.typed { vec![1] } else { Vec::new() }),
        (TYPES, differing::to_section(&notes.differing)),
    ];
    let notes = notes.into_iter().filter(|(_, contents)| !contents.is_empty());
    for (section, contents) in others.chain(notes.map(|(name, contents)| (name.to_owned(), contents))) {
        // A linker that knows nothing of this leaves it out of the program.
        table.extend(section_header(&mut names, &section, elf::SHT_PROGBITS, elf::SHF_EXCLUDE.0, &mut file, &contents));
    }
    let title = names.len() as u32;
    names.extend(b".shstrtab\0");
    let contents = names.clone();
    let mut last = section_header(&mut names, "", elf::SHT_STRTAB, 0, &mut file, &contents);
    last[..4].copy_from_slice(&title.to_le_bytes());
    table.extend(last);

    file.resize(file.len().next_multiple_of(8), 0);
    let count = table.len() / size_of::<SectionHeader64<LittleEndian>>();
    let start = file.len() as u64;
    file[SECTIONS_AT..SECTIONS_AT + 8].copy_from_slice(&start.to_le_bytes());
    let few = u16::try_from(count).ok().filter(|count| *count < elf::SHN_LORESERVE);
    let (number, of_names) = few.map_or((0, elf::SHN_XINDEX.0), |count| (count, count - 1));
    file[COUNT_AT..COUNT_AT + 2].copy_from_slice(&number.to_le_bytes());
    file[COUNT_AT + 2..COUNT_AT + 4].copy_from_slice(&of_names.to_le_bytes());
    if few.is_none() {
        // What does not fit into the header stands in the first section's.
        table[FIRST_COUNT_AT..FIRST_COUNT_AT + 8].copy_from_slice(&(count as u64).to_le_bytes());
        table[FIRST_COUNT_AT + 8..FIRST_COUNT_AT + 12].copy_from_slice(&(count as u32 - 1).to_le_bytes());
    }
    file.extend(table);
    Ok(file)
}

/// In the ELF header: where the table of sections is, how many it has, and which one has their names.
const SECTIONS_AT: usize = 0x28;
const COUNT_AT: usize = 0x3c;
/// In the first entry of that table: `sh_size`, and `sh_link` behind it.
const FIRST_COUNT_AT: usize = 32;

/// Appends a section's contents to `file` and its name to `names`; gives its entry of the table.
fn section_header(
    names: &mut Vec<u8>,
    name: &str,
    kind: elf::SectionType,
    flags: u64,
    file: &mut Vec<u8>,
    contents: &[u8],
) -> Vec<u8> {
    file.resize(file.len().next_multiple_of(8), 0);
    let mut header = Vec::new();
    header.extend((names.len() as u32).to_le_bytes());
    header.extend(kind.0.to_le_bytes());
    for word in [flags, 0, file.len() as u64, contents.len() as u64, 0, 8, 0] {
        header.extend(word.to_le_bytes());
    }
    names.extend(name.as_bytes());
    names.push(0);
    file.extend(contents);
    header
}

/// The object file of each ISA out of a file made by [`join`].
///
/// # Errors
/// The file is something else (`name` is for the message).
pub fn split<'a>(name: &str, file: &'a [u8]) -> Result<PerIsa<&'a [u8]>> {
    let carrier =
        object::File::parse(file).map_err(|error| Error::data(format!("{name}: not an object file: {error}")))?;
    if carrier.architecture() != TARGETS[CARRIER].architecture {
        return Err(not_fat(name, &format!("it holds only {:?}", carrier.architecture())));
    }
    let mut objects = [file; ISAS.len()];
    for (index, object) in objects.iter_mut().enumerate().filter(|(index, _)| *index != CARRIER) {
        let section = carrier.section_by_name(&section_name(index));
        let data = section.and_then(|section| section.data().ok());
        *object = data.ok_or_else(|| not_fat(name, &format!("it has no code for {}", ISAS[index].name())))?;
    }
    Ok(objects)
}

/// What a file made by [`join`] tells the linker.
pub fn notes(file: &[u8]) -> Notes {
    let carrier = object::File::parse(file).ok();
    let section =
        |name| carrier.as_ref().and_then(|carrier| carrier.section_by_name(name)?.data().ok()).unwrap_or_default();
    let lines = |name| String::from_utf8_lossy(section(name)).lines().map(str::to_owned).collect();
    Notes {
        mentions: mentions::of_section(section(MENTIONS)),
        constants: lines(CONSTANTS),
        lone: lines(LONE),
        typed: !section(TYPED).is_empty(),
        differing: differing::of_section(section(TYPES)),
    }
}

fn not_fat(name: &str, why: &str) -> Error {
    Error::data(format!("{name}: {why}; compile it with `motet cc -c`, which compiles for every instruction set"))
}
