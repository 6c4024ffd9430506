//! Timer (Sstc, or the firmware's), and the IMSIC interrupt file of this core (Advanced Interrupt Architecture,
//! chapter "Incoming MSI Controller").
//!
//! The kernel never takes an interrupt in S-mode: WFI ends when one is pending and enabled in `sie`, whatever
//! sstatus.SIE says, so there is no moment between "look" and "sleep" in which one could be lost.

use core::{arch::asm, ptr::with_exposed_provenance_mut};

use motet_hal::Interrupts;
use motet_layout::DEVICE_VA;

use crate::{
    csr::{EXTERNAL_BIT, SOFTWARE_BIT, TIMER_BIT, read_csr, write_csr},
    hidden,
    machine::TheMachine,
    sbi,
};

/// The interrupt identity of every doorbell: it only means "look".
pub const DOORBELL_IDENTITY: u32 = 1;
/// That of the network device.
pub const NETWORK_IDENTITY: u32 = 2;

const IMSIC_DELIVERY: u64 = 0x70;
const IMSIC_THRESHOLD: u64 = 0x72;
const IMSIC_ENABLE_0: u64 = 0xc0;

/// Conversion between ticks of the `time` register and nanoseconds, in fixed point: no division.
#[derive(Debug)]
pub struct Clock {
    /// Nanoseconds per tick, 32 fractional bits.
    ns_per_tick: u64,
    /// Ticks per nanosecond, 64 fractional bits.
    ticks_per_ns: u64,
    /// Whether harts compare `time` themselves (Sstc).
    sstc: bool,
}

impl Clock {
    /// A clock of `hz` ticks a second, at most one per nanosecond.
    ///
    /// # Errors
    /// Another frequency.
    pub fn new(hz: u64, sstc: bool) -> Result<Self, &'static str> {
        if !(1_000..1_000_000_000).contains(&hz) {
            return Err("timebase-frequency is not below 1 GHz");
        }
        let ticks_per_ns = (u128::from(hz) << 64) / 1_000_000_000;
        Ok(Self { ns_per_tick: (1_000_000_000 << 32) / hz, ticks_per_ns: ticks_per_ns as u64, sstc })
    }

    /// Nanoseconds since the machine was switched on.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        ((u128::from(read_csr!("time")) * u128::from(self.ns_per_tick)) >> 32) as u64
    }

    /// Arms this core's timer for the first tick at or after `deadline_ns`; `u64::MAX` disarms it.
    pub fn arm(&self, deadline_ns: u64) {
        let ticks = match deadline_ns {
            u64::MAX => u64::MAX,
            _ => ((u128::from(deadline_ns) * u128::from(self.ticks_per_ns)) >> 64) as u64 + 1,
        };
        if self.sstc {
            // SAFETY: only a timer (`stimecmp`).
            unsafe { write_csr!("0x14d", ticks) };
        } else {
            sbi::set_timer(ticks);
        }
    }
}

/// Readies this core: its interrupt file delivers doorbells and the network device's messages, all kinds wake WFI and interrupt user mode.
pub fn init_core(clock: &Clock) {
    clock.arm(u64::MAX);
    write_imsic(IMSIC_DELIVERY, 1);
    write_imsic(IMSIC_THRESHOLD, 0);
    write_imsic(IMSIC_ENABLE_0, 1 << DOORBELL_IDENTITY | 1 << NETWORK_IDENTITY);
    // SAFETY: interrupts stay masked in S-mode by sstatus.SIE.
    unsafe { write_csr!("sie", SOFTWARE_BIT | TIMER_BIT | EXTERNAL_BIT) };
}

/// Acknowledges what is pending and says what it was.
#[inline(never)]
pub fn take(machine: &TheMachine) -> Interrupts {
    take_here(machine)
}

/// As [`take`], without a call.
#[inline(always)]
pub fn take_here(machine: &TheMachine) -> Interrupts {
    let pending = read_csr!("sip");
    let mut taken = Interrupts::default();
    if pending & TIMER_BIT != 0 {
        machine.clock.arm(u64::MAX);
        taken = taken.union(Interrupts::TIMER);
    }
    if pending & SOFTWARE_BIT != 0 {
        // SAFETY: acknowledges it.
        unsafe { asm!("csrc sip, {}", in(reg) SOFTWARE_BIT, options(nostack)) };
        taken = taken.union(Interrupts::DOORBELL);
    }
    // What rings after this has the interrupt pending again. Of two identities, the lower one comes first.
    if pending & EXTERNAL_BIT != 0 {
        taken = taken.union(external(claim()));
        if machine.has_network() {
            taken = taken.union(external(claim()));
        }
    }
    if taken != Interrupts::EMPTY {
        hidden::note_interrupt();
    }
    taken
}

/// Sleeps until an interrupt is pending, then takes it.
pub fn wait(machine: &TheMachine) -> Interrupts {
    // SAFETY: only waits. Not `nomem`: what the kernel stored before is not to be delayed past it.
    unsafe { asm!("wfi", options(nostack)) };
    take(machine)
}

/// Makes the doorbell pending in the interrupt file at `imsic`, after all earlier stores.
pub fn send(imsic: u64) {
    // SAFETY: the little-endian set-pending register at the start of the file, mapped with the devices.
    unsafe {
        asm!("fence rw, ow", options(nostack));
        with_exposed_provenance_mut::<u32>((DEVICE_VA + imsic) as usize).write_volatile(DOORBELL_IDENTITY);
    }
}

/// What an identity means.
#[inline(always)]
const fn external(identity: u64) -> Interrupts {
    match identity as u32 {
        0 => Interrupts::EMPTY,
        NETWORK_IDENTITY => Interrupts::NETWORK,
        _ => Interrupts::DOORBELL,
    }
}

/// Takes the top pending identity (`stopei`: its upper half holds it), 0 when there is none.
fn claim() -> u64 {
    let top: u64;
    // SAFETY: clears the identity's pending bit, nothing else. Later loads are not to move before it.
    unsafe { asm!("csrrw {}, 0x15c, zero", out(reg) top, options(nostack)) };
    top >> 16
}

fn write_imsic(register: u64, value: u64) {
    // SAFETY: `siselect` and `sireg`: this core's interrupt file.
    unsafe {
        write_csr!("0x150", register);
        write_csr!("0x151", value);
    }
}
