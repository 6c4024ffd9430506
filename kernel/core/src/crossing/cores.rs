//! Cores that may run a called function.

use motet_layout::sync::Ordering;

use motet_abi::own::{CrossingPolicies, CrossingPolicy};
use motet_hal::Machine;
use motet_layout::{CoreId, CrossingRecord, Isa, IslandId, ProcessRecord, ThreadRecord};
use motet_protocol::run_queue;

use super::records::spare_record;
use crate::cpu::Cpu;

/// The record that the thread has kept, and the core of an ISA that its last call went to, if it may be called there without
/// knowing whether it is busy: most likely it sleeps again, and holds what the function needs.
#[inline(always)]
pub fn last_callee<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &ProcessRecord,
    isa: Isa,
) -> Option<(&'static CrossingRecord, CoreId)> {
    let record = spare_record(cpu, thread)?;
    let core = CoreId::from_raw(record.callee_core.get()).filter(|_| record.callee_isa.get() == isa as u32)?;
    let policies = CrossingPolicies::from_raw(process.crossing_policy.load(Ordering::Relaxed));
    (may_run(thread, core) && policies.busy == CrossingPolicy::Wait).then_some((record, core))
}

/// The least loaded core of an ISA; `None` if no island of the ISA is there.
pub fn island_of<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, isa: Isa) -> Option<CoreId> {
    cpu.islands_of(isa).map(|island| core_of(cpu, thread, island)).min_by_key(|&core| run_queue::load(cpu, core))
}

pub fn core_of<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, island: IslandId) -> CoreId {
    run_queue::least_loaded(cpu, island, run_queue::cores_of(thread))
}

#[inline(always)]
pub fn may_run(thread: &ThreadRecord, core: CoreId) -> bool {
    run_queue::allowed(run_queue::cores_of(thread), core)
}
