//! The death of an island while the machine goes on: what becomes of its threads, which no core runs any more, and of its timers.
//!
//! The host sets the island's cores to offline, stores that the island is dead, and rings the first core. That core ends the processes
//! that had threads there: their registers are lost, or no core of their ISA is left. `motet_protocol::orphans` says which threads
//! these are. A lock that the dead island has held is taken over by the next core that waits for it, which repairs what the lock protects
//! (`recover`).

use motet_layout::{handshake::then_look, sync::Ordering};

use motet_abi::signal::bit;
use motet_hal::Machine;
use motet_layout::{
    CoreId, CoreRecord, ISLAND_DEAD, ISLAND_RECLAIMING, IslandId, PROCESS_ALIVE, ProcessRecord, SpaceRecord,
    THREAD_BLOCKED, THREAD_ENDING, THREAD_FREE, THREAD_PREPARING, THREAD_READY, THREAD_RUNNING, THREAD_STOPPED,
    ThreadRecord, WAKE_NONE,
};
use motet_protocol::{
    Context,
    cores::is_dead,
    ipc, lock,
    orphans::{
        begin_reclaiming, forget_places, is_orphaned, is_reclaimed, is_stranded, settle_calls, settle_transfers,
        turn_off, wait_for_all,
    },
    rejoin,
    run_queue::{append, in_transit_by, is_ready, push},
    slab, threads, timer, wait,
};

use crate::{
    ability, chain, console,
    cpu::Cpu,
    file, fpga,
    kinds::service,
    mm,
    process::exit,
    signal,
    tree::{self, lock_tree},
};

/// Ends processes that had threads on islands which the host has declared dead. This core holds no lock.
#[inline(always)]
pub fn reclaim<M: Machine>(cpu: &Cpu<M>) {
    // The islands' own words may lie in remote memory.
    if cpu.pool.header().died.load(Ordering::Acquire) != 0 {
        reclaim_all(cpu);
    }
}

#[cold]
fn reclaim_all<M: Machine>(cpu: &Cpu<M>) {
    cpu.pool.header().died.store(0, Ordering::Release);
    then_look();
    let state_of = |island: IslandId| &cpu.pool.header().islands[island.index()].state;
    let islands = || (0..cpu.pool.header().island_count.get()).filter_map(IslandId::from_raw);
    let is_dead = |island: &IslandId| state_of(*island).load(Ordering::Acquire) == ISLAND_DEAD;
    // One that dies from here on is reclaimed the next time: nobody has waited for what was begun for it.
    let dead = islands().filter(is_dead).fold(0_u32, |dead, island| dead | 1 << island.index());
    if dead == 0 {
        return;
    }
    mm::leave_before_waiting(cpu);
    begin_reclaiming(cpu);
    // What was begun before it was known comes to its end.
    wait_for_all(cpu);
    for island in islands().filter(|island| dead >> island.index() & 1 != 0) {
        turn_off(cpu, island);
        state_of(island).store(ISLAND_RECLAIMING, Ordering::Release);
    }
    settle_calls(cpu);
    if cpu.crossing.migrates() {
        cpu.note_deaths();
        settle_transfers(cpu, |record| thread_in(cpu, record));
    }
    service::settle(cpu);
    fpga::settle(cpu);
    file::hands::drop_all(cpu);
    discard_unborn(cpu);
    kill_processes(cpu);
    // Whoever was just waking one of their threads has done it now.
    wait_for_all(cpu);
    forget_places(cpu);
    file::epoll::settle(cpu);
    file::owner::settle(cpu);
    ipc::settle(cpu);
    take_threads(cpu);
    finish_threads(cpu);
    take_alarms(cpu);
    wake_waiting(cpu);
    rejoin::finish_reclaiming(cpu, dead);
    // It may be about to start the island again.
    cpu.machine.ring_host();
}

/// The core that a thread is on, if that is being reclaimed. Of an island that has died since, a living core may be about to take back a thread that it could
/// not give it.
fn dead_core<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<CoreId> {
    CoreId::from_raw(thread.core.load(Ordering::SeqCst)).filter(|&core| is_reclaimed(cpu, core))
}

/// Gives back what processes and threads have that dead cores were making: nobody else knows of them.
fn discard_unborn<M: Machine>(cpu: &Cpu<M>) {
    let is_orphaned = |thread: &&'static ThreadRecord| {
        let process = tree::process_of(cpu, thread);
        let is_in_tree = process.pid.get() != 0 && tree::is_listed(cpu, process, thread);
        thread.state.load(Ordering::SeqCst) == THREAD_FREE && dead_core(cpu, thread).is_some() && !is_in_tree
    };
    let next = || {
        let _tree = lock_tree(cpu);
        let thread = threads::all(cpu).find(is_orphaned);
        thread.inspect(|thread| threads::unregister(cpu, thread.tid.get()))
    };
    while let Some(thread) = next() {
        chain::forget(cpu, thread);
        ability::release_area(cpu, thread);
        slab::free(cpu, thread);
    }
    for process in slab::all::<ProcessRecord>(cpu) {
        let maker = process.maker.load(Ordering::Relaxed).checked_sub(1).and_then(CoreId::from_raw);
        let is_unborn = process.pid.get() == 0 && process.state.load(Ordering::Acquire) == PROCESS_ALIVE;
        if is_unborn && maker.is_some_and(|core| is_dead(cpu, core)) {
            exit::discard(cpu, process);
        }
    }
}

