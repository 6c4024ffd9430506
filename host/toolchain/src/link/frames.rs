//! The records of an object file's `.eh_frame`: one for each function that the stack can be unwound through, and what
//! several of them have in common.

use std::{collections::HashMap, ops::Range};

use super::module::{Image, Kind, Place, Relocation, Section};

/// A record, with its length.
#[derive(Clone, Debug)]
pub struct Record {
    /// Index of the section.
    pub section: usize,
    /// In the section.
    pub bytes: Range<usize>,
}

/// How to unwind the stack frame of a function.
#[derive(Debug)]
pub struct Frame {
    /// Where the function begins in its section, in bytes.
    pub function: u64,
    /// Its own record.
    pub record: Record,
    /// What it has in common with others.
    pub common: Record,
}

/// The length of a record, which does not count itself, and where what it continues is, counted back from there.
const LENGTH_BYTES: usize = 4;
const POINTER_BYTES: usize = 4;

/// The frames of each section of functions; none if the tables are malformed.
pub fn parse(image: &Image) -> Option<HashMap<usize, Vec<Frame>>> {
    let mut found: HashMap<usize, Vec<Frame>> = HashMap::new();
    for (index, section) in image.sections.iter().enumerate().filter(|(_, section)| section.kind == Kind::Unwind) {
        let records = records(&section.data)?;
        for bytes in &records {
            let pointer_at = bytes.start + LENGTH_BYTES;
            let back = word(&section.data, pointer_at)? as usize;
            if back == 0 {
                continue;
            }
            let common = pointer_at.checked_sub(back)?;
            let common = records.iter().find(|record| record.start == common)?;
            let Some((functions, function)) = function(image, section, pointer_at + POINTER_BYTES) else { continue };
            let record = |bytes: &Range<usize>| Record { section: index, bytes: bytes.clone() };
            let frame = Frame { function, record: record(bytes), common: record(common) };
            found.entry(functions).or_default().push(frame);
        }
    }
    Some(found)
}

/// The section and offset of the function whose address is at `offset`; none if it is not in this file.
fn function(image: &Image, section: &Section, offset: usize) -> Option<(usize, u64)> {
    // They are sorted.
    let index = section.relocations.partition_point(|relocation| relocation.offset < offset as u64);
    let relocation = section.relocations.get(index).filter(|relocation| relocation.offset == offset as u64)?;
    let symbol = &image.symbols[relocation.symbol];
    let Place::Section(functions) = symbol.place else { return None };
    Some((functions, symbol.value.checked_add_signed(relocation.addend)?))
}

fn records(data: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut records = Vec::new();
    let mut start = 0;
    while start < data.len() {
        let length = word(data, start)? as usize;
        // The end of the table.
        if length == 0 {
            start += LENGTH_BYTES;
            continue;
        }
        let end = start.checked_add(LENGTH_BYTES)?.checked_add(length)?;
        if length < POINTER_BYTES || end > data.len() {
            return None;
        }
        records.push(start..end);
        start = end;
    }
    Some(records)
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

impl Image {
    /// What a record holds.
    pub fn bytes(&self, record: &Record) -> &[u8] {
        &self.sections[record.section].data[record.bytes.clone()]
    }

    /// The relocations of a record.
    pub fn relocations(&self, record: &Record) -> &[Relocation] {
        let all = &self.sections[record.section].relocations;
        let before = |end: usize| all.partition_point(|relocation| relocation.offset < end as u64);
        &all[before(record.bytes.start)..before(record.bytes.end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_follow_each_other_until_the_data_ends() {
        let mut data = vec![4, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 12, 0, 0, 0, 1, 2, 3, 4];
        data.extend([0; 4]);
        assert_eq!(records(&data), Some(vec![0..8, 8..20]));
        assert_eq!(records(&data[..18]), None, "the last is not whole");
        assert_eq!(records(&[2, 0, 0, 0, 1, 1]), None, "it cannot say what it continues");
        assert_eq!(records(&[0xff; 12]), None, "a length of 64 bits");
    }
}
