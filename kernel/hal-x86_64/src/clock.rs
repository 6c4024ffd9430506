//! Time: the TSC for reading it, the APIC timer for being woken, both calibrated against the HPET.

use core::arch::x86_64::_rdtsc;

use motet_hal::ivshmem::Registers;
use motet_layout::DEVICE_VA;

use crate::apic;

/// Bytes 32.32 fixed point.
const FRACTION_BITS: u32 = 32;
const CALIBRATION_NS: u64 = 5_000_000;

/// How this island's counters relate to nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// TSC when nanosecond 0 was.
    tsc_zero: u64,
    /// Nanoseconds per TSC tick, 32.32.
    ns_per_tick: u64,
    /// APIC timer ticks per nanosecond, 32.32.
    timer_per_ns: u64,
}

/// One moment on all three counters.
#[derive(Clone, Copy)]
struct Moment {
    tsc: u64,
    hpet: u64,
    timer_left: u32,
    /// TSC ticks that reading took: the uncertainty.
    width: u64,
}

fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has it, and CR4.TSD is clear.
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
        let start = hpet.moment();
        while hpet.ns(hpet.counter().wrapping_sub(start.hpet)) < CALIBRATION_NS {}
        let end = hpet.moment();
        apic::start_timer(0);
        let elapsed_ns = u128::from(hpet.ns(end.hpet.wrapping_sub(start.hpet)));
        let ticks = u128::from(end.tsc - start.tsc);
        let timer_ticks = u128::from(start.timer_left - end.timer_left);
        Ok(Self {
            tsc_zero: start.tsc,
            ns_per_tick: ((elapsed_ns << FRACTION_BITS) / ticks) as u64,
            timer_per_ns: ((timer_ticks << FRACTION_BITS) / elapsed_ns) as u64,
        })
    }

    /// Nanoseconds since calibration.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        ((u128::from(tsc() - self.tsc_zero) * u128::from(self.ns_per_tick)) >> FRACTION_BITS) as u64
    }

    /// APIC timer ticks that take at least `ns` (the most there are when it is longer than the timer's range, about
    /// a minute).
    pub fn timer_ticks(&self, ns: u64) -> u32 {
        let ticks = ((u128::from(ns) * u128::from(self.timer_per_ns)) >> FRACTION_BITS) + 1;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}

/// The high-precision event timer (IA-PC HPET specification 1.0a), where every q35 has it.
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

    /// The counter's low half: enough for calibration.
    fn counter(&self) -> u64 {
        u64::from(self.registers.read32(Self::COUNTER))
    }

    fn ns(&self, ticks: u64) -> u64 {
        (ticks & 0xffff_ffff) * self.period_fs / 1_000_000
    }

    /// The moment that was read fastest of several: a reading that the host interrupted is not used.
    fn moment(&self) -> Moment {
        const READINGS: usize = 8;
        let read = || {
            let before = tsc();
            let (hpet, timer_left) = (self.counter(), apic::timer_left());
            let width = tsc() - before;
            Moment { tsc: before + width / 2, hpet, timer_left, width }
        };
        let first = read();
        (1..READINGS).map(|_| read()).fold(first, |best, next| if next.width < best.width { next } else { best })
    }
}
