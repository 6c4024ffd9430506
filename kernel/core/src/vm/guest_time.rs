//! The time and the timer of AArch64 guests in timed machines. There the core's counter shows the host's time, so these registers trap, and the kernel
//! answers with the machine's time (`docs/simulator.md`). Only in this case does the kernel use the timer's words of
//! [`GuestSystem`](motet_layout::GuestSystem).

use motet_hal::{Machine, SystemRegister};
use motet_layout::aarch64_guest::{TIMER_CONTROL, TIMER_DEADLINE};

use super::running::Running;

/// Registers, as instructions encode them: op0, op1, CRn, CRm, op2.
const fn number(crm: u16, op2: u16) -> u16 {
    3 << 14 | 3 << 11 | 14 << 7 | crm << 3 | op2
}
/// CNTPCT_EL0 and CNTVCT_EL0; CNTV_TVAL_EL0, CNTV_CTL_EL0, CNTV_CVAL_EL0.
const PHYSICAL: u16 = number(0, 1);
const VIRTUAL: u16 = number(0, 2);
const LEFT: u16 = number(3, 0);
const CONTROL: u16 = number(3, 1);
const DEADLINE: u16 = number(3, 2);
/// Of CNTV_CTL_EL0: on, masked, fired.
const ON: u64 = 1;
const MASKED: u64 = 2;
const FIRED: u64 = 4;

impl<M: Machine> Running<'_, M> {
    /// Serves the guest's access to a register of the time or the timer. `false`: it is another register.
    pub fn access_time(&self, access: SystemRegister) -> bool {
        if !self.cpu.is_timed() {
            return false;
        }
        let word = |index: usize| &self.vcpu.system.words[index];
        let (control, deadline) = (word(TIMER_CONTROL), word(TIMER_DEADLINE));
        let now = self.cpu.machine.guest_ticks(self.cpu.now_ns().saturating_sub(self.vm.started_ns.get()));
        if access.is_write {
            let value = motet_hal::register(&self.vcpu.frame, access.register);
            match access.number {
                CONTROL => control.set(value & (ON | MASKED)),
                DEADLINE => deadline.set(value),
                LEFT => deadline.set(now.wrapping_add_signed((value as i32).into())),
                _ => return false,
            }
            self.arm();
            return true;
        }
        let has_fired = control.get() & ON != 0 && now >= deadline.get();
        let value = match access.number {
            PHYSICAL | VIRTUAL => now,
            CONTROL => control.get() | if has_fired { FIRED } else { 0 },
            DEADLINE => deadline.get(),
            LEFT => deadline.get().wrapping_sub(now) & u64::from(u32::MAX),
            _ => return false,
        };
        motet_hal::set_register(&self.vcpu.frame, access.register, value);
        true
    }

    /// The machine's time at which the timer interrupts.
    fn arm(&self) {
        let word = |index: usize| self.vcpu.system.words[index].get();
        let interrupts = word(TIMER_CONTROL) & (ON | MASKED) == ON;
        let deadline_ns =
            || self.cpu.machine.guest_ticks_ns(word(TIMER_DEADLINE)).saturating_add(self.vm.started_ns.get());
        self.vcpu.timer_ns.set(if interrupts { deadline_ns().max(1) } else { 0 });
    }
}
