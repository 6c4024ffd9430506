//! Pages of user memory that come later: their threads wait, outside of calls, between two attempts at one, or in the middle of one
//! (`docs/protocols/late-pages.md`).

use core::sync::atomic::Ordering;

use motet_abi::registers;
use motet_hal::Machine;
use motet_layout::{ProcessRecord, Stage, ThreadRecord};
use motet_protocol::wait;

use super::block::leave;
use crate::{
    attend,
    call::{Stop, is_made_anew, note_pause},
    cpu::{AwaitedPage, Cpu},
    cputime::charge,
    futex, handover, mm,
};

/// The thread's instruction has faulted on a page that comes later, and is executed again when it has. `None`: the thread no longer belongs to this
/// core.
#[cold]
pub fn wait_to_execute<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> Option<()> {
    wait(cpu, thread, process, Stage::INSTRUCTION)
}

/// As [`wait_to_execute`], for the system call that the thread is in. What has kept something goes on with it; any other call is made anew, by
/// the instruction that has made it: signals come before it then.
#[cold]
pub fn wait_in_call<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> Option<()> {
    if is_made_anew(thread) && thread.stage.get().is_user() {
        registers::rewind_syscall(&thread.frame);
        return wait(cpu, thread, process, Stage::INSTRUCTION);
    }
    if thread.progress.get() != 0 {
        note_pause(thread);
    }
    wait(cpu, thread, process, thread.stage.get().for_page())
}

/// The handler of a signal is to run on a stack of which a page comes later: the thread looks at its signals again when it has. `None`: the thread
/// no longer belongs to this core.
#[cold]
pub fn wait_for_handler<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
) -> Option<()> {
    // The call that it was in has ended for the handler.
    wait(cpu, thread, process, Stage::USER.for_page())?;
    thread.attention.store(1, Ordering::Release);
    Some(())
}

/// `stage`: in the middle of what it waits.
fn wait<M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    stage: Stage,
) -> Option<()> {
    let Some(page) = cpu.mm.take_awaited() else { return Some(()) };
    wait::prepare(thread);
    futex::enqueue_shared(cpu, thread, AwaitedPage::arrival(page.file, page.index));
    futex::wake_shared(cpu, AwaitedPage::wish(page.file));
    let again = mm::serve_fault(cpu, page.space, page.address, page.access);
    let is_same = cpu.mm.take_awaited().is_some_and(|now| (now.file, now.index) == (page.file, page.index));
    if again != Err(Stop::Page) || !is_same {
        // It is there, never will be, or another page has been mapped meanwhile: whoever has asked for it finds out.
        wait::finish(cpu, thread);
        return Some(());
    }
    handover::save_ext(cpu, thread);
    charge(cpu, thread);
    thread.stage.set(stage);
    if stage.is_paused() && !attend::ends_or_stops(cpu, thread, process) {
        // Handlers run after the call, and are no reason to look again for what has not come. What is sent from here on wakes it.
        thread.attention.swap(0, Ordering::SeqCst);
        if attend::ends_or_stops(cpu, thread, process) {
            thread.attention.store(1, Ordering::Release);
        }
    }
    leave(cpu, thread)
}
