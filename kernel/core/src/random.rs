//! Random bytes for user programs, and whether programs are placed at random.
//!
//! The host seeds the pool with real entropy; a counter in the pool, which every request advances, and the clock are
//! mixed with the seed by SplitMix64 steps. Good for hash seeds and temporary names, not for keys that matter.

use core::sync::atomic::Ordering;

use motet_abi::Errno;
use motet_hal::{Access, Machine};

use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    cursor::{Cursor, produce},
};

const GRND_NONBLOCK: u64 = 1;
const GRND_RANDOM: u64 = 2;
const GRND_INSECURE: u64 = 4;

/// Fills `into` with random bytes.
pub fn fill<M: Machine>(cpu: &Cpu<M>, into: &mut [u8]) {
    let header = cpu.pool.header();
    for piece in into.chunks_mut(8) {
        let ticket = header.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mut word = mix(ticket ^ cpu.now_ns());
        for seed in &header.seed {
            word = mix(word ^ seed.get());
        }
        piece.copy_from_slice(&word.to_le_bytes()[..piece.len()]);
    }
}

/// Where the parts of a new program are: `/proc/sys/kernel/randomize_va_space` is the number of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placed {
    /// At the same addresses each time.
    AsEver = 0,
    /// At random, but the heap, which begins where the program ends.
    AtRandomButTheHeap = 1,
    /// At random.
    AtRandom = 2,
}

/// Where new programs are placed. If nobody has said: at random, but on timed machines as ever, so that times do not depend on it.
pub fn placed<M: Machine>(cpu: &Cpu<M>) -> Placed {
    match cpu.pool.header().random_places.load(Ordering::Relaxed) {
        0 if cpu.is_timed() => Placed::AsEver,
        1 => Placed::AsEver,
        2 => Placed::AtRandomButTheHeap,
        _ => Placed::AtRandom,
    }
}

/// Sets that by the text of `/proc/sys/kernel/randomize_va_space`.
///
/// # Errors
/// `EINVAL`: it is none of 0, 1 and 2.
pub fn set_placed<M: Machine>(cpu: &Cpu<M>, text: &[u8]) -> Result<(), Errno> {
    let said = match text.trim_ascii() {
        b"0" => Placed::AsEver,
        b"1" => Placed::AtRandomButTheHeap,
        b"2" => Placed::AtRandom,
        _ => return Err(Errno::EINVAL),
    };
    cpu.pool.header().random_places.store(said as u32 + 1, Ordering::Relaxed);
    Ok(())
}

/// Random words.
pub fn words<M: Machine, const N: usize>(cpu: &Cpu<M>) -> [u64; N] {
    let mut words = [[0; 8]; N];
    fill(cpu, words.as_flattened_mut());
    words.map(u64::from_le_bytes)
}

/// `getrandom(buffer, length, flags)`.
pub fn getrandom<M: Machine>(call: &Call<M>) -> SysResult {
    let [at, len, flags, ..] = call.args;
    // Bytes that may be weak and bytes that must be strong are two things.
    let both = flags & (GRND_RANDOM | GRND_INSECURE) == GRND_RANDOM | GRND_INSECURE;
    if flags & !(GRND_NONBLOCK | GRND_RANDOM | GRND_INSECURE) != 0 || both {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = [0; 256];
    let mut into = Cursor::new(call, at, len.min(i32::MAX as u64), Access::Write);
    produce(call, &mut into, cost, |into| {
        fill(call.cpu, &mut bytes);
        into.write(&bytes)
    })
}

/// What making `len` random bytes costs (`call::cost`).
pub const fn cost(len: u64) -> u64 {
    len * 10
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
