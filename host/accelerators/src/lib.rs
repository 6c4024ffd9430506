//! Accelerators of the FPGA, and what they compute (`docs/protocols/fpga.md`).
//!
//! Each reads its data from the client's data section and writes its results there, one frame at a time. Between two frames all that it
//! knows is in its [`State`], which the FPGA saves and restores. So it computes the same whether it is stopped in between or not.
//! `job.custom[0]` is where results go. QAM and FFT are Ker-ONE's (section 6.1); the others go beyond the paper.
#![forbid(unsafe_code)]

mod aes128;
mod fft;
mod fir;
mod pool;
mod qam;
mod sha256;

pub use pool::PoolLogic;

use motet_protocol::fpga::{Fault, Job, State, Step};

/// A client's data section, as accelerators see it: from 0 on.
pub trait Memory {
    /// Reads bytes.
    ///
    /// # Errors
    /// One of them is not the client's.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault>;

    /// Writes bytes.
    ///
    /// # Errors
    /// One of them is not the client's.
    fn write(&self, at: u64, from: &[u8]) -> Result<(), Fault>;
}

/// Which accelerator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Bits to points of 16-QAM.
    Qam16 = 1,
    /// Bits to points of 64-QAM.
    Qam64 = 2,
    /// Transforms of 512 points.
    Fft512 = 3,
    /// Transforms of 1024 points.
    Fft1024 = 4,
    /// AES-128, block by block or chained.
    Aes128 = 5,
    /// SHA-256.
    Sha256 = 6,
    /// A filter with a finite impulse response.
    Fir = 7,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Qam16, Self::Qam64, Self::Fft512, Self::Fft1024, Self::Aes128, Self::Sha256, Self::Fir];

    /// Its name in machine files and below `/dev/accel`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Qam16 => "qam16",
            Self::Qam64 => "qam64",
            Self::Fft512 => "fft512",
            Self::Fft1024 => "fft1024",
            Self::Aes128 => "aes128",
            Self::Sha256 => "sha256",
            Self::Fir => "fir",
        }
    }

    /// From its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// From a word of the pool.
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == raw)
    }

    /// Bytes of data that it takes in a frame: the distance of consistency points.
    pub const fn frame_bytes(self) -> u64 {
        match self {
            // Ker-ONE's frame of 18,800 bits.
            Self::Qam16 | Self::Qam64 => qam::FRAME_BYTES,
            Self::Fft512 | Self::Fft1024 => fft::FRAME_BYTES,
            Self::Aes128 => aes128::FRAME_BYTES,
            Self::Sha256 => sha256::FRAME_BYTES,
            Self::Fir => fir::FRAME_BYTES,
        }
    }

    /// Whether it does what a job asks for.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn begin(self, job: &Job) -> Result<(), Fault> {
        match self {
            Self::Qam16 | Self::Qam64 => qam::check(job),
            Self::Fft512 | Self::Fft1024 => fft::check(job),
            Self::Aes128 => aes128::check(job),
            Self::Sha256 => sha256::check(job),
            Self::Fir => fir::check(job),
        }
    }

    /// Computes a frame.
    ///
    /// # Errors
    /// A transfer outside of the data section, or a state that it has not left.
    pub fn frame(self, job: &Job, state: &mut State, memory: &impl Memory) -> Result<Step, Fault> {
        let Some(piece) = Piece::of(job, state, self.frame_bytes()) else { return Err(Fault::Command) };
        match self {
            Self::Qam16 => qam::frame::<4>(job, piece, memory)?,
            Self::Qam64 => qam::frame::<6>(job, piece, memory)?,
            Self::Fft512 => fft::frame::<512>(job, piece, memory)?,
            Self::Fft1024 => fft::frame::<1024>(job, piece, memory)?,
            Self::Aes128 => aes128::frame(job, piece, state, memory)?,
            Self::Sha256 => return sha256::frame(job, piece, state, memory),
            Self::Fir => fir::frame(job, piece, state, memory)?,
        }
        state[0] = piece.end();
        Ok(if piece.is_last { Step::Over(self.result_bytes(job)) } else { Step::More })
    }

    /// The length of what it writes for a job.
    fn result_bytes(self, job: &Job) -> u64 {
        match self {
            Self::Qam16 => qam::result_bytes::<4>(job.data_size.into()),
            Self::Qam64 => qam::result_bytes::<6>(job.data_size.into()),
            Self::Fft512 => u64::from(job.data_size).next_multiple_of(fft::block_bytes::<512>()),
            Self::Fft1024 => u64::from(job.data_size).next_multiple_of(fft::block_bytes::<1024>()),
            Self::Aes128 | Self::Fir => job.data_size.into(),
            Self::Sha256 => sha256::DIGEST_BYTES,
        }
    }
}

/// The data of a frame: bytes from `from` on. The first word of a state is how many have been taken.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    len: u64,
    is_last: bool,
}

impl Piece {
    fn of(job: &Job, state: &State, frame_bytes: u64) -> Option<Self> {
        let left = u64::from(job.data_size).checked_sub(state[0])?;
        let len = left.min(frame_bytes);
        Some(Self { from: state[0], len, is_last: len == left })
    }

    fn end(&self) -> u64 {
        self.from + self.len
    }

    fn read(&self, job: &Job, memory: &impl Memory) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; self.len as usize];
        memory.read(u64::from(job.data_addr) + self.from, &mut bytes)?;
        Ok(bytes)
    }
}

/// Where results go.
fn results_at(job: &Job) -> u64 {
    job.custom[0].into()
}

fn samples(bytes: &[u8]) -> impl Iterator<Item = i16> + '_ {
    bytes.as_chunks::<2>().0.iter().map(|bytes| i16::from_le_bytes(*bytes))
}

fn bytes_of(samples: impl IntoIterator<Item = i16>) -> Vec<u8> {
    samples.into_iter().flat_map(i16::to_le_bytes).collect()
}
