//! Timer and doorbells of one core.

use super::programs::Step;
use super::user::{DATA_VA, trap_code};
use super::{Check, Failure, SHORT_NS, Suite, ensure, same};
use crate::{Interrupts, Machine, Trap};

/// A timer's distance, in nanoseconds.
const SOON_NS: u64 = 3_000_000;
/// In which a timer that is due and a doorbell have come, as a rule.
const TOGETHER_NS: u64 = 200_000;
/// Rounds after which a core that has run no user code counts as broken.
const ROUNDS_MAX: u64 = 200;

impl<M: Machine> Suite<M> {
    pub(super) fn interrupt_tests(&self) {
        self.test("timer_in_user_mode", Self::timer_in_user_mode);
        self.test("timer_ends_a_wait", Self::timer_ends_a_wait);
        self.test("timer_in_the_past", Self::timer_in_the_past);
        self.test("timer_cancelled", Self::timer_cancelled);
        self.test("doorbell_before_a_wait", Self::doorbell_before_a_wait);
        self.test("doorbell_in_user_mode", Self::doorbell_in_user_mode);
        self.test("one_interrupt_hides_no_other", Self::one_interrupt_hides_no_other);
        self.test("interrupts_are_acknowledged", Self::interrupts_are_acknowledged);
    }

    fn timer_in_user_mode(&self) -> Check {
        let space = self.space(&[Step::Count])?;
        self.machine.activate_space(space.table.root);
        let (mut rounds, mut rounds_with_progress) = (0, 0);
        // On a loaded host the deadline may pass before user code has run: such a round shows nothing about progress.
        while rounds < ROUNDS_MAX && (rounds < 5 || rounds_with_progress == 0) {
            rounds += 1;
            let counted = space.value(M::ISA);
            let deadline = self.machine.counter_ns() + SOON_NS;
            self.machine.set_timer(deadline);
            let interrupts = self.run_to_interrupt(&space)?;
            let now = self.timer_came(interrupts, deadline)?;
            rounds_with_progress += u64::from(space.value(M::ISA) > counted);
            ensure(now < deadline + SHORT_NS, "lateness", now - deadline, rounds)?;
        }
        ensure(rounds_with_progress > 0, "rounds in which user code made progress", rounds_with_progress, rounds)
    }

    fn timer_ends_a_wait(&self) -> Check {
        for _ in 0..5 {
            let deadline = self.machine.counter_ns() + SOON_NS;
            self.machine.set_timer(deadline);
            let mut interrupts = Interrupts::default();
            while interrupts == Interrupts::default() {
                interrupts = self.machine.wait_for_interrupt();
            }
            self.timer_came(interrupts, deadline)?;
        }
        Ok(())
    }

    /// The timer has come, and not before its deadline. Returns the time.
    fn timer_came(&self, interrupts: Interrupts, deadline: u64) -> Result<u64, Failure> {
        let now = self.machine.counter_ns();
        let timer = Interrupts::TIMER;
        ensure(interrupts.contains(timer), "interrupt", interrupts.0.into(), timer.0.into())?;
        ensure(now >= deadline, "time of the interrupt", now, deadline)?;
        Ok(now)
    }

    fn timer_in_the_past(&self) -> Check {
        self.machine.set_timer(1);
        let came = self.wait_for_kind(Interrupts::TIMER);
        ensure(came, "timer interrupt for a deadline in the past", 0, 1)?;
        let space = self.space(&[Step::Count])?;
        self.machine.activate_space(space.table.root);
        self.machine.set_timer(self.machine.counter_ns().saturating_sub(1));
        let interrupts = self.run_to_interrupt(&space)?;
        same("interrupt in user mode", interrupts.0.into(), Interrupts::TIMER.0.into())
    }

    fn timer_cancelled(&self) -> Check {
        self.machine.set_timer(self.machine.counter_ns() + SOON_NS);
        self.machine.set_timer(u64::MAX);
        let start = self.machine.counter_ns();
        let mut seen = Interrupts::default();
        while self.machine.counter_ns() < start + 3 * SOON_NS {
            seen = seen.union(self.machine.poll_interrupts());
            self.machine.relax();
        }
        ensure(!seen.contains(Interrupts::TIMER), "interrupt of a cancelled timer", seen.0.into(), 0)
    }

    /// A doorbell that arrives before the core sleeps must end the sleep.
    fn doorbell_before_a_wait(&self) -> Check {
        for _ in 0..100 {
            self.machine.ring(self.machine.core());
            let came = self.wait_for_kind(Interrupts::DOORBELL);
            ensure(came, "doorbell to itself", 0, 1)?;
        }
        Ok(())
    }

    /// Waits for an interrupt of that kind, with a timer as a guard. `false`: only the guard came.
    pub(super) fn wait_for_kind(&self, kind: Interrupts) -> bool {
        let start = self.machine.counter_ns();
        if kind != Interrupts::TIMER {
            self.machine.set_timer(start + SHORT_NS);
        }
        loop {
            let interrupts = self.machine.wait_for_interrupt();
            if interrupts.contains(kind) {
                return true;
            }
            if self.machine.counter_ns() > start + SHORT_NS {
                return false;
            }
        }
    }

    fn doorbell_in_user_mode(&self) -> Check {
        let space = self.space(&[Step::Count])?;
        self.machine.activate_space(space.table.root);
        for _ in 0..20 {
            self.machine.set_timer(self.machine.counter_ns() + SHORT_NS);
            self.machine.ring(self.machine.core());
            let interrupts = self.run_to_interrupt(&space)?;
            same("interrupt", interrupts.0.into(), Interrupts::DOORBELL.0.into())?;
        }
        Ok(())
    }

    /// A timer and a doorbell that are there at the same time both come, whether the core polls or sleeps.
    fn one_interrupt_hides_no_other(&self) -> Check {
        let both = Interrupts::TIMER.union(Interrupts::DOORBELL);
        for round in 0..40 {
            self.machine.set_timer(1);
            self.machine.ring(self.machine.core());
            let start = self.machine.counter_ns();
            // In every other pair of rounds, the first look finds both.
            while round % 4 < 2 && self.machine.counter_ns() < start + TOGETHER_NS {
                self.machine.relax();
            }
            let mut seen = Interrupts::default();
            while seen != both && self.machine.counter_ns() < start + SHORT_NS {
                let sleeps = round % 2 == 0 && seen == Interrupts::default();
                let came = if sleeps { self.machine.wait_for_interrupt() } else { self.machine.poll_interrupts() };
                seen = seen.union(came);
            }
            same("interrupts that came", seen.0.into(), both.0.into())?;
        }
        Ok(())
    }

    /// What was reported once is not reported again.
    fn interrupts_are_acknowledged(&self) -> Check {
        self.machine.set_timer(1);
        ensure(self.wait_for_kind(Interrupts::TIMER), "timer interrupt", 0, 1)?;
        self.machine.ring(self.machine.core());
        ensure(self.wait_for_kind(Interrupts::DOORBELL), "doorbell", 0, 1)?;
        self.machine.set_timer(u64::MAX);
        let start = self.machine.counter_ns();
        let mut seen = Interrupts::default();
        while self.machine.counter_ns() < start + SOON_NS {
            seen = seen.union(self.machine.poll_interrupts());
            self.machine.relax();
        }
        same("interrupts that came again", seen.0.into(), 0)?;
        let space = self.space(&[Step::Syscall])?;
        space.set(M::ISA, 0, DATA_VA);
        self.machine.activate_space(space.table.root);
        let trap = self.machine.run_user(space.frame);
        same("trap of a quiet core", trap_code(trap), trap_code(Trap::Syscall))
    }
}
