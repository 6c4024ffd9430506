//! `fork`, `vfork`, `clone`, `clone3`: new processes and threads.

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    process::{
        CLONE_ARGS_SIZE_VER0, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, CLONE_CLEAR_SIGHAND, CLONE_DETACHED,
        CLONE_FILES, CLONE_FS, CLONE_PARENT, CLONE_PARENT_SETTID, CLONE_PIDFD, CLONE_SETTLS, CLONE_SIGHAND,
        CLONE_SYSVSEM, CLONE_THREAD, CLONE_VFORK, CLONE_VM, CloneArgs, clone_args,
    },
    registers,
    signal::NSIG,
};
use motet_hal::Machine;
use motet_layout::{
    CoreId, Isa, PAGE_SIZE, PROCESS_ALIVE, PROCESS_ZOMBIE, ProcessRecord, SignalActions, ThreadRecord, USER_END,
    in_order,
};
use motet_protocol::{Context, groups, memory, run_queue, slab, threads, wait};

use super::{limits, schedule};
use crate::{
    ability, balance,
    call::{Call, Stop, SysResult, cost},
    chain,
    cpu::Cpu,
    due, file, handover, ipc, mm,
    permission::{self, Capability},
    signal::{self, begin_temporary_mask, end_temporary_mask},
    tree::{self, adopt, lock_tree, parent_of, users},
};

/// New namespaces: what only the superuser might ask for.
const CLONE_NEW: u64 = 0x6e02_0000;
const CLONE_NEWNS: u64 = 0x2_0000;
const CLONE_NEWUSER: u64 = 0x1000_0000;
/// `clone3` and `unshare`; `clone` has the signal there.
const CLONE_NEWTIME: u64 = 0x80;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// What `clone3` may be told.
const CLONE3_FLAGS: u64 = 0x3_ffff_ff00 & !CLONE_DETACHED | CLONE_NEWTIME;
/// Bytes of `struct clone_args` that are known.
const CLONE_ARGS_SIZE: u64 = 88;

/// `fork()`.
pub fn fork<M: Machine>(call: &Call<M>) -> SysResult {
    start(call, &CloneArgs { exit_signal: signal::SIGCHLD, ..CloneArgs::default() })
}

/// `vfork()`.
pub fn vfork<M: Machine>(call: &Call<M>) -> SysResult {
    let flags = CLONE_VM | CLONE_VFORK;
    start(call, &CloneArgs { flags, exit_signal: signal::SIGCHLD, ..CloneArgs::default() })
}

/// `clone(flags, stack, parent_tid, ...)`.
pub fn clone<M: Machine>(call: &Call<M>) -> SysResult {
    let mut args = clone_args(call.isa, call.args);
    args.flags &= u64::from(u32::MAX);
    // As on Linux, a number that is no signal means that none is sent.
    if args.exit_signal > NSIG {
        args.exit_signal = 0;
    }
    if args.flags & CLONE_PIDFD != 0 && args.flags & (CLONE_DETACHED | CLONE_PARENT_SETTID) != 0 {
        return Err(Errno::EINVAL.into());
    }
    start(call, &args)
}

/// `clone3(arguments, size)`.
pub fn clone3<M: Machine>(call: &Call<M>) -> SysResult {
    let [at, size, ..] = call.args;
    if size > PAGE_SIZE {
        return Err(Errno::E2BIG.into());
    }
    if size < CLONE_ARGS_SIZE_VER0 as u64 {
        return Err(Errno::EINVAL.into());
    }
    call.check_zeros(at, CLONE_ARGS_SIZE, size)?;
    let mut words = [0u64; 11];
    for (index, word) in words.iter_mut().enumerate().take((size / 8) as usize) {
        *word = call.read_user_u64(at.wrapping_add(8 * index as u64))?;
    }
    let [flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, _cgroup] =
        words;
    let both_signals = flags & CLONE_SIGHAND != 0 && flags & CLONE_CLEAR_SIGHAND != 0;
    let no_signal = flags & (CLONE_THREAD | CLONE_PARENT) != 0 && exit_signal != 0;
    if exit_signal > 64
        || flags & !CLONE3_FLAGS != 0
        || both_signals
        || no_signal
        || (stack == 0) != (stack_size == 0)
        // Ids cannot be chosen.
        || set_tid != 0
        || set_tid_size != 0
        || flags & CLONE_PIDFD != 0 && flags & CLONE_PARENT_SETTID != 0 && pidfd == parent_tid
    {
        return Err(Errno::EINVAL.into());
    }
    let stack = if stack == 0 { 0 } else { stack.wrapping_add(stack_size) };
    start(call, &CloneArgs { flags, exit_signal: exit_signal as u32, stack, parent_tid, child_tid, tls, pidfd })
}

