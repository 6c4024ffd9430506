//! The end of threads and processes.

use core::sync::atomic::Ordering;

use motet_abi::{process::WaitStatus, registers, signal::SI_USER};
use motet_hal::Machine;
use motet_layout::{
    PROCESS_ALIVE, PROCESS_ZOMBIE, ProcessRecord, SignalActions, Stage, THREAD_DEAD, THREAD_ENDING, ThreadRecord,
    WAKE_SIGNAL,
};
use motet_protocol::{Context, groups, schedule, slab, threads, timer, wait};

use super::limits;
use crate::{
    ability, away,
    call::{Call, Stop, SysResult, cost},
    chain::{self, stack},
    console,
    cpu::Cpu,
    cputime, due, file, futex, handover, ipc,
    kinds::service,
    mm,
    signal::{self, Origin, stopping},
    time,
    tree::{self, adopt, disown, for_each_thread, lock_tree, parent_of, users},
};

/// Children that are given away while the tree is locked once.
const CHILDREN_AT_ONCE: usize = 16;

/// `exit(status)`: ends the thread.
pub fn exit<M: Machine>(call: &Call<M>) -> SysResult {
    // Nobody waits for it later.
    if call.thread.clear_child_tid.get() != 0 {
        call.await_pages(call.thread.clear_child_tid.get(), 4)?;
    }
    futex::await_release(call)?;
    let status = WaitStatus::Exited(call.args[0] as u8).encode();
    end_thread(call.cpu, call.thread, call.process, status);
    Err(Stop::Gone)
}

/// `exit_group(status)`: ends the process.
pub fn exit_group<M: Machine>(call: &Call<M>) -> SysResult {
    futex::await_release(call)?;
    let status = WaitStatus::Exited(call.args[0] as u8).encode();
    end_process(call.cpu, call.thread, call.process, status);
    Err(Stop::Gone)
}

/// Ends the process of the running thread as killed by `signal`. The thread is gone afterwards.
pub fn exit_group_by_signal<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    signal: u32,
) {
    end_process(cpu, thread, process, signal);
}

/// Asks every other thread of the process to end, with `status` as the process's, and ends the running one.
fn end_process<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord, status: u32) {
    begin_end_of_process(cpu, thread, process, status);
    end_thread(cpu, thread, process, status);
}

/// Asks every other thread of the process to end, with `status` as the process's.
pub fn begin_end_of_process<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord, status: u32) {
    if process.exiting.swap(1, Ordering::AcqRel) == 0 {
        process.exit_status.store(status, Ordering::Relaxed);
    }
    kill_other_threads(cpu, thread, process);
}

/// Asks the other threads of a process to end.
pub fn kill_other_threads<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord) {
    let _tree = lock_tree(cpu);
    for_each_thread(cpu, process, |other| {
        if !core::ptr::eq(other, thread) {
            other.kill.store(1, Ordering::Relaxed);
            other.attention.store(1, Ordering::Release);
            signal::resume_stopped(cpu, other);
            if !wait::wake_thread(cpu, other, WAKE_SIGNAL) {
                handover::nudge(cpu, other);
            }
        }
    });
}

/// Ends the running thread; the last one ends the process.
pub fn end_thread<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    status: u32,
) {
    let isa = registers::frame_isa(&thread.frame);
    due::spend_locked(cpu, cost::STEP);
    futex::release_of_thread(&Call { cpu, thread, process, args: [0; 6], isa });
    service::release_of_thread(cpu, thread);
    if schedule::of(thread).is_realtime() {
        cpu.due.forget_urgent(u64::MAX);
    }
    due::spend_locked(cpu, cost::STEP);
    cputime::charge(cpu, thread);
    limits::check_cpu_time(cpu, thread);
    wait::finish(cpu, thread);
    timer::disarm(cpu, &thread.timer);
    file::call_ended(cpu, thread);
    cpu.handover.forget();
    if thread.away.load(Ordering::Relaxed) != 0 {
        away::end_of_half(cpu, thread, status);
    }
    thread.state.store(THREAD_ENDING, Ordering::Relaxed);
    // Without others, the stacks go with the space.
    if process.thread_count.load(Ordering::Relaxed) > 1 {
        stack::release_stacks(cpu, thread, mm::space_of(cpu, process));
    }
    mm::deactivate(cpu);
    chain::forget(cpu, thread);
    ability::release_area(cpu, thread);
    thread.stage.set(Stage::ENDS);
    thread.scratch[0].set(u64::from(status));
    go_on(cpu, thread, process);
}

/// Continues the end of a thread. Afterwards the thread is gone; or other work is due, and the thread is among this core's ready threads, and its end
/// will be continued later. In between, all its data are consistent: if this core dies, another one can continue.
pub fn go_on<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    mm::deactivate(cpu);
    thread.state.store(THREAD_ENDING, Ordering::Relaxed);
    let is_gone = give_back(cpu, thread, process);
    cpu.own.current_thread.store(0, Ordering::Release);
    if !is_gone {
        handover::put_back(cpu, thread);
    }
}

