//! One load and one store of the same word per line, line after line, around 16 MiB: the least work per miss.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Memory, Outcome};

const SIZE_BYTES: usize = 16 << 20;
const LINE_BYTES: usize = 64;
const WORDS_PER_LINE: usize = LINE_BYTES / 8;
const WORDS: usize = SIZE_BYTES / 8;

/// Adds 1 to the first word of `count` lines.
pub fn run(count: u64, memory: &mut impl Memory) -> Outcome {
    let words: &[AtomicU64] = &memory.words(WORDS)[..WORDS];
    let mut offset = 0;
    for _ in 0..count {
        offset = (offset + WORDS_PER_LINE) & (WORDS - 1);
        // Relaxed accesses are ordinary instructions, and the compiler keeps each of them.
        words[offset].store(words[offset].load(Relaxed) + 1, Relaxed);
    }
    let sum: u64 = (0..WORDS).step_by(WORDS_PER_LINE).map(|word| words[word].load(Relaxed)).sum();
    Outcome { verified: sum == count, value: sum as f64 }
}
