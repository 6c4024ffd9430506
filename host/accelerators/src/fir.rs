//! A filter with a finite impulse response: signed 16-bit samples; coefficients with 15 bits behind the point. The command is how many
//! coefficients there are, custom register 1 where they lie. Samples before the first one are 0; sums are rounded and saturate.

use motet_protocol::fpga::{Fault, Job, State};

use crate::{Memory, Piece, bytes_of, results_at, samples};

const TAPS_MAX: usize = 64;
/// Of a frame: 1024 samples.
pub const FRAME_BYTES: u64 = 2048;

pub fn check(job: &Job) -> Result<(), Fault> {
    if job.data_size == 0 || job.data_size % 2 != 0 {
        return Err(Fault::Size);
    }
    if (1..=TAPS_MAX as u32).contains(&job.command) { Ok(()) } else { Err(Fault::Command) }
}

/// Words 1 to 16 of the state: coefficients, as they were in the beginning. 17 to 32: the last samples.
pub fn frame(job: &Job, piece: Piece, state: &mut State, memory: &impl Memory) -> Result<(), Fault> {
    let count = (job.command as usize).clamp(1, TAPS_MAX);
    if piece.from == 0 {
        let mut bytes = vec![0; 2 * count];
        memory.read(job.custom[1].into(), &mut bytes)?;
        keep(&mut state[1..17], samples(&bytes));
    }
    let taps: Vec<i16> = kept(&state[1..17]).take(count).collect();
    let mut all: Vec<i16> = kept(&state[17..33]).collect();
    all.extend(samples(&piece.read(job, memory)?));
    let filtered = |newest: usize| {
        let products = taps.iter().enumerate().map(|(age, tap)| i64::from(*tap) * i64::from(all[newest - age]));
        let rounded = (products.sum::<i64>() + (1 << 14)) >> 15;
        rounded.clamp(i16::MIN.into(), i16::MAX.into()) as i16
    };
    let results = bytes_of((TAPS_MAX..all.len()).map(filtered));
    memory.write(results_at(job) + piece.from, &results)?;
    keep(&mut state[17..33], all[all.len() - TAPS_MAX..].iter().copied());
    Ok(())
}

/// Four numbers in each word.
fn keep(words: &mut [u64], numbers: impl Iterator<Item = i16>) {
    words.fill(0);
    for (at, number) in numbers.enumerate() {
        words[at / 4] |= u64::from(number as u16) << (16 * (at % 4));
    }
}

fn kept(words: &[u64]) -> impl Iterator<Item = i16> + '_ {
    words.iter().flat_map(|word| (0..4).map(move |at| (word >> (16 * at)) as i16))
}
