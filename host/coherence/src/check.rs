//! The invariants, checked by looking at everything. No access may be under way.

use std::collections::HashMap;
use std::fmt;

use crate::array::{Array, EXCLUSIVE, FLAGS, MODIFIED, Probe, SHARED, STATE_MASK, TAG_SHIFT};
use crate::core::{IN_L1D, IN_L1I};
use crate::directory::{ALONE, DIRTY, OWNED, PRESENT, cores_in};
use crate::model::{DomainState, Model};

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The line's number.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {:#x}: {}", self.line, self.what)
    }
}

impl std::error::Error for Violation {}

/// The lines of an array with their flags and indices; a line that is there twice, or in another line's set, is a violation.
fn contents(array: &Array<'_>, name: &str) -> Result<HashMap<u64, (u64, usize)>, Violation> {
    let mut lines = HashMap::new();
    for (index, word) in array.lines() {
        let (line, flags) = (word >> TAG_SHIFT, word & FLAGS);
        ensure(array.is_in_set(line, index), line, || format!("in the wrong set of {name}"))?;
        ensure(lines.insert(line, (flags, index)).is_none(), line, || format!("twice in {name}"))?;
        let found = array.find(Probe::new(line));
        ensure(found == Some((index, word)), line, || format!("in {name}, and not found there"))?;
    }
    Ok(lines)
}

fn ensure(holds: bool, line: u64, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { line, what: what() }) }
}

/// What a directory says of a line.
struct Entry {
    flags: u64,
    sharers: u64,
    /// What an L2 that has the line links to.
    place: u64,
}

/// The lines of a domain's directory.
fn directory(domain: &DomainState<'_>) -> Result<HashMap<u64, Entry>, Violation> {
    let entry = |(flags, index): (u64, usize)| match domain.l3.link(index) {
        link if domain.solo => Entry { flags: link, sharers: 1, place: link },
        sharers => Entry { flags, sharers, place: index as u64 },
    };
    Ok(contents(&domain.l3, "an L3")?.into_iter().map(|(line, place)| (line, entry(place))).collect())
}

impl Model<'_> {
    /// Checks that every line has one writer or many readers, that each level includes the one before, and that the
    /// directory is exact.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self) -> Result<(), Violation> {
        // Who holds each line, and in which state, over the whole machine.
        let mut holders: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
        let mut second_levels = Vec::new();
        for (core, state) in self.cores.iter().enumerate() {
            let l2 = contents(&state.l2, "an L2")?;
            for (array, data) in [(&state.l1i, false), (&state.l1d, true)] {
                self.check_l1(core, array, data, &l2)?;
            }
            for (&line, &(flags, _)) in &l2 {
                let state = flags & STATE_MASK;
                ensure((SHARED..=MODIFIED).contains(&state), line, || format!("in state {state} in an L2"))?;
                holders.entry(line).or_default().push((core, state));
            }
            second_levels.push(l2);
        }
        for (&line, cores) in &holders {
            let writers = cores.iter().filter(|(_, state)| *state >= EXCLUSIVE).count();
            ensure(writers == 0 || cores.len() == 1, line, || format!("one may write it, others hold it: {cores:?}"))?;
        }
        self.check_directory(&second_levels, &holders)
    }

    fn check_l1(
        &self,
        core: usize,
        array: &Array<'_>,
        data: bool,
        l2: &HashMap<u64, (u64, usize)>,
    ) -> Result<(), Violation> {
        for (line, (state, index)) in contents(array, "an L1")? {
            let Some(&(l2_flags, l2_index)) = l2.get(&line) else {
                return ensure(false, line, || format!("in core {core}'s L1, not in its L2"));
            };
            let l2_state = l2_flags & STATE_MASK;
            let known = l2_flags & if data { IN_L1D } else { IN_L1I } != 0;
            ensure(known, line, || format!("in core {core}'s L1, and its L2 does not say so"))?;
            let linked = array.link(index) == l2_index as u64;
            ensure(linked, line, || format!("in core {core}'s L1, linked to another place of its L2"))?;
            let possible = if data { state <= l2_state } else { state == SHARED };
            ensure(possible, line, || format!("state {state} in core {core}'s L1, {l2_state} in its L2"))?;
        }
        Ok(())
    }

    fn check_directory(
        &self,
        second_levels: &[HashMap<u64, (u64, usize)>],
        holders: &HashMap<u64, Vec<(usize, u64)>>,
    ) -> Result<(), Violation> {
        let mut last_levels = Vec::new();
        for domain in &self.domains {
            let lines = directory(domain)?;
            for (&line, &Entry { flags, sharers, .. }) in &lines {
                let sharers: Vec<usize> = cores_in(domain, sharers).collect();
                for &core in &sharers {
                    let held = second_levels.get(core).is_some_and(|l2| l2.contains_key(&line));
                    ensure(held, line, || format!("the directory says core {core} has it, and it has not"))?;
                }
                ensure(flags & PRESENT != 0, line, || "in an L3, but not present".into())?;
                ensure(flags & OWNED == 0 || sharers.len() == 1, line, || format!("owned by all of {sharers:?}"))?;
                ensure(flags & (OWNED | DIRTY) == 0 || flags & ALONE != 0, line, || {
                    "owned or dirty in an L3, and other L3s may have it".into()
                })?;
                ensure(domain.real || !sharers.is_empty(), line, || "in a directory, and nobody has it".into())?;
            }
            last_levels.push(lines);
        }
        for (number, lines) in last_levels.iter().enumerate() {
            for (&line, &Entry { flags, .. }) in lines.iter().filter(|(_, entry)| entry.flags & ALONE != 0) {
                let other = last_levels.iter().enumerate().any(|(at, lines)| at != number && lines.contains_key(&line));
                ensure(!other, line, || format!("in another L3, too, with flags {flags:#x}"))?;
            }
        }
        for (&line, cores) in holders {
            for &(core, state) in cores {
                let link = second_levels[core].get(&line).map(|&(_, index)| self.cores[core].l2.link(index));
                let number = self.config.islands[self.cores[core].island].domain;
                let domain = &self.domains[number];
                let Some(&Entry { flags, sharers, place }) = last_levels[number].get(&line) else {
                    return ensure(false, line, || format!("in core {core}'s L2, not in its L3"));
                };
                let known = sharers >> (core - domain.first_core) & 1 == 1;
                ensure(known, line, || format!("in core {core}'s L2, and the directory does not say so"))?;
                ensure(link == Some(place), line, || format!("in core {core}'s L2, linked to another L3 line"))?;
                ensure((state >= EXCLUSIVE) == (flags & OWNED != 0), line, || {
                    format!("state {state} in core {core}'s L2, directory flags {flags:#x}")
                })?;
            }
        }
        Ok(())
    }
}
