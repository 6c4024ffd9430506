//! Threads that this core has sent to hidden harts, whose firmware runs them, and those that wait until there is room.
//!
//! Such a thread still belongs to this core, as if it ran here: its state says so, and whoever wants it rings this core, which calls it home. Its address
//! space stays active here, so shoot-downs ask this core, which first calls the thread home ([`Cpu::flush_user`]). When the thread is home, it goes on
//! here before other threads, with the trap that has stopped it there.
//!
//! Protocol page: `docs/protocols/hidden-harts.md`.

use motet_abi::registers;
use motet_hal::{Interrupts, Machine, Trap, Unsent};
use motet_layout::{
    Frame, PoolAddr, ProcessRecord, SpaceRecord, THREAD_READY, ThreadRecord, handshake::then_look, sync::Ordering,
};
use motet_protocol::{
    Context,
    cores::{core_record, cores_of},
    run_queue,
};

use crate::{
    ability::{self, writes},
    alarm,
    cpu::{Causes, Cpu, HartPlace},
    cputime, handover, mm,
};

/// In [`CoreRecord::away`](motet_layout::CoreRecord::away), beside the count: threads of the core wait for a place. (Shoot-downs ask the core then,
/// too, which is only a look.)
const WAITS: u32 = 1 << 31;

/// Sends the running thread to a hidden hart, or lets it wait for one. `None`: it no longer runs here.
pub fn leave<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Result<Option<()>, Unsent> {
    handover::save_ext(cpu, thread);
    cputime::charge(cpu, thread);
    thread.moves.away.store(1, Ordering::Release);
    cpu.own.current_thread.store(0, Ordering::Release);
    then_look();
    // Who has sent a signal before has rung nobody; who does so from now on rings this core.
    if thread.attention.load(Ordering::SeqCst) != 0 {
        stays(cpu, thread);
        return Ok(Some(()));
    }
    let sent = if cpu.hidden.is_any_waiting() { Err(Unsent::Full) } else { send(cpu, thread) };
    match sent {
        Ok(()) => Ok(None),
        Err(Unsent::Full) => {
            thread.queue_next.store(0, Ordering::Relaxed);
            match cpu.hidden.wait(thread) {
                Some(before) => before.queue_next.store(cpu.raw(thread), Ordering::Relaxed),
                None => {
                    cpu.own.away.fetch_or(WAITS, Ordering::SeqCst);
                }
            }
            Ok(None)
        }
        Err(Unsent::Unable) => {
            stays(cpu, thread);
            Err(Unsent::Unable)
        }
    }
}

fn stays<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    cpu.own.current_thread.store(cpu.raw(thread), Ordering::Release);
    thread.moves.away.store(0, Ordering::Release);
    then_look();
}

/// Whether threads of other cores of this island wait for places.
fn do_others_wait<M: Machine>(cpu: &Cpu<M>) -> bool {
    let waits = |core| core_record(cpu, core).away.load(Ordering::Relaxed) & WAITS != 0;
    cores_of(cpu, cpu.island()).any(|core| core != cpu.id && waits(core))
}

/// Whether this core leaves free places to others that wait, as it has its share: it would take each that it leaves again at once.
fn leaves_rest<M: Machine>(cpu: &Cpu<M>) -> bool {
    // Whoever has none may have one: mostly one thread goes and comes.
    let has_none = !cpu.hidden.is_any_away() && !has_come(cpu);
    if has_none || !do_others_wait(cpu) {
        return false;
    }
    let used = cpu.hidden.places().filter(|(_, place)| !matches!(place, HartPlace::Free)).count();
    let share = (cpu.machine.hidden_places() / cores_of(cpu, cpu.island()).count()).max(1);
    used >= share
}

fn send<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Result<(), Unsent> {
    if leaves_rest(cpu) {
        return Err(Unsent::Full);
    }
    let space = space_of(cpu, thread);
    let root = Frame(space.roots[cpu.island().index()].load(Ordering::Relaxed));
    // Count the thread as away, then let the hidden hart translate: in the order of a space that becomes active.
    cpu.own.away.fetch_add(1, Ordering::SeqCst);
    mm::keep_active(cpu, space);
    match cpu.machine.send_away(&thread.frame, &thread.vector_stamp, root) {
        Ok(place) => {
            let moves = &thread.moves;
            moves.sent.set(moves.sent.get() + 1);
            cpu.hidden.go(place, thread, cpu.now_ns());
            Ok(())
        }
        Err(why) => {
            cpu.own.away.fetch_sub(1, Ordering::SeqCst);
            mm::leave_if_unused(cpu, space);
            Err(why)
        }
    }
}

fn space_of<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> &'static SpaceRecord {
    let process = cpu.pool.at::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    mm::space_of(cpu, process)
}

/// Serves an interrupt: calls home threads that are wanted here or have had their turn, takes in those that are home, and sends those that wait.
#[inline(always)]
pub fn look<M: Machine>(cpu: &Cpu<M>) {
    if cpu.own.away.load(Ordering::Relaxed) != 0 || cpu.hidden.is_any_waiting() {
        look_at_all(cpu);
    }
}

#[cold]
fn look_at_all<M: Machine>(cpu: &Cpu<M>) {
    let now_ns = cpu.now_ns();
    let others_wait = || cpu.hidden.is_any_waiting() || cpu.machine.is_any_waiting() || do_others_wait(cpu);
    for (place, thread, since_ns) in cpu.hidden.away(u64::MAX) {
        if is_wanted(thread) || now_ns >= since_ns + alarm::SLICE_NS && others_wait() {
            cpu.machine.call_home(place);
        }
    }
    for (place, thread, since_ns) in cpu.hidden.away(cpu.machine.at_home()) {
        thread.user_ns.set(thread.user_ns.get() + now_ns.saturating_sub(since_ns));
        cpu.hidden.come_home(place, thread);
        cpu.due.set(Causes::COME);
        cpu.own.away.fetch_sub(1, Ordering::SeqCst);
        mm::leave_if_unused(cpu, space_of(cpu, thread));
    }
    send_waiting(cpu);
}

