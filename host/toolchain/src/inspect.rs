//! Looking into programs: `motet objdump` and `motet addr2line`.

use std::{fmt::Write, path::Path};

use gimli::{EndianSlice, LittleEndian};
use motet_abi::fat::{Header, Pin, Signature, Word};
use motet_layout::Isa;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::{
    error::{Error, Result, read},
    format,
    isa::{ISAS, PerIsa, TARGETS},
};

/// A program for every instruction set.
struct Program<'a> {
    file: object::File<'a>,
    header: Header,
    pins: Vec<(String, Pin)>,
    /// Where the text is.
    start: u64,
    texts: PerIsa<&'a [u8]>,
}

struct Function<'a> {
    name: &'a str,
    address: u64,
    size: u64,
}

impl<'a> Program<'a> {
    fn parse(path: &Path, bytes: &'a [u8]) -> Result<Self> {
        let wrong = |why: &str| Error::data(format!("{}: {why}", path.display()));
        let file = object::File::parse(bytes).map_err(|error| wrong(&format!("not an executable: {error}")))?;
        let note = file.section_by_name(".note.motet").and_then(|section| section.data().ok());
        let note = note.ok_or_else(|| wrong("not a program of `motet cc`: it has no Motet note"))?;
        let (header, pins) = format::read_note(note).ok_or_else(|| wrong("its Motet note is malformed"))?;
        let section = |name: &str| {
            let section =
                file.section_by_name(name).and_then(|section| Some((section.address(), section.data().ok()?)));
            section.ok_or_else(|| wrong(&format!("it has no section {name}")))
        };
        let (start, _) = section(".text")?;
        let mut texts: PerIsa<&[u8]> = Default::default();
        for (text, isa) in texts.iter_mut().zip(ISAS) {
            *text = if isa == header.primary { section(".text")?.1 } else { section(&format::text_section(isa))?.1 };
        }
        Ok(Self { file, header, pins, start, texts })
    }

    /// In the order of their addresses; of several names of one function, the first.
    fn functions(&self) -> Vec<Function<'_>> {
        let mut functions = Vec::new();
        for symbol in self.file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            if let Ok(name) = symbol.name() {
                functions.push(Function { name, address: symbol.address(), size: symbol.size() });
            }
        }
        functions.sort_by_key(|function| function.address);
        functions.dedup_by_key(|function| function.address);
        functions
    }

    /// Bytes of code in a function; the rest of it is padding.
    fn code_bytes(&self, isa: usize, function: &Function<'_>) -> u64 {
        let start = function.address.checked_sub(self.start).and_then(|start| usize::try_from(start).ok());
        let range = start.and_then(|start| Some(start..start.checked_add(usize::try_from(function.size).ok()?)?));
        let bytes = range.and_then(|range| self.texts[isa].get(range)).unwrap_or_default();
        if ISAS[isa] != Isa::RiscV64 {
            return bytes.iter().rposition(|byte| *byte != TARGETS[isa].trap).map_or(0, |last| last as u64 + 1);
        }
        // Instructions may end in zeros, which are the padding, too.
        let (mut at, mut end) = (0, 0);
        while let Some(&first) = bytes.get(at) {
            let length = if first & 3 == 3 { 4 } else { 2 };
            if bytes[at..].iter().take(length).any(|byte| *byte != 0) {
                end = (at + length).min(bytes.len());
            }
            at += length;
        }
        end as u64
    }

    fn pin(&self, address: u64) -> Option<&(String, Pin)> {
        self.pins.iter().find(|(_, pin)| pin.address == address)
    }

    fn debug(&self, isa: Isa) -> gimli::Result<gimli::Dwarf<EndianSlice<'_, LittleEndian>>> {
        let section = |id: gimli::SectionId| {
            let name =
                if isa == self.header.primary { id.name().into() } else { format::debug_section(isa, id.name()) };
            self.file.section_by_name(&name).and_then(|section| section.data().ok()).unwrap_or_default()
        };
        gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(EndianSlice::new(section(id), LittleEndian)))
    }
}

