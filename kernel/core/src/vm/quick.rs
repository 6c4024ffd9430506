//! Traps that are served while the guest's registers stay in the core: what real-time systems do in each tick, and what they read most.
//!
//! Nothing here waits, takes locks or lets go of the guest. To others the core executes its guest meanwhile: whoever wants something of it
//! rings it, and the interrupt is pending when the guest goes on.

use motet_layout::sync::Ordering;

use motet_hal::{GuestInterrupts, GuestTrap, Interrupts, Machine, Trap};
use motet_layout::Isa;

use super::{
    run::{Counted, Running},
    sbi,
};

impl<M: Machine> Running<'_, M> {
    /// Whether a trap is served, and the guest goes on; or nothing has happened.
    #[inline(always)]
    pub fn serve_quickly(&self, trap: Trap) -> bool {
        match trap {
            Trap::Guest(GuestTrap::SystemRegister(register)) => {
                let is_served = match M::ISA {
                    Isa::RiscV64 => sbi::register(self, register),
                    Isa::X86_64 | Isa::AArch64 | Isa::Hosted => false,
                };
                if is_served {
                    self.count(Counted::Register);
                    self.skip(4);
                }
                is_served
            }
            Trap::Guest(GuestTrap::Hypercall { .. }) => {
                let is_served = match M::ISA {
                    Isa::RiscV64 => sbi::call_quickly(self),
                    Isa::X86_64 | Isa::AArch64 | Isa::Hosted => false,
                };
                if is_served {
                    self.count(Counted::Call);
                    self.set_timer();
                    self.show_timer();
                }
                is_served
            }
            Trap::Interrupt(interrupts) => {
                let is_own = self.is_own_alarm(interrupts);
                if is_own {
                    self.count(Counted::Interrupt);
                    self.show_timer();
                }
                is_own
            }
            Trap::Guest(_)
            | Trap::Syscall
            | Trap::PageFault { .. }
            | Trap::IllegalInstruction { .. }
            | Trap::Breakpoint
            | Trap::Arithmetic
            | Trap::Misaligned { .. }
            | Trap::BadAddress { .. } => false,
        }
    }

    /// The guest has its timer's interrupt, or has it no more. What others have raised comes with an interrupt of the real core.
    fn show_timer(&self) {
        let (machine, system) = (self.cpu.machine, &self.vcpu.system);
        let others = machine.guest_interrupts(system).without(GuestInterrupts::TIMER);
        let timer = if self.is_timer_due() { GuestInterrupts::TIMER } else { GuestInterrupts::EMPTY };
        machine.set_guest_interrupts(system, others.union(timer));
    }

    /// The real core was interrupted for the guest's timer, and for nothing else. In timed machines the simulator rings for timers: if a
    /// kernel had rung, it would have said so; what the host has rung for waits until the call pauses.
    fn is_own_alarm(&self, interrupts: Interrupts) -> bool {
        let cpu = self.cpu;
        if !cpu.timed {
            return interrupts == Interrupts::TIMER && self.is_own_timers();
        }
        let is_rung = [&cpu.own.rung_at_ns, &cpu.own.written_at_ns].iter().any(|at| at.load(Ordering::SeqCst) != 0);
        let is_own = interrupts == Interrupts::DOORBELL && !is_rung && self.is_own_timers();
        if is_own {
            cpu.deferred.set(cpu.deferred.get().union(interrupts));
        }
        is_own
    }
}
