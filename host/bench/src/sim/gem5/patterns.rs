//! Traces of cores that share memory in the ways that programs do, from a seed.

use fastrand::Rng;
use motet_coherence::{Kind, LINE_SIZE, interleaved::Step};

/// A kind of sharing.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Its name, which the files have, too.
    pub name: &'static str,
    /// Cores that take part.
    pub cores: usize,
    rounds: u64,
    round: fn(&mut Trace, u64),
}

/// All of them.
pub const PATTERNS: [Pattern; 8] = [
    Pattern { name: "alone", cores: 1, rounds: 2500, round: alone },
    Pattern { name: "producer-consumer", cores: 2, rounds: 300, round: producer_consumer },
    Pattern { name: "migratory", cores: 4, rounds: 600, round: migratory },
    Pattern { name: "false-sharing", cores: 2, rounds: 3000, round: false_sharing },
    Pattern { name: "lock", cores: 4, rounds: 800, round: lock },
    Pattern { name: "read-mostly", cores: 4, rounds: 2500, round: read_mostly },
    Pattern { name: "capacity", cores: 2, rounds: 2500, round: capacity },
    Pattern { name: "mixture", cores: 4, rounds: 1000, round: mixture },
];

impl Pattern {
    /// The trace; always the same.
    pub fn steps(&self) -> Vec<Step> {
        let seed = self.name.bytes().fold(1, |seed: u64, byte| seed.wrapping_mul(257).wrapping_add(byte.into()));
        let mut trace = Trace { cores: self.cores, random: Rng::with_seed(seed), steps: Vec::new() };
        (0..self.rounds).for_each(|round| (self.round)(&mut trace, round));
        trace.steps
    }
}

/// Where things are: no line has both instructions and data.
const SHARED: u64 = 0x10_0000;
const OWN: u64 = 0x20_0000;
const CODE: u64 = 0x40_0000;
/// From one core's own memory, or code, to the next one's.
const OWN_BYTES: u64 = 0x4_0000;

struct Trace {
    cores: usize,
    random: Rng,
    steps: Vec<Step>,
}

impl Trace {
    fn step(&mut self, core: usize, kind: Kind, address: u64) {
        self.steps.push(Step { core, kind, address });
    }

    /// A core goes on in a loop of its own program of so many lines.
    fn fetch(&mut self, core: usize, round: u64, lines: u64) {
        self.step(core, Kind::Fetch, CODE + core as u64 * OWN_BYTES + round % lines * LINE_SIZE);
    }

    /// A word of a core's own, anywhere in so many lines.
    fn own(&mut self, core: usize, lines: u64) -> u64 {
        OWN + core as u64 * OWN_BYTES + self.random.u64(..lines * LINE_SIZE / 8) * 8
    }

    /// A word of the first so many shared lines.
    fn shared(&mut self, lines: u64) -> u64 {
        SHARED + self.random.u64(..lines * LINE_SIZE / 8) * 8
    }

    fn core(&mut self) -> usize {
        self.random.usize(..self.cores)
    }

    fn load_or_store(&mut self) -> Kind {
        if self.random.u8(..4) == 0 { Kind::Store } else { Kind::Load }
    }
}

/// A working set that L1 holds, one that L2 holds and one that nothing holds.
fn alone(trace: &mut Trace, round: u64) {
    trace.fetch(0, round, 24);
    for lines in [16, 96, 2048] {
        let (kind, address) = (trace.load_or_store(), trace.own(0, lines));
        trace.step(0, kind, address);
    }
    if round % 16 == 0 {
        let address = trace.own(0, 16);
        trace.step(0, Kind::Atomic, address);
    }
}

