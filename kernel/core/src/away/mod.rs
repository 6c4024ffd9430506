//! Threads that are in two kernels: what a half knows of its other one, and what comes from there (`docs/protocols/away.md`).
//!
//! A thread of this kernel that calls a function of another one is *at home* here and waits; its other half there, a *remote*, runs the function. One of both runs at any
//! time, so at most one thing comes that the other has not taken.
//!
//! | file | |
//! |---|---|
//! | `calls` | a remote's system calls are made at home |
//! | `carriers` | which messages carry them |
//! | `ends` | a half, or its process, ends |

mod calls;
mod carriers;
mod ends;

pub use calls::{begin_call, call_of, forward, reply, result_came, take_call, wanted};
pub use ends::{end, end_damaged, end_of_half, ended_at_home, ended_away, forget, lost};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{AWAY_NOTHING, AwayRecord, KeptRecord, ProcessRecord, SpaceRecord, ThreadRecord, sync::Ordering};
use motet_protocol::{
    Context,
    peer::{
        Malformed,
        bodies::{Step, TaskExitOrigin, TaskMigrate, TaskMigrateBack, TaskPairing},
    },
    slab, threads, wait,
};

use crate::{cpu::Cpu, mm::kept, peers, tree::lock_tree};

/// In [`ThreadRecord::garbage`]: the thread is a remote, whose system calls are made at home. It makes no garbage here.
pub use crate::cpu::REMOTE;

/// Whether the thread's home is another kernel.
#[inline(always)]
pub fn is_remote(thread: &ThreadRecord) -> bool {
    thread.garbage.get() == REMOTE
}

/// What the thread has to do with kernel `node`.
pub fn with<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, node: u32) -> Option<&'static AwayRecord> {
    all(cpu, thread).find(|away| away.node.get() == node)
}

/// Its records, one for each kernel.
fn all<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> impl Iterator<Item = &'static AwayRecord> {
    let first = cpu.object::<AwayRecord>(thread.away.load(Ordering::Acquire));
    core::iter::successors(first, |away| cpu.object(away.next.get()))
}

/// As [`with`]; a record is made if there is none.
///
/// # Errors
/// `ENOMEM`.
pub fn with_or_new<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    node: u32,
) -> Result<&'static AwayRecord, Errno> {
    if let Some(away) = with(cpu, thread, node) {
        return Ok(away);
    }
    let away = slab::alloc::<AwayRecord>(cpu).ok_or(Errno::ENOMEM)?;
    away.thread.set(cpu.raw(thread));
    away.node.set(node);
    let _tree = lock_tree(cpu);
    away.next.set(thread.away.load(Ordering::Relaxed));
    thread.away.store(cpu.raw(away), Ordering::Release);
    Ok(away)
}

/// The other half of a remote: home's.
pub fn home<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<&'static AwayRecord> {
    all(cpu, thread).find(|away| away.is_remote.get() != 0)
}

/// Sends what a thread of this kernel goes on with to its other half in another one; one is made there, in the program at `path`, if there is none.
///
/// # Errors
/// `EIO`, `ENOMEM`.
pub fn migrate<M: Machine>(
    cpu: &Cpu<M>,
    (away, process): (&AwayRecord, &ProcessRecord),
    program: Program<'_>,
    step: Step,
) -> Result<(), Errno> {
    peers::hold_no_longer(cpu);
    let mut body = TaskMigrate::nowhere(step);
    let Some(thread) = cpu.object::<ThreadRecord>(away.thread.get()) else { return Err(Errno::EIO) };
    body.home_pid = process.pid.get().into();
    body.home_tid = thread.tid.get().into();
    body.tid = away.peer.load(Ordering::Acquire).into();
    body.file_len = program.file_len.into();
    body.file_changed_ns = program.changed_ns.into();
    let path = body.path.get_mut(..program.path.len()).ok_or(Errno::ENAMETOOLONG)?;
    path.copy_from_slice(program.path);
    peers::post(cpu, away.node.get(), &body)
}

/// A program, as other kernels find it.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// Bytes of its file.
    pub file_len: u64,
    /// When that was changed.
    pub changed_ns: u64,
}

