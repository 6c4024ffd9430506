//! ELF executables: what their headers say.
//!
//! A file is an allegation: every field is checked before it is used, and what does not fit is a [`Refusal`].

use elf::{
    abi::{ET_CORE, ET_DYN, ET_EXEC, ET_REL, PT_INTERP, PT_LOAD},
    endian::LittleEndian,
    file::{Class, FileHeader, parse_ident},
    parse::ParsingTable,
    segment::ProgramHeader,
};
use motet_abi::{
    attributes, elf as abi,
    fat::{self, PT_TEXT},
    property,
};
use motet_hal::Machine;
use motet_layout::{InodeRecord, Isa, PAGE_SIZE};
use motet_protocol::fs;

use super::refusal::Refusal;
use crate::{call::cost, cpu::Cpu, due};

/// Program headers that are looked at.
const HEADERS_MAX: usize = 64;
const HEADER_LEN: usize = 56;
/// Longest interpreter path, with its zero.
pub const INTERPRETER_MAX: usize = 256;

/// Room for the program headers of an executable, which lie in one place while it is loaded: they are large.
pub type HeaderRoom = [u8; HEADERS_MAX * HEADER_LEN];

/// Room without headers.
pub const NO_HEADERS: HeaderRoom = [0; HEADERS_MAX * HEADER_LEN];

/// What the kernel needs to know of an executable.
pub struct Executable<'h> {
    /// The instruction set that it starts on.
    pub isa: Isa,
    /// The one that its header names.
    pub header_isa: Isa,
    pub(super) header: FileHeader<LittleEndian>,
    headers: &'h [u8],
    file_len: u64,
}

impl<'h> Executable<'h> {
    /// Reads the headers of a file, to `room`, and checks them. One for several instruction sets starts on the one that is `wished`, if it can.
    ///
    /// # Errors
    /// It is no 64-bit little-endian ELF executable of a known instruction set, or is truncated or inconsistent.
    pub fn read<M: Machine>(
        cpu: &Cpu<M>,
        inode: &'static InodeRecord,
        wished: Option<Isa>,
        room: &'h mut HeaderRoom,
    ) -> Result<Self, Refusal> {
        let mut bytes = [0; 64];
        let len = fs::read_bytes(cpu, inode, 0, &mut bytes);
        let ident = parse_ident::<LittleEndian>(&bytes[..16]);
        let ident = ident.ok().filter(|ident| ident.1 == Class::ELF64 && len == bytes.len());
        let header = ident.and_then(|ident| FileHeader::parse_tail(ident, &bytes[16..]).ok());
        let known = header.and_then(|header| Some((header, abi::isa_of_machine(header.e_machine)?)));
        let Some((header, isa)) = known else { return Err(Refusal::of_file(cpu, inode)) };
        check_type(&header)?;
        let count = usize::from(header.e_phnum);
        if count == 0 || count > HEADERS_MAX || usize::from(header.e_phentsize) != HEADER_LEN {
            return Err(Refusal::Damaged("number or size of its program headers is wrong"));
        }
        due::spend_locked(cpu, cost::STEP);
        let headers = &mut room[..count * HEADER_LEN];
        if header.e_phoff.checked_add(headers.len() as u64).is_none()
            || fs::read_bytes(cpu, inode, header.e_phoff, headers) < headers.len()
        {
            return Err(Refusal::Damaged("its program headers are not in the file"));
        }
        let file_len = inode.size.load(core::sync::atomic::Ordering::Relaxed);
        let mut executable = Self { isa, header_isa: isa, header, headers, file_len };
        executable.check()?;
        executable.isa = executable.start_isa(cpu, wished);
        Ok(executable)
    }

    /// The ISA that a program starts on: the one that the process has `wished` for if the file has its text, otherwise the program's own,
    /// or if the machine has no island of it, another one of which the file has the text.
    fn start_isa<M: Machine>(&self, cpu: &Cpu<M>, wished: Option<Isa>) -> Isa {
        let has_island = |isa: &Isa| cpu.islands_of(*isa).next().is_some();
        let texts = || {
            let others = self.segments().filter(|segment| segment.p_type == PT_TEXT);
            let others = others.filter_map(|segment| fat::isa_of_flags(segment.p_flags));
            core::iter::once(self.header_isa).chain(others)
        };
        let wished = wished.into_iter().filter(|wished| texts().any(|isa| isa == *wished));
        wished.chain(texts()).find(has_island).unwrap_or(self.header_isa)
    }

    /// Whether it says that it has the text of several ISAs.
    pub fn is_fat(&self) -> bool {
        self.segments().any(|segment| segment.p_type == PT_TEXT)
    }

