//! Load balancing: threads go from cores where others wait to idle cores, of all islands of their instruction set whose caches are
//! coherent.
//!
//! Cores do not steal threads; a core gives them away. At the end of a slice in which others wait for it, a core looks for an
//! idle core, and the thread whose slice has ended goes there. So a core that has fallen asleep gets a thread within a slice of 10 ms, and
//! neither wake-ups nor sleep look further than their island. The home of the process's address space does not change.

use motet_hal::Machine;
use motet_layout::{CoreId, ThreadRecord};
use motet_protocol::{
    cores::{all_cores, core_record},
    ready,
    run_queue::{self, Reserved},
};

use crate::{cpu::Cpu, handover};

/// Who has been given to another core stays there for so long, whoever waits: five slices.
const STAYS_NS: u64 = 50_000_000;

/// Gives the running thread, whose slice has ended while others wait for this core, to an idle core. `true`: it has gone.
#[cold]
pub fn share<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> bool {
    if !has_peers(cpu) {
        return false;
    }
    let now_ns = cpu.now_ns();
    if !may_move(cpu, thread, now_ns) {
        return false;
    }
    let Some(target) = reserve_idle(cpu, thread) else { return false };
    thread.shared_at_ns.set(now_ns);
    thread.shared.set(thread.shared.get() + 1);
    handover::move_to_reserved(cpu, thread, target);
    true
}

/// Whether [`share`] would give the running thread away, as far as this core sees.
#[inline(always)]
pub fn would_share<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    has_peers(cpu) && has_idle_peer(cpu, thread)
}

#[cold]
fn has_idle_peer<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> bool {
    may_move(cpu, thread, cpu.now_ns()) && idle_core(cpu, thread).is_some()
}

/// Whether the thread may be given to another core at `now_ns`: who has come lately stays. So does who has asked for a core with an extension (`motet_need`); and
/// Flick's kernels know nothing of this.
fn may_move<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, now_ns: u64) -> bool {
    let came_lately = thread.shared.get() != 0 && now_ns.saturating_sub(thread.shared_at_ns.get()) < STAYS_NS;
    !(came_lately || thread.moves.stays.get() != 0 || cpu.crossing.migrates())
}

/// Whether there are other cores of this instruction set.
#[inline(always)]
pub fn has_peers<M: Machine>(cpu: &Cpu<M>) -> bool {
    let [low, high] = cpu.ability.peers();
    (low & low.wrapping_sub(1)) | (high & high.wrapping_sub(1)) != 0 || low != 0 && high != 0
}

/// Gives the next waiting real-time thread to an idle core, if there is one for it, while another real-time thread goes on here.
#[cold]
pub fn share_waiting<M: Machine>(cpu: &Cpu<M>) {
    let running = cpu.own.ready_running.get();
    run_queue::collect(cpu);
    if let Some(next) = ready::take(cpu, cpu.own) {
        let may_move = !next.stage.get().ends() && next.moves.stays.get() == 0 && !cpu.crossing.migrates();
        match may_move.then(|| reserve_idle(cpu, next)).flatten() {
            Some(target) => {
                next.shared.set(next.shared.get() + 1);
                handover::start_reserved(cpu, next, target);
            }
            None => run_queue::append_first(cpu, next),
        }
    }
    cpu.own.ready_running.set(running);
}

/// A core with nothing to do that a thread may run on, where the thread counts from now on: rather one without anything that other threads
/// need, of equals one of this island. None where memory that it shares or has yet to copy would be read over a link that is not coherent.
pub fn reserve_idle<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<Reserved> {
    loop {
        let target = idle_core(cpu, thread)?;
        // Others choose at the same time: each turn that fails is another's thread that has got its place.
        if let Some(reserved) = run_queue::reserve(cpu, target, 0) {
            return Some(reserved);
        }
    }
}

/// The same; it is not reserved.
fn idle_core<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<CoreId> {
    let mask = run_queue::cores_of(thread);
    let is_near = |core: CoreId| core.island() == cpu.island();
    let is_usable = |core: &CoreId| {
        let takes_threads = is_near(*core) || cpu.is_coherent_peer(core.island());
        takes_threads && run_queue::allowed(mask, *core) && run_queue::load(cpu, *core) == 0
    };
    let idle = all_cores(cpu).filter(is_usable);
    idle.min_by_key(|&core| (core_record(cpu, core).scarce.get(), !is_near(core)))
}
