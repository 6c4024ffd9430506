//! Bytes through a pipe, and how long they took.
//!
//! `stream source SECONDS` writes to standard output for that long; `stream sink` reads standard input to its end and
//! prints bytes and nanoseconds from the first byte to the last.
#![no_std]
#![no_main]

use motet_calls::{
    CHUNK_SIZE,
    system::{self, Arguments, Failure, STDERR, STDOUT},
};

motet_calls::program!(main);

const STDIN: i32 = 0;

fn main(arguments: Arguments) -> u8 {
    let done = match (arguments.get(1), arguments.get(2)) {
        (Some(b"source"), Some(seconds)) => source(number(seconds) * 1_000_000_000),
        (Some(b"sink"), None) => sink(),
        _ => {
            let _ = system::write(STDERR, b"usage: stream source SECONDS | stream sink\n");
            return 64;
        }
    };
    u8::from(done.is_err())
}

fn source(duration_ns: u64) -> Result<(), Failure> {
    let chunk = [b'm'; CHUNK_SIZE];
    let end = system::now_ns() + duration_ns;
    while system::now_ns() < end {
        let mut sent = 0;
        while sent < chunk.len() {
            sent += system::write(STDOUT, &chunk[sent..])?;
        }
    }
    Ok(())
}

fn sink() -> Result<(), Failure> {
    let mut chunk = [0; CHUNK_SIZE];
    system::read(STDIN, &mut chunk)?;
    let (begin, mut last, mut bytes) = (system::now_ns(), 0, 0);
    loop {
        let got = system::read(STDIN, &mut chunk)?;
        if got == 0 {
            break;
        }
        bytes += got as u64;
        last = system::now_ns();
    }
    let mut digits = [0; 20];
    system::write(STDOUT, system::decimal(bytes, &mut digits))?;
    system::write(STDOUT, b" ")?;
    system::write(STDOUT, system::decimal(last.saturating_sub(begin), &mut digits))?;
    system::write(STDOUT, b"\n")?;
    Ok(())
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit.wrapping_sub(b'0').min(9)))
}