/// What a program holds, as a table: its ISAs, and for each function its pin, and its size on every ISA.
///
/// # Errors
/// The file is missing or not a program of `motet cc`.
pub fn objdump(path: &Path) -> Result<String> {
    let bytes = read(path)?;
    let program = Program::parse(path, &bytes)?;
    let functions = program.functions();
    let mut out = String::new();
    let text_bytes = program.texts[0].len();
    let _ = writeln!(
        out,
        "{}: text at {:#x}, {text_bytes} bytes for each instruction set\n",
        path.display(),
        program.start
    );
    let _ = writeln!(out, "{:<10} {:>10} {:>10} {:>8}", "isa", "code", "padding", "pinned");
    for (isa, own) in ISAS.iter().enumerate() {
        let code: u64 = functions.iter().map(|function| program.code_bytes(isa, function)).sum();
        let padding = (text_bytes as u64).saturating_sub(code);
        let pinned = program.pins.iter().filter(|(_, pin)| pin.isa == *own).count();
        let primary = if *own == program.header.primary { "  primary" } else { "" };
        let _ = writeln!(out, "{:<10} {code:>10} {padding:>10} {pinned:>8}{primary}", own.name());
    }
    if functions.is_empty() {
        out.push_str("(without symbols, what is code and what is padding is not known)\n");
    }
    for (name, pin) in program.pins.iter().filter(|_| functions.is_empty()) {
        let _ = writeln!(out, "{:#x} {:>8} {}", pin.address, pin.size, describe(name, pin));
    }
    let names = ISAS.map(|isa| format!("{:>8}", isa.name())).join(" ");
    let _ = writeln!(out, "\n{:<10} {:>8} {names}  function", "address", "size");
    for function in &functions {
        let code: Vec<String> =
            (0..ISAS.len()).map(|isa| format!("{:>8}", program.code_bytes(isa, function))).collect();
        let name =
            program.pin(function.address).map_or(function.name.to_owned(), |(_, pin)| describe(function.name, pin));
        let _ = writeln!(out, "{:<#10x} {:>8} {}  {name}", function.address, function.size, code.join(" "));
    }
    Ok(out)
}

/// A pinned function for people: its name, what calls of it carry, and where it runs.
fn describe(name: &str, pin: &Pin) -> String {
    let mut words: Vec<String> = Vec::new();
    let signature = pin.signature;
    words.extend((0..signature.word_count()).map(|index| word(signature.word(index))));
    words.extend((0..signature.float_count()).map(|index| float(signature.is_single(index)).to_owned()));
    let mut results: Vec<String> = Vec::new();
    for index in 0..2 {
        if signature.result >> (4 * index) & 15 != 0 {
            results.push(word(signature.result_word(index)));
        }
    }
    for index in 0..2 {
        if signature.result >> (8 + 2 * index) & 3 != 0 {
            results.push(float(signature.result_is_single(index)).to_owned());
        }
    }
    let types = if signature == Signature::UNKNOWN {
        "(types unknown)".to_owned()
    } else {
        format!("({}) -> ({})", words.join(", "), results.join(", "))
    };
    format!("{name} {types} {} {}", if pin.strict { "only" } else { "on" }, pin.isa.name())
}

fn word(word: Word) -> String {
    match word {
        Word::Whole => "64".into(),
        Word::Signed(bits) => format!("i{bits}"),
        Word::Unsigned(bits) => format!("u{bits}"),
        Word::Part(bytes) => format!("{bytes} bytes"),
    }
}

fn float(is_single: bool) -> &'static str {
    if is_single { "float" } else { "double" }
}

/// Where addresses are in the source: for each a line with the function, and one for each ISA with file and line.
///
/// # Errors
/// The file is missing or not a program of `motet cc`, or an address is no hexadecimal number.
pub fn addr2line(path: &Path, addresses: &[String]) -> Result<String> {
    let bytes = read(path)?;
    let program = Program::parse(path, &bytes)?;
    let functions = program.functions();
    let mut contexts = Vec::new();
    for isa in ISAS {
        let context = program.debug(isa).and_then(addr2line::Context::from_dwarf);
        let malformed =
            |error| Error::data(format!("{} ({}): debugger's sections: {error}", path.display(), isa.name()));
        contexts.push(context.map_err(malformed)?);
    }
    let mut out = String::new();
    for text in addresses {
        let address = u64::from_str_radix(text.trim_start_matches("0x"), 16)
            .map_err(|_| Error::usage(format!("motet addr2line: {text}: not a hexadecimal address")))?;
        let contains = |function: &&Function<'_>| address.wrapping_sub(function.address) < function.size;
        match functions.iter().find(contains) {
            Some(function) => {
                let pin = program.pin(function.address);
                let name = pin.map_or(function.name.to_owned(), |(_, pin)| describe(function.name, pin));
                let _ = writeln!(out, "{address:#x}: {name}, +{:#x}", address - function.address);
            }
            None => {
                let _ = writeln!(out, "{address:#x}: not in a function");
            }
        }
        for (isa, context) in ISAS.iter().zip(&contexts) {
            let location = context.find_location(address).ok().flatten();
            let place = location.and_then(|location| Some(format!("{}:{}", location.file?, location.line?)));
            let place = place.unwrap_or_else(|| "unknown (compile with -g)".into());
            let _ = writeln!(out, "  {:<8} {place}", isa.name());
        }
    }
    Ok(out)
}
