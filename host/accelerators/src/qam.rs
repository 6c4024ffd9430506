//! Mapping of bits to points of a square constellation, Gray-coded as in IEEE 802.11 (17.3.5.8, tables 17-15 and 17-16). Each point is I and Q,
//! signed 16-bit numbers with 14 bits behind the point, of average power 1. The first bit is the highest one of the first byte; bits that are
//! missing from the last point are 0.

use motet_protocol::fpga::{Fault, Job};

use crate::{Memory, Piece, bytes_of, results_at};

/// Ker-ONE's frame: 18,800 bits, and a multiple of 6 bits more or less, so that no point lies in two frames.
pub const FRAME_BYTES: u64 = 2352;
/// Bytes of a point.
const POINT_BYTES: u64 = 4;
/// 1.0.
const ONE: f64 = (1 << 14) as f64;

pub fn check(job: &Job) -> Result<(), Fault> {
    match (job.data_size, job.command) {
        (0, _) => Err(Fault::Size),
        (_, 0) => Ok(()),
        _ => Err(Fault::Command),
    }
}

pub fn result_bytes<const BITS: u64>(data_bytes: u64) -> u64 {
    (data_bytes * 8).div_ceil(BITS) * POINT_BYTES
}

pub fn frame<const BITS: u64>(job: &Job, piece: Piece, memory: &impl Memory) -> Result<(), Fault> {
    let bytes = piece.read(job, memory)?;
    let bit = |at: u64| bytes.get(at as usize / 8).map_or(0, |byte| u32::from(byte >> (7 - at % 8) & 1));
    let points = (piece.len * 8).div_ceil(BITS);
    let half = |from: u64| (from..from + BITS / 2).fold(0, |word, at| word << 1 | bit(at));
    let levels = (0..points).flat_map(|point| [half(point * BITS), half(point * BITS + BITS / 2)]);
    let at = piece.from * 8 / BITS * POINT_BYTES;
    memory.write(results_at(job) + at, &bytes_of(levels.map(level::<BITS>)))
}

/// The coordinate that half of a point's bits mean.
fn level<const BITS: u64>(gray: u32) -> i16 {
    let (mut number, levels) = (gray, 1 << (BITS / 2));
    for shift in 1..BITS / 2 {
        number ^= gray >> shift;
    }
    let odd = 2 * number as i32 - (levels - 1);
    // Both coordinates together have twice the average of squares of odd numbers.
    let power = 2.0 * f64::from(levels * levels - 1) / 3.0;
    (f64::from(odd) / power.sqrt() * ONE).round() as i16
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn levels_are_those_of_the_standard() {
        // IEEE 802.11, table 17-15: b0 b1 to I; the factor is 1/sqrt(10).
        let expected = [(0b00, -3.0), (0b01, -1.0), (0b11, 1.0), (0b10, 3.0)];
        for (bits, number) in expected {
            assert_eq!(level::<4>(bits), (number / 10f64.sqrt() * 16384.0).round() as i16, "{bits:02b}");
        }
        // Table 17-16: b0 b1 b2 to I; the factor is 1/sqrt(42).
        let numbers = [-7.0, -5.0, -3.0, -1.0, 1.0, 3.0, 5.0, 7.0];
        let bits = [0b000, 0b001, 0b011, 0b010, 0b110, 0b111, 0b101, 0b100];
        for (bits, number) in bits.into_iter().zip(numbers) {
            assert_eq!(level::<6>(bits), (number / 42f64.sqrt() * 16384.0).round() as i16, "{bits:03b}");
        }
    }
}
