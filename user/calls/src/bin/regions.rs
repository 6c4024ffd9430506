//! Regions of interest, right and wrong, for tests of timed runs.
//!
//! - `regions work FIRST SECOND`: two regions `first` and `second`, with FIRST and SECOND iterations of two instructions. `first` is inside of `both`,
//!   which is entered twice
//! - `regions wrong`: names that cannot be read or printed, an end without a begin, a region that stays open
//! - `regions many COUNT`: COUNT regions
//! - `regions pages COUNT ROUNDS`: a region with COUNT as its name, in which a word of each of COUNT pages is read, ROUNDS times; and a region `unmap`,
//!   in which the pages are unmapped
//! - `regions calls COUNT`: ten regions, `0` to `9`, each with COUNT system calls that do next to nothing
#![no_std]
#![no_main]

use motet_calls::{
    marks, roi,
    system::{self, Arguments, STDERR, STDOUT},
};

motet_calls::program!(main);

fn main(arguments: Arguments) -> u8 {
    let number = |index: usize| arguments.get(index).map_or(0, decimal);
    match arguments.get(1) {
        Some(b"work") => work(number(2), number(3)),
        Some(b"wrong") => wrong(),
        Some(b"many") => many(number(2)),
        Some(b"calls") => calls(number(2)),
        Some(b"pages") => pages(number(2), number(3)),
        _ => {
            let _ =
                system::write(STDERR, b"usage: regions work FIRST SECOND | regions wrong | regions many|calls COUNT | regions pages COUNT ROUNDS\n");
            return 64;
        }
    }
    let _ = system::write(STDOUT, b"done\n");
    0
}

fn work(first: u64, second: u64) {
    roi::begin(b"both");
    roi::begin(b"first");
    system::spin(first);
    roi::end(b"first");
    roi::end(b"both");
    roi::begin(b"both");
    roi::begin(b"second");
    system::spin(second);
    roi::end(b"second");
    roi::end(b"both");
}

fn wrong() {
    // Nothing is mapped there: not in the first page, and not where addresses are not canonical.
    for address in [16, 0x0123_4567_89ab_cdef] {
        let name = core::ptr::slice_from_raw_parts(core::ptr::without_provenance::<u8>(address), 5);
        system::mark_with::<{ marks::ROI_BEGIN }>(name);
    }
    roi::begin(b"new\nline\xff");
    roi::end(b"new\nline\xff");
    let long = [b'l'; 5000];
    roi::begin(&long);
    roi::end(&long);
    roi::begin(b"");
    roi::end(b"");
    roi::end(b"never begun");
    roi::begin(b"open");
    system::spin(1000);
}

fn many(count: u64) {
    for index in 0..count {
        let mut digits = [0; 20];
        let name = system::decimal(index, &mut digits);
        roi::begin(name);
        roi::end(name);
    }
}

fn calls(count: u64) {
    for region in 0..10 {
        let mut digits = [0; 20];
        let name = system::decimal(region, &mut digits);
        roi::begin(name);
        for _ in 0..count {
            system::getpid();
        }
        roi::end(name);
    }
}

fn pages(count: u64, rounds: u64) {
    const WORDS: usize = 512;
    // Written, so that each page is there.
    let memory = system::zeroed::<u64>(count as usize * WORDS);
    memory.iter_mut().step_by(WORDS).for_each(|word| *word = 1);
    let mut digits = [0; 20];
    let name = system::decimal(count, &mut digits);
    roi::begin(name);
    for _ in 0..rounds {
        for word in memory.iter().step_by(WORDS) {
            // SAFETY: a reference. Volatile, because nothing is done with it.
            unsafe { core::ptr::from_ref(word).read_volatile() };
        }
    }
    roi::end(name);
    roi::begin(b"unmap");
    system::unmap(memory);
    roi::end(b"unmap");
}

fn decimal(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit.wrapping_sub(b'0').min(9)))
}