/// Gives back what the thread, or its process if it is the last one, has. `false`: something else is due, and some is left.
fn give_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> bool {
    if !due::free_garbage(cpu, thread) {
        return false;
    }
    if leave_others(cpu, thread, process) {
        return true;
    }
    if process.exiting.swap(1, Ordering::AcqRel) == 0 {
        process.exit_status.store(thread.scratch[0].get() as u32, Ordering::Relaxed);
    }
    time::end_alarm(cpu, process);
    time::end_timers(cpu, process);
    let is_due = || due::is_anything_due(cpu, thread);
    if !file::release_files(cpu, process, is_due) {
        return false;
    }
    console::pty::session_ended(cpu, process);
    if process.space.load(Ordering::Relaxed) != 0 {
        if !mm::give_up(cpu, mm::space_of(cpu, process), is_due) {
            return false;
        }
        mm::release(cpu, super::replace_space(cpu, process, 0));
    }
    if !ipc::leave(cpu, process, is_due) {
        return false;
    }
    due::free_garbage(cpu, thread) && give_children_away(cpu, process, is_due) && {
        let _tree = lock_tree(cpu);
        leave(cpu, thread, process, true);
        true
    }
}

/// The thread leaves its process, unless it is the last one.
fn leave_others<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> bool {
    let _tree = lock_tree(cpu);
    let others = process.threads.get() != cpu.raw(thread) || thread.sibling.get() != 0;
    if others {
        leave(cpu, thread, process, false);
    }
    others
}

/// Completes the end of a thread that a dead core had begun to end. Frees what is left of its process's memory.
pub fn finish<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    chain::forget(cpu, thread);
    ability::release_area(cpu, thread);
    if leave_others(cpu, thread, process) {
        return;
    }
    time::end_alarm(cpu, process);
    time::end_timers(cpu, process);
    file::release_files(cpu, process, || false);
    console::pty::session_ended(cpu, process);
    if process.space.load(Ordering::Relaxed) != 0 {
        mm::release(cpu, super::replace_space(cpu, process, 0));
    }
    ipc::leave(cpu, process, || false);
    let _tree = lock_tree(cpu);
    leave(cpu, thread, process, true);
}

/// The thread leaves its process; with the last one, the process ends. The tree lock is held.
fn leave<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord, last: bool) {
    process.thread_count.fetch_sub(1, Ordering::AcqRel);
    process.times_ns[0].set(process.times_ns[0].get() + thread.user_ns.get());
    process.times_ns[1].set(process.times_ns[1].get() + thread.system_ns.get());
    tree::unlink_thread(cpu, process, thread);
    if !last {
        stopping::thread_leaves(cpu, process, thread);
    }
    signal::discard_pending(cpu, thread, last.then_some(process));
    thread.state.store(THREAD_DEAD, Ordering::Relaxed);
    let is_leader = thread.tid.get() == process.pid.get();
    if !is_leader {
        threads::unregister(cpu, thread.tid.get());
        slab::free(cpu, thread);
    }
    if last {
        become_zombie(cpu, process);
    } else {
        users::remove_thread(cpu, process);
        // Others take what it was told of and has not taken.
        signal::retarget(cpu, process, u64::MAX);
    }
}

/// Frees a process that never entered the tree (its clone failed), with whatever it has got already.
pub fn discard<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) {
    file::release_files(cpu, process, || false);
    if process.space.load(Ordering::Relaxed) != 0 {
        mm::release(cpu, super::replace_space(cpu, process, 0));
    }
    ipc::leave(cpu, process, || false);
    release_actions(cpu, process);
    slab::free(cpu, process);
}

/// Takes a zombie out of the tree and frees it. The tree lock is held.
pub fn reap<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) {
    disown(cpu, process);
    users::leave(cpu, process);
    groups::leave(cpu, process);
    let pid = process.pid.get();
    if let Some(leader) = threads::lookup(cpu, pid) {
        threads::unregister(cpu, pid);
        slab::free(cpu, leader);
    }
    slab::free(cpu, process);
    // It has hung up.
    wait::wake(cpu, &cpu.pool.header().process_waiters);
}

/// Senders look at the actions of a living process, under the tree lock: they go when it is a zombie, or was never born.
fn release_actions<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) {
    if let Some(actions) = cpu.object::<SignalActions>(process.actions.get()) {
        process.actions.set(0);
        signal::release_actions(cpu, actions);
    }
}

/// The process ends: its children go to the first process, a few at a time. `false`: there are more.
fn give_children_away<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, is_due: impl Fn() -> bool) -> bool {
    while process.first_child.get() != 0 {
        let more = {
            let _tree = lock_tree(cpu);
            give_some_away(cpu, process, CHILDREN_AT_ONCE)
        };
        if more && cpu.spend(CHILDREN_AT_ONCE as u64 * cost::OBJECT) && is_due() {
            return false;
        }
    }
    true
}