fn start<M: Machine>(call: &Call<M>, spec: &CloneArgs) -> SysResult {
    let flags = spec.flags;
    if call.has_waited() {
        return vfork_continues(call);
    }
    if flags & CLONE_FS != 0 && flags & CLONE_NEWNS != 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags & CLONE_NEW != 0 && !permission::has(call.process, Capability::Administer) {
        return Err(Errno::EPERM.into());
    }
    // Working directories are shared by the threads of a process only.
    let shares_directory = flags & CLONE_FS != 0 && flags & CLONE_THREAD == 0;
    let refused = flags & (CLONE_NEW | CLONE_NEWUSER | CLONE_NEWTIME | CLONE_INTO_CGROUP) != 0
        // Descriptors are of processes.
        || flags & CLONE_PIDFD != 0 && flags & CLONE_THREAD != 0;
    let thread_without_signals = flags & CLONE_THREAD != 0 && flags & CLONE_SIGHAND == 0;
    let signals_without_memory = flags & CLONE_SIGHAND != 0 && flags & CLONE_VM == 0;
    if refused || shares_directory || thread_without_signals || signals_without_memory {
        return Err(Errno::EINVAL.into());
    }
    if flags & CLONE_SETTLS != 0 && call.isa == Isa::X86_64 && spec.tls >= USER_END {
        return Err(Errno::EPERM.into());
    }
    if flags & CLONE_PARENT_SETTID != 0 {
        call.await_pages(spec.parent_tid, 4)?;
    }
    if flags & CLONE_PIDFD != 0 {
        call.await_pages(spec.pidfd, 4)?;
    }
    if flags & CLONE_CHILD_SETTID != 0 {
        call.await_pages(spec.child_tid, 4)?;
    }
    limits::check_number(call)?;
    due::spend_locked(call.cpu, cost::STEP);
    let mut calls = chain::chain(call.cpu, call.thread);
    if spec.stack == 0 && calls.any(|record| record.caller_node.get() | record.callee_node.get() != 0) {
        return Err(Errno::EOPNOTSUPP.into()); // the child would have no other halves
    }
    if flags & CLONE_VM == 0 {
        mm::recall(call, 0, USER_END)?;
    }
    let thread = new_thread(call, spec)?;
    due::spend_locked(call.cpu, cost::STEP);
    let child = if flags & CLONE_THREAD != 0 {
        thread.process.store(call.cpu.raw(call.process), Ordering::Relaxed);
        Ok(None)
    } else {
        new_process(call, spec, thread).map(Some)
    };
    let tid = child.and_then(|child| enter(call, spec, thread, child));
    let tid = match tid {
        Ok(tid) => tid,
        Err(errno) => {
            chain::forget(call.cpu, thread);
            ability::release_area(call.cpu, thread);
            slab::free(call.cpu, thread);
            return Err(errno.into());
        }
    };
    if flags & CLONE_VFORK != 0 {
        // The child's id is the result once it has executed a program or exited.
        call.thread.scratch[0].set(u64::from(tid));
        // No handler runs meanwhile, on a stack that may be the child's as well; fatal signals wait, too.
        begin_temporary_mask(call, u64::MAX);
        // Its parent makes room for it at once.
        handover::start_on(call.cpu, thread, nearest_core(call.cpu, thread));
        return vfork_continues(call);
    }
    start_child(call, thread);
    Ok(u64::from(tid))
}

