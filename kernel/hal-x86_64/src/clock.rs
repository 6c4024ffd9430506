//! Time: the TSC for reading it, the APIC timer for being woken, both calibrated against the HPET.
//!
//! The TSC is the host's cycle counter, whose rate nobody states, and which the host's monotonic clock leaves slowly. The HPET
//! counts QEMU's virtual clock, which is the host's monotonic clock, but a reading of it is an exit from the translated
//! code and takes a lock. So the TSC is steered by it ([`motet_hal::steer`]).

use core::{
    arch::x86_64::_rdtsc,
    cell::UnsafeCell,
    hint::spin_loop,
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
        fence,
    },
};

use motet_hal::{
    registers::Registers,
    steer::{Line, Moment, Steering},
};
use motet_layout::{DEVICE_VA, handshake::then_look};

use crate::apic;

/// Bytes 32.32 fixed point.
const FRACTION_BITS: u32 = 32;
const CALIBRATION_NS: u64 = 5_000_000;
/// Of how many readings of both counters the fastest is taken.
const READINGS: usize = 8;
/// A reading of both may take so many nanoseconds, or twice as long as the fastest one at the start did. Otherwise the host has
/// interrupted it.
const WIDTH_NS_MAX: u64 = 3_000;

/// How this island's counters relate to nanoseconds.
#[derive(Debug)]
pub struct Clock {
    line: SharedLine,
    /// APIC timer ticks per nanosecond, 32.32.
    timer_per_ns: u64,
    hpet: Hpet,
    /// Readings may take so many TSC ticks.
    width_max: u64,
    /// Somebody steers.
    steered: AtomicBool,
    state: UnsafeCell<State>,
}

/// What is remembered for steering.
#[derive(Clone, Copy, Debug)]
struct State {
    steering: Steering,
    /// The HPET's ticks since calibration, when they were read last; its low half then; and what this clock showed.
    ticks: u64,
    low: u32,
    own_ns: u64,
}

// SAFETY: `state` is used by whoever has set `steered` only.
unsafe impl Sync for Clock {}

/// One moment on all three counters.
#[derive(Clone, Copy)]
struct Sample {
    tsc: u64,
    hpet: u32,
    timer_left: u32,
    /// TSC ticks that reading took: the uncertainty.
    width: u64,
}

fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has it, and CR4.TSD means user mode.
    unsafe { _rdtsc() }
}

impl Clock {
    /// Measures the rates, in about [`CALIBRATION_NS`]. The APIC must be on; its timer is left stopped.
    ///
    /// # Errors
    /// The machine has no HPET.
    pub fn calibrate() -> Result<Self, &'static str> {
        let hpet = Hpet::find()?;
        apic::start_timer(u32::MAX);
        let start = hpet.sample();
        while hpet.ns(u64::from(hpet.counter().wrapping_sub(start.hpet))) < CALIBRATION_NS {}
        let end = hpet.sample();
        apic::start_timer(0);
        let ticks = u64::from(end.hpet.wrapping_sub(start.hpet));
        let elapsed_ns = hpet.ns(ticks);
        let moments = [Moment { ticks: start.tsc, ns: 0 }, Moment { ticks: end.tsc, ns: elapsed_ns }];
        let (steering, line) = Steering::new(moments[0], moments[1]);
        let timer_ticks = u128::from(start.timer_left - end.timer_left);
        let width_ns_max = (u128::from(WIDTH_NS_MAX) << FRACTION_BITS) / u128::from(line.rate.max(1));
        Ok(Self {
            line: SharedLine::new(line),
            timer_per_ns: ((timer_ticks << FRACTION_BITS) / u128::from(elapsed_ns)) as u64,
            hpet,
            width_max: (2 * start.width.min(end.width)).max(width_ns_max as u64),
            steered: AtomicBool::new(false),
            state: UnsafeCell::new(State { steering, ticks, low: end.hpet, own_ns: elapsed_ns }),
        })
    }

    /// Nanoseconds since calibration.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        self.line.now_ns()
    }

    /// Corrects the rate by the HPET, unless another core does, or the host does not let both be read together.
    pub fn steer(&self) {
        if self.steered.swap(true, Acquire) {
            return;
        }
        let sample = self.hpet.sample();
        if sample.width <= self.width_max {
            // SAFETY: `steered` was clear, and this core has set it.
            let state = unsafe { &mut *self.state.get() };
            let line = self.line.get();
            let own_ns = line.at(sample.tsc);
            let elapsed_ns = own_ns.saturating_sub(state.own_ns);
            state.ticks = state.ticks.wrapping_add(self.hpet.ticks_between(state.low, sample.hpet, elapsed_ns));
            (state.low, state.own_ns) = (sample.hpet, own_ns);
            let now = Moment { ticks: sample.tsc, ns: self.hpet.ns(state.ticks) };
            self.line.set(state.steering.correct(&line, now));
        }
        self.steered.store(false, Release);
    }

    /// APIC timer ticks that take at least `ns` (the most there are when it is longer than the timer's range, about
    /// a minute).
    pub fn timer_ticks(&self, ns: u64) -> u32 {
        let ticks = ((u128::from(ns) * u128::from(self.timer_per_ns)) >> FRACTION_BITS) + 1;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}

