//! Signals: sending, and what a thread does about them before it runs user code.
//!
//! Pending sets, masks and actions are in the pool, so a signal to a thread of another island is a bit, an attention
//! word and a wake-up (or a doorbell, if the thread runs). Sending happens under the process-tree lock, which keeps
//! the target alive.

mod expiry;
mod mask;
pub mod owner;
mod queue;
pub mod stopping;
pub mod timers;

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno,
    process::WaitStatus,
    registers,
    signal::{self as abi, DefaultAction, UNBLOCKABLE},
    time::RLIMIT_SIGPENDING,
};
use motet_hal::{Machine, Trap};
use motet_layout::{
    PROCESS_ALIVE, PoolAddr, PosixTimerRecord, ProcessRecord, SignalAction, SignalActions, THREAD_DEAD, THREAD_ENDING,
    THREAD_STOPPED, ThreadRecord, WAKE_SIGNAL, ones,
};
use motet_protocol::{Context, groups, run_queue, slab, threads, wait};

pub use expiry::{expire_by_time, expired, repair_timers, withdraw};
pub use mask::{
    begin_temporary_mask, end_temporary_mask, first_of, hold_handlers, hold_no_longer, is_pending, mask_has_changed,
    release_handlers, set_mask, take_pending,
};
pub use queue::{Origin, Pending};

pub use abi::{SIGALRM, SIGCHLD, SIGILL, SIGKILL};

use crate::{
    call::deliverable,
    cpu::Cpu,
    handover, mm,
    tree::{self, for_each_thread, limit_of, lock_tree, parent_of},
};

/// Signals that stop a process.
pub const STOP_SIGNALS: u64 =
    abi::bit(abi::SIGSTOP) | abi::bit(abi::SIGTSTP) | abi::bit(abi::SIGTTIN) | abi::bit(abi::SIGTTOU);

/// Sends a signal to every process of a group. Returns whether there was one.
pub fn send_to_group<M: Machine>(cpu: &Cpu<M>, pgid: u32, signal: u32) -> bool {
    let _tree = lock_tree(cpu);
    let mut any = false;
    groups::for_each(cpu, pgid, |process| {
        if process.state.load(Ordering::Acquire) == PROCESS_ALIVE {
            any = true;
            send_to_member(cpu, process, signal, Origin::KERNEL);
        }
    });
    any
}

/// As [`send_locked`], to one of several processes that get the signal at the same time: also to those that it is making, which are not in the
/// tree yet.
pub fn send_to_member<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, signal: u32, origin: Origin) {
    let cancelled = match signal {
        abi::SIGCONT => STOP_SIGNALS,
        stop if abi::bit(stop) & STOP_SIGNALS != 0 => abi::bit(abi::SIGCONT),
        _ => 0,
    };
    for_each_thread(cpu, process, |thread| {
        thread.group_signals.set(thread.group_signals.get() & !cancelled | abi::bit(signal));
    });
    send_locked(cpu, process, signal, origin);
}

/// The thread begins to make a process. What was sent to its group before, and what it has seen of that, is the thread's own.
pub fn begin_to_make<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord) {
    if thread.group_signals.get() == 0 {
        return;
    }
    let _tree = lock_tree(cpu);
    let unseen = deliverable(thread, process) | if stopping::is_begun(process) { STOP_SIGNALS } else { 0 };
    thread.group_signals.set(thread.group_signals.get() & unseen);
}

/// Sends a new process what was sent to its maker's group while it was made. Nobody knows any more who has sent it, as on Linux. The tree lock
/// is held.
pub fn send_to_new<M: Machine>(cpu: &Cpu<M>, maker: &ThreadRecord, child: &'static ProcessRecord) {
    for index in ones(maker.group_signals.get()) {
        send_locked(cpu, child, index as u32 + 1, Origin { code: abi::SI_USER, fields: [0; 4] });
    }
}

