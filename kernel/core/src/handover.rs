//! Hand-over of threads: this core gives the thread that runs here, or one that it has set up, to a core, which may be itself. It first stores the registers
//! that it holds for the thread.

use core::sync::atomic::Ordering;

use motet_hal::{Interrupts, Machine};
use motet_layout::{CoreId, THREAD_READY, ThreadRecord};
use motet_protocol::{
    Context,
    cores::core_record,
    count, direct, handed, message, noncoherent, ready,
    run_queue::{self, Reserved},
    stacked,
    trace::End,
};

use crate::{
    ability::{self, hidden},
    alarm::reprogram_timer,
    call::end_call,
    cpu::Cpu,
    cputime::{charge, charge_at},
    trace,
};

/// Hands a thread that this core has set up (new, or moved by exec or affinity) to `target`.
pub fn start_on<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    send(cpu, thread, target);
    if target == cpu.id { run_queue::append(cpu, thread) } else { run_queue::push(cpu, thread, target) }
}

/// As [`start_on`], to another core, on which the thread counts already (`run_queue::reserve`).
pub fn start_reserved<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: Reserved) {
    send(cpu, thread, target.core());
    run_queue::push_reserved(cpu, thread, target);
}

/// A thread that this core has is about to be handed to `target`.
fn send<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    // First that it is on its way: should this core die, it is found by that.
    thread.state.store(run_queue::in_transit_by(cpu.id), Ordering::Relaxed);
    thread.core.store(u32::from(target.0), Ordering::Release);
    trace::start(cpu, thread, target);
    if target.island() != cpu.island() {
        count_foreign(cpu, target);
    }
}

/// Gives a thread that this core has, of its ISA, to `target`, if that is idle: by the word of its state, past its inbox. The core waits for the next one so
/// ([`life`](crate::life)). `false`: it is not idle, and the caller still has the thread.
#[inline(always)]
#[must_use]
pub fn give<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) -> bool {
    if target == cpu.id || !direct::sleeps(cpu, target) || cpu.crossing.reach().is_noncoherent() {
        return false;
    }
    thread.state.store(run_queue::in_transit_by(cpu.id), Ordering::Relaxed);
    thread.core.store(u32::from(target.0), Ordering::Release);
    trace::start(cpu, thread, target);
    let is_given = handed::give(cpu, thread, target);
    if is_given {
        cpu.handover.has_given(true);
        if target.island() != cpu.island() {
            count_foreign(cpu, target);
        }
    }
    is_given
}

/// A thread goes to a core of another island.
#[inline(always)]
fn count_foreign<M: Machine>(cpu: &Cpu<M>, target: CoreId) {
    count(&cpu.counters().foreign_wakeups);
    count(&cpu.pool.header().islands[target.island().index()].counters.arrivals);
}

/// Stores the extended registers of the thread that runs here. One that is in the middle of running a guest has executed nothing since they were
/// stored.
#[inline(always)]
pub fn save_ext<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if thread.guest.get() == 0 {
        store_ext(cpu, thread);
    }
}

fn store_ext<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if ability::writes(cpu, thread, || cpu.machine.save_ext(&thread.frame)) {
        has_stored(cpu, thread);
    }
}

/// As [`save_ext`], but at least the registers that C functions preserve ([`Machine::save_kept_ext`]).
#[inline(always)]
pub fn save_kept_ext<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    cpu.machine.save_kept_ext(&thread.frame);
    has_stored(cpu, thread);
}

/// Closes the vector registers of the thread that runs here, and stores its extended registers.
pub fn close_vectors<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if ability::writes(cpu, thread, || cpu.machine.close_vectors(&thread.frame)) {
        has_stored(cpu, thread);
    }
}

/// As [`close_vectors`]; the thread has no use for their values.
#[inline(always)]
pub fn discard_vectors<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    if ability::writes(cpu, thread, || cpu.machine.discard_vectors(&thread.frame)) {
        has_stored(cpu, thread);
    }
}

/// The extended registers of the thread that runs here have been stored: if this core holds them, it still does.
#[inline(always)]
fn has_stored<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    cpu.handover.has_stored(ability::change_ext(thread));
}

/// The thread's saved extended registers were changed: load them before it runs.
pub fn reload_ext<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    has_stored(cpu, thread);
    cpu.machine.load_ext(&thread.frame);
    ability::keep_promise(cpu, thread);
}

/// Loads the thread's extended registers unless this core still holds them.
pub fn take_ext<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let (owner, id, version) = (cpu.raw(thread), thread.tid.get(), thread.ext_version.get());
    if cpu.handover.holds_version(owner, id, version) {
        cpu.machine.keep_ext(&thread.frame);
    } else {
        if thread.guest.get() != 0 && cpu.machine.withhold_ext(&thread.frame) {
            // It is about to run its guest, and may not need them for long.
            cpu.handover.forget();
            return;
        }
        ability::before_load(cpu);
        cpu.machine.load_ext(&thread.frame);
        cpu.handover.hold(owner, id, version);
    }
}

/// Puts the running thread behind all others that wait for this core. The caller leaves it alone afterwards.
pub fn yield_core<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    become_ready(cpu, thread);
    run_queue::append_last(cpu, thread);
}

/// As [`yield_core`], but the thread keeps its turn.
pub fn make_way<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    become_ready(cpu, thread);
    run_queue::append(cpu, thread);
}

/// As [`make_way`], to a more urgent one: before its equals. The thread has been charged.
pub fn step_aside<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    save_ext(cpu, thread);
    say_ready(cpu, thread);
    ready::put_back(cpu, cpu.own, thread);
}

