//! Parts of other kernels' processes: a process here whose threads are remotes (`docs/protocols/away.md`). It has the program's text, found by its path; all else it has is
//! home's.

use core::sync::atomic::Ordering;

use motet_abi::{Errno, own, registers, stubs};
use motet_hal::Machine;
use motet_layout::{
    AwayRecord, KeptRecord, PROCESS_ALIVE, ProcessRecord, SignalActions, SpaceRecord, Stage, ThreadRecord,
};
use motet_protocol::{
    Context, groups,
    peer::{
        Malformed,
        bodies::{TaskExitOrigin, TaskExitRemote, TaskMigrate, TaskPairing},
    },
    run_queue, slab, threads,
};

use super::{
    executable::{Executable, NO_HEADERS},
    exit,
    fat::Fat,
    limits::set_default_limits,
    set_name,
};
use crate::{
    ability, away,
    call::{Call, begin_call},
    cpu::Cpu,
    file, handover,
    mm::{self, kept},
    peers, permission, signal,
    tree::{self, lock_tree, process_of},
};

const AT_FDCWD: i32 = -100;
/// The id of a run's first process.
const FIRST: u32 = 1;

/// A thread of kernel `node` comes to this one: to its half that waits here, or to one that waits for any, or to a new one.
///
/// # Errors
/// It cannot come.
pub fn arrive<M: Machine>(cpu: &Cpu<M>, node: u32, body: &TaskMigrate) -> Result<(), Malformed> {
    if body.tid.get() != 0 {
        let _tree = lock_tree(cpu);
        let Some(away) = away::half(cpu, node, body.tid.get())? else {
            let ended = TaskExitRemote { tid: body.home_tid, signal: signal::SIGKILL.into(), rest: [0; 4] };
            let _is_told = peers::post(cpu, node, &ended);
            return Ok(());
        };
        return away::step_came(cpu, away, &body.step);
    }
    if let Err(errno) = welcome(cpu, node, body) {
        let len = body.path.iter().position(|&byte| byte == 0).unwrap_or(body.path.len());
        let path = core::str::from_utf8(&body.path[..len]).unwrap_or("?");
        cpu.log(format_args!("a thread of kernel {node} cannot run {path} here: {}", errno.name()));
        let ended = TaskExitRemote { tid: body.home_tid, signal: signal::SIGKILL.into(), rest: [0; 4] };
        let _is_told = peers::post(cpu, node, &ended);
    }
    Ok(())
}

fn welcome<M: Machine>(cpu: &Cpu<M>, node: u32, body: &TaskMigrate) -> Result<(), Errno> {
    let found = {
        let _tree = lock_tree(cpu);
        let kept = kept::remote(cpu, node, body.home_pid.get());
        let kept = kept.filter(|kept| kept.is_ending.load(Ordering::Acquire) == 0);
        kept.map(|kept| kept.pids[peers::own_node(cpu) as usize].load(Ordering::Acquire))
    };
    let (thread, is_new) = match found {
        Some(pid) => match add_thread(cpu, node, pid)? {
            Added::Parked(thread) => (thread, false),
            Added::New(thread) => (thread, true),
        },
        None => (make(cpu, node, body)?, true),
    };
    let given = give(cpu, node, thread, body);
    if given.is_err() {
        let _tree = lock_tree(cpu);
        away::end(cpu, thread);
    }
    if is_new {
        start(cpu, thread);
    }
    given
}

fn start<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let core = run_queue::least_loaded(cpu, cpu.island(), run_queue::cores_of(thread));
    handover::start_on(cpu, thread, core);
}

/// Gives a step to a remote that waits for any.
fn give<M: Machine>(cpu: &Cpu<M>, node: u32, thread: &'static ThreadRecord, body: &TaskMigrate) -> Result<(), Errno> {
    let away = away::with_or_new(cpu, thread, node)?;
    away.is_remote.set(1);
    away.peer.store(body.home_tid.get(), Ordering::Release);
    let process = process_of(cpu, thread);
    let pairing =
        TaskPairing { tid: body.home_tid, own_tid: thread.tid.get().into(), own_pid: process.pid.get().into() };
    peers::post(cpu, node, &pairing)?;
    let _tree = lock_tree(cpu);
    away::step_came(cpu, away, &body.step).map_err(|_| Errno::EIO)
}

