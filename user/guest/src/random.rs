//! Executes anything at all: random words, at random places, with random registers.

use core::{fmt::Result, fmt::Write, sync::atomic::Ordering};

use crate::bare::{self, Console};

/// Where the words are, and how many.
const CODE: usize = 0x8100_0000;
const WORDS: usize = 64 << 10;

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// An instruction of 32 bits; often one of those that a hypervisor has to do with.
    fn instruction(&mut self) -> u32 {
        let word = self.next() as u32;
        match self.next() % 16 {
            // Registers of all privileges, loads and stores, environment calls, system instructions, branches.
            0..3 => word & 0xffff_ff80 | 0x73,
            3..5 => word & 0xffff_ff80 | 0x03,
            5..7 => word & 0xffff_ff80 | 0x23,
            7 => 0x73,
            8 => word & 0xfe00_7f80 | 0x73,
            9 => word & 0xffff_ff80 | 0x2f,
            10 => word & 0xffff_ff80 | 0x63,
            11 => word & 0x0fff_ff80 | 0x13,
            12 => [0x1050_0073, 0x1200_0073, 0x3020_0073, 0x1020_0073][word as usize % 4],
            _ => word | 3,
        }
    }
}

/// Never comes back: it ends by a shutdown, or by force.
pub fn run(seed: u64) -> Result {
    let mut random = Random(seed);
    for at in (CODE..CODE + WORDS * 4).step_by(8) {
        let pair = u64::from(random.instruction()) | u64::from(random.instruction()) << 32;
        bare::word(at).store(pair, Ordering::Relaxed);
    }
    writeln!(Console, "random {seed}")?;
    bare::jump(CODE + (random.next() as usize % WORDS) * 4, random.next())
}