fn is_wanted(thread: &ThreadRecord) -> bool {
    thread.attention.load(Ordering::SeqCst) != 0
}

/// Takes a thread that is home out of its place: what it was stopped by.
fn take_out<M: Machine>(cpu: &Cpu<M>, index: usize, thread: &'static ThreadRecord) -> Trap {
    cpu.hidden.free(index);
    thread.moves.uses_vectors.set(1);
    let trap = writes(cpu, thread, || cpu.machine.take_home(index, &thread.frame));
    if let Trap::Interrupt(why) = trap {
        let count = if why.contains(Interrupts::REMOVED) { &thread.displaced } else { &thread.moves.called_home };
        count.set(count.get() + 1);
    }
    // Its registers are not those that this core may still hold.
    ability::change_ext(thread);
    send_waiting(cpu);
    trap
}

/// Sends those that wait, in their order, as far as there is room; one that is wanted goes on here.
fn send_waiting<M: Machine>(cpu: &Cpu<M>) {
    while let Some(thread) = cpu.hidden.first_waiting() {
        if is_wanted(thread) {
            if cpu.hidden.has_wanted() {
                return;
            }
            goes_on_here(cpu, thread);
        } else {
            match send(cpu, thread) {
                Ok(()) => {}
                Err(Unsent::Full) => return,
                Err(Unsent::Unable) => {
                    if cpu.hidden.has_wanted() {
                        return;
                    }
                    goes_on_here(cpu, thread);
                }
            }
        }
        let next = cpu.object::<ThreadRecord>(thread.queue_next.load(Ordering::Relaxed));
        cpu.hidden.wait_no_longer(next);
        if next.is_none() {
            cpu.own.away.fetch_and(!WAITS, Ordering::SeqCst);
        }
    }
}

/// A thread that waited for a place goes on here.
fn goes_on_here<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    cpu.hidden.set_wanted(thread);
    cpu.due.set(Causes::COME);
}

/// Takes home all threads that are away or wait to be sent, because this core is out of use. They become ready here; the traps that have stopped them are left to do.
#[inline(always)]
pub fn take_all_home<M: Machine>(cpu: &Cpu<M>) {
    if cpu.own.away.load(Ordering::Relaxed) != 0 || cpu.hidden.is_any_waiting() || has_come(cpu) {
        end_all(cpu);
    }
}

#[cold]
fn end_all<M: Machine>(cpu: &Cpu<M>) {
    // Those that wait first, so that none of them is sent when the others come.
    let mut waiting = cpu.hidden.take_waiting();
    cpu.own.away.fetch_and(!WAITS, Ordering::SeqCst);
    while let Some(thread) = waiting {
        waiting = cpu.object::<ThreadRecord>(thread.queue_next.load(Ordering::Relaxed));
        becomes_ready(cpu, thread);
    }
    while cpu.hidden.is_any_away() {
        cpu.machine.bring_home();
        look_at_all(cpu);
    }
    if let Some(thread) = cpu.hidden.take_wanted() {
        becomes_ready(cpu, thread);
    }
    for (index, place) in cpu.hidden.places() {
        if let HartPlace::Home(thread) = place {
            // Whatever has stopped it is executed again; a call begins only then.
            if take_out(cpu, index, thread) == Trap::Syscall {
                registers::rewind_syscall(&thread.frame);
            }
            becomes_ready(cpu, thread);
        }
    }
    cpu.hidden.all_went_on();
    cpu.due.take(Causes::COME);
}

fn becomes_ready<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    thread.moves.away.store(0, Ordering::Release);
    run_queue::append(cpu, thread);
}

/// Whether a thread has come home and was not resumed yet.
#[inline(always)]
pub fn has_come<M: Machine>(cpu: &Cpu<M>) -> bool {
    debug_assert_eq!(cpu.hidden.has_come(), cpu.due.causes().has(Causes::COME));
    cpu.is_due(Causes::COME)
}

/// The time until which this core may sleep, because of threads that are away or wait.
pub fn deadline_ns<M: Machine>(cpu: &Cpu<M>) -> u64 {
    let any = cpu.own.away.load(Ordering::Relaxed) != 0 || cpu.hidden.is_any_waiting();
    if any { cpu.now_ns() + alarm::SLICE_NS } else { u64::MAX }
}

/// Takes the first thread that has come home and was not resumed yet, and the trap that stopped it. It belongs to the caller from now on.
#[inline(always)]
pub fn next<M: Machine>(cpu: &Cpu<M>) -> Option<(&'static ThreadRecord, Trap)> {
    if has_come(cpu) { take_first(cpu) } else { None }
}

#[cold]
fn take_first<M: Machine>(cpu: &Cpu<M>) -> Option<(&'static ThreadRecord, Trap)> {
    let home = cpu.hidden.places().find_map(|(index, place)| match place {
        HartPlace::Home(thread) => Some((index, thread)),
        HartPlace::Free | HartPlace::Away(..) => None,
    });
    let (thread, trap) = match (home, cpu.hidden.take_wanted()) {
        (_, Some(thread)) => (thread, Trap::Interrupt(Interrupts::EMPTY)),
        (Some((index, thread)), None) => (thread, take_out(cpu, index, thread)),
        (None, None) => return None,
    };
    cpu.hidden.went_on();
    if !cpu.hidden.has_come() {
        cpu.due.take(Causes::COME);
    }
    Some((thread, trap))
}
