//! How a thread goes back that no longer needs an extension.

use motet_abi::extension::ExtensionSet;
use motet_hal::Machine;
use motet_layout::{CoreId, ThreadRecord};
use motet_protocol::{Context, cores::core_record, direct, run_queue};

use crate::{
    ability::{self, PATIENCE_SLICES, affinity, of_thread, uses_vectors},
    cpu::Cpu,
    handover,
};

/// The same of a thread that comes again and again, at most.
const PATIENCE_SLICES_MAX: u32 = 64;
/// Who comes again this soon has gone too early.
const SOON_NS: u64 = 50_000_000;

/// Moves the thread to a core that has the extensions which it needs.
#[inline(always)]
pub fn leaves<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    let (moves, now_ns) = (&thread.moves, cpu.now_ns());
    let came_soon = moves.there.get() != 0 && now_ns.saturating_sub(moves.moved_at_ns.get()) < SOON_NS;
    let patience = moves.patience_slices.get().max(PATIENCE_SLICES);
    let patience = if came_soon { 2 * patience } else { PATIENCE_SLICES.max(patience / 2) };
    moves.patience_slices.set(patience.min(PATIENCE_SLICES_MAX));
    moves.home.set(1 + u32::from(cpu.id.0));
    moves.unused_slices.set(0);
    moves.there.set(moves.there.get() + 1);
    moves.moved_at_ns.set(now_ns);
    moves.on_way.set(1);
    moves.used.set(1);
}

/// The slice of the running thread has ended. `true`: it has gone back, and no longer belongs to this core.
#[inline(always)]
pub fn end_slice<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> bool {
    thread.needs.get() != 0 && end_slice_of_needy(cpu, thread)
}

#[cold]
fn end_slice_of_needy<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> bool {
    if of_thread::<M>(thread).is_empty() || thread.promised.get() != 0 {
        // It runs a function of another ISA than what it needs is of; or it keeps what it needs.
        return false;
    }
    let moves = &thread.moves;
    if uses_vectors::<M>(of_thread::<M>(thread)) && cpu.machine.are_vectors_open() {
        // Its next use traps, and is seen so.
        handover::close_vectors(cpu, thread);
        if cpu.machine.are_vectors_open() {
            // It cannot be without them now, and no use is seen.
            moves.used.set(1);
        }
    }
    if moves.used.get() != 0 {
        moves.used.set(0);
        moves.unused_slices.set(0);
        return false;
    }
    let unused = moves.unused_slices.get().saturating_add(1);
    moves.unused_slices.set(unused);
    if moves.stays.get() != 0 || unused < moves.patience_slices.get() && !run_queue::has_ready(cpu.own) {
        return false;
    }
    // Others wait: one slice without use is enough, unless the thread has come and gone before.
    if unused < moves.patience_slices.get() && moves.patience_slices.get() > PATIENCE_SLICES {
        moves.stayed.set(moves.stayed.get() + 1);
        return false;
    }
    ability::set_needs(cpu, thread, ExtensionSet::empty(M::ISA));
    goes_back(cpu, thread)
}

/// The running thread, which needs nothing any more, leaves this core to others, if there is one for it that has less to do. `true`: it has.
pub fn goes_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> bool {
    let Some(target) = home_of(cpu, thread) else { return false };
    let moves = &thread.moves;
    moves.back.set(moves.back.get() + 1);
    moves.moved_at_ns.set(cpu.now_ns());
    handover::move_to(cpu, thread, target);
    true
}

/// Where it came from, if that core has nothing to do; else the core that has least to do, if that is less than here, or its affinity does
/// not have this one.
fn home_of<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<CoreId> {
    let home = thread.moves.home.get().checked_sub(1).and_then(CoreId::from_raw);
    let is_free = |core: &CoreId| {
        let is_able = run_queue::allowed(cpu.ability.peers(), *core) && run_queue::allowed(affinity(thread), *core);
        *core != cpu.id && is_able && direct::sleeps(cpu, *core)
    };
    home.filter(is_free).or_else(|| {
        let best = ability::least_loaded(cpu, M::ISA, affinity(thread))?;
        let is_away = !run_queue::allowed(affinity(thread), cpu.id);
        (best != cpu.id && (is_away || run_queue::load(cpu, best) < run_queue::load(cpu, cpu.id))).then_some(best)
    })
}

/// This core was rung while a thread ran that needs nothing: it makes room for one that needs what only some cores have. `true`:
/// it no longer belongs to this core.
pub fn gives_way<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> bool {
    if cpu.own.scarce.get() == 0 || !of_thread::<M>(thread).is_empty() || !run_queue::has_ready(cpu.own) {
        return false;
    }
    if !goes_back(cpu, thread) {
        handover::yield_core(cpu, thread);
    }
    true
}

/// A thread that needs what only some cores have was handed to a core: that is rung if it runs one that does not.
pub fn ask_for_way<M: Machine>(cpu: &Cpu<M>, core: CoreId) {
    let record = core_record(cpu, core);
    let running = record.current_thread.load(motet_layout::sync::Ordering::SeqCst);
    let Some(running) = cpu.object::<ThreadRecord>(running) else { return };
    if core != cpu.id && of_thread::<M>(running).is_empty() {
        cpu.ring(core);
    }
}
