//! Why a file cannot be run, in a line for whoever tried.
//!
//! Shells and `execvp` take a file that fails with `ENOEXEC` for a script without `#!`, and read it as their own language: of a program
//! for another machine they see syntax errors, or worse, commands. So `ENOEXEC` is for text. A file that is no text is refused with
//! `EOPNOTSUPP`, which nobody takes for anything else (Linux: `ENOEXEC`), after a line that says what the file is.

use core::fmt::{self, Write as _};

use motet_abi::{Errno, fat::BadNote};
use motet_hal::Machine;
use motet_layout::{InodeRecord, Isa};
use motet_protocol::fs;

use crate::{call::Stop, console, cpu::Cpu};

/// Bytes of a file that tell what it is (Linux: `BINPRM_BUF_SIZE`).
const SAMPLE_LEN: usize = 256;
const ELF_MAGIC: &[u8] = b"\x7fELF";

/// Formats of other systems, by the bytes that they begin with.
const FORMATS: [(&[u8], &str); 8] = [
    (b"MZ", "a program for Windows or DOS"),
    (b"\xcf\xfa\xed\xfe", "a program for macOS (64-bit Mach-O)"),
    (b"\xce\xfa\xed\xfe", "a program for macOS (32-bit Mach-O)"),
    (b"\xfe\xed\xfa", "a big-endian program for macOS (Mach-O)"),
    (b"\xca\xfe\xba\xbe", "a program for macOS (universal Mach-O) or Java's virtual machine"),
    (b"\0asm", "a WebAssembly module"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"!<arch>\n", "an archive"),
];

/// Why a file is not run.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// What is known to fail without a further word.
    System(Errno),
    /// A page of its arguments comes later: [`Stop::Page`].
    Later,
    /// Not a program, but text: whoever runs it may know the language.
    Text,
    /// In the format of another system.
    Format(&'static str),
    /// ELF of another kind, with its `e_machine`.
    Elf(&'static str, u16),
    /// A program for an instruction set that the machine does not have.
    NoIsland(Isa),
    /// An ELF file that is no program.
    NoProgram(&'static str),
    /// Inconsistent.
    Damaged(&'static str),
    /// It is made for vector registers of so many bytes, and all cores have shorter ones.
    Vectors(u32),
    /// It needs this level of the x86-64 psABI, and cores do not have what it would not notice to lack.
    Level(u32),
    /// A program for several instruction sets whose parts do not fit together.
    Fat(FatRefusal),
}

/// What is wrong with a program for several instruction sets.
#[derive(Clone, Copy, Debug)]
pub enum FatRefusal {
    /// The note is no note of ours.
    Note(BadNote),
    /// It has texts of several ISAs and no note, or the other way round.
    Incomplete,
    /// It has no text of its own ISA, or several, or one that can be written.
    Text,
    /// An ISA's text is not where the primary's is, or not in the file.
    Misplaced(Isa),
    /// The note is of another ISA than the file.
    Primary(Isa),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Self {
        if stop == Stop::Page { Self::Later } else { Self::System(stop.unless_waiting()) }
    }
}

impl From<FatRefusal> for Refusal {
    fn from(refusal: FatRefusal) -> Self {
        Self::Fat(refusal)
    }
}

impl From<BadNote> for FatRefusal {
    fn from(bad: BadNote) -> Self {
        Self::Note(bad)
    }
}

impl fmt::Display for FatRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note(bad) => bad.fmt(f),
            Self::Incomplete => f.write_str("it needs both a Motet note and the text of another instruction set"),
            Self::Text => f.write_str("it needs exactly one executable segment, which is not writable"),
            Self::Misplaced(isa) => write!(f, "its text for {} does not match its own", isa.name()),
            Self::Primary(isa) => write!(f, "its note says that it is for {}", isa.name()),
        }
    }
}