/// `unshare(flags)`: descriptors of its own for a process that shares them. What else processes here never share is apart
/// already; namespaces are not offered.
///
/// # Errors
/// `EINVAL`, also when threads of the process would have to share less than they always do; `EPERM`; `ENOMEM`.
pub fn unshare<M: Machine>(call: &Call<M>) -> SysResult {
    let flags = call.args[0];
    let of_threads = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_FS;
    if flags & !(of_threads | CLONE_FILES | CLONE_SYSVSEM | CLONE_NEW | CLONE_NEWUSER | CLONE_NEWTIME) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if flags & (CLONE_NEW | CLONE_NEWTIME) != 0 && !permission::has(call.process, Capability::Administer) {
        return Err(Errno::EPERM.into());
    }
    let has_threads = call.process.thread_count.load(Ordering::Relaxed) > 1;
    let shares_memory = mm::space_of(call.cpu, call.process).refs.load(Ordering::Relaxed) > 1;
    if flags & (CLONE_NEW | CLONE_NEWUSER | CLONE_NEWTIME) != 0
        || flags & of_threads != 0 && has_threads
        || flags & (CLONE_VM | CLONE_SIGHAND) != 0 && shares_memory
    {
        return Err(Errno::EINVAL.into());
    }
    if flags & CLONE_SYSVSEM != 0 {
        if has_threads && call.process.undo.get() != 0 {
            return Err(Errno::EINVAL.into()); // they have it together here
        }
        ipc::leave(call.cpu, call.process, || false);
    }
    if flags & CLONE_FILES != 0 {
        file::unshare_descriptors(call)?;
    }
    Ok(0)
}

/// A thread that continues where the caller is, with 0 as result of the call.
fn new_thread<M: Machine>(call: &Call<M>, spec: &CloneArgs) -> Result<&'static ThreadRecord, Errno> {
    let (cpu, parent) = (call.cpu, call.thread);
    let thread = slab::alloc::<ThreadRecord>(cpu).ok_or(Errno::ENOMEM)?;
    thread.frame.vectors.set(0);
    // Until it starts, it goes with the core that makes it.
    thread.core.store(u32::from(cpu.id.0), Ordering::Relaxed);
    if ability::has_used_vectors(parent) {
        // Those that are closed are in the caller's frame alone.
        handover::save_ext(cpu, parent);
        registers::copy_frame(&parent.frame, &thread.frame);
        if let Err(errno) = ability::copy_area(cpu, parent, thread) {
            slab::free(cpu, thread);
            return Err(errno);
        }
    } else {
        registers::copy_general(&parent.frame, &thread.frame);
        // The caller runs here, so its extended state is in the core's registers.
        cpu.machine.save_ext(&thread.frame);
    }
    registers::set_result(&thread.frame, 0);
    if spec.stack != 0 {
        registers::set_sp(&thread.frame, spec.stack);
    }
    if spec.flags & CLONE_SETTLS != 0 {
        registers::set_tls(&thread.frame, spec.tls);
    }
    if spec.flags & CLONE_CHILD_CLEARTID != 0 {
        thread.clear_child_tid.set(spec.child_tid);
    }
    thread.signal_mask.store(parent.signal_mask.load(Ordering::Relaxed), Ordering::Relaxed);
    if spec.flags & CLONE_VM == 0 || spec.flags & CLONE_VFORK != 0 {
        for (to, from) in thread.altstack.iter().zip(&parent.altstack) {
            to.set(from.get());
        }
    }
    for (to, from) in thread.affinity.iter().zip(&parent.affinity) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    ability::inherit(parent, thread);
    for (to, from) in thread.name.iter().zip(&parent.name) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    schedule::inherit(parent, thread);
    thread.timer_slack_ns.set(parent.timer_slack_ns.get());
    thread.memory_policy.set(parent.memory_policy.get());
    thread.started_ns.set(cpu.reading_ns());
    ability::begin_ext(thread, thread.started_ns.get());
    // A thread that goes on with the caller's stack will return where the caller would.
    if spec.stack == 0
        && let Err(errno) = chain::copy_chain(cpu, parent, thread)
    {
        chain::forget(cpu, thread);
        ability::release_area(cpu, thread);
        slab::free(cpu, thread);
        return Err(errno);
    }
    Ok(thread)
}

