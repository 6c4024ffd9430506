//! The tree of processes and their threads: parents, children, and limits. `process` has how they begin and end.

pub mod limits;
pub mod users;

pub use limits::{STACK_DEFAULT, hard_limit_of, limit_of};

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{PROCESS_ALIVE, PoolAddr, ProcessRecord, ThreadRecord, in_order};
use motet_protocol::{
    Context,
    lock::{Guard, lock},
};

use crate::{
    call::{Call, cost},
    cpu::Cpu,
    cputime, due,
};

/// Takes the process-tree lock: parents, children, thread lists, process groups, and the life of thread objects.
pub fn lock_tree<M: Machine>(cpu: &Cpu<M>) -> Guard<'static> {
    lock(cpu, &cpu.pool.header().tree_lock)
}

/// The process of a thread.
pub fn process_of<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> &'static ProcessRecord {
    cpu.pool.at(PoolAddr(thread.process.load(Ordering::Relaxed)))
}

/// Nanoseconds of user and system time of a process: finished threads and living ones as last charged.
pub fn times_ns<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> (u64, u64) {
    let (mut user, mut system) = (process.times_ns[0].get(), process.times_ns[1].get());
    let mut at = cpu.object::<ThreadRecord>(process.threads.get());
    while let Some(thread) = at {
        user += thread.user_ns.get();
        system += thread.system_ns.get();
        at = cpu.object(thread.sibling.get());
    }
    (user, system)
}

/// The same of the calling process, with the calling thread charged until now: never less than before, because it is made of
/// sums that only grow, whatever clocks the intervals in them were measured with.
pub fn charged_times_ns<M: Machine>(call: &Call<M>) -> (u64, u64) {
    cputime::charge(call.cpu, call.thread);
    // A thread that ends hands its times over.
    let _tree = lock_tree(call.cpu);
    times_ns(call.cpu, call.process)
}

/// Calls `each` with the threads of a process. The tree lock is held.
pub fn for_each_thread<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, mut each: impl FnMut(&'static ThreadRecord)) {
    any_thread(cpu, process, |thread| {
        each(thread);
        false
    });
}

/// Whether `is` is true of a thread of the process; it is called until then. The tree lock is held.
pub fn any_thread<M: Machine>(
    cpu: &Cpu<M>,
    process: &ProcessRecord,
    mut is: impl FnMut(&'static ThreadRecord) -> bool,
) -> bool {
    let mut at = cpu.object::<ThreadRecord>(process.threads.get());
    while let Some(thread) = at {
        at = cpu.object(thread.sibling.get());
        if is(thread) {
            return true;
        }
        due::spend_locked(cpu, cost::OBJECT);
    }
    false
}

/// Makes a thread the first one of its process. The tree lock is held, as for all that follow.
pub fn link_thread<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, thread: &'static ThreadRecord) {
    let next = process.threads.get();
    thread.sibling_before.set(0);
    thread.sibling.set(next);
    in_order();
    process.threads.set(cpu.raw(thread));
    if let Some(next) = cpu.object::<ThreadRecord>(next) {
        next.sibling_before.set(cpu.raw(thread));
    }
}

/// Takes a thread out of its process's list, if it is there.
pub fn unlink_thread<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, thread: &'static ThreadRecord) {
    if !is_listed(cpu, process, thread) {
        return;
    }
    let (before, next) = (thread.sibling_before.get(), thread.sibling.get());
    match cpu.object::<ThreadRecord>(before) {
        Some(before) => before.sibling.set(next),
        None => process.threads.set(next),
    }
    in_order();
    if let Some(next) = cpu.object::<ThreadRecord>(next) {
        next.sibling_before.set(before);
    }
}

/// Whether a thread is in its process's list.
pub fn is_listed<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, thread: &'static ThreadRecord) -> bool {
    let before = cpu.object::<ThreadRecord>(thread.sibling_before.get());
    before.map_or(process.threads.get(), |before| before.sibling.get()) == cpu.raw(thread)
}

/// Makes the links back of a process's list of threads anew, by those forward.
pub fn repair_threads<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) {
    let mut before = 0;
    for_each_thread(cpu, process, |thread| {
        thread.sibling_before.set(before);
        before = cpu.raw(thread);
    });
}

