//! What may live in the pool.

use crate::sync::{AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// One field of a pool structure, for the golden file and the fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Field name.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
}

/// The layout of one pool structure.
#[derive(Clone, Copy, Debug)]
pub struct StructLayout {
    /// Type name.
    pub name: &'static str,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Fields in order.
    pub fields: &'static [Field],
}

/// Marker: values of this type may live in the pool.
///
/// Implemented for the atomic integers, [`Cell32`], [`Cell64`], arrays of such, and structures declared with
/// [`pool_struct!`](crate::pool_struct). It must never be implemented by hand for anything that holds a pointer, a
/// reference, a vtable, a target-sized integer or an enum: every bit pattern must be valid, and the bytes must mean the
/// same on every ISA.
pub trait PoolSafe: Sync + Sized + 'static {}

macro_rules! pool_safe {
    ($($t:ty),*) => { $(impl PoolSafe for $t {})* };
}
pool_safe!(AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicI64, Cell32, Cell64);
impl<T: PoolSafe, const N: usize> PoolSafe for [T; N] {}

/// A pool structure with a described layout.
pub trait PoolStruct: PoolSafe {
    /// Its layout.
    const LAYOUT: StructLayout;
}

/// A byte of text.
pub type AtomicByte = AtomicU8;

/// A 32-bit word that a lock or a single writer protects: relaxed accesses.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Cell32(AtomicU32);

impl Cell32 {
    /// A cell holding `value`.
    pub const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }
    /// Reads the word.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
    /// Writes the word.
    #[inline(always)]
    pub fn set(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A 64-bit word that a lock or a single writer protects: relaxed accesses.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Cell64(AtomicU64);

impl Cell64 {
    /// A cell holding `value`.
    pub const fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }
    /// Reads the word.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    /// Writes the word.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}
