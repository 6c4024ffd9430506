//! Ends: a half ends, and the other one is told.

use motet_hal::Machine;
use motet_layout::{
    AWAY_END, AWAY_NOTHING, AWAY_SYSTEM_CALL, AwayRecord, PoolAddr, ProcessRecord, SpaceRecord, ThreadRecord,
    WAKE_SIGNAL, sync::Ordering,
};
use motet_protocol::{
    Context,
    peer::{
        Malformed,
        bodies::{TaskExitOrigin, TaskExitRemote},
    },
    slab, threads, wait,
};

use super::{all, half, is_remote, kept_of, with};
use crate::{
    cpu::Cpu,
    handover,
    mm::kept,
    peers, signal,
    tree::{for_each, for_each_thread, lock_tree},
};

/// A thread ends, with `status` as wait tells it: its other halves end, too. What it knew of them is freed.
#[cold]
pub fn end_of_half<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, status: u32) {
    if is_remote(thread) {
        thread.garbage.set(0);
    }
    all(cpu, thread).for_each(|away| tell(cpu, away, status));
    forget(cpu, thread);
}

/// Frees what a thread knows of its other halves: it ends, or executes another program, which nobody is away for.
pub fn forget<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    while let Some(away) = all(cpu, thread).next() {
        {
            let _tree = lock_tree(cpu);
            thread.away.store(away.next.get(), Ordering::Release);
        }
        away.thread.set(0);
        slab::free(cpu, away);
    }
}

fn tell<M: Machine>(cpu: &Cpu<M>, away: &AwayRecord, status: u32) {
    let (node, peer) = (away.node.get(), away.peer.load(Ordering::Acquire));
    if peer == 0 {
        return;
    }
    let kept = kept_of(cpu, away);
    if away.is_remote.get() == 0 {
        let pid = kept.map_or(0, |kept| kept.pids[node as usize].load(Ordering::Acquire));
        let _is_told = peers::post(cpu, node, &TaskExitOrigin { pid: pid.into(), tid: peer.into(), rest: [0; 4] });
    } else if kept.is_none_or(|kept| kept.is_ending.load(Ordering::Acquire) == 0) {
        let signal = if status & 0x7f != 0 { status & 0x7f } else { signal::SIGKILL };
        let _is_told =
            peers::post(cpu, node, &TaskExitRemote { tid: peer.into(), signal: signal.into(), rest: [0; 4] });
    }
}

/// A thread, or a process (`tid` 0), has ended at home: so do its remotes here. The tree lock is held.
///
/// # Errors
/// It is no remote of that kernel.
pub fn ended_at_home<M: Machine>(cpu: &Cpu<M>, node: u32, body: &TaskExitOrigin) -> Result<(), Malformed> {
    let tid = if body.tid.get() != 0 { body.tid.get() } else { body.pid.get() };
    let Some(thread) = threads::lookup(cpu, tid) else { return Ok(()) };
    let Some(process) = cpu.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed)) else { return Ok(()) };
    if body.tid.get() != 0 {
        let Some(away) = half(cpu, node, tid)?.filter(|away| away.is_remote.get() != 0) else { return Ok(()) };
        away.peer.store(0, Ordering::Release); // nobody is told
        end(cpu, thread);
        return Ok(());
    }
    let space = cpu.object(process.space.load(Ordering::Relaxed));
    let Some(kept) = space.and_then(|space| kept::of(cpu, space)) else { return Ok(()) };
    if kept.home.get() != node || !kept::is_remote(cpu, kept) {
        return Err(Malformed::Unasked);
    }
    kept.is_ending.store(1, Ordering::Release);
    for_each_thread(cpu, process, |thread| end(cpu, thread));
    Ok(())
}

/// Asks a remote to end. The tree lock is held.
pub fn end<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    thread.kill.store(1, Ordering::Relaxed);
    thread.attention.store(1, Ordering::Release);
    signal::resume_stopped(cpu, thread);
    if !wait::wake_thread(cpu, thread, WAKE_SIGNAL) {
        handover::nudge(cpu, thread);
    }
}

/// A remote has ended: the thread finds that where it waits for it. The tree lock is held.
///
/// # Errors
/// It was no remote of a thread of this kernel.
pub fn ended_away<M: Machine>(cpu: &Cpu<M>, node: u32, body: &TaskExitRemote) -> Result<(), Malformed> {
    let Some(away) = half(cpu, node, body.tid.get())? else { return Ok(()) };
    if away.is_remote.get() != 0 {
        return Err(Malformed::Unasked);
    }
    away.peer.store(0, Ordering::Release);
    if away.in_call.get() != 0
        && let Some(thread) = cpu.object::<ThreadRecord>(away.thread.get())
    {
        // It is in the middle of a call for it, which may take for ever.
        signal::send_to_thread_locked(cpu, thread, signal::SIGKILL, signal::Origin::KERNEL);
        return Ok(());
    }
    // Whatever came before, nobody goes on with it.
    away.words[0].set(u64::from(body.signal.get()));
    away.came.store(AWAY_END, Ordering::Release);
    wait::wake(cpu, &away.waiters);
    Ok(())
}

/// The first core: processes end about which a message was lost, for want of memory.
pub fn end_damaged<M: Machine>(cpu: &Cpu<M>) {
    let has_damaged = &peers::of(cpu).has_damaged;
    if has_damaged.load(Ordering::Relaxed) == 0 {
        return;
    }
    has_damaged.swap(0, Ordering::AcqRel);
    let _tree = lock_tree(cpu);
    for_each(cpu, |process| {
        let space = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed));
        if space.is_some_and(|space| kept::is_damaged(cpu, space)) {
            let pid = process.pid.get();
            cpu.log(format_args!("process {pid} ends: there is no memory for what kernels say about its pages"));
            signal::send_locked(cpu, process, signal::SIGKILL, signal::Origin::KERNEL);
        }
    });
}

/// A kernel has died: threads whose other half was there end, and so do remotes of its processes. Pages that it alone had are lost; `wake` is told what threads wait at
/// for pages.
#[cold]
pub fn lost<M: Machine>(cpu: &Cpu<M>, node: u32, wake: impl Fn(PoolAddr)) {
    let _tree = lock_tree(cpu);
    kept::remotes(cpu, node).for_each(|kept| {
        let pid = kept.pids[peers::own_node(cpu) as usize].load(Ordering::Acquire);
        let _is_known = ended_at_home(cpu, node, &TaskExitOrigin { pid: pid.into(), tid: 0.into(), rest: [0; 4] });
    });
    for_each(cpu, |process| {
        for_each_thread(cpu, process, |thread| {
            let half = with(cpu, thread, node).filter(|away| away.is_remote.get() == 0);
            if half.is_some_and(|away| matches!(away.came.load(Ordering::Acquire), AWAY_NOTHING | AWAY_SYSTEM_CALL)) {
                let ended =
                    TaskExitRemote { tid: thread.tid.get().into(), signal: signal::SIGKILL.into(), rest: [0; 4] };
                let _is_known = ended_away(cpu, node, &ended);
            }
        });
        if let Some(space) = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed)) {
            kept::lose(cpu, space, node, &wake);
        }
    });
}
