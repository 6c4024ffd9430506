//! ELF files of 64 bits, little-endian, without what the machine does not load: symbols, what debuggers read, tables of sections.
//!
//! `strip` would do this for one instruction set. What is loaded keeps its place in the file, so the rest, which linkers put behind it, is cut off.

use std::ops::Range;

/// Offsets and sizes of the ELF-64 object file format: the file header, then a program header.
const HEADER_LEN: usize = 64;
const PHOFF: usize = 32;
const SHOFF: Range<usize> = 40..48;
const PHNUM: usize = 56;
/// `e_shnum` and `e_shstrndx`.
const SECTIONS: Range<usize> = 60..64;
const PROGRAM_HEADER_LEN: usize = 56;
const SEGMENT_OFFSET: usize = 8;
const SEGMENT_LEN: usize = 32;

/// Whether a file is such a one.
pub fn is_elf(file: &[u8]) -> bool {
    file.starts_with(b"\x7fELF\x02\x01") && file.len() >= HEADER_LEN
}

/// Cuts off what is not loaded; `None`: the file contradicts itself.
pub fn strip(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let table = usize::try_from(word(&file, PHOFF)?).ok()?;
    let count = usize::from(u16::from_le_bytes(file.get(PHNUM..PHNUM + 2)?.try_into().ok()?));
    let mut end = table.checked_add(count * PROGRAM_HEADER_LEN)?.max(HEADER_LEN);
    for header in (0..count).map(|index| table + index * PROGRAM_HEADER_LEN) {
        let segment = word(&file, header + SEGMENT_OFFSET)?.checked_add(word(&file, header + SEGMENT_LEN)?)?;
        end = end.max(usize::try_from(segment).ok()?);
    }
    if end > file.len() {
        return None;
    }
    file.truncate(end);
    file[SHOFF].fill(0);
    file[SECTIONS].fill(0);
    Some(file)
}

fn word(file: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(file.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Replaces the names of folders of this computer, which are in messages about places in source: as long as before, since whoever reads them knows
/// where they end, they become as many slashes, and as much of a new name as finds room.
pub fn rename_folders(file: &mut [u8], folders: &[(Vec<u8>, &str)]) {
    for (folder, name) in folders.iter().filter(|(folder, _)| !folder.is_empty()) {
        let mut new = vec![b'/'; folder.len()];
        let kept = name.len().min(folder.len() - 1);
        new[folder.len() - kept..].copy_from_slice(&name.as_bytes()[..kept]);
        let mut at = 0;
        while let Some(found) = find(&file[at..], folder) {
            file[at + found..at + found + folder.len()].copy_from_slice(&new);
            at += found + folder.len();
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    // The first byte, a slash, is searched for by what is fast.
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == what[0]) {
        at += next;
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(segment: (u64, u64), more: usize) -> Vec<u8> {
        let mut file = vec![0; HEADER_LEN + PROGRAM_HEADER_LEN];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[PHOFF] = HEADER_LEN as u8;
        file[SHOFF].fill(7);
        file[PHNUM] = 1;
        file[SECTIONS].fill(7);
        file[HEADER_LEN + SEGMENT_OFFSET..][..8].copy_from_slice(&segment.0.to_le_bytes());
        file[HEADER_LEN + SEGMENT_LEN..][..8].copy_from_slice(&segment.1.to_le_bytes());
        file.resize(file.len() + more, b'd');
        file
    }

    #[test]
    fn what_is_loaded_stays_in_its_place() {
        let stripped = strip(file((120, 30), 100)).unwrap();
        assert_eq!(stripped.len(), 150);
        assert_eq!(&stripped[120..], [b'd'; 30]);
        assert!(stripped[SHOFF].iter().chain(&stripped[SECTIONS]).all(|byte| *byte == 0));
        assert_eq!(strip(file((0, 8), 9)).unwrap().len(), HEADER_LEN + PROGRAM_HEADER_LEN);
    }

    #[test]
    fn files_that_contradict_themselves_are_refused() {
        assert_eq!(strip(file((120, 101), 100)), None);
        assert_eq!(strip(file((u64::MAX, 1), 100)), None);
        let mut far = file((0, 1), 0);
        far[PHOFF..PHOFF + 8].fill(0xff);
        assert_eq!(strip(far), None);
        assert!(is_elf(&file((0, 1), 0)) && !is_elf(b"\x7fELF\x02\x01") && !is_elf(&[b'#'; 200]));
    }

    #[test]
    fn folders_of_this_computer_are_not_told() {
        let mut text = b"at /home/me/.cargo/registry/a.rs /home/me/motet/b.rs /home/me /x".to_vec();
        rename_folders(
            &mut text,
            &[(b"/home/me/.cargo".to_vec(), "cargo"), (b"/home/me/motet".to_vec(), "motet"), (b"/x".to_vec(), "cargo")],
        );
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "at //////////cargo/registry/a.rs /////////motet/b.rs /home/me /c"
        );
    }
}
