//! Sets of small numbers, as bits of a word.

/// Numbers of the bits that are set, the lowest first.
#[inline(always)]
pub fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = bits.trailing_zeros();
        bits &= bits.checked_sub(1)?;
        Some(first as usize)
    })
}
