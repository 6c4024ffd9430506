//! What a transfer engine does to caches: it has none of its own, and reads and writes memory as a device does.
//!
//! Coherent caches are snooped, those of the island whose engine it is as well. Private ones are not: what it writes leaves them, as what any
//! other island writes does (`elsewhere.rs`), and what it reads that they have modified is a stale read.

use crate::LINE_SIZE;
use crate::array::Probe;
use crate::core::Core;
use crate::counters::Count;
use crate::elsewhere::alone_lines;

impl Core<'_> {
    /// The engine of this core's island copies bytes within the pool. What it asks other caches is counted as this core's; it takes
    /// this core no time.
    pub fn engine_copies(&self, from: u64, to: u64, bytes: u64) {
        for (start, is_write) in [(from, false), (to, true)] {
            for line in start / LINE_SIZE..(start + bytes).div_ceil(LINE_SIZE) {
                self.meet_engine(line, is_write);
            }
        }
    }

    fn meet_engine(&self, line: u64, is_write: bool) {
        let mut is_stale = false;
        for island in 0..self.model.config.islands.len() {
            self.snoop_from_afar(island, Probe::new(line), is_write);
            if !self.model.stale[island].is_used() {
                continue;
            }
            let private = Probe::new(line + alone_lines(island));
            if !is_write {
                is_stale |= self.is_modified_by(island, private);
            } else if self.leaves(island, private) {
                self.model.stale[island].mark(line);
            }
        }
        self.count(Count::stale_reads, u64::from(is_stale));
    }
}