/// One fills a buffer of 16 lines and sets a flag; the other polls the flag and reads.
fn producer_consumer(trace: &mut Trace, round: u64) {
    let (flag, buffer) = (SHARED, SHARED + LINE_SIZE + round % 4 * 16 * LINE_SIZE);
    for line in 0..16 {
        trace.step(0, Kind::Store, buffer + line * LINE_SIZE + round % 8 * 8);
        if line % 8 == 0 {
            trace.step(1, Kind::Load, flag);
        }
    }
    trace.step(0, Kind::Store, flag);
    trace.step(1, Kind::Load, flag);
    (0..16).for_each(|line| trace.step(1, Kind::Load, buffer + line * LINE_SIZE + round % 8 * 8));
}

/// One after the other reads and writes an object of four lines.
fn migratory(trace: &mut Trace, round: u64) {
    let (core, object) = (trace.core(), SHARED + round % 6 * 4 * LINE_SIZE);
    trace.fetch(core, round, 12);
    for line in 0..4 {
        trace.step(core, Kind::Load, object + line * LINE_SIZE);
        trace.step(core, Kind::Store, object + line * LINE_SIZE + 8);
    }
    for _ in 0..6 {
        let (kind, address) = (trace.load_or_store(), trace.own(core, 24));
        trace.step(core, kind, address);
    }
}

/// Each counts in a word of its own; the words are in one line.
fn false_sharing(trace: &mut Trace, round: u64) {
    let (core, line) = (trace.core(), SHARED + round % 4 * LINE_SIZE);
    let word = line + core as u64 * 8;
    trace.step(core, Kind::Load, word);
    trace.step(core, Kind::Store, word);
    let address = trace.own(core, 20);
    trace.step(core, Kind::Load, address);
}

/// A test-and-set lock with waiters that read, and what it guards.
fn lock(trace: &mut Trace, round: u64) {
    let holder = trace.core();
    trace.fetch(holder, round, 8);
    trace.step(holder, Kind::Atomic, SHARED);
    for waiter in (0..trace.cores).filter(|&waiter| waiter != holder) {
        trace.step(waiter, Kind::Load, SHARED);
        trace.step(waiter, Kind::Load, SHARED);
    }
    for line in 1..4 {
        trace.step(holder, Kind::Load, SHARED + line * LINE_SIZE);
        trace.step(holder, Kind::Store, SHARED + line * LINE_SIZE);
    }
    trace.step(holder, Kind::Store, SHARED);
}

/// All read a table; now and then one of them changes a word.
fn read_mostly(trace: &mut Trace, round: u64) {
    let core = trace.core();
    trace.fetch(core, round, 16);
    for _ in 0..3 {
        let address = trace.shared(40);
        trace.step(core, Kind::Load, address);
    }
    if round % 20 == 0 {
        let address = trace.shared(40);
        trace.step(core, Kind::Store, address);
    }
}

/// One core uses few lines all the time, which the last level therefore does not see; the other one sweeps through more than the
/// last level holds, and so takes them away.
fn capacity(trace: &mut Trace, round: u64) {
    for _ in 0..2 {
        let (kind, address) = (trace.load_or_store(), trace.own(0, 24));
        trace.step(0, kind, address);
    }
    for step in 0..2 {
        let kind = trace.load_or_store();
        trace.step(1, kind, OWN + OWN_BYTES + (round * 2 + step) % 1536 * LINE_SIZE);
    }
}

/// Some of each.
fn mixture(trace: &mut Trace, round: u64) {
    match trace.random.u8(..5) {
        0 => migratory(trace, round),
        1 => false_sharing(trace, round),
        2 => lock(trace, round),
        3 => read_mostly(trace, round),
        _ => capacity(trace, round),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_some_ten_thousand_accesses_of_all_their_cores_and_always_the_same() {
        for pattern in PATTERNS {
            let steps = pattern.steps();
            assert!((8_000..16_000).contains(&steps.len()), "{}: {}", pattern.name, steps.len());
            assert!((0..pattern.cores).all(|core| steps.iter().any(|step| step.core == core)), "{}", pattern.name);
            assert!(steps.iter().all(|step| step.core < pattern.cores), "{}", pattern.name);
            assert_eq!(steps, pattern.steps());
        }
    }
}
