//! SHA-256 (FIPS 180-4) of the data. The digest goes where results go, and its first eight bytes into the result register.

use motet_protocol::fpga::{Fault, Job, State, Step};

use crate::{Memory, Piece, results_at};

const BLOCK: usize = 64;
/// Bytes of a digest.
pub const DIGEST_BYTES: u64 = 32;
/// Of a frame: 16 blocks.
pub const FRAME_BYTES: u64 = 1024;

/// The hash value that it begins with (section 5.3.3).
const FIRST: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

pub fn check(job: &Job) -> Result<(), Fault> {
    if job.command == 0 { Ok(()) } else { Err(Fault::Command) }
}

/// Words 1 to 4 of the state: the hash value.
pub fn frame(job: &Job, piece: Piece, state: &mut State, memory: &impl Memory) -> Result<Step, Fault> {
    let kept = |at: usize| (state[1 + at / 2] >> (32 * (at % 2))) as u32;
    let mut hash = if piece.from == 0 { FIRST } else { std::array::from_fn(kept) };
    let mut bytes = piece.read(job, memory)?;
    if piece.is_last {
        bytes.push(0x80);
        bytes.resize((bytes.len() + 8).next_multiple_of(BLOCK) - 8, 0);
        bytes.extend((u64::from(job.data_size) * 8).to_be_bytes());
    }
    for block in bytes.as_chunks::<BLOCK>().0 {
        sha2::compress256(&mut hash, &[(*block).into()]);
    }
    state[0] = piece.end();
    for (word, [low, high]) in state[1..5].iter_mut().zip(hash.as_chunks::<2>().0) {
        *word = u64::from(*high) << 32 | u64::from(*low);
    }
    if !piece.is_last {
        return Ok(Step::More);
    }
    let digest: Vec<u8> = hash.iter().flat_map(|word| word.to_be_bytes()).collect();
    memory.write(results_at(job), &digest)?;
    Ok(Step::Over(u64::from(hash[0]) << 32 | u64::from(hash[1])))
}