/// Sends a signal to a process, with what is told to a handler. The tree lock is held. `false`: there was no room to keep
/// that.
pub fn send_locked<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, signal: u32, origin: Origin) -> bool {
    if process.state.load(Ordering::Acquire) != PROCESS_ALIVE {
        return true;
    }
    let mut oldest = None;
    for_each_thread(cpu, process, |thread| oldest = Some(thread));
    if !prepare_target(cpu, process, oldest, signal) {
        return true;
    }
    let kept = Pending::of_process(process).add(cpu, signal, origin, limit_of(process, RLIMIT_SIGPENDING));
    wait::wake(cpu, &cpu.pool.header().signal_waiters);
    if signal == SIGKILL {
        kill_threads(cpu, process);
    } else {
        notify_one(cpu, process, signal);
    }
    kept
}

/// Makes threads look at a signal of their process: all that wait for it (`sigtimedwait`), of which one takes it; and the oldest of those that do
/// not block it, if possible one whose handlers need not wait for its registers. Who ends takes none. The tree lock is held.
fn notify_one<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, signal: u32) {
    let (mut here, mut elsewhere) = (None, None);
    for_each_thread(cpu, process, |thread| {
        let blocks = thread.signal_mask.load(Ordering::SeqCst) & abi::bit(signal) != 0;
        if blocks && awaits(thread, signal) {
            notify(cpu, thread, signal);
        } else if !blocks && !is_ending(thread) {
            let is_here = thread.is_elsewhere.load(Ordering::SeqCst) == 0;
            *(if is_here { &mut here } else { &mut elsewhere }) = Some(thread);
        }
    });
    if let Some(thread) = here.or(elsewhere) {
        notify(cpu, thread, signal);
    }
}

/// A thread that was made to look at `signals` of its process will not take them: it ends, or blocks them now. Others look. The tree lock is held.
pub fn retarget<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, signals: u64) {
    for index in ones(process.pending.load(Ordering::SeqCst) & signals) {
        notify_one(cpu, process, index as u32 + 1);
    }
}

fn is_ending(thread: &ThreadRecord) -> bool {
    thread.stage.get().ends() || matches!(thread.state.load(Ordering::Relaxed), THREAD_ENDING | THREAD_DEAD)
}

/// Whether a thread is in `sigtimedwait` for a signal. A thread that runs its program may say so, too.
fn awaits(thread: &ThreadRecord, signal: u32) -> bool {
    thread.scratch[3].get() & abi::bit(signal) != 0
}

/// Every thread of a process ends before it executes another instruction of its program, whichever of them sees the signal: who
/// kills its own process does not come back. The tree lock is held.
fn kill_threads<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord) {
    if process.exiting.swap(1, Ordering::AcqRel) == 0 {
        process.exit_status.store(SIGKILL, Ordering::Relaxed);
    }
    for_each_thread(cpu, process, |thread| {
        thread.kill.store(1, Ordering::Relaxed);
        notify(cpu, thread, SIGKILL);
    });
}

/// Sends a signal to a thread for what it does itself (`SIGPIPE`, `SIGXFSZ`): as if it had used `kill`.
pub fn send_to_thread<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, signal: u32) {
    let _tree = lock_tree(cpu);
    let origin = Origin::sent_by(abi::SI_USER, tree::process_of(cpu, thread));
    send_to_thread_locked(cpu, thread, signal, origin);
}

/// As [`send_to_thread`], with the tree lock held and what is told to a handler. `false`: there was no room to keep that.
pub fn send_to_thread_locked<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    signal: u32,
    origin: Origin,
) -> bool {
    let process = tree::process_of(cpu, thread);
    if !prepare_target(cpu, process, Some(thread), signal) {
        return true;
    }
    let kept = Pending::of_thread(thread).add(cpu, signal, origin, limit_of(process, RLIMIT_SIGPENDING));
    wait::wake(cpu, &cpu.pool.header().signal_waiters);
    if signal == SIGKILL {
        kill_threads(cpu, process);
    } else {
        notify(cpu, thread, signal);
    }
    kept
}

/// What became of the signal of a timer.
pub enum SentOfTimer {
    /// It is pending.
    Sent,
    /// It is ignored, or there is nobody who could take it.
    Ignored,
    /// There is no room to keep what is known of it.
    NoRoom,
}