/// The children of a process. The tree lock is held.
pub fn children<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> impl Iterator<Item = &'static ProcessRecord> {
    let first = cpu.object::<ProcessRecord>(process.first_child.get());
    core::iter::successors(first, |child| cpu.object(child.next_sibling.get()))
}

/// The process with that id. The tree lock is held.
pub fn lookup<M: Machine>(cpu: &Cpu<M>, pid: u32) -> Option<&'static ProcessRecord> {
    let thread = motet_protocol::threads::lookup(cpu, pid)?;
    let process = process_of(cpu, thread);
    (process.pid.get() == pid).then_some(process)
}

/// The process that a thread with that id is of, which may be a zombie. The tree lock is held.
pub fn with_thread<M: Machine>(cpu: &Cpu<M>, tid: u32) -> Option<&'static ProcessRecord> {
    motet_protocol::threads::lookup(cpu, tid)
        .map(|thread| process_of(cpu, thread))
        .filter(|process| process.pid.get() != 0)
}

/// Whether no member of a group but `gone` has a parent in another group of its session, who could continue it: such groups are not stopped from
/// the terminal. The tree lock is held.
pub fn is_orphaned<M: Machine>(cpu: &Cpu<M>, pgid: u32, gone: Option<&ProcessRecord>) -> bool {
    let mut has_tie = false;
    for_each(cpu, |process| {
        let counts = process.pgid.load(Ordering::Relaxed) == pgid
            && process.state.load(Ordering::Relaxed) == PROCESS_ALIVE
            && !gone.is_some_and(|gone| core::ptr::eq(gone, process));
        has_tie |= counts && parent_of(cpu, process).is_some_and(|parent| is_tie(parent, process));
    });
    !has_tie
}

/// Whether a parent is in another group of the same session.
pub fn is_tie(parent: &ProcessRecord, child: &ProcessRecord) -> bool {
    parent.pgid.load(Ordering::Relaxed) != child.pgid.load(Ordering::Relaxed)
        && parent.sid.load(Ordering::Relaxed) == child.sid.load(Ordering::Relaxed)
}

/// Calls `each` with every process. The tree lock is held, all the time: of processes that fork meanwhile none escapes. What
/// is due of the core is done in between, as far as it can be ([`due::spend_locked`]).
pub fn for_each<M: Machine>(cpu: &Cpu<M>, mut each: impl FnMut(&'static ProcessRecord)) {
    for thread in motet_protocol::threads::all(cpu) {
        let process = process_of(cpu, thread);
        if process.pid.get() == thread.tid.get() {
            each(process);
        }
        due::spend_locked(cpu, cost::OBJECT);
    }
}

/// Makes `child` a child of `parent`. The tree lock is held.
pub fn adopt<M: Machine>(cpu: &Cpu<M>, parent: &'static ProcessRecord, child: &'static ProcessRecord) {
    let first = parent.first_child.get();
    child.parent.store(cpu.raw(parent), Ordering::Release);
    child.prev_sibling.set(0);
    child.next_sibling.set(first);
    if let Some(first) = cpu.object::<ProcessRecord>(first) {
        first.prev_sibling.set(cpu.raw(child));
    }
    parent.first_child.set(cpu.raw(child));
}

/// Takes `child` out of its parent's list. The tree lock is held.
pub fn disown<M: Machine>(cpu: &Cpu<M>, child: &'static ProcessRecord) {
    let (prev, next) = (child.prev_sibling.get(), child.next_sibling.get());
    match (cpu.object::<ProcessRecord>(prev), parent_of(cpu, child)) {
        (Some(prev), _) => prev.next_sibling.set(next),
        (None, Some(parent)) => parent.first_child.set(next),
        (None, None) => {}
    }
    if let Some(next) = cpu.object::<ProcessRecord>(next) {
        next.prev_sibling.set(prev);
    }
}

/// The parent.
pub fn parent_of<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> Option<&'static ProcessRecord> {
    cpu.object(process.parent.load(Ordering::Acquire))
}
