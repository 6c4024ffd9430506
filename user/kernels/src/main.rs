//! `kernels NAME CLASS [ITERATIONS]`, or `kernels stride COUNT`: computes and checks. Two lines on standard output,
//! `begin` and, when it is done, `end` with the result, so that whoever listens can time what lies between.
#![no_std]
#![no_main]

use core::sync::atomic::AtomicU64;

use motet_calls::system::{self, Arguments, STDERR, STDOUT};
use motet_kernels::{Class, Memory, Outcome, conjugate_gradient, fourier, integer_sort, multigrid, stride};

motet_calls::program!(main);

const USAGE: &[u8] = b"usage: kernels is|cg|mg|ft S|T [ITERATIONS]\n       kernels stride COUNT\n";

/// Marks around the computation.
const BEGIN: u8 = 0;
const END: u8 = 1;

/// Memory from the system.
struct Mapped;

impl Memory for Mapped {
    fn numbers(&mut self, count: usize) -> &'static mut [f64] {
        system::zeroed(count)
    }
    fn words(&mut self, count: usize) -> &'static [AtomicU64] {
        system::zeroed(count)
    }
    fn integers(&mut self, count: usize) -> &'static mut [u32] {
        system::zeroed(count)
    }
}

fn main(arguments: Arguments) -> u8 {
    let Some(outcome) = run(&arguments) else {
        let _ = system::write(STDERR, USAGE);
        return 64;
    };
    let (mut whole, mut fraction) = ([0; 20], [0; 20]);
    let verdict: &[u8] = if outcome.verified { b"end verified " } else { b"end wrong " };
    // All results fit.
    let billionths = (outcome.value.abs() * 1e9) as u64;
    let whole = system::decimal(billionths / 1_000_000_000, &mut whole);
    let fraction = system::decimal(1_000_000_000 + billionths % 1_000_000_000, &mut fraction);
    // In one piece: others may write to the same console.
    let mut line = [0; 64];
    let mut len = 0;
    for part in [verdict, whole, b".", &fraction[1..], b"\n"] {
        line[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    say(&line[..len]);
    u8::from(!outcome.verified)
}

fn run(arguments: &Arguments) -> Option<Outcome> {
    let number = |index| arguments.get(index).map(number);
    let name = arguments.get(1)?;
    if name == b"stride" {
        let count = number(2)??;
        return Some(between_marks(|| stride::run(count, &mut Mapped)));
    }
    let class = match arguments.get(2)? {
        b"S" => Class::S,
        b"T" => Class::T,
        _ => return None,
    };
    let kernel: fn(Class, u32, &mut Mapped) -> Outcome = match name {
        b"is" => integer_sort::run,
        b"cg" => conjugate_gradient::run,
        b"mg" => multigrid::run,
        b"ft" => fourier::run,
        _ => return None,
    };
    let usual = match name {
        b"is" => 10,
        b"cg" => 15,
        b"mg" => 4,
        _ => 6,
    };
    let iterations = number(3).unwrap_or(Some(usual))?;
    Some(between_marks(|| kernel(class, iterations as u32, &mut Mapped)))
}

fn between_marks(compute: impl FnOnce() -> Outcome) -> Outcome {
    say(b"begin\n");
    system::mark::<BEGIN>();
    let outcome = compute();
    system::mark::<END>();
    outcome
}

fn say(text: &[u8]) {
    let _ = system::write(STDOUT, text);
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