/// Sends the signal of a timer that has expired to its process, or to a thread of that. The tree lock is held.
pub fn send_of_timer<M: Machine>(
    cpu: &Cpu<M>,
    process: &'static ProcessRecord,
    thread: Option<&'static ThreadRecord>,
    timer: &PosixTimerRecord,
    origin: Origin,
) -> SentOfTimer {
    if process.state.load(Ordering::Acquire) != PROCESS_ALIVE {
        return SentOfTimer::Ignored;
    }
    let signal = timer.signal.get();
    let mut target = thread;
    if target.is_none() {
        for_each_thread(cpu, process, |oldest| target = Some(oldest));
    }
    if !prepare_target(cpu, process, target, signal) {
        return SentOfTimer::Ignored;
    }
    if !thread.map_or_else(|| Pending::of_process(process), Pending::of_thread).add_of_timer(cpu, timer, origin) {
        return SentOfTimer::NoRoom;
    }
    wait::wake(cpu, &cpu.pool.header().signal_waiters);
    match thread {
        _ if signal == SIGKILL => kill_threads(cpu, process),
        Some(thread) => notify(cpu, thread, signal),
        None => notify_one(cpu, process, signal),
    }
    SentOfTimer::Sent
}

/// Frees what is known of pending signals of a thread that has ended, and with `process` of its process. The tree lock is
/// held.
pub fn discard_pending<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: Option<&ProcessRecord>) {
    Pending::of_thread(thread).discard(cpu, u64::MAX);
    if let Some(process) = process {
        Pending::of_process(process).discard(cpu, u64::MAX);
    }
}

/// Sends the signal for an access at `address` that the thread's address space does not allow.
pub fn memory_fault<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, address: u64, errno: Errno) {
    let space = mm::space_of(cpu, tree::process_of(cpu, thread));
    let (signal, code) = if errno == Errno::ENOMEM {
        (abi::SIGKILL, abi::SI_KERNEL)
    } else if mm::lacks_page(errno) {
        (abi::SIGBUS, abi::BUS_ADRERR)
    } else if mm::is_mapped(cpu, space, address) {
        (abi::SIGSEGV, abi::SEGV_ACCERR)
    } else {
        (abi::SIGSEGV, abi::SEGV_MAPERR)
    };
    force_fault(cpu, thread, signal, code, address);
}

/// Sends the signal for an exception that the thread has caused.
pub fn exception<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, trap: Trap) {
    let pc = registers::pc(&thread.frame);
    let (signal, code, address) = match trap {
        Trap::IllegalInstruction { .. } => (abi::SIGILL, abi::illegal_code(M::ISA), pc),
        Trap::Breakpoint => (abi::SIGTRAP, abi::breakpoint_code(M::ISA), pc),
        Trap::Arithmetic => (abi::SIGFPE, abi::FPE_INTDIV, pc),
        Trap::Misaligned { address } => (abi::SIGBUS, abi::BUS_ADRALN, address),
        Trap::BadAddress { address } => (abi::SIGSEGV, abi::bad_address_code(M::ISA), address),
        Trap::Syscall | Trap::PageFault { .. } | Trap::Interrupt(_) | Trap::Guest(_) => return,
    };
    let address = if code == abi::SI_KERNEL { 0 } else { address };
    force_fault(cpu, thread, signal, code, address);
}

/// [`force`], for a fault whose kind and address a handler is told.
fn force_fault<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, signal: u32, code: i32, address: u64) {
    thread.fault_address.set(address);
    thread.fault_code.set(code.cast_unsigned());
    force(cpu, thread, signal);
}

/// Sends a signal that the thread cannot put off: if it blocks or ignores it, the default action is taken.
pub fn force<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, signal: u32) {
    let process = tree::process_of(cpu, thread);
    let action = action_of(cpu, process, signal);
    let blocked = thread.signal_mask.load(Ordering::Relaxed) & abi::bit(signal) != 0;
    if blocked || action.handler.get() == abi::SIG_IGN {
        action.handler.set(abi::SIG_DFL);
        thread.signal_mask.fetch_and(!abi::bit(signal), Ordering::Relaxed);
    }
    thread.pending.fetch_or(abi::bit(signal), Ordering::SeqCst);
    thread.attention.store(1, Ordering::Release);
}

/// Whether children of this process leave no zombies.
pub fn discards_children<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> bool {
    let action = action_of(cpu, process, SIGCHLD);
    action.handler.get() == abi::SIG_IGN || action.flags.get() & abi::SA_NOCLDWAIT != 0
}

