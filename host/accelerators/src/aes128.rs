//! AES-128 (FIPS 197). Commands: 0 encrypts and 1 decrypts block by block (ECB), 2 encrypts and 3 decrypts chained blocks (CBC; NIST SP
//! 800-38A). Custom registers 1 to 4 are the key, in the order of its bytes; 5 is where the first chaining value lies.

use aes::{
    Aes128,
    cipher::{BlockDecrypt, BlockEncrypt, KeyInit},
};
use motet_protocol::fpga::{Fault, Job, State};

use crate::{Memory, Piece, results_at};

const BLOCK: usize = 16;
/// Of a frame: 64 blocks.
pub const FRAME_BYTES: u64 = 1024;

pub fn check(job: &Job) -> Result<(), Fault> {
    if job.data_size == 0 || job.data_size as usize % BLOCK != 0 {
        return Err(Fault::Size);
    }
    if job.command > 3 { Err(Fault::Command) } else { Ok(()) }
}

/// Words 1 and 2 of the state: the chaining value.
pub fn frame(job: &Job, piece: Piece, state: &mut State, memory: &impl Memory) -> Result<(), Fault> {
    let mut key = [0; BLOCK];
    let words = key.as_chunks_mut::<4>().0;
    words.iter_mut().zip(&job.custom[1..5]).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    let cipher = Aes128::new(&key.into());
    let mut chain = if piece.from == 0 && job.command >= 2 {
        let mut first = [0; BLOCK];
        memory.read(job.custom[5].into(), &mut first)?;
        u128::from_le_bytes(first)
    } else {
        u128::from(state[2]) << 64 | u128::from(state[1])
    };
    let mut bytes = piece.read(job, memory)?;
    for block in bytes.as_chunks_mut::<BLOCK>().0 {
        let before = u128::from_le_bytes(*block);
        let mut with = |input: u128, encrypts: bool| {
            *block = input.to_le_bytes();
            if encrypts {
                cipher.encrypt_block(block.into())
            } else {
                cipher.decrypt_block(block.into())
            }
            u128::from_le_bytes(*block)
        };
        match job.command {
            0 => drop(with(before, true)),
            1 => drop(with(before, false)),
            2 => chain = with(before ^ chain, true),
            _ => {
                let after = with(before, false) ^ chain;
                *block = after.to_le_bytes();
                chain = before;
            }
        }
    }
    (state[1], state[2]) = (chain as u64, (chain >> 64) as u64);
    memory.write(results_at(job) + piece.from, &bytes)
}
