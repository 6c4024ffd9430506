//! What a thread does about its signals before it runs user code: handlers, stops, its end.

pub mod calls;
mod deliver;

use core::sync::atomic::Ordering;

use motet_abi::{
    Errno, Syscall, registers,
    signal::{self as abi, DefaultAction, SigCause, SigInfo, UNBLOCKABLE},
};
use motet_hal::Machine;
use motet_layout::{ProcessRecord, SignalAction, THREAD_STOPPED, ThreadRecord, WAKE_SIGNAL, handshake::then_look};
use motet_protocol::{timer, wait};

use crate::{
    away,
    call::{Call, Stop, deliverable, end_call, note_pause},
    chain, console,
    cpu::Cpu,
    cputime, crossing, file, futex, handover,
    process::exit,
    signal::{
        self, Origin, Pending, STOP_SIGNALS, action_of, end_temporary_mask, fatal, first_of, force, held,
        mask_has_changed, stopping,
    },
    time,
    tree::{self, for_each_thread, lock_tree},
};

/// What became of a thread that attended to its signals.
pub enum Attention {
    /// It runs on.
    Run,
    /// It waits for a page of the stack that a handler is to run on, and attends to its signals again then.
    Page,
    /// It has exited or stopped: it is no longer this core's.
    Gone,
}

/// Handles what the running thread's attention word may stand for: signals, stops, its end. It is not inlined, because inlined it slowed down
/// the start of every thread.
#[cold]
#[inline(never)]
pub fn attend<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) -> Attention {
    // A swap, which sees what those wrote before who set the word; a store might overwrite it unseen.
    thread.attention.swap(0, Ordering::SeqCst);
    if signal::owner::tell(cpu) {
        thread.attention.store(1, Ordering::Release);
    }
    loop {
        if thread.kill.load(Ordering::SeqCst) != 0 {
            if awaits_pages_to_end(cpu, thread, process) {
                finish_call_for_exit(cpu, thread);
                return Attention::Page;
            }
            let status = process.exit_status.load(Ordering::Relaxed);
            exit::end_thread(cpu, thread, process, status);
            return Attention::Gone;
        }
        if stopping::is_begun(process) {
            end_call_that_stops(cpu, thread, process);
            if stop(cpu, thread, process) {
                return Attention::Gone;
            }
            continue;
        }
        // A call that is in the middle of its work ends first, unless the thread does.
        let paused = thread.stage.get().is_paused();
        let held = held(cpu, thread, process);
        if paused && deliverable(thread, process) & fatal(cpu, process) == 0 {
            // A call with a mask of its own ends for signals with a handler, too, when it waits.
            let looks_at = if thread.restore_mask.get() != 0 { u64::MAX } else { !held };
            if deliverable(thread, process) & looks_at != 0 {
                thread.attention.store(1, Ordering::Release);
            }
            return Attention::Run;
        }
        // A stop is taken and carried out under the tree lock: a continuing signal comes before both or after both.
        let stops = !paused && deliverable(thread, process) & STOP_SIGNALS & !held != 0;
        let tree = stops.then(|| lock_tree(cpu));
        let later = match (paused, stops) {
            (true, _) => !fatal(cpu, process),
            (false, true) => held,
            (false, false) => STOP_SIGNALS | held,
        };
        let Some((signal, pending)) = take_signal(thread, process, later) else {
            if deliverable(thread, process) & held != 0 && thread.restore_mask.get() != 0 {
                end_masked_call(cpu, thread, process);
            }
            restore_mask(cpu, thread, process);
            return Attention::Run;
        };
        let origin = pending.take(cpu, signal, stops);
        let action = action_of(cpu, process, signal);
        if stops {
            if action.handler.get() == abi::SIG_DFL && abi::default_action(signal) == DefaultAction::Stop {
                // Nobody would continue an orphaned group that the terminal has stopped.
                let group = process.pgid.load(Ordering::Relaxed);
                if signal == abi::SIGSTOP || !tree::is_orphaned(cpu, group, None) {
                    stop_process(cpu, process, signal);
                }
                continue;
            }
            drop(tree);
        }
        match action.handler.get() {
            abi::SIG_IGN => {}
            abi::SIG_DFL => match abi::default_action(signal) {
                DefaultAction::Ignore | DefaultAction::Continue | DefaultAction::Stop => {}
                DefaultAction::Terminate | DefaultAction::Core => {
                    finish_call_for_exit(cpu, thread);
                    if thread.crossing.get() != 0 && abi::default_action(signal) == DefaultAction::Core {
                        console::kernel_message(
                            cpu,
                            format_args!("process {} ends by signal {signal}", process.pid.get()),
                        );
                        chain::backtrace(cpu, thread, process);
                    }
                    if awaits_pages_to_end(cpu, thread, process) {
                        exit::begin_end_of_process(cpu, thread, process, signal);
                        thread.kill.store(1, Ordering::Relaxed);
                        continue;
                    }
                    exit::exit_group_by_signal(cpu, thread, process, signal);
                    return Attention::Gone;
                }
            },
            _ => {
                interrupt_call(cpu, thread, process, Some(action));
                let info = info_of(thread, signal, &origin);
                if let Err(stop) = deliver::deliver(cpu, thread, process, action, &info) {
                    if matches!(stop, Stop::Page) {
                        Pending::of_thread(thread).put_back(cpu, signal, origin);
                        return Attention::Page;
                    }
                    if signal == abi::SIGSEGV {
                        action.handler.set(abi::SIG_DFL);
                    }
                    force(cpu, thread, abi::SIGSEGV);
                    thread.attention.store(0, Ordering::Release);
                    then_look();
                }
            }
        }
    }
}