/// Kills the processes of threads that were on dead islands: running, called, waiting or asleep. That wakes those that wait,
/// on a core that lives.
fn kill_processes<M: Machine>(cpu: &Cpu<M>) {
    let _tree = lock_tree(cpu);
    for thread in threads::all(cpu) {
        let process = tree::process_of(cpu, thread);
        // One that is free has not started.
        let waits = matches!(thread.state.load(Ordering::SeqCst), THREAD_BLOCKED | THREAD_STOPPED | THREAD_FREE);
        let Some(core) = dead_core(cpu, thread).filter(|_| process.state.load(Ordering::Acquire) == PROCESS_ALIVE)
        else {
            continue;
        };
        if !(waits || is_active(thread) && is_orphaned(cpu, thread)) {
            continue;
        }
        if process.pending.load(Ordering::Relaxed) & bit(signal::SIGKILL) == 0 {
            let (pid, island) = (process.pid.get(), core.island().index());
            console::kernel_message(
                cpu,
                format_args!("process {pid} is killed: island {island}, which it was on, has died"),
            );
            chain::backtrace(cpu, thread, process);
        }
        signal::send_locked(cpu, process, signal::SIGKILL, signal::Origin::KERNEL);
    }
    tree::for_each(cpu, |process| {
        let space = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed));
        if space.is_some_and(|space| is_damaged(cpu, space)) {
            signal::send_locked(cpu, process, signal::SIGKILL, signal::Origin::KERNEL);
        }
    });
}

/// Whether a dead core was changing the VMAs of a space, so that there are none any more, or soon none.
fn is_damaged<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord) -> bool {
    let is_held = || lock::is_left(cpu, &space.lock);
    space.damaged.load(Ordering::SeqCst) != 0 || space.changing.get() != 0 && is_held()
}

fn is_active(thread: &ThreadRecord) -> bool {
    let state = thread.state.load(Ordering::SeqCst);
    matches!(state, THREAD_RUNNING | THREAD_PREPARING) || is_ready(state)
}

/// Whether a thread has not started.
fn is_new(thread: &ThreadRecord) -> bool {
    thread.state.load(Ordering::SeqCst) == THREAD_FREE
}

/// Lets this core have the threads that nobody has, which end here, and brings others where a dead core was bringing them.
fn take_threads<M: Machine>(cpu: &Cpu<M>) {
    let _tree = lock_tree(cpu);
    for thread in threads::all(cpu).filter(|thread| is_active(thread) || is_new(thread)) {
        if is_new(thread) && dead_core(cpu, thread).is_some() || !is_new(thread) && is_orphaned(cpu, thread) {
            thread.core.store(u32::from(cpu.id.0), Ordering::Relaxed);
            thread.state.store(THREAD_READY, Ordering::Relaxed);
            append(cpu, thread);
        } else if is_stranded(cpu, thread) {
            thread.state.store(in_transit_by(cpu.id), Ordering::Relaxed);
            let core = CoreId::from_raw(thread.core.load(Ordering::Relaxed)).unwrap_or(cpu.id);
            push(cpu, thread, core);
        }
    }
}

/// Ends threads that dead cores have begun to end.
fn finish_threads<M: Machine>(cpu: &Cpu<M>) {
    let next = || {
        let _tree = lock_tree(cpu);
        threads::all(cpu)
            .find(|thread| thread.state.load(Ordering::SeqCst) == THREAD_ENDING && dead_core(cpu, thread).is_some())
    };
    while let Some(thread) = next() {
        exit::finish(cpu, thread, tree::process_of(cpu, thread));
    }
}

/// Arms processes' timers here that were armed on dead cores. Those of waits go with their threads.
fn take_alarms<M: Machine>(cpu: &Cpu<M>) {
    let _tree = lock_tree(cpu);
    tree::for_each(cpu, |process| {
        let core = process.alarm.core.load(Ordering::Acquire).checked_sub(1).and_then(CoreId::from_raw);
        if core.is_some_and(|core| is_dead(cpu, core)) {
            timer::disarm(cpu, &process.alarm);
            timer::arm(cpu, &process.alarm, process.alarm.deadline_ns.get());
        }
    });
    signal::timers::take(cpu);
}

/// What dead cores have changed they may not have told to those who wait for it: all that wait look again.
fn wake_waiting<M: Machine>(cpu: &Cpu<M>) {
    let _tree = lock_tree(cpu);
    for thread in threads::all(cpu).filter(|thread| thread.state.load(Ordering::SeqCst) == THREAD_BLOCKED) {
        wait::wake_thread(cpu, thread, WAKE_NONE);
    }
}

/// Ends a thread that was given to this core, which cannot run it, because the cores that could have died.
pub fn end_thread<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    if process.pending.load(Ordering::Relaxed) & bit(signal::SIGKILL) == 0 {
        let (pid, tid) = (process.pid.get(), thread.tid.get());
        console::kernel_message(
            cpu,
            format_args!("process {pid} is killed: its thread {tid} runs on islands of another kind"),
        );
    }
    exit::exit_group_by_signal(cpu, thread, process, signal::SIGKILL);
}

/// The thread that a core's descriptor is of.
fn thread_in<M: Machine>(cpu: &Cpu<M>, record: &CoreRecord) -> Option<&'static ThreadRecord> {
    chain::thread_in(&record.dma_out).and_then(|thread| cpu.pool.get::<ThreadRecord>(thread))
}
