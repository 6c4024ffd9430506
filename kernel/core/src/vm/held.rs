//! A guest that the core keeps at hand, be it while another one runs in it (`life::stacked`), above a system call (`life::nested`), or for its turn (`life::guests`): as in a dispatch of the call
//! `RUN`, step by step.

use motet_hal::{GuestTrap, Machine, Trap};
use motet_layout::{PoolAddr, ThreadRecord, VCPU_STARTED, VcpuRecord, VmRecord, sync::Ordering};

use super::{
    is_timer_alone,
    run::Dispatch,
    running::{Counted, Running},
    tables,
};
use crate::{call::Stop, cpu::Cpu};

/// What follows when a guest has stopped.
pub enum Then<R> {
    /// With this.
    Ends(R),
    /// The guest goes on.
    GoesOn,
    /// Nothing that was looked for.
    Other,
}

/// The guest of a thread that is in the middle of running it. Nobody else uses it as long as this lives.
pub struct Held<'a, M: Machine> {
    running: Running<'a, M>,
    _dispatch: Dispatch,
}

impl<'a, M: Machine> Held<'a, M> {
    /// `None`: something else is to be done for it first.
    #[inline(always)]
    pub fn take(cpu: &'a Cpu<M>, thread: &'static ThreadRecord) -> Option<Self> {
        let vcpu = cpu.pool.at::<VcpuRecord>(PoolAddr(thread.guest.get()));
        let vm = cpu.pool.at::<VmRecord>(PoolAddr(vcpu.vm.get()));
        let format = cpu.machine.guest_format()?;
        let is_simple = vcpu.state.load(Ordering::SeqCst) == VCPU_STARTED && vcpu.awaits.get() == 0;
        let root = is_simple.then(|| tables::root(cpu, vm, format).ok())??;
        let dispatch = Dispatch::take(vcpu, thread)?;
        let running = Running::new(cpu, vm, vcpu, thread, (root, format), 0);
        Some(Self { running, _dispatch: dispatch })
    }

    /// Runs the guest until it waits for an interrupt and there is none: when its timer fires, `u64::MAX` for never. To others, it is in this core all the
    /// same, which they ring, until it [leaves](Self::leave). The error is anything else that it has stopped at.
    #[inline(always)]
    pub fn run_until_wait(&self, begun_ns: u64) -> Result<u64, Trap> {
        let guest = &self.running;
        self.run(begun_ns, |trap| {
            if !matches!(trap, Trap::Guest(GuestTrap::WaitForInterrupt)) {
                return Then::Other;
            }
            guest.enter();
            match guest.next_interrupt() {
                Err(0) => Then::Ends(u64::MAX),
                Err(deadline_ns) => Then::Ends(deadline_ns),
                Ok(()) => {
                    guest.count(Counted::Wait);
                    Then::GoesOn
                }
            }
        })
    }

    /// Runs the guest until the core's timer interrupts it, and nothing else, and `look` says that this ends it. The error is anything else that has stopped it.
    #[inline(always)]
    pub fn run_until<R>(&self, begun_ns: u64, look: impl Fn() -> Then<R>) -> Result<R, Trap> {
        self.run(begun_ns, |trap| {
            let Trap::Interrupt(interrupts) = trap else { return Then::Other };
            // A ring that has come since then interrupts again.
            let is_alone = self.running.is_timer_alone.take();
            if !is_alone.unwrap_or_else(|| is_timer_alone(self.running.cpu, interrupts)) {
                return Then::Other;
            }
            let then = look();
            if !matches!(then, Then::Other) {
                self.running.count(Counted::Interrupt);
            }
            then
        })
    }

    /// Runs the guest and serves what concerns its own time alone, until `look` says of a trap that it ends this. The error is any other trap.
    #[inline(always)]
    fn run<R>(&self, begun_ns: u64, look: impl Fn(Trap) -> Then<R>) -> Result<R, Trap> {
        let guest = &self.running;
        guest.begun_ns.set(begun_ns);
        guest.with_floats(|| {
            loop {
                let trap = guest.run_guest();
                match look(trap) {
                    Then::Ends(result) => break Ok(result),
                    Then::GoesOn => {}
                    Then::Other if self.serve_own(trap) => {}
                    Then::Other => break Err(trap),
                }
            }
        })
    }

    /// Serves a trap that is about the guest's own time. `false`: it is another one.
    #[inline(always)]
    fn serve_own(&self, trap: Trap) -> bool {
        let guest = &self.running;
        if let Trap::Interrupt(interrupts) = trap {
            let is_own = guest.is_for_guest(interrupts);
            if is_own {
                guest.count(Counted::Interrupt);
            }
            return is_own;
        }
        matches!(trap, Trap::Guest(GuestTrap::SystemRegister(access)) if guest.serve_clock(access))
    }

    /// Counts that the guest waits, and that the one below it, or a call, goes on at once.
    #[inline(always)]
    pub fn count_turn(&self) {
        self.running.count(Counted::Turn);
    }

    /// Has the guest stop once more at what it has stopped at: at an instruction of four bytes, or before one.
    pub fn retake(&self, trap: Trap) {
        if let Trap::Guest(GuestTrap::Hypercall { .. } | GuestTrap::WaitForInterrupt) = trap {
            self.running.skip(4_u64.wrapping_neg());
        }
    }

    /// As [`prepare_wait`](Self::prepare_wait), for a thread that has been taken out of its wait and has left no queue, as this core may be in the middle of
    /// something. `false`: it does not wait.
    pub fn prepare_wait_again(&self) -> bool {
        self.running.wait_again()
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