/// Sends what a remote goes on with home, to kernel `node`, where the thread has the id `tid`.
///
/// # Errors
/// `EIO`, `ENOMEM`.
pub fn migrate_back<M: Machine>(cpu: &Cpu<M>, node: u32, tid: u32, step: Step) -> Result<(), Errno> {
    peers::hold_no_longer(cpu);
    peers::post(cpu, node, &TaskMigrateBack::of(tid, step))
}

impl Program<'_> {
    /// None: the other half is there.
    pub const NONE: Self = Self { path: &[], file_len: 0, changed_ns: 0 };
}

/// What has come from the other half is taken.
pub fn take(away: &AwayRecord) {
    away.came.store(AWAY_NOTHING, Ordering::Release);
}

/// Something has come from the other half: the thread, which waits for it or is about to, goes on. One thing at a time.
///
/// # Errors
/// Something else has come, and has not been taken yet.
fn give<M: Machine>(
    cpu: &Cpu<M>,
    away: &'static AwayRecord,
    came: u32,
    words: impl Iterator<Item = u64>,
) -> Result<(), Malformed> {
    if away.came.load(Ordering::Acquire) != AWAY_NOTHING {
        return Err(Malformed::Unasked);
    }
    away.words.iter().zip(words).for_each(|(slot, word)| slot.set(word));
    away.came.store(came, Ordering::Release);
    wait::wake(cpu, &away.waiters);
    Ok(())
}

/// A step has come for a half of this kernel. The tree lock is held.
///
/// # Errors
/// It is none that can come.
pub fn step_came<M: Machine>(cpu: &Cpu<M>, away: &'static AwayRecord, step: &Step) -> Result<(), Malformed> {
    if away.in_call.get() != 0 {
        return Err(Malformed::Unasked); // its other half waits for a system call
    }
    let came = if step.is_call.get() != 0 { motet_layout::AWAY_CALL } else { motet_layout::AWAY_RETURN };
    give(cpu, away, came, step.to_words().into_iter())
}

/// A step has come home. The tree lock is held.
///
/// # Errors
/// The thread is not there.
pub fn came_back<M: Machine>(cpu: &Cpu<M>, node: u32, body: &TaskMigrateBack) -> Result<(), Malformed> {
    // It may have ended meanwhile.
    match half(cpu, node, body.tid.get())? {
        Some(away) => step_came(cpu, away, &body.step),
        None => Ok(()),
    }
}

/// What the thread with that id has to do with kernel `node`. The tree lock is held. `None`: there is no such thread.
///
/// # Errors
/// It has nothing to do with it.
pub fn half<M: Machine>(cpu: &Cpu<M>, node: u32, tid: u32) -> Result<Option<&'static AwayRecord>, Malformed> {
    match threads::lookup(cpu, tid) {
        // A thread that is ending has forgotten it; what was sent before comes nevertheless.
        Some(thread) if thread.away.load(Ordering::Acquire) == 0 => Ok(None),
        Some(thread) => with(cpu, thread, node).map(Some).ok_or(Malformed::Unasked),
        None => Ok(None),
    }
}

/// The other half of a thread says who it is. The tree lock is held.
///
/// # Errors
/// It is not a half of a thread of this kernel.
pub fn paired<M: Machine>(cpu: &Cpu<M>, node: u32, body: &TaskPairing) -> Result<(), Malformed> {
    let Some(away) = half(cpu, node, body.tid.get())? else {
        // It has ended since: so does its other half, and what has been made for it there.
        let ended = TaskExitOrigin { pid: body.own_pid, tid: 0.into(), rest: [0; 4] };
        let _is_told = peers::post(cpu, node, &ended);
        return Ok(());
    };
    let kept = kept_of(cpu, away).filter(|kept| !kept::is_remote(cpu, kept)).ok_or(Malformed::Unasked)?;
    kept.pids[node as usize].store(body.own_pid.get(), Ordering::Release);
    away.peer.store(body.own_tid.get(), Ordering::Release);
    Ok(())
}

/// What is known of the space of a half's process.
fn kept_of<M: Machine>(cpu: &Cpu<M>, away: &AwayRecord) -> Option<&'static KeptRecord> {
    let thread = cpu.object::<ThreadRecord>(away.thread.get())?;
    let process = cpu.object::<ProcessRecord>(thread.process.load(Ordering::Relaxed))?;
    kept::of(cpu, cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed))?)
}
