//! Directories that one core keeps to itself.
//!
//! While no other core wants lines under a directory, its locks are not needed, and the atomic instructions that
//! take them cost more than the miss that they guard. So a core may *keep* its directory: it then changes the directory and
//! its own caches without locks, and only stores in a word of its own that it does (`inside`). Another core that has taken one of
//! the directory's locks checks whether somebody keeps the directory, and if so asks for it back before it touches anything.
//!
//! The keeper stores `inside` and then loads `kept`, without a barrier in between, which is what makes this cheap. Who asks says so
//! in `kept`, has the host make every running thread of the machine pass a barrier (membarrier(2)), and waits until the keeper is
//! not inside: so either that one sees that it was asked, or it is seen inside. (The idea is that of biased locking: Russell
//! and Detlefs, Eliminating Synchronization-Related Atomic Operations with Biased Locking and Bulk Rebiasing, 2006.)
//! Asking takes microseconds. So a core whose directory was asked for waits before it keeps it again, longer where that did not
//! last.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    compiler_fence,
};

use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

use crate::core::Core;
use crate::counters::l1_misses;
use crate::locks::wait_until;
use crate::model::{Model, window};

/// A word that says who keeps a directory: the keeper's number plus one, [`ASKED`], and a count from [`TIMES_SHIFT`] on, so
/// that who asks does not take a later keeping for the one that it has waited for.
pub(crate) const NOBODY: u64 = 0;
/// Somebody has asked for the directory.
const ASKED: u64 = 1 << 15;
const TIMES_SHIFT: u32 = 16;
const KEEPER_MASK: u64 = ASKED - 1;

/// Misses of L1 for which a core waits at least, and at most, before it keeps a directory again. Asking for one takes as long as
/// some hundred misses take longer with locks.
const PAUSE_MIN: u64 = 512;
const PAUSE_MAX: u64 = 1 << 20;
/// How often a core counts them.
const LOOK_EVERY: u32 = 256;
/// Keeping it for so many was worth it.
const WORTH: u64 = 4096;

/// Whether the host can make all threads of the machine's processes pass a barrier. This process takes part from now on.
pub(crate) fn join_barriers() -> bool {
    let needed = MembarrierQuery::GLOBAL_EXPEDITED | MembarrierQuery::REGISTER_GLOBAL_EXPEDITED;
    membarrier_query().contains(needed) && membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// A core's plan for keeping its directory.
pub(crate) struct Keeping {
    /// What [`DomainState::kept`](crate::model::DomainState) is while this core keeps the directory; [`NOBODY`]: it does not.
    word: u64,
    /// The core's misses when it began to keep it, or to pause.
    since: u64,
    /// How many more misses it waits.
    pause: u64,
    /// Accesses until it looks at its misses again.
    unseen: u32,
}

impl Keeping {
    pub(crate) const fn new() -> Self {
        Self { word: NOBODY, since: 0, pause: 0, unseen: 0 }
    }

    /// Somebody has asked for it.
    fn lost(&mut self, misses: u64) {
        let was_worth = misses - self.since >= WORTH;
        let pause = if was_worth { PAUSE_MIN } else { (2 * self.pause).clamp(PAUSE_MIN, PAUSE_MAX) };
        *self = Self { word: NOBODY, since: misses, pause, unseen: LOOK_EVERY };
    }
}

/// The keeper is inside: nobody else touches the directory, nor the core's caches.
#[must_use]
pub(crate) struct Inside<'a>(&'a AtomicU64);

impl Drop for Inside<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        window();
        self.0.store(0, Release);
    }
}

impl<'a> Core<'a> {
    /// A moment between accesses, to decide whether this core keeps its directory. To be called after accesses that were not
    /// usual ([`Core::access_usual`]).
    #[inline(always)]
    pub fn settle(&mut self) {
        if self.keeping.unseen > 0 {
            self.keeping.unseen -= 1;
        } else if self.model.keeps && (self.keeping.word == NOBODY || self.was_asked()) {
            self.consider();
        }
    }

    /// Whether somebody has asked for what this core has kept.
    #[inline(always)]
    fn was_asked(&self) -> bool {
        self.own.kept.load(Relaxed) != self.keeping.word
    }

    #[inline(never)]
    fn consider(&mut self) {
        let misses = l1_misses(self.counters);
        self.keeping.unseen = LOOK_EVERY;
        if self.keeping.word != NOBODY {
            self.keeping.lost(misses);
        } else if misses - self.keeping.since >= self.keeping.pause {
            self.keeping.since = misses;
            self.keep();
        }
    }

    /// Keeps the directory, if nobody else does, nor holds one of its locks.
    pub(crate) fn keep(&mut self) {
        if self.keeping.word != NOBODY && !self.was_asked() {
            return;
        }
        self.keeping.word = NOBODY;
        let times = self.state.times_kept.load(Relaxed) + 1;
        self.state.times_kept.store(times, Relaxed);
        let word = times << TIMES_SHIFT | (self.number as u64 + 1);
        if self.own.kept.compare_exchange(NOBODY, word, SeqCst, Relaxed).is_err() {
            return;
        }
        window();
        if self.own.locks().all(|lock| lock.load(SeqCst) == 0) {
            self.keeping.word = word;
            self.keeping.unseen = 0;
        } else {
            self.give_up(word);
        }
    }

    /// No longer keeps the directory.
    pub(crate) fn stop_keeping(&self) {
        if self.keeping.word != NOBODY {
            self.give_up(self.keeping.word);
        }
    }

    /// Somebody may have asked for it: then that one ends it.
    fn give_up(&self, word: u64) {
        let _ = self.own.kept.compare_exchange(word, NOBODY, SeqCst, Relaxed);
    }

    /// Goes inside, if this core keeps its directory. While it is, it takes no lock of a directory.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<Inside<'a>> {
        if self.keeping.word == NOBODY {
            return None;
        }
        let inside = self.state.inside;
        inside.store(1, Relaxed);
        compiler_fence(SeqCst);
        window();
        let guard = Inside(inside);
        (self.own.kept.load(Acquire) == self.keeping.word).then_some(guard)
    }
}

impl Model<'_> {
    /// A core has one of a directory's locks: takes the directory away from another one that keeps it.
    #[inline(always)]
    pub(crate) fn ask_keeper(&self, directory: usize, core: usize) {
        let word = self.domains[directory].kept.load(SeqCst);
        if word != NOBODY && word & KEEPER_MASK != core as u64 + 1 {
            self.take_from_keeper(directory, core);
        }
    }

    #[cold]
    fn take_from_keeper(&self, directory: usize, core: usize) {
        let kept = self.domains[directory].kept;
        loop {
            let word = kept.load(SeqCst);
            let Some(keeper) = (word & KEEPER_MASK).checked_sub(1).map(|keeper| keeper as usize) else { return };
            if keeper == core {
                return;
            }
            let asked = word | ASKED;
            if word != asked && kept.compare_exchange(word, asked, SeqCst, Relaxed).is_err() {
                continue;
            }
            window();
            membarrier(MembarrierCommand::GlobalExpedited).expect("the process has registered");
            wait_until(|| self.cores[keeper].inside.load(Acquire) == 0);
            let _ = kept.compare_exchange(asked, NOBODY, SeqCst, Relaxed);
            return;
        }
    }
}
