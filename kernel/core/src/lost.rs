//! What remains when an island dies and the machine goes on: its threads, which no core runs any more.
//!
//! The host turns the island's cores off, says that the island is lost, and rings the first one, which ends the processes
//! whose threads were there: their registers are gone, or there is nobody who speaks their language. A lock that the dead
//! island has held cannot be released, since nobody knows what state its data is in: who waits for it panics
//! (`motet_protocol::lock`).

use motet_layout::sync::Ordering;

use motet_abi::signal::bit;
use motet_hal::Machine;
use motet_layout::{
    CALL_NONE, CORE_OFFLINE, CORES_PER_ISLAND_MAX, CoreId, ISLAND_BURIED, ISLAND_LOST, ISLANDS_MAX, IslandId,
    PROCESS_ALIVE, ProcessRecord, THREAD_PREPARING, THREAD_READY, THREAD_RUNNING, ThreadRecord,
};
use motet_protocol::{
    run_queue::{append, core_record},
    threads,
};

use crate::{
    cpu::Cpu,
    crossing, file,
    process::{self, exit, lock_tree},
    signal,
};

/// Ends what ran on islands that the host has said to be lost.
pub fn bury<M: Machine>(cpu: &Cpu<M>) {
    for island in (0..ISLANDS_MAX as u32).filter_map(IslandId::from_raw) {
        let state = &cpu.pool.header().islands[island.index()].state;
        if state.load(Ordering::Acquire) == ISLAND_LOST {
            state.store(ISLAND_BURIED, Ordering::SeqCst);
            bury_island(cpu, island);
        }
    }
}

fn bury_island<M: Machine>(cpu: &Cpu<M>, island: IslandId) {
    for index in 0..CORES_PER_ISLAND_MAX {
        // Again: a call may have been given to it just when the host turned it off.
        let record = core_record(cpu, CoreId::new(island, index));
        record.state.store(CORE_OFFLINE, Ordering::SeqCst);
        // Nobody takes results from there: the threads end.
        record.call.store(CALL_NONE, Ordering::SeqCst);
    }
    let _tree = lock_tree(cpu);
    for thread in threads::all(cpu) {
        let was_there = |core: CoreId| core.island() == island;
        let process = process::process_of(cpu, thread);
        let is_alive = process.state.load(Ordering::Acquire) == PROCESS_ALIVE;
        if is_alive && CoreId::from_raw(thread.core.load(Ordering::Relaxed)).is_some_and(was_there) {
            end_process(cpu, island, thread, process);
        }
    }
}

/// Ends the process of a thread that was on an island. The tree lock is held.
fn end_process<M: Machine>(
    cpu: &Cpu<M>,
    island: IslandId,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) {
    if process.pending.load(Ordering::Relaxed) & bit(signal::SIGKILL) == 0 {
        let (pid, island) = (process.pid.get(), island.index());
        file::kernel_message(cpu, format_args!("process {pid} is killed: island {island}, which it was on, has died"));
        crossing::backtrace(cpu, thread, process);
    }
    // Wakes those that wait, on a core that is left.
    signal::send_locked(cpu, process, signal::SIGKILL, 0);
    if matches!(thread.state.load(Ordering::SeqCst), THREAD_READY | THREAD_RUNNING | THREAD_PREPARING)
        && CoreId::from_raw(thread.core.load(Ordering::Relaxed)).is_some_and(|core| core.island() == island)
    {
        thread.core.store(u32::from(cpu.id.0), Ordering::Relaxed);
        thread.state.store(THREAD_READY, Ordering::Relaxed);
        append(cpu, thread);
    }
}

/// Ends a thread that this core was given and cannot run: those that could have died.
pub fn end_thread<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    if process.pending.load(Ordering::Relaxed) & bit(signal::SIGKILL) == 0 {
        let (pid, tid) = (process.pid.get(), thread.tid.get());
        file::kernel_message(
            cpu,
            format_args!("process {pid} is killed: its thread {tid} runs on islands of another kind"),
        );
    }
    exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
}
