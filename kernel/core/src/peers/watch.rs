//! Whether the other kernels live. As long as this one keeps address spaces alike with others, its first core asks each of them for a number, every second, by a word of
//! the ring. Who has not answered ten times is taken for dead, as is who sends what is no message, or takes nothing.

use motet_hal::Machine;
use motet_layout::{CoreId, Peers, TIMER_PEERS, sync::Ordering};
use motet_protocol::{Context, peer::bell_of, ring::Ring, timer};

use super::{lent, of, others, ring_from};
use crate::{alarm, cpu::Cpu};

/// Time between two questions, in nanoseconds.
const EACH_NS: u64 = 1_000_000_000;
/// Questions that a kernel leaves without an answer before it is taken for dead.
const SILENT_MAX: u32 = 10;

/// One more address space is kept alike with other kernels.
pub fn begin_space<M: Machine>(cpu: &Cpu<M>) {
    if of(cpu).spaces.fetch_add(1, Ordering::AcqRel) == 0 {
        cpu.ring(CoreId::new(cpu.island(), 0));
    }
}

/// One is kept alike no longer.
pub fn end_space<M: Machine>(cpu: &Cpu<M>) {
    of(cpu).spaces.fetch_sub(1, Ordering::AcqRel);
}

/// The first core was rung: answers who asks whether this kernel lives, and asks others when it is time. `lose` is told who has died.
pub fn watch<M: Machine>(cpu: &Cpu<M>, lose: impl Fn(u32)) {
    let record = of(cpu);
    others(record).filter_map(|node| ring_from(cpu, record, node)).for_each(Ring::answer);
    if record.spaces.load(Ordering::Acquire) != 0 && record.watch.core.load(Ordering::Acquire) == 0 {
        others(record).for_each(|node| ask(cpu, record, node));
        record.watch.kind.set(TIMER_PEERS);
        let next_ns = cpu.now_ns() + EACH_NS;
        timer::arm(cpu, &record.watch, next_ns);
        alarm::set_timer(cpu, next_ns);
    }
    let broken = record.broken.load(Ordering::Relaxed);
    let gone = broken & !record.lost.load(Ordering::Relaxed);
    if gone != 0 {
        record.lost.store(broken, Ordering::Relaxed);
        for node in others(record).filter(|node| gone & 1 << node != 0) {
            lent::collect(cpu, Some(node));
            lose(node);
        }
    }
}

fn ask<M: Machine>(cpu: &Cpu<M>, record: &'static Peers, node: u32) {
    let (asked, silent) = (&record.asked[node as usize], &record.silent[node as usize]);
    let is_broken = record.broken.load(Ordering::Relaxed) & 1 << node != 0;
    let Some(ring) = Ring::to(cpu.machine.windows(), record, node).filter(|_| !is_broken) else { return };
    if ring.answered() == asked.get() {
        silent.set(0);
        asked.set(asked.get().wrapping_add(1));
        ring.ask(asked.get());
    } else {
        silent.set(silent.get() + 1);
        if silent.get() >= SILENT_MAX {
            record.broken.fetch_or(1 << node, Ordering::Relaxed);
            cpu.log(format_args!("kernel {node} does not answer: it is taken for dead"));
            return;
        }
    }
    cpu.ring(bell_of(record.node.get(), node));
}
