//! What the program `kernels` computes: a stride through memory, and kernels after the NAS Parallel Benchmarks (NPB).
//!
//! Written from NPB's specification (NAS report RNR-94-007) and the constants of its reference implementation, version
//! 3.4; the results of class S are checked against those that NPB publishes. One thread; memory is given by the caller.
#![no_std]
#![forbid(unsafe_code)]

use core::sync::atomic::AtomicU64;

pub mod conjugate_gradient;
pub mod fourier;
pub mod integer_sort;
pub mod multigrid;
pub mod random;
pub mod stride;

/// Memory for the kernels' arrays; all of it is zero. What is taken is never given back.
pub trait Memory {
    /// `count` floating-point numbers.
    fn numbers(&mut self, count: usize) -> &'static mut [f64];
    /// `count` words that are accessed one by one.
    fn words(&mut self, count: usize) -> &'static [AtomicU64];
    /// `count` integers.
    fn integers(&mut self, count: usize) -> &'static mut [u32];
}

/// How large a problem is. S is NPB's smallest, T a smaller one of our own, for traces and tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Not one of NPB's.
    T,
    /// NPB's "sample".
    S,
}

/// What a kernel found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// Whether the result is right: equal to NPB's in class S, a property of the result in class T.
    pub verified: bool,
    /// A figure that depends on the whole result: the checksum, norm or eigenvalue that NPB defines.
    pub value: f64,
}

/// Whether a value is a published one, up to `tolerance`, relative.
fn agrees(value: f64, published: f64, tolerance: f64) -> bool {
    libm::fabs(value - published) <= libm::fabs(published) * tolerance
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{boxed::Box, vec};

    /// Memory of the test program.
    struct Heap;

    impl Memory for Heap {
        fn numbers(&mut self, count: usize) -> &'static mut [f64] {
            Box::leak(vec![0.0; count].into_boxed_slice())
        }
        fn words(&mut self, count: usize) -> &'static [AtomicU64] {
            Box::leak((0..count).map(|_| AtomicU64::new(0)).collect())
        }
        fn integers(&mut self, count: usize) -> &'static mut [u32] {
            Box::leak(vec![0; count].into_boxed_slice())
        }
    }

    #[test]
    fn class_s_gives_the_published_results() {
        assert!(integer_sort::run(Class::S, 10, &mut Heap).verified);
        let outcome = conjugate_gradient::run(Class::S, 15, &mut Heap);
        assert!(outcome.verified, "{outcome:?}");
        let outcome = multigrid::run(Class::S, 4, &mut Heap);
        assert!(outcome.verified, "{outcome:?}");
        let outcome = fourier::run(Class::S, 6, &mut Heap);
        assert!(outcome.verified, "{outcome:?}");
    }

    #[test]
    fn class_t_is_right_too() {
        for kernel in [integer_sort::run, conjugate_gradient::run, multigrid::run, fourier::run] {
            let outcome = kernel(Class::T, 3, &mut Heap);
            assert!(outcome.verified, "{outcome:?}");
        }
        assert_eq!(stride::run(1000, &mut Heap), Outcome { verified: true, value: 1000.0 });
    }

    #[test]
    fn wrong_numbers_do_not_pass() {
        assert!(agrees(1.0, 1.0 + 1e-11, 1e-10) && !agrees(1.0, 1.0 + 1e-9, 1e-10) && !agrees(f64::NAN, 1.0, 1.0));
    }
}