/// Whether something waits for the thread that it attends to even in the middle of a call.
pub fn ends_or_stops<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord) -> bool {
    thread.kill.load(Ordering::SeqCst) != 0
        || stopping::is_begun(process)
        || deliverable(thread, process) & fatal(cpu, process) != 0
}

/// Takes the next signal that is not blocked, and says from where; a thread's own come first. Those of `later` stay pending.
fn take_signal<'a>(thread: &'a ThreadRecord, process: &'a ProcessRecord, later: u64) -> Option<(u32, Pending<'a>)> {
    loop {
        let mask = thread.signal_mask.load(Ordering::Relaxed) & !UNBLOCKABLE | later;
        for pending in [Pending::of_thread(thread), Pending::of_process(process)] {
            let ready = pending.set.load(Ordering::SeqCst) & !mask;
            if ready != 0 {
                let first = first_of(ready);
                if pending.set.fetch_and(!first, Ordering::SeqCst) & first != 0 {
                    return Some((first.trailing_zeros() + 1, pending));
                }
            }
        }
        if deliverable(thread, process) & !later == 0 {
            return None;
        }
    }
}

/// After a call that changed the mask for its own time (`sigsuspend`, `ppoll`), if no handler was entered.
fn restore_mask<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord, process: &ProcessRecord) {
    if thread.restore_mask.get() != 0 && thread.stage.get().is_user() {
        thread.restore_mask.set(0);
        let before = thread.signal_mask.swap(thread.saved_mask.get(), Ordering::AcqRel);
        then_look();
        mask_has_changed(cpu, thread, process, before);
    }
}

/// Whether the thread, which is to end, has to wait for pages of what it owes others then.
fn awaits_pages_to_end<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> bool {
    futex::await_release(&Call { cpu, thread, process, args: [0; 6], isa: M::ISA }).is_err()
}

/// Ends the wait of a thread that is about to exit.
fn finish_call_for_exit<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if !thread.stage.get().is_user() {
        wait::finish(cpu, thread);
        timer::disarm(cpu, &thread.timer);
        file::call_ended(cpu, thread);
        end_call(thread);
    }
}

/// A handler is about to run: the system call in progress ends, or will be made again after it.
fn interrupt_call<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    action: Option<&SignalAction>,
) {
    if thread.stage.get().is_user() {
        return;
    }
    wait::finish(cpu, thread);
    timer::disarm(cpu, &thread.timer);
    file::call_ended(cpu, thread);
    let isa = registers::frame_isa(&thread.frame);
    let call = Call { cpu, thread, process, args: registers::syscall_args(&thread.frame), isa };
    let number = registers::syscall_number(&thread.frame);
    let kind = Syscall::decode(isa, number);
    let restarts = action.is_some_and(|action| action.flags.get() & abi::SA_RESTART != 0);
    let done = match kind {
        Some(Syscall::Sendmmsg | Syscall::Recvmmsg) => file::messages_done(&call),
        _ => thread.progress.get(),
    };
    if done != 0 {
        registers::set_result(&thread.frame, done as i64);
    } else if restarts && is_restartable(kind, &call) {
        registers::rewind_syscall(&thread.frame);
    } else {
        match kind {
            Some(Syscall::Nanosleep | Syscall::ClockNanosleep) => time::sleep_interrupted(&call),
            Some(Syscall::Select | Syscall::Pselect6 | Syscall::Ppoll) => file::wait_interrupted(&call, kind),
            _ => {}
        }
        registers::set_result(&thread.frame, Errno::EINTR.result());
    }
    end_call(thread);
}

