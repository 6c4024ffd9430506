//! A hostile guest, for tests of hypervisors: whatever it does, others must not notice. What it tries, and how often, its arguments
//! say: `attack=NAME seed=N attempts=N`. It prints `NAME ATTEMPTS EXCEPTIONS` now and then, for as long as it lives; `memory`, `calls` and
//! `registers` are chosen so that it usually does, while `instructions` may kill it at any time.
#![allow(unsafe_code)]

mod aarch64;
mod riscv64;

use core::ops::Range;

use fastrand::Rng;
use motet_guest_board::{self as board, Boot, Isa, attempt, interrupts};

/// What is peculiar to an instruction set.
struct Target {
    /// Where memory begins.
    ram: u64,
    /// Devices of QEMU's own boards that switch them off, or write to memory.
    deadly_devices: [Range<u64>; 2],
    /// Loads and stores of the second register for arguments at the first one.
    accesses: &'static [u32],
    /// Calls the firmware.
    call: u32,
    /// Makes any registers for arguments ones that call something that can be survived, mostly.
    choose_call: fn(&mut Rng, &mut [u64; 8]),
    /// An instruction that reads or writes a control register.
    register_access: fn(&mut Rng) -> u32,
    /// Whether such an instruction takes the guest's memory or its entry for exceptions away.
    is_deadly: fn(u32) -> bool,
}

const TARGET: Target = match board::ISA {
    Isa::AArch64 => aarch64::TARGET,
    Isa::RiscV64 => riscv64::TARGET,
};

/// One attempt; whether it was an exception.
type Attack = fn(&mut Rng) -> bool;

const ATTACKS: [(&str, Attack); 4] =
    [("memory", memory), ("calls", calls), ("registers", registers), ("instructions", instructions)];
/// Attempts between two lines.
const LINE: u64 = 1000;

/// The guest.
pub fn run(boot: Boot) -> ! {
    interrupts::set_up();
    let (seed, attempts) = (boot.number("seed", 1), boot.number("attempts", 10_000));
    let chosen = boot.argument("attack").unwrap_or("all");
    let mut passed = 0;
    for (name, attack) in ATTACKS {
        // Only when it is asked for.
        let is_meant = chosen == name || chosen == "all" && name != "instructions";
        if is_meant {
            repeat(name, attack, seed, attempts);
            passed += 1;
        }
    }
    if passed == 0 {
        board::fail(format_args!("there is no attack {chosen}"));
    }
    board::println!("passed {passed}");
    board::power_off(true)
}

/// An attempt that takes longer is over: 10 ms.
fn limit() -> u64 {
    board::frequency() / 100
}

fn repeat(name: &str, attack: Attack, seed: u64, attempts: u64) {
    board::println!("{name}: seed {seed}");
    let mut random = Rng::with_seed(seed);
    let mut exceptions = 0;
    for number in 1..=attempts {
        exceptions += u64::from(attack(&mut random));
        if number % LINE == 0 || number == attempts {
            board::println!("{name} {number} {exceptions}");
        }
    }
}

/// Random values that mean something more often than others: small ones, addresses near the edges of memory.
fn value(random: &mut Rng) -> u64 {
    match random.u8(..4) {
        0 => random.u64(..16),
        1 => TARGET.ram.wrapping_add(random.u64(..1 << 28)).wrapping_sub(1 << 27),
        2 => 1 << random.u8(..64),
        _ => random.u64(..),
    }
}

/// Loads and stores of all widths where there is no memory: devices, holes, what is beyond the last address.
fn memory(random: &mut Rng) -> bool {
    let address = loop {
        let address = match random.u8(..4) {
            0 => random.u64(..TARGET.ram),
            1 => TARGET.ram - 1 - random.u64(..4096),
            2 => value(random),
            _ => random.u64(..),
        };
        // Not memory, which may be as large as this, nor what switches QEMU's own boards off or lets devices write to memory.
        if !(TARGET.ram..TARGET.ram + (8 << 30)).contains(&address)
            && !TARGET.deadly_devices.iter().any(|range| range.contains(&address))
        {
            break address;
        }
    };
    let mut arguments = [address, random.u64(..), 0, 0, 0, 0, 0, 0];
    let instruction = TARGET.accesses[random.usize(..TARGET.accesses.len())];
    // SAFETY: it touches no memory of the guest.
    unsafe { attempt(&[instruction], &mut arguments, limit()) }.is_some()
}

/// Calls of the firmware with any arguments, but those that end the guest or this core.
fn calls(random: &mut Rng) -> bool {
    let mut arguments = core::array::from_fn(|_| value(random));
    (TARGET.choose_call)(random, &mut arguments);
    // SAFETY: firmware that does what it should writes nothing that Rust relies on: buffers it fills are not among these calls.
    unsafe { attempt(&[TARGET.call], &mut arguments, limit()) }.is_some()
}

/// Writes and reads of any control register, but those that would take the guest's memory or its entry for exceptions away.
fn registers(random: &mut Rng) -> bool {
    let mut arguments = [value(random); 8];
    let instruction = loop {
        let instruction = (TARGET.register_access)(random);
        if !(TARGET.is_deadly)(instruction) {
            break instruction;
        }
    };
    // SAFETY: Rust relies on none of these registers.
    unsafe { attempt(&[instruction], &mut arguments, limit()) }.is_some()
}

/// Any instructions, one after the other.
fn instructions(random: &mut Rng) -> bool {
    let instructions: [u32; 4] = core::array::from_fn(|_| random.u32(..));
    let mut arguments = core::array::from_fn(|_| value(random));
    // SAFETY: none. If Rust's memory changes, this guest does something else than it says, which is as hostile.
    unsafe { attempt(&instructions, &mut arguments, limit()) }.is_some()
}
