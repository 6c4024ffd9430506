//! IS: ranks of random integers by counting, repeatedly.

use crate::{Class, Memory, Outcome, random::Random};

/// A problem of NPB, or one like it.
struct Problem {
    keys_log2: u32,
    key_max_log2: u32,
    /// Keys whose ranks are published, by their place among the keys, and the ranks of the original keys there.
    tests: &'static [(usize, u32)],
}

fn problem(class: Class) -> Problem {
    match class {
        Class::T => Problem { keys_log2: 13, key_max_log2: 9, tests: &[] },
        Class::S => Problem {
            keys_log2: 16,
            key_max_log2: 11,
            tests: &[(48427, 0), (17148, 18), (23627, 346), (62548, 64917), (4431, 65463)],
        },
    }
}

/// Two keys change in each of the first iterations.
const CHANGES: usize = 10;

/// Ranks the keys `iterations` times (NPB's number is 10), and compares those ranks that are published each time.
pub fn run(class: Class, iterations: u32, memory: &mut impl Memory) -> Outcome {
    let Problem { keys_log2, key_max_log2, tests } = problem(class);
    let (count, bound) = (1_usize << keys_log2, 1_usize << key_max_log2);
    let (keys, ranks, sorted) = (memory.integers(count), memory.integers(bound), memory.integers(count));
    let mut random = Random::new();
    for key in keys.iter_mut() {
        // The mean of four numbers.
        let sum: u64 = (0..4).map(|_| random.next_integer()).sum();
        *key = (sum >> (48 - key_max_log2)) as u32;
    }
    let mut verified = true;
    for iteration in 1..=iterations as usize {
        let iteration = iteration.min(CHANGES);
        keys[iteration] = iteration as u32;
        keys[iteration + CHANGES] = (bound - iteration) as u32;
        rank(keys, ranks);
        for (test, (place, published)) in tests.iter().enumerate() {
            let wanted = if test <= 2 { published + iteration as u32 } else { published - iteration as u32 };
            let key = keys[*place] as usize;
            verified &= key == 0 || ranks[key - 1] == wanted;
        }
    }
    place(keys, ranks, sorted);
    verified &= sorted.is_sorted();
    let sum: u64 = sorted.iter().zip(1_u64..).map(|(key, index)| u64::from(*key) * index).sum();
    Outcome { verified, value: sum as f64 / (count * count) as f64 }
}

/// For each key value, how many keys are not above it.
fn rank(keys: &[u32], ranks: &mut [u32]) {
    ranks.fill(0);
    for key in keys {
        ranks[*key as usize] += 1;
    }
    let mut sum = 0;
    for rank in ranks {
        sum += *rank;
        *rank = sum;
    }
}

fn place(keys: &[u32], ranks: &mut [u32], sorted: &mut [u32]) {
    for key in keys {
        let rank = &mut ranks[*key as usize];
        *rank -= 1;
        sorted[*rank as usize] = *key;
    }
}
