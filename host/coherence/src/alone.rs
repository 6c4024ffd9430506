//! What a core does most that is alone, or that keeps its directory and asks for what no other island has asked for: compiled
//! without calls, so that it costs few instructions of the host. The result is that of the general way (`core.rs`,
//! `directory.rs`), which does all that this does not.

use crate::array::{EXCLUSIVE, MODIFIED, Probe, SHARED, STATE_MASK, Set, TAG_SHIFT};
use crate::core::{Core, Held, IN_L1D, IN_L1I, held};
use crate::counters::{Count, Together};
use crate::directory::{ALONE, OWNED, PRESENT};
use crate::model::window;
use crate::{LINE_SIZE, Picoseconds};

impl Core<'_> {
    /// A load or store of bytes within one line, if it is of a usual kind: its latency, and what L1D has of the line now.
    /// [`Core::losses`] is what it was. `None`: nothing has happened.
    ///
    /// It hits L1D and needs no permission; or no cache has the line, both sets are full, and what leaves L2 has left the L1s
    /// before.
    #[inline(always)]
    pub fn access_usual(&mut self, store: bool, address: u64) -> Option<(Picoseconds, Held)> {
        let port = &self.data;
        if !(self.alone || self.far) || address.wrapping_sub(port.base) >= port.limit {
            return None;
        }
        let inside = if self.alone { None } else { Some(self.enter()?) };
        let probe = Probe::new(address.wrapping_add(port.delta) / LINE_SIZE);
        let l1 = port.l1.set_of(probe.line, true).narrow(true);
        if let Some((index, word)) = l1.find(probe) {
            return self.hit_usual(store, l1, index, word);
        }
        if inside.is_some() && (self.model.askers.others(probe.line, self.domain) != 0 || port.segment.is_mixed()) {
            return None;
        }
        let l2 = self.l2.set_of(probe.line, true).wide();
        if l2.find(probe).is_some() || !l1.is_full() || !l2.is_full() {
            return None;
        }
        let gone = l2.oldest();
        if gone.word & IN_L1I != 0 || l1.may_have(gone.probe()) {
            return None;
        }
        let state = if store { MODIFIED } else { EXCLUSIVE };
        window();
        l2.replace(gone, probe, state | IN_L1D, PRESENT | ALONE | OWNED);
        if gone.word & STATE_MASK == MODIFIED {
            Together::WriteBacks.count(self.counters);
        }
        let old = l1.oldest();
        l1.replace(old, probe, state, l2.index(gone.way) as u64);
        if old.word & STATE_MASK == MODIFIED {
            self.count(Count::l1_write_backs, 1);
        }
        self.count(if store { Count::stores } else { Count::loads }, 1);
        Some((Picoseconds(self.read_memory(false, port.segment)), if store { Held::Modified } else { Held::Only }))
    }

    /// What L1D has, at an index of the line's set. `None`: a store to a shared copy.
    #[inline(always)]
    fn hit_usual(&self, store: bool, l1: Set<'_, '_>, index: usize, word: u64) -> Option<(Picoseconds, Held)> {
        let state = word & STATE_MASK;
        let held = if store { Held::Modified } else { held(state) };
        if store && state == SHARED {
            return None;
        }
        l1.touch(index);
        window();
        if store && state == EXCLUSIVE {
            self.modify_at(l1, index, word);
        }
        self.count(if store { Count::stores } else { Count::loads }, 1);
        Some((Picoseconds(self.timing.l1d_ps), held))
    }

    /// The first store to the line that was used last in its set of L1D, which was [`Held::Only`]: done, and not counted yet
    /// ([`Core::accessed_again`] does). `address`: one of the line's, or any in the same set. False: another core has just taken
    /// the line, and nothing has happened.
    #[inline(always)]
    pub fn modify_recent(&mut self, address: u64) -> bool {
        let line = address.wrapping_add(self.data.delta) / LINE_SIZE;
        if !self.alone {
            return self.modify_recent_in_company(line);
        }
        let l1 = self.data.l1.set_of(line, true);
        let (index, word) = l1.recent();
        debug_assert_eq!(word & STATE_MASK, EXCLUSIVE);
        self.modify_at(l1, index, word);
        true
    }

    #[inline(never)]
    fn modify_recent_in_company(&self, line: u64) -> bool {
        let l1 = self.data.l1.set(line);
        let (index, word) = l1.recent();
        word & STATE_MASK == EXCLUSIVE && self.modify(word >> TAG_SHIFT, l1, index, self.model.threads)
    }

    /// The line at an index of L1D, exclusive until now, becomes modified there and in L2.
    #[inline(always)]
    fn modify_at(&self, l1: Set<'_, '_>, index: usize, word: u64) {
        l1.set_word(index, word | MODIFIED);
        let place = l1.link(index) as usize;
        self.l2.set_word(place, self.l2.word(place) | MODIFIED);
    }
}
