//! Fourier transforms of blocks of samples: each is I and Q, signed 16-bit numbers. Results are divided by the number of points, so that they
//! are samples as well. What is missing from the last block is 0.

use std::sync::{Arc, LazyLock};

use motet_protocol::fpga::{Fault, Job};
use rustfft::{Fft, FftPlannerScalar, num_complex::Complex};

use crate::{Memory, Piece, bytes_of, results_at, samples};

/// Bytes of a sample.
const SAMPLE_BYTES: u64 = 4;
/// Consistency points are 2048 samples apart: of Ker-ONE's 4,700 samples, three, as its preemption delays (Table 5) are about a third of what
/// a frame takes (Table 6).
pub const FRAME_BYTES: u64 = 2048 * SAMPLE_BYTES;

pub const fn block_bytes<const POINTS: usize>() -> u64 {
    POINTS as u64 * SAMPLE_BYTES
}

pub fn check(job: &Job) -> Result<(), Fault> {
    if job.data_size == 0 || u64::from(job.data_size) % SAMPLE_BYTES != 0 {
        return Err(Fault::Size);
    }
    // 0: forwards; 1: back.
    if job.command > 1 { Err(Fault::Command) } else { Ok(()) }
}

/// Transforms of 512 and 1024 points, forwards and back.
static PLANS: LazyLock<[[Arc<dyn Fft<f64>>; 2]; 2]> = LazyLock::new(|| {
    let mut planner = FftPlannerScalar::new();
    [512, 1024].map(|points| [planner.plan_fft_forward(points), planner.plan_fft_inverse(points)])
});

pub fn frame<const POINTS: usize>(job: &Job, piece: Piece, memory: &impl Memory) -> Result<(), Fault> {
    let bytes = piece.read(job, memory)?;
    let numbers: Vec<f64> = samples(&bytes).map(f64::from).collect();
    let mut points: Vec<_> = numbers.as_chunks::<2>().0.iter().map(|[i, q]| Complex::new(*i, *q)).collect();
    points.resize(points.len().next_multiple_of(POINTS), Complex::default());
    PLANS[usize::from(POINTS == 1024)][job.command as usize & 1].process(&mut points);
    let rounded = |number: f64| (number / POINTS as f64).round().clamp(-32768.0, 32767.0) as i16;
    let results = bytes_of(points.iter().flat_map(|point| [rounded(point.re), rounded(point.im)]));
    memory.write(results_at(job) + piece.from, &results)
}
