//! Tests of the parts of a virtual machine.

use core::{
    fmt::{Error, Result, Write},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::bare::{self, Console};

/// Interrupts.
const SOFTWARE: usize = 1;
const TIMER: usize = 5;
/// The serial port.
const UART: usize = 0x1000_0000;
/// Ticks of 10 MHz in a millisecond.
const MILLISECOND: u64 = 10_000;

fn check(what: &str, is_right: bool) -> Result {
    writeln!(Console, "{what}: {}", if is_right { "yes" } else { "NO" })?;
    if is_right { Ok(()) } else { Err(Error) }
}

/// Everything.
pub fn all() -> Result {
    check("version 2 of the interface", bare::call(0x10, 0, [0; 3]) == (0, 2 << 24))?;
    check("an extension that nobody has is refused", bare::call(0x1234_5678, 0, [0; 3]).0 == -2)?;
    serial()?;
    time()?;
    timer()?;
    check("a register that guests do not have is an exception", bare::cause_of::<0x14d0_2573>() == Some(2))?;
    check("an instruction that nobody has is one", bare::cause_of::<0xffff_ffff>() == Some(2))?;
    check("floating point lives over interrupts", bare::floats(wait_for_timer, 5) == 15)?;
    cores()
}

fn serial() -> Result {
    for byte in b"a serial port\n" {
        while bare::load_byte(UART + 5) & 0x20 == 0 {}
        bare::store_byte(UART, *byte);
    }
    bare::store_byte(UART + 7, 0xa5);
    check("its scratch register", bare::load_byte(UART + 7) == 0xa5)
}

fn time() -> Result {
    let before = bare::now();
    let mut last = before;
    for _ in 0..1000 {
        let now = bare::now();
        if now < last {
            return check("time goes on", false);
        }
        last = now;
    }
    check("time goes on", last > before)
}

fn wait_for_timer() {
    let before = bare::interrupts(bare::core(), TIMER);
    bare::set_timer(bare::now() + MILLISECOND);
    bare::wait_until(|| bare::interrupts(bare::core(), TIMER) != before);
}

fn timer() -> Result {
    bare::enable_interrupts(true);
    let before = bare::now();
    wait_for_timer();
    check("the timer interrupts in time", bare::now() >= before + MILLISECOND)?;
    let before = bare::now();
    let interrupts = bare::interrupts(bare::core(), TIMER);
    bare::set_timer(before + 2 * MILLISECOND);
    while bare::interrupts(bare::core(), TIMER) == interrupts && bare::now() < before + 100_000 * MILLISECOND {}
    check("it interrupts a loop", bare::interrupts(bare::core(), TIMER) != interrupts)
}

static STARTED: AtomicU64 = AtomicU64::new(0);
static STEPS: AtomicU64 = AtomicU64::new(0);

/// Another core waits to be interrupted, and interrupts the first one.
fn other(rounds: usize) {
    bare::enable_interrupts(true);
    STARTED.fetch_add(1, Ordering::SeqCst);
    let core = bare::core();
    for round in 1..=rounds as u64 {
        bare::wait_until(|| bare::interrupts(core, SOFTWARE) >= round);
        STEPS.fetch_add(1, Ordering::SeqCst);
        bare::call(0x0073_5049, 0, [1, 0, 0]);
    }
}

fn cores() -> Result {
    const ROUNDS: usize = 20;
    let mut count = 0;
    for core in 1..bare::CORES_MAX {
        if bare::call(0x0048_534d, 2, [core as u64, 0, 0]).0 != 0 {
            break;
        }
        check("a core that is stopped", bare::call(0x0048_534d, 2, [core as u64, 0, 0]) == (0, 1))?;
        check("starts", bare::start(core, other, ROUNDS) == 0)?;
        count += 1;
        while STARTED.load(Ordering::SeqCst) < count {}
        check("and is not started twice", bare::start(core, other, ROUNDS) == -6)?;
        for round in 1..=ROUNDS as u64 {
            let (steps, own) = (STEPS.load(Ordering::SeqCst), bare::interrupts(0, SOFTWARE));
            bare::call(0x0073_5049, 0, [1 << core, 0, 0]);
            bare::wait_until(|| STEPS.load(Ordering::SeqCst) != steps && bare::interrupts(0, SOFTWARE) != own);
            if round == 1 {
                check("fences of all cores", bare::call(0x5246_4e43, 1, [0, u64::MAX, 0]).0 == 0)?;
            }
        }
        while bare::call(0x0048_534d, 2, [core as u64, 0, 0]) != (0, 1) {}
        check("it has answered and stopped", true)?;
    }
    check("a core that does not exist is refused", bare::start(63, other, 0) == -3)?;
    check("an interrupt for it, too", bare::call(0x0073_5049, 0, [1 << 63, 0, 0]).0 == -3)?;
    writeln!(Console, "{} cores", count + 1)
}

/// Prints the time, again and again, a millisecond apart.
pub fn ticks(count: u64) -> Result {
    bare::enable_interrupts(true);
    for tick in 0..count {
        wait_for_timer();
        writeln!(Console, "tick {tick}")?;
    }
    Ok(())
}

/// Waits for its timer so often, and then for ever.
pub fn rest(count: u64) -> Result {
    bare::enable_interrupts(true);
    (0..count).for_each(|_| wait_for_timer());
    bare::set_timer(u64::MAX);
    bare::wait_until(|| false);
    Ok(())
}

/// Waits for its timer so often, and adds up in floating-point registers meanwhile.
pub fn adds(count: u64) -> Result {
    bare::enable_interrupts(true);
    check("floating point lives", bare::floats(wait_for_timer, count) == 3 * count)
}

/// Sets its timer for ever, to what is late.
pub fn alarms() -> Result {
    bare::enable_interrupts(true);
    loop {
        bare::set_timer(bare::now() + 10 * MILLISECOND);
    }
}

/// Prints so often the time, and how much passes from a timer to its interrupt.
pub fn times(count: u64) -> Result {
    bare::enable_interrupts(true);
    for _ in 0..count {
        let before = bare::now();
        wait_for_timer();
        let after = bare::now();
        writeln!(Console, "{before} {}", after - before)?;
    }
    Ok(())
}

/// Writes to so many MiB of memory, a word in each page, and reads it all.
pub fn touch(mib: usize) -> Result {
    const START: usize = 0x8100_0000;
    let words = || (START..START + (mib << 20)).step_by(4096);
    words().for_each(|at| bare::word(at).store(at as u64, Ordering::Relaxed));
    check("memory keeps what is written", words().all(|at| bare::word(at).load(Ordering::Relaxed) == at as u64))
}

/// Prints what is typed, until an empty line.
pub fn echo() -> Result {
    let mut line = [0u8; 80];
    writeln!(Console, "type")?;
    loop {
        let mut len = 0;
        while len < line.len() {
            if bare::load_byte(UART + 5) & 1 == 0 {
                continue;
            }
            match bare::load_byte(UART) {
                b'\n' | b'\r' => break,
                byte => line[len] = byte,
            }
            len += 1;
        }
        if len == 0 {
            return Ok(());
        }
        writeln!(Console, "<{}>", core::str::from_utf8(&line[..len]).unwrap_or("?"))?;
    }
}