/// A line that one core at a time changes while others read it: a sequence lock with a count at either end.
#[derive(Debug)]
struct SharedLine {
    begun: AtomicU64,
    done: AtomicU64,
    ticks: AtomicU64,
    ns: AtomicU64,
    rate: AtomicU64,
    floor_ns: AtomicU64,
}

impl SharedLine {
    fn new(line: Line) -> Self {
        Self {
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            ticks: AtomicU64::new(line.ticks),
            ns: AtomicU64::new(line.ns),
            rate: AtomicU64::new(line.rate),
            floor_ns: AtomicU64::new(line.floor_ns),
        }
    }

    #[inline(always)]
    fn now_ns(&self) -> u64 {
        loop {
            let done = self.done.load(Acquire);
            let ns = self.get().at(tsc());
            fence(Acquire);
            if self.begun.load(Relaxed) == done {
                return ns;
            }
            spin_loop();
        }
    }

    /// The line, if nobody changes it.
    #[inline(always)]
    fn get(&self) -> Line {
        Line {
            ticks: self.ticks.load(Relaxed),
            ns: self.ns.load(Relaxed),
            rate: self.rate.load(Relaxed),
            floor_ns: self.floor_ns.load(Relaxed),
        }
    }

    /// Changes the line. No reading is less than one before: while `begun` is ahead nobody ends a reading, and the floor is
    /// what the old line gives then.
    fn set(&self, line: Line) {
        let old = self.get();
        self.begun.fetch_add(1, AcqRel);
        then_look(); // at the counter
        self.ticks.store(line.ticks, Relaxed);
        self.ns.store(line.ns, Relaxed);
        self.rate.store(line.rate, Relaxed);
        self.floor_ns.store(old.at(tsc()), Relaxed);
        self.done.fetch_add(1, Release);
    }
}

/// The high-precision event timer (IA-PC HPET specification 1.0a), where every q35 has it.
#[derive(Debug)]
struct Hpet {
    registers: Registers,
    period_fs: u64,
}

impl Hpet {
    const PHYS: u64 = 0xfed0_0000;
    const PERIOD: usize = 4;
    const CONFIGURATION: usize = 0x10;
    const COUNTER: usize = 0xf0;

    fn find() -> Result<Self, &'static str> {
        // SAFETY: the device window maps it uncached for good.
        let registers = unsafe { Registers::new((DEVICE_VA + Self::PHYS) as usize) };
        let period_fs = u64::from(registers.read32(Self::PERIOD));
        if !(1..=100_000_000).contains(&period_fs) {
            return Err("the machine has no HPET");
        }
        registers.write32(Self::CONFIGURATION, 1); // counts, interrupts nobody
        Ok(Self { registers, period_fs })
    }

    /// The counter's low half, which wraps in 40 seconds or so.
    fn counter(&self) -> u32 {
        self.registers.read32(Self::COUNTER)
    }

    fn ns(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * u128::from(self.period_fs) / 1_000_000) as u64
    }

    /// How many ticks have passed between two values of the low half, if it was about `about_ns`.
    fn ticks_between(&self, before: u32, now: u32, about_ns: u64) -> u64 {
        let about = (u128::from(about_ns) * 1_000_000 / u128::from(self.period_fs)) as u64;
        let more = now.wrapping_sub(before).wrapping_sub(about as u32).cast_signed();
        about.wrapping_add_signed(more.into())
    }

    /// The moment that was read fastest of several: a reading that the host interrupted is not used.
    fn sample(&self) -> Sample {
        let read = || {
            let before = tsc();
            let hpet = self.counter();
            let width = tsc() - before;
            Sample { tsc: before + width / 2, hpet, timer_left: apic::timer_left(), width }
        };
        let first = read();
        (1..READINGS).map(|_| read()).fold(first, |best, next| if next.width < best.width { next } else { best })
    }
}