/// A half in another kernel waits in a call with a mask of its own, and a signal came that this lets through: the call ends, although the handler
/// waits until the thread is home.
#[cold]
#[inline(never)]
fn end_masked_call<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    let Some(away) = crossing::served(cpu, thread) else { return };
    wait::finish(cpu, thread);
    timer::disarm(cpu, &thread.timer);
    file::call_ended(cpu, thread);
    let Some((name, call)) = away::call_of(cpu, thread, process, away) else { return };
    if matches!(name, Syscall::Pselect6 | Syscall::Ppoll) {
        file::wait_interrupted(&call, Some(name));
    }
    end_temporary_mask(&call);
    away::reply(&call, away, Errno::EINTR.result());
    note_pause(thread);
}

/// The process stops: calls end that Linux does not resume when it continues (signal(7), "Interruption of system calls and library functions by
/// stop signals").
fn end_call_that_stops<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    use Syscall as S;
    if !thread.stage.get().has_waited() {
        return;
    }
    let kind = Syscall::decode(registers::frame_isa(&thread.frame), registers::syscall_number(&thread.frame));
    if matches!(kind, Some(S::EpollWait | S::EpollPwait | S::EpollPwait2 | S::RtSigtimedwait)) {
        interrupt_call(cpu, thread, process, None);
    }
}

/// Asks all threads of a process to stop. The tree lock is held.
fn stop_process<M: Machine>(cpu: &Cpu<M>, process: &'static ProcessRecord, signal: u32) {
    stopping::begin(process, signal);
    for_each_thread(cpu, process, |thread| {
        thread.attention.store(1, Ordering::Release);
        if !wait::wake_thread(cpu, thread, WAKE_SIGNAL) {
            handover::nudge(cpu, thread);
        }
    });
}

/// Takes the running thread off this core if its process is still stopped, and the thread was not told to end meanwhile: nobody would wake it then.
fn stop<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &ProcessRecord) -> bool {
    handover::save_ext(cpu, thread);
    cputime::charge(cpu, thread);
    // The lock orders this against a continuing signal: it finds the thread stopped, or we find the process running.
    let _tree = lock_tree(cpu);
    if !stopping::is_begun(process) || thread.kill.load(Ordering::SeqCst) != 0 {
        return false;
    }
    thread.attention.store(1, Ordering::Release);
    stopping::thread_leaves(cpu, process, thread);
    thread.state.store(THREAD_STOPPED, Ordering::Release);
    true
}

fn info_of(thread: &ThreadRecord, signal: u32, origin: &Origin) -> SigInfo {
    let code = thread.fault_code.get().cast_signed();
    match signal {
        abi::SIGSEGV | abi::SIGBUS | abi::SIGILL | abi::SIGFPE | abi::SIGTRAP if code != 0 => {
            SigInfo { signal, code, cause: SigCause::Fault { address: thread.fault_address.get() } }
        }
        _ => origin.info(signal),
    }
}

/// Whether a call interrupted by a handler with `SA_RESTART` is made again (signal(7)).
fn is_restartable<M: Machine>(kind: Option<Syscall>, call: &Call<M>) -> bool {
    use Syscall as S;
    // With a timeout it would begin anew, and might never end.
    if kind == Some(S::Futex) && futex::is_timed_wait(call) {
        return false;
    }
    !matches!(
        kind,
        Some(
            S::Pause
                | S::RtSigsuspend
                | S::RtSigtimedwait
                | S::Nanosleep
                | S::ClockNanosleep
                | S::Poll
                | S::Ppoll
                | S::Select
                | S::Pselect6
                | S::EpollWait
                | S::EpollPwait
                | S::EpollPwait2
                | S::IoGetevents
                | S::Msgrcv
                | S::Msgsnd
                | S::Semop
                | S::Semtimedop
        )
    )
}