/// A thread, or a process, has ended at home. The last remote of a process that lives leaves another one behind: the space has pages that nobody else has.
///
/// # Errors
/// It is no remote of that kernel.
pub fn ended_at_home<M: Machine>(cpu: &Cpu<M>, node: u32, body: &TaskExitOrigin) -> Result<(), Malformed> {
    if body.tid.get() != 0
        && let Ok(Added::New(thread)) = add_thread(cpu, node, body.pid.get())
    {
        match away::with_or_new(cpu, thread, node) {
            Ok(away) => away.is_remote.set(1),
            Err(_) => away::end(cpu, thread),
        }
        start(cpu, thread);
    }
    let _tree = lock_tree(cpu);
    away::ended_at_home(cpu, node, body)
}

enum Added {
    /// One that waits for any call.
    Parked(&'static ThreadRecord),
    New(&'static ThreadRecord),
}

/// One more remote in a process of kernel `node` that is here already.
///
/// # Errors
/// `ESRCH`: there is no such process, or it is not that kernel's.
fn add_thread<M: Machine>(cpu: &Cpu<M>, node: u32, pid: u32) -> Result<Added, Errno> {
    let _tree = lock_tree(cpu);
    let is_its = |process: &&'static ProcessRecord| {
        let space = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed));
        let kept = space.and_then(|space| kept::of(cpu, space));
        kept.is_some_and(|kept| kept.home.get() == node && kept::is_remote(cpu, kept))
    };
    let process = tree::lookup(cpu, pid).filter(|process| process.exiting.load(Ordering::Acquire) == 0);
    let process = process.filter(is_its);
    let process = process.ok_or(Errno::ESRCH)?;
    let mut parked = None;
    tree::for_each_thread(cpu, process, |thread| {
        let is_parked = away::home(cpu, thread).is_some_and(|away: &AwayRecord| away.peer.load(Ordering::Acquire) == 0);
        if is_parked && thread.kill.load(Ordering::Relaxed) == 0 {
            parked = Some(thread);
        }
    });
    if let Some(thread) = parked {
        return Ok(Added::Parked(thread));
    }
    let thread = new_thread(cpu, process)?;
    if threads::register(cpu, thread).is_none() {
        slab::free(cpu, thread);
        return Err(Errno::EAGAIN);
    }
    tree::link_thread(cpu, process, thread);
    tree::users::add_thread(cpu, process);
    Ok(Added::New(thread))
}

/// A thread that waits for what comes from home.
fn new_thread<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) -> Result<&'static ThreadRecord, Errno> {
    let thread = slab::alloc::<ThreadRecord>(cpu).ok_or(Errno::ENOMEM)?;
    thread.frame.vectors.set(0);
    thread.process.store(cpu.raw(process), Ordering::Relaxed);
    thread.core.store(u32::from(cpu.id.0), Ordering::Relaxed);
    thread.started_ns.set(cpu.reading_ns());
    ability::begin_ext(thread, thread.started_ns.get());
    for word in thread.affinity.iter().chain(&thread.able) {
        word.store(u64::MAX, Ordering::Relaxed);
    }
    thread.garbage.set(away::REMOTE);
    wait_for_step::<M>(thread);
    Ok(thread)
}

/// The thread's registers become those of one that waits for what its other half sends.
pub fn wait_for_step<M: Machine>(thread: &ThreadRecord) {
    let sp = if registers::frame_isa(&thread.frame) == M::ISA { registers::sp(&thread.frame) } else { 0 };
    begin_call(thread);
    registers::init_frame(&thread.frame, M::ISA, stubs::gate(M::ISA), sp);
    registers::set_syscall_number(M::ISA, &thread.frame, own::AWAIT);
    thread.stage.set(Stage::CALL_PAUSED);
}

