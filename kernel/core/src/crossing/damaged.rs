//! Damaged messages of calls: the kernel ends the process whose call it is, and the cores go on.

use core::fmt;

use motet_layout::sync::Ordering;

use motet_hal::Machine;
use motet_layout::{CoreId, CrossingRecord, THREAD_RUNNING, ThreadRecord};
use motet_protocol::{Context, cores::core_record, direct, threads};

use super::{
    caller::{release, take_back},
    records::innermost,
    report,
};
use crate::{
    console,
    cpu::Cpu,
    signal,
    tree::{lock_tree, process_of},
};

/// The message that `callee` has is damaged. Ends the process whose call it is, which its thread's own record says: at once if
/// this core was called, otherwise when it runs the thread, which comes back.
#[cold]
pub fn end_damaged<M: Machine>(
    cpu: &Cpu<M>,
    callee: CoreId,
    what: fmt::Arguments<'_>,
) -> Option<&'static ThreadRecord> {
    let Some(thread) = find_called(cpu, callee) else {
        console::kernel_message(cpu, format_args!("a call to core {} is lost: {what}", callee.index()));
        end_message(cpu, callee);
        return None;
    };
    take_back(cpu, thread);
    end_message(cpu, callee);
    if callee == cpu.id {
        report::kill(cpu, thread, process_of(cpu, thread), what);
        return None;
    }
    report::say_killed(cpu, thread, process_of(cpu, thread), what);
    signal::force(cpu, thread, signal::SIGKILL);
    Some(thread)
}

/// The thread that says that it is in a call of this core to `callee`, or, if that is this core, in one of whom the call word names.
fn find_called<M: Machine>(cpu: &Cpu<M>, callee: CoreId) -> Option<&'static ThreadRecord> {
    let is_own = callee == cpu.id;
    let caller = if is_own { direct::caller(cpu) } else { Some(cpu.id) };
    let is_of_call = |record: &CrossingRecord| {
        // Who is just leaving another core has its caller's registers saved; but so has a function that goes on after a call back.
        (is_own || record.is_saved.get() == 0)
            // Others, whom the core has answered, may not have been taken back yet.
            && caller.is_none_or(|caller| record.caller_core.get() == u32::from(caller.0))
    };
    let is_called = |thread: &&'static ThreadRecord| {
        let on_its_way = thread.core.load(Ordering::Relaxed) == u32::from(callee.0)
            && thread.state.load(Ordering::Relaxed) == THREAD_RUNNING
            && core_record(cpu, callee).current_thread.load(Ordering::Relaxed) != cpu.raw(*thread);
        on_its_way && innermost(cpu, thread).is_some_and(is_of_call)
    };
    let _tree = lock_tree(cpu);
    threads::all(cpu).find(is_called)
}

fn end_message<M: Machine>(cpu: &Cpu<M>, callee: CoreId) {
    if callee == cpu.id {
        direct::end_call(cpu, direct::caller(cpu), cpu.crossing.reach());
    } else {
        release(cpu, callee, cpu.crossing.reach());
    }
}