/// The running thread runs no longer, and is about to be put into this core's ready queue.
fn become_ready<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    save_ext(cpu, thread);
    charge(cpu, thread);
    say_ready(cpu, thread);
}

/// The running thread, which has been charged, runs no longer, and is ready.
#[inline(always)]
pub fn say_ready<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) {
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    cpu.tracer.will_end(End::Yielded);
}

/// Puts a thread that ends, and that something else is more urgent than, back among the ready ones. Interrupts that were taken wait for the core's
/// life, which looks at them between two threads.
pub fn put_back<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    reprogram_timer(cpu);
    charge(cpu, thread);
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    if cpu.due.deferred().contains(Interrupts::TIMER) {
        run_queue::append_last(cpu, thread);
    } else {
        run_queue::append(cpu, thread);
    }
}

/// Moves the running thread, whose call has ended, to another core of its ISA. The caller leaves it alone afterwards.
pub fn leave_for<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    end_call(thread);
    move_to(cpu, thread, target);
}

/// Moves the running thread to another core of its ISA. The caller leaves it alone afterwards.
#[inline(always)]
pub fn move_to<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    part_with(cpu, thread);
    if !give(cpu, thread, target) {
        start_on(cpu, thread, target);
    }
}

/// As [`move_to`], where the thread counts already (`run_queue::reserve`).
pub fn move_to_reserved<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: Reserved) {
    part_with(cpu, thread);
    start_reserved(cpu, thread, target);
}

/// This core is about to hand the thread that runs here to another core of its ISA, from which it may come back soon: its address space
/// stays active while this core sleeps.
#[inline(always)]
fn part_with<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    save_ext(cpu, thread);
    charge_at(cpu, thread, cpu.now_ns());
    cpu.crossing.keep_resident(cpu.mm.active());
    cpu.own.current_thread.store(0, Ordering::Release);
}

/// Moves the running thread to a core that has what it needs: an idle one, or that which has least to do, and then which one that is. The caller leaves the
/// thread alone afterwards.
#[inline(always)]
pub fn move_to_able<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<CoreId> {
    part_with(cpu, thread);
    if ability::able_cores(cpu, thread).any(|core| give(cpu, thread, core)) { None } else { send_to_able(cpu, thread) }
}

/// As [`move_to_able`], of a thread that no longer runs here, where no core is idle that has what it needs.
#[cold]
fn send_to_able<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) -> Option<CoreId> {
    // Chosen last: what is seen of the others' loads is to be true still when the thread comes.
    match ability::reserve_least_loaded(cpu, thread) {
        Some(target) if target.core() != cpu.id => {
            let core = target.core();
            start_reserved(cpu, thread, target);
            Some(core)
        }
        none => {
            // Those that there were have died since: here it finds out.
            none.into_iter().for_each(|own| run_queue::unreserve(cpu, own));
            start_on(cpu, thread, cpu.id);
            Some(cpu.id)
        }
    }
}

/// Gives the running thread, whose frame is that of another ISA now, to a core of that ISA. The caller leaves it alone
/// afterwards.
pub fn hand_to<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, target: CoreId) {
    ability::change_ext(thread);
    cpu.handover.forget();
    charge(cpu, thread);
    cpu.own.current_thread.store(0, Ordering::Release);
    start_on(cpu, thread, target);
}

/// Makes the core that runs `thread` look at its attention word soon.
pub fn nudge<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    let Some(core) = CoreId::from_raw(thread.core.load(Ordering::Relaxed)) else { return };
    let record = core_record(cpu, core);
    if core == cpu.id {
        hidden::call_home(cpu, thread);
        // Over links, a function that was called here goes on after an interrupt, unless its thread is wanted.
        if cpu.crossing.reach().is_noncoherent() && record.current_thread.load(Ordering::Relaxed) != cpu.raw(thread) {
            mark_called(cpu, core, thread);
        }
        return;
    }
    let called =
        record.current_thread.load(Ordering::SeqCst) != cpu.raw(thread) && !stacked::waits_in(cpu, core, thread);
    let is_away = thread.moves.away.load(Ordering::SeqCst) != 0;
    if called && !is_away && !mark_called(cpu, core, thread) {
        return;
    }
    count(&cpu.counters().doorbells_rung);
    cpu.ring(core);
}

/// Tells a core that is called to run a function of a thread, or about to be, that somebody wants the thread: it is to be rung then.
/// `false`: it is not called for that.
fn mark_called<M: Machine>(cpu: &Cpu<M>, core: CoreId, thread: &'static ThreadRecord) -> bool {
    let is_for = |found: Option<&'static ThreadRecord>| found.is_some_and(|found| core::ptr::eq(found, thread));
    let record = core_record(cpu, core);
    if cpu.crossing.reach().is_noncoherent() {
        // Of an earlier call, at worst: then the next one becomes an ordinary thread.
        let slot = record.calls.iter().find(|slot| is_for(message::thread_in(cpu, slot.message[0].get())));
        // One that an engine carries may be under way.
        let departing = || {
            let is_it = |word| is_for(message::thread_in(cpu, word));
            if cpu.crossing.reach().has_engine() { noncoherent::departing(cpu, core, is_it) } else { None }
        };
        let slot = slot.or_else(departing);
        slot.map(noncoherent::mark_attention);
        return slot.is_some();
    }
    let is_called = direct::is_called(record) && is_for(message::thread_of(cpu, record));
    if is_called {
        direct::mark_attention(cpu, core);
    }
    is_called
}
