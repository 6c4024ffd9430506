//! Threads that have lost their turns: the service core has given the turns to more urgent threads, and such a thread runs no user code until it has a
//! turn again (`docs/protocols/service.md`).
//!
//! It waits at the point where it handles signals. So signals, and its end, find it as any thread that waits.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{ServiceCore, Stage, ThreadRecord, WAKE_NONE, handshake::then_look};
use motet_protocol::{
    Context,
    service::{self, ThreadIndex, clients},
    wait,
};

use crate::{cpu::Cpu, futex, handover, tree::lock_tree};

/// Prepares the running thread to wait if it has lost its turn: with this stage. `None`: it has not, or it is in a
/// call that goes on first.
#[inline(always)]
pub fn wait<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<Stage> {
    if thread.service.get() == 0 { None } else { wait_if_lost(cpu, thread) }
}

#[cold]
fn wait_if_lost<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<Stage> {
    let (core, window) = window_of(cpu, thread)?;
    let stage = thread.stage.get();
    if stage.is_user() && clients::wakes(core, window) {
        cpu.tell_service();
    }
    let has_lost = || clients::is_stopped(core, thread.service_owner.get(), window);
    if !has_lost() {
        return None;
    }
    // A long call stops in its middle. One that waits for something runs no user code meanwhile; it looks at its end.
    let is_busy =
        stage == Stage::CALL_PAUSED && (thread.deadline_ns.get() != 0 || thread.attention.load(Ordering::SeqCst) != 0);
    if is_busy || !(stage.is_user() || stage == Stage::CALL_PAUSED) {
        thread.looks_at_turn.set(1);
        return None;
    }
    wait::prepare(thread);
    futex::enqueue_shared(cpu, thread, clients::turn(cpu.pool, clients::registers(core, window)));
    if !has_lost() {
        wait::finish(cpu, thread);
        return None;
    }
    thread.deadline_ns.set(0); // outside of calls, it is an earlier one's
    Some(stage.for_turn())
}

fn window_of<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<(&'static ServiceCore, ThreadIndex)> {
    Some((service::of(cpu.pool)?, ThreadIndex::from_raw(thread.service.get())?))
}

/// A thread is about to wait in a system call: others may have its turn meanwhile, unless it waits for the core's answer, of which the core
/// knows. (Whatever lock of a library's it waits for, a thread without a turn may hold.)
#[inline(always)]
pub fn sleeps<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    if thread.service.get() != 0 {
        say_that_it_sleeps(cpu, thread);
    }
}

#[cold]
fn say_that_it_sleeps<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    let Some((core, window)) = window_of(cpu, thread) else { return };
    let (answer, node) = (clients::futex(cpu.pool, clients::registers(core, window)), &thread.nodes[0]);
    if node.queue.load(Ordering::Relaxed) != 0 && node.key.get() == answer.0 {
        return;
    }
    thread.looks_at_turn.set(1);
    if clients::sleeps(core, window) {
        cpu.tell_service();
    }
}

/// The thread runs again that has waited outside of calls, or in the middle of one's work: for whatever it was woken, it looks at its turn and its
/// signals.
#[cold]
pub fn waited(thread: &ThreadRecord) {
    let stage = thread.stage.get();
    thread.stage.set(stage.before());
    if stage.looks_again() {
        thread.wake_reason.store(WAKE_NONE, Ordering::Relaxed);
        thread.attention.store(1, Ordering::Release);
    }
}

/// The service core says that a thread has lost its turn, or has one again.
pub fn changed<M: Machine>(cpu: &Cpu<M>, core: &'static ServiceCore, window: ThreadIndex) {
    if !clients::has_lost_turn(core, window) {
        return futex::wake_shared(cpu, clients::turn(cpu.pool, clients::registers(core, window)));
    }
    // The lock keeps the thread from going.
    let _tree = lock_tree(cpu);
    let bound = clients::kernel_thread(core, window).load(Ordering::SeqCst);
    let thread = cpu.object::<ThreadRecord>(bound);
    if let Some(thread) = thread.filter(|thread| thread.service.get() == window.raw()) {
        thread.attention.store(1, Ordering::Release);
        then_look(); // where it runs
        handover::nudge(cpu, thread);
    }
}
