//! Where the instructions are that the experiment watches: in kernels and in guests' images.

use std::path::{Path, PathBuf};

use motet_error::{Error, ErrorKind, Result};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind};

use crate::project::file_error;

/// `ecall`, `sret` (privileged specification).
pub const CALL: u32 = 0x0000_0073;
const RETURN: u32 = 0x1020_0073;

/// An executable of RISC-V.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    /// Symbols: names and addresses.
    symbols: Vec<(String, u64)>,
    /// Code: addresses and bytes.
    code: Vec<(u64, Vec<u8>)>,
}

impl Image {
    /// Reads it.
    ///
    /// # Errors
    /// There is none, or it is no executable.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(file_error(path))?;
        let wrong = |error: object::Error| Error::new(ErrorKind::Software, format!("{}: {error}", path.display()));
        let file = object::File::parse(&*bytes).map_err(wrong)?;
        let symbols = file.symbols().map(|symbol| (symbol.name().unwrap_or_default().to_owned(), symbol.address()));
        let texts = file.sections().filter(|section| section.kind() == SectionKind::Text);
        let code = texts.map(|section| Ok((section.address(), section.data().map_err(wrong)?.to_vec())));
        Ok(Self { path: path.into(), symbols: symbols.collect(), code: code.collect::<Result<_>>()? })
    }

    /// The address of a symbol.
    ///
    /// # Errors
    /// There is no such symbol.
    pub fn symbol(&self, name: &str) -> Result<u64> {
        self.found(self.symbols.iter().find(|(other, _)| other == name).map(|(_, address)| *address), name)
    }

    /// The addresses of the instructions of a kind, wherever they may begin.
    pub fn instructions(&self, is_wanted: impl Fn(u32) -> bool) -> Vec<u64> {
        let mut found = Vec::new();
        for (start, bytes) in &self.code {
            let words = bytes.windows(4).enumerate().step_by(2);
            let wanted =
                words.filter(|(_, bytes)| bytes.first_chunk().is_some_and(|word| is_wanted(u32::from_le_bytes(*word))));
            found.extend(wanted.map(|(at, _)| start + at as u64));
        }
        found
    }

    /// The first return to a lower mode behind an address.
    ///
    /// # Errors
    /// There is none.
    pub fn return_behind(&self, address: u64) -> Result<u64> {
        let all = self.instructions(|word| word == RETURN);
        self.found(all.into_iter().filter(|at| *at >= address).min(), "sret")
    }

    /// Bytes of the instruction before an address, a load of a general register.
    pub fn length_before(&self, address: u64) -> u64 {
        // LD is 011 and 0000011; a compressed one has other lowest bits than 11.
        let has_long = self.instructions(|word| word & 0x707f == 0x3003).contains(&(address - 4));
        if has_long { 4 } else { 2 }
    }

    /// Where a function reads the time that has this in its name.
    ///
    /// # Errors
    /// It does not, or there is none.
    pub fn time_read_in(&self, function: &str) -> Result<u64> {
        let starts = self.symbols.iter().filter(|(name, _)| name.contains(function)).map(|(_, address)| *address);
        // CSRRS of `time` and x0.
        let reads = self.instructions(|word| word & 0xffff_f07f == 0xc010_2073);
        let read =
            starts.filter_map(|start| reads.iter().copied().filter(|at| (start..start + 1024).contains(at)).min());
        self.found(read.min(), function)
    }

    fn found(&self, address: Option<u64>, what: &str) -> Result<u64> {
        let missing = || Error::new(ErrorKind::Software, format!("{}: there is no `{what}`", self.path.display()));
        address.ok_or_else(missing)
    }
}
