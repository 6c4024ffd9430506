//! What RISC-V guests have of their own: the time.

use motet_layout::Isa;
use motet_paging::Stage2;

use super::super::{Check, Suite, ensure, user::trap_code};
use crate::{GuestTrap, Machine, SystemRegister, Trap};

const READ: u32 = 0xc010_2573; // rdtime a0
const CALL: u32 = 0x0000_0073; // ecall
const A0: usize = 10;
/// The number of the time among CSRs.
const TIME: u16 = 0xc01;
/// A tick of a guest's time.
const TICK_NS: u64 = 100;

impl<M: Machine> Suite<M> {
    pub(super) fn riscv64_guest_tests(&self, format: Stage2) {
        if M::ISA == Isa::RiscV64 {
            self.test("guest_clock", |suite| suite.guest_clock_of_riscv64(format));
        }
    }

    /// Reading the time stops a guest until the kernel says how far its counter is from the core's.
    fn guest_clock_of_riscv64(&self, format: Stage2) -> Check {
        const SECOND_NS: u64 = 1_000_000_000;
        let guest = self.guest(format)?;
        let read = || {
            self.guest_words(&guest, 0, &[READ, CALL]);
            self.run_guest(&guest)
        };
        let access = SystemRegister { number: TIME, is_write: false, register: A0 as u8 };
        let trap = read();
        let stops = trap == Trap::Guest(GuestTrap::SystemRegister(access));
        ensure(stops, "a reading of the time", trap_code(trap), 0)?;
        let start = self.machine.counter_ns();
        for ahead_ns in [0, SECOND_NS, 0] {
            self.machine.set_guest_clock(guest.system, ahead_ns.wrapping_sub(start));
            let before = self.machine.counter_ns() - start + ahead_ns;
            let trap = read();
            let goes_on = trap == Trap::Guest(GuestTrap::Hypercall { immediate: 0 });
            ensure(goes_on, "a call", trap_code(trap), 0)?;
            let found = guest.frame.regs[A0].get() * TICK_NS;
            let after = self.machine.counter_ns() - start + ahead_ns;
            // It is never behind what the kernel counts.
            ensure(found + TICK_NS > before && found < after + TICK_NS, "the guest's clock", found, before)?;
        }
        Ok(())
    }
}
