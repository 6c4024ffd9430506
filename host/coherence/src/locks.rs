//! Mutual exclusion of threads that drive different cores.
//!
//! Each directory has locks of its own. For each piece of memory that islands share, a word says which directories have
//! ever asked for a line of it. While only one has, its own lock is enough, no other directory is read, and no word is written
//! that another island's thread reads. A core that asks for the first time sets its directory's bit in the word, and then takes the locks of all
//! directories that the word names; a core that asks again reads the word with its own lock held. So either the latter sees the new directory, or the
//! new one waits for its lock, and sees what it has done.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed, Release, SeqCst},
};

use crate::LINE_SIZE;
use crate::config::Config;
use crate::model::{Model, window};

/// Lines of the least piece that has a word: 4 KiB.
const PIECE_LINES_LOG2: u32 = 6;
/// Pieces are so large that no more words than this are needed: 1 MiB of them.
const WORDS_MAX: u64 = 1 << 17;

/// Which directories have ever asked for lines of a piece of memory: a bit each, by number.
pub(crate) struct Askers<'a> {
    /// None where there is one directory only.
    words: &'a [AtomicU64],
    piece_lines_log2: u32,
}

impl<'a> Askers<'a> {
    /// Words that are needed, whole host lines; and the size of a piece.
    fn shape(config: &Config) -> (usize, u32) {
        let lines = config.ranges.last().map_or(0, |range| range.end.div_ceil(LINE_SIZE));
        let least = lines.div_ceil(WORDS_MAX).max(1).next_power_of_two().ilog2();
        let piece_lines_log2 = least.max(PIECE_LINES_LOG2);
        let words = if config.domains.len() == 1 { 0 } else { lines.div_ceil(1 << piece_lines_log2) as usize };
        (words.next_multiple_of(8), piece_lines_log2)
    }

    /// Words of the region.
    pub(crate) fn words(config: &Config) -> usize {
        Self::shape(config).0
    }

    /// Takes its words from the front of `rest`.
    pub(crate) fn take(config: &Config, rest: &mut &'a [AtomicU64]) -> Self {
        let (count, piece_lines_log2) = Self::shape(config);
        let (words, after) = rest.split_at(count);
        *rest = after;
        Self { words, piece_lines_log2 }
    }

    /// Nobody has asked for anything.
    pub(crate) fn reset(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Notes that a directory, whose lock for the line is held if threads may meet, asks for a line: the others that ever
    /// have. Lines that only one island can have are in no piece.
    #[inline(always)]
    pub(crate) fn others(&self, line: u64, directory: usize) -> u64 {
        let Some(word) = self.words.get((line >> self.piece_lines_log2) as usize) else { return 0 };
        let bit = 1 << directory;
        let asked = word.load(Relaxed);
        let asked = if asked & bit == 0 { first_asked(word, bit) } else { asked };
        asked & !bit
    }
}

#[cold]
fn first_asked(word: &AtomicU64, bit: u64) -> u64 {
    window();
    let before = word.fetch_or(bit, AcqRel);
    window();
    before
}

/// A held lock.
#[must_use]
pub(crate) struct Guard<'a>(&'a AtomicU64);

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

/// Takes a lock; its word then names the core, for whoever looks at a stuck region.
#[inline]
pub(crate) fn lock(word: &AtomicU64, core: usize) -> Guard<'_> {
    // In one order with the words that say who keeps a directory.
    if word.compare_exchange(0, core as u64 + 1, SeqCst, Relaxed).is_err() {
        wait_for(word, core);
    }
    Guard(word)
}

#[cold]
fn wait_for(word: &AtomicU64, core: usize) {
    wait_until(|| word.compare_exchange_weak(0, core as u64 + 1, SeqCst, Relaxed).is_ok());
}

/// Waits for what another thread does soon.
pub(crate) fn wait_until(mut is_done: impl FnMut() -> bool) {
    let mut tries = 0_u32;
    while !is_done() {
        tries += 1;
        // The other may be a thread that is not running.
        if tries < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

/// The held locks of all directories that may have a line, if threads may meet.
#[must_use]
pub(crate) struct LineLocks<'m, 'a> {
    model: &'m Model<'a>,
    line: u64,
    /// A bit for each directory.
    directories: u64,
}

impl Drop for LineLocks<'_, '_> {
    fn drop(&mut self) {
        if self.model.threads {
            numbers(self.directories).for_each(|number| self.model.lock_word(number, self.line).store(0, Release));
        }
    }
}

/// The numbers of the bits of a word.
pub(crate) fn numbers(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(number)
    })
}

impl<'a> Model<'a> {
    /// A directory's lock for a line, and for every line that can be in the same set of it or of an L2 under it.
    #[inline(always)]
    fn lock_word(&self, directory: usize, line: u64) -> &'a AtomicU64 {
        let domain = &self.domains[directory];
        domain.l3.set(line & domain.lock_mask).lock()
    }

    /// Locks a directory for a line, if threads may meet.
    #[inline(always)]
    pub(crate) fn lock_directory(&self, directory: usize, line: u64, core: usize, threads: bool) -> Option<Guard<'a>> {
        if !threads {
            return None;
        }
        let guard = lock(self.lock_word(directory, line), core);
        self.ask_keeper(directory, core);
        Some(guard)
    }

    /// Locks all directories that have ever asked for a line or its neighbours, in the order of their numbers, if threads
    /// may meet; `directory` asks now, and its lock is not held. The locks, and the bits of the others.
    pub(crate) fn lock_askers(&self, directory: usize, line: u64, core: usize) -> (LineLocks<'_, 'a>, u64) {
        let mut others = self.askers.others(line, directory);
        loop {
            let directories = others | 1 << directory;
            if self.threads {
                for number in numbers(directories) {
                    std::mem::forget(self.lock_directory(number, line, core, true));
                }
            }
            let locks = LineLocks { model: self, line, directories };
            window();
            let now = self.askers.others(line, directory);
            if now == others {
                return (locks, others);
            }
            // Somebody new came before these locks were held.
            others = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Island, ModelTable, Piece, Shape, Target};

    #[test]
    fn each_line_of_the_pool_has_a_word_and_large_pools_have_no_more_words() {
        let config = |pool: u64, islands: usize| {
            let memory = vec![Piece { local: 0, size: pool, target: Target::Pool(0) }];
            let island = |number| Island {
                name: format!("island{number}"),
                cores: 1,
                memory: memory.clone(),
                traps: Default::default(),
            };
            let shape = Shape { pool, islands: (0..islands).map(island).collect(), own: Vec::new() };
            ModelTable::default().resolve(&shape).unwrap()
        };
        for pool in [4096, 1 << 20, (1 << 20) + 64, 512 << 20, (512 << 20) + 4096, 3 << 30, 1 << 40] {
            let (words, piece_lines_log2) = Askers::shape(&config(pool, 2));
            assert!(words as u64 <= WORDS_MAX, "{pool}: {words} words");
            assert!((pool / LINE_SIZE - 1) >> piece_lines_log2 < words as u64, "{pool}: {words} words");
            assert_eq!(piece_lines_log2 == PIECE_LINES_LOG2, pool <= 512 << 20, "{pool}");
            assert_eq!(Askers::shape(&config(pool, 1)).0, 0);
        }
    }
}
