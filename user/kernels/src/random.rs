//! NPB's random numbers: the linear congruential generator `x ← a·x mod 2⁴⁶`, `a = 5¹³`.

const MULTIPLIER: u64 = 1_220_703_125;
const MASK: u64 = (1 << 46) - 1;

/// The generator, from NPB's seed.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from the seed that all kernels use.
    #[allow(clippy::new_without_default)] // a generator has no obvious default
    pub fn new() -> Self {
        Self(314_159_265)
    }

    /// The next number, as an integer below 2⁴⁶.
    #[inline]
    pub fn next_integer(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(MULTIPLIER) & MASK;
        self.0
    }

    /// The next number, between 0 and 1.
    #[inline]
    pub fn next_number(&mut self) -> f64 {
        self.next_integer() as f64 / (1_u64 << 46) as f64
    }
}
