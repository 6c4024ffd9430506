//! Repair of the process tree, when a core has died with its lock held.
//!
//! The truth is in a few words: which threads are in the table, each one's process and state, each process's id (which it has from when it is in the tree), its
//! parent and its state. The rest is derived from them: the lists of children, the tree of groups, and the counts of threads, of users' tasks and of known
//! signals are made anew, and so are the trees of timers. Changes that were begun are made once more: a thread that was leaving its process, a process that was ending.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{PROCESS_ALIVE, PROCESS_ZOMBIE, THREAD_DEAD, THREAD_ENDING, ThreadRecord, UserRecord};
use motet_protocol::{Context, groups, slab, threads};

use super::exit;
use crate::{
    cpu::Cpu,
    signal::{self, Pending},
    tree::{adopt, for_each, for_each_thread, is_listed, link_thread, parent_of, process_of, repair_threads},
};

/// Repairs the tree, whose lock a dead core held and this one has now.
pub fn recover<M: Machine>(cpu: &Cpu<M>) {
    repair_table(cpu);
    for_each(cpu, |process| repair_threads(cpu, process));
    for thread in threads::all(cpu) {
        repair_thread(cpu, thread);
    }
    repair_children(cpu);
    signal::timers::repair_trees(cpu);
    repair_signals(cpu);
    signal::repair_timers(cpu);
    count_users(cpu);
    for_each(cpu, |process| {
        let has_ended = process.state.load(Ordering::Relaxed) == PROCESS_ALIVE && process.threads.get() == 0;
        if has_ended || process.state.load(Ordering::Relaxed) == PROCESS_ZOMBIE {
            exit::end_again(cpu, process, has_ended);
        }
    });
}

/// A program's only thread was becoming its process's first one.
fn repair_table<M: Machine>(cpu: &Cpu<M>) {
    for tid in 1..cpu.pool.header().threads_high.load(Ordering::Relaxed) {
        let Some(thread) = threads::lookup(cpu, tid).filter(|thread| thread.tid.get() != tid) else { continue };
        if process_of(cpu, thread).pid.get() == tid {
            let before = thread.tid.get();
            thread.tid.set(tid);
            if threads::lookup(cpu, before).is_some_and(|other| core::ptr::eq(other, thread)) {
                threads::unregister(cpu, before);
            }
        } else {
            threads::unregister(cpu, tid);
        }
    }
}

/// A thread was leaving its process.
fn repair_thread<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let process = process_of(cpu, thread);
    match thread.state.load(Ordering::SeqCst) {
        // Whoever ends the threads of dead cores lets it leave again.
        THREAD_ENDING if !is_listed(cpu, process, thread) => {
            link_thread(cpu, process, thread);
        }
        THREAD_DEAD if thread.tid.get() != process.pid.get() => {
            threads::unregister(cpu, thread.tid.get());
            slab::free(cpu, thread);
        }
        _ => {}
    }
}

/// What is known of pending signals.
fn repair_signals<M: Machine>(cpu: &Cpu<M>) {
    for_each(cpu, |process| Pending::of_process(process).repair(cpu));
    for thread in threads::all(cpu) {
        Pending::of_thread(thread).repair(cpu);
    }
}

/// Who is whose child its parent's address says, and who is in which group its own word.
fn repair_children<M: Machine>(cpu: &Cpu<M>) {
    groups::clear(cpu);
    for_each(cpu, |process| {
        groups::enter(cpu, process);
        process.first_child.set(0);
        let mut threads = 0;
        for_each_thread(cpu, process, |_| threads += 1);
        process.thread_count.store(threads, Ordering::Relaxed);
    });
    for_each(cpu, |process| {
        if let Some(parent) = parent_of(cpu, process) {
            adopt(cpu, parent, process);
        }
    });
}

fn count_users<M: Machine>(cpu: &Cpu<M>) {
    let mut at = cpu.object::<UserRecord>(cpu.pool.header().users.get());
    while let Some(user) = at {
        user.tasks.store(0, Ordering::Relaxed);
        user.timers.set(0);
        at = cpu.object(user.next.get());
    }
    for_each(cpu, |process| {
        if let Some(user) = cpu.object::<UserRecord>(process.user.get()) {
            user.tasks.fetch_add(process.thread_count.load(Ordering::Relaxed).max(1), Ordering::Relaxed);
        }
    });
    for timer in signal::timers::all(cpu) {
        if let Some(user) = cpu.object::<UserRecord>(timer.user.get()) {
            user.timers.set(user.timers.get() + 1);
        }
    }
}