impl Refusal {
    /// What a file is that does not begin with the header of a program for this machine.
    pub fn of_file<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord) -> Self {
        let mut sample = [0; SAMPLE_LEN];
        let len = fs::read_bytes(cpu, inode, 0, &mut sample);
        Self::of_sample(&sample[..len])
    }

    fn of_sample(sample: &[u8]) -> Self {
        if sample.starts_with(ELF_MAGIC) {
            return Self::of_elf(sample);
        }
        // As bash does: a script's first line is text, whatever follows it (an archive that unpacks itself).
        let line = sample.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let known = FORMATS.iter().find(|(magic, _)| sample.starts_with(magic));
        match known {
            Some((b"!<arch>\n", name)) => Self::Format(name),
            _ if !line.contains(&0) => Self::Text,
            Some((_, name)) => Self::Format(name),
            None => Self::Format("a binary file in a format that is not known here"),
        }
    }

    fn of_elf(sample: &[u8]) -> Self {
        let [Some(&class), Some(&data), Some(low), Some(high)] = [4, 5, 18, 19].map(|at: usize| sample.get(at)) else {
            return Self::Damaged("its header is cut off");
        };
        let little = u16::from_le_bytes([*low, *high]);
        match (class, data) {
            (2, 1) if motet_abi::elf::isa_of_machine(little).is_some() => Self::Damaged("its header is wrong"),
            (2, 1) => Self::Elf("an ELF program for", little),
            (1, 1) => Self::Elf("a 32-bit ELF program for", little),
            (1, 2) => Self::Elf("a 32-bit big-endian ELF program for", little.swap_bytes()),
            (2, 2) => Self::Elf("a big-endian ELF program for", little.swap_bytes()),
            _ => Self::Damaged("its header is wrong"),
        }
    }

    /// Says what is wrong with the program at `path`; the error to return.
    pub fn say<M: Machine>(&self, cpu: &Cpu<M>, path: &[u8]) -> Errno {
        let path = Shown(path);
        let errno = match self {
            Self::System(errno) => return *errno,
            Self::Later => return Errno::EFAULT,
            Self::Text => return Errno::ENOEXEC,
            Self::Format(_)
            | Self::Elf(..)
            | Self::NoIsland(_)
            | Self::NoProgram(_)
            | Self::Damaged(_)
            | Self::Vectors(_)
            | Self::Level(_)
            | Self::Fat(_) => Errno::EOPNOTSUPP,
        };
        let runs = Runs(cpu);
        match *self {
            Self::System(_) | Self::Later | Self::Text => {}
            Self::Format(what) => console::kernel_message(cpu, format_args!("{path}: is {what}; {runs}")),
            Self::Elf(what, machine) => match elf::to_str::e_machine_to_human_str(machine) {
                Some(name) => console::kernel_message(cpu, format_args!("{path}: is {what} {name}; {runs}")),
                None => console::kernel_message(cpu, format_args!("{path}: is {what} machine {machine:#x}; {runs}")),
            },
            Self::NoIsland(isa) => {
                let isa = isa.name();
                console::kernel_message(
                    cpu,
                    format_args!("{path}: is a program for {isa}, and this machine has no {isa} island"),
                );
            }
            Self::NoProgram(what) => console::kernel_message(cpu, format_args!("{path}: is no program but {what}")),
            Self::Damaged(how) => console::kernel_message(cpu, format_args!("{path}: is a damaged ELF file: {how}")),
            Self::Vectors(bytes) => {
                let bits = 8 * bytes;
                console::kernel_message(
                    cpu,
                    format_args!(
                        "{path}: is made for vector registers of {bits} bits (zvl{bits}b), and no core of this machine has them"
                    ),
                );
            }
            Self::Level(level) => console::kernel_message(
                cpu,
                format_args!(
                    "{path}: is made for x86-64-v{level}, and this machine's cores of x86_64 do not all have its lzcnt and tzcnt"
                ),
            ),
            Self::Fat(refusal) => console::kernel_message(
                cpu,
                format_args!("{path}: an executable for several instruction sets is refused: {refusal}"),
            ),
        }
        errno
    }
}

/// What the machine runs.
struct Runs<'a, M: Machine>(&'a Cpu<M>);

impl<M: Machine> fmt::Display for Runs<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this machine runs 64-bit little-endian ELF programs for ")?;
        let has_island = |isa: &&Isa| self.0.islands_of(**isa).next().is_some();
        for (index, isa) in Isa::ALL.iter().filter(has_island).enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            f.write_str(isa.name())?;
        }
        Ok(())
    }
}

/// A path, which may be any bytes, as text that does nothing to a terminal.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    f.write_char(character)?;
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}
