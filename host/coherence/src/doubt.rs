//! Exchanges of lines in an order that is not that of simulated time.
//!
//! Cores run for a while before they come together, so one core may use a line for long, and another one then takes it that is
//! behind. On the machine, the two would have had the line by turns. A hit does not come here, so it is not known when a core has used a
//! line last. But a core that asks for a line again soon after it has lost it would have used it all the time. So when a core loses a line, it is noted
//! at what times that was, by both clocks; and when it asks again, it is known whether the other one was out of turn
//! (ahead or behind), and whether that made a difference.
//!
//! Lines that are handed on, and not used again soon, are in no doubt: whoever reads what another one has written, woken by it or not, does so in the right
//! order whatever the clocks show.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::core::Core;
use crate::counters::{Count, Together};

/// Lines that are remembered for each core; a power of two.
const SLOTS: usize = 64;
/// Words for each of them: 1 + the line, and the times.
const SLOT_WORDS: usize = 4;
/// Words before them, a host cache line.
const HEAD_WORDS: usize = 8;
/// Words for each core.
pub(crate) const DOUBT_WORDS: usize = HEAD_WORDS + SLOTS * SLOT_WORDS;
/// Who asks for a line again within this part of the time that the other one was out of turn, used it in that time.
const SOON_PART: u64 = 2;
/// A line that is asked for again within this time goes back and forth: the usual quantum.
const BACK_PS: u64 = 10_000_000;
/// Being out of turn for less than this is of no account: the least quantum, and a step of it.
const TOLERATED_PS: u64 = 125_000;

/// A core's clock, and the lines that others took from it last.
pub(crate) struct Doubt<'a> {
    /// What its clock shows, as far as the model has been told.
    clock_ps: &'a AtomicU64,
    /// When it got a line from others last; before that it waited for it.
    got_ps: &'a AtomicU64,
    /// What is in doubt has been counted up to this time.
    counted_ps: &'a AtomicU64,
    slots: &'a [AtomicU64],
}

impl<'a> Doubt<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> Self {
        Self { clock_ps: &words[0], got_ps: &words[1], counted_ps: &words[2], slots: &words[HEAD_WORDS..DOUBT_WORDS] }
    }

    /// Nothing is lost, and time begins.
    pub(crate) fn reset(&self) {
        [self.clock_ps, self.got_ps, self.counted_ps]
            .into_iter()
            .chain(self.slots)
            .for_each(|word| word.store(0, Relaxed));
    }

    pub(crate) fn now_ps(&self) -> u64 {
        self.clock_ps.load(Relaxed)
    }

    fn slot(&self, line: u64) -> &'a [AtomicU64] {
        // The same places in pages that follow each other are often used together.
        let slot = (line ^ line / SLOTS as u64) as usize % SLOTS;
        &self.slots[slot * SLOT_WORDS..][..SLOT_WORDS]
    }

    /// Another core, whose clock shows `taken_ps`, takes a line from this one. Locks of the line are held; who is at another line of the same slot
    /// may spoil what is noted, and then an exchange is missed, or counted in vain.
    pub(crate) fn lose(&self, line: u64, taken_ps: u64) {
        let slot = self.slot(line);
        // First it had to share the line, and then it lost it: the first time counts.
        if slot[0].load(Relaxed) == line + 1 {
            return;
        }
        let (clock_ps, got_ps) = (self.now_ps(), self.got_ps.load(Relaxed));
        for (word, value) in slot.iter().zip([line + 1, taken_ps, clock_ps, got_ps]) {
            word.store(value, Relaxed);
        }
    }

    /// A line was taken from this core, but not for another one.
    pub(crate) fn forget(&self, line: u64) {
        self.slot(line)[0].store(0, Relaxed);
    }

    /// What is noted of a line that this core asks for, if it has lost it. It is forgotten.
    fn take_loss(&self, line: u64) -> Option<Loss> {
        let [lost, taken_ps, clock_ps, got_ps] = self.slot(line) else { return None };
        if lost.load(Relaxed) != line + 1 {
            return None;
        }
        lost.store(0, Relaxed);
        let [taken_ps, clock_ps, got_ps] = [taken_ps, clock_ps, got_ps].map(|word| word.load(Relaxed));
        Some(Loss { taken_ps, clock_ps, got_ps })
    }
}

/// How a core has lost a line.
struct Loss {
    /// The taker's time.
    taken_ps: u64,
    /// The core's time.
    clock_ps: u64,
    /// When it got a line from others last.
    got_ps: u64,
}

impl Loss {
    /// How long after that a time of the core is.
    fn since_ps(&self, now_ps: u64) -> u64 {
        now_ps.saturating_sub(self.clock_ps)
    }

    /// The core asks for the line again, which costs so much: from when to when the other one was out of turn, if this core would
    /// have noticed.
    fn out_of_turn(&self, now_ps: u64, cost_ps: u64) -> Option<(u64, u64)> {
        // It was taken at a time that this core has not come to; or at one that it had passed. A core that waits for one line does not stop before its
        // next access, if both are of one block: so it can be ahead by that, and who comes first does not change how often they meet.
        let (from_ps, to_ps, tolerated_ps) = if now_ps < self.taken_ps {
            (now_ps, self.taken_ps, cost_ps + TOLERATED_PS)
        } else {
            (self.taken_ps.max(self.got_ps), self.clock_ps, TOLERATED_PS)
        };
        let doubtful_ps = to_ps.saturating_sub(from_ps);
        let is_soon = self.since_ps(now_ps) < doubtful_ps / SOON_PART;
        (is_soon && doubtful_ps >= tolerated_ps).then_some((from_ps, to_ps))
    }
}

impl Core<'_> {
    /// Says what time the core's clock shows, which other cores look at when they take lines from it. To be called before accesses that are not
    /// usual ([`Core::access_usual`]), and where the core has run for a while.
    #[inline(always)]
    pub fn note_clock(&mut self, now_ps: u64) {
        self.state.doubt.clock_ps.store(now_ps, Relaxed);
    }

    /// How often others were out of turn, up to now: a number to be compared with an earlier one.
    pub fn doubts(&self) -> u64 {
        self.counters[Count::doubtful_exchanges as usize].load(Relaxed)
    }

    /// How often this core has asked for a line again soon after others had taken it, in turn or not: likewise.
    pub fn lines_back(&self) -> u64 {
        Together::LinesBack.word(self.counters).load(Relaxed)
    }

    /// An access to a line that other cores have, or had, has cost so much.
    #[inline(never)]
    pub(crate) fn has_met_others(&self, line: u64, cost_ps: u64) {
        let doubt = &self.state.doubt;
        if let Some(loss) = doubt.take_loss(line) {
            self.got_back(&loss, cost_ps);
        }
        doubt.got_ps.store(doubt.now_ps() + cost_ps, Relaxed);
    }

    fn got_back(&self, loss: &Loss, cost_ps: u64) {
        let doubt = &self.state.doubt;
        if loss.since_ps(doubt.now_ps()) < BACK_PS {
            Together::LinesBack.count(self.counters);
        }
        if let Some((from_ps, to_ps)) = loss.out_of_turn(doubt.now_ps(), cost_ps) {
            self.count(Count::doubtful_exchanges, 1);
            // Several lines may be out of turn at the same time.
            let counted_ps = doubt.counted_ps.load(Relaxed);
            self.count(Count::doubtful_ps, to_ps.saturating_sub(from_ps.max(counted_ps)));
            doubt.counted_ps.store(to_ps.max(counted_ps), Relaxed);
        }
    }
}
