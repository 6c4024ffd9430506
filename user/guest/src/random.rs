//! Executes random words as instructions, at random addresses, with random registers.

use core::{
    fmt::{Result, Write},
    sync::atomic::{AtomicU64, Ordering},
};

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

    /// An instruction of 32 bits; often one that a hypervisor must handle.
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

/// Random programs before the end.
const PROGRAMS: u64 = 2000;
static STATE: AtomicU64 = AtomicU64::new(0);
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Runs random programs. It never returns: it ends by a shutdown, or is killed.
pub fn run(seed: u64) -> Result {
    let mut random = Random(seed);
    for at in (CODE..CODE + WORDS * 4).step_by(8) {
        let pair = u64::from(random.instruction()) | u64::from(random.instruction()) << 32;
        bare::word(at).store(pair, Ordering::Relaxed);
    }
    writeln!(Console, "random {seed}")?;
    STATE.store(random.next(), Ordering::Relaxed);
    bare::begin_random()
}

/// Chooses registers, and where a program begins.
pub fn next_program(registers: &[AtomicU64; 32]) -> u64 {
    if BEGUN.fetch_add(1, Ordering::Relaxed) == PROGRAMS {
        bare::shut_down(true);
    }
    let mut random = Random(STATE.load(Ordering::Relaxed));
    for register in registers {
        let value = random.next();
        let value = match value % 8 {
            0 => value,
            1 => 0x1000_0000 + (value >> 8) % 16,
            2 => (value >> 8) % 16,
            // Ids of the firmware's extensions.
            3 => {
                [0x10, 0x5449_4d45, 0x0073_5049, 0x5246_4e43, 0x0048_534d, 0x4442_434e, 1, 2][(value >> 8) as usize % 8]
            }
            _ => CODE as u64 + (value >> 8) % (WORDS as u64 * 4),
        };
        register.store(value, Ordering::Relaxed);
    }
    STATE.store(random.next(), Ordering::Relaxed);
    CODE as u64 + (random.next() % (WORDS as u64 * 2)) * 2
}