/// Drops a process's use of signal actions.
pub fn release_actions<M: Machine>(cpu: &Cpu<M>, actions: &'static SignalActions) {
    if actions.refs.fetch_sub(1, Ordering::AcqRel) == 1 {
        slab::free(cpu, actions);
    }
}

/// Gives a process signal actions of its own, if it shares them with another process.
///
/// # Errors
/// `ENOMEM`.
pub fn unshare_actions<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> Result<(), Errno> {
    let shared: &'static SignalActions = cpu.pool.at(PoolAddr(process.actions.get()));
    if shared.refs.load(Ordering::Acquire) > 1 {
        let own = copy_actions(cpu, shared, false).ok_or(Errno::ENOMEM)?;
        {
            // Senders look at a process's actions under this lock.
            let _tree = lock_tree(cpu);
            process.actions.set(cpu.raw(own));
        }
        release_actions(cpu, shared);
    }
    Ok(())
}

/// A copy of signal actions, with one user; `cleared`: without handlers.
pub fn copy_actions<M: Machine>(
    cpu: &Cpu<M>,
    actions: &SignalActions,
    cleared: bool,
) -> Option<&'static SignalActions> {
    let copy = slab::alloc::<SignalActions>(cpu)?;
    copy.refs.store(1, Ordering::Relaxed);
    for (to, from) in copy.actions.iter().zip(&actions.actions) {
        let is_cleared = cleared && from.handler.get() > abi::SIG_IGN;
        to.handler.set(if is_cleared { abi::SIG_DFL } else { from.handler.get() });
        to.flags.set(from.flags.get());
        to.restorer.set(from.restorer.get());
        to.mask.set(from.mask.get());
    }
    Some(copy)
}

/// Gives handled signals their default action at `execve`, because the handlers no longer exist.
pub fn reset_for_exec<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) {
    for signal in 1..=abi::NSIG {
        let action = action_of(cpu, process, signal);
        if action.handler.get() != abi::SIG_IGN {
            action.handler.set(abi::SIG_DFL);
        }
        action.flags.set(0);
        action.mask.set(0);
    }
}

/// Lets a stopped thread run. The tree lock is held.
pub fn resume_stopped<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let in_transit = run_queue::in_transit_by(cpu.id);
    let resumed =
        thread.state.compare_exchange(THREAD_STOPPED, in_transit, Ordering::SeqCst, Ordering::Relaxed).is_ok();
    if resumed {
        run_queue::hand_over(cpu, thread);
    }
}

/// Whether the process has a handler of its own for a signal.
pub fn is_handled<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, signal: u32) -> bool {
    action_of(cpu, process, signal).handler.get() > abi::SIG_IGN
}

/// Signals that wait because their handlers cannot run: the thread's registers are in another kernel.
#[inline(always)]
pub fn held<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord) -> u64 {
    if thread.is_elsewhere.load(Ordering::Relaxed) == 0 { 0 } else { handled(cpu, process) }
}

#[cold]
#[inline(never)]
fn handled<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> u64 {
    (1..=abi::NSIG).filter(|&signal| is_handled(cpu, process, signal)).map(abi::bit).sum()
}

/// The action of a signal.
pub fn action_of<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, signal: u32) -> &'static SignalAction {
    let actions: &'static SignalActions = cpu.pool.at(PoolAddr(process.actions.get()));
    &actions.actions[signal as usize - 1]
}

/// Whether a process is about to end: it exits, or the thread will see a signal that ends it. The tree lock is held, so nobody is sending one.
pub fn is_to_end<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord) -> bool {
    let pending = deliverable(thread, process);
    process.exiting.load(Ordering::Relaxed) != 0 || pending != 0 && pending & fatal(cpu, process) != 0
}

/// Signals that end a process.
pub fn fatal<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> u64 {
    let is_fatal = |signal: &u32| {
        let ends = matches!(abi::default_action(*signal), DefaultAction::Terminate | DefaultAction::Core);
        ends && action_of(cpu, process, *signal).handler.get() == abi::SIG_DFL
    };
    (1..=abi::NSIG).filter(is_fatal).map(abi::bit).sum()
}

