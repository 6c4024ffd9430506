//! An interrupt came while a thread ran: whether it gives up the core.

use motet_hal::{Interrupts, Machine};
use motet_layout::ThreadRecord;

use super::{interrupt::take_interrupts, next::end_slice, removed};
use crate::{alarm, cpu::Cpu, extension, handover, hotplug, process::limits, realtime};

/// Serves an interrupt that came while the thread ran. `true`: the thread has given up the core.
pub fn interrupted<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, interrupts: Interrupts) -> bool {
    let interrupts = cpu.life.before_ready(|| take_interrupts(cpu, interrupts));
    if interrupts.contains(Interrupts::TIMER) {
        limits::check_cpu_time(cpu, thread);
    }
    if hotplug::is_asked(cpu) {
        removed::leave_thread(cpu, thread);
        return true;
    }
    if extension::hidden::has_come(cpu) {
        if interrupts.contains(Interrupts::TIMER) && cpu.own.first_come.get() == 0 {
            handover::yield_core(cpu, thread);
        } else {
            handover::make_way(cpu, thread);
        }
        return true;
    }
    if realtime::gives_way(cpu, thread) {
        return true;
    }
    if interrupts.contains(Interrupts::TIMER) {
        return extension::end_slice(cpu, thread) || end_slice(cpu, thread);
    }
    let is_gone = extension::gives_way(cpu, thread);
    if !is_gone {
        alarm::program_timer(cpu, cpu.now_ns());
    }
    is_gone
}
