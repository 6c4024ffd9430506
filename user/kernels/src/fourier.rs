//! FT: a diffusion equation on a periodic cube, solved by three-dimensional fast Fourier transforms.

use core::f64::consts::PI;

use crate::{Class, Memory, Outcome, agrees, random::Random};

const ALPHA: f64 = 1e-6;
const SIDE_MAX: usize = 64;
const CHECKED: usize = 1024;

/// Checksums of class S after each time step.
const PUBLISHED_S: [(f64, f64); 6] = [
    (5.546_087_004_964e2, 4.845_363_331_978e2),
    (5.546_385_409_189e2, 4.865_304_269_511e2),
    (5.546_148_406_171e2, 4.883_910_722_336e2),
    (5.545_423_607_415e2, 4.901_273_169_046e2),
    (5.544_255_039_624e2, 4.917_475_857_993e2),
    (5.542_683_411_902e2, 4.932_597_244_941e2),
];

/// A complex number.
#[derive(Clone, Copy, Default)]
struct Complex {
    re: f64,
    im: f64,
}

/// A cube of complex numbers, real and imaginary parts side by side, x fastest.
struct Cube {
    side: usize,
    numbers: &'static mut [f64],
}

impl Cube {
    fn new(side: usize, memory: &mut impl Memory) -> Self {
        Self { side, numbers: memory.numbers(2 * side * side * side) }
    }

    #[inline]
    fn get(&self, index: usize) -> Complex {
        Complex { re: self.numbers[2 * index], im: self.numbers[2 * index + 1] }
    }

    #[inline]
    fn set(&mut self, index: usize, value: Complex) {
        (self.numbers[2 * index], self.numbers[2 * index + 1]) = (value.re, value.im);
    }

    /// Transforms along all three dimensions, without scaling.
    fn transform(&mut self, roots: &Roots) {
        let side = self.side;
        let mut line = [Complex::default(); SIDE_MAX];
        // Steps within a line, and between the two kinds of lines across it.
        for [along, one, other] in [[1, side, side * side], [side, 1, side * side], [side * side, 1, side]] {
            for first in (0..side).flat_map(|a| (0..side).map(move |b| a * other + b * one)) {
                for (step, value) in line[..side].iter_mut().enumerate() {
                    *value = self.get(first + step * along);
                }
                roots.transform(&mut line[..side]);
                for (step, value) in line[..side].iter().enumerate() {
                    self.set(first + step * along, *value);
                }
            }
        }
    }

    /// NPB's checksum: the mean of numbers at 1024 places.
    fn checksum(&self) -> (f64, f64) {
        let side = self.side;
        let places = (1..=CHECKED).map(|j| (j % side) + side * (3 * j % side) + side * side * (5 * j % side));
        let sum = places.map(|at| self.get(at)).fold((0.0, 0.0), |sum, value| (sum.0 + value.re, sum.1 + value.im));
        let count = (side * side * side) as f64;
        (sum.0 / count, sum.1 / count)
    }
}

/// Roots of unity for lines of one length and one direction.
struct Roots([Complex; SIDE_MAX / 2]);

impl Roots {
    fn new(side: usize, sign: f64) -> Self {
        let mut roots = [Complex::default(); SIDE_MAX / 2];
        for (index, root) in roots[..side / 2].iter_mut().enumerate() {
            let angle = sign * 2.0 * PI * index as f64 / side as f64;
            *root = Complex { re: libm::cos(angle), im: libm::sin(angle) };
        }
        Self(roots)
    }

    /// Radix 2, in place.
    fn transform(&self, line: &mut [Complex]) {
        let len = line.len();
        let shift = usize::BITS - len.trailing_zeros();
        for index in 0..len {
            let mirrored = index.reverse_bits() >> shift;
            if index < mirrored {
                line.swap(index, mirrored);
            }
        }
        let mut half = 1;
        while half < len {
            for block in line.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (index, (a, b)) in low.iter_mut().zip(high).enumerate() {
                    let root = self.0[index * (len / 2 / half)];
                    let turned = Complex { re: b.re * root.re - b.im * root.im, im: b.re * root.im + b.im * root.re };
                    *b = Complex { re: a.re - turned.re, im: a.im - turned.im };
                    *a = Complex { re: a.re + turned.re, im: a.im + turned.im };
                }
            }
            half *= 2;
        }
    }
}

/// `iterations` time steps; NPB's number is 6.
pub fn run(class: Class, iterations: u32, memory: &mut impl Memory) -> Outcome {
    let (side, published): (usize, &[(f64, f64)]) = match class {
        Class::T => (16, &[]),
        Class::S => (64, &PUBLISHED_S),
    };
    let (mut spectrum, mut now) = (Cube::new(side, memory), Cube::new(side, memory));
    let mut random = Random::new();
    spectrum.numbers.iter_mut().for_each(|number| *number = random.next_number());
    let power = |cube: &Cube| cube.numbers.iter().map(|number| number * number).sum::<f64>();
    let before = power(&spectrum);
    spectrum.transform(&Roots::new(side, 1.0));
    // Parseval: transforming keeps the power, but for the scale.
    let mut verified = agrees(power(&spectrum), before * (side * side * side) as f64, 1e-12);
    let back = Roots::new(side, -1.0);
    let mut decay = [0.0; SIDE_MAX];
    for (index, factor) in decay[..side].iter_mut().enumerate() {
        let frequency = ((index + side / 2) % side) as f64 - (side / 2) as f64;
        *factor = libm::exp(-4.0 * ALPHA * PI * PI * frequency * frequency);
    }
    let mut value = 0.0;
    for step in 0..iterations as usize {
        for index in 0..side * side * side {
            let factor = decay[index % side] * decay[index / side % side] * decay[index / side / side];
            let Complex { re, im } = spectrum.get(index);
            let damped = Complex { re: re * factor, im: im * factor };
            spectrum.set(index, damped);
            now.set(index, damped);
        }
        now.transform(&back);
        let (re, im) = now.checksum();
        if let Some((real, imaginary)) = published.get(step) {
            verified &= agrees(re, *real, 1e-12) && agrees(im, *imaginary, 1e-12);
        }
        value = re;
    }
    Outcome { verified, value }
}