/// Gives up to `limit` children to the first process; whether there were that many. The tree lock is held.
fn give_some_away<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, limit: usize) -> bool {
    let heir = heir_of(cpu, process);
    for given in 0..limit {
        let Some(child) = cpu.object::<ProcessRecord>(process.first_child.get()) else {
            process.first_child.set(0); // or it names no object: another island has written that
            return given == limit;
        };
        let signal = child.death_signal.get();
        if signal != 0 {
            signal::send_locked(cpu, child, signal, Origin::sent_by(SI_USER, process));
        }
        disown(cpu, child);
        if process.first_child.get() == cpu.raw(child) {
            // It is no child: another island has written that, and the list has no end.
            cpu.say_damaged(cpu.raw(child));
            process.first_child.set(0);
        }
        let lost_tie = tree::is_tie(process, child).then(|| child.pgid.load(Ordering::Relaxed));
        match heir {
            Some(heir) => give_to(cpu, heir, child),
            None => child.parent.store(0, Ordering::Release),
        }
        if let Some(group) = lost_tie {
            signal::tell_orphans(cpu, group, None);
        }
    }
    true
}

/// Who gets a process's children: the next above it that has asked for orphans (`PR_SET_CHILD_SUBREAPER`), or else the first process. Once that
/// has ended, the run has; nobody is left.
fn heir_of<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) -> Option<&'static ProcessRecord> {
    let is_alive = |heir: &&ProcessRecord| heir.state.load(Ordering::Relaxed) == PROCESS_ALIVE;
    // As far as there can be any: another island may have made a ring of them.
    let most = cpu.pool.header().threads_high.load(Ordering::Relaxed) as usize;
    let above = core::iter::successors(parent_of(cpu, process), |above| parent_of(cpu, above)).take(most);
    let reaper = above.filter(|above| above.adopts.get() != 0).find(is_alive);
    reaper.or_else(|| tree::lookup(cpu, 1).filter(|init| !core::ptr::eq(*init, process)).filter(is_alive))
}

fn give_to<M: Machine>(cpu: &Cpu<M>, heir: &'static ProcessRecord, child: &'static ProcessRecord) {
    adopt(cpu, heir, child);
    // As on Linux: a signal that its parent wanted does not end the heir.
    child.exit_signal.set(signal::SIGCHLD);
    if child.state.load(Ordering::Relaxed) == PROCESS_ZOMBIE {
        tell_of_end(cpu, child);
    }
}

/// The last thread has gone: the parent is told. The tree lock is held.
fn become_zombie<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) {
    give_some_away(cpu, process, usize::MAX);
    // It is no stopped member of its group, whom somebody would have to tell.
    stopping::end(process);
    if parent_of(cpu, process).is_some_and(|parent| tree::is_tie(parent, process)) {
        signal::tell_orphans(cpu, process.pgid.load(Ordering::Relaxed), Some(process));
    }
    process.state.store(PROCESS_ZOMBIE, Ordering::Release);
    if let Some(parent) = parent_of(cpu, process) {
        // Who waits for any child finds it before those that live.
        disown(cpu, process);
        adopt(cpu, parent, process);
    }
    tell_of_end(cpu, process);
}

/// Tells those who wait for the end of a process. That may be done twice. The tree lock is held.
fn tell_of_end<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) {
    release_actions(cpu, process);
    wait::wake(cpu, &process.vfork_waiters);
    wait::wake(cpu, &cpu.pool.header().process_waiters);
    if process.pid.get() == 1 {
        end_run(cpu, process.exit_status.load(Ordering::Relaxed));
        return;
    }
    match parent_of(cpu, process) {
        Some(parent) => {
            let exit_signal = process.exit_signal.get();
            if exit_signal != 0 {
                let status = WaitStatus::decode(process.exit_status.load(Ordering::Relaxed));
                let times_ns = [process.times_ns[0].get(), process.times_ns[1].get()];
                signal::send_locked(cpu, parent, exit_signal, Origin::child(process, status, times_ns));
            }
            if exit_signal == signal::SIGCHLD && signal::discards_children(cpu, parent) {
                reap(cpu, process);
            }
            wait::wake(cpu, &parent.child_waiters);
        }
        None => reap(cpu, process),
    }
}

/// Finishes the end of a process that a core had begun before it died. `is_new`: the process has no threads left, and does not count as ended yet.
/// The tree lock is held.
pub(super) fn end_again<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, is_new: bool) {
    give_some_away(cpu, process, usize::MAX);
    if is_new {
        process.state.store(PROCESS_ZOMBIE, Ordering::Release);
    }
    tell_of_end(cpu, process);
}

/// The first process has ended: so does the run, with its status.
fn end_run<M: Machine>(cpu: &Cpu<M>, status: u32) {
    let code = u32::from(WaitStatus::decode(status).shell_code());
    console::flush_host_streams(cpu);
    let header = cpu.pool.header();
    if header.exit.compare_exchange(0, 1 + code, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        cpu.machine.ring_host();
    }
}