fn new_process<M: Machine>(
    call: &Call<M>,
    spec: &CloneArgs,
    thread: &'static ThreadRecord,
) -> Result<&'static ProcessRecord, Errno> {
    let (cpu, parent) = (call.cpu, call.process);
    signal::begin_to_make(cpu, call.thread, parent);
    if !memory::has_room_for_process(cpu) {
        return Err(Errno::ENOMEM);
    }
    let child = slab::alloc::<ProcessRecord>(cpu).ok_or(Errno::ENOMEM)?;
    child.maker.store(u32::from(cpu.id.0) + 1, Ordering::Relaxed);
    inherit(cpu, parent, child);
    // A sibling ends with the signal that its parent agreed to, not one the caller chooses.
    let sibling = spec.flags & CLONE_PARENT != 0;
    child.exit_signal.set(if sibling { parent.exit_signal.get() } else { spec.exit_signal });
    thread.process.store(cpu.raw(child), Ordering::Relaxed);
    let space = mm::space_of(cpu, parent);
    // Whatever the child has, it has from the beginning: should this core die, it is given back (`lost`).
    let own = |space| child.space.store(cpu.raw(space), Ordering::Relaxed);
    let space = if spec.flags & CLONE_VM != 0 {
        mm::share(space);
        own(space);
        Ok(())
    } else {
        mm::fork(cpu, space, own)
    };
    let parts = space.and_then(|()| {
        due::spend_locked(cpu, cost::STEP);
        child.actions.set(cpu.raw(actions_for_child(cpu, parent, spec.flags)?));
        due::spend_locked(cpu, cost::STEP);
        file::files_for_child(cpu, parent, child, spec.flags & CLONE_FILES != 0)?;
        if spec.flags & CLONE_SYSVSEM != 0 { ipc::share(cpu, parent, child) } else { Ok(()) }
    });
    match parts {
        Ok(()) => Ok(child),
        Err(errno) => {
            super::exit::discard(cpu, child);
            Err(errno)
        }
    }
}

/// Plain values that a child starts with.
fn inherit<M: Machine>(cpu: &Cpu<M>, parent: &ProcessRecord, child: &ProcessRecord) {
    permission::inherit(parent, child);
    for (to, from) in child.limits.iter().zip(&parent.limits) {
        to.set(from.get());
    }
    child.watches_time.store(u32::from(limits::is_limited(child)), Ordering::Relaxed);
    for (to, from) in child.name.iter().zip(&parent.name) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    for (to, from) in [(&child.arguments, &parent.arguments), (&child.environment, &parent.environment)] {
        to[0].set(from[0].get());
        to[1].set(from[1].get());
    }
    child.isa.store(parent.isa.load(Ordering::Relaxed), Ordering::Relaxed);
    child.umask.set(parent.umask.get());
    child.personality.set(parent.personality.get());
    child.vector_lengths.store(parent.vector_lengths.load(Ordering::Relaxed), Ordering::Relaxed);
    child.next_length.set(parent.next_length.get());
    child.crossing_policy.store(parent.crossing_policy.load(Ordering::Relaxed), Ordering::Relaxed);
    child.start_isa.store(parent.start_isa.load(Ordering::Relaxed), Ordering::Relaxed);
    child.started_ns.set(cpu.reading_ns());
    child.thread_count.store(1, Ordering::Relaxed);
    child.state.store(PROCESS_ALIVE, Ordering::Relaxed);
}

fn actions_for_child<M: Machine>(
    cpu: &Cpu<M>,
    parent: &ProcessRecord,
    flags: u64,
) -> Result<&'static SignalActions, Errno> {
    let actions = cpu.object::<SignalActions>(parent.actions.get()).expect("a living process has signal actions");
    if flags & CLONE_SIGHAND != 0 {
        actions.refs.fetch_add(1, Ordering::Relaxed);
        return Ok(actions);
    }
    signal::copy_actions(cpu, actions, flags & CLONE_CLEAR_SIGHAND != 0).ok_or(Errno::ENOMEM)
}