/// The part here of a process of kernel `node`, with one thread.
fn make<M: Machine>(cpu: &Cpu<M>, node: u32, body: &TaskMigrate) -> Result<&'static ThreadRecord, Errno> {
    let process = slab::alloc::<ProcessRecord>(cpu).ok_or(Errno::ENOMEM)?;
    process.state.store(PROCESS_ALIVE, Ordering::Relaxed);
    process.thread_count.store(1, Ordering::Relaxed);
    process.started_ns.set(cpu.reading_ns());
    set_default_limits(process, cpu.pool.len());
    permission::start_as_superuser(process);
    let made = fill(cpu, process, node, body);
    if made.is_err() {
        if process.space.load(Ordering::Relaxed) != 0 {
            exit::discard(cpu, process);
        } else {
            slab::free(cpu, process);
        }
    }
    made
}

fn fill<M: Machine>(
    cpu: &Cpu<M>,
    process: &'static ProcessRecord,
    node: u32,
    body: &TaskMigrate,
) -> Result<&'static ThreadRecord, Errno> {
    let space = mm::create_for(cpu, cpu.island(), true)?;
    process.space.store(cpu.raw(space), Ordering::Relaxed);
    let actions = slab::alloc::<SignalActions>(cpu).ok_or(Errno::ENOMEM)?;
    actions.refs.store(1, Ordering::Relaxed);
    process.actions.set(cpu.raw(actions));
    file::open_none(cpu, process)?;
    let thread = new_thread(cpu, process)?;
    process.threads.set(cpu.raw(thread));
    let entered = load(cpu, process, thread, space, body).and_then(|()| enter(cpu, process, thread, space, node, body));
    if entered.is_err() {
        slab::free(cpu, thread);
    }
    entered.map(|_| thread)
}

/// Maps the program's text for this kernel's instruction set. The rest of the file is home's: it may have been changed in memory.
fn load<M: Machine>(
    cpu: &Cpu<M>,
    process: &'static ProcessRecord,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    body: &TaskMigrate,
) -> Result<(), Errno> {
    let call = Call { cpu, thread, process, args: [0; 6], isa: M::ISA };
    let len = body.path.iter().position(|&byte| byte == 0).ok_or(Errno::ENAMETOOLONG)?;
    let program =
        file::open_executable(&call, AT_FDCWD, &body.path[..len], 0).map_err(crate::call::Stop::unless_waiting)?;
    let inode = program.inode();
    let is_same = inode.size.load(Ordering::Relaxed) == body.file_len.get()
        && inode.modified_ns.get() == body.file_changed_ns.get();
    if !is_same {
        return Err(Errno::ESTALE);
    }
    let mut headers = NO_HEADERS;
    let refuse = |_| Errno::ENOEXEC;
    let executable = Executable::read(cpu, inode, None, &mut headers).map_err(refuse)?;
    let fat = Fat::find(cpu, &executable, inode).map_err(|_| Errno::ENOEXEC)?.ok_or(Errno::ENOEXEC)?;
    fat.map(cpu, space, inode)?;
    file::set_executable(cpu, process, inode);
    set_name(process, thread, &body.path[..len]);
    Ok(())
}

/// The process, which is whole, gets its id, and others find it.
fn enter<M: Machine>(
    cpu: &Cpu<M>,
    process: &'static ProcessRecord,
    thread: &'static ThreadRecord,
    space: &'static SpaceRecord,
    node: u32,
    body: &TaskMigrate,
) -> Result<&'static KeptRecord, Errno> {
    let kept = kept::begin(cpu, space, node)?;
    let pid = match threads::register(cpu, thread).ok_or(Errno::EAGAIN)? {
        // With the first process, the run ends.
        FIRST => {
            let next = threads::register(cpu, thread);
            threads::unregister(cpu, FIRST);
            next.ok_or(Errno::EAGAIN)?
        }
        pid => pid,
    };
    process.isa.store(M::ISA as u32, Ordering::Relaxed);
    process.execed.set(1);
    kept.pids[node as usize].store(body.home_pid.get(), Ordering::Relaxed);
    kept.pids[peers::own_node(cpu) as usize].store(pid, Ordering::Release);
    let _tree = lock_tree(cpu);
    process.pgid.store(pid, Ordering::Relaxed);
    process.sid.store(pid, Ordering::Relaxed);
    process.pid.set(pid);
    groups::enter(cpu, process);
    tree::users::enter(cpu, process, None);
    Ok(kept)
}
