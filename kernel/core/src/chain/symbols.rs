//! Names for addresses, from an executable's symbol table, for messages. Everything in the file is an allegation; what does
//! not fit gives no name.

use motet_hal::Machine;
use motet_layout::InodeRecord;
use motet_protocol::fs;

use crate::cpu::Cpu;

/// Longest name that is shown; longer ones are cut.
pub const NAME_MAX: usize = 64;
/// Sections and symbols that are looked at.
const SECTIONS_MAX: u64 = 4096;
const SYMBOLS_MAX: u64 = 1 << 20;
const SECTION_LEN: u64 = 64;
const SYMBOL_LEN: usize = 24;
const SHT_SYMTAB: u64 = 2;
const STT_FUNC: u8 = 2;
/// Symbols read at a time.
const CHUNK: usize = 32;

/// The function that contains `address`, and how far into it that is.
pub fn find<'a, M: Machine>(
    cpu: &Cpu<M>,
    inode: &'static InodeRecord,
    address: u64,
    buffer: &'a mut [u8; NAME_MAX],
) -> Option<(&'a str, u64)> {
    let file = File { cpu, inode };
    let (symbols_at, symbols_len, names_at) = file.symbol_table()?;
    let mut best: Option<(u64, u64)> = None;
    let mut chunk = [0; SYMBOL_LEN * CHUNK];
    let count = (symbols_len / SYMBOL_LEN as u64).min(SYMBOLS_MAX);
    let mut index = 0;
    while index < count {
        let wanted = ((count - index) as usize).min(CHUNK) * SYMBOL_LEN;
        let read = fs::read_bytes(cpu, inode, symbols_at + index * SYMBOL_LEN as u64, &mut chunk[..wanted]);
        for symbol in chunk[..read].chunks_exact(SYMBOL_LEN) {
            let (value, size) = (word(symbol, 8), word(symbol, 16));
            let covers = value <= address && (address - value < size || size == 0 && address == value);
            if symbol[4] & 15 == STT_FUNC && covers && best.is_none_or(|(found, _)| found < value) {
                best = Some((value, names_at.checked_add(word(symbol, 0) & 0xffff_ffff)?));
            }
        }
        if read < wanted {
            break;
        }
        index += CHUNK as u64;
    }
    let (value, name_at) = best?;
    let read = fs::read_bytes(cpu, inode, name_at, buffer);
    let name = &buffer[..read];
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Some((core::str::from_utf8(&name[..end]).ok()?, address - value))
}

struct File<'a, M: Machine> {
    cpu: &'a Cpu<M>,
    inode: &'static InodeRecord,
}

impl<M: Machine> File<'_, M> {
    /// Where symbols and their names are: offset and length of the first, offset of the second.
    fn symbol_table(&self) -> Option<(u64, u64, u64)> {
        let mut header = [0; 64];
        self.read(0, &mut header)?;
        let (sections_at, count) = (word(&header, 40), u64::from(u16::from_le_bytes([header[60], header[61]])));
        for index in 0..count.min(SECTIONS_MAX) {
            let section = self.section(sections_at, index)?;
            if word(&section, 4) & 0xffff_ffff == SHT_SYMTAB {
                let names = self.section(sections_at, word(&section, 40) & 0xffff_ffff)?;
                return Some((word(&section, 24), word(&section, 32), word(&names, 24)));
            }
        }
        None
    }

    fn section(&self, sections_at: u64, index: u64) -> Option<[u8; SECTION_LEN as usize]> {
        let mut section = [0; SECTION_LEN as usize];
        self.read(sections_at.checked_add(index.checked_mul(SECTION_LEN)?)?, &mut section)?;
        Some(section)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        (fs::read_bytes(self.cpu, self.inode, at, into) == into.len()).then_some(())
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}
