//! Due work in the middle of a system call: what else this core has to do, checked whenever its budget is used up.
//!
//! Only work that may be done anywhere is done here: shoot-downs, and waking threads whose time has come. All else is reported to the caller, or waits in
//! [`Cpu::due`] for the core's life.

use core::{cell::Cell, sync::atomic::Ordering};

use motet_hal::{Interrupts, Machine};
use motet_layout::{InodeRecord, ThreadRecord, marks};
use motet_protocol::{Context, fs, timer};

use crate::{
    alarm,
    cpu::{BUDGET, Causes, Cpu, REMOTE},
};

/// What is interrupted in the middle of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Below {
    /// It holds no lock.
    Nothing,
    /// It may hold locks, none that comes after wait queues.
    Locks,
}

/// A core of which the life can go on above a call.
pub trait Nesting {
    /// Timers are due at `now_ns`: an urgent guest may run at once. `false`: nothing has been done, and no thread was woken.
    fn run_urgent(&self, below: Below, now_ns: u64) -> bool;
}

/// Serves shoot-downs and wakes threads whose time has come, in a call that cannot pause and holds no lock and whose core has used up its budget. Other
/// interrupts, and other threads, come when the call has ended: the timer is set for that.
#[cold]
pub fn serve_due<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    if !is_anything_due(cpu, thread) {
        return;
    }
    let now_ns = cpu.now_ns();
    wake_expired(cpu, Below::Nothing, now_ns);
    if cpu.due.has_deferred() {
        alarm::set_timer(cpu, cpu.now_ns());
    }
    cpu.pass();
}

/// Adds the cost (`call::cost`) of a piece of work under locks that cannot be released before the rest is done.
/// Once the core's budget is used up, it does due work as far as possible under locks ([`serve_locked`]). No lock
/// is held that comes after wait queues in the order of locks (docs/protocols/lock.md).
#[inline(always)]
pub fn spend_locked<M: Machine>(cpu: &Cpu<M>, cost: u64) {
    if cpu.spend(cost) {
        serve_locked(cpu);
    }
}

/// Serves shoot-downs and wakes threads whose time has come. Other interrupts, and what wants the process tree (alarms), come
/// when the locks are free: the timer asks for that. Other threads of this core wait until then, too.
#[cold]
fn serve_locked<M: Machine>(cpu: &Cpu<M>) {
    begin_budget(cpu);
    let now_ns = cpu.now_ns();
    // Those that were taken before wait still, and the timer with them.
    let interrupts = if cpu.due.has_deferred() { Interrupts::EMPTY } else { poll(cpu) };
    cpu.due.defer(interrupts);
    cpu.relax();
    wake_expired(cpu, Below::Locks, now_ns);
    if interrupts != Interrupts::EMPTY && cpu.due.has_deferred() {
        alarm::set_timer(cpu, cpu.now_ns());
    }
}

/// Wakes threads whose time has come, up to the first timer that is a process's: that wants the process tree. An urgent guest runs at once.
fn wake_expired<M: Machine>(cpu: &Cpu<M>, below: Below, now_ns: u64) {
    if run_urgent(cpu, below, now_ns) {
        return;
    }
    let has_expired = Cell::new(true);
    while has_expired.take() {
        timer::expire_first(cpu, now_ns, |node| {
            let is_wait = !alarm::wants_tree(node);
            has_expired.set(is_wait);
            is_wait && alarm::expire_wait(cpu, node)
        });
    }
}

/// Lets an urgent guest run at once whose timer is due at `now_ns`. `true`: no thread is left whose time had come by then.
#[inline(always)]
pub fn run_urgent<M: Machine>(cpu: &Cpu<M>, below: Below, now_ns: u64) -> bool {
    timer::next_deadline_ns(cpu) > now_ns || cpu.run_urgent(below, now_ns)
}

/// Frees large files that nobody uses any more because of what the thread has done. `false`: something else is due before all are.
#[cold]
pub fn free_garbage<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    while thread.garbage.get() != REMOTE
        && let Some(inode) = cpu.object::<InodeRecord>(thread.garbage.get())
    {
        let next = inode.parent.load(Ordering::Relaxed);
        if fs::free_some(cpu, inode, BUDGET) {
            thread.garbage.set(next);
        }
        if cpu.spend(BUDGET) && is_anything_due(cpu, thread) {
            return false;
        }
    }
    true
}

/// The core's budget is used up: looks whether anything else is due than the call that the thread is in.
#[cold]
pub fn is_anything_due<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    begin_budget(cpu);
    let interrupts = poll(cpu);
    cpu.due.defer(interrupts);
    if cpu.due.has_deferred() {
        run_urgent(cpu, Below::Nothing, cpu.now_ns());
    }
    if interrupts.contains(Interrupts::TIMER) && cpu.due.has_deferred() {
        // A call may end now instead of pausing (a short read), and its thread then runs on: the slice ends nevertheless.
        alarm::set_timer(cpu, cpu.now_ns());
    }
    let is_due = cpu.is_due(Causes::SHOOTDOWN.union(Causes::INTERRUPTS));
    look_later(cpu, thread);
    is_due || thread.attention.load(Ordering::Relaxed) != 0
}

/// Whether an interrupt has come for this core, between threads or before one returns to its program. It waits, and so does what it is for: the timer asks for
/// that.
#[cold]
pub fn has_come<M: Machine>(cpu: &Cpu<M>) -> bool {
    begin_budget(cpu);
    cpu.due.defer(poll(cpu));
    if cpu.due.has_deferred() {
        alarm::set_timer(cpu, cpu.now_ns());
    }
    cpu.is_due(Causes::SHOOTDOWN.union(Causes::INTERRUPTS))
}

/// This core works on until so much is done again.
pub fn begin_budget<M: Machine>(cpu: &Cpu<M>) {
    if cpu.due.is_urgent_expected() {
        cpu.due.forget_urgent(cpu.now_ns());
    }
    cpu.due.renew_budget();
    M::mark::<{ marks::LOOK }>();
}

/// Takes interrupts in the middle of a call. Who keeps a timer's for later sets the timer again.
pub fn poll<M: Machine>(cpu: &Cpu<M>) -> Interrupts {
    let interrupts = cpu.machine.poll_interrupts();
    let interrupts = if cpu.is_timed() { alarm::with_alarm(cpu, interrupts, cpu.now_ns()) } else { interrupts };
    if interrupts.contains(Interrupts::TIMER) {
        cpu.alarm.clear();
    }
    interrupts
}

/// This core may not run another thread now: if a more urgent one has come, it does so when the running one's call is over.
#[inline]
pub fn look_later<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    if cpu.is_due(Causes::MOVED) {
        thread.attention.store(1, Ordering::Release);
    }
}