    /// The path of the program interpreter, if the file names one: copied to `into`, its length returned.
    ///
    /// # Errors
    /// The path is too long or not terminated.
    pub fn interpreter<M: Machine>(
        &self,
        cpu: &Cpu<M>,
        inode: &'static InodeRecord,
        into: &mut [u8; INTERPRETER_MAX],
    ) -> Result<Option<usize>, Refusal> {
        let Some(segment) = self.segments().find(|segment| segment.p_type == PT_INTERP) else { return Ok(None) };
        let wrong = Refusal::Damaged("the path of its interpreter is wrong");
        let len = segment.p_filesz as usize;
        if segment.p_filesz < 2 || segment.p_filesz > INTERPRETER_MAX as u64 {
            return Err(wrong);
        }
        let read = fs::read_bytes(cpu, inode, segment.p_offset, &mut into[..len]);
        match into[..len].iter().position(|&byte| byte == 0) {
            Some(end) if read == len && end > 0 => Ok(Some(end)),
            _ => Err(wrong),
        }
    }

    /// How many bytes vector registers have at least for which it is made, as it says itself (RISC-V's `.riscv.attributes`); 0: it does not, or any have as
    /// many.
    pub fn vector_bytes<M: Machine>(&self, cpu: &Cpu<M>, inode: &'static InodeRecord) -> u32 {
        let attributes = self.segments().find(|segment| segment.p_type == attributes::PT_RISCV_ATTRIBUTES);
        let Some(segment) = attributes.filter(|_| self.header_isa == attributes::ISA) else { return 0 };
        let len = segment.p_filesz.min(attributes::LEN_MAX);
        let mut most = 0;
        let mut window = [0; 4 * attributes::WORD_MAX];
        // Windows overlap, so that a word is in one of them as a whole.
        for at in (0..len).step_by(window.len() - attributes::WORD_MAX) {
            let part = window.len().min((len - at) as usize);
            let read = fs::read_bytes(cpu, inode, segment.p_offset.saturating_add(at), &mut window[..part]);
            most = most.max(attributes::vector_bytes(&window[..read]));
        }
        if most > attributes::VECTOR_BYTES_MIN { most } else { 0 }
    }

    /// The level of the x86-64 psABI that it needs, as it says itself (`.note.gnu.property`), if on cores below that it may compute something wrong.
    pub fn x86_level<M: Machine>(&self, cpu: &Cpu<M>, inode: &'static InodeRecord) -> Option<u32> {
        let note = self.segments().find(|segment| segment.p_type == property::PT_GNU_PROPERTY);
        let segment = note.filter(|_| self.header_isa == property::ISA)?;
        let mut bytes = [0; property::LEN_MAX];
        let len = bytes.len().min(segment.p_filesz as usize);
        let read = fs::read_bytes(cpu, inode, segment.p_offset, &mut bytes[..len]);
        property::needed_level(&bytes[..read])
    }

    /// Whether the file chooses its addresses itself.
    pub fn is_fixed(&self) -> bool {
        self.header.e_type == ET_EXEC
    }

    /// Checks everything about the segments that does not depend on where they go.
    fn check(&self) -> Result<(), Refusal> {
        let mut loads = 0;
        for segment in self.segments() {
            if segment.p_type != PT_LOAD && segment.p_type != PT_INTERP {
                continue;
            }
            let file_end = segment.p_offset.checked_add(segment.p_filesz);
            if file_end.is_none_or(|end| end > self.file_len) {
                return Err(Refusal::Damaged("a segment is not in the file, which may be cut off"));
            }
            if segment.p_type == PT_LOAD {
                let congruent = segment.p_offset % PAGE_SIZE == segment.p_vaddr % PAGE_SIZE;
                if segment.p_filesz > segment.p_memsz || segment.p_filesz != 0 && !congruent {
                    return Err(Refusal::Damaged("a segment does not fit its place in memory"));
                }
                loads += 1;
            }
        }
        let has_interpreter = self.segments().any(|segment| segment.p_type == PT_INTERP);
        if loads == 0 {
            Err(Refusal::Damaged("it has no segment to load"))
        } else if self.header.e_entry == 0 && !self.is_fixed() && !has_interpreter {
            Err(Refusal::NoProgram("a library, without an entry point"))
        } else {
            Ok(())
        }
    }

    /// How many program headers it has.
    pub fn segment_count(&self) -> u64 {
        (self.headers.len() / HEADER_LEN) as u64
    }

    /// The program headers.
    pub fn segments(&self) -> impl Iterator<Item = ProgramHeader> {
        ParsingTable::<LittleEndian, ProgramHeader>::new(LittleEndian, Class::ELF64, self.headers).iter()
    }
}

fn check_type(header: &FileHeader<LittleEndian>) -> Result<(), Refusal> {
    match header.e_type {
        ET_EXEC | ET_DYN => Ok(()),
        ET_REL => Err(Refusal::NoProgram("an object file, which has yet to be linked")),
        ET_CORE => Err(Refusal::NoProgram("the memory of a process that was ended (a core file)")),
        _ => Err(Refusal::Damaged("its type is unknown")),
    }
}
