//! Traps of a guest that are served while its registers stay in the core: those of each tick of real-time systems, and their most frequent reads.
//!
//! Nothing here waits, takes locks or lets go of the guest, except for stores to registers of the FPGA ([`stores`](super::stores)). To other
//! cores, the core executes its guest meanwhile: a core that wants something of the guest rings this core, and the interrupt is pending when
//! the guest goes on.

use motet_hal::{Access, GuestInterrupts, GuestTrap, Interrupts, Machine, ServeTraps, Trap};
use motet_layout::{Isa, sync::Ordering};

use super::{
    running::{Counted, Running},
    sbi,
};
use crate::{console, cpu::Cpu};

impl<M: Machine> ServeTraps for &Running<'_, M> {
    /// Serves a trap, if that can be done here. `false`: the trap is served otherwise, from its beginning.
    #[inline(always)]
    fn serve(&self, trap: Trap) -> bool {
        match trap {
            Trap::Guest(GuestTrap::SystemRegister(register)) => self.serve_clock(register),
            Trap::Guest(GuestTrap::Hypercall { .. }) => {
                let is_served = match M::ISA {
                    Isa::RiscV64 => sbi::call_quickly(self),
                    Isa::X86_64 | Isa::AArch64 | Isa::Hosted => false,
                };
                if is_served {
                    self.count(Counted::Call);
                    self.show_timer(self.set_timer());
                }
                is_served
            }
            Trap::Interrupt(interrupts) => {
                let is_own = self.is_own_alarm(interrupts);
                if is_own {
                    self.count(Counted::Interrupt);
                    self.show_timer(true);
                }
                is_own
            }
            Trap::Guest(GuestTrap::Fault { access, address }) if access.kind == Access::Write => {
                let stacked = &self.cpu.stacked;
                !stacked.is_nested() && stacked.occupied(|| self.serve_store_quickly(address.get()))
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
}

impl<M: Machine> Running<'_, M> {
    /// The guest has its timer's interrupt, or has it no more. What others have raised comes with an interrupt of the real core.
    #[inline(always)]
    fn show_timer(&self, is_due: bool) {
        let (machine, system) = (self.cpu.machine, &self.vcpu.system);
        let others = machine.guest_interrupts(system).without(GuestInterrupts::TIMER);
        let timer = if is_due { GuestInterrupts::TIMER } else { GuestInterrupts::EMPTY };
        machine.set_guest_interrupts(system, others.union(timer));
    }

    /// The real core was interrupted for the guest's timer, and for nothing else.
    #[inline(always)]
    fn is_own_alarm(&self, interrupts: Interrupts) -> bool {
        let is_alone = is_timer_alone(self.cpu, interrupts);
        self.is_timer_alone.set(Some(is_alone));
        is_alone && self.is_own_timers()
    }
}

/// Whether these interrupts are the timer's, and nothing else's. In timed machines the simulator rings for timers: a kernel, a device or the host stores
/// the reason before it rings, so without such a word the ring is the timer's.
#[inline(always)]
pub fn is_timer_alone<M: Machine>(cpu: &Cpu<M>, interrupts: Interrupts) -> bool {
    if !cpu.is_timed() {
        return interrupts == Interrupts::TIMER;
    }
    let is_rung = (cpu.own.rung_at_ns.load(Ordering::SeqCst) | cpu.own.written_at_ns.load(Ordering::SeqCst)) != 0;
    interrupts == Interrupts::DOORBELL && !is_rung && !(cpu.id.index() == 0 && console::may_host_have_rung(cpu))
}
