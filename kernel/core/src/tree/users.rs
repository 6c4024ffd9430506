//! How many threads each user has over all processes, which `RLIMIT_NPROC` limits (getrlimit(2)).
//!
//! A process is counted for its real user from when it is in the tree until it is reaped: its threads, and one for a process that
//! waits for that. All of it happens under the tree lock; the number is read without it. Open files of a user that are in packets which wait are counted, too
//! (unix(7), `ETOOMANYREFS`).

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{ProcessRecord, UserRecord};
use motet_protocol::{Context, slab};

use crate::cpu::Cpu;

/// The threads of a process's real user.
pub fn tasks<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> u64 {
    user_of(cpu, process).map_or(0, |user| user.tasks.load(Ordering::Relaxed).into())
}

/// Counts a process that enters the tree, with its first thread. Most have the user of `relative`.
pub fn enter<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, relative: Option<&ProcessRecord>) {
    let id = process.credentials.users[0].get();
    let known = relative.and_then(|relative| user_of(cpu, relative)).filter(|user| user.id.get() == id);
    move_to(cpu, process, known.or_else(|| find_or_make(cpu, id)), 1);
}

/// Counts one more thread of a process.
pub fn add_thread<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) {
    if let Some(user) = user_of(cpu, process) {
        user.tasks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Uncounts a thread that has ended and is not its process's last one.
pub fn remove_thread<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) {
    remove(cpu, process, 1);
}

/// Uncounts a process that is reaped.
pub fn leave<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) {
    remove(cpu, process, 1);
    process.user.set(0);
}

/// Moves a process's counts to its real user, if that has changed.
pub fn follow<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) {
    let id = process.credentials.users[0].get();
    if user_of(cpu, process).is_some_and(|user| user.id.get() == id) {
        return;
    }
    let tasks = process.thread_count.load(Ordering::Relaxed);
    remove(cpu, process, tasks);
    move_to(cpu, process, find_or_make(cpu, id), tasks);
}

fn user_of<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> Option<&'static UserRecord> {
    cpu.object(process.user.get())
}

/// `None`, which is when there is no memory: the process is counted nowhere.
fn move_to<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, user: Option<&'static UserRecord>, tasks: u32) {
    process.user.set(user.map_or(0, |user| cpu.raw(user)));
    if let Some(user) = user {
        user.tasks.fetch_add(tasks, Ordering::Relaxed);
    }
}

fn find_or_make<M: Machine>(cpu: &Cpu<M>, id: u32) -> Option<&'static UserRecord> {
    let first = &cpu.pool.header().users;
    let mut at = cpu.object::<UserRecord>(first.get());
    while let Some(user) = at {
        if user.id.get() == id {
            return Some(user);
        }
        at = cpu.object(user.next.get());
    }
    let user = slab::alloc::<UserRecord>(cpu)?;
    user.id.set(id);
    user.next.set(first.get());
    first.set(cpu.raw(user));
    Some(user)
}

/// Takes threads off the count of a process's user, who goes with the last one.
fn remove<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, tasks: u32) {
    let Some(user) = user_of(cpu, process) else { return };
    if user.tasks.fetch_sub(tasks, Ordering::Relaxed) <= tasks {
        forget_unused(cpu, user);
    }
}

/// The open files of a process's user that are in packets.
pub fn in_flight<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> u64 {
    user_of(cpu, process).map_or(0, |user| user.in_flight.load(Ordering::Relaxed).into())
}

/// Counts open files that a process sends; whose they are (0: they are counted nowhere).
pub fn send_files<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, count: u32) -> u64 {
    let _tree = super::lock_tree(cpu);
    let Some(user) = user_of(cpu, process) else { return 0 };
    user.in_flight.fetch_add(count, Ordering::Relaxed);
    cpu.raw(user)
}

/// Uncounts open files that were received, or that nobody receives any more.
pub fn take_files<M: Machine>(cpu: &Cpu<M>, user: u64, count: u32) {
    let Some(user) = cpu.object::<UserRecord>(user) else { return };
    if user.in_flight.fetch_sub(count, Ordering::Relaxed) <= count {
        let _tree = super::lock_tree(cpu);
        forget_unused(cpu, user);
    }
}

/// Counts a POSIX timer that a process makes, of which its user may have `limit`; whose it is (0: it is counted nowhere). The tree lock is held. `None`: the user
/// has that many.
pub fn add_timer<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, limit: u64) -> Option<u64> {
    let Some(user) = user_of(cpu, process) else { return Some(0) };
    if u64::from(user.timers.get()) >= limit {
        return None;
    }
    user.timers.set(user.timers.get() + 1);
    Some(cpu.raw(user))
}

/// Uncounts a POSIX timer. The tree lock is held.
pub fn remove_timer<M: Machine>(cpu: &Cpu<M>, user: u64) {
    let Some(user) = cpu.object::<UserRecord>(user) else { return };
    user.timers.set(user.timers.get().saturating_sub(1));
    forget_unused(cpu, user);
}

/// Forgets a user who has no process any more, no timer, and nothing in flight, unless that was done. The tree lock is held.
fn forget_unused<M: Machine>(cpu: &Cpu<M>, user: &'static UserRecord) {
    let in_use = [user.tasks.load(Ordering::Relaxed), user.in_flight.load(Ordering::Relaxed), user.timers.get()];
    if in_use != [0; 3] {
        return;
    }
    let mut slot = &cpu.pool.header().users;
    while let Some(other) = cpu.object::<UserRecord>(slot.get()) {
        if core::ptr::eq(other, user) {
            slot.set(user.next.get());
            slab::free(cpu, user);
            return;
        }
        slot = &other.next;
    }
}