/// Gives the thread its id and links it (and its process) into the tree. On failure the new process is undone.
fn enter<M: Machine>(
    call: &Call<M>,
    spec: &CloneArgs,
    thread: &'static ThreadRecord,
    child: Option<&'static ProcessRecord>,
) -> Result<u32, Errno> {
    let cpu = call.cpu;
    due::spend_locked(cpu, cost::STEP);
    let Some(tid) = threads::register(cpu, thread) else {
        if let Some(child) = child {
            super::exit::discard(cpu, child);
        }
        return Err(Errno::EAGAIN);
    };
    let pidfd = match child.filter(|_| spec.flags & CLONE_PIDFD != 0).map(|child| open_pidfd(call, spec, child, tid)) {
        None => None,
        Some(Ok(fd)) => Some(fd),
        Some(Err(errno)) => {
            threads::unregister(cpu, tid);
            child.into_iter().for_each(|child| super::exit::discard(cpu, child));
            return Err(errno);
        }
    };
    let tid_bytes = tid.to_le_bytes();
    if spec.flags & CLONE_PARENT_SETTID != 0 {
        // As on Linux, a bad address does not undo the clone.
        let _ = call.write_user(spec.parent_tid, &tid_bytes);
    }
    if spec.flags & CLONE_CHILD_SETTID != 0 {
        let process = child.unwrap_or(call.process);
        let of_child = Call { cpu, thread, process, args: call.args, isa: call.isa };
        let _ = of_child.write_user(spec.child_tid, &tid_bytes);
    }
    let tree = lock_tree(cpu);
    if let Some(child) = child
        && signal::is_to_end(cpu, call.thread, call.process)
    {
        // Whoever has signalled the caller's group did not find the child, which would escape; the caller will not learn of this.
        threads::unregister(cpu, tid);
        drop(tree);
        super::exit::discard(cpu, child);
        if let Some(fd) = pidfd {
            let _ = file::table::close(cpu, file::table::of(cpu, call.process), fd);
        }
        return Err(Errno::EAGAIN);
    }
    let process = child.unwrap_or(call.process);
    tree::link_thread(cpu, process, thread);
    match child {
        Some(child) => {
            let parent = match parent_of(cpu, call.process) {
                Some(grandparent) if spec.flags & CLONE_PARENT != 0 => grandparent,
                _ => call.process,
            };
            adopt(cpu, parent, child);
            users::enter(cpu, child, Some(call.process));
            // The caller may have been moved to another group since the child was made.
            child.pgid.store(call.process.pgid.load(Ordering::Relaxed), Ordering::Relaxed);
            child.sid.store(call.process.sid.load(Ordering::Relaxed), Ordering::Relaxed);
            child.left_terminal.set(call.process.left_terminal.get());
            in_order();
            child.pid.set(tid); // from now on it is in the tree
            groups::enter(cpu, child);
            signal::send_to_new(cpu, call.thread, child);
            cpu.pool.header().forks.fetch_add(1, Ordering::Relaxed);
        }
        None => {
            process.thread_count.fetch_add(1, Ordering::Relaxed);
            users::add_thread(cpu, process);
            if process.exiting.load(Ordering::Relaxed) != 0 {
                thread.kill.store(1, Ordering::Relaxed);
                thread.attention.store(1, Ordering::Relaxed);
            }
            if signal::stopping::is_begun(process) {
                thread.attention.store(1, Ordering::Relaxed);
            }
        }
    }
    Ok(tid)
}

/// A descriptor of the child, which is about to enter the tree, for the caller. The child has none.
///
/// # Errors
/// `EFAULT`, `ENFILE`, `EMFILE`.
fn open_pidfd<M: Machine>(call: &Call<M>, spec: &CloneArgs, child: &ProcessRecord, tid: u32) -> Result<i32, Errno> {
    let fd = file::pidfd::open(call, tid, child.started_ns.get(), 0)? as i32;
    if let Err(stop) = call.write_user(spec.pidfd, &fd.to_le_bytes()) {
        let _ = file::table::close(call.cpu, file::table::of(call.cpu, call.process), fd);
        return Err(stop.unless_waiting());
    }
    Ok(fd)
}

fn start_child<M: Machine>(call: &Call<M>, thread: &'static ThreadRecord) {
    let cpu = call.cpu;
    let near = nearest_core(cpu, thread);
    let is_busy = run_queue::load(cpu, near) != 0;
    match is_busy.then(|| balance::reserve_idle(cpu, thread)).flatten() {
        Some(idle) => handover::start_reserved(cpu, thread, idle),
        None => handover::start_on(cpu, thread, near),
    }
}

/// The core of this island that has least to do, of those that a thread may run on.
fn nearest_core<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> CoreId {
    run_queue::least_loaded(cpu, cpu.island(), run_queue::cores_of(thread))
}

/// The parent of a `vfork` waits until the child has executed a program or exited.
fn vfork_continues<M: Machine>(call: &Call<M>) -> SysResult {
    let pid = call.thread.scratch[0].get();
    let tree = lock_tree(call.cpu);
    let child = tree::lookup(call.cpu, pid as u32).filter(|child| {
        child.execed.get() == 0
            && child.state.load(Ordering::Relaxed) != PROCESS_ZOMBIE
            && parent_of(call.cpu, child).is_some_and(|parent| core::ptr::eq(parent, call.process))
    });
    let Some(child) = child else {
        drop(tree);
        end_temporary_mask(call);
        return Ok(pid);
    };
    wait::prepare(call.thread);
    wait::enqueue(call.cpu, call.thread, &child.vfork_waiters, 0, u32::MAX);
    // The child leaves by taking the tree lock and then waking; it has not yet, or it will find the caller queued.
    drop(tree);
    Err(Stop::Block)
}
