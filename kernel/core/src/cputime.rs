//! Processor time: what threads and cores have used.

use motet_hal::Machine;
use motet_layout::ThreadRecord;
use motet_protocol::ready;

use crate::cpu::Cpu;

/// Charges the time since the thread was last charged, until `now`.
#[inline(always)]
pub fn charge_at<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, now: u64) {
    let ran_ns = now.saturating_sub(thread.charged_at_ns.get());
    thread.user_ns.set(thread.user_ns.get() + ran_ns);
    thread.charged_at_ns.set(now);
    ready::charge(cpu.own, ran_ns);
}

/// As [`charge_at`], now; returns the time.
pub fn charge<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> u64 {
    let now = cpu.now_ns();
    charge_at(cpu, thread, now);
    now
}

/// Counts the time until now as busy, and the sleep before it as idle.
pub fn charge_core<M: Machine>(cpu: &Cpu<M>, now_ns: u64) {
    let (idle_ns, busy_ns) = cpu.cputime.charge(now_ns);
    cpu.own.idle_ns.set(cpu.own.idle_ns.get() + idle_ns);
    cpu.own.busy_ns.set(cpu.own.busy_ns.get() + busy_ns);
}
