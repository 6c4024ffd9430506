//! A guest that the core keeps at hand while another one runs in it (`life::stacked`): as in a dispatch of the call `RUN`, step by step.

use core::cell::Cell;

use motet_hal::{GuestTrap, Interrupts, Machine, Trap};
use motet_layout::{PoolAddr, ThreadRecord, VCPU_STARTED, VcpuRecord, VmRecord, sync::Ordering};

use super::{
    memory,
    run::{Counted, Running, Turn},
};
use crate::{call::Stop, cpu::Cpu};

/// The guest of a thread that is in the middle of running it. Nobody else uses it as long as this lives.
pub struct Held<'a, M: Machine> {
    running: Running<'a, M>,
    _turn: Turn,
}

impl<'a, M: Machine> Held<'a, M> {
    /// `None`: something else is to be done for it first.
    pub fn take(cpu: &'a Cpu<M>, thread: &'static ThreadRecord) -> Option<Self> {
        let vcpu = cpu.pool.at::<VcpuRecord>(PoolAddr(thread.guest.get()));
        let vm = cpu.pool.at::<VmRecord>(PoolAddr(vcpu.vm.get()));
        let format = cpu.machine.guest_format()?;
        let is_simple = vcpu.state.load(Ordering::SeqCst) == VCPU_STARTED && vcpu.awaits.get() == 0;
        let root = is_simple.then(|| memory::root(cpu, vm, format).ok())??;
        let turn = Turn::take(vcpu, thread)?;
        let running = Running { cpu, vm, vcpu, thread, table: (root, format), begun_ns: Cell::new(0) };
        Some(Self { running, _turn: turn })
    }

    /// Runs the guest until it waits for an interrupt and there is none: when its timer fires, `u64::MAX` for never. To others, it is in this core all the
    /// same, which they ring, until it [leaves](Self::leave). The error is anything else that it has stopped at.
    #[inline(always)]
    pub fn run_until_wait(&self, begun_ns: u64) -> Result<u64, Trap> {
        let guest = &self.running;
        guest.begun_ns.set(begun_ns);
        guest.with_floats(|| {
            loop {
                match guest.run_guest() {
                    Trap::Guest(GuestTrap::WaitForInterrupt) => {
                        guest.enter();
                        if let Err(deadline_ns) = guest.next_interrupt() {
                            break Ok(if deadline_ns == 0 { u64::MAX } else { deadline_ns });
                        }
                        self.count_wait();
                    }
                    Trap::Interrupt(interrupts) if guest.is_for_guest(interrupts) => guest.count(Counted::Interrupt),
                    Trap::Guest(GuestTrap::SystemRegister(access)) if guest.access_clock(access) => self.end_access(),
                    trap @ (Trap::Guest(_)
                    | Trap::Interrupt(_)
                    | Trap::Syscall
                    | Trap::PageFault { .. }
                    | Trap::IllegalInstruction { .. }
                    | Trap::Breakpoint
                    | Trap::Arithmetic
                    | Trap::Misaligned { .. }
                    | Trap::BadAddress { .. }) => break Err(trap),
                }
            }
        })
    }

    /// Runs the guest until an interrupt comes that `is_awaited`: then `None`; or until anything else stops it.
    #[inline(always)]
    pub fn run_until(&self, begun_ns: u64, is_awaited: impl Fn(Interrupts) -> bool) -> Option<Trap> {
        let guest = &self.running;
        guest.begun_ns.set(begun_ns);
        guest.with_floats(|| {
            loop {
                match guest.run_guest() {
                    Trap::Interrupt(interrupts) if is_awaited(interrupts) => {
                        guest.count(Counted::Interrupt);
                        break None;
                    }
                    Trap::Interrupt(interrupts) if guest.is_for_guest(interrupts) => guest.count(Counted::Interrupt),
                    Trap::Guest(GuestTrap::SystemRegister(access)) if guest.access_clock(access) => self.end_access(),
                    trap @ (Trap::Guest(_)
                    | Trap::Interrupt(_)
                    | Trap::Syscall
                    | Trap::PageFault { .. }
                    | Trap::IllegalInstruction { .. }
                    | Trap::Breakpoint
                    | Trap::Arithmetic
                    | Trap::Misaligned { .. }
                    | Trap::BadAddress { .. }) => break Some(trap),
                }
            }
        })
    }

    /// An access to a register of the guest's time has been served.
    fn end_access(&self) {
        self.running.count(Counted::Register);
        self.running.skip(4);
    }

    /// Counts that the guest has waited.
    #[inline(always)]
    pub fn count_wait(&self) {
        self.running.count(Counted::Wait);
    }

    /// The guest, which waits, is not in this core any more: who raises an interrupt from now on wakes its thread.
    pub fn leave(&self) {
        self.running.vcpu.in_guest.store(0, Ordering::Release);
    }

    /// The thread prepares to wait for its guest, which has left. `false`: an interrupt has come.
    pub fn prepare_wait(&self) -> bool {
        matches!(self.running.wait(None), Stop::Block)
    }
}