/// Effects of sending alone: continuing cancels stops and the other way round. `false`: the signal is ignored, and `target`, the thread that it
/// was sent to or else the process's oldest, does not block it.
fn prepare_target<M: Machine>(
    cpu: &Cpu<M>,
    process: &'static ProcessRecord,
    target: Option<&ThreadRecord>,
    signal: u32,
) -> bool {
    if signal == abi::SIGCONT || signal == SIGKILL {
        discard_everywhere(cpu, process, STOP_SIGNALS);
        if let Some(told) = stopping::end(process) {
            if signal == abi::SIGCONT {
                process.continued.store(1, Ordering::Relaxed);
                tell_parent(cpu, process, told);
            }
            for_each_thread(cpu, process, |thread| resume_stopped(cpu, thread));
        }
    } else if abi::bit(signal) & STOP_SIGNALS != 0 {
        discard_everywhere(cpu, process, abi::bit(abi::SIGCONT));
    }
    let action = action_of(cpu, process, signal).handler.get();
    let ignored = action == abi::SIG_IGN
        || action == abi::SIG_DFL
            && matches!(abi::default_action(signal), DefaultAction::Ignore | DefaultAction::Continue);
    // A blocked signal is kept: the process may look for it or stop ignoring it.
    !ignored || target.is_some_and(|thread| thread.signal_mask.load(Ordering::Relaxed) & abi::bit(signal) != 0)
}

/// Signals are no longer pending, neither for the process nor for its threads. The tree lock is held.
pub fn discard_everywhere<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, signals: u64) {
    for_each_thread(cpu, process, |thread| Pending::of_thread(thread).discard(cpu, signals));
    Pending::of_process(process).discard(cpu, signals);
}

/// Makes the thread look, unless it has the signal blocked and does not wait for it.
fn notify<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, signal: u32) {
    let blocked = thread.signal_mask.load(Ordering::SeqCst) & abi::bit(signal) & !UNBLOCKABLE != 0;
    if blocked && !awaits(thread, signal) {
        return;
    }
    thread.attention.store(1, Ordering::Release);
    if signal == SIGKILL {
        resume_stopped(cpu, thread);
    }
    if !wait::wake_thread(cpu, thread, WAKE_SIGNAL) {
        handover::nudge(cpu, thread);
    }
}

/// Tells the parent that a child stopped or continued. The tree lock is held.
pub fn tell_parent<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord, status: WaitStatus) {
    if let Some(parent) = parent_of(cpu, process) {
        if action_of(cpu, parent, SIGCHLD).flags.get() & abi::SA_NOCLDSTOP == 0 {
            let (user_ns, system_ns) = tree::times_ns(cpu, process);
            send_locked(cpu, parent, SIGCHLD, Origin::child(process, status, [user_ns, system_ns]));
        }
        wait::wake(cpu, &parent.child_waiters);
    }
}

/// The group has lost a tie to the rest of its session, by the end of `gone` if that was its member: if it is an orphaned one now, and a member is
/// stopped, whom nobody would continue, its members are told (POSIX, "_Exit"). The tree lock is held.
pub fn tell_orphans<M: Machine>(cpu: &Cpu<M>, pgid: u32, gone: Option<&ProcessRecord>) {
    let mut has_stopped = false;
    let is_member = |process: &ProcessRecord| process.pgid.load(Ordering::Relaxed) == pgid;
    tree::for_each(cpu, |process| {
        has_stopped |= is_member(process) && stopping::is_begun(process);
    });
    if has_stopped && tree::is_orphaned(cpu, pgid, gone) {
        for signal in [abi::SIGHUP, abi::SIGCONT] {
            tree::for_each(cpu, |process| {
                if is_member(process) {
                    send_to_member(cpu, process, signal, Origin::KERNEL);
                }
            });
        }
    }
}

/// The thread with that id, which must be alive. The tree lock is held.
pub fn living_thread<M: Machine>(cpu: &Cpu<M>, tid: u32) -> Option<&'static ThreadRecord> {
    threads::lookup(cpu, tid)
        .filter(|thread| tree::process_of(cpu, thread).state.load(Ordering::Acquire) == PROCESS_ALIVE)
}
