//! TLBs as lists that are searched, written separately from those of the model.

use motet_coherence::{Flush, Gone, PAGE_SHIFTS, Side, Walk};

/// Entries, sets and sizes of pages of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub entries: usize,
    pub ways: usize,
    /// How many of [`PAGE_SHIFTS`] it has.
    pub sizes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    first: u64,
    shift: u32,
    space: u64,
    global: bool,
}

impl Entry {
    fn has(&self, address: u64, space: u64) -> bool {
        self.first >> self.shift == address >> self.shift && (self.global || self.space == space)
    }
}

#[derive(Debug)]
struct Buffer {
    shape: Shape,
    /// Used last first.
    entries: Vec<Entry>,
}

impl Buffer {
    fn new(shape: Shape) -> Self {
        Self { shape, entries: Vec::new() }
    }

    fn set(&self, entry: &Entry) -> u64 {
        (entry.first >> entry.shift) % (self.shape.entries / self.shape.ways) as u64
    }

    fn use_again(&mut self, address: u64, space: u64) -> Option<Entry> {
        let small_first = PAGE_SHIFTS.into_iter().find_map(|shift| {
            self.entries.iter().position(|entry| entry.shift == shift && entry.has(address, space))
        })?;
        let entry = self.entries.remove(small_first);
        self.entries.insert(0, entry);
        Some(entry)
    }

    fn keep(&mut self, address: u64, entry: Entry) -> Option<Entry> {
        let sizes = &PAGE_SHIFTS[..self.shape.sizes];
        let shift = *sizes.iter().rfind(|&&shift| shift <= entry.shift).unwrap();
        let entry = Entry { first: address >> shift << shift, shift, ..entry };
        let set = self.set(&entry);
        let others: Vec<usize> = (0..self.entries.len()).filter(|&at| self.set(&self.entries[at]) == set).collect();
        let gone = (others.len() == self.shape.ways).then(|| self.entries.remove(others[others.len() - 1]));
        self.entries.insert(0, entry);
        gone
    }

    fn flush(&mut self, flush: Flush) -> u64 {
        let before = self.entries.len();
        self.entries.retain(|entry| {
            let same = |address: u64| entry.first >> entry.shift == address >> entry.shift;
            !match flush {
                Flush::All => true,
                Flush::NotGlobal => !entry.global,
                Flush::Space(space) => !entry.global && entry.space == space,
                Flush::Everywhere(address) => same(address),
                Flush::Address { address, global, .. } if entry.global => global && same(address),
                Flush::Address { address, space, .. } => same(address) && entry.space == space,
            }
        });
        (before - self.entries.len()) as u64
    }
}

/// What a translation is.
#[derive(Debug, PartialEq)]
pub enum Found {
    First,
    Second,
    /// From which of the walk's entries on they are read.
    Nowhere(usize),
}

/// A core's buffers.
#[derive(Debug)]
pub struct Tlbs {
    first: [Buffer; 2],
    second: Option<Buffer>,
    /// By how many upper tables an entry stands for; used last first.
    tables: Vec<Vec<(u64, u64)>>,
    tables_max: usize,
}

impl Tlbs {
    pub fn new(first: [Shape; 2], second: Option<Shape>, tables_max: usize) -> Self {
        Self { first: first.map(Buffer::new), second: second.map(Buffer::new), tables: vec![vec![]; 4], tables_max }
    }

    /// Translates; what was found, and what the first level has given up.
    pub fn translate(&mut self, side: Side, address: u64, space: u64, walk: &Walk) -> (Found, Option<Gone>) {
        let gone = |entry: Entry| Gone { address: entry.first, shift: entry.shift };
        let first = &mut self.first[side as usize];
        if first.use_again(address, space).is_some() {
            return (Found::First, None);
        }
        if let Some(entry) = self.second.as_mut().and_then(|second| second.use_again(address, space)) {
            return (Found::Second, first.keep(address, entry).map(gone));
        }
        let from = self.use_tables(address, space, walk.count);
        let Some(page) = walk.page else { return (Found::Nowhere(from), None) };
        let entry = Entry { first: address, shift: page.shift, space, global: page.global };
        if let Some(second) = &mut self.second {
            second.keep(address, entry);
        }
        (Found::Nowhere(from), self.first[side as usize].keep(address, entry).map(gone))
    }

    fn use_tables(&mut self, address: u64, space: u64, count: usize) -> usize {
        let key = |depth: usize| (address >> (48 - 9 * depth), space);
        let known = (1..count).rev().find(|&depth| self.tables[depth].contains(&key(depth))).unwrap_or(0);
        if known != 0 {
            self.tables[known].retain(|&table| table != key(known));
            self.tables[known].insert(0, key(known));
        }
        for depth in 1..count {
            if !self.tables[depth].contains(&key(depth)) {
                self.tables[depth].insert(0, key(depth));
                self.tables[depth].truncate(self.tables_max);
            }
        }
        known
    }

    pub fn flush(&mut self, flush: Flush) -> u64 {
        for tables in &mut self.tables {
            match flush {
                Flush::Address { space, .. } | Flush::Space(space) => tables.retain(|table| table.1 != space),
                Flush::Everywhere(_) | Flush::NotGlobal | Flush::All => tables.clear(),
            }
        }
        self.first.iter_mut().chain(&mut self.second).map(|buffer| buffer.flush(flush)).sum()
    }
}
